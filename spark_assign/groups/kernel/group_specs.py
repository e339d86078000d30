"""Groups as arrays: `GroupSpecs` (Kafka's `GroupSpec`, for many groups) in, `GroupAssignments` out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from spark_assign.groups.assignors.sticky.plan_batch import ALL_MEMBERS
from spark_assign.groups.assignors.sticky.sticky_groups import TreeifiedMembers, member_hash_orders
from spark_assign.groups.kernel.facts import (
    DEPARTED_SLICE,
    DUPLICATE_TOPIC,
    GROUP,
    MEMBER,
    REPLICA_RACKS,
    IndexedFacts,
    OwnedSlices,
    SubscriptionRows,
    find_owned,
    find_subscriptions,
)
from spark_assign.groups.kernel.topic_columns import PartitionLoads, TopicColumns, read_loads
from spark_assign.java.hash_map import string_hashes
from spark_assign.java.key_index import KeyIndex, NameIndex, take_names
from spark_assign.java.key_index import to_int_array as numbers_of
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, PartitionSlices
from spark_assign.numeric.segmented_arrays import starts_new_key


@dataclass(frozen=True)
class MemberColumns:
    """Members, sorted by group and by `String.compareTo` of the member id. Shape of each array: (num_members,).

    Attributes:
        group: group index.
        row: row index of the member in the facts.
        assignment_order: position in the order in which range and roundrobin assign to the members of the group: static
            members by instance id, then dynamic members by member id (`AbstractPartitionAssignor.MemberInfo`).
        hash_order: position in the iteration order of the group's hash map; distinct over all members.
        treeified: iteration orders of groups whose hash maps differ in order; None if all hash maps of a group's
            members have the same order (`groups.assignors.sticky.sticky_groups`).
        generation: generation of the subscription; -1 for none.
        user_data_generation: generation in the user data; -1 for none.
        has_user_data: whether the member has user data.
        rack: index into `GroupSpecs.racks`; -1 for none.
        has_subscription: whether the member subscribes to any topic.
    """

    group: IntArray
    row: IntArray
    assignment_order: IntArray
    hash_order: IntArray
    treeified: TreeifiedMembers | None
    generation: IntArray
    user_data_generation: IntArray
    has_user_data: BoolArray
    rack: IntArray
    has_subscription: BoolArray

    def __len__(self) -> int:
        return len(self.group)


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
        subscriptions: sorted unique keys of subscriptions: member * num_topics + topic.
        subscription_rows: row index in the facts for each subscription; a row can be that of the representative of the
            topic (`DUPLICATE_TOPIC`).
        racks: rack names.
        rack_sets: distinct sets of racks that hold the replicas of a partition; the first one is empty.
        rack_set: for each topic with known racks, the index into `rack_sets` of each partition.
        owned_order: single partitions in the order in which members report them; None: read from the facts.
        partition_loads: loads of the partitions; None: read from the facts.
    """

    facts: IndexedFacts
    fact_group_index: IntArray
    members: MemberColumns
    topics: TopicColumns
    subscriber_sets: list[IntArray]
    owned: PartitionSlices
    departed_owned: PartitionSlices
    subscriptions: IntArray
    subscription_rows: IntArray
    racks: list[str]
    rack_sets: list[frozenset[int]]
    rack_set: dict[int, IntArray]
    owned_order: PartitionSlices | None = None
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

    @cached_property
    def loads(self) -> PartitionLoads:
        """Loads of the partitions."""
        return self.partition_loads or read_loads(self.facts, self.fact_group_index, self.topics)

    def precomputed_slices(self, assignor: str) -> PartitionSlices:
        """Returns the slices that windows computed for an assignor, of topics with metadata.

        Range assigns duplicate topics identically; round robin's slices of duplicates are shifted.
        """
        member, topic = np.divmod(self.subscriptions, max(len(self.topics), 1))
        first, step, count = (
            self.facts.int_column(f"{assignor}_{field}", 0)[self.subscription_rows]
            for field in ("first", "step", "count")
        )
        if assignor == "roundrobin" and len(self.facts.rows_by_kind[DUPLICATE_TOPIC]):
            first, count = self._shifted_round_robin(topic, first, step)
        slices = PartitionSlices(member, topic, first, step, count)
        return slices.take(slices.count > 0)

    def _shifted_round_robin(self, topic: IntArray, first: IntArray, members: IntArray) -> tuple[IntArray, IntArray]:
        """Returns first and count of round robin's slices, from `first` and stride of the representative topic."""
        topics, size = self.topics, max(len(self.facts.topic_names), 1)
        partitions = np.maximum(np.where(topics.is_subscribed, topics.partitions, 0), 0)
        like = KeyIndex(topics.group * size + topics.name).lookup(
            topics.group[topic] * size + self.facts.topic_index[self.subscription_rows]
        )
        counted = np.zeros_like(partitions)
        counted[like] = partitions[like]
        members = np.maximum(members, 1)
        first = (first + topics.sum_of_preceding(counted)[like] - topics.sum_of_preceding(partitions)[topic]) % members
        return first, np.maximum(-(-(partitions[topic] - first) // members), 0)


# --- reading ------------------------------------------------------------------------------------------------------


def read_group_specs(facts: IndexedFacts, faulty: set[int]) -> GroupSpecs:
    """Reads the groups that have members and are not in `faulty`, a set of group indexes."""
    is_valid = np.ones(facts.num_groups, bool)
    is_valid[list(faulty)] = False
    with_members = np.zeros(facts.num_groups, bool)
    with_members[facts.group_index[facts.rows_by_kind[MEMBER]]] = True
    fact_group_index = np.flatnonzero(is_valid & with_members)
    spec_index = np.full(facts.num_groups, -1, np.int64)
    spec_index[fact_group_index] = np.arange(len(fact_group_index))
    members = _read_members(facts, spec_index)
    subscribed, owned_slices = find_subscriptions(facts, spec_index >= 0), find_owned(facts, spec_index >= 0)
    topics, classes, subscriptions, rows, owned, departed_owned = _read_topics(
        facts, spec_index, members, subscribed, owned_slices
    )
    racks, rack, rack_sets, rack_set = _read_racks(facts, spec_index, members, topics)
    owners = subscriptions // max(len(topics), 1)
    return GroupSpecs(
        facts=facts,
        fact_group_index=fact_group_index,
        members=replace(members, rack=rack, has_subscription=np.bincount(owners, minlength=len(members)) > 0),
        topics=topics,
        subscriber_sets=classes,
        owned=owned,
        departed_owned=departed_owned,
        subscriptions=subscriptions,
        subscription_rows=rows,
        racks=racks,
        rack_sets=rack_sets,
        rack_set=rack_set,
    )


def _read_members(facts: IndexedFacts, spec_index: IntArray) -> MemberColumns:
    rows = facts.rows_by_kind[MEMBER][spec_index[facts.group_index[facts.rows_by_kind[MEMBER]]] >= 0]
    rows = rows[np.lexsort((facts.member_index[rows], facts.group_index[rows]))]
    group, ids = spec_index[facts.group_index[rows]], facts.member_index[rows]
    position = facts.int_column("position", np.iinfo(np.int32).max)[rows]
    hashes = string_hashes(facts.member_id.to_pylist())[ids] if len(ids) else np.empty(0, np.int64)
    # The leader inserts members into its `HashMap` in the coordinator's order; without a position, by id.
    hash_order, treeified = member_hash_orders(hashes, ids, group, np.lexsort((position, group)))
    has_user_data = facts.column("user_data_generation_id", rows).is_valid().to_numpy(zero_copy_only=False)
    return MemberColumns(
        group=group,
        row=rows,
        assignment_order=_assignment_order(facts, rows, group),
        hash_order=hash_order,
        treeified=treeified,
        generation=np.maximum(facts.int_column("generation_id")[rows], -1),
        user_data_generation=np.maximum(facts.int_column("user_data_generation_id")[rows], -1),
        has_user_data=has_user_data,
        rack=np.full(len(rows), -1, np.int64),
        has_subscription=np.zeros(len(rows), bool),
    )


def _assignment_order(facts: IndexedFacts, rows: IntArray, group: IntArray) -> IntArray:
    instance = NameIndex(facts.column("group_instance_id", rows)).columns[0]
    order = np.lexsort((facts.member_index[rows], instance, instance < 0, group))
    starts = np.flatnonzero(starts_new_key(group))
    position = np.empty(len(rows), np.int64)
    position[order] = np.arange(len(rows))
    return position - starts[np.cumsum(starts_new_key(group)) - 1] if len(rows) else position


def _read_topics(
    facts: IndexedFacts,
    spec_index: IntArray,
    members: MemberColumns,
    subscription_rows: SubscriptionRows,
    owned_slices: OwnedSlices,
) -> tuple[TopicColumns, list[IntArray], IntArray, IntArray, PartitionSlices, PartitionSlices]:
    size = max(len(facts.topic_names), 1)
    ids = max(len(facts.member_id), 1)
    member_keys = KeyIndex(members.group * ids + facts.member_index[members.row])
    rows = subscription_rows.row
    # Subscriptions can occur twice. Members are sorted, so that positions in the key index are member indexes.
    pairs = (
        member_keys.lookup(spec_index[facts.group_index[rows]] * ids + facts.member_index[rows]) * size
        + subscription_rows.topic
    )
    if (np.diff(pairs) <= 0).any():
        pairs, first = np.unique(pairs, return_index=True)
        rows = rows[first]
    subscriber = pairs // size
    subscribed_key = members.group[subscriber] * size + pairs % size
    departed_rows = facts.rows_by_kind[DEPARTED_SLICE][
        spec_index[facts.group_index[facts.rows_by_kind[DEPARTED_SLICE]]] >= 0
    ]
    owned_key = spec_index[facts.group_index[owned_slices.row]] * size + facts.topic_index[owned_slices.row]
    departed_key = spec_index[facts.group_index[departed_rows]] * size + facts.topic_index[departed_rows]
    topic_keys = KeyIndex(np.concatenate([subscribed_key, owned_key, departed_key]))
    partitions = np.full(len(topic_keys), -1, np.int64)
    row_partitions, topic = facts.int_column("partitions"), topic_keys.lookup(subscribed_key)
    for topic_index, partition_rows in (
        (topic_keys.lookup(departed_key), departed_rows),
        (topic_keys.lookup(owned_key), owned_slices.row),
        (topic, rows),
    ):
        partitions[topic_index] = row_partitions[partition_rows]
    is_subscribed = np.zeros(len(topic_keys), bool)
    is_subscribed[topic] = True
    group = topic_keys.keys // size
    subscriber_set, subscriber_sets = find_subscriber_sets(subscriber, topic, len(topic_keys), group, members)
    owner = member_keys.lookup(
        spec_index[facts.group_index[owned_slices.row]] * ids + facts.member_index[owned_slices.row]
    )
    is_nonempty = owned_slices.count > 0
    owned = PartitionSlices(
        owner, topic_keys.lookup(owned_key), owned_slices.first, owned_slices.step, owned_slices.count
    ).take(is_nonempty)
    count = facts.int_column("count", 0)[departed_rows]
    departed_owned = PartitionSlices(
        facts.member_index[departed_rows],
        topic_keys.lookup(departed_key),
        facts.int_column("first")[departed_rows],
        facts.int_column("step", 1)[departed_rows],
        count,
    ).take(count > 0)
    topics = TopicColumns(group, topic_keys.keys % size, partitions, is_subscribed, subscriber_set)
    return topics, subscriber_sets, subscriber * max(len(topic_keys), 1) + topic, rows, owned, departed_owned


def find_subscriber_sets(
    subscriber: IntArray, topic: IntArray, num_topics: int, group: IntArray, members: MemberColumns
) -> tuple[IntArray, list[IntArray]]:
    """Returns the subscriber set of each topic, and the members of each set that is not all members of the group."""
    sizes = np.bincount(members.group)
    num_subscribers = np.bincount(topic, minlength=num_topics)
    subscriber_set = np.full(num_topics, ALL_MEMBERS, np.int64)
    partial = (
        np.flatnonzero((num_subscribers > 0) & (num_subscribers < sizes[group]))
        if len(sizes)
        else np.empty(0, np.int64)
    )
    if not len(partial):
        return subscriber_set, []
    is_partial = np.isin(topic, partial)
    order = np.lexsort((subscriber[is_partial], topic[is_partial]))
    topic_members = np.split(subscriber[is_partial][order], np.flatnonzero(np.diff(topic[is_partial][order])) + 1)
    index_by_members: dict[bytes, int] = {}
    subscriber_sets: list[IntArray] = []
    for topic_index, members_of_topic in zip(partial.tolist(), topic_members, strict=True):
        key = members_of_topic.tobytes()
        if key not in index_by_members:
            index_by_members[key] = len(subscriber_sets)
            subscriber_sets.append(members_of_topic)
        subscriber_set[topic_index] = index_by_members[key]
    return subscriber_set, subscriber_sets


def _read_racks(
    facts: IndexedFacts, spec_index: IntArray, members: MemberColumns, topics: TopicColumns
) -> tuple[list[str], IntArray, list[frozenset[int]], dict[int, IntArray]]:
    """Returns the rack names, the rack of each member, the distinct rack sets, and the rack set of each partition of
    topics with known racks.
    """
    encoded = facts.column("rack_id", members.row).dictionary_encode()
    rack = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    rack_index = {text: topic_index for topic_index, text in enumerate(encoded.dictionary.to_pylist())}
    rack_sets_: dict[frozenset[int], int] = {frozenset(): 0}
    topic_rack_set: dict[int, IntArray] = {}
    size = max(len(facts.topic_names), 1)
    topic_keys = KeyIndex(topics.group * size + topics.name)
    rows = facts.rows_by_kind[REPLICA_RACKS]
    rows = rows[numbers_of(facts.column("at", rows).value_lengths(), 0) > 0]
    topic_index = topic_keys.lookup(
        np.where(
            spec_index[facts.group_index[rows]] >= 0,
            spec_index[facts.group_index[rows]] * size + facts.topic_index[rows],
            -1,
        )
    )
    lists = [facts.column(name, rows[topic_index >= 0]).to_pylist() for name in ("at", "racks")]
    for row, layout, topic in zip(*lists, topic_index[topic_index >= 0].tolist(), strict=True):
        partitions = int(topics.partitions[topic])
        partition_rack_set = np.zeros(max(partitions, 0), np.int64)
        for partition, racks in zip(row, layout, strict=True):
            if partition < partitions:
                key = frozenset(rack_index.setdefault(text, len(rack_index)) for text in racks)
                partition_rack_set[partition] = rack_sets_.setdefault(key, len(rack_sets_))
        topic_rack_set[topic] = partition_rack_set
    return list(rack_index), rack, list(rack_sets_), topic_rack_set


def find_empty_groups(facts: IndexedFacts, faulty: set[int]) -> IntArray:
    """Returns the rows of kind GROUP of groups without members and without faults."""
    rows = facts.rows_by_kind[GROUP]
    with_members = np.zeros(facts.num_groups, bool)
    with_members[facts.group_index[facts.rows_by_kind[MEMBER]]] = True
    with_members[list(faulty)] = True
    return rows[~with_members[facts.group_index[rows]]]


@dataclass(frozen=True)
class GroupAssignments:
    """The result of an assignor; members and topics are indexes of `GroupSpecs`.

    Attributes:
        slices: the assignment, including withheld partitions.
        reason: for each slice, why the assignor revoked it from the member that could have kept it (`STAYS`: it
            didn't).
        withheld: for each slice, whether another member must revoke it first.
        rejected: code and detail by group index; a rejected group has no slices.
        order_dependent: parts of the slices whose owner depends on an order that the facts don't determine; computed
            only for uniform and franz-go's sticky balancers.
        load_bound_status: outcome of the load bound by group index, for groups that weighted-sticky planned (one of
            `groups.assignors.weighted.weighted_groups.WORDS`).
    """

    slices: PartitionSlices
    reason: IntArray
    withheld: BoolArray
    rejected: dict[int, tuple[str, str]]
    order_dependent: PartitionSlices = EMPTY_SLICES
    load_bound_status: Mapping[int, str] = field(default_factory=dict)

    def concat(self, assignments: GroupAssignments) -> GroupAssignments:
        """Returns the assignments of both sets of groups."""
        return GroupAssignments(
            self.slices.concat(assignments.slices),
            np.append(self.reason, assignments.reason),
            np.append(self.withheld, assignments.withheld),
            self.rejected | assignments.rejected,
            self.order_dependent.concat(assignments.order_dependent),
            {**self.load_bound_status, **assignments.load_bound_status},
        )

    @property
    def assigned_now(self) -> PartitionSlices:
        """Slices that are assigned in this round."""
        return self.slices.take(~self.withheld)
