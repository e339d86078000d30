"""What is planned of a streams group held against what its members have: who gives which task to whom, and why.

Reasons of a move, the first that fits
    task-gone         its subtopology is not there (any more), or has fewer tasks
    new               nobody had it in this role
    member-left       its owner has left the group
    claim-conflict    two or more members have it as active, and this is not the one that counts
    over-quota        active: its owner has as many tasks as it may have
    no-warmups        a warmup: the broker's assignor makes none (up to 4.4)
    no-standbys       a standby: its subtopology has no state, or no standbys are wanted
    promoted          a standby: its owner is to run the task
    process-has-it    a standby: the process of its owner has the task in another role or member now
    fewer-standbys    a standby: fewer are wanted than there are, and nobody gets this one
    rebalanced        a standby: others keep one of the task
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

from spark_assign.streams.kernel.streams_group_input import StreamsGroupInput
from spark_assign.streams.kernel.task_assignor_api import Target, Task


class Move(NamedTuple):
    """A task in a role goes from one member to another; null is nobody."""

    task: Task
    role: str
    from_member: str | None
    to_member: str | None
    reason: str


def list_moves(group_input: StreamsGroupInput, target: Target) -> list[Move]:
    """All of a group, by task, role and members."""
    changes = _Changes(group_input, target)
    moves = [*changes.of_active(), *changes.of_standbys(), *changes.of_warmups()]
    return sorted(moves, key=lambda move: (move.task, move.role, move.from_member or "", move.to_member or ""))


class _Changes:
    def __init__(self, group_input: StreamsGroupInput, target: Target) -> None:
        self._has, self._had, self._target = group_input.has, group_input.had, target
        self._group = group_input.group
        self._there = set(group_input.group.tasks())
        self._process = group_input.process

    def of_active(self) -> Iterator[Move]:
        has, had = self._has["active"], self._had["active"]
        for task in self._there.union(has, had):
            owners, left, to_member = has.get(task, []), had.get(task, []), self._runs(task)
            if to_member is not None and not owners and not left:
                yield Move(task, "active", None, to_member, "new")
            for at, owner in enumerate(owners):
                if owner != to_member:
                    conflict = to_member in owners or at < len(owners) - 1
                    reason = self._gone(task) or ("claim-conflict" if conflict else "over-quota")
                    yield Move(task, "active", owner, to_member, reason)
            for owner in left:
                yield Move(task, "active", owner, to_member, self._gone(task) or "member-left")

    def of_standbys(self) -> Iterator[Move]:
        has, had = self._has["standby"], self._had["standby"]
        for task in {*self._target.standby, *has, *had}:
            owners, to_members = has.get(task, []), self._copies(task)
            lost = [(owner, self._why_standby(task, owner)) for owner in owners if owner not in to_members]
            lost += [(owner, self._gone(task) or "member-left") for owner in had.get(task, [])]
            for loser, to_member in zip_longest(
                lost, (to_member for to_member in to_members if to_member not in owners)
            ):
                from_member, reason = loser or (None, "new")
                if reason == "rebalanced" and to_member is None:
                    reason = "fewer-standbys"
                yield Move(task, "standby", from_member, to_member, reason)

    def of_warmups(self) -> Iterator[Move]:
        for held, reason in ((self._has, "no-warmups"), (self._had, "member-left")):
            for task, members in held["warmup"].items():
                for member in members:
                    yield Move(task, "warmup", member, None, self._gone(task) or reason)

    def _gone(self, task: Task) -> str | None:
        return None if task in self._there else "task-gone"

    def _runs(self, task: Task) -> str | None:
        member = self._target.active.get(task)
        return None if member is None else self._group.members[member].member_id

    def _copies(self, task: Task) -> list[str]:
        return [self._group.members[at].member_id for at in self._target.standby.get(task, [])]

    def _why_standby(self, task: Task, owner: str) -> str:
        if task not in self._there:
            return "task-gone"
        if self._runs(task) == owner:
            return "promoted"
        if not self._group.stateful[task[0]] or not self._group.standby_replicas:
            return "no-standbys"
        keep = {self._process[member] for member in (self._runs(task), *self._copies(task)) if member is not None}
        return "process-has-it" if self._process[owner] in keep else "rebalanced"
