"""Range where racks decide (Kafka's `RangeAssignor.assignWithRackMatching`, KIP-881).

Which topics it concerns
    - A topic needs racks if some subscriber's rack holds a replica of it, and not every partition has replicas in the
      same full set of racks (`AbstractPartitionAssignor.useRackAwareAssignment`).
    - If any topic of a group does, the group's topics are taken in sets of the same subscribers and the same number of
      partitions. A set of two or more whose subscribers have a rack at all is laid out together, needed or not; a
      topic on its own only if it needs racks itself. All other topics are plain ranges.

Steps for one set
    1. Quota: p partitions over n members give each p // n; p % n of them may have one more, whoever comes first.
    2. Near: hand out partitions to members in whose rack they have a replica (a member without a rack is near to all).
       A topic alone serves member after member; topics together serve partition after partition.
    3. Rest: what is left goes in order to the members that still have room, in order.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class RackTopic(NamedTuple):
    """A topic with metadata: its number, line of subscribers, partitions, and the racks of each one's replicas."""

    topic: int
    subscriber_list: int
    partitions: int
    partition_racks: Sequence[frozenset[Hashable]]


def racks_matter(partitions: Iterable[frozenset[Hashable]], member_racks: Set[Hashable]) -> bool:
    """Whether an assignor looks at racks (`AbstractPartitionAssignor.useRackAwareAssignment`)."""
    used = set(partitions)
    everywhere = frozenset[Hashable]().union(*used)
    return not everywhere.isdisjoint(member_racks) and used != {everywhere}


def assign_rack_aware_topics(
    topics: Sequence[RackTopic], racks: Mapping[int, Sequence[Hashable | None]]
) -> dict[int, NDArray[np.int64]]:
    """The topics of one group that racks decide, laid out.

    Args:
        topics: all topics of the group.
        racks: of each line its members' racks, in the order in which they are served; null: none.

    Returns:
        of each topic that is not a plain range, who gets each partition, as places in its line.
    """
    sets: dict[tuple[int, int], list[RackTopic]] = {}
    needs = set()
    for each in topics:
        sets.setdefault((each.subscriber_list, each.partitions), []).append(each)
        if racks_matter(each.partition_racks, set(racks[each.subscriber_list]) - {None}):
            needs.add(each.topic)
    found: dict[int, NDArray[np.int64]] = {}
    for (line, _), alike in sets.items():
        racked = any(rack is not None for rack in racks[line])
        if needs and racked and (len(alike) > 1 or alike[0].topic in needs):
            found |= dict.fromkeys([each.topic for each in alike], _assign_topic_set(racks[line], alike))
    return found


def _assign_topic_set(racks: Sequence[Hashable | None], topics: Sequence[RackTopic]) -> NDArray[np.int64]:
    names = list(dict.fromkeys(rack for rack in racks if rack is not None))
    number: dict[Hashable | None, int] = {None: -1} | {name: at for at, name in enumerate(names)}
    near = np.ones((len(names), topics[0].partitions), bool)
    for topic in topics:
        near &= np.array([[name in replicas for replicas in topic.partition_racks] for name in names], bool)
    return assign_with_racks([number[rack] for rack in racks], near, together=len(topics) > 1)


def assign_with_racks(member_racks: Sequence[int], near: NDArray[np.bool_], *, together: bool) -> NDArray[np.int64]:
    """Who gets which partition.

    Args:
        member_racks: of each member, in order, the number of its rack; -1 for a member without one.
        near: `near[rack, partition]`, whether the partition (of every topic of the set) has a replica in the rack.
        together: whether the set holds several co-partitioned topics.

    Returns:
        for each partition the index of its member.
    """
    layout = _TopicSetAssignment(member_racks, near)
    if together:
        layout.assign_by_partition()
    else:
        layout.assign_by_member()
    layout.assign_remaining()
    return layout.owner


class _TopicSetAssignment:
    """Quotas and owners while a set is laid out."""

    def __init__(self, member_racks: Sequence[int], near: NDArray[np.bool_]) -> None:
        partitions = near.shape[1]
        self.racks = member_racks
        self.near = near
        self.owner = np.full(partitions, -1, dtype=np.int64)
        self.quota: int = partitions // len(member_racks)
        self.extra: int = partitions % len(member_racks)
        self.assigned = [0] * len(member_racks)

    def max_assignable(self, member: int) -> int:
        """How many more partitions the member may have now. Kafka: `TopicAssignmentState.maxAssignable`."""
        return max(0, self.quota + (self.extra > 0) - self.assigned[member])

    def assign(self, member: int, partitions: NDArray[np.int64] | int, number: int) -> None:
        """Kafka: `onAssigned`. Whoever exceeds the quota uses up one of the extra partitions."""
        self.owner[partitions] = member
        self.assigned[member] += number
        if self.assigned[member] > self.quota:
            self.extra -= 1

    def assign_by_member(self) -> None:
        """Each member in turn takes the first free partitions near to it, as many as it has room for."""
        for member, rack in enumerate(self.racks):
            free = self.owner < 0
            if rack >= 0:
                free &= self.near[rack]
            taken = np.flatnonzero(free)[: self.max_assignable(member)]
            if len(taken):
                self.assign(member, taken, len(taken))

    def assign_by_partition(self) -> None:
        """Each partition in turn goes to the first member near to it that has room."""
        queues: dict[int, list[int]] = {}
        for member, rack in enumerate(self.racks):
            queues.setdefault(rack, []).append(member)
        # Room never grows again, so that whoever is out of room leaves the queue of its rack for good.
        fronts = dict.fromkeys(queues, 0)
        for partition in range(len(self.owner)):
            best = -1
            for rack, queue in queues.items():
                if rack >= 0 and not self.near[rack, partition]:
                    continue
                front = fronts[rack]
                while front < len(queue) and not self.max_assignable(queue[front]):
                    front += 1
                fronts[rack] = front
                if front < len(queue) and (best < 0 or queue[front] < best):
                    best = queue[front]
            if best >= 0:
                self.assign(best, partition, 1)

    def assign_remaining(self) -> None:
        """Each member in turn takes the first free partitions, wherever they are."""
        rest = np.flatnonzero(self.owner < 0)
        begin = 0
        for member in range(len(self.racks)):
            number = min(self.max_assignable(member), len(rest) - begin)
            if number:
                self.assign(member, rest[begin : begin + number], number)
                begin += number
