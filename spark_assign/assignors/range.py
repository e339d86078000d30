"""Range: assigns each topic in consecutive ranges (Kafka's `RangeAssignor`), by rack if racks are known (KIP-881).

Principles, in order of priority
    1. Balance within a topic: with p partitions and n subscribers, each gets p // n, and p % n get one more.
    2. Co-partitioning: topics with the same subscribers and the same number of partitions are assigned the same way.
    3. Racks: as many partitions as possible go to a member in whose rack they have a replica.

Without racks, Spark windows compute the same (`groups.windows`).

Topics
    - A topic needs racks if some subscriber's rack has a replica of it, and not all partitions have replicas in the
      same full set of racks (`AbstractPartitionAssignor.useRackAwareAssignment`).
    - If any topic of a group does, topics are grouped by subscribers and number of partitions. A set of two or more
      topics whose subscribers have racks is assigned with racks even if it doesn't need them; a single topic only if it
      does. All others get plain ranges.

Steps for each set
    1. Quota: p // n; the first p % n members that exceed it get one more.
    2. Match racks: assign partitions to members in whose rack they have a replica (a member without a rack matches
       all): member by member for a single topic, partition by partition for several topics.
    3. Rest: the remaining partitions go, in order, to the members below their quota, in order.

Example: t has four partitions with replicas in racks y, x, y, x. C0 is in rack x, C1 in rack y.

    match racks    C0: [p1, p3]    C1: [p0, p2]
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_assign.assignors.group_specs import GroupSpecs, SubscriberLists
from spark_assign.numeric.arrays import (
    BoolArray,
    IntArray,
    PartitionSlices,
    owners_to_slices,
    ranges_by_length,
    values_by_key,
)


def assign_range(
    specs: GroupSpecs, selected: BoolArray, windowed: BoolArray, slices: PartitionSlices, *, uses_racks: bool = True
) -> PartitionSlices:
    """Assigns the selected groups by range.

    Args:
        specs: the groups.
        selected: mask of groups.
        windowed, slices: mask of the selected groups that Spark windows have computed, and their slices.
        uses_racks: whether the client release uses racks.
    """
    others = specs.topics.partitions_to_assign(selected & ~windowed)
    if others.any():
        slices = slices.concat(assign_ranges(specs.subscriber_lists, others))
    if uses_racks and specs.rack_set:
        return replace_by_racks(specs, selected, slices, specs.subscriber_lists)
    return slices


def assign_ranges(lists: SubscriberLists, partitions: IntArray) -> PartitionSlices:
    """Assigns topics in consecutive ranges, without racks, given the number of partitions of each topic."""
    topics = np.flatnonzero(partitions)
    list_index, count = lists.of_topic[topics], partitions[topics]
    size = lists.size[list_index]
    num_assigned = np.minimum(size, count)
    position = ranges_by_length(num_assigned)
    topic, start, quota, extra = (
        np.repeat(each, num_assigned) for each in (topics, lists.start[list_index], *np.divmod(count, size))
    )
    first, length = _range_at(position, quota, extra)
    return PartitionSlices(lists.members[start + position], topic, first, np.ones_like(first), length)


def range_slices(position: IntArray, num_subscribers: IntArray, partitions: IntArray) -> tuple[IntArray, IntArray]:
    """Returns first and count of the range of the subscriber at a position, from 0, in the list of its topic."""
    return _range_at(position, *np.divmod(partitions, num_subscribers))


def _range_at(position: IntArray, quota: IntArray, extra: IntArray) -> tuple[IntArray, IntArray]:
    # Up to 3.4, `RangeAssignor`: `numPartitionsPerConsumer * i + Math.min(i, consumersWithExtraPartition)`, for
    # subscriber i. Example: five partitions, two subscribers: position [0, 1], quota 2, extra 1: first [0, 3], count
    # [3, 2].
    return position * quota + np.minimum(position, extra), quota + (position < extra)


def replace_by_racks(
    specs: GroupSpecs,
    selected: BoolArray,
    slices: PartitionSlices,
    lists: SubscriberLists,
    *,
    like_librdkafka: bool = False,
) -> PartitionSlices:
    """Returns the slices, with those of topics in which racks matter computed by rack.

    Args:
        specs: the groups.
        selected: mask of groups.
        slices: their assignment without racks.
        lists: the subscribers of each topic, in the order in which they are assigned to.
        like_librdkafka: see `assign_rack_aware_topics`.
    """
    members, topics, known = specs.members, specs.topics, specs.topics.with_metadata
    bounds = np.searchsorted(topics.group[known], np.arange(specs.num_groups + 1))
    replacements: list[PartitionSlices] = []
    replaced = np.zeros(len(topics), bool)
    for group in np.flatnonzero(specs.groups_with_racks & selected).tolist():
        group_topics = known[bounds[group] : bounds[group + 1]].tolist()
        rack_topics = [
            RackTopic(topic, int(lists.of_topic[topic]), int(topics.partitions[topic]), specs.racks_of(topic))
            for topic in group_topics
        ]
        racks = {int(lists.of_topic[topic]): members.rack[lists.of(topic)].tolist() for topic in group_topics}
        for topic, owner in assign_rack_aware_topics(rack_topics, racks, like_librdkafka=like_librdkafka).items():
            position, *ranges = owners_to_slices(owner)
            replacements.append(PartitionSlices(lists.of(topic)[position], np.full(len(position), topic), *ranges))
            replaced[topic] = True
    return slices.take(~replaced[slices.topic]).concat(*replacements)


class RackTopic(NamedTuple):
    """A topic with metadata: its index, subscriber list, number of partitions, and the racks of each partition's
    replicas."""

    topic: int
    subscriber_list: int
    partitions: int
    partition_racks: Sequence[frozenset[Hashable]]


def racks_matter(partitions: Iterable[frozenset[Hashable]], member_racks: Set[Hashable]) -> bool:
    """Checks whether racks affect the assignment (`AbstractPartitionAssignor.useRackAwareAssignment`)."""
    used = set(partitions)
    everywhere = frozenset[Hashable]().union(*used)
    return not everywhere.isdisjoint(member_racks) and used != {everywhere}


def assign_rack_aware_topics(
    topics: Sequence[RackTopic], racks: Mapping[int, Sequence[int]], *, like_librdkafka: bool = False
) -> dict[int, NDArray[np.int64]]:
    """Assigns the topics of one group for which racks are used.

    Args:
        topics: all topics of the group.
        racks: racks of the members of each subscriber list, in assignment order; -1 if unknown.
        like_librdkafka: a set of two or more topics uses racks even if no topic of the group needs them, and then the
            members without a rack match no partition.

    Returns:
        for each topic without plain ranges, the owner of each partition, as a position in its subscriber list.
    """
    sets: dict[tuple[int, int], list[RackTopic]] = {}
    topics_with_racks = set()
    for topic in topics:
        sets.setdefault((topic.subscriber_list, topic.partitions), []).append(topic)
        if racks_matter(topic.partition_racks, set(racks[topic.subscriber_list]) - {-1}):
            topics_with_racks.add(topic.topic)
    assigned: dict[int, NDArray[np.int64]] = {}
    for (subscriber_list, _), topic_set in sets.items():
        has_racks = max(racks[subscriber_list]) >= 0
        uses_racks = has_racks and (like_librdkafka or topics_with_racks)
        if uses_racks and (len(topic_set) > 1 or topic_set[0].topic in topics_with_racks):
            assigned |= dict.fromkeys(
                [topic.topic for topic in topic_set],
                _assign_topic_set(racks[subscriber_list], topic_set, like_librdkafka),
            )
    return assigned


def _assign_topic_set(racks: Sequence[int], topics: Sequence[RackTopic], like_librdkafka: bool) -> NDArray[np.int64]:
    """Assigns topics with the same subscribers and number of partitions."""
    # A row for each rack with a replica, and one for all others: every member can have a rack of its own.
    used = sorted(
        {*racks}.intersection(*[frozenset[Hashable]().union(*set(topic.partition_racks)) for topic in topics])
    )
    in_rack = np.ones((len(used) + 1, topics[0].partitions), bool)
    position: dict[Hashable, int] = {rack: place for place, rack in enumerate(used)}
    position[-1] = -1
    for topic in topics:
        found = np.zeros_like(in_rack)
        for partition, replicas in enumerate(topic.partition_racks):
            found[[position[rack] for rack in replicas if rack in position], partition] = True
        in_rack &= found
    if like_librdkafka and len(topics) > 1:
        position[-1] = len(used)
    return assign_with_racks(
        [position.get(rack, len(used)) for rack in racks], in_rack, is_co_partitioned=len(topics) > 1
    )


def assign_with_racks(
    member_racks: Sequence[int], in_rack: NDArray[np.bool_], *, is_co_partitioned: bool
) -> NDArray[np.int64]:
    """Returns the position of the owner of each partition.

    Args:
        member_racks: rack of each member, in order; -1 if unknown.
        in_rack: whether the partition (of every topic in the set) has a replica in the rack, by rack and partition.
        is_co_partitioned: whether the set has several topics.
    """
    assignment = _TopicSetAssignment(member_racks, in_rack)
    if is_co_partitioned:
        assignment.assign_by_partition()
    else:
        assignment.assign_by_member()
    assignment.assign_remaining()
    return assignment.owner


class _TopicSetAssignment:
    """The quotas and owners while a set is assigned."""

    def __init__(self, member_racks: Sequence[int], in_rack: NDArray[np.bool_]) -> None:
        num_partitions = in_rack.shape[1]
        self.racks = member_racks
        self.in_rack = in_rack
        self.owner = np.full(num_partitions, -1, dtype=np.int64)
        self.quota: int = num_partitions // len(member_racks)
        self.extra: int = num_partitions % len(member_racks)
        self.assigned = [0] * len(member_racks)

    def max_assignable(self, member: int) -> int:
        """Returns the number of partitions that the member can still get (`TopicAssignmentState.maxAssignable`)."""
        return max(0, self.quota + (self.extra > 0) - self.assigned[member])

    def assign(self, member: int, partitions: NDArray[np.int64] | int, count: int) -> None:
        """Assigns partitions (`onAssigned`). A member that exceeds the quota uses one of the extra partitions."""
        self.owner[partitions] = member
        self.assigned[member] += count
        if self.assigned[member] > self.quota:
            self.extra -= 1

    def assign_by_member(self) -> None:
        """Each member in turn takes the first unassigned partitions in its rack, up to its quota."""
        for member, rack in enumerate(self.racks):
            is_free = self.owner < 0
            if rack >= 0:
                is_free &= self.in_rack[rack]
            matching = np.flatnonzero(is_free)[: self.max_assignable(member)]
            if len(matching):
                self.assign(member, matching, len(matching))

    def assign_by_partition(self) -> None:
        """Each partition in turn goes to the first member in a matching rack below its quota."""
        queues = values_by_key((rack, member) for member, rack in enumerate(self.racks))
        # Room never grows, so a member without room leaves the queue of its rack for good.
        fronts = dict.fromkeys(queues, 0)
        for partition in range(len(self.owner)):
            best = -1
            for rack, queue in queues.items():
                if rack >= 0 and not self.in_rack[rack, partition]:
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
        """Each member in turn takes the first unassigned partitions, in any rack (step 3)."""
        unassigned = np.flatnonzero(self.owner < 0)
        start = 0
        for member in range(len(self.racks)):
            count = min(self.max_assignable(member), len(unassigned) - start)
            if count:
                self.assign(member, unassigned[start : start + count], count)
                start += count
