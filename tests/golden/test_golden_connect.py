"""Every recorded round of Kafka Connect's assignors by the kernels alone, and the sequences with their own memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from itertools import chain

import pytest

from spark_assign.connect.kernel.assignor_state import AssignorState
from spark_assign.connect.kernel.connector_task_ids import Names
from spark_assign.connect.kernel.hash_set_order import walk
from spark_assign.connect.kernel.lost_assignments import handle_lost
from spark_assign.connect.kernel.rebalance_input import RebalanceInput
from spark_assign.connect.kernel.worker_load import WorkerLoads
from tests.golden import connect_rows
from tests.golden.connect_rows import MISMATCH, Answer, Numbers, Row, answer, asked, expected
from tests.golden.connect_sequences import Workers

pytestmark = pytest.mark.once

FILES = ("connect", "connect-2.6", "connect-90x10")
ROUNDS = {"connect": (4_759, 71, 67), "connect-2.6": (2_646, 24, 40), "connect-90x10": (741, 0, 0)}
"""Of each file how many rounds, all compared; in how many the leader was behind; and how many say nothing of who joins
again, as they are of Kafka's unit tests."""

SEQUENCES = {
    "connect": {"sequences": 447, "rounds": 4_692, "reports": 20_233, "came back": 123, "memories": 3_742},
    "connect-2.6": {"sequences": 254, "rounds": 2_606, "reports": 9_619, "came back": 116, "memories": 2_242},
    "connect-90x10": {"sequences": 3, "rounds": 741, "reports": 2_233, "came back": 0, "memories": 554},
}
"""What was followed: of workers that were cut off `came back` is how often one returned with what it kept, and
`memories` how often a leader remembered something."""


@cache
def _answers(file: str) -> list[tuple[Row, Answer]]:
    """Every round with what is answered to it."""
    return [(row, answer(row)) for row in connect_rows.rounds(file)]


@pytest.mark.parametrize("file", FILES)
def test_every_round_is_as_kafka_recorded_it(file: str) -> None:
    """Assigned item by item as it is handed out, revoked, delay, error, state after, and who joins again at once."""
    rows = connect_rows.rounds(file)
    wrong = [f"{row['sequence']}/{row['round']}" for row, got in _answers(file) if got.said != expected(row)]
    assert not wrong, f"{len(wrong)} rounds differ, e.g. {wrong[:5]}"
    behind = [row["outcome"] == MISMATCH for row in rows]
    assert behind == [not asked(row) for row in rows]
    alone = sum("rejoin_now" not in expected(row) for row in rows)
    assert (len(rows), sum(behind), alone) == ROUNDS[file]


@pytest.mark.parametrize("file", FILES)
def test_sequences_with_their_own_memory(file: str) -> None:
    """Of the recorded rounds only the events are taken, and who did not learn a result.

    The state after our own round is the state before the leader's next, reports follow from our own results, and the
    last completed generation from who learned what; also after rounds in which the leader was behind.
    """
    counted = Counter[str]()
    sequences: dict[str, list[tuple[Row, Answer]]] = defaultdict(list)
    for row, got in _answers(file):
        if row["leader"] is not None:
            sequences[row["sequence"]].append((row, got))
    for name, rows in sequences.items():
        workers = Workers()
        for number, (row, got) in enumerate(rows):
            where = f"{name}/{row['round']}"
            workers.happens(row)
            leader = workers.there[row["leader"]]
            assert (workers.leader, row["round"]) == (row["leader"], number), where
            assert row["generation"] == rows[0][0]["generation"] + number, where
            assert row["last_completed_generation"] == leader.completed, where
            numbers = Numbers.of(row)
            assert row["members"] == workers.reports(row, numbers), where
            if "previous" in row:
                own = leader.memory or numbers.state(AssignorState(), row["previous"])
                assert connect_rows.state_in_sets(row["previous"]) == own, where
                counted["memories"] += leader.memory is not None
            assert got.said == expected(row), where
            workers.learn(row, numbers, got)
            counted["reports"] += len(row["members"])
        counted["came back"] += workers.came_back
        counted["rounds"] += len(rows)
    counted["sequences"] = len(sequences)
    assert counted == SEQUENCES[file]


def test_single_steps_of_2_6() -> None:
    """Step 4 alone (`…/lost`) and step 6 alone (`…/spread`), as Kafka's own tests call them."""
    steps = [row for row in connect_rows.recorded("connect-2.6") if "/" in row["system"]]
    for row in steps:
        # Some of Kafka's tests leave the load of a worker that is gone where it was; nothing is added to it.
        there = row.get("members_now", [each["worker"] for each in row["loads"]])
        loads = [each for each in row["loads"] if each["worker"] in there]
        numbers = Numbers(
            {task.rpartition("-")[0] for each in row["loads"] for task in each["tasks"]}
            | {name for each in [*row["loads"], row.get("lost", NONE)] for name in each["connectors"]}
            | {task.rpartition("-")[0] for task in [*row.get("lost", NONE)["tasks"], *_tasks(row)]}
            | set(row.get("items", ()) if row.get("kind") == "connectors" else ()),
            {each["worker"] for each in loads}
            | set(row.get("previous", NONE)["members"])
            | set(row.get("previous", NONE)["candidates"]),
        )
        held = [numbers.items(each) for each in loads]
        connectors, tasks = WorkerLoads([each[0] for each in held]), WorkerLoads([each[1] for each in held])
        if row["system"].endswith("/spread"):
            both = {"connectors": connectors, "tasks": tasks}
            items = {"connectors": [], "tasks": [], row["kind"]: row["items"]}
            new = numbers.items(items)[0 if row["kind"] == "connectors" else 1]
            by_id = sorted(range(len(loads)), key=lambda at: numbers.worker(loads[at]["worker"]))
            both[row["kind"]].spread(new, by_id)
        else:
            _check_lost(row, numbers, loads, connectors, tasks)
        got = {each["worker"]: {kind: each[kind] for kind in ("connectors", "tasks")} for each in row["loads"]}
        for at, each in enumerate(loads):
            got[each["worker"]] = numbers.listed([*connectors.items[at], *tasks.items[at]])
        want = {
            each["worker"]: {kind: each[kind] for kind in ("connectors", "tasks")} for each in row["expect"]["loads"]
        }
        assert got == want, row["sequence"]
    assert len(steps) == 21


NONE: dict[str, list[str]] = {"connectors": [], "tasks": [], "members": [], "candidates": []}


def _tasks(row: Row) -> list[str]:
    return row["items"] if row.get("kind") == "tasks" else []


def _check_lost(row: Row, numbers: Numbers, loads: list[Row], connectors: WorkerLoads, tasks: WorkerLoads) -> None:
    told = RebalanceInput(
        workers=[numbers.worker(each["worker"]) for each in loads],
        reported=[],
        configured=set(),
        configured_tasks=0,
        now_ms=row["now_ms"],
        max_delay_ms=row["max_delay_ms"],
        generation_id=0,
        last_completed_generation_id=0,
        worker_spread=numbers.workers.spread,
        memory=numbers.memory(row["previous"]),
    )
    lost = sorted(chain(*numbers.items(row["lost"])))
    as_new = handle_lost(lost, told, connectors, tasks, told.memory, at_once_without_delay=False)
    assert numbers.listed(as_new) == row["expect"]["new"], row["sequence"]
    state = numbers.state(told.memory, row["expect"]["state"])
    assert state == connect_rows.state_in_sets(row["expect"]["state"]), row["sequence"]


def test_workers_are_walked_as_recorded() -> None:
    """The recorded walks are those of a HashMap; only inside a bucket it matters in which order workers were put in."""
    orders = {tuple(row["member_order"]) for row in connect_rows.rounds("connect", "connect-2.6")}
    by_id = 0
    for recorded in orders:
        names = Names(recorded)
        numbers = names.numbers()
        assert walk([numbers[each] for each in recorded], names.spread) == [numbers[each] for each in recorded]
        by_id += walk(range(len(recorded)), names.spread) == [numbers[each] for each in recorded]
    # So many orders follow from putting workers in sorted by id, which is the rule where no positions are known.
    assert (by_id, len(orders)) == (1_984, 2_742)
