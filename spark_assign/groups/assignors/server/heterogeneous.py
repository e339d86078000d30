"""Uniform, where members of a group subscribe to different topics (Kafka's `UniformHeterogeneousAssignmentBuilder`).

Principles, in this priority
    1. Balance as good as subscriptions allow: nobody could give a partition to a subscriber of its topic that has two
       less. Reached topic by topic, in at most 16 passes.
    2. Stickiness: everybody keeps what it has of topics that it still subscribes to, until balance takes it away.
Racks play no part. A member's load is the number of partitions that it has, of all topics.

Example: C0 and C1 subscribe to t0 (3 partitions), C1 alone to t1 (2).
    after step 2, t1 first (2 per subscriber)    C0: []                  C1: [t1p0 t1p1]
    then t0, to the least loaded                 C0: [t0p0 t0p1 t0p2]    C1: [t1p0 t1p1]
    step 3: nothing, for the loads are 3 and 2

Steps
    1. Keep what members had of topics that they subscribe to.
    2. Deal what nobody has: topics with most partitions per subscriber first, then those with fewer subscribers, then
       by id; partitions ascending, each to the next of the least loaded subscribers.
    3. Balance: over the topics with two subscribers or more, in that order, until a whole pass has moved nothing. Of a
       topic the most loaded subscribers give, their highest partition first, and the least loaded take, until what the
       two ranges have is at most one apart.

The order of members decides who of equally loaded ones comes first: in step 2 and for taking the earlier, for giving
the later.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spark_assign.groups.assignors.server.target_assignments import TargetAssignments
from spark_assign.groups.assignors.sticky.sticky_groups import BALANCING, KEPT
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.partition_slices import PartitionSlices, owners_to_slices

_MAX_PASSES = 16
NO_MEMBER = -1
"""Who has what nobody has."""


def assign_heterogeneous(
    members: int,
    subscribers: Sequence[Sequence[int]],
    partitions: Sequence[int],
    ranks: Sequence[int],
    previous: PartitionSlices,
) -> TargetAssignments:
    """The target assignment of one group.

    Args:
        members: how many; they are numbers in the order in which the assignor sees them.
        subscribers: of each topic, ascending, at least one.
        partitions: of each topic.
        ranks: of each topic its place among all by `Uuid.compareTo`.
        previous: the members' target so far, in any order, of topics that they subscribe to. No partition twice, none
            beyond its topic's count.
    """
    kept = [np.full(count, NO_MEMBER, np.int64) for count in partitions]
    rows = previous.expand()
    loads = np.bincount(rows.member, minlength=members).tolist()
    order = np.argsort(rows.topic, kind="stable")
    ends = np.cumsum(np.bincount(rows.topic, minlength=len(partitions))).tolist()
    for topic, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
        some = order[begin:end]
        kept[topic][rows.first[some]] = rows.member[some]
    owners = [each.tolist() for each in kept]
    rebalance(owners, loads, subscribers, ranks)
    return _to_target_assignments(owners, kept)


def rebalance(
    owners: list[list[int]], loads: list[int], subscribers: Sequence[Sequence[int]], ranks: Sequence[int]
) -> list[tuple[int, int, int, int]]:
    """Steps 2 and 3.

    Args:
        owners: of each partition of each topic who has it after step 1, or `NO_MEMBER`; changed in place.
        loads: of each member how many partitions it has; changed in place.
        subscribers, ranks: as above.

    Returns:
        topic, partition, from_member (or `NO_MEMBER`) and to_member of all that changed hands, in order.
    """
    partitions = list(map(len, owners))
    served = sorted(
        range(len(partitions)),
        key=lambda topic: (-partitions[topic] / len(subscribers[topic]), len(subscribers[topic]), ranks[topic]),
    )
    traded: list[tuple[int, int, int, int]] = []
    for topic in served:
        traded += [(topic, *each) for each in _assign_unassigned(owners[topic], subscribers[topic], loads)]
    _balance([topic for topic in served if len(subscribers[topic]) > 1], owners, subscribers, loads, traded)
    return traded


def _assign_unassigned(owner: list[int], subscribers: Sequence[int], loads: list[int]) -> list[tuple[int, int, int]]:
    """Step 2, of one topic: partition, from_member and to_member of what was dealt."""
    free = [partition for partition, member in enumerate(owner) if member == NO_MEMBER]
    if not free:
        return []
    least = LeastLoadedMembers(sort_by_load(subscribers, loads), loads)
    for partition in free:
        member = least.next_member()
        owner[partition] = member
        loads[member] += 1
    return [(partition, NO_MEMBER, owner[partition]) for partition in free]


def _balance(
    topics: Sequence[int],
    owners: list[list[int]],
    subscribers: Sequence[Sequence[int]],
    loads: list[int],
    traded: list[tuple[int, int, int, int]],
) -> None:
    """Step 3. The first topic counts as one that moved something, as Kafka has it."""
    last = None
    for _ in range(_MAX_PASSES):
        for topic in topics:
            if topic == last:
                return
            moved = _balance_topic(owners[topic], subscribers[topic], loads)
            traded += [(topic, *each) for each in moved]
            if moved or last is None:
                last = topic


def _balance_topic(owner: list[int], subscribers: Sequence[int], loads: list[int]) -> list[tuple[int, int, int]]:
    """Step 3, of one topic: partition, from_member and to_member of what moved."""
    order = sort_by_load(subscribers, loads)
    if loads[order[-1]] - loads[order[0]] <= 1:
        return []
    # What members had when the topic's turn came: what they are given now they cannot give.
    givable: dict[int, list[int]] = {}
    for partition, member in enumerate(owner):
        givable.setdefault(member, []).append(partition)
    # Both look at one list: those that give nothing change places in it.
    least, most = LeastLoadedMembers(order, loads), MostLoadedMembers(order, loads)
    moved: list[tuple[int, int, int]] = []
    while most.level - least.level > 1:
        from_member = most.next_member()
        while from_member is not None and not givable.get(from_member):
            most.exclude()
            from_member = most.next_member()
        if from_member is None:
            break
        partition = givable[from_member].pop()
        to_member = least.next_member()
        if most.level - least.level <= 1:
            break
        owner[partition] = to_member
        loads[from_member] -= 1
        loads[to_member] += 1
        moved.append((partition, from_member, to_member))
    return moved


def sort_by_load(members: Sequence[int], loads: Sequence[int]) -> list[int]:
    """Members by load, equally loaded ones in their order."""
    return sorted(members, key=lambda member: (loads[member], member))


class LeastLoadedMembers:
    """The least loaded members, over and over: a range at the front of the order, which grows as it fills up.

    Attributes:
        level: what the members of the range had before they were handed out this time.
    """

    def __init__(self, order: list[int], loads: list[int]) -> None:
        """Of members sorted by load; `loads` is what they have at any time."""
        self._order, self._loads = order, loads
        self._end = self._next = 0
        self.level = loads[order[0]] - 1

    def next_member(self) -> int:
        """The next one to get a partition."""
        if self._next >= self._end:
            self.level += 1
            while self._end < len(self._order) and self._loads[self._order[self._end]] == self.level:
                self._end += 1
            self._next = 0
        self._next += 1
        return self._order[self._next - 1]


class MostLoadedMembers:
    """The most loaded members, over and over: a range at the end of the order, handed out from its end.

    Attributes:
        level: what the members of the range had before they were handed out this time.
    """

    def __init__(self, order: list[int], loads: list[int]) -> None:
        """Of members sorted by load; `loads` is what they have at any time."""
        self._order, self._loads = order, loads
        self._begin = self._end = len(order)
        self._next = len(order) - 1
        self.level = loads[order[-1]] + 1

    def next_member(self) -> int | None:
        """The next one to give a partition; null where nobody is left."""
        if self._next < self._begin:
            emptied = self._end <= self._begin and self._begin > 0
            self.level = self._loads[self._order[self._begin - 1]] if emptied else self.level - 1
            while self._begin > 0 and self._loads[self._order[self._begin - 1]] == self.level:
                self._begin -= 1
            self._next = self._end - 1
        if self._next < 0:
            return None
        self._next -= 1
        return self._order[self._next + 1]

    def exclude(self) -> None:
        """Take the last one out of the range: it has nothing to give."""
        at, end = self._next + 1, self._end - 1
        self._order[at], self._order[end] = self._order[end], self._order[at]
        self._end = end


def _to_target_assignments(owners: list[list[int]], kept: list[IntArray]) -> TargetAssignments:
    """The answer as runs, those apart that balance took away."""
    parts: list[PartitionSlices] = []
    reasons: list[IntArray] = []
    for topic, (had, owner) in enumerate(zip(kept, (np.array(each, np.int64) for each in owners), strict=True)):
        moved = (had >= 0) & (had != owner)
        for some, reason in ((~moved, KEPT), (moved, BALANCING)):
            member, *run = owners_to_slices(np.where(some, owner, NO_MEMBER))
            parts.append(PartitionSlices(member, np.full(len(member), topic), *run))
            reasons.append(np.full(len(member), reason))
    nothing = np.empty(0, np.int64)
    columns = [np.concatenate([nothing, *(part.columns[at] for part in parts)]) for at in range(5)]
    return TargetAssignments(PartitionSlices(*columns), np.concatenate([nothing, *reasons]))
