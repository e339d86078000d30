"""Groups as arrays: `GroupSpecs` (Kafka's `GroupSpec`, for many groups) in, `GroupAssignments` out.

A member, a topic, and a group are their indexes in `GroupSpecs` everywhere in the assignors. Builders of specs:

    read_group_specs from the facts of complete groups (`read_specs`)
    select_members   from selected members of other specs, with their groups (`group_subset`)
    resize           from other specs, with other numbers of members (`advice.kernel.resize`)
    read_requests    from the members that simulated coordinators list for their leaders (`simulation.kernel.leader`)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.groups.kernel.facts import GROUP, OWNED_ORDER, IndexedFacts, read_listed_partitions
from spark_assign.groups.kernel.topic_columns import PartitionLoads, SubscriptionRows, TopicColumns, read_loads
from spark_assign.java.hash_map import string_hashes, table_orders
from spark_assign.java.key_index import KeyIndex, NameIndex, take_names
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import (
    EMPTY_SLICES,
    PartitionSlices,
    compress_slices,
    invert,
    mask_from_indexes,
)
from spark_assign.numeric.segmented_arrays import expand_slices

ALL_MEMBERS = -1
"""The subscriber set that contains all members of the group."""

UNKNOWN_POSITION = np.iinfo(np.int32).max
"""Position, in the coordinator's member list, of a member for which the fleet has none."""

KEPT, OVER_QUOTA, RACK_MISMATCH, BALANCING = range(4)
"""Reasons why a partition moves from a member that could have kept it."""


@dataclass(frozen=True)
class MemberColumns:
    """Members, sorted by group and by `String.compareTo` of the member id. Shape of each array: (num_members,).

    Attributes:
        group: group index.
        row: row index of the member in the facts.
        generation: generation of the subscription; -1 for none.
        user_data_generation: generation in the user data; -1 for none.
        has_user_data: whether the member has user data.
        rack: index into `GroupSpecs.racks`; -1 for none.
        has_subscription: whether the member subscribes to any topic.
    """

    group: IntArray
    row: IntArray
    generation: IntArray
    user_data_generation: IntArray
    has_user_data: BoolArray
    rack: IntArray
    has_subscription: BoolArray

    def __len__(self) -> int:
        return len(self.group)

    def take(self, members: IntArray) -> MemberColumns:
        """Returns the columns of these members."""
        return MemberColumns(*(getattr(self, column.name)[members] for column in fields(self)))


@dataclass(frozen=True)
class HashOrders:
    """The iteration orders of the hash maps that are filled with the members of a group.

    Attributes:
        subscriptions: position of each member in the map of subscriptions, which is filled in the order of the leader's
            member list; -1 in groups that were not selected.
        owned: position in the map of current assignments, which is filled in the order of the first. It is the same
            array if no hash map has a tree, so that all hash maps of a group have the same order.
        hash: `String.hashCode` of each member id.
    """

    subscriptions: IntArray
    owned: IntArray
    hash: IntArray

    @property
    def treeified(self) -> bool:
        """Returns whether the order of a hash map depends on how it was filled."""
        return self.owned is not self.subscriptions

    def take(self, members: slice) -> HashOrders:
        """Returns the orders of these members."""
        subscriptions = self.subscriptions[members]
        return HashOrders(subscriptions, self.owned[members] if self.treeified else subscriptions, self.hash[members])


def hash_orders(hashes: IntArray, group: IntArray, position: IntArray, selected: BoolArray | None = None) -> HashOrders:
    """Returns the iteration orders of the members of the selected groups, or of all groups.

    Args:
        hashes: `String.hashCode` of each member id.
        group: group of each member, ascending; members of a group are sorted by id.
        position: position of each member in the leader's member list.
        selected: mask of groups.
    """
    listed = np.lexsort((position, group))
    if selected is not None and not selected.all():
        listed = listed[selected[group[listed]]]
    order, owned_order = table_orders(hashes[listed], listed, group[listed])
    subscriptions = invert(listed[order], len(group))
    owned = subscriptions if owned_order is order else invert(listed[owned_order], len(group))
    return HashOrders(subscriptions, owned, hashes)


def assignment_order(group: IntArray, name: IntArray, instance: IntArray) -> IntArray:
    """Returns all members, group by group, in the order in which range and roundrobin assign to them: static members by
    instance id, then dynamic members by member id (`AbstractPartitionAssignor.MemberInfo`).

    Args:
        group: group of each member.
        name: integer for each member that sorts like its id.
        instance: integer that sorts like its instance id; negative for dynamic members.
    """
    if (instance < 0).all():
        return np.lexsort((name, group))
    return np.lexsort((name, instance, instance < 0, group))


@dataclass(frozen=True)
class SubscriberLists:
    """Lists of members: first all members of each group, then the members of each subscriber set.

    Attributes:
        members: the members, list after list.
        start, size: index of the first member of each list, and the number of its members.
        of_topic: the list with the subscribers of each topic.
    """

    members: IntArray
    start: IntArray
    size: IntArray
    of_topic: IntArray

    def of(self, topic: int) -> IntArray:
        """Returns the subscribers of a topic."""
        index = self.of_topic[topic]
        return self.members[self.start[index] : self.start[index] + self.size[index]]


@dataclass(frozen=True)
class GroupSpecs:
    """Groups that have members and no fault.

    Attributes:
        facts: the facts that the specs were read from.
        fact_group_index: index of each group in the facts. Shape: (num_groups,).
        members: the members of all groups.
        topics: the topics of all groups.
        subscriber_sets: distinct sets of subscribers that aren't all members of their group, as ascending member
            indexes.
        owned: partitions that members own.
        departed_owned: partitions that departed members owned; `member` indexes into `facts.member_id`.
        subscription_rows: the subscriptions that are rows of the facts; None if the facts are those of other groups.
        racks: rack names.
        rack_sets: distinct sets of racks that hold the replicas of a partition; the first one is empty.
        rack_set: for each topic with known racks, the index into `rack_sets` of each partition.
        reported_order: `owned_order`, if it isn't read from the facts.
        partition_loads: loads of the partitions; None: read from the facts.
    """

    facts: IndexedFacts
    fact_group_index: IntArray
    members: MemberColumns
    topics: TopicColumns
    subscriber_sets: list[IntArray]
    owned: PartitionSlices
    departed_owned: PartitionSlices
    subscription_rows: SubscriptionRows | None
    racks: list[str]
    rack_sets: list[frozenset[int]]
    rack_set: dict[int, IntArray]
    reported_order: PartitionSlices | None = None
    partition_loads: PartitionLoads | None = None

    @property
    def num_groups(self) -> int:
        """Number of groups."""
        return len(self.fact_group_index)

    @cached_property
    def member_id(self) -> pa.Array:
        """Member id of each member."""
        return take_names(self.facts.member_id, self.facts.member_index[self.members.row])

    @cached_property
    def instance_id(self) -> pa.Array:
        """Instance id of each member; null for dynamic members."""
        return self.facts.column("group_instance_id", self.members.row)

    @cached_property
    def topic(self) -> pa.Array:
        """Name of each topic."""
        return take_names(self.facts.topic_names, self.topics.name)

    @cached_property
    def cluster(self) -> pa.Array:
        """Cluster of each group."""
        return self.facts.cluster.take(pa.array(self.fact_group_index))

    @cached_property
    def group_id(self) -> pa.Array:
        """Group id of each group."""
        return self.facts.group_id.take(pa.array(self.fact_group_index))

    def group_values(self, name: str) -> list[Any]:
        """Returns the value of a column of `groups` for each group; None for null, or if the group has no row."""
        facts, rows = self.facts, self.facts.rows_by_kind[GROUP]
        values = dict(zip(facts.group_index[rows].tolist(), facts.column(name, rows).to_pylist(), strict=True))
        return [values.get(group) for group in self.fact_group_index.tolist()]

    @cached_property
    def loads(self) -> PartitionLoads:
        """Loads of the partitions."""
        return self.partition_loads or read_loads(self.facts, self.fact_group_index, self.topics)

    @cached_property
    def subscriptions(self) -> IntArray:
        """Sorted unique keys of subscriptions: member * num_topics + topic."""
        lists, topics = self.list_subscribers(np.arange(len(self.members))), np.flatnonzero(self.topics.is_subscribed)
        subscribers = lists.of_topic[topics]
        row, position = expand_slices(lists.start[subscribers], np.ones_like(topics), lists.size[subscribers])
        return np.sort(lists.members[position] * max(len(self.topics), 1) + topics[row])

    @cached_property
    def subscription_pairs(self) -> tuple[IntArray, IntArray]:
        """Member and topic of each subscription."""
        member, topic = np.divmod(self.subscriptions, max(len(self.topics), 1))
        return member, topic

    @cached_property
    def subscriber_lists(self) -> SubscriberLists:
        """The subscribers of each topic, in the order in which range and roundrobin assign to them."""
        instance = NameIndex(self.instance_id).columns[0]
        return self.list_subscribers(assignment_order(self.members.group, np.arange(len(self.members)), instance))

    def list_subscribers(self, ordered: IntArray) -> SubscriberLists:
        """Returns the subscribers of each topic, given all members, group by group, in the order of the lists."""
        sizes = np.bincount(self.members.group, minlength=self.num_groups)
        subscriber_set, lists = self.topics.subscriber_set, ordered
        if self.subscriber_sets:
            set_sizes = np.array([len(members) for members in self.subscriber_sets], np.int64)
            members, sizes = np.concatenate(self.subscriber_sets), np.append(sizes, set_sizes)
            if (ordered[1:] < ordered[:-1]).any():
                position = invert(ordered, len(ordered))
                members = members[np.lexsort((position[members], np.repeat(np.arange(len(set_sizes)), set_sizes)))]
            lists = np.append(ordered, members)
        of_topic = np.where(subscriber_set == ALL_MEMBERS, self.topics.group, self.num_groups + subscriber_set)
        return SubscriberLists(lists, np.cumsum(sizes) - sizes, sizes, of_topic)

    def set_members(self, group: int, subscriber_set: int) -> IntArray:
        """Returns the members of a subscriber set of a group, ascending."""
        if subscriber_set != ALL_MEMBERS:
            return self.subscriber_sets[subscriber_set]
        return np.arange(*np.searchsorted(self.members.group, [group, group + 1]))

    @cached_property
    def groups_with_racks(self) -> BoolArray:
        """Mask of the groups in which a member has a rack and the rack of a replica is known."""
        has_racks = mask_from_indexes(self.members.group[self.members.rack >= 0], self.num_groups)
        return has_racks & mask_from_indexes(self.topics.group[list(self.rack_set)], self.num_groups)

    def racks_of(self, topic: int) -> list[frozenset[int]]:
        """Returns the racks with a replica, for each partition of a topic."""
        rack_set = self.rack_set.get(topic)
        if rack_set is None:
            return [frozenset()] * int(self.topics.partitions[topic])
        return [self.rack_sets[index] for index in rack_set.tolist()]

    @cached_property
    def list_position(self) -> IntArray:
        """Position of each member in the coordinator's member list; the largest int32 if unknown."""
        return self.facts.int_column("position", UNKNOWN_POSITION)[self.members.row]

    @cached_property
    def member_hash(self) -> IntArray:
        """`String.hashCode` of each member id."""
        return string_hashes(self.member_id.to_pylist())

    @cached_property
    def topic_hash(self) -> IntArray:
        """`String.hashCode` of each topic's name."""
        return string_hashes(self.facts.topic_names.to_pylist())[self.topics.name]

    def hash_orders(self, selected: BoolArray) -> HashOrders:
        """Returns the iteration orders of the hash maps of the selected groups' members. It takes time, so only
        assignors that need an order call this."""
        group, hashes = self.members.group, np.zeros(len(self.members), np.int64)
        if selected.all():
            hashes = self.member_hash
        else:
            members = np.flatnonzero(selected[group])
            hashes[members] = string_hashes(take_names(self.member_id, members).to_pylist())
        # The leader inserts members into its `HashMap` in the coordinator's order; without a position, by id.
        return hash_orders(hashes, group, self.list_position, selected)

    @cached_property
    def owned_order(self) -> PartitionSlices:
        """Single partitions in the order in which members report them, if the fleet has it (`owned.position`)."""
        if self.reported_order is not None:
            return self.reported_order
        facts, members = self.facts, self.members
        rows, topic = self.topics.find_rows(facts, OWNED_ORDER, self.fact_group_index)
        if not len(rows):
            return EMPTY_SLICES
        order = np.lexsort((facts.int_column("position")[rows], facts.member_index[rows], facts.group_index[rows]))
        rows, topic = rows[order], topic[order]
        num_ids = max(len(facts.member_id), 1)
        member = KeyIndex(members.group * num_ids + facts.member_index[members.row]).lookup(
            self.topics.group[topic] * num_ids + facts.member_index[rows]
        )
        row, partition = read_listed_partitions(facts, rows)
        owned = PartitionSlices(member[row], topic[row], partition, np.ones_like(row), np.ones_like(row))
        return owned.take(owned.member >= 0)


@dataclass(frozen=True)
class GroupAssignments:
    """The result of an assignor; members and topics are indexes of `GroupSpecs`.

    Attributes:
        slices: the assignment, including withheld partitions.
        reason: for each slice, why the assignor revoked it from the member that could have kept it (`KEPT`: it
            didn't).
        withheld: for each slice, whether another member must revoke it first.
        rejected: code and detail by group index; a rejected group has no slices.
        find_order_dependent: returns `order_dependent`.
        load_bound_status: outcome of the load bound by group index, for groups that weighted-sticky planned (one of
            `groups.assignors.weighted.weighted_groups.BOUND_STATUSES`).
    """

    slices: PartitionSlices
    reason: IntArray
    withheld: BoolArray
    rejected: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    find_order_dependent: Callable[[], PartitionSlices] = EMPTY_SLICES.concat
    load_bound_status: Mapping[int, str] = field(default_factory=dict)

    @staticmethod
    def of(slices: PartitionSlices, rejected: Mapping[int, tuple[str, str]] | None = None) -> GroupAssignments:
        """Returns assignments in which nothing is revoked or withheld."""
        return GroupAssignments(slices, np.full(len(slices), KEPT), np.zeros(len(slices), bool), rejected or {})

    @staticmethod
    def of_partitions(
        member: IntArray, topic: IntArray, partition: IntArray, reason: IntArray, withheld: BoolArray
    ) -> GroupAssignments:
        """Returns the assignment of single partitions, in any order."""
        ones = np.ones(len(member), np.int64)
        return GroupAssignments.of_slices(PartitionSlices(member, topic, partition, ones, ones), reason, withheld)

    @staticmethod
    def of_slices(slices: PartitionSlices, reason: IntArray, withheld: BoolArray) -> GroupAssignments:
        """Returns the assignment of slices, in any order; slices of one member are merged (`compress_slices`)."""
        slices, tag = compress_slices(slices, reason * 2 + withheld)
        return GroupAssignments(slices, tag // 2, tag % 2 > 0)

    def concat(self, *others: GroupAssignments) -> GroupAssignments:
        """Returns these assignments and the others."""
        parts = (self, *others)
        return GroupAssignments(
            self.slices.concat(*(part.slices for part in others)),
            np.concatenate([part.reason for part in parts]),
            np.concatenate([part.withheld for part in parts]),
            {group: rejection for part in parts for group, rejection in part.rejected.items()},
            lambda: EMPTY_SLICES.concat(*(part.order_dependent for part in parts)),
            {group: status for part in parts for group, status in part.load_bound_status.items()},
        )

    @cached_property
    def order_dependent(self) -> PartitionSlices:
        """Parts of the slices whose owner depends on an order that the facts don't determine.

        They are known only for uniform and franz-go's sticky balancers, and computed when they are needed: uniform
        assigns a heterogeneous group for all possible orders.
        """
        return self.find_order_dependent()

    @property
    def assigned_now(self) -> PartitionSlices:
        """Slices that are assigned in this round."""
        return self.slices.take(~self.withheld)

    def is_planned(self, assignors: Sequence[str | None]) -> BoolArray:
        """Returns the mask of groups that have an assignor and are not rejected."""
        is_planned = np.array([name is not None for name in assignors], bool)
        is_planned[list(self.rejected)] = False
        return is_planned

    @property
    def withheld_slices(self) -> PartitionSlices:
        """Slices that their next owner gets in the following round."""
        return self.slices.take(self.withheld)
