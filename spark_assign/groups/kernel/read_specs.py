"""Reads the specs of groups from the facts of complete groups, and opens a pass over them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from spark_assign.groups.kernel.facts import (
    DEPARTED_SLICE,
    GROUP,
    MEMBER,
    REPLICA_RACKS,
    IndexedFacts,
    find_owned,
    find_subscriptions,
    index_facts,
)
from spark_assign.groups.kernel.faults import find_faults, find_unsupported_groups, rejected_table
from spark_assign.groups.kernel.group_specs import ALL_MEMBERS, GroupSpecs, MemberColumns
from spark_assign.groups.kernel.topic_columns import TopicColumns
from spark_assign.java.key_index import KeyIndex
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices, invert, mask_from_indexes


@dataclass(frozen=True)
class PassInput:
    """The groups of a pass.

    Attributes:
        facts: the facts of all groups.
        rejected: code and detail of the groups that can't be part of the pass, by index in the facts.
        specs: all other groups that have members.
    """

    facts: IndexedFacts
    rejected: dict[int, tuple[str, str]]
    specs: GroupSpecs

    @property
    def rejected_groups(self) -> pa.Table:
        """Returns cluster, group_id, code, and detail of the rejected groups."""
        return rejected_table(self.facts, self.rejected)

    @property
    def empty_groups(self) -> IntArray:
        """Returns the rows of kind GROUP of all other groups that have no members."""
        facts, rows = self.facts, self.facts.rows_by_kind[GROUP]
        with_members = mask_from_indexes(facts.group_index[facts.rows_by_kind[MEMBER]], facts.num_groups)
        with_members[list(self.rejected)] = True
        return rows[~with_members[facts.group_index[rows]]]


def open_pass(table: pa.Table, *, action: str | None = None, also: Collection[str] = ()) -> PassInput:
    """Opens a pass over complete groups: indexes their facts, finds the groups to reject, and builds specs.

    Args:
        table: the facts.
        action: what groups of other types than consumer groups are rejected from. None: they have a fault, except those
            of a type in `also`.
        also: group types that are valid in this pass: `share`, `streams`.
    """
    facts = index_facts(table)
    if action is None:
        rejected = find_faults(facts, also=also)
    else:
        rejected = find_unsupported_groups(facts, action) | find_faults(facts, also=("share", "streams"))
    return PassInput(facts, rejected, read_group_specs(facts, set(rejected)))


def read_group_specs(facts: IndexedFacts, faulty: set[int]) -> GroupSpecs:
    """Reads the groups that have members and are not in `faulty`, a set of group indexes."""
    has_specs = mask_from_indexes(facts.group_index[facts.rows_by_kind[MEMBER]], facts.num_groups)
    has_specs[list(faulty)] = False
    fact_group_index = np.flatnonzero(has_specs)
    row_group = invert(fact_group_index, facts.num_groups)[facts.group_index]
    members = _read_members(facts, row_group, has_specs)
    topics, subscriptions, rows, subscriber_sets, owned, departed_owned = _read_topics(
        facts, row_group, members, has_specs
    )
    racks, rack, rack_sets, rack_set = _read_racks(facts, fact_group_index, members, topics)
    has_subscription = mask_from_indexes(subscriptions // max(len(topics), 1), len(members))
    return GroupSpecs(
        facts,
        fact_group_index,
        replace(members, rack=rack, has_subscription=has_subscription),
        topics,
        subscriber_sets,
        owned,
        departed_owned,
        subscriptions,
        rows,
        racks,
        rack_sets,
        rack_set,
    )


def _read_members(facts: IndexedFacts, row_group: IntArray, has_specs: BoolArray) -> MemberColumns:
    """Returns the members sorted by group and member id."""
    rows = facts.rows_of(MEMBER, has_specs)
    rows = rows[np.lexsort((facts.member_index[rows], row_group[rows]))]
    return MemberColumns(
        group=row_group[rows],
        row=rows,
        generation=np.maximum(facts.int_column("generation_id")[rows], -1),
        user_data_generation=np.maximum(facts.int_column("user_data_generation_id")[rows], -1),
        has_user_data=facts.column("user_data_generation_id", rows).is_valid().to_numpy(zero_copy_only=False),
        rack=np.full(len(rows), -1, np.int64),
        has_subscription=np.zeros(len(rows), bool),
    )


def _read_topics(
    facts: IndexedFacts, row_group: IntArray, members: MemberColumns, has_specs: BoolArray
) -> tuple[TopicColumns, IntArray, IntArray, list[IntArray], PartitionSlices, PartitionSlices]:
    """Returns the topics; the subscriptions and their rows in the facts; the subscriber sets; and what members and
    departed members own."""
    size, ids = max(len(facts.topic_names), 1), max(len(facts.member_id), 1)
    member_keys = KeyIndex(members.group * ids + facts.member_index[members.row])
    # Subscriptions can occur twice. Members are sorted, so that positions in the key index are member indexes.
    rows, subscribed = find_subscriptions(facts, has_specs)
    pairs = member_keys.lookup(row_group[rows] * ids + facts.member_index[rows]) * size + subscribed
    if (np.diff(pairs) <= 0).any():
        pairs, first = np.unique(pairs, return_index=True)
        rows = rows[first]
    subscriber = pairs // size
    owned, departed_rows = find_owned(facts, has_specs), facts.rows_of(DEPARTED_SLICE, has_specs)
    keys = [members.group[subscriber] * size + pairs % size]
    keys += [row_group[each] * size + facts.topic_index[each] for each in (owned.row, departed_rows)]
    topic_keys = KeyIndex(np.concatenate(keys))
    topic, owned_topic, departed_topic = (topic_keys.lookup(each) for each in keys)
    partitions, row_partitions = np.full(len(topic_keys), -1, np.int64), facts.int_column("partitions")
    for topic_index, partition_rows in ((departed_topic, departed_rows), (owned_topic, owned.row), (topic, rows)):
        partitions[topic_index] = row_partitions[partition_rows]
    group, is_subscribed = topic_keys.keys // size, mask_from_indexes(topic, len(topic_keys))
    subscriber_set, subscriber_sets = find_subscriber_sets(subscriber, topic, len(topic_keys), group, members.group)
    owner = member_keys.lookup(row_group[owned.row] * ids + facts.member_index[owned.row])
    departed = [facts.int_column(name, missing)[departed_rows] for name, missing in _DEFAULT_SLICE.items()]
    return (
        TopicColumns(group, topic_keys.keys % size, partitions, is_subscribed, subscriber_set),
        subscriber * max(len(topic_keys), 1) + topic,
        rows,
        subscriber_sets,
        PartitionSlices(owner, owned_topic, owned.first, owned.step, owned.count).take(owned.count > 0),
        PartitionSlices(facts.member_index[departed_rows], departed_topic, *departed).take(departed[-1] > 0),
    )


_DEFAULT_SLICE = {"first": -1, "step": 1, "count": 0}
"""Values for null in the columns of a slice."""


def find_subscriber_sets(
    subscriber: IntArray, topic: IntArray, num_topics: int, group: IntArray, member_group: IntArray
) -> tuple[IntArray, list[IntArray]]:
    """Returns the subscriber set of each topic, and the members of each set that is not all members of the group."""
    sizes = np.bincount(member_group, minlength=int(group.max(initial=-1)) + 1)
    num_subscribers = np.bincount(topic, minlength=num_topics)
    subscriber_set = np.full(num_topics, ALL_MEMBERS, np.int64)
    partial = np.flatnonzero((num_subscribers > 0) & (num_subscribers < sizes[group]))
    if not len(partial):
        return subscriber_set, []
    is_partial = np.isin(topic, partial)
    order = np.lexsort((subscriber[is_partial], topic[is_partial]))
    topic_members = np.split(subscriber[is_partial][order], np.flatnonzero(np.diff(topic[is_partial][order])) + 1)
    index_by_members: dict[bytes, int] = {}
    for topic_index, members in zip(partial.tolist(), topic_members, strict=True):
        subscriber_set[topic_index] = index_by_members.setdefault(members.tobytes(), len(index_by_members))
    return subscriber_set, [np.frombuffer(members, np.int64) for members in index_by_members]


def _read_racks(
    facts: IndexedFacts, fact_group_index: IntArray, members: MemberColumns, topics: TopicColumns
) -> tuple[list[str], IntArray, list[frozenset[int]], dict[int, IntArray]]:
    """Returns the rack names, the rack of each member, the distinct rack sets, and the rack set of each partition of
    topics with known racks.
    """
    encoded = facts.column("rack_id", members.row).dictionary_encode()
    rack = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    rack_index = {name: index for index, name in enumerate(encoded.dictionary.to_pylist())}
    rack_sets: dict[frozenset[int], int] = {frozenset(): 0}
    topic_rack_set: dict[int, IntArray] = {}
    rows, topic = topics.find_rows(facts, REPLICA_RACKS, fact_group_index)
    lists = (facts.column(name, rows).to_pylist() for name in ("at", "racks"))
    for row, layout, index in zip(*lists, topic.tolist(), strict=True):
        if not row:
            continue
        partitions = int(topics.partitions[index])
        partition_rack_set = np.zeros(max(partitions, 0), np.int64)
        for partition, racks in zip(row, layout, strict=True):
            if partition < partitions:
                key = frozenset(rack_index.setdefault(name, len(rack_index)) for name in racks)
                partition_rack_set[partition] = rack_sets.setdefault(key, len(rack_sets))
        topic_rack_set[index] = partition_rack_set
    return list(rack_index), rack, list(rack_sets), topic_rack_set
