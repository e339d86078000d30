"""Groups as arrays: `GroupSpecs` (Kafka's `GroupSpec`, for many groups) in, `GroupAssignments` out.

A member, a topic, and a group are their indexes in `GroupSpecs` everywhere in the assignors. Builders of specs:

    read_group_specs from the facts of complete groups (`read_specs`)
    select_members   from selected members of other specs, with their groups (`group_specs`)
    resize           from other specs, with other numbers of members (`advice.kernel.size_sweep`)
    read_requests    from the members that simulated coordinators list for their leaders (`simulation.kernel.leader`)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from spark_assign.assignors.group_facts import (
    GROUP,
    GROUP_LOAD,
    LOAD,
    LOAD_COLUMNS,
    OWNED_ORDER,
    REPLICA_RACKS,
    IndexedFacts,
    NameIndex,
    read_listed_partitions,
)
from spark_assign.java.hash_map import string_hashes, table_orders
from spark_assign.numeric.arrays import (
    EMPTY_SLICES,
    BoolArray,
    FloatArray,
    IntArray,
    KeyIndex,
    PartitionSlices,
    compress_slices,
    invert,
    key_ranges,
    mask_from_indexes,
    starts_new_key,
    take_names,
    to_int_array,
)
from spark_assign.tables.quoting import in_text

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

    def load_setting(self, name: str) -> FloatArray:
        """Returns a load setting of each group (capacity or load_bound); NaN if it is not set."""
        return np.array(self.group_values(name), np.float64)

    @cached_property
    def loads(self) -> PartitionLoads:
        """Loads of the partitions."""
        return self.partition_loads or read_loads(self.facts, self.fact_group_index, self.topics)

    def subscribes(self, member: IntArray, topic: IntArray) -> BoolArray:
        """Returns whether each member subscribes to the topic at the same position, without listing subscriptions:
        thousands of members can subscribe to thousands of topics."""
        sets, keys = self.topics.subscriber_set[topic], self._set_keys
        wanted = sets * len(self.members) + member
        in_set = keys[np.searchsorted(keys, wanted)] == wanted
        in_group = self.members.group[member] == self.topics.group[topic]
        return np.asarray(self.topics.is_subscribed[topic] & np.where(sets == ALL_MEMBERS, in_group, in_set), bool)

    @cached_property
    def _set_keys(self) -> IntArray:
        """Ascending keys of the members of the subscriber sets, and a key above all."""
        keys = [index * len(self.members) + members for index, members in enumerate(self.subscriber_sets)]
        return np.concatenate([*keys, np.array([np.iinfo(np.int64).max])])

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

    def subscription_kinds(self, group: int) -> tuple[list[int], list[IntArray]]:
        """Returns the kind of subscription of each member of a group, and the topics of each kind, ascending. Members
        that subscribe to the same topics are of one kind."""
        topics = np.arange(*np.searchsorted(self.topics.group, [group, group + 1]))
        topics = topics[self.topics.is_subscribed[topics]]
        topics = topics[np.argsort(self.topics.subscriber_set[topics], kind="stable")]
        start, end = np.searchsorted(self.members.group, [group, group + 1]).tolist()
        sets: list[list[IntArray]] = [[] for _ in range(start, end)]
        for first, last in key_ranges(self.topics.subscriber_set[topics]):
            of_set = topics[first:last]
            for member in self.set_members(group, int(self.topics.subscriber_set[of_set[0]])).tolist():
                sets[member - start].append(of_set)
        number: dict[tuple[int, ...], int] = {}
        kind = [number.setdefault(tuple(int(each[0]) for each in of_member), len(number)) for of_member in sets]
        of_kind = dict(zip(kind, sets, strict=True))
        return kind, [np.sort(np.concatenate([topics[:0], *of_kind[each]])) for each in range(len(number))]

    def set_members(self, group: int, subscriber_set: int) -> IntArray:
        """Returns the members of a subscriber set of a group, ascending."""
        if subscriber_set != ALL_MEMBERS:
            return self.subscriber_sets[subscriber_set]
        return np.arange(*np.searchsorted(self.members.group, [group, group + 1]))

    def distinct_sets(self, topics: IntArray) -> tuple[IntArray, list[IntArray]]:
        """Returns the index of the subscriber set of each topic, and the different sets, each ascending."""
        group, sets = self.topics.group[topics], self.topics.subscriber_set[topics]
        keys = np.where(sets == ALL_MEMBERS, len(self.subscriber_sets) + group, sets)
        _, first, index = np.unique(keys, return_index=True, return_inverse=True)
        pairs = zip(group[first].tolist(), sets[first].tolist(), strict=True)
        return index, [self.set_members(*pair) for pair in pairs]

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
            `assignors.weighted.weighted_groups.BOUND_STATUSES`).
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


# --- topics of groups, subscriptions to them, and the loads of their partitions -------------------------------
#
# The load of a partition is the rate at which messages are written to it.


@dataclass(frozen=True)
class TopicColumns:
    """Topics, sorted by group and name. Shape of each array: (num_topics,).

    Attributes:
        group: group index.
        name: index into `IndexedFacts.topic_names`.
        partitions: number of partitions; -1 for an unknown topic.
        is_subscribed: whether a member subscribes to the topic.
        subscriber_set: index into `GroupSpecs.subscriber_sets`; `ALL_MEMBERS` if all members or none subscribe.
    """

    group: IntArray
    name: IntArray
    partitions: IntArray
    is_subscribed: BoolArray
    subscriber_set: IntArray

    def __len__(self) -> int:
        return len(self.group)

    def find(self, group: IntArray, name: IntArray) -> IntArray:
        """Returns the topic of each group and name; -1 if there is none. No name is negative (null)."""
        size = max(int(self.name.max(initial=0)), int(name.max(initial=0))) + 1
        return KeyIndex(self.group * size + self.name).lookup(group * size + name)

    def find_rows(self, facts: IndexedFacts, kind: int, fact_group_index: IntArray) -> tuple[IntArray, IntArray]:
        """Returns the rows of a kind that have one of the topics, and the topic of each.

        `fact_group_index` is the index of each group in the facts.
        """
        spec_index = invert(fact_group_index, facts.num_groups)
        rows = facts.rows_by_kind[kind]
        rows = rows[(spec_index[facts.group_index[rows]] >= 0) & (facts.topic_index[rows] >= 0)]
        topic = self.find(spec_index[facts.group_index[rows]], facts.topic_index[rows])
        return rows[topic >= 0], topic[topic >= 0]

    @cached_property
    def with_metadata(self) -> IntArray:
        """Indexes of the topics that are subscribed to and exist."""
        return np.flatnonzero(self.is_subscribed & (self.partitions > 0))

    def partitions_to_assign(self, selected: BoolArray) -> IntArray:
        """Returns the number of partitions of each topic that are assigned, given a mask of groups."""
        return np.where(self.is_subscribed & (self.partitions > 0) & selected[self.group], self.partitions, 0)


class SubscriptionRows(NamedTuple):
    """Subscriptions that are rows of the facts.

    Attributes:
        key: member * num_topics + topic; sorted and unique.
        row: index of the row.
    """

    key: IntArray
    row: IntArray


MAX_LOAD = 2.0**63
"""Maximum rate and lag. Sums and quantiles of larger ones could be infinite."""
REMEDIES = {
    "bad-load": "Rates and lags are numbers from 0 to 2^63, or null where they are not known",
    "duplicate-load": "Keep one row per partition, and one more per group that reads it",
}


@dataclass(frozen=True)
class PartitionLoads:
    """Loads of the partitions of all topics of `GroupSpecs`; NaN if unknown or invalid.

    Attributes:
        start: index of each topic's first partition in the columns below.
        in_messages_per_second, in_messages_per_second_stddev: messages/s written, and their standard deviation.
        out_messages_per_second: messages/s that the group reads.
        lag: messages that the group is behind.
        in_bytes_per_second: bytes/s written.
        faults: code and detail by group index, for groups with invalid rows.
        has_loads: whether the rate of any subscribed partition is known. Shape: (num_groups,).
    """

    start: IntArray
    in_messages_per_second: FloatArray
    in_messages_per_second_stddev: FloatArray
    out_messages_per_second: FloatArray
    lag: FloatArray
    in_bytes_per_second: FloatArray
    faults: Mapping[int, tuple[str, str]]
    has_loads: BoolArray

    def position_of(self, topic: IntArray, partition: IntArray) -> IntArray:
        """Returns the positions of partitions in the columns."""
        return self.start[topic] + partition


def read_loads(facts: IndexedFacts, fact_group_index: IntArray, topics: TopicColumns) -> PartitionLoads:
    """Reads the facts of kinds LOAD and GROUP_LOAD; a group's own values override the values for all groups."""
    sizes = np.maximum(topics.partitions, 0)
    start = np.cumsum(sizes) - sizes
    columns = {name: np.full(int(sizes.sum()), np.nan) for name in LOAD_COLUMNS}
    faults: dict[int, tuple[str, str]] = {}
    for kind in (LOAD, GROUP_LOAD):
        rows, topic = topics.find_rows(facts, kind, fact_group_index)
        lengths = to_int_array(facts.column("at", rows).value_lengths(), 0)
        topic = np.repeat(topic, lengths)
        partition = np.asarray(facts.column("at", rows).flatten().to_numpy(zero_copy_only=False), np.int64)
        values = {
            name: np.asarray(facts.column(list_of, rows).flatten().to_numpy(zero_copy_only=False), np.float64)
            for name, list_of in LOAD_COLUMNS.items()
        }
        for row, code, value in _faults(topic, partition, values):
            name = facts.topic_names[int(topics.name[topic[row]])].as_py()
            detail = f"loads: topic={in_text(name)}, partition={partition[row]}{value}. {REMEDIES[code]}"
            faults.setdefault(int(topics.group[topic[row]]), (code, detail))
        exists = (partition >= 0) & (partition < sizes[topic])
        position = start[topic[exists]] + partition[exists]
        for name, column in values.items():
            is_known = (column[exists] >= 0) & (column[exists] <= MAX_LOAD)  # sums of invalid ones could be infinite
            columns[name][position[is_known]] = column[exists][is_known]
    has_loads = np.zeros(len(fact_group_index), bool)
    has_rate = np.repeat(topics.is_subscribed, sizes) & ~np.isnan(columns["in_messages_per_second"])
    has_loads[np.repeat(topics.group, sizes)[has_rate]] = True
    return PartitionLoads(start=start, **columns, faults=faults, has_loads=has_loads)


def _faults(topic: IntArray, partition: IntArray, values: Mapping[str, FloatArray]) -> Iterator[tuple[int, str, str]]:
    """Yields the index, the code, and the text of the invalid value of invalid rows, ordered by topic and partition."""
    order = np.lexsort((partition, topic))
    is_duplicate = ~starts_new_key(topic[order], partition[order])
    columns = {**values, "partition": partition}
    invalid = {name: (column < 0) | (column > MAX_LOAD) for name, column in columns.items()}
    any_wrong = np.logical_or.reduce(list(invalid.values()))
    for index in order[any_wrong[order]].tolist():
        name = next(name for name, flags in invalid.items() if flags[index])
        yield index, "bad-load", f", {name}={columns[name][index]}"
    for index in order[is_duplicate].tolist():
        yield index, "duplicate-load", ""


# --- the racks of the brokers that lead partitions, from the facts of groups ----------------------------------


def read_leader_racks(specs: GroupSpecs, start: IntArray) -> IntArray:
    """Returns the rack of the leader of each partition, as an index into `specs.racks`; -1 if unknown.

    Args:
        specs: all groups.
        start: index of partition 0 of each topic, and the total at the end.
    """
    facts, topics = specs.facts, specs.topics
    leader = np.full(int(start[-1]), -1, np.int64)
    rows, topic = topics.find_rows(facts, REPLICA_RACKS, specs.fact_group_index)
    partitions_at, racks = facts.column("at", rows), facts.column("leader_racks", rows)
    topic = np.repeat(topic, to_int_array(partitions_at.value_lengths(), 0))
    partition = to_int_array(partitions_at.flatten(), -1)
    coded = racks.flatten().dictionary_encode()
    if len(coded) != len(partition):  # the facts are without leaders
        return leader
    known = {name: rack for rack, name in enumerate(specs.racks)}
    rack = np.array([known.get(name, -1) for name in coded.dictionary.to_pylist()] + [-1], np.int64)
    rack = rack[to_int_array(coded.indices, -1)]
    exists = (partition >= 0) & (partition < topics.partitions[topic])
    leader[start[topic[exists]] + partition[exists]] = rack[exists]
    return leader


def groups_with_leaders(specs: GroupSpecs) -> IntArray:
    """Returns the groups (with duplicates) that have the racks of leaders in their facts."""
    rows, topic = specs.topics.find_rows(specs.facts, REPLICA_RACKS, specs.fact_group_index)
    lengths = to_int_array(specs.facts.column("leader_racks", rows).value_lengths(), 0)
    return specs.topics.group[topic[lengths > 0]]
