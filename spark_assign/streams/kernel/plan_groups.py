"""Plans complete Streams groups in one pass, those of the streams protocol and classic ones: facts to tagged rows.

The `kind` of a row is `task`, `move`, `metrics`, `round`, `restore`, or `rejected`; its columns are those of the tables
`tasks`, `moves`, `metrics`, `rounds`, `restores`, and `rejected` (`tables.streams.PLAN_TABLES`).

Reasons of a move; the first that applies counts
    task-gone         the subtopology doesn't exist, or has fewer tasks
    new               no member had the task in this role
    member-left       the owner has left the group
    claim-conflict    several members have the active task, and this one doesn't count
    over-quota        active: the owner has reached its quota
    no-warmups        a warmup: the broker's assignor creates none (up to 4.4)
    no-standbys       a standby: the subtopology has no state, or no standbys are configured
    promoted          a standby: the owner becomes the active member of the task
    process-has-it    a standby: the owner's process gets the task in another role or member
    fewer-standbys    a standby: fewer standbys are configured than exist, and no member gets this one
    rebalanced        other members get the task, or keep or get its standbys; active tasks only in the classic protocol
    warmup            classic protocol: the member starts to restore the state of a task that it gets later
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from spark_assign.assignors.streams.classic_application import STICKY as PUBLIC_STICKY
from spark_assign.assignors.streams.classic_application import ClassicApplication
from spark_assign.assignors.streams.member_tasks import AT_ONCE, PROBING
from spark_assign.assignors.streams.sticky_task_assignor import RELEASES, assign_tasks
from spark_assign.assignors.streams.streams_partition_assignor import (
    ClassicAssignment,
    describe_failure,
    plan_application,
)
from spark_assign.assignors.streams.task_assignor_api import StreamsGroupAssignment, TaskAssignor, TaskId
from spark_assign.groups.kernel.tagged_rows import table_of_rows
from spark_assign.streams.kernel.classic_group_input import ClassicGroupInput, find_classic_fault
from spark_assign.streams.kernel.followed_rounds import follow_rounds
from spark_assign.streams.kernel.streams_group_input import (
    StreamsFacts,
    StreamsGroupInput,
    find_fault,
    read_group_input,
    read_streams_facts,
)
from spark_assign.tables.errors import CODE_FAILURES

ASSIGNORS: dict[str, TaskAssignor] = {name: partial(assign_tasks, release=of) for name, of in RELEASES.items()}
"""Assignors by name; `streams-sticky` is the only one that a broker offers."""
FALLBACK = "fallback"
"""Name of the class that replaces the default in the classic protocol if end offsets can't be read."""

UNKNOWN_STANDBYS = (
    "without standbys, because their number isn't known (groups.standby_replicas is null). Grant DESCRIBE_CONFIGS on "
    "the group, or give --standby-replicas"
)
"""`rules_note` of a group."""

TASK, MOVE, METRICS, REJECTED = "task", "move", "metrics", "rejected"
"""Kinds of result rows; `followed_rounds` has the others."""

_MAX_BUFFERED_ROWS = 20_000
"""Number of rows that the pass keeps as Python objects before it converts them to a table."""
_Rows = Iterator[dict[str, Any]]


@dataclass(frozen=True)
class StreamsPlanParams:
    """Parameters of a plan of streams groups.

    Attributes:
        name: Name of the assignor.
        assignor: The assignor.
        standby_replicas: Overrides the configuration of groups if it isn't `None`.
        restore_bytes_per_second: What a process restores; `None` for no rounds of classic applications.
    """

    name: str
    assignor: TaskAssignor
    standby_replicas: int | None = None
    restore_bytes_per_second: float | None = None


def plan_streams_groups(fact_table: pa.Table, schema: pa.Schema, params: StreamsPlanParams) -> Iterator[pa.Table]:
    """Yields the plan of all Streams groups of the facts, as tagged rows."""
    rows: list[dict[str, Any]] = []
    for facts in read_streams_facts(fact_table):
        names = {"cluster": facts.cluster, "group_id": facts.group_id}
        rows += (names | row for row in _plan_group(facts, params))
        if len(rows) > _MAX_BUFFERED_ROWS:
            yield table_of_rows(rows, schema)
            rows = []
    yield table_of_rows(rows, schema)


def _plan_group(facts: StreamsFacts, params: StreamsPlanParams) -> _Rows:
    """Yields the rows of a group: its plan, or why it is rejected."""
    if (fault := (find_classic_fault if facts.is_classic else find_fault)(facts)) is not None:
        yield {"kind": REJECTED, "code": fault[0], "detail": fault[1]}
        return
    try:
        if facts.is_classic:
            classic = ClassicGroupInput(facts, params.standby_replicas)
            rows, totals = follow_rounds(classic, params.restore_bytes_per_second)
            rows += _plan_classic_group(classic, totals)
        else:
            rows = list(_plan_streams_group(facts, params))
    except CODE_FAILURES as error:  # one group, or an assignor of the user, must not affect other groups
        code, detail = describe_failure(error)
        rows = [{"kind": REJECTED, "code": code, "detail": detail}]
    yield from rows


def _plan_streams_group(facts: StreamsFacts, params: StreamsPlanParams) -> _Rows:
    release_4_3 = RELEASES.get(params.name, "4.4") != "4.4"
    group_input = read_group_input(facts, release_4_3=release_4_3, standby_replicas=params.standby_replicas)
    tasks, members = set(group_input.group.tasks()), range(len(group_input.group.members))
    target = params.assignor(group_input.group)
    for task, owners in (*((task, [owner]) for task, owner in target.active.items()), *target.standby.items()):
        if task not in tasks or not all(owner in members for owner in owners):
            raise ValueError(f"it assigns the task {task} to the members {owners}, but one of these doesn't exist")
    moves = list_moves(group_input, target)
    yield from _task_rows(group_input, target)
    yield from _move_rows(group_input, moves)
    given = [params.standby_replicas, *(row["standby_replicas"] for row in facts.rows["groups"])]
    is_unknown = bool(group_input.group.tasks(stateful=True)) and all(each is None for each in given)
    note = {"rules_note": UNKNOWN_STANDBYS if is_unknown else None}
    yield {"kind": METRICS, "assignor": params.name, **_compute_metrics(group_input, target, moves), **note}


# --- the classic protocol -----------------------------------------------------------------------------------------


def _plan_classic_group(classic: ClassicGroupInput, totals: Mapping[str, Any]) -> _Rows:
    """Yields the plan of an application; `totals` are the columns of `metrics` about the rebalances that follow."""
    application, group_input = classic.application, classic.group_input()
    plan = plan_application(application) if application.members else ClassicAssignment()
    index = {member.member_id: at for at, member in enumerate(group_input.group.members)}
    target, warmups, temporary = StreamsGroupAssignment(), set[tuple[TaskId, int]](), []
    for member_id, tasks in plan.members.items():
        at = index[member_id]
        target.active.update(dict.fromkeys(tasks.active | tasks.withheld, at))
        temporary += [(task, "standby", at) for task in tasks.standby & tasks.withheld]
        started = plan.trace.warmups[group_input.process[member_id]] if plan.trace is not None else set()
        warmups.update((task, at) for task in tasks.standby & started)
        for task in tasks.standby - tasks.withheld:
            target.standby.setdefault(task, []).append(at)
    members = [plan.members[member.member_id] for member in group_input.group.members]
    withheld = {(task, at) for task, at in target.active.items() if task in members[at].withheld}
    roles = dict.fromkeys(warmups, "warmup") | dict.fromkeys(withheld, "withheld")
    moves = _classic_moves(group_input, target, warmups)
    yield from _task_rows(group_input, target, roles, temporary)
    yield from _move_rows(group_input, moves)
    planned: dict[str, Any] = {
        "warmups": len(warmups),
        "withheld": len(withheld),
        "assumed_offsets": classic.assumed_offsets,
    }
    planned |= {"rules": application.rules.profile, "rules_note": application.rules.note}
    planned |= _classic_metrics(application, plan)
    if (sizes := classic.changelogs.sizes) is not None:
        copies = (sizes.get(task, 0.0) * len(members) for task, members in target.standby.items())
        planned |= {"state_bytes": round(sum(sizes.values())), "standby_bytes": round(sum(copies))}
    settled = replace(target, standby=_without(target.standby, warmups))
    yield {"kind": METRICS, **_compute_metrics(group_input, settled, moves), **planned, **totals}


def _classic_metrics(application: ClassicApplication, plan: ClassicAssignment) -> dict[str, Any]:
    """Returns the columns of `metrics` that only the classic protocol has."""
    rejoins = {tasks.rejoin for tasks in plan.members.values()}
    is_determined = application.assignor != PUBLIC_STICKY or application.standby_task_order is not None
    return {
        "subtopologies": sum(bool(of.sources) for of in application.subtopologies),
        "assignor": FALLBACK if plan.trace is None and plan.must_probe else application.assignor,
        "follow_up": next((rejoin for rejoin in (AT_ONCE, PROBING) if rejoin in rejoins), None),
        "pending_moves": plan.trace.movements if plan.trace is not None else 0,
        "order_dependent": 0 if is_determined else sum(len(standby) for _, standby in plan.clients.values()),
    }


def _classic_moves(
    group_input: StreamsGroupInput, target: StreamsGroupAssignment, warmups: Set[tuple[TaskId, int]]
) -> list[Move]:
    """Returns the moves; a member that has a standby already doesn't move it if it becomes a warmup."""
    current = group_input.current["standby"]
    started = {(task, at) for task, at in warmups if _id(group_input, at) not in current.get(task, ())}
    moves = [
        move._replace(reason="rebalanced") if move.reason == "over-quota" else move
        for move in list_moves(group_input, replace(target, standby=_without(target.standby, started)))
    ]
    moves += [Move(task, "warmup", None, _id(group_input, at), "warmup") for task, at in started]
    return sorted(moves, key=_move_key)


def _id(group_input: StreamsGroupInput, member: int) -> str:
    return group_input.group.members[member].member_id


def _without(standby: dict[TaskId, list[int]], members: Set[tuple[TaskId, int]]) -> dict[TaskId, list[int]]:
    return {task: [at for at in of if (task, at) not in members] for task, of in standby.items()}


# --- rows ---------------------------------------------------------------------------------------------------------


def _task_rows(
    group_input: StreamsGroupInput,
    target: StreamsGroupAssignment,
    roles: Mapping[tuple[TaskId, int], str] = MappingProxyType({}),
    more: Iterable[tuple[TaskId, str, int]] = (),
) -> _Rows:
    """Yields the rows of `tasks`.

    Args:
        group_input, target: the group and its target.
        roles: roles of tasks and members other than active or standby.
        more: tasks, roles, and members that the target doesn't have.
    """
    assigned = [(task, roles.get((task, member), "active"), member) for task, member in target.active.items()]
    standbys = ((task, member) for task, members in target.standby.items() for member in members)
    assigned += [(task, roles.get((task, member), "standby"), member) for task, member in standbys]
    for task, role, member in sorted([*assigned, *more]):
        member_id = _id(group_input, member)
        yield {"kind": TASK, "member_id": member_id, "role": role} | _task_columns(group_input, task)


def _task_columns(group_input: StreamsGroupInput, task: TaskId) -> dict[str, Any]:
    return {"subtopology": group_input.subtopology_names[task[0]], "task": task[1]}


def _move_rows(group_input: StreamsGroupInput, moves: Iterable[Move]) -> _Rows:
    for move in moves:
        members = {"from_member_id": move.from_member, "to_member_id": move.to_member}
        row = {"kind": MOVE, "role": move.role, "reason": move.reason} | members | _task_columns(group_input, move.task)
        yield row | _next_owner_state(group_input, move)


def _next_owner_state(group_input: StreamsGroupInput, move: Move) -> dict[str, Any]:
    """Returns which of the next owner and its process has the task's state; empty for a task without state."""
    stateful, subtopology = group_input.group.stateful, move.task[0]
    if move.to_member is None or subtopology >= len(stateful) or not stateful[subtopology]:
        return {}
    process_task = group_input.process[move.to_member], move.task
    if (move.to_member, move.task) in group_input.previous_tasks:
        state = "member"
    else:
        state = "process" if process_task in group_input.state_offsets else "none"
    return {"state": state, "changelog_offset": group_input.state_offsets.get(process_task)}


def _compute_metrics(
    group_input: StreamsGroupInput, target: StreamsGroupAssignment, moves: Iterable[Move]
) -> dict[str, int]:
    """Returns the row of a group in the table `metrics`, without its key."""
    group = group_input.group
    active = Counter(target.active.values())
    standby = Counter(member for members in target.standby.values() for member in members)
    extremes = {
        f"{name}_{role}": bound((counts[member] for member in range(len(group.members))), default=0)
        for role, counts in (("active", active), ("standby", standby))
        for name, bound in (("min", min), ("max", max))
    }
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
        "processes": len(group.process_hash_order),
        "subtopologies": len(group.subtopologies),
        "tasks": tasks,
        "stateful_tasks": stateful,
        "standby_replicas": group.standby_replicas,
        **extremes,
        "moved_active": len(moved),
        "moved_without_state": sum(state == "none" for state in moved.values()),
        "moved_standby": sum(
            move.role == "standby" and None not in (move.from_member, move.to_member) for move in moves
        ),
        "unassigned_active": tasks - len(target.active),
        "unassigned_standby": sum(
            max(0, group.standby_replicas - len(target.standby.get(task, ()))) for task in group.tasks(stateful=True)
        ),
    }


# --- moves --------------------------------------------------------------------------------------------------------


class Move(NamedTuple):
    """A task in a role that changes its owner; None stands for no member."""

    task: TaskId
    role: str
    from_member: str | None
    to_member: str | None
    reason: str


def list_moves(group_input: StreamsGroupInput, target: StreamsGroupAssignment) -> list[Move]:
    """Returns the moves of a group, sorted by task, role, and members."""
    finder = _MoveFinder(group_input, target)
    moves = [*finder.active_moves(), *finder.standby_moves(), *finder.warmup_moves()]
    return sorted(moves, key=_move_key)


def _move_key(move: Move) -> tuple[TaskId, str, str, str]:
    return move.task, move.role, move.from_member or "", move.to_member or ""


class _MoveFinder:
    """Finds the moves of one group, role by role."""

    def __init__(self, group_input: StreamsGroupInput, target: StreamsGroupAssignment) -> None:
        self._current, self._departed, self._target = group_input.current, group_input.departed, target
        self._group = group_input.group
        self._existing = set(group_input.group.tasks())
        self._process = group_input.process

    def active_moves(self) -> Iterator[Move]:
        current, departed = self._current["active"], self._departed["active"]
        for task in self._existing.union(current, departed):
            owners, departed_owners, to_member = current.get(task, []), departed.get(task, []), self._new_active(task)
            if to_member is not None and not owners and not departed_owners:
                yield Move(task, "active", None, to_member, "new")
            for at, owner in enumerate(owners):
                if owner != to_member:
                    conflict = to_member in owners or at < len(owners) - 1
                    reason = self._missing_reason(task) or ("claim-conflict" if conflict else "over-quota")
                    yield Move(task, "active", owner, to_member, reason)
            for owner in departed_owners:
                yield Move(task, "active", owner, to_member, self._missing_reason(task) or "member-left")

    def standby_moves(self) -> Iterator[Move]:
        current, departed = self._current["standby"], self._departed["standby"]
        for task in {*self._target.standby, *current, *departed}:
            owners, to_members = current.get(task, []), self._new_standbys(task)
            lost = [(owner, self._standby_reason(task, owner)) for owner in owners if owner not in to_members]
            lost += [(owner, self._missing_reason(task) or "member-left") for owner in departed.get(task, [])]
            for loss, to_member in zip_longest(
                lost, (to_member for to_member in to_members if to_member not in owners)
            ):
                from_member, reason = loss or (None, "new")
                if reason == "rebalanced" and to_member is None:
                    reason = "fewer-standbys"
                yield Move(task, "standby", from_member, to_member, reason)

    def warmup_moves(self) -> Iterator[Move]:
        for owners, reason in ((self._current, "no-warmups"), (self._departed, "member-left")):
            for task, members in owners["warmup"].items():
                for member in members:
                    yield Move(task, "warmup", member, None, self._missing_reason(task) or reason)

    def _missing_reason(self, task: TaskId) -> str | None:
        return None if task in self._existing else "task-gone"

    def _new_active(self, task: TaskId) -> str | None:
        member = self._target.active.get(task)
        return None if member is None else self._group.members[member].member_id

    def _new_standbys(self, task: TaskId) -> list[str]:
        return [self._group.members[at].member_id for at in self._target.standby.get(task, [])]

    def _standby_reason(self, task: TaskId, owner: str) -> str:
        """Returns why a member loses a standby task."""
        if task not in self._existing:
            return "task-gone"
        if self._new_active(task) == owner:
            return "promoted"
        if not self._group.stateful[task[0]] or not self._group.standby_replicas:
            return "no-standbys"
        processes = {
            self._process[member]
            for member in (self._new_active(task), *self._new_standbys(task))
            if member is not None
        }
        return "process-has-it" if self._process[owner] in processes else "rebalanced"
