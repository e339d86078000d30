"""Compares each generation with the one before: members that joined, left, or returned, and partitions that moved."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from spark_assign.history.kernel.departures import CRASHED, Departure
from spark_assign.history.kernel.record_parser import CLASSIC, RoleAssignment, subtopology_name
from spark_assign.history.kernel.timeline import DEAD, Generation, RecordedMember, Timeline
from spark_assign.wire.streams_protocol import TaskId

_REPLICA_ROLES = ("standby", "warmup")
"""Roles whose tasks have another owner."""


def is_owned(role: str, group_type: str) -> bool:
    """Checks whether a role counts as ownership. Classic Streams applications own the partitions of active tasks."""
    return role not in _REPLICA_ROLES and not (role == "active" and group_type == CLASSIC)


@dataclass(frozen=True)
class GenerationChange:
    """The changes of a generation since the one before it on record.

    Attributes:
        generation_index: index of the generation in the timeline.
        previous: the generation before; None for the first one.
        generation: the generation.
        departed: members that the generation no longer has, with their departures.
        joined: new members, without those in `rejoined`.
        rejoined: new members that a departed member returned as, with the old member id.
        replaced_ids: old to new member id of members that were replaced in this very generation; `departed` has the old
            ones, too.
        missing: number of generations in between that are not on record.
        partitions: number of partitions that members own, without standby and warmup tasks.
        num_known_owners: number of partitions with a known owner: now, or before, since the group was last empty.
        moved: number of partitions with another owner than the last one.
        moved_without_state: number of active tasks of a classic Streams application that moved to a process without
            their state; None for other groups.
    """

    generation_index: int
    previous: Generation | None
    generation: Generation
    departed: tuple[tuple[RecordedMember, Departure], ...]
    joined: tuple[RecordedMember, ...]
    rejoined: tuple[tuple[str, RecordedMember], ...]
    replaced_ids: Mapping[str, str]
    missing: int
    partitions: int
    num_known_owners: int
    moved: int
    moved_without_state: int | None

    @property
    def left(self) -> tuple[tuple[RecordedMember, Departure], ...]:
        """The departed members without those that were replaced."""
        return tuple(pair for pair in self.departed if pair[0].member_id not in self.replaced_ids)


def generation_changes(timeline: Timeline, departures: Iterable[Departure]) -> Iterator[GenerationChange]:
    """Yields the changes of all generations.

    Args:
        timeline: the group.
        departures: the departures of the timeline, in their order.
    """
    pending = deque(departures)
    old_ids = {
        departure.new_member_id: departure.member_id for departure in pending if departure.new_member_id is not None
    }
    owners = _LastOwners(timeline.group_type)
    previous: Generation | None = None
    for generation_index, generation in enumerate(timeline.generations):
        current_ids = {member.member_id for member in generation.members}
        previous_members = previous.members if previous else ()
        previous_ids = {member.member_id for member in previous_members}
        departed = tuple(
            (member, pending.popleft()) for member in previous_members if member.member_id not in current_ids
        )
        new = [member for member in generation.members if previous and member.member_id not in previous_ids]
        rejoined = tuple((old_ids[member.member_id], member) for member in new if member.member_id in old_ids)
        replaced_ids = _find_replaced(departed, {member.member_id for _, member in rejoined})
        moved = owners.update(generation, replaced_ids)
        yield GenerationChange(
            generation_index=generation_index,
            previous=previous,
            generation=generation,
            departed=departed,
            joined=tuple(member for member in new if member.member_id not in old_ids),
            rejoined=rejoined,
            replaced_ids=replaced_ids,
            missing=_count_missing(previous, generation, timeline.group_type),
            partitions=owners.partitions,
            num_known_owners=owners.num_known(),
            moved=moved,
            moved_without_state=owners.update_tasks(generation),
        )
        previous = generation


def _find_replaced(
    departed: Iterable[tuple[RecordedMember, Departure]], rejoined_ids: Collection[str]
) -> dict[str, str]:
    """Returns old to new id of members that were replaced at once. The place of a crashed member had been empty."""
    pairs = (
        (departure.member_id, departure.new_member_id) for _, departure in departed if departure.leave_type != CRASHED
    )
    return {old_id: new_id for old_id, new_id in pairs if new_id is not None and new_id in rejoined_ids}


def _count_missing(previous: Generation | None, generation: Generation, group_type: str) -> int:
    """Returns the number of skipped ids. A classic group starts with 1; other groups depend on the release."""
    if previous is None or generation.state == DEAD:
        return 0
    if previous.state == DEAD or generation.generation_id < previous.generation_id:
        return max(generation.generation_id - 1, 0) if group_type == CLASSIC else 0
    return max(generation.generation_id - previous.generation_id - 1, 0)


@dataclass
class _LastOwners:
    """The last owner of each partition; in a share group, all members that are assigned the partition.

    Attributes:
        partitions: number of partitions that members own now.
    """

    group_type: str
    partitions: int = 0
    _owner: dict[tuple[str, str], dict[int, str]] = field(default_factory=dict)
    _num_owned: int = 0
    _sharers: dict[tuple[str, int], frozenset[str]] = field(default_factory=dict)
    _assignments: dict[str, RoleAssignment] = field(default_factory=dict)
    _first_id: dict[str, str] = field(default_factory=dict)
    _task_owner: dict[TaskId, str] = field(default_factory=dict)
    _stateful: set[str] = field(default_factory=set)

    def num_known(self) -> int:
        """Returns the number of partitions with a known owner."""
        return len(self._sharers) + self._num_owned

    def update(self, generation: Generation, replaced_ids: Mapping[str, str]) -> int:
        """Applies a generation and returns the number of partitions that have another owner."""
        for old_id, new_id in replaced_ids.items():
            self._first_id[new_id] = self._first_id.get(old_id, old_id)
        if not generation.members:
            self._owner, self._sharers, self._assignments, self.partitions = {}, {}, {}, 0
            self._task_owner, self._num_owned = {}, 0
            return 0
        if self.group_type == "share":
            return self._update_sharers(generation)
        previous = self._assignments
        self._assignments = {member.member_id: member.assignment for member in generation.members}
        self.partitions = sum(
            len(partitions)
            for assignment in self._assignments.values()
            for (role, _), partitions in assignment.items()
            if is_owned(role, self.group_type)
        )
        return sum(
            self._update_member(member_id, assignment, previous.get(member_id, {}))
            for member_id, assignment in self._assignments.items()
            if assignment is not previous.get(member_id)
        )

    def _update_member(self, member_id: str, assignment: RoleAssignment, previous: RoleAssignment) -> int:
        moved = 0
        first_id = self._first_id.get(member_id, member_id)
        for key, partitions in assignment.items():
            if not is_owned(key[0], self.group_type) or previous.get(key) == partitions:
                continue
            owner = self._owner.setdefault(key, {})
            num_owned = len(owner)
            if owner:
                moved += sum(owner.get(partition, first_id) != first_id for partition in partitions)
            owner.update(dict.fromkeys(partitions, first_id))
            self._num_owned += len(owner) - num_owned
        return moved

    def update_tasks(self, generation: Generation) -> int | None:
        """Applies the tasks of a generation, after `update`; returns `GenerationChange.moved_without_state`.

        A subtopology has state if a member ever reported offsets of it, or had a standby.
        """
        members = [(member.member_id, member.streams) for member in generation.members if member.streams is not None]
        state: dict[str | None, set[TaskId]] = {}
        for _, member in members:
            state.setdefault(member.report.process_id, set()).update(member.state)
            logged = (*(task for task, _ in member.report.offset_sums), *member.standby)
            self._stateful.update(map(subtopology_name, logged))
        moved = 0
        for member_id, member in members:
            first_id = self._first_id.get(member_id, member_id)
            for task in set(member.active.values()):
                has_moved = self._task_owner.get(task, first_id) != first_id
                is_missing = subtopology_name(task) in self._stateful and task not in state[member.report.process_id]
                moved += has_moved and is_missing
                self._task_owner[task] = first_id
        return moved if members else None

    def _update_sharers(self, generation: Generation) -> int:
        sharers: dict[tuple[str, int], set[str]] = {}
        for member in generation.members:
            first_id = self._first_id.get(member.member_id, member.member_id)
            for (_, topic), partitions in member.assignment.items():
                for partition in partitions:
                    sharers.setdefault((topic, partition), set()).add(first_id)
        previous, self._sharers = self._sharers, {key: frozenset(members) for key, members in sharers.items()}
        self.partitions = len(sharers)
        return sum(previous.get(key, members) != members for key, members in self._sharers.items())
