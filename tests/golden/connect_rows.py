"""Recorded rebalances of Kafka Connect as inputs of the assignors, and their results in the format of the rows.

If the leader's configuration is behind (`config-mismatch`), it doesn't call its assignor: all workers get an error,
nothing is assigned or revoked, the state stays as it is, and all workers rejoin at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from spark_assign.assignors.connect import (
    connectors_and_tasks,
    eager_assignor,
    incremental_cooperative_assignor,
    incremental_cooperative_assignor_2_6,
)
from spark_assign.assignors.connect.rebalance_input import AssignorState, RebalanceInput
from tests.recorded_lines import read_rows

FOLDER = Path(__file__).parent
Row = dict[str, Any]
"""One rebalance (`README-other.md`, sections 2 and 2b)."""

Listed = dict[str, list[str]]
ASSIGNORS = {
    "connect-eager": eager_assignor.assign,
    "connect-cooperative": incremental_cooperative_assignor.assign,
    "connect-cooperative-2.6": incremental_cooperative_assignor_2_6.assign,
}
MISMATCH = "config-mismatch"
_CACHE_KEY = "row_names"


@cache
def recorded(file: str) -> tuple[Row, ...]:
    """Returns all rows of one file, including single steps of 2.6 (`…/lost`, `…/spread`). Don't modify them."""
    return tuple(read_rows(FOLDER / f"{file}.jsonl.gz"))


def rounds(*files: str) -> list[Row]:
    """Returns the complete rebalances of these files."""
    return [row for file in files for row in recorded(file) if row["system"] in ASSIGNORS]


class RowNames:
    """Converts the names of one row to indexes and items, and back."""

    def __init__(self, connectors: Iterable[str], workers: Iterable[str]) -> None:
        self.connectors, self.workers = connectors_and_tasks.Names(connectors), connectors_and_tasks.Names(workers)
        self._connector, self._worker = self.connectors.indexes(), self.workers.indexes()

    @classmethod
    def of(cls, row: Row) -> RowNames:
        """Returns the names in a row; cached in the row."""
        if _CACHE_KEY not in row:
            row[_CACHE_KEY] = cls._of(row)
        row_names: RowNames = row[_CACHE_KEY]
        return row_names

    @classmethod
    def _of(cls, row: Row) -> RowNames:
        listed = [*row["members"].values()]
        previous = row.get("previous")
        if previous:
            listed += [previous["assignment"], previous["revocation"]]
        connectors = {name for items in listed for name in items["connectors"]} | set(row["configured"])
        connectors |= {task.rpartition("-")[0] for items in listed for task in items["tasks"]}
        known = [*previous["members"], *previous["candidates"]] if previous else []
        return cls(connectors, [*row["members"], *known])

    def worker(self, name: str) -> int:
        """Returns the index of a worker."""
        return self._worker[name]

    def items(self, listed: Listed) -> tuple[list[int], list[int]]:
        """Returns connectors and tasks as items, in order."""
        tasks = [task.rpartition("-") for task in listed["tasks"]]
        return (
            [connectors_and_tasks.connector_item(self._connector[name]) for name in listed["connectors"]],
            [connectors_and_tasks.task_item(self._connector[name], int(number)) for name, _, number in tasks],
        )

    def listed(self, items: Iterable[int]) -> Listed:
        """Returns items as connectors and tasks, in order."""
        listed: Listed = {"connectors": [], "tasks": []}
        for item in items:
            name, task = connectors_and_tasks.item_name(item, self.connectors.texts)
            if connectors_and_tasks.is_task(item):
                listed["tasks"].append(f"{name}-{task}")
            else:
                listed["connectors"].append(name)
        return listed

    def assignor_state(self, state: dict[str, Any] | None) -> AssignorState:
        """Returns a recorded state as the leader's state."""
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

    def recorded_state(self, state: AssignorState, like: dict[str, Any]) -> dict[str, Any]:
        """Returns a state in the format of a recorded one, with the fields of `like`."""
        fields = {
            "assignment": _sets(self.listed(state.assignment)),
            "revocation": _sets(self.listed(state.revocation)),
            "candidates": [self.workers.texts[worker] for worker in state.candidates],
            "members": {self.workers.texts[worker] for worker in state.members},
            "generation": state.generation_id,
        }
        return {name: fields[name] if name in fields else getattr(state, name) for name in like}


def rebalance_input(row: Row, row_names: RowNames, state: AssignorState) -> RebalanceInput:
    """Returns the input of the assignor for a row; `state` is the leader's."""
    configured = {
        "connectors": list(row["configured"]),
        "tasks": [task for tasks in row["configured"].values() for task in tasks],
    }
    return RebalanceInput(
        workers=[row_names.worker(name) for name in row["member_order"]],
        reported=[row_names.items(row["members"][name]) for name in row["member_order"]],
        configured=set().union(*row_names.items(configured)),
        configured_tasks=len(configured["tasks"]),
        now_ms=row["now_ms"],
        max_delay_ms=row["max_delay_ms"],
        generation_id=row["generation"],
        last_completed_generation_id=row["last_completed_generation"],
        worker_spread_hash=row_names.workers.spread_hash,
        state=state,
    )


def calls_assignor(row: Row) -> bool:
    """Checks whether the leader calls its assignor: it has read the configuration as far as any worker, or does so now.

    Rows of unit tests have no offsets; they always call the assignor.
    """
    if row["leader"] is None:
        return True
    offset: int = max(row["leader_config_offset"], row["leader_fresh_config_offset"])
    return offset >= int(row["max_config_offset"])


@dataclass(frozen=True)
class RowResult:
    """The result of a row.

    Attributes:
        fields: The result in the format of `expected`.
        assigned: Items of each worker, in the order in which the leader sends them.
    """

    fields: dict[str, Any]
    assigned: dict[str, connectors_and_tasks.ConnectorsAndTasks]


def plan_row(row: Row) -> RowResult:
    """Returns the result of a row: of the assignor, or of a leader that is behind."""
    row_names = RowNames.of(row)
    state = row_names.assignor_state(row.get("previous"))
    assigned: dict[str, connectors_and_tasks.ConnectorsAndTasks] = {name: ([], []) for name in row["member_order"]}
    revoked: dict[int, set[int]] = {}
    delay_ms = 0
    if calls_assignor(row):
        result = ASSIGNORS[row["system"]](rebalance_input(row, row_names, state))
        assigned = dict(zip(row["member_order"], map(connectors_and_tasks.split_items, result.assigned), strict=True))
        revoked, delay_ms, state = result.revoked, result.delay_ms, result.state
    fields: dict[str, Any] = {
        "assigned": {name: row_names.listed(_sent_items(row, row_names, items)) for name, items in assigned.items()},
        "revoked": {name: _sets(row_names.listed(revoked.get(row_names.worker(name), ()))) for name in assigned},
        "delay_ms": delay_ms,
        "error": 0 if calls_assignor(row) else 1,
    }
    if "state" in row["expect"]:
        fields["state"] = row_names.recorded_state(state, row["expect"]["state"])
    if row.get("rejoin_now") is not None:
        revoking = {row_names.workers.texts[worker] for worker in revoked} - {*row["not_applied"]}
        fields["rejoin_now"] = bool(revoking or row["not_applied"] or not calls_assignor(row))
    return RowResult(fields, assigned)


def _sent_items(row: Row, row_names: RowNames, items: connectors_and_tasks.ConnectorsAndTasks) -> list[int]:
    """Returns items in the recorded order, which is the serialized one for eager."""
    if row["system"] == "connect-eager":
        items = connectors_and_tasks.serialized_order(*items, row_names.connectors.spread_hash)
    return [*items[0], *items[1]]


def expected(row: Row) -> dict[str, Any]:
    """Returns the recorded result, with sets for lists whose order is irrelevant."""
    expect = row["expect"]
    fields: dict[str, Any] = {name: expect[name] for name in ("assigned", "delay_ms", "error")}
    fields["revoked"] = {worker: _sets(listed) for worker, listed in expect["revoked"].items()}
    if "state" in expect:
        fields["state"] = state_in_sets(expect["state"])
    if row.get("rejoin_now") is not None:
        fields["rejoin_now"] = row["rejoin_now"]
    return fields


def state_in_sets(state: dict[str, Any]) -> dict[str, Any]:
    """Returns a recorded state, with sets for lists whose order is irrelevant."""
    sets = {name: _sets(state[name]) for name in ("assignment", "revocation")}
    return {**state, **sets, "members": set(state["members"])}


def _sets(listed: Listed) -> dict[str, set[str]]:
    return {kind: set(items) for kind, items in listed.items()}
