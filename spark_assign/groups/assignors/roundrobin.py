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

If all topics of a group have the same subscribers, Spark windows compute the same (`groups.windows.roundrobin`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

import numpy as np

from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices
from spark_assign.numeric.segmented_arrays import exclusive_sum, key_ranges, row_numbers, starts_new_key


def assign_round_robin(
    specs: GroupSpecs, selected: BoolArray, by_windows: PartitionSlices | None = None
) -> PartitionSlices:
    """Assigns the selected groups by round robin.

    Args:
        specs: the groups.
        selected: mask of groups.
        by_windows: slices of the selected groups that Spark windows have computed, if they have. They are right for
            groups in which all topics have the same subscribers.
    """
    slices: list[PartitionSlices] = []
    if by_windows is not None:
        group, topics = specs.topics.group, specs.topics.with_metadata
        selected = selected & _has_different_sets(group[topics], specs.topics.subscriber_set[topics], specs.num_groups)
        slices = [by_windows.take(~selected[group[by_windows.topic]])]
        if not selected.any():
            return slices[0]
    member, topic = specs.sorted_subscriptions(selected)
    in_turn = assign_in_turn(specs, member, topic, specs.assignment_order[member], np.arange(len(specs.topics)))
    return in_turn.concat(*slices)


def assign_in_turn(
    specs: GroupSpecs, member: IntArray, topic: IntArray, ring: IntArray, rank: IntArray
) -> PartitionSlices:
    """Assigns topics to their subscribers in turn.

    Args:
        specs: the groups.
        member, topic: the subscriptions to the assigned topics, sorted by topic and `ring`.
        ring: for each subscription, the position of its member on the ring of its group, which can start at any number.
        rank: position of each topic in the order in which topics are assigned.
    """
    partitions, size = specs.topics.partitions, np.bincount(topic, minlength=len(specs.topics))
    start = _find_starts(specs, topic, ring, rank)
    first = (row_numbers(topic) - start[topic]) % size[topic]
    count = -(-(partitions[topic] - first) // size[topic])
    return PartitionSlices(member, topic, first, size[topic], count).take(count > 0)


def _find_starts(specs: GroupSpecs, topic: IntArray, ring: IntArray, rank: IntArray) -> IntArray:
    """Returns, for each topic, the position among its subscribers of the one that gets partition 0 (step 1)."""
    topics = topic[starts_new_key(topic)]
    topics = topics[np.lexsort((rank[topics], specs.topics.group[topics]))]
    group, counts = specs.topics.group[topics], specs.topics.partitions[topics]
    size = np.bincount(topic, minlength=len(specs.topics))
    start = np.zeros(len(size), np.int64)
    start[topics] = exclusive_sum(counts, np.searchsorted(group, group)) % size[topics]
    first_row = np.cumsum(size) - size
    differ = _has_different_sets(group, specs.topics.subscriber_set[topics], specs.num_groups)
    topics = topics[differ[group]]
    for begin, end in key_ranges(specs.topics.group[topics]):
        group_topics = topics[begin:end].tolist()
        positions = (ring[first_row[each] : first_row[each] + size[each]].tolist() for each in group_topics)
        counts = specs.topics.partitions[group_topics]
        start[group_topics] = round_robin_start(zip(positions, counts.tolist(), strict=True))
    return start


def _has_different_sets(group: IntArray, subscriber_set: IntArray, num_groups: int) -> BoolArray:
    """Returns a mask of the groups whose topics, given by group and subscriber set, have different subscribers."""
    low, high = np.full(num_groups, np.iinfo(np.int64).max), np.full(num_groups, np.iinfo(np.int64).min)
    np.minimum.at(low, group, subscriber_set)
    np.maximum.at(high, group, subscriber_set)
    is_different: BoolArray = low < high
    return is_different


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
