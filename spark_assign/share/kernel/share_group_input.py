"""Share groups as facts tell of them (`groups.kernel.group_specs`), read for the assignor.

What members own is taken for their assignment so far. Topics without an id count by name, as for the broker's other
assignors (`groups.kernel.server_assignors`); members stand where the broker lists them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.groups.assignors.server.coordinator_hash_order import TopicIds, set_order
from spark_assign.groups.assignors.sticky.plan_batch import ALL_MEMBERS
from spark_assign.groups.kernel.coordinator_order import coordinator_member_order, coordinator_previous_order
from spark_assign.groups.kernel.facts import INITIALIZED, find_owned
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.groups.kernel.sticky_input import in_owned_order, read_owned_order
from spark_assign.java.hash_map import string_hashes
from spark_assign.java.key_index import Places
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PARTITION_BITS, PartitionSlices
from spark_assign.numeric.segmented_arrays import expand_slices
from spark_assign.share.kernel.simple_assignor import ShareGroupSpecs

_NONE = -1
"""In place of a partition."""


@dataclass(frozen=True)
class ShareGroupInput:
    """Share groups as the assignor is told of them, in the numbers of a specs.

    Attributes:
        groups: what it is told.
        members: of each of its members the number in the specs; topics and groups have the specs's numbers.
        empty_member, empty_topic: members and topics of which they have a set without partitions.
    """

    groups: ShareGroupSpecs
    members: IntArray
    empty_member: IntArray
    empty_topic: IntArray


def list_groups(specs: GroupSpecs, ids: TopicIds, chosen: BoolArray) -> ShareGroupInput:
    """Some groups of a specs."""
    topics, members = specs.topics, coordinator_member_order(specs).index
    members = members[chosen[specs.members.group[members]]]
    place = np.full(len(specs.members), -1, np.int64)
    place[members] = np.arange(len(members))
    alike = np.ones(specs.num_groups, bool)
    alike[topics.group[topics.is_subscribed & (topics.subscriber_set != ALL_MEMBERS)]] = False
    member, topic = np.divmod(specs.subscriptions, max(len(topics), 1))
    mine = (place[member] >= 0) & (topics.partitions[topic] >= 0)
    asking, asked = place[member[mine]], topic[mine]
    order = np.lexsort((_walk_of_names(specs)[asked], asking))
    assignable, partition = _assignable(specs, chosen)
    had, empty = _previous(specs, place, ids)
    groups = ShareGroupSpecs(
        group=specs.members.group[members],
        names=specs.members.has_subscription[members],
        alike=alike,
        topic_group=topics.group,
        topic_hash=ids.hash,
        asking=asking[order],
        asked=asked[order],
        topic=assignable,
        partition=partition,
        member=had.member,
        had_topic=had.topic,
        had=had.first,
    )
    return ShareGroupInput(groups, members, empty.member, empty.topic)


def _walk_of_names(specs: GroupSpecs) -> IntArray:
    """Of each topic its place in the hash set of all names that its group subscribes to."""
    asked = np.flatnonzero(specs.topics.is_subscribed)
    names = string_hashes(specs.facts.topic_names.to_pylist())[specs.topics.name[asked]]
    walk = np.zeros(len(specs.topics), np.int64)
    walk[asked[set_order(names, specs.topics.group[asked])]] = np.arange(len(asked))
    return walk


def _assignable(specs: GroupSpecs, chosen: BoolArray) -> tuple[IntArray, IntArray]:
    """Topic and number of the partitions that may be assigned, ascending."""
    topics, told = specs.topics, specs.facts
    known = np.flatnonzero(topics.is_subscribed & (topics.partitions > 0) & chosen[topics.group])
    at, partition = expand_slices(np.zeros_like(known), np.ones_like(known), topics.partitions[known])
    topic = known[at]
    rows = told.rows_by_kind[INITIALIZED]
    if not len(rows):
        return topic, partition
    said = np.zeros(told.num_groups, bool)
    said[told.group_index[rows]] = True
    size = max(len(told.topic_names), 1)
    of_row = Places(specs.fact_group_index[topics.group] * size + topics.name).of(
        told.group_index[rows] * size + told.topic_index[rows]
    )
    rows, of_row = rows[of_row >= 0], of_row[of_row >= 0]
    run, number = expand_slices(*(told.int_column(name, 0)[rows] for name in ("first", "step", "count")))
    there = np.isin(topic << PARTITION_BITS | partition, of_row[run] << PARTITION_BITS | number)
    there |= ~said[specs.fact_group_index[topics.group[topic]]]
    return topic[there], partition[there]


def _previous(specs: GroupSpecs, place: IntArray, ids: TopicIds) -> tuple[PartitionSlices, PartitionSlices]:
    """What members own, partition by partition in the walk of their maps and sets; and the topics with none.

    Args:
        place: of each member its number for the assignor; -1 for those that it is not asked about.
    """
    one_by_one = specs.owned.expand()
    none = _without_partitions(specs)
    had = one_by_one.concat(PartitionSlices(*none, *(np.full(len(none[0]), each) for each in (_NONE, 1, 1))))
    had = had.take(place[had.member] >= 0)
    had = PartitionSlices(place[had.member], *had.columns[1:])
    had = had.take(np.lexsort((had.first, had.topic, had.member)))
    had, _, _ = coordinator_previous_order(had, ids.hash, ids.rank)
    told = read_owned_order(specs)
    told = told.take(place[told.member] >= 0)
    had = had.take(in_owned_order(had, PartitionSlices(place[told.member], *told.columns[1:]))[0])
    return had.take(had.first != _NONE), had.take(had.first == _NONE)


def _without_partitions(specs: GroupSpecs) -> tuple[IntArray, IntArray]:
    """Members and topics of owned runs that are empty; they count in the member's map of topics."""
    told = specs.facts
    sound = np.zeros(told.num_groups, bool)
    sound[specs.fact_group_index] = True
    claimed = find_owned(told, sound)
    rows = np.unique(claimed.row[claimed.count == 0])
    names, size = max(len(told.member_id), 1), max(len(told.topic_names), 1)
    group = specs.fact_group_index[specs.members.group]
    members = Places(group * names + told.member_index[specs.members.row]).of(
        told.group_index[rows] * names + told.member_index[rows]
    )
    topics = Places(specs.fact_group_index[specs.topics.group] * size + specs.topics.name)
    return members, topics.of(told.group_index[rows] * size + told.topic_index[rows])
