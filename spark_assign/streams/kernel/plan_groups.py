"""One pass over whole streams groups: facts in, everything that is decided out, as rows of one table.

A row of the answer is tagged by its `kind`:

    task       member_id, subtopology, task, role: what a member is to have in the end
    move       member_id (who loses it), next_member_id (who gets it), subtopology, task, role, reason; and state,
               changelog_offset: what the next owner has of its state
    metrics    assignor and the figures of a group
    rejected   code, detail: a group that cannot be planned
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from spark_assign.streams.kernel.faults import find_fault
from spark_assign.streams.kernel.grouped_facts import StreamsFacts, read_groups
from spark_assign.streams.kernel.sticky import STICKY, STICKY_4_3, assign_tasks
from spark_assign.streams.kernel.streams_group_input import StreamsGroupInput, read_group_input
from spark_assign.streams.kernel.task_assignor_api import Group, Target, Task, TaskAssignor
from spark_assign.streams.kernel.task_moves import Move, list_moves

ASSIGNORS: dict[str, TaskAssignor] = {STICKY: assign_tasks, STICKY_4_3: partial(assign_tasks, release_4_3=True)}
"""By name; `streams-sticky` is the only one that a broker has for its users."""

TASK, MOVE, METRICS, REJECTED = "task", "move", "metrics", "rejected"

_TEXT, _INT, _LONG = pa.string(), pa.int32(), pa.int64()
COUNTS = (
    *("members", "processes", "subtopologies", "tasks", "stateful_tasks", "standby_replicas"),
    *("min_active", "max_active", "min_standby", "max_standby"),
    *("moved_active", "moved_without_state", "moved_standby", "unassigned_active", "unassigned_standby"),
)
DECIDED = pa.schema(
    {
        **dict.fromkeys(("cluster", "group_id", "kind", "member_id", "next_member_id", "subtopology"), _TEXT),
        "task": _INT,
        **dict.fromkeys(("role", "reason", "state"), _TEXT),
        "changelog_offset": _LONG,
        **dict.fromkeys(("code", "detail", "assignor"), _TEXT),
        **dict.fromkeys(COUNTS, _LONG),
    }
)

_ROWS = 20_000
"""So many rows are held as Python objects before they become a table."""
_Rows = Iterator[dict[str, Any]]


@dataclass(frozen=True)
class StreamsPlanParams:
    """What is asked of a fleet's streams groups.

    Attributes:
        name: of the assignor.
        assignor: what assigns.
        standby_replicas: in place of what groups are configured with; null for that.
    """

    name: str
    assignor: TaskAssignor
    standby_replicas: int | None = None


def decide(facts: pa.Table, question: StreamsPlanParams) -> Iterable[pa.Table]:
    """Answer for all streams groups of these facts (`told`), in tables with the columns of `DECIDED`."""
    rows: list[dict[str, Any]] = []
    for told in read_groups(facts):
        names = {"cluster": told.cluster, "group_id": told.group_id}
        rows += (names | row for row in _answer(told, question))
        if len(rows) > _ROWS:
            yield pa.Table.from_pylist(rows, DECIDED)
            rows = []
    yield pa.Table.from_pylist(rows, DECIDED)


def _answer(told: StreamsFacts, question: StreamsPlanParams) -> _Rows:
    if (fault := find_fault(told)) is not None:
        yield {"kind": REJECTED, "code": fault[0], "detail": fault[1]}
        return
    release_4_3 = question.name == STICKY_4_3
    group_input = read_group_input(told, release_4_3=release_4_3, standby_replicas=question.standby_replicas)
    try:
        target = question.assignor(group_input.group)
    except Exception as error:  # whatever it does must not sink the others
        yield {"kind": REJECTED, "code": "assignor-failed", "detail": f"{type(error).__name__}: {error}"}
        return
    moves = list_moves(group_input, target)
    yield from _given(group_input, target)
    yield from _moved(group_input, moves)
    yield {"kind": METRICS, "assignor": question.name, **_figures(group_input, target, moves)}


def _given(group_input: StreamsGroupInput, target: Target) -> _Rows:
    given = [(task, "active", member) for task, member in target.active.items()]
    given += [(task, "standby", member) for task, members in target.standby.items() for member in members]
    for task, role, member in sorted(given):
        yield {"kind": TASK, "member_id": group_input.group.members[member].member_id, "role": role} | _named(
            group_input, task
        )


def _named(group_input: StreamsGroupInput, task: Task) -> dict[str, Any]:
    return {"subtopology": group_input.names[task[0]], "task": task[1]}


def _moved(group_input: StreamsGroupInput, moves: Iterable[Move]) -> _Rows:
    for move in moves:
        told = {
            "member_id": move.from_member,
            "next_member_id": move.to_member,
            "role": move.role,
            "reason": move.reason,
        }
        yield {"kind": MOVE, **told, **_named(group_input, move.task), **_state(group_input, move)}


def _state(group_input: StreamsGroupInput, move: Move) -> dict[str, Any]:
    """What the next owner has of the task's state: it itself, its process, or nobody there; nothing without state."""
    if move.to_member is None or not _stateful(group_input.group, move.task):
        return {}
    process, own = group_input.process[move.to_member], (move.to_member, move.task) in group_input.own
    there = (process, move.task) in group_input.state
    known = group_input.state.get((process, move.task))
    return {"state": "member" if own else "process" if there else "none", "changelog_offset": known}


def _stateful(group: Group, task: Task) -> bool:
    return task[0] < len(group.stateful) and group.stateful[task[0]]


def _figures(group_input: StreamsGroupInput, target: Target, moves: Iterable[Move]) -> dict[str, int]:
    group = group_input.group
    active = Counter(target.active.values())
    standby = Counter(member for members in target.standby.values() for member in members)
    members = range(len(group.members))
    moved = {
        move.task: _state(group_input, move).get("state")
        for move in moves
        if move.role == "active"
        and None not in (move.from_member, move.to_member)
        and move.to_member not in group_input.has["active"].get(move.task, ())  # of two owners the one may stay
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
