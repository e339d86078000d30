"""Compares the target of a streams group with the current owners of tasks: moves and their reasons.

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
    rebalanced        a standby: other members keep or get the standbys of the task
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

from spark_assign.streams.kernel.streams_group_input import StreamsGroupInput
from spark_assign.streams.kernel.task_assignor_api import Target, Task


class Move(NamedTuple):
    """A task in a role that changes its owner; None stands for no member."""

    task: Task
    role: str
    from_member: str | None
    to_member: str | None
    reason: str


def list_moves(group_input: StreamsGroupInput, target: Target) -> list[Move]:
    """Returns the moves of a group, sorted by task, role, and members."""
    finder = _MoveFinder(group_input, target)
    moves = [*finder.active_moves(), *finder.standby_moves(), *finder.warmup_moves()]
    return sorted(moves, key=lambda move: (move.task, move.role, move.from_member or "", move.to_member or ""))


class _MoveFinder:
    """Finds the moves of one group, role by role."""

    def __init__(self, group_input: StreamsGroupInput, target: Target) -> None:
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

    def _missing_reason(self, task: Task) -> str | None:
        return None if task in self._existing else "task-gone"

    def _new_active(self, task: Task) -> str | None:
        member = self._target.active.get(task)
        return None if member is None else self._group.members[member].member_id

    def _new_standbys(self, task: Task) -> list[str]:
        return [self._group.members[at].member_id for at in self._target.standby.get(task, [])]

    def _standby_reason(self, task: Task, owner: str) -> str:
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
