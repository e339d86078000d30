"""librdkafka's range and roundrobin on slices, many groups at once, if racks don't matter.

They differ from Java's in the order of members: ids are compared as bytes, and if a group has static and dynamic
members, the order is the result of C's merge sort (`groups.assignors.librdkafka.balancer_input.served`).
"""

from __future__ import annotations

import numpy as np

from spark_assign.groups.assignors.librdkafka.balancer_input import LibrdkafkaMember, assignment_order
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.java.key_index import byte_ranks
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices
from spark_assign.numeric.round_robin_offset import round_robin_start
from spark_assign.numeric.segmented_arrays import exclusive_sum, key_ranges, row_numbers

NO_POSITION = np.iinfo(np.int32).max
"""Position of a member without one."""


def range_slices(specs: GroupSpecs, selected: BoolArray) -> PartitionSlices:
    """Assigns each topic in consecutive ranges."""
    member, topic = _subscriptions(specs, selected)
    assignment_order = _AssignmentOrder(specs)
    order = np.lexsort((assignment_order.place[member], topic))
    member, topic = assignment_order.apply(member[order], topic[order]), topic[order]
    row_number, size = row_numbers(topic), np.bincount(topic, minlength=len(specs.topics))[topic]
    quota, extra = np.divmod(specs.topics.partitions[topic], np.maximum(size, 1))
    slices = PartitionSlices(
        member,
        topic,
        row_number * quota + np.minimum(row_number, extra),
        np.ones_like(row_number),
        quota + (row_number < extra),
    )
    return slices.take(slices.count > 0)


def round_robin_slices(specs: GroupSpecs, selected: BoolArray) -> PartitionSlices:
    """Assigns all topics, by name, in turn on the ring of members with a subscription."""
    member, topic = _subscriptions(specs, selected)
    topics = specs.topics
    ring, sizes = _rings(specs, _AssignmentOrder(specs))
    order = np.lexsort((ring[member], topic))
    member, topic = member[order], topic[order]
    num_subscribers = np.bincount(topic, minlength=len(topics))
    start = _starts(specs, np.flatnonzero(num_subscribers), sizes, ring[member], topic)
    size = num_subscribers[topic]
    first = (row_numbers(topic) - start[topic]) % np.maximum(size, 1)
    count = np.maximum(-(-(topics.partitions[topic] - first) // np.maximum(size, 1)), 0)
    slices = PartitionSlices(member, topic, first, np.where(count > 1, size, 1), count)
    return slices.take(count > 0)


def _subscriptions(specs: GroupSpecs, selected: BoolArray) -> tuple[IntArray, IntArray]:
    """Returns member and topic of each subscription to a topic with partitions."""
    member, topic = np.divmod(specs.subscriptions, max(len(specs.topics), 1))
    is_selected = selected[specs.topics.group[topic]] & (specs.topics.partitions[topic] > 0)
    return member[is_selected], topic[is_selected]


def _rings(specs: GroupSpecs, assignment_order: _AssignmentOrder) -> tuple[IntArray, IntArray]:
    """Returns each member's position in the ring of its group, and the size of each ring."""
    group = specs.members.group
    subscribers = np.flatnonzero(specs.members.has_subscription)
    subscribers = subscribers[np.lexsort((assignment_order.place[subscribers], group[subscribers]))]
    subscribers = assignment_order.apply(subscribers, group[subscribers])
    ring = np.zeros(len(group), np.int64)
    ring[subscribers] = row_numbers(group[subscribers])
    return ring, np.bincount(group[subscribers], minlength=specs.num_groups)


def _starts(
    specs: GroupSpecs, assigned_topics: IntArray, sizes: IntArray, position: IntArray, topic: IntArray
) -> IntArray:
    """Returns, for each topic, the ordinal among its subscribers of the member that gets partition 0.

    Args:
        specs: all groups.
        assigned_topics: the assigned topics.
        sizes: size of the ring of each group.
        place, topic: of each subscription, the position of its member in the ring, sorted by topic and position.
    """
    topics = specs.topics
    assigned_topics = assigned_topics[
        np.lexsort((byte_ranks(specs.topic)[assigned_topics], topics.group[assigned_topics]))
    ]
    group = topics.group[assigned_topics]
    start = np.zeros(len(topics), np.int64)
    num_preceding = exclusive_sum(topics.partitions[assigned_topics], np.searchsorted(group, group))
    start[assigned_topics] = num_preceding % np.maximum(sizes[group], 1)
    num_subscribers = np.bincount(topic, minlength=len(topics))
    is_heterogeneous = np.zeros(specs.num_groups, bool)
    is_heterogeneous[group[num_subscribers[assigned_topics] != sizes[group]]] = True
    starts = np.cumsum(num_subscribers) - num_subscribers
    heterogeneous_topics = assigned_topics[is_heterogeneous[group]]
    for first, last in key_ranges(topics.group[heterogeneous_topics]):
        group_topics = heterogeneous_topics[first:last].tolist()
        visits = [
            (
                position[starts[topic_index] : starts[topic_index] + num_subscribers[topic_index]].tolist(),
                int(topics.partitions[topic_index]),
            )
            for topic_index in group_topics
        ]
        start[group_topics] = round_robin_start(visits)
    return start


class _AssignmentOrder:
    """The assignment order of members.

    Attributes:
        place: ascending in assignment order, in groups whose members are all static or all dynamic.
    """

    def __init__(self, specs: GroupSpecs) -> None:
        members = specs.members
        facts = specs.facts
        instance = facts.column("group_instance_id", members.row)
        static = instance.is_valid().to_numpy(zero_copy_only=False)
        name = byte_ranks(specs.member_id)
        self.place: IntArray = np.where(static, byte_ranks(instance), name)
        self._specs, self._static, self._group = specs, static, members.group
        has_subscription = members.has_subscription
        counts = [
            np.bincount(members.group[has_subscription & kind], minlength=specs.num_groups)
            for kind in (static, ~static)
        ]
        self._mixed = (counts[0] > 0) & (counts[1] > 0)
        self._listed = (name, facts.int_column("position", NO_POSITION)[members.row])

    def apply(self, member: IntArray, topic: IntArray) -> IntArray:
        """Returns members by topic, in the order of C's merge sort for groups with static and dynamic members."""
        is_mixed = self._mixed[self._group[member]]
        if not is_mixed.any():
            return member
        member = member.copy()
        order_by_members: dict[bytes, IntArray] = {}
        for start, end in key_ranges(topic):
            if is_mixed[start]:
                topic_members = np.sort(member[start:end])
                key = topic_members.tobytes()
                if key not in order_by_members:
                    order_by_members[key] = self._merged(topic_members)
                member[start:end] = order_by_members[key]
        return member

    def _merged(self, members: IntArray) -> IntArray:
        name, position = self._listed
        members = members[np.lexsort((name[members], position[members]))]
        ids = self._specs.member_id.take(members).to_pylist()
        instances = self._specs.facts.column("group_instance_id", self._specs.members.row[members]).to_pylist()
        group_members = [
            LibrdkafkaMember(name, instance, "", ordinal, frozenset(), ())
            for ordinal, (name, instance) in enumerate(zip(ids, instances, strict=True))
        ]
        return members[[member.generation for member in assignment_order(group_members)]]
