"""The golden rounds of Kafka Connect as rounds of the kernels, and what the kernels answer in the rows' own words.

Where the leader's configuration is behind (`config-mismatch`), no assignor is asked: everybody gets an error, nothing
is assigned or revoked, the memory stays as it is, and all join again at once.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from spark_assign.connect.kernel import eager, incremental, incremental_2_6
from spark_assign.connect.kernel.assignor_state import AssignorState
from spark_assign.connect.kernel.connector_task_ids import Names, connector_item, is_task, named, parted, task_item
from spark_assign.connect.kernel.rebalance_input import Listed as Numbered
from spark_assign.connect.kernel.rebalance_input import RebalanceInput
from spark_assign.connect.kernel.serialized_order import over_the_wire

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
            name, task = named(item, self.connectors.names)
            if is_task(item):
                found["tasks"].append(f"{name}-{task}")
            else:
                found["connectors"].append(name)
        return found

    def memory(self, state: dict[str, Any] | None) -> AssignorState:
        """A recorded state as the leader's memory."""
        if state is None:
            return AssignorState()
        flags = ("revoked_in_previous", "can_revoke", "successive_revoking_rebalances")
        return AssignorState(
            assignment=set().union(*self.items(state["assignment"])),
            revocation=set().union(*self.items(state["revocation"])),
            candidates=[self.worker(name) for name in state["candidates"]],
            scheduled_rebalance_ms=state["scheduled_rebalance_ms"],
            delay_ms=state["delay_ms"],
            generation_id=state["generation"],
            members=[self.worker(name) for name in state["members"]],
            **{flag: state[flag] for flag in flags if flag in state},
        )

    def state(self, memory: AssignorState, like: dict[str, Any]) -> dict[str, Any]:
        """A memory in the words of a recorded state, with the fields that this one has."""
        fields = {
            "assignment": _sets(self.listed(memory.assignment)),
            "revocation": _sets(self.listed(memory.revocation)),
            "candidates": [self.workers.names[each] for each in memory.candidates],
            "members": {self.workers.names[each] for each in memory.members},
            "generation": memory.generation_id,
            "revoked_in_previous": memory.revoked_in_previous,
            "can_revoke": memory.can_revoke,
            "scheduled_rebalance_ms": memory.scheduled_rebalance_ms,
            "delay_ms": memory.delay_ms,
            "successive_revoking_rebalances": memory.successive_revoking_rebalances,
        }
        return {name: fields[name] for name in like}


def round_of(row: Row, numbers: Numbers, memory: AssignorState) -> RebalanceInput:
    """A row as a round; `memory` is the leader's."""
    configured = {
        "connectors": list(row["configured"]),
        "tasks": [t for some in row["configured"].values() for t in some],
    }
    return RebalanceInput(
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


def asked(row: Row) -> bool:
    """Whether the leader asks its assignor: it has read the configuration as far as any worker, or does so now.

    In rows of unit tests there are no offsets, and the assignor is called as it is.
    """
    if row["leader"] is None:
        return True
    read: int = max(row["leader_config_offset"], row["leader_fresh_config_offset"])
    return read >= int(row["max_config_offset"])


@dataclass(frozen=True)
class Answer:
    """What was answered.

    Attributes:
        said: in the shape of `expected`.
        assigned: of each worker, in the order in which the leader hands it out.
    """

    said: dict[str, Any]
    assigned: dict[str, Numbered]


def answer(row: Row) -> Answer:
    """What is answered to a row: by the kernel, or by the leader that is behind."""
    numbers = Numbers.of(row)
    memory = numbers.memory(row.get("previous"))
    assigned: dict[str, Numbered] = {name: ([], []) for name in row["member_order"]}
    revoked: dict[int, set[int]] = {}
    delay_ms = 0
    if asked(row):
        result = ASSIGNORS[row["system"]](round_of(row, numbers, memory))
        assigned = dict(zip(row["member_order"], map(parted, result.assigned), strict=True))
        revoked, delay_ms, memory = result.revoked, result.delay_ms, result.memory
    said: dict[str, Any] = {
        "assigned": {name: numbers.listed(_handed_out(row, numbers, items)) for name, items in assigned.items()},
        "revoked": {name: _sets(numbers.listed(revoked.get(numbers.worker(name), ()))) for name in assigned},
        "delay_ms": delay_ms,
        "error": 0 if asked(row) else 1,
    }
    if "state" in row["expect"]:
        said["state"] = numbers.state(memory, row["expect"]["state"])
    if row.get("rejoin_now") is not None:
        gives_up = {numbers.workers.names[worker] for worker in revoked} - {*row["not_applied"]}
        said["rejoin_now"] = bool(gives_up or row["not_applied"] or not asked(row))
    return Answer(said, assigned)


def _handed_out(row: Row, numbers: Numbers, items: Numbered) -> list[int]:
    """In the recorded order; of eager the trip over the wire was recorded, too."""
    if row["system"] == "connect-eager":
        items = over_the_wire(*items, numbers.connectors.spread)
    return [*items[0], *items[1]]


def expected(row: Row) -> dict[str, Any]:
    """What Kafka's class answered; lists as sets where their order says nothing."""
    expect = row["expect"]
    want: dict[str, Any] = {name: expect[name] for name in ("assigned", "delay_ms", "error")}
    want["revoked"] = {worker: _sets(listed) for worker, listed in expect["revoked"].items()}
    if "state" in expect:
        want["state"] = state_in_sets(expect["state"])
    if row.get("rejoin_now") is not None:
        want["rejoin_now"] = row["rejoin_now"]
    return want


def state_in_sets(state: dict[str, Any]) -> dict[str, Any]:
    """A recorded state with sets where the order says nothing."""
    both = {name: _sets(state[name]) for name in ("assignment", "revocation")}
    return {**state, **both, "members": set(state["members"])}


def _sets(listed: Listed) -> dict[str, set[str]]:
    return {kind: set(items) for kind, items in listed.items()}
