"""Groups as the kernels read them: numbers in place of names, many groups side by side."""

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
    """Members, sorted by group and by `String.compareTo` of their ids; all columns are of each member.

    Attributes:
        group: its group.
        row: its row of the facts.
        assignment_order: its place in the order in which range and roundrobin serve the members of its group: static
            ones by instance id, then the others by member id (`AbstractPartitionAssignor.MemberInfo`).
        hash_order: its place in the walk of its group's hash map; distinct over all members.
        treeified: null where all hash maps of a group's members are walked alike
        (`groups.assignors.sticky.sticky_groups`).
        generation: of its subscription; -1 for none.
        user_data_generation: the generation inside its user data, -1 for none; `has_user_data` is whether it has user
        data of its own.
        rack: the number of its rack; -1 for none.
        has_subscription: whether it subscribes to anything.
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
    """Groups 0, 1, … that have members and no fault.

    Attributes:
        facts: the facts.
        fact_group_index: of each group its number there.
        members, topics: of all groups.
        subscriber_sets: of each class of subscribers that are not all of their group, the members, ascending.
        owned: what members own.
        departed_owned: what members that have left owned; the member is a number of `told.member_id`.
        subscriptions: member and topic of each, as member * topics + topic, ascending, each once.
        subscription_rows: of each subscription its row of the facts, which may be that to a topic that is like its own.
        racks: the names of racks.
        rack_sets: the sets of racks that partitions have replicas in; the first is empty.
        rack_set: of topics with known racks, of each partition the number of its set.
        owned_order: single partitions in the order in which members tell that they own them; null: as the facts say.
        partition_loads: what goes through the partitions; null: as the facts say.
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
        """How many groups."""
        return len(self.fact_group_index)

    @cached_property
    def member_id(self) -> pa.Array:
        """Of each member its id."""
        return take_names(self.facts.member_id, self.facts.member_index[self.members.row])

    @cached_property
    def topic(self) -> pa.Array:
        """Of each topic its name."""
        return take_names(self.facts.topic_names, self.topics.name)

    @cached_property
    def cluster(self) -> pa.Array:
        """Of each group its cluster."""
        return self.facts.cluster.take(pa.array(self.fact_group_index))

    @cached_property
    def group_id(self) -> pa.Array:
        """Of each group its id."""
        return self.facts.group_id.take(pa.array(self.fact_group_index))

    @cached_property
    def loads(self) -> PartitionLoads:
        """What goes through the partitions of the topics."""
        return self.partition_loads or read_loads(self.facts, self.fact_group_index, self.topics)

    def precomputed_slices(self, assignor: str) -> PartitionSlices:
        """The runs that windows have laid out by an assignor, of topics with metadata.

        Range lays out topics that are alike in the same way; round robin goes on from one to the next.
        """
        member, topic = np.divmod(self.subscriptions, max(len(self.topics), 1))
        first, step, count = (
            self.facts.int_column(f"{assignor}_{part}", 0)[self.subscription_rows]
            for part in ("first", "step", "count")
        )
        if assignor == "roundrobin" and len(self.facts.rows_by_kind[DUPLICATE_TOPIC]):
            first, count = self._in_turn(topic, first, step)
        slices = PartitionSlices(member, topic, first, step, count)
        return slices.take(slices.count > 0)

    def _in_turn(self, topic: IntArray, first: IntArray, members: IntArray) -> tuple[IntArray, IntArray]:
        """First and count of round robin's runs, of which `first` is that in the topic whose row was laid out."""
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


def read_group_specs(told: IndexedFacts, faulty: set[int]) -> GroupSpecs:
    """The groups that have members, but those that are faulty."""
    sound = np.ones(told.num_groups, bool)
    sound[list(faulty)] = False
    with_members = np.zeros(told.num_groups, bool)
    with_members[told.group_index[told.rows_by_kind[MEMBER]]] = True
    fact_group_index = np.flatnonzero(sound & with_members)
    number = np.full(told.num_groups, -1, np.int64)
    number[fact_group_index] = np.arange(len(fact_group_index))
    members = _read_members(told, number)
    wanted, claimed = find_subscriptions(told, number >= 0), find_owned(told, number >= 0)
    topics, classes, subscriptions, rows, claims, left = _read_topics(told, number, members, wanted, claimed)
    racks, rack, sets, rack_set = _read_racks(told, number, members, topics)
    owners = subscriptions // max(len(topics), 1)
    return GroupSpecs(
        facts=told,
        fact_group_index=fact_group_index,
        members=replace(members, rack=rack, has_subscription=np.bincount(owners, minlength=len(members)) > 0),
        topics=topics,
        subscriber_sets=classes,
        owned=claims,
        departed_owned=left,
        subscriptions=subscriptions,
        subscription_rows=rows,
        racks=racks,
        rack_sets=sets,
        rack_set=rack_set,
    )


def _read_members(told: IndexedFacts, number: IntArray) -> MemberColumns:
    rows = told.rows_by_kind[MEMBER][number[told.group_index[told.rows_by_kind[MEMBER]]] >= 0]
    rows = rows[np.lexsort((told.member_index[rows], told.group_index[rows]))]
    group, ids = number[told.group_index[rows]], told.member_index[rows]
    position = told.int_column("position", np.iinfo(np.int32).max)[rows]
    hashes = string_hashes(told.member_id.to_pylist())[ids] if len(ids) else np.empty(0, np.int64)
    # Members are put into the leader's `HashMap` as the coordinator lists them; without a position, by id.
    walk, treeified = member_hash_orders(hashes, ids, group, np.lexsort((position, group)))
    told_generation = told.column("user_data_generation_id", rows).is_valid().to_numpy(zero_copy_only=False)
    return MemberColumns(
        group=group,
        row=rows,
        assignment_order=_served(told, rows, group),
        hash_order=walk,
        treeified=treeified,
        generation=np.maximum(told.int_column("generation_id")[rows], -1),
        user_data_generation=np.maximum(told.int_column("user_data_generation_id")[rows], -1),
        has_user_data=told_generation,
        rack=np.full(len(rows), -1, np.int64),
        has_subscription=np.zeros(len(rows), bool),
    )


def _served(told: IndexedFacts, rows: IntArray, group: IntArray) -> IntArray:
    instance = NameIndex(told.column("group_instance_id", rows)).columns[0]
    order = np.lexsort((told.member_index[rows], instance, instance < 0, group))
    begins = np.flatnonzero(starts_new_key(group))
    served = np.empty(len(rows), np.int64)
    served[order] = np.arange(len(rows))
    return served - begins[np.cumsum(starts_new_key(group)) - 1] if len(rows) else served


def _read_topics(
    told: IndexedFacts, number: IntArray, members: MemberColumns, wanted: SubscriptionRows, claimed: OwnedSlices
) -> tuple[TopicColumns, list[IntArray], IntArray, IntArray, PartitionSlices, PartitionSlices]:
    size = max(len(told.topic_names), 1)
    ids = max(len(told.member_id), 1)
    of_member = KeyIndex(members.group * ids + told.member_index[members.row])
    rows = wanted.row
    # A subscription may be told of twice; members are sorted, so that their places are their numbers.
    pairs = of_member.lookup(number[told.group_index[rows]] * ids + told.member_index[rows]) * size + wanted.topic
    if (np.diff(pairs) <= 0).any():
        pairs, first = np.unique(pairs, return_index=True)
        rows = rows[first]
    asking = pairs // size
    asked_key = members.group[asking] * size + pairs % size
    left = told.rows_by_kind[DEPARTED_SLICE][number[told.group_index[told.rows_by_kind[DEPARTED_SLICE]]] >= 0]
    owned_key = number[told.group_index[claimed.row]] * size + told.topic_index[claimed.row]
    left_key = number[told.group_index[left]] * size + told.topic_index[left]
    places = KeyIndex(np.concatenate([asked_key, owned_key, left_key]))
    partitions = np.full(len(places), -1, np.int64)
    of_row, topic = told.int_column("partitions"), places.lookup(asked_key)
    for at, some in ((places.lookup(left_key), left), (places.lookup(owned_key), claimed.row), (topic, rows)):
        partitions[at] = of_row[some]
    is_asked = np.zeros(len(places), bool)
    is_asked[topic] = True
    group = places.keys // size
    subscribers, classes = subscriber_classes(asking, topic, len(places), group, members)
    owner = of_member.lookup(number[told.group_index[claimed.row]] * ids + told.member_index[claimed.row])
    fine = claimed.count > 0
    claims = PartitionSlices(owner, places.lookup(owned_key), claimed.first, claimed.step, claimed.count).take(fine)
    count = told.int_column("count", 0)[left]
    gone = PartitionSlices(
        told.member_index[left],
        places.lookup(left_key),
        told.int_column("first")[left],
        told.int_column("step", 1)[left],
        count,
    ).take(count > 0)
    topics = TopicColumns(group, places.keys % size, partitions, is_asked, subscribers)
    return topics, classes, asking * max(len(places), 1) + topic, rows, claims, gone


def subscriber_classes(
    asking: IntArray, topic: IntArray, topics: int, group: IntArray, members: MemberColumns
) -> tuple[IntArray, list[IntArray]]:
    """Of each topic the class of its subscribers, and the members of each class that is not everyone."""
    sizes = np.bincount(members.group)
    asked_by = np.bincount(topic, minlength=topics)
    subscribers = np.full(topics, ALL_MEMBERS, np.int64)
    partial = np.flatnonzero((asked_by > 0) & (asked_by < sizes[group])) if len(sizes) else np.empty(0, np.int64)
    if not len(partial):
        return subscribers, []
    some = np.isin(topic, partial)
    order = np.lexsort((asking[some], topic[some]))
    by_topic = np.split(asking[some][order], np.flatnonzero(np.diff(topic[some][order])) + 1)
    found: dict[bytes, int] = {}
    classes: list[IntArray] = []
    for each, who in zip(partial.tolist(), by_topic, strict=True):
        key = who.tobytes()
        if key not in found:
            found[key] = len(classes)
            classes.append(who)
        subscribers[each] = found[key]
    return subscribers, classes


def _read_racks(
    told: IndexedFacts, number: IntArray, members: MemberColumns, topics: TopicColumns
) -> tuple[list[str], IntArray, list[frozenset[int]], dict[int, IntArray]]:
    """The racks, of each member its own, the sets of racks, and of topics with known racks each partition's set."""
    coded = told.column("rack_id", members.row).dictionary_encode()
    rack = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    numbers = {text: at for at, text in enumerate(coded.dictionary.to_pylist())}
    sets: dict[frozenset[int], int] = {frozenset(): 0}
    of_topic: dict[int, IntArray] = {}
    size = max(len(told.topic_names), 1)
    places = KeyIndex(topics.group * size + topics.name)
    rows = told.rows_by_kind[REPLICA_RACKS]
    rows = rows[numbers_of(told.column("at", rows).value_lengths(), 0) > 0]
    at = places.lookup(
        np.where(
            number[told.group_index[rows]] >= 0, number[told.group_index[rows]] * size + told.topic_index[rows], -1
        )
    )
    here = [told.column(name, rows[at >= 0]).to_pylist() for name in ("at", "racks")]
    for row, layout, topic in zip(*here, at[at >= 0].tolist(), strict=True):
        partitions = int(topics.partitions[topic])
        found = np.zeros(max(partitions, 0), np.int64)
        for partition, racks in zip(row, layout, strict=True):
            if partition < partitions:
                key = frozenset(numbers.setdefault(text, len(numbers)) for text in racks)
                found[partition] = sets.setdefault(key, len(sets))
        of_topic[topic] = found
    return list(numbers), rack, list(sets), of_topic


def find_empty_groups(told: IndexedFacts, faulty: set[int]) -> IntArray:
    """Groups that are known of but have no members and no fault, as rows of kind GROUP."""
    rows = told.rows_by_kind[GROUP]
    with_members = np.zeros(told.num_groups, bool)
    with_members[told.group_index[told.rows_by_kind[MEMBER]]] = True
    with_members[list(faulty)] = True
    return rows[~with_members[told.group_index[rows]]]


# DOC: What an assignor answers for groups of `GroupSpecs`, whichever assignor it is.


@dataclass(frozen=True)
class GroupAssignments:
    """Who gets what; members and topics are numbers of `GroupSpecs`.

    Attributes:
        slices: the assignment, partitions that are withheld included.
        reason: of each run why it was taken from the member that could have kept it (`STAYS`: it was not).
        withheld: whether each run has to be given up by another member first.
        rejected: group to code and detail; such a group has no runs.
        order_dependent: what of the runs may go to somebody else in Kafka, as it hangs on an order that the fleet does
        not say.
            (Only uniform and franz-go's sticky balancers are asked for that.)
        load_bound_status: of groups that weighted-sticky has planned how it went with their bound, one of
            `groups.assignors.weighted.weighted_groups.BOUND_STATUSES`.
    """

    slices: PartitionSlices
    reason: IntArray
    withheld: BoolArray
    rejected: dict[int, tuple[str, str]]
    order_dependent: PartitionSlices = EMPTY_SLICES
    load_bound_status: Mapping[int, str] = field(default_factory=dict)

    def concat(self, other: GroupAssignments) -> GroupAssignments:
        """This plan and that of other groups."""
        return GroupAssignments(
            self.slices.concat(other.slices),
            np.append(self.reason, other.reason),
            np.append(self.withheld, other.withheld),
            self.rejected | other.rejected,
            self.order_dependent.concat(other.order_dependent),
            {**self.load_bound_status, **other.load_bound_status},
        )

    @property
    def assigned_now(self) -> PartitionSlices:
        """What is assigned in this round."""
        return self.slices.take(~self.withheld)
