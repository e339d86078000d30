"""Every recorded round of Kafka Connect's assignors by the kernels alone, and the sequences with their own memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import chain
from typing import Any

import pytest

from spark_assign.kernels.connect.items import Names, parted
from spark_assign.kernels.connect.loads import Loads
from spark_assign.kernels.connect.lost import handle_lost
from spark_assign.kernels.connect.orders import walk
from spark_assign.kernels.connect.round import Round
from spark_assign.kernels.connect.wire import list_after, over_the_wire
from tests.golden import connect_rows
from tests.golden.connect_rows import MISMATCH, Listed, Numbers, Row, answer, expected

pytestmark = pytest.mark.once

FILES = ("connect", "connect-2.6", "connect-90x10")


@pytest.mark.parametrize("file", FILES)
def test_every_round_is_as_kafka_recorded_it(file: str) -> None:
    """Assigned, revoked, delay and the state after; rounds in which no assignor was asked are left out."""
    rows = connect_rows.rounds(file)
    asked = [row for row in rows if row["outcome"] != MISMATCH]
    wrong = [f"{row['sequence']}/{row['round']}" for row in asked if answer(row) != expected(row)]
    print(f"{file}: {len(asked)} rounds, left out {len(rows) - len(asked)} {MISMATCH}")
    assert not wrong, f"{len(wrong)} rounds differ, e.g. {wrong[:5]}"
    assert len(asked) > 700


@pytest.mark.parametrize("file", FILES)
def test_sequences_with_their_own_memory(file: str) -> None:
    """The state after our own round is the state before the leader's next; reports follow from our own results.

    Not derivable: what a worker reports that was cut off, kept what it ran and came back under another name.
    """
    counted = Counter[str]()
    sequences: dict[str, list[Row]] = defaultdict(list)
    for row in connect_rows.rounds(file):
        if row["leader"] is not None:
            sequences[row["sequence"]].append(row)
    for name, rows in sequences.items():
        memory: dict[str, Any] = {}
        lists: dict[str, Listed | None] = {}
        for row in rows:
            where = f"{name}/{row['round']}"
            lists = _before(row, lists)
            memory = {
                leader: state for leader, state in memory.items() if f"worker {leader} leaves" not in row["events"]
            }
            for worker, reported in _reports(row, lists).items():
                assert row["members"][worker] == reported, f"{where}: what {worker} reports"
                counted["reports derived"] += 1
            counted["reports"] += len(row["members"])
            if row["outcome"] == MISMATCH:
                counted[MISMATCH] += 1
                continue
            before = memory.get(row["leader"])
            said = answer(row, before)
            assert said == expected(row), where
            if "state" in said:
                memory[row["leader"]] = connect_rows.state_in_row(said["state"])
            counted["with own memory" if before else "first of a leader"] += 1
            lists = _after(row, lists)
    print(f"{file}: {len(sequences)} sequences, {dict(counted)}")
    assert counted["reports derived"] > 0.9 * counted["reports"]


def _before(row: Row, lists: dict[str, Listed | None]) -> dict[str, Listed | None]:
    """What each worker of a round lists: nothing if it is new; null if that does not follow from the rounds before."""
    known: dict[str, Listed | None] = {}
    for worker in row["members"]:
        events = " | ".join(event for event in row["events"] if worker in event.split())
        if "reports what it kept" in events:
            known[worker] = None
        elif "leaves" in events or worker not in lists:
            known[worker] = {"connectors": [], "tasks": []}
        else:
            known[worker] = lists[worker]
    return known


def _reports(row: Row, lists: dict[str, Listed | None]) -> dict[str, Listed]:
    """What the workers report: what they list, after a trip over the wire; with eager nothing."""
    numbers = Numbers.of(row)
    reports = {}
    for worker, listed in lists.items():
        if listed is not None:
            eager = row["system"] == "connect-eager"
            sent = ([], []) if eager else over_the_wire(*numbers.items(listed), numbers.connectors.spread)
            reports[worker] = numbers.listed([*sent[0], *sent[1]])
    return reports


def _after(row: Row, lists: dict[str, Listed | None]) -> dict[str, Listed | None]:
    """What the workers list after a round, if they have learned its result.

    The recorded order in which the leader hands out is taken; that the same is handed out is checked before.
    """
    numbers = Numbers.of(row)
    after = dict(lists)
    for worker, listed in lists.items():
        if listed is not None and worker not in row["not_applied"] and row["system"] != "connect-eager":
            assigned = numbers.items(row["expect"]["assigned"][worker])
            revoked = set().union(*numbers.items(row["expect"]["revoked"][worker]))
            both = list_after(numbers.items(listed), assigned, revoked, numbers.connectors.spread)
            after[worker] = numbers.listed([*both[0], *both[1]])
    return after


@pytest.mark.parametrize("file", FILES)
def test_results_are_handed_out_in_the_recorded_order(file: str) -> None:
    """Item by item as Kafka's class hands it out; of eager the trip over the wire was recorded, too."""
    for row in connect_rows.rounds(file)[::8]:
        if row["outcome"] == MISMATCH:
            continue
        numbers = Numbers.of(row)
        result = connect_rows.result_of(row, numbers)
        for name, items in zip(row["member_order"], result.assigned, strict=True):
            if row["system"] == "connect-eager":
                items = [*chain(*over_the_wire(*parted(items), numbers.connectors.spread))]
            assert numbers.listed(items) == row["expect"]["assigned"][name], f"{row['sequence']}/{row['round']}"


def test_single_steps_of_2_6() -> None:
    """Step 4 alone (`…/lost`) and step 6 alone (`…/spread`), as Kafka's own tests call them."""
    steps = [row for row in connect_rows.recorded("connect-2.6") if "/" in row["system"]]
    for row in steps:
        # Some of Kafka's tests leave the load of a worker that is gone where it was.
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
        connectors, tasks = Loads([each[0] for each in held]), Loads([each[1] for each in held])
        if row["system"].endswith("/spread"):
            both = {"connectors": connectors, "tasks": tasks}
            items = {"connectors": [], "tasks": [], row["kind"]: row["items"]}
            new = numbers.items(items)[0 if row["kind"] == "connectors" else 1]
            by_id = sorted(range(len(loads)), key=lambda at: numbers.worker(loads[at]["worker"]))
            both[row["kind"]].spread(new, by_id)
        else:
            _check_lost(row, numbers, loads, connectors, tasks)
        got = {
            each["worker"]: numbers.listed([*connectors.items[at], *tasks.items[at]]) for at, each in enumerate(loads)
        }
        want = {
            each["worker"]: {kind: each[kind] for kind in ("connectors", "tasks")} for each in row["expect"]["loads"]
        }
        assert got.items() <= want.items(), row["sequence"]
    assert len(steps) == 21


NONE: dict[str, list[str]] = {"connectors": [], "tasks": [], "members": [], "candidates": []}


def _tasks(row: Row) -> list[str]:
    return row["items"] if row.get("kind") == "tasks" else []


def _check_lost(row: Row, numbers: Numbers, loads: list[Row], connectors: Loads, tasks: Loads) -> None:
    told = Round(
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
    assert (
        state
        == connect_rows.expected({"expect": {**row["expect"], "assigned": {}, "revoked": {}, "delay_ms": 0}})["state"]
    )


def test_workers_are_walked_as_recorded() -> None:
    """The recorded walks are those of a HashMap; only inside a bucket it matters in which order workers were put in."""
    orders = {tuple(row["member_order"]) for row in connect_rows.rounds("connect", "connect-2.6")}
    by_id = 0
    for recorded in orders:
        names = Names(recorded)
        numbers = names.numbers()
        assert walk([numbers[each] for each in recorded], names.spread) == [numbers[each] for each in recorded]
        by_id += walk(range(len(recorded)), names.spread) == [numbers[each] for each in recorded]
    print(f"{by_id} of {len(orders)} orders follow from putting workers in sorted by id, the rule without positions")
    assert by_id > 0.7 * len(orders)
