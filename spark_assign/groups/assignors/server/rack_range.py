"""The broker's range assignor (`org.apache.kafka.coordinator.group.assignor.RangeAssignor`), here called server-range.

Principles, in order of priority
    1. Balance within a topic: with p partitions and n subscribers, each gets p // n, and the first p % n get one more.
    2. Co-partitioning: topics with the same subscribers and the same number of partitions are assigned the same way.
The previous target and racks are ignored. (The client-side range assignor uses racks since KIP-881.)

Example: C0 and C1 subscribe to t0 and t1, three partitions each.

    C0: [t0p0, t0p1, t1p0, t1p1]    C1: [t0p2, t1p2]

Steps
    1. Sort the members: static members by instance id, then the others by member id.
    2. In each topic, the subscriber at position k starts at k * (p // n) + min(k, p % n), and gets p // n partitions;
       the first p % n subscribers get one more.

rack-server-range, which isn't part of Kafka, shows what racks would save. Its principles, in order of priority
    1. Balance within a topic: each subscriber has as many partitions as from server-range.
    2. Co-partitioning: as above.
    3. Racks: as many partitions as possible go to a member that has a replica of them in its rack.
If server-range matches as many racks, its assignment is used. The previous target is ignored.

Example: t has four partitions with replicas in racks y, x, y, x. C0 is in rack x, C1 in rack y.

    server-range         C0: [p0, p1]    C1: [p2, p3]    (two of four are read across racks)
    rack-server-range    C0: [p1, p3]    C1: [p0, p2]    (none is)

Steps, for topics with the same subscribers and the same number of partitions
    1. Value: count, for each partition number and rack, the topics that have a replica there.
    2. Distribute the partition numbers over the racks, to each as many as its members get. Members without a rack share
       a rack in which nothing has a value. Start with the most valuable pairs; then improve the result along cycles of
       racks in which each passes a number on to the next. If there is no such cycle, the total value is maximal.
    3. The numbers of a rack go to its members in order, in consecutive pieces.
"""

from __future__ import annotations

import numpy as np

from spark_assign.groups.assignors.server.rack_uniform import RackIndex
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.partition_slices import PartitionSlices, owners_to_slices
from spark_assign.numeric.segmented_arrays import key_ranges, starts_new_key


def improve_range_racks(specs: GroupSpecs, server_slices: PartitionSlices) -> PartitionSlices:
    """Returns server-range's slices with more partitions in the racks of their members if possible."""
    topic_indexes = np.unique(server_slices.topic)
    topic_indexes = topic_indexes[specs.groups_with_racks[specs.topics.group[topic_indexes]]]
    if not len(topic_indexes):
        return server_slices
    topics, racks = specs.topics, RackIndex(specs)
    order = np.lexsort((server_slices.first, server_slices.topic))
    ordered = server_slices.take(order)
    columns = topics.partitions[topic_indexes], topics.subscriber_set[topic_indexes], topics.group[topic_indexes]
    sorted_topics = topic_indexes[np.lexsort((topic_indexes, *columns))]
    class_keys = (column[sorted_topics] for column in (topics.partitions, topics.subscriber_set, topics.group))
    improved: list[PartitionSlices] = []
    replaced = np.zeros(len(topics), bool)
    for first, last in key_ranges(np.cumsum(starts_new_key(*class_keys))):
        class_topics = sorted_topics[first:last]
        class_slices = ordered.take(np.arange(*np.searchsorted(ordered.topic, [class_topics[0], class_topics[0] + 1])))
        rack = racks.of_member[class_slices.member]
        used_racks = np.unique(rack[rack >= 0])
        rack = np.where(rack < 0, -1, np.searchsorted(used_racks, rack))
        value = racks.near[racks.sets_of(class_topics).reshape(len(class_topics), -1)].sum(axis=0)[:, used_racks]
        owner = assign_ranges_by_rack(class_slices.count, rack, value)
        if _count_matched(owner, rack, value) <= _count_matched(
            np.repeat(np.arange(len(class_slices)), class_slices.count), rack, value
        ):
            continue
        replaced[class_topics] = True
        position, *run = owners_to_slices(owner)
        improved += [
            PartitionSlices(class_slices.member[position], np.full(len(position), topic), *run)
            for topic in class_topics.tolist()
        ]
    return server_slices.take(~replaced[server_slices.topic]).concat(*improved)


def _count_matched(owner: IntArray, rack: IntArray, value: IntArray) -> int:
    """Returns the number of partitions with a replica in the rack of their owner."""
    owner_rack = rack[owner]
    return int(value[np.flatnonzero(owner_rack >= 0), owner_rack[owner_rack >= 0]].sum())


def assign_ranges_by_rack(num_assigned: IntArray, rack: IntArray, value: IntArray) -> IntArray:
    """Returns the member that gets each partition number.

    Args:
        num_assigned: number of partitions that each member gets, in the order of server-range. The sum is the
            number of rows of `value`.
        rack: rack of each member; -1 if unknown.
        value: number of topics with a replica, by partition number and rack.
    """
    num_racks = value.shape[1]
    member_rack = np.where(rack < 0, num_racks, rack)
    capacity = np.bincount(member_rack, num_assigned, num_racks + 1).astype(np.int64)
    classes, partition_class, supply = np.unique(
        np.append(value, np.zeros((len(value), 1), np.int64), axis=1), axis=0, return_inverse=True, return_counts=True
    )
    flow = maximize_value(classes, supply, capacity)
    order = np.argsort(partition_class.ravel(), kind="stable")
    partition_rack = np.empty(len(value), np.int64)
    partition_rack[order] = np.repeat(np.tile(np.arange(num_racks + 1), len(classes)), flow.ravel())
    owner = np.empty(len(value), np.int64)
    owner[np.argsort(partition_rack, kind="stable")] = np.repeat(np.arange(len(num_assigned)), num_assigned)[
        np.argsort(np.repeat(member_rack, num_assigned), kind="stable")
    ]
    return owner


def maximize_value(value: IntArray, supply: IntArray, capacity: IntArray) -> IntArray:
    """Returns how many partition numbers of each class go to each rack, so that the total value is maximal (step 2).

    Args:
        value: value by class and rack.
        supply: number of partition numbers of each class.
        capacity: number of partition numbers that each rack takes. Its sum is that of the supply.
    """
    flow, num_remaining, num_free = np.zeros_like(value), supply.copy(), capacity.copy()
    for class_index, rack in zip(
        *np.unravel_index(np.argsort(-value, axis=None, kind="stable"), value.shape), strict=True
    ):
        amount = min(num_remaining[class_index], num_free[rack])
        flow[class_index, rack] = amount
        num_remaining[class_index] -= amount
        num_free[rack] -= amount
    while cycle := _find_improving_cycle(value, flow):
        amount = min(flow[class_index, rack] for class_index, rack, _ in cycle)
        for class_index, rack, next_rack in cycle:
            flow[class_index, rack] -= amount
            flow[class_index, next_rack] += amount
    return flow


def _find_improving_cycle(value: IntArray, flow: IntArray) -> list[tuple[int, int, int]]:
    """Returns (class, rack, next rack) along a cycle that increases the total value; empty if there is none."""
    num_racks = value.shape[1]
    gain = np.full((num_racks, num_racks), -np.inf)
    passed_class = np.zeros((num_racks, num_racks), np.int64)
    for rack in range(num_racks):
        classes = np.flatnonzero(flow[:, rack])
        if len(classes):
            difference = value[classes] - value[classes, rack][:, None]
            passed_class[rack], gain[rack] = classes[difference.argmax(axis=0)], difference.max(axis=0)
    # Bellman-Ford: a path that still improves after as many steps as there are racks contains a cycle.
    best, preceding = np.zeros(num_racks), np.full(num_racks, -1)
    is_better = np.zeros(num_racks, bool)
    for _ in range(num_racks):
        through = best[:, None] + gain
        is_better = through.max(axis=0) > best
        preceding[is_better] = through.argmax(axis=0)[is_better]
        best = np.maximum(best, through.max(axis=0))
    if not is_better.any():
        return []
    rack = int(np.flatnonzero(is_better)[0])
    for _ in range(num_racks):
        rack = int(preceding[rack])
    cycle: list[tuple[int, int, int]] = []
    start = rack
    while not cycle or rack != start:
        previous_rack = int(preceding[rack])
        cycle.append((int(passed_class[previous_rack, rack]), previous_rack, rack))
        rack = previous_rack
    return cycle
