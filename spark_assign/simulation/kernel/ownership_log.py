"""Records the owner and state of each partition over time, and for how long nobody consumes it.

At any time, a partition is in one state: `consumed`, `revoking` (its owner is about to give it up), `restoring` (its
new owner isn't ready yet), `down` (its owner's process is down, and no other member may own it yet), or `unowned`.
Every state except `consumed` is a pause.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from spark_assign.simulation.kernel.assignment_request import code
from spark_assign.simulation.kernel.events import EventQueue
from spark_assign.simulation.kernel.member import SimulatedMember

CONSUMED, BEING_REVOKED, RESTORING, DOWN, UNOWNED = "consumed", "revoking", "restoring", "down", "unowned"
UNRECORDED = "unrecorded"
"""State of the last interval of a partition if the group has too many."""

MAX_INTERVALS = 1_000_000
"""Maximum number of intervals of a group, and one more for each partition: some hundred MB."""

Interval = tuple[int, int, int, str, str | None]
"""Partition key, start, end (milliseconds), state, and the member ID of the owner."""


@dataclass(slots=True)
class Partition:
    """One partition.

    Attributes:
        code: the partition key (`assignment_request.code`).
        exists_from: creation time, in milliseconds.
        state, since: the current state, and the start of the open interval.
        owner, owner_id: the owner, and its member ID when the interval started.
        last_owner: identity of the last consumer (`SimulatedMember.identity`).
        restored_at_ms: time at which a restoring owner is ready.
        paused_from: start of the current pause. None while the partition is consumed.
        pauses, paused_ms, longest_pause_ms: number, total duration, and maximum duration of the pauses that ended.
    """

    code: int
    exists_from: int
    state: str
    since: int
    owner: SimulatedMember | None = None
    owner_id: str | None = None
    last_owner: str | None = None
    restored_at_ms: int = 0
    paused_from: int | None = None
    pauses: int = 0
    paused_ms: int = 0
    longest_pause_ms: int = 0


class OwnershipLog:
    """All partitions of a group. Times of successive calls never decrease.

    Attributes:
        existing: partitions that exist, by key.
        deleted: owner of deleted partitions, by key. A classic client knows topics by name, so it consumes them as soon
            as their topic is created again.
        closed: deleted partitions, and after `close` all partitions, each with its end time.
        changed: time of the last change.

    Args:
        restore_ms: time that a new owner needs before it consumes a partition.
        restore_ms_by_partition: exceptions, by partition key.
        intervals: list that receives the ownership intervals. None: intervals aren't recorded.
    """

    def __init__(
        self, restore_ms: int, restore_ms_by_partition: Mapping[int, int], intervals: list[Interval] | None
    ) -> None:
        self.restore_ms, self.restore_ms_by_partition = restore_ms, restore_ms_by_partition
        self.intervals = intervals
        self.changed = 0
        self.existing: dict[int, Partition] = {}
        self.deleted: dict[int, SimulatedMember] = {}
        self.closed: list[tuple[Partition, int]] = []
        self.unowned_at_end = 0

    def create(self, keys: Iterable[int], at: int) -> None:
        """Adds partitions, without an owner unless one had them when they were deleted."""
        for key in keys:
            self.existing[key] = Partition(key, at, UNOWNED, at, paused_from=at)
            if (owner := self.deleted.pop(key, None)) is not None:
                self.assign([key], owner, at)

    def delete(self, keys: Iterable[int], at: int) -> None:
        """Deletes partitions, which ends their pauses."""
        for key in keys:
            partition = self.existing.pop(key)
            if partition.owner is not None and partition.state in (CONSUMED, RESTORING):
                self.deleted[key] = partition.owner
            self._change_state(partition, UNOWNED, None, at)
            self._end(partition, at)

    def assign(self, keys: Iterable[int], owner: SimulatedMember, at: int) -> int:
        """Assigns partitions to a member, which resumes its own ones immediately and the others after the restore time.

        Returns:
            the number of partitions that moved from another member.
        """
        moved = 0
        identity = owner.identity
        for key in keys:
            partition = self.existing.get(key)
            if partition is None:
                continue
            last = partition.last_owner
            moved += last is not None and last != identity
            restore = 0 if last in (identity, None) else self.restore_ms_by_partition.get(key, self.restore_ms)
            if restore:
                self._change_state(partition, RESTORING, owner, at)
                partition.restored_at_ms = at + restore
            else:
                self._change_state(partition, CONSUMED, owner, at)
                self._resume(partition, at)
            partition.last_owner = identity
        return moved

    def pause(self, keys: Iterable[int], owner: SimulatedMember, state: str, at: int) -> int:
        """Stops consumption by the owner (`revoking`, `down`) or ends its ownership (`unowned`).

        Partitions that the member doesn't own are ignored, because another member may own them already.

        Returns:
            the number of partitions that the member owned.
        """
        stopped = 0
        for key in keys:
            partition = self.existing.get(key)
            if partition is None and self.deleted.get(key) is owner:
                del self.deleted[key]
            if partition is not None and partition.owner is owner:
                stopped += 1
                self._change_state(partition, state, None if state == UNOWNED else owner, at)
        return stopped

    def close(self, at: int) -> None:
        """Ends all open intervals and pauses at the end of the simulation."""
        self.unowned_at_end = sum(partition.state == UNOWNED for partition in self.existing.values())
        for partition in self.existing.values():
            self._change_state(partition, partition.state, partition.owner, at)
            self._end(partition, at)
        self.closed.sort(key=lambda each: (each[0].code, each[0].exists_from))

    def stable_at_ms(self) -> int:
        """Returns the time after which no state changes: the last change, or the end of the last restore."""
        ready = max((each.restored_at_ms for each in self.existing.values() if each.state == RESTORING), default=0)
        return max(ready, self.changed)

    def _change_state(self, partition: Partition, state: str, owner: SimulatedMember | None, at: int) -> None:
        """Changes the state of a partition. If its restore ended earlier, it counts as consumed from then on."""
        if partition.state == RESTORING and partition.restored_at_ms <= at:
            self._record_interval(partition, partition.restored_at_ms)
            self._resume(partition, partition.restored_at_ms)
            partition.state = CONSUMED
        self._record_interval(partition, at)
        self.changed = at
        if partition.paused_from is None and state != CONSUMED:
            partition.paused_from = at
        partition.state = state
        partition.owner, partition.owner_id = owner, None if owner is None else owner.member_id

    def _end(self, partition: Partition, at: int) -> None:
        self._resume(partition, at)
        self.closed.append((partition, at))
        if self.intervals is not None and at > partition.since:
            self.intervals.append((partition.code, partition.since, at, UNRECORDED, None))

    def _record_interval(self, partition: Partition, at: int) -> None:
        if self.intervals is not None and at > partition.since:
            if len(self.intervals) >= MAX_INTERVALS:
                return
            self.intervals.append((partition.code, partition.since, at, partition.state, partition.owner_id))
        partition.since = at

    def _resume(self, partition: Partition, at: int) -> None:
        if partition.paused_from is None:
            return
        pause = at - partition.paused_from
        partition.paused_from = None
        if pause:
            partition.pauses += 1
            partition.paused_ms += pause
            partition.longest_pause_ms = max(partition.longest_pause_ms, pause)


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """Sorts intervals, and merges adjacent intervals that have the same state and owner."""
    result: list[Interval] = []
    for key, start, end, state, owner in sorted(intervals, key=lambda interval: interval[:2]):
        is_adjacent = bool(result) and result[-1] == (key, result[-1][1], start, state, owner)
        result.append((key, result.pop()[1] if is_adjacent else start, end, state, owner))
    return result


class SimulatedTopics:
    """Topics that exist, by the index of their name, with their partition counts, whether or not a client knows them
    yet.

    Attributes:
        partitions: partition count of each existing topic.
        subscribed: topics that any member has subscribed to. Pauses of other topics don't count.
        names: topic name by topic number, the upper part of partition keys. It is the index of the name, except that a
            topic that is created again where topics have IDs has a number of its own, as it has an ID of its own.

    Args:
        times: times by partition key, which also hold for a topic that is created again.
    """

    def __init__(
        self,
        partitions: dict[int, int],
        ownership_log: OwnershipLog,
        queue: EventQueue,
        names: Sequence[str],
        times: Sequence[dict[int, int]],
        *,
        have_ids: bool,
    ) -> None:
        self.partitions, self.names, self.have_ids = partitions, list(names), have_ids
        self.subscribed: set[int] = set()
        self._ledger, self._clock = ownership_log, queue
        self._times, self._numbers = times, dict[int, int | None]()

    def number(self, topic: int) -> int:
        """Returns the number of an existing topic."""
        number = self._numbers.get(topic, topic)
        if number is None:  # it was deleted
            number = self._numbers[topic] = len(self.names)
            self.names.append(self.names[topic])
        return number

    def visible_partitions(self, topics: Iterable[int]) -> dict[int, int]:
        """Returns the partition counts that a client gets if it fetches the metadata of these topics now."""
        return {topic: self.partitions[topic] for topic in topics if topic in self.partitions}

    def subscribe(self, topics: Iterable[int]) -> None:
        """Marks topics as subscribed. From now on, their pauses count."""
        for topic in topics:
            if topic not in self.subscribed:
                self.subscribed.add(topic)
                self._create_partitions(topic, 0, self.partitions.get(topic, 0))

    def set_partitions(self, topic: int, count: int) -> None:
        """Creates a topic, or increases its partition count."""
        before = self.partitions.get(topic, 0)
        self.partitions[topic] = count
        self._create_partitions(topic, before, count)

    def delete(self, topic: int) -> None:
        """Deletes a topic and all its partitions."""
        count, number = self.partitions.pop(topic), self.number(topic)
        if topic in self.subscribed:
            self._ledger.delete((code(number, each) for each in range(count)), self._clock.now)
        if self.have_ids:
            self._numbers[topic] = None

    def _create_partitions(self, topic: int, first: int, end: int) -> None:
        if topic in self.subscribed and first < end:
            number = self.number(topic)
            if number != topic:
                for times in self._times:
                    known = ((each, times.get(code(topic, each))) for each in range(first, end))
                    times.update({code(number, each): time for each, time in known if time is not None})
            self._ledger.create((code(number, each) for each in range(first, end)), self._clock.now)
