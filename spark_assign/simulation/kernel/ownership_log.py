"""Who has each partition at each moment, and how long nobody consumes it.

A partition always is in one state: `consumed`, `revoking` (its owner is about to give it up), `restoring` (its new
owner is not ready yet), `down` (its owner is, and nobody else may have it yet) or `unowned`. All but the first are a
pause.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from spark_assign.simulation.kernel.assignment_request import code
from spark_assign.simulation.kernel.events import EventQueue
from spark_assign.simulation.kernel.member import SimulatedMember

CONSUMED, BEING_REVOKED, RESTORING, DOWN, UNOWNED = "consumed", "revoking", "restoring", "down", "unowned"

Interval = tuple[int, int, int, str, str | None]
"""Partition code, from, to, state, owner's member id."""


@dataclass(slots=True)
class Partition:
    """One partition. `owner_id`: its owner's member id at that time; `ready`: when it is restored; `paused_from`: null
    while it is consumed; `last`: who consumed it last (`SimulatedMember.identity`)."""

    code: int
    exists_from: int
    state: str
    since: int
    owner: SimulatedMember | None = None
    owner_id: str | None = None
    last: str | None = None
    ready: int = 0
    paused_from: int | None = None
    pauses: int = 0
    not_consumed: int = 0
    longest: int = 0


class OwnershipLog:
    """All partitions of a group. Times of calls never go back.

    Args:
        restore_ms: what a new owner needs before it consumes a partition; `differing` has it for some, by code.
        intervals: where to write down who had each partition; null: nowhere.
    """

    def __init__(self, restore_ms: int, differing: Mapping[int, int], intervals: list[Interval] | None) -> None:
        self.restore_ms, self.differing = restore_ms, differing
        self.intervals = intervals
        self.changed = 0
        self.there: dict[int, Partition] = {}
        self.gone: list[tuple[Partition, int]] = []

    def create(self, keys: Iterable[int], at: int) -> None:
        """Partitions begin to exist, without an owner."""
        for key in keys:
            self.there[key] = Partition(key, at, UNOWNED, at, paused_from=at)

    def delete(self, keys: Iterable[int], at: int) -> None:
        """Partitions cease to exist; their pauses end with them."""
        for key in keys:
            partition = self.there.pop(key)
            self._turn(partition, UNOWNED, None, at)
            self._resume(partition, at)
            self.gone.append((partition, at))

    def give(self, keys: Iterable[int], owner: SimulatedMember, at: int) -> int:
        """A member gets partitions; those that it had last it consumes at once, the others when they are restored.

        Returns:
            how many moved to it from another member.
        """
        moved = 0
        identity = owner.identity
        for key in keys:
            partition = self.there.get(key)
            if partition is None:
                continue
            last = partition.last
            moved += last is not None and last != identity
            restore = 0 if last in (identity, None) else self.differing.get(key, self.restore_ms)
            if restore:
                self._turn(partition, RESTORING, owner, at)
                partition.ready = at + restore
            else:
                self._turn(partition, CONSUMED, owner, at)
                self._resume(partition, at)
            partition.last = identity
        return moved

    def pause(self, keys: Iterable[int], owner: SimulatedMember, state: str, at: int) -> int:
        """The owner stops consuming (`revoking`, `down`) or has the partitions no longer (`unowned`).

        Partitions that the member does not own are passed over: somebody may have taken them from it already.

        Returns:
            how many it owned.
        """
        stopped = 0
        for key in keys:
            partition = self.there.get(key)
            if partition is not None and partition.owner is owner:
                stopped += 1
                self._turn(partition, state, None if state == UNOWNED else owner, at)
        return stopped

    def close(self, at: int) -> None:
        """The play is over: open intervals and pauses end."""
        for partition in self.there.values():
            self._turn(partition, partition.state, partition.owner, at)
            self._resume(partition, at)
            self.gone.append((partition, at))
        self.gone.sort(key=lambda each: (each[0].code, each[0].exists_from))

    def settled(self) -> int:
        """When the last change has happened, and the last partition that is being restored will be ready."""
        ready = max((each.ready for each in self.there.values() if each.state == RESTORING), default=0)
        return max(ready, self.changed)

    def _turn(self, partition: Partition, state: str, owner: SimulatedMember | None, at: int) -> None:
        """Into another state; a partition that was ready in the meantime has been consumed since."""
        if partition.state == RESTORING and partition.ready <= at:
            self._note(partition, partition.ready)
            self._resume(partition, partition.ready)
            partition.state = CONSUMED
        self._note(partition, at)
        self.changed = at
        if partition.paused_from is None and state != CONSUMED:
            partition.paused_from = at
        partition.state = state
        partition.owner, partition.owner_id = owner, None if owner is None else owner.member_id

    def _note(self, partition: Partition, at: int) -> None:
        if self.intervals is not None and at > partition.since:
            self.intervals.append((partition.code, partition.since, at, partition.state, partition.owner_id))
        partition.since = at

    def _resume(self, partition: Partition, at: int) -> None:
        if partition.paused_from is None:
            return
        pause = at - partition.paused_from
        partition.paused_from = None
        if pause:
            partition.pauses += 1
            partition.not_consumed += pause
            partition.longest = max(partition.longest, pause)


def merged(intervals: Iterable[Interval]) -> Iterator[Interval]:
    """Intervals in order, neighbours of one state and owner as one."""
    last: Interval | None = None
    for each in sorted(intervals, key=lambda interval: interval[:2]):
        if last is not None and last[0] == each[0] and last[2] == each[1] and last[3:] == each[3:]:
            last = (*last[:2], each[2], *last[3:])
            continue
        if last is not None:
            yield last
        last = each
    if last is not None:
        yield last


class SimulatedTopics:
    """Topics by index, with their partition counts.

    Attributes:
        partitions: of every topic that there is.
        wanted: topics that some member has asked for; nobody misses the others.
    """

    def __init__(self, partitions: dict[int, int], ledger: OwnershipLog, clock: EventQueue) -> None:
        self.partitions = partitions
        self.wanted: set[int] = set()
        self._ledger, self._clock = ledger, clock

    def look(self, topics: Iterable[int]) -> dict[int, int]:
        """What a client sees that looks at these topics now."""
        return {topic: self.partitions[topic] for topic in topics if topic in self.partitions}

    def want(self, topics: Iterable[int]) -> None:
        """From now on it matters whether these topics are consumed."""
        for topic in topics:
            if topic not in self.wanted:
                self.wanted.add(topic)
                self._appear(topic, 0, self.partitions.get(topic, 0))

    def grow(self, topic: int, count: int) -> None:
        """The topic has so many partitions now."""
        before = self.partitions.get(topic, 0)
        self.partitions[topic] = count
        self._appear(topic, before, count)

    def delete(self, topic: int) -> None:
        """The topic is gone with all its partitions."""
        count = self.partitions.pop(topic)
        if topic in self.wanted:
            self._ledger.delete((code(topic, number) for number in range(count)), self._clock.now)

    def _appear(self, topic: int, first: int, end: int) -> None:
        if topic in self.wanted:
            self._ledger.create((code(topic, number) for number in range(first, end)), self._clock.now)
