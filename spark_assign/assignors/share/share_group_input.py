"""Share groups as `SimpleAssignor` sees them, read from the specs of groups (`assignors.group_specs`).

The partitions that members own are their current assignment. Topics without an id are ordered by name, as for the
broker's other assignors (`assignors.server`); members are in the order in which the broker lists them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.assignors.group_facts import INITIALIZED, find_owned
from spark_assign.assignors.group_specs import ALL_MEMBERS, GroupSpecs
from spark_assign.assignors.server.coordinator_order import (
    TopicIds,
    coordinator_member_order,
    coordinator_previous_order,
    in_owned_order,
    set_order,
)
from spark_assign.numeric.arrays import (
    PARTITION_BITS,
    BoolArray,
    IntArray,
    KeyIndex,
    PartitionSlices,
    expand_slices,
    invert,
    mask_from_indexes,
    ranges_by_length,
)

_NO_PARTITION = -1
"""Partition of an owned topic without partitions."""


@dataclass(frozen=True)
class ShareGroupSpecs:
    """Share groups as the assignor sees them. Groups and topics have the indexes of `GroupSpecs`, members their own.

    Attributes:
        member_group: group of each member, ascending; members of a group are in the assignor's order.
        has_subscription: whether each member subscribes to any topic name, existing or not.
        homogeneous: whether all members of each group subscribe to the same names.
        topic_group: group of each topic.
        topic_hash: hash code of the id of each topic.
        subscriber: member of each subscription to an existing topic, ascending; in homogeneous groups only those of the
            first member.
        subscribed_topic: topic of each subscription; the topics of a member are in the order of its set of names.
        assignable_topic: topic of each assignable partition, ascending.
        assignable_partition: partition number of each assignable partition, ascending per topic.
        previous_member: member of each previous assignment, ascending.
        previous_topic: topic of each previous assignment, in the order of the member's map.
        previous_partition: partition number of each previous assignment, in the order of the topic's set.
    """

    member_group: IntArray
    has_subscription: BoolArray
    homogeneous: BoolArray
    topic_group: IntArray
    topic_hash: IntArray
    subscriber: IntArray
    subscribed_topic: IntArray
    assignable_topic: IntArray
    assignable_partition: IntArray
    previous_member: IntArray
    previous_topic: IntArray
    previous_partition: IntArray


@dataclass(frozen=True)
class ShareGroupInput:
    """The assignor's input and its relation to the specs of the groups.

    Attributes:
        share_specs: the assignor's input.
        members: index in the specs of each of the assignor's members.
        empty: the topics that members own without partitions; `member` indexes into `share_specs`.
    """

    share_specs: ShareGroupSpecs
    members: IntArray
    empty: PartitionSlices


def read_share_group_input(specs: GroupSpecs, ids: TopicIds, selected: BoolArray) -> ShareGroupInput:
    """Reads the assignor's input for the selected groups of the specs (a flag per group)."""
    topics, ordered = specs.topics, coordinator_member_order(specs).index
    members = ordered[selected[specs.members.group[ordered]]]
    share_index = invert(members, len(specs.members))
    is_partial = topics.is_subscribed & (topics.subscriber_set != ALL_MEMBERS)
    homogeneous = ~mask_from_indexes(topics.group[is_partial], specs.num_groups)
    lists = specs.list_subscribers(ordered)
    existing = np.flatnonzero(topics.is_subscribed & (topics.partitions >= 0) & selected[topics.group])
    listed = lists.of_topic[existing]
    size = np.where(homogeneous[topics.group[existing]], 1, lists.size[listed])
    row, place = expand_slices(lists.start[listed], np.ones_like(listed), size)
    subscriber, subscribed_topic = share_index[lists.members[place]], existing[row]
    order = np.lexsort((_name_set_order(specs)[subscribed_topic], subscriber))
    assignable_topic, assignable_partition = _find_assignable(specs, selected)
    previous, empty = _read_previous(specs, share_index, ids)
    share_specs = ShareGroupSpecs(
        member_group=specs.members.group[members],
        has_subscription=specs.members.has_subscription[members],
        homogeneous=homogeneous,
        topic_group=topics.group,
        topic_hash=ids.hash,
        subscriber=subscriber[order],
        subscribed_topic=subscribed_topic[order],
        assignable_topic=assignable_topic,
        assignable_partition=assignable_partition,
        previous_member=previous.member,
        previous_topic=previous.topic,
        previous_partition=previous.first,
    )
    return ShareGroupInput(share_specs, members, empty)


def _name_set_order(specs: GroupSpecs) -> IntArray:
    """Returns the position of each topic in the hash set of all names that its group subscribes to; -1 for others."""
    subscribed = np.flatnonzero(specs.topics.is_subscribed)
    order = set_order(specs.topic_hash[subscribed], subscribed, specs.topics.group[subscribed])
    return invert(subscribed[order], len(specs.topics))


def _find_assignable(specs: GroupSpecs, selected: BoolArray) -> tuple[IntArray, IntArray]:
    """Returns topic and number of each assignable partition, ascending.

    If facts list initialized partitions of a group, only these are assignable; otherwise, all are.
    """
    topics, facts = specs.topics, specs.facts
    with_metadata = np.flatnonzero(topics.is_subscribed & (topics.partitions > 0) & selected[topics.group])
    num_partitions = topics.partitions[with_metadata]
    topic, partition = np.repeat(with_metadata, num_partitions), ranges_by_length(num_partitions)
    if not len(facts.rows_by_kind[INITIALIZED]):
        return topic, partition
    lists_initialized = mask_from_indexes(facts.group_index[facts.rows_by_kind[INITIALIZED]], facts.num_groups)
    rows, row_topic = topics.find_rows(facts, INITIALIZED, specs.fact_group_index)
    row, number = expand_slices(*(facts.int_column(name, 0)[rows] for name in ("first", "step", "count")))
    assignable = np.isin(topic << PARTITION_BITS | partition, row_topic[row] << PARTITION_BITS | number)
    assignable |= ~lists_initialized[specs.fact_group_index[topics.group[topic]]]
    return topic[assignable], partition[assignable]


def _read_previous(specs: GroupSpecs, share_index: IntArray, ids: TopicIds) -> tuple[PartitionSlices, PartitionSlices]:
    """Returns the owned partitions in the iteration order of Kafka's maps and sets, and the owned topics without any.

    Args:
        specs: the specs.
        share_index: the assignor's index of each member of the specs; -1 for members of groups that aren't selected.
        ids: ids of the topics.
    """
    member, topic = _find_owned_without_partitions(specs)
    columns = (np.full(len(member), value) for value in (_NO_PARTITION, 1, 1))
    previous = specs.owned.expand().concat(PartitionSlices(member, topic, *columns))
    previous = previous.take(share_index[previous.member] >= 0)
    previous = PartitionSlices(share_index[previous.member], *previous.columns[1:])
    previous = previous.take(np.lexsort((previous.first, previous.topic, previous.member)))
    previous, _, _ = coordinator_previous_order(previous, ids.hash, ids.rank)
    ordered = specs.owned_order
    ordered = ordered.take(share_index[ordered.member] >= 0)
    ordered = PartitionSlices(share_index[ordered.member], *ordered.columns[1:])
    previous = previous.take(in_owned_order(previous, ordered)[0])
    return previous.take(previous.first != _NO_PARTITION), previous.take(previous.first == _NO_PARTITION)


def _find_owned_without_partitions(specs: GroupSpecs) -> tuple[IntArray, IntArray]:
    """Returns members and topics of empty owned slices; they take part in the order of the member's map of topics."""
    facts = specs.facts
    slices = find_owned(facts, mask_from_indexes(specs.fact_group_index, facts.num_groups))
    rows = np.unique(slices.row[slices.count == 0])
    num_names = max(len(facts.member_id), 1)
    group = specs.fact_group_index[specs.members.group]
    members = KeyIndex(group * num_names + facts.member_index[specs.members.row])
    member = members.lookup(facts.group_index[rows] * num_names + facts.member_index[rows])
    return member, specs.topics.find(specs.members.group[member], facts.topic_index[rows])
