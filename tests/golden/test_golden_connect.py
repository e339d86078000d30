"""Every recorded rebalance of Kafka Connect's assignors, and the sequences with their own state, without Spark."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from itertools import chain

import pytest

from spark_assign.assignors.connect.connectors_and_tasks import Names, hash_set_order
from spark_assign.assignors.connect.incremental_cooperative_assignor import WorkerLoads, handle_lost_assignments
from spark_assign.assignors.connect.rebalance_input import AssignorState, RebalanceInput
from spark_assign.connect.kernel.indexed_facts import IndexedConnectFacts, to_facts
from tests.golden import connect_rows
from tests.golden.connect_rows import MISMATCH, Row, RowNames, RowResult, calls_assignor, expected, plan_row
from tests.golden.connect_sequences import Workers

pytestmark = pytest.mark.once

FILES = ("connect", "connect-2.6", "connect-90x10")
ROUNDS = {"connect": (4_759, 71, 67), "connect-2.6": (2_646, 24, 40), "connect-90x10": (741, 0, 0)}
"""By file, the number of rounds; of rounds in which the leader is behind; and of rounds of Kafka's unit tests, which
don't record who rejoins."""

SEQUENCES = {
    "connect": {"sequences": 447, "rounds": 4_692, "reports": 20_233, "came back": 123, "memories": 3_742},
    "connect-2.6": {"sequences": 254, "rounds": 2_606, "reports": 9_619, "came back": 116, "memories": 2_242},
    "connect-90x10": {"sequences": 3, "rounds": 741, "reports": 2_233, "came back": 0, "memories": 554},
}
"""Compared numbers by file. `came back`: workers that were cut off and returned with their items; `memories`: leaders
with a state."""


@cache
def _results(file: str) -> list[tuple[Row, RowResult]]:
    """Returns every round with its result."""
    return [(row, plan_row(row)) for row in connect_rows.rounds(file)]


@pytest.mark.parametrize("file", FILES)
def test_every_round_is_as_kafka_recorded_it(file: str) -> None:
    """Assigned items in order, revoked items, delay, error, the state afterward, and whether workers rejoin at once."""
    rows = connect_rows.rounds(file)
    wrong = [f"{row['sequence']}/{row['round']}" for row, result in _results(file) if result.fields != expected(row)]
    assert not wrong, f"{len(wrong)} rounds differ, e.g. {wrong[:5]}"
    behind = [row["outcome"] == MISMATCH for row in rows]
    assert behind == [not calls_assignor(row) for row in rows]
    num_unit_tests = sum("rejoin_now" not in expected(row) for row in rows)
    assert (len(rows), sum(behind), num_unit_tests) == ROUNDS[file]


@pytest.mark.parametrize("file", FILES)
def test_sequences_with_their_own_state(file: str) -> None:
    """Only the recorded events are used, and the workers that don't receive a result.

    The state after a round is the state before the leader's next one, reports follow from our own results, and the last
    completed generation from the received results, also after rounds in which the leader is behind.
    """
    counted = Counter[str]()
    sequences: dict[str, list[tuple[Row, RowResult]]] = defaultdict(list)
    for row, result in _results(file):
        if row["leader"] is not None:
            sequences[row["sequence"]].append((row, result))
    for name, rows in sequences.items():
        workers = Workers()
        for number, (row, result) in enumerate(rows):
            where = f"{name}/{row['round']}"
            workers.apply_events(row)
            leader = workers.members[row["leader"]]
            assert (workers.leader, row["round"]) == (row["leader"], number), where
            assert row["generation"] == rows[0][0]["generation"] + number, where
            assert row["last_completed_generation"] == leader.completed, where
            row_names = RowNames.of(row)
            assert row["members"] == workers.reports(row, row_names), where
            if "previous" in row:
                own = leader.state or row_names.recorded_state(AssignorState(), row["previous"])
                assert connect_rows.state_in_sets(row["previous"]) == own, where
                counted["memories"] += leader.state is not None
            assert result.fields == expected(row), where
            workers.learn(row, row_names, result)
            counted["reports"] += len(row["members"])
        counted["came back"] += workers.returned
        counted["rounds"] += len(rows)
    counted["sequences"] = len(sequences)
    assert counted == SEQUENCES[file]


def test_single_steps_of_2_6() -> None:
    """Lost assignments (`…/lost`) and new assignments (`…/spread`), called directly as Kafka's tests do."""
    steps = [row for row in connect_rows.recorded("connect-2.6") if "/" in row["system"]]
    for row in steps:
        # Some of Kafka's tests keep the load of a departed worker; nothing is added to it.
        members = row.get("members_now", [load["worker"] for load in row["loads"]])
        loads = [load for load in row["loads"] if load["worker"] in members]
        row_names = RowNames(
            {task.rpartition("-")[0] for load in row["loads"] for task in load["tasks"]}
            | {name for load in [*row["loads"], row.get("lost", NONE)] for name in load["connectors"]}
            | {task.rpartition("-")[0] for task in [*row.get("lost", NONE)["tasks"], *_tasks(row)]}
            | set(row.get("items", ()) if row.get("kind") == "connectors" else ()),
            {load["worker"] for load in loads}
            | set(row.get("previous", NONE)["members"])
            | set(row.get("previous", NONE)["candidates"]),
        )
        reported = [row_names.items(load) for load in loads]
        connectors, tasks = WorkerLoads([load[0] for load in reported]), WorkerLoads([load[1] for load in reported])
        if row["system"].endswith("/spread"):
            both = {"connectors": connectors, "tasks": tasks}
            items = {"connectors": [], "tasks": [], row["kind"]: row["items"]}
            new = row_names.items(items)[0 if row["kind"] == "connectors" else 1]
            by_id = sorted(range(len(loads)), key=lambda at: row_names.worker(loads[at]["worker"]))
            both[row["kind"]].assign(new, by_id)
        else:
            _check_lost(row, row_names, loads, connectors, tasks)
        got = {load["worker"]: {kind: load[kind] for kind in ("connectors", "tasks")} for load in row["loads"]}
        for at, load in enumerate(loads):
            got[load["worker"]] = row_names.listed([*connectors.items[at], *tasks.items[at]])
        assert got == {
            load["worker"]: {kind: load[kind] for kind in ("connectors", "tasks")} for load in row["expect"]["loads"]
        }, row["sequence"]
    assert len(steps) == 21


NONE: dict[str, list[str]] = {"connectors": [], "tasks": [], "members": [], "candidates": []}


def _tasks(row: Row) -> list[str]:
    return row["items"] if row.get("kind") == "tasks" else []


def _check_lost(row: Row, row_names: RowNames, loads: list[Row], connectors: WorkerLoads, tasks: WorkerLoads) -> None:
    rebalance = RebalanceInput(
        workers=[row_names.worker(load["worker"]) for load in loads],
        reported=[],
        configured=set(),
        configured_tasks=0,
        now_ms=row["now_ms"],
        max_delay_ms=row["max_delay_ms"],
        generation_id=0,
        last_completed_generation_id=0,
        worker_spread_hash=row_names.workers.spread_hash,
        state=row_names.assignor_state(row["previous"]),
    )
    lost = sorted(chain(*row_names.items(row["lost"])))
    new = handle_lost_assignments(lost, rebalance, (connectors, tasks), rebalance.state, reassign_if_no_delay=False)
    assert row_names.listed(new) == row["expect"]["new"], row["sequence"]
    state = row_names.recorded_state(rebalance.state, row["expect"]["state"])
    assert state == connect_rows.state_in_sets(row["expect"]["state"]), row["sequence"]


def test_workers_are_iterated_as_recorded() -> None:
    """The recorded orders are those of a `HashMap`; the order of insertion matters only within a bucket."""
    orders = {tuple(row["member_order"]) for row in connect_rows.rounds("connect", "connect-2.6")}
    by_id = 0
    for recorded in orders:
        names = Names(recorded)
        workers = list(map(names.indexes().__getitem__, recorded))
        assert hash_set_order(workers, names.spread_hash) == workers
        by_id += hash_set_order(range(len(workers)), names.spread_hash) == workers
    # The number of orders that follow from inserting workers sorted by id, the rule if no positions are known.
    assert (by_id, len(orders)) == (1_984, 2_742)
    recorded_orders = {f"{number:05}": list(order) for number, order in enumerate(orders)}
    workers = [{"connect_cluster": name, "worker_id": each} for name, o in recorded_orders.items() for each in o]
    indexed = IndexedConnectFacts(to_facts({"workers": workers}))
    found: dict[str, list[str]] = {name: [] for name in recorded_orders}
    for at in indexed.ordered_workers().tolist():
        found[indexed.clusters[indexed.cluster[at]]].append(indexed.workers.texts[indexed.name[at]])
    assert sum(found[name] == recorded_orders[name] for name in recorded_orders) == by_id
