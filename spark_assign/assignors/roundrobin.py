"""Round robin: assigns all partitions of a group's topics to its members in turn.

Principles (Kafka's `RoundRobinAssignor`)
    1. Members form a ring: static members by instance id, then dynamic members by member id.
    2. Topics come by name, their partitions in ascending order. Each partition goes to the next member in the ring that
       subscribes to its topic.

Example: C0 and C1 subscribe to t0, only C1 to t1; both topics have three partitions.
    C0: [t0p0, t0p2]    C1: [t0p1, t1p0, t1p1, t1p2]

Steps
    1. Find where each topic starts. If all topics have the same subscribers, the number of partitions of all preceding
       topics modulo the number of subscribers is the position of the subscriber that gets partition 0. Otherwise a
       pointer on the ring carries over from topic to topic.
    2. From there, the subscribers of a topic take turns: each one gets every n-th partition.

If all topics of a group have the same subscribers, Spark windows compute the same (`groups.windows`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

import numpy as np

from spark_assign.assignors.group_specs import GroupSpecs, SubscriberLists
from spark_assign.numeric.arrays import (
    BoolArray,
    IntArray,
    PartitionSlices,
    exclusive_sum,
    invert,
    key_ranges,
    mask_from_indexes,
    ranges_by_length,
)


def assign_round_robin(
    specs: GroupSpecs, selected: BoolArray, windowed: BoolArray, slices: PartitionSlices
) -> PartitionSlices:
    """Assigns the selected groups by round robin.

    Args:
        specs: the groups.
        selected: mask of groups.
        windowed, slices: mask of the selected groups that Spark windows have computed, and their slices. They are right
            for groups in which all topics have the same subscribers.
    """
    partitions = specs.topics.partitions_to_assign(selected)
    is_computed = (windowed & ~_has_different_sets(specs, np.flatnonzero(partitions)))[specs.topics.group]
    others = np.where(is_computed, 0, partitions)
    if not others.any():
        return slices
    in_turn = assign_in_turn(specs, specs.subscriber_lists, others)
    return slices.take(is_computed[slices.topic]).concat(in_turn)


def assign_in_turn(
    specs: GroupSpecs, lists: SubscriberLists, partitions: IntArray, rank: IntArray | None = None
) -> PartitionSlices:
    """Assigns topics to their subscribers in turn.

    Args:
        specs: the groups.
        lists: the subscribers of each topic, in the order of the ring.
        partitions: number of partitions of each topic.
        rank: position of each topic in the order in which topics are assigned; None: by index.
    """
    topics = np.flatnonzero(partitions)
    size, count = lists.size[lists.of_topic[topics]], partitions[topics]
    start = _find_starts(specs, lists, partitions, rank)[topics]
    num_assigned = np.minimum(size, count)
    row, first = np.repeat(np.arange(len(topics)), num_assigned), ranges_by_length(num_assigned)
    # Kafka's `CircularIterator` hands out one partition after the other. Example: t has three partitions, start is 1.
    #     row [0, 0]    first [0, 1]    step [2, 2]    member [C1, C0]    C1: [t0, t2]    C0: [t1]
    step = size[row]
    member = lists.members[lists.start[lists.of_topic[topics]][row] + (start[row] + first) % step]
    return PartitionSlices(member, topics[row], first, step, -(-(count[row] - first) // step))


def _find_starts(specs: GroupSpecs, lists: SubscriberLists, partitions: IntArray, rank: IntArray | None) -> IntArray:
    """Returns, for each topic, the position in its list of the subscriber that gets partition 0 (step 1)."""
    topics = np.flatnonzero(partitions)
    if rank is not None:
        topics = topics[np.lexsort((rank[topics], specs.topics.group[topics]))]
    group = specs.topics.group[topics]
    start = np.zeros(len(partitions), np.int64)
    preceding = exclusive_sum(partitions[topics], np.searchsorted(group, group))
    start[topics] = preceding % lists.size[lists.of_topic[topics]]
    has_different_sets = _has_different_sets(specs, topics)
    if has_different_sets.any():
        ring = invert(lists.members[: len(specs.members)], len(specs.members))
        topics = topics[has_different_sets[group]]
        positions: dict[int, list[int]] = {}  # of each list once, however many topics have it
        for begin, end in key_ranges(specs.topics.group[topics]):
            group_topics = topics[begin:end].tolist()
            for topic in group_topics:
                if (index := int(lists.of_topic[topic])) not in positions:
                    positions[index] = ring[lists.of(topic)].tolist()
            visits = [(positions[int(lists.of_topic[topic])], int(partitions[topic])) for topic in group_topics]
            start[group_topics] = round_robin_start(visits)
    return start


def _has_different_sets(specs: GroupSpecs, topics: IntArray) -> BoolArray:
    """Returns a mask of the groups in which these topics, sorted by group, have different subscribers."""
    group, subscriber_set = specs.topics.group[topics], specs.topics.subscriber_set[topics]
    is_different = (group[1:] == group[:-1]) & (subscriber_set[1:] != subscriber_set[:-1])
    return mask_from_indexes(group[1:][is_different], specs.num_groups)


def round_robin_start(topics: Iterable[tuple[Sequence[int], int]]) -> list[int]:
    """Returns, for each topic, the index among its subscribers of the member that gets partition 0.

    Members have ascending positions on a ring. Each partition goes to the next subscriber at or after the pointer;
    the pointer then moves to the position after that member. The partitions of a topic go around its subscribers, so
    the pointer after the topic follows from the pointer before it.

    Args:
        topics: in assignment order, the ascending positions of the subscribers (at least one) and the number of
            partitions of each topic.
    """
    pointer = 0
    starts = []
    for positions, num_partitions in topics:
        start = bisect_left(positions, pointer) % len(positions)
        starts.append(start)
        if num_partitions:
            pointer = positions[(start + num_partitions - 1) % len(positions)] + 1
    return starts
