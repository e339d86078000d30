"""Plans complete streams groups in one pass: takes facts and returns one tagged table.

The `kind` of a row determines the columns that it uses:

    task       member_id, subtopology, task, role: a task of the target assignment
    move       member_id (the previous owner), next_member_id (the next owner), subtopology, task, role, reason; and
               state, changelog_offset: what the next owner has of the task's state
    metrics    the assignor and the metrics of a group
    rejected   code, detail: a group that can't be planned
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from spark_assign.streams.kernel.sticky_task_assignor import STICKY, STICKY_4_3, assign_tasks
from spark_assign.streams.kernel.streams_group_input import (
    StreamsFacts,
    StreamsGroupInput,
    find_fault,
    read_group_input,
    read_streams_facts,
)
from spark_assign.streams.kernel.task_assignor_api import Group, Target, Task, TaskAssignor
from spark_assign.streams.kernel.task_moves import Move, list_moves

ASSIGNORS: dict[str, TaskAssignor] = {STICKY: assign_tasks, STICKY_4_3: partial(assign_tasks, release_4_3=True)}
"""Assignors by name; `streams-sticky` is the only one that a broker offers."""

TASK, MOVE, METRICS, REJECTED = "task", "move", "metrics", "rejected"

_STRING, _INT, _LONG = pa.string(), pa.int32(), pa.int64()
COUNTS = (
    *("members", "processes", "subtopologies", "tasks", "stateful_tasks", "standby_replicas"),
    *("min_active", "max_active", "min_standby", "max_standby"),
    *("moved_active", "moved_without_state", "moved_standby", "unassigned_active", "unassigned_standby"),
)
STREAMS_PLAN_ROWS = pa.schema(
    {
        **dict.fromkeys(("cluster", "group_id", "kind", "member_id", "next_member_id", "subtopology"), _STRING),
        "task": _INT,
        **dict.fromkeys(("role", "reason", "state"), _STRING),
        "changelog_offset": _LONG,
        **dict.fromkeys(("code", "detail", "assignor"), _STRING),
        **dict.fromkeys(COUNTS, _LONG),
    }
)

_MAX_BUFFERED_ROWS = 20_000
"""Number of rows that the pass keeps as Python objects before it converts them to a table."""
_Rows = Iterator[dict[str, Any]]


@dataclass(frozen=True)
class StreamsPlanParams:
    """Parameters of a plan of streams groups.

    Attributes:
        name: name of the assignor.
        assignor: the assignor.
        standby_replicas: overrides the configuration of groups if it isn't None.
    """

    name: str
    assignor: TaskAssignor
    standby_replicas: int | None = None


def plan_streams_groups(fact_table: pa.Table, params: StreamsPlanParams) -> Iterable[pa.Table]:
    """Yields the plan of all streams groups of the facts, as tables with the columns of `STREAMS_PLAN_ROWS`."""
    rows: list[dict[str, Any]] = []
    for facts in read_streams_facts(fact_table):
        names = {"cluster": facts.cluster, "group_id": facts.group_id}
        rows += (names | row for row in _plan_group(facts, params))
        if len(rows) > _MAX_BUFFERED_ROWS:
            yield pa.Table.from_pylist(rows, STREAMS_PLAN_ROWS)
            rows = []
    yield pa.Table.from_pylist(rows, STREAMS_PLAN_ROWS)


def _plan_group(facts: StreamsFacts, params: StreamsPlanParams) -> _Rows:
    if (fault := find_fault(facts)) is not None:
        yield {"kind": REJECTED, "code": fault[0], "detail": fault[1]}
        return
    release_4_3 = params.name == STICKY_4_3
    group_input = read_group_input(facts, release_4_3=release_4_3, standby_replicas=params.standby_replicas)
    try:
        target = params.assignor(group_input.group)
    except Exception as error:  # an assignor of the user must not affect other groups
        yield {"kind": REJECTED, "code": "assignor-failed", "detail": f"{type(error).__name__}: {error}"}
        return
    moves = list_moves(group_input, target)
    yield from _task_rows(group_input, target)
    yield from _move_rows(group_input, moves)
    yield {"kind": METRICS, "assignor": params.name, **_compute_metrics(group_input, target, moves)}


def _task_rows(group_input: StreamsGroupInput, target: Target) -> _Rows:
    assigned = [(task, "active", member) for task, member in target.active.items()]
    assigned += [(task, "standby", member) for task, members in target.standby.items() for member in members]
    for task, role, member in sorted(assigned):
        yield {"kind": TASK, "member_id": group_input.group.members[member].member_id, "role": role} | _task_columns(
            group_input, task
        )


def _task_columns(group_input: StreamsGroupInput, task: Task) -> dict[str, Any]:
    return {"subtopology": group_input.subtopology_names[task[0]], "task": task[1]}


def _move_rows(group_input: StreamsGroupInput, moves: Iterable[Move]) -> _Rows:
    for move in moves:
        columns = {
            "member_id": move.from_member,
            "next_member_id": move.to_member,
            "role": move.role,
            "reason": move.reason,
        }
        yield {"kind": MOVE, **columns, **_task_columns(group_input, move.task), **_next_owner_state(group_input, move)}


def _next_owner_state(group_input: StreamsGroupInput, move: Move) -> dict[str, Any]:
    """Returns which of the next owner and its process has the task's state; empty for a task without state."""
    if move.to_member is None or not _has_state(group_input.group, move.task):
        return {}
    process, is_on_member = (
        group_input.process[move.to_member],
        (move.to_member, move.task) in group_input.previous_tasks,
    )
    is_on_process = (process, move.task) in group_input.state_offsets
    offset = group_input.state_offsets.get((process, move.task))
    return {"state": "member" if is_on_member else "process" if is_on_process else "none", "changelog_offset": offset}


def _has_state(group: Group, task: Task) -> bool:
    return task[0] < len(group.stateful) and group.stateful[task[0]]


def _compute_metrics(group_input: StreamsGroupInput, target: Target, moves: Iterable[Move]) -> dict[str, int]:
    group = group_input.group
    active = Counter(target.active.values())
    standby = Counter(member for members in target.standby.values() for member in members)
    members = range(len(group.members))
    moved = {
        move.task: _next_owner_state(group_input, move).get("state")
        for move in moves
        if move.role == "active"
        and None not in (move.from_member, move.to_member)
        and move.to_member not in group_input.current["active"].get(move.task, ())  # one of two owners can stay
    }
    tasks, stateful = len(group.tasks()), len(group.tasks(stateful=True))
    return {
        "members": len(group.members),
        "processes": len(group.walk),
        "subtopologies": len(group.subtopologies),
        "tasks": tasks,
        "stateful_tasks": stateful,
        "standby_replicas": group.standby_replicas,
        "min_active": min((active[at] for at in members), default=0),
        "max_active": max((active[at] for at in members), default=0),
        "min_standby": min((standby[at] for at in members), default=0),
        "max_standby": max((standby[at] for at in members), default=0),
        "moved_active": len(moved),
        "moved_without_state": sum(state == "none" for state in moved.values()),
        "moved_standby": sum(
            move.role == "standby" and None not in (move.from_member, move.to_member) for move in moves
        ),
        "unassigned_active": tasks - len(target.active),
        "unassigned_standby": stateful * group.standby_replicas - sum(standby.values()),
    }
