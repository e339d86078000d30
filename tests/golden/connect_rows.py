"""The golden rounds of Kafka Connect as rounds of the kernels, and what the kernels answer in the rows' own words.

Rows with `config-mismatch` are left out, with their count: there the leader was behind, and no assignor was asked.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from spark_assign.kernels.connect import eager, incremental, incremental_2_6
from spark_assign.kernels.connect.items import Names, connector_item, is_task, named, task_item
from spark_assign.kernels.connect.memory import Memory
from spark_assign.kernels.connect.round import Result, Round

FOLDER = Path(__file__).parent
Row = dict[str, Any]
"""One round, as `README-other.md` (sections 2 and 2b) describes it."""

Listed = dict[str, list[str]]
ASSIGNORS = {
    "connect-eager": eager.rebalance,
    "connect-cooperative": incremental.rebalance,
    "connect-cooperative-2.6": incremental_2_6.rebalance,
}
MISMATCH = "config-mismatch"
_FOUND = "numbers"


@cache
def recorded(file: str) -> tuple[Row, ...]:
    """All rows of one file, the single steps of 2.6 (`…/lost`, `…/spread`) included; to be read only."""
    with gzip.open(FOLDER / f"{file}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return tuple(map(json.loads, lines))


def rounds(*files: str) -> list[Row]:
    """The whole rounds of these files."""
    return [row for file in files for row in recorded(file) if row["system"] in ASSIGNORS]


class Numbers:
    """The numbers of one row's names."""

    def __init__(self, connectors: Iterable[str], workers: Iterable[str]) -> None:
        self.connectors, self.workers = Names(connectors), Names(workers)
        self._connector, self._worker = self.connectors.numbers(), self.workers.numbers()

    @classmethod
    def of(cls, row: Row) -> Numbers:
        """All names that stand in a round; found once for each."""
        if _FOUND not in row:
            row[_FOUND] = cls._of(row)
        found: Numbers = row[_FOUND]
        return found

    @classmethod
    def _of(cls, row: Row) -> Numbers:
        listed = [*row["members"].values()]
        before = row.get("previous")
        if before:
            listed += [before["assignment"], before["revocation"]]
        connectors = {name for each in listed for name in each["connectors"]} | set(row["configured"])
        connectors |= {task.rpartition("-")[0] for each in listed for task in each["tasks"]}
        known = [*before["members"], *before["candidates"]] if before else []
        return cls(connectors, [*row["members"], *known])

    def worker(self, name: str) -> int:
        """A worker's number."""
        return self._worker[name]

    def items(self, listed: Listed) -> tuple[list[int], list[int]]:
        """Connectors and tasks as numbers, in order."""
        tasks = [each.rpartition("-") for each in listed["tasks"]]
        return (
            [connector_item(self._connector[name]) for name in listed["connectors"]],
            [task_item(self._connector[name], int(number)) for name, _, number in tasks],
        )

    def listed(self, items: Iterable[int]) -> Listed:
        """Numbers as connectors and tasks, in order."""
        found: Listed = {"connectors": [], "tasks": []}
        for item in items:
            name, task = named(item, self.connectors.texts)
            if is_task(item):
                found["tasks"].append(f"{name}-{task}")
            else:
                found["connectors"].append(name)
        return found

    def memory(self, state: dict[str, Any] | None) -> Memory:
        """A recorded state as the leader's memory."""
        if state is None:
            return Memory()
        flags = ("revoked_in_previous", "can_revoke", "successive_revoking_rebalances")
        return Memory(
            assignment=set().union(*self.items(state["assignment"])),
            revocation=set().union(*self.items(state["revocation"])),
            candidates=[self.worker(name) for name in state["candidates"]],
            scheduled_rebalance_ms=state["scheduled_rebalance_ms"],
            delay_ms=state["delay_ms"],
            generation_id=state["generation"],
            members=[self.worker(name) for name in state["members"]],
            **{flag: state[flag] for flag in flags if flag in state},
        )

    def state(self, memory: Memory, like: dict[str, Any]) -> dict[str, Any]:
        """A memory in the words of a recorded state, with the fields that this one has."""
        fields = {
            "assignment": _sets(self.listed(memory.assignment)),
            "revocation": _sets(self.listed(memory.revocation)),
            "candidates": [self.workers.texts[each] for each in memory.candidates],
            "members": {self.workers.texts[each] for each in memory.members},
            "generation": memory.generation_id,
            "revoked_in_previous": memory.revoked_in_previous,
            "can_revoke": memory.can_revoke,
            "scheduled_rebalance_ms": memory.scheduled_rebalance_ms,
            "delay_ms": memory.delay_ms,
            "successive_revoking_rebalances": memory.successive_revoking_rebalances,
        }
        return {name: fields[name] for name in like}


def round_of(row: Row, numbers: Numbers, memory: Memory) -> Round:
    """A row as a round; `memory` is the leader's."""
    configured = {
        "connectors": list(row["configured"]),
        "tasks": [t for some in row["configured"].values() for t in some],
    }
    return Round(
        workers=[numbers.worker(name) for name in row["member_order"]],
        reported=[numbers.items(row["members"][name]) for name in row["member_order"]],
        configured=set().union(*numbers.items(configured)),
        configured_tasks=len(configured["tasks"]),
        now_ms=row["now_ms"],
        max_delay_ms=row["max_delay_ms"],
        generation_id=row["generation"],
        last_completed_generation_id=row["last_completed_generation"],
        worker_spread=numbers.workers.spread,
        memory=memory,
    )


def answer(row: Row, memory_of: dict[str, Any] | None = None) -> dict[str, Any]:
    """What the kernel answers to a row, in the shape of `expected`; `memory_of` replaces the recorded state before."""
    told = row if memory_of is None else {**row, "previous": memory_of}
    numbers = Numbers.of(told)
    return _in_words(row, numbers, result_of(told, numbers))


def result_of(row: Row, numbers: Numbers) -> Result:
    """The kernel's own answer to a row."""
    return ASSIGNORS[row["system"]](round_of(row, numbers, numbers.memory(row.get("previous"))))


def _in_words(row: Row, numbers: Numbers, result: Result) -> dict[str, Any]:
    expect = row["expect"]
    said: dict[str, Any] = {
        "assigned": {
            name: _sets(numbers.listed(items)) for name, items in zip(row["member_order"], result.assigned, strict=True)
        },
        "revoked": {
            name: _sets(numbers.listed(result.revoked.get(numbers.worker(name), ()))) for name in row["member_order"]
        },
        "delay_ms": result.delay_ms,
    }
    if "state" in expect:
        said["state"] = numbers.state(result.memory, expect["state"])
    return said


def expected(row: Row) -> dict[str, Any]:
    """What Kafka's class answered, lists as sets where their order says nothing."""
    expect = row["expect"]
    want: dict[str, Any] = {
        name: {worker: _sets(listed) for worker, listed in expect[name].items()} for name in ("assigned", "revoked")
    }
    want["delay_ms"] = expect["delay_ms"]
    if "state" in expect:
        want["state"] = {
            **expect["state"],
            "assignment": _sets(expect["state"]["assignment"]),
            "revocation": _sets(expect["state"]["revocation"]),
            "members": set(expect["state"]["members"]),
        }
    return want


def state_in_row(said: dict[str, Any]) -> dict[str, Any]:
    """A state of `answer` as a row holds it, to be fed forward."""
    return {
        **said,
        "assignment": {kind: sorted(items) for kind, items in said["assignment"].items()},
        "revocation": {kind: sorted(items) for kind, items in said["revocation"].items()},
        "members": sorted(said["members"]),
    }


def _sets(listed: Listed) -> dict[str, set[str]]:
    return {kind: set(items) for kind, items in listed.items()}
