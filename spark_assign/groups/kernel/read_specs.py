"""Reads the specs of groups from the facts of complete groups, and opens a pass over them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from spark_assign.assignors.group_facts import (
    DEPARTED_SLICE,
    GROUP,
    LISTED_MEMBER,
    LISTED_TOPIC,
    MEMBER,
    REPLICA_RACKS,
    SUBSCRIPTION,
    IndexedFacts,
    NameIndex,
    find_faults,
    find_owned,
    find_unsupported_groups,
    index_facts,
    rejected_table,
)
from spark_assign.assignors.group_specs import (
    ALL_MEMBERS,
    GroupSpecs,
    MemberColumns,
    SubscriptionRows,
    TopicColumns,
)
from spark_assign.numeric.arrays import (
    BoolArray,
    IntArray,
    KeyIndex,
    PartitionSlices,
    expand_slices,
    invert,
    key_ranges,
    mask_from_indexes,
    match_keys,
)


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


def open_pass(table: pa.Table, *, action: str | None = None, kinds: Collection[str] = ()) -> PassInput:
    """Opens a pass over complete groups: indexes their facts, finds the groups to reject, and builds specs.

    Args:
        table: the facts.
        action: what groups of other types than consumer groups are rejected from, except those of a type in `kinds`.
            None: they have a fault.
        kinds: group types that are valid in this pass: `share`, `streams`.
    """
    facts = index_facts(table)
    if action is None:
        rejected = find_faults(facts, kinds=kinds)
    else:
        rejected = find_unsupported_groups(facts, action, kinds) | find_faults(facts, kinds=("share", "streams"))
    return PassInput(facts, rejected, read_group_specs(facts, set(rejected)))


def read_group_specs(facts: IndexedFacts, faulty: set[int]) -> GroupSpecs:
    """Reads the groups that have members and are not in `faulty`, a set of group indexes."""
    has_specs = mask_from_indexes(facts.group_index[facts.rows_by_kind[MEMBER]], facts.num_groups)
    has_specs[list(faulty)] = False
    fact_group_index = np.flatnonzero(has_specs)
    row_group = invert(fact_group_index, facts.num_groups)[facts.group_index]
    members = _read_members(facts, row_group, has_specs)
    topics, rows, subscriber_sets, owned, departed_owned = _read_topics(facts, row_group, members, has_specs)
    racks, rack, rack_sets, rack_set = _read_racks(facts, fact_group_index, members, topics)
    members = replace(members, rack=rack, has_subscription=_find_subscribers(topics, subscriber_sets, members.group))
    return GroupSpecs(
        facts,
        fact_group_index,
        members,
        topics,
        subscriber_sets,
        owned,
        departed_owned,
        rows,
        racks,
        rack_sets,
        rack_set,
    )


def _find_subscribers(topics: TopicColumns, subscriber_sets: list[IntArray], member_group: IntArray) -> BoolArray:
    """Returns whether each member subscribes to any topic."""
    sets = topics.subscriber_set[topics.is_subscribed]
    of_all = topics.group[topics.is_subscribed][sets == ALL_MEMBERS]
    subscribers = mask_from_indexes(of_all, int(member_group.max(initial=-1)) + 1)[member_group]
    for each in np.unique(sets[sets != ALL_MEMBERS]).tolist():
        subscribers[subscriber_sets[each]] = True
    return subscribers


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
) -> tuple[TopicColumns, SubscriptionRows, list[IntArray], PartitionSlices, PartitionSlices]:
    """Returns the topics; the subscriptions that are rows; the subscriber sets; and what members and departed members
    own."""
    size, ids = max(len(facts.topic_names), 1), max(len(facts.member_id), 1)
    member_keys = KeyIndex(members.group * ids + facts.member_index[members.row])
    # Subscriptions can occur twice. Members are sorted, so that positions in the key index are member indexes.
    rows = facts.rows_of(SUBSCRIPTION, has_specs)
    pairs = member_keys.lookup(row_group[rows] * ids + facts.member_index[rows]) * size + facts.topic_index[rows]
    if (np.diff(pairs) <= 0).any():
        pairs, first = np.unique(pairs, return_index=True)
        rows = rows[first]
    subscriber = pairs // size
    lists = _read_lists(facts, row_group, member_keys, has_specs)
    owned, departed_rows = find_owned(facts, has_specs), facts.rows_of(DEPARTED_SLICE, has_specs)
    rows_with_topics = (departed_rows, owned.row, lists.topic_rows, rows)
    keys = [row_group[each] * size + facts.topic_index[each] for each in rows_with_topics]
    topic_keys = KeyIndex(np.concatenate(keys))
    found = [topic_keys.lookup(each) for each in keys]
    partitions, row_partitions = np.full(len(topic_keys), -1, np.int64), facts.int_column("partitions")
    for topic_index, partition_rows in zip(found, rows_with_topics, strict=True):
        partitions[topic_index] = row_partitions[partition_rows]
    departed_topic, owned_topic, listed_topic, topic = found
    group = topic_keys.keys // size
    subscriber_set, subscriber_sets = _find_all_subscriber_sets(
        subscriber, topic, lists, listed_topic, group, members.group
    )
    owner = member_keys.lookup(row_group[owned.row] * ids + facts.member_index[owned.row])
    departed = [facts.int_column(name, missing)[departed_rows] for name, missing in _DEFAULT_SLICE.items()]
    is_subscribed = mask_from_indexes(np.append(topic, listed_topic), len(topic_keys))
    return (
        TopicColumns(group, topic_keys.keys % size, partitions, is_subscribed, subscriber_set),
        SubscriptionRows(subscriber * max(len(topic_keys), 1) + topic, rows),
        subscriber_sets,
        PartitionSlices(owner, owned_topic, owned.first, owned.step, owned.count).take(owned.count > 0),
        PartitionSlices(facts.member_index[departed_rows], departed_topic, *departed).take(departed[-1] > 0),
    )


class _Lists(NamedTuple):
    """Lists of subscriptions that have members: each of its members subscribes to each of its topics.

    Attributes:
        member_list, member: list and member, sorted and unique.
        topic_list, topic_rows: list of each topic, and the row of the topic in the facts.
    """

    member_list: IntArray
    member: IntArray
    topic_list: IntArray
    topic_rows: IntArray


def _read_lists(facts: IndexedFacts, row_group: IntArray, member_keys: KeyIndex, has_specs: BoolArray) -> _Lists:
    member_rows, topic_rows = (facts.rows_of(kind, has_specs) for kind in (LISTED_MEMBER, LISTED_TOPIC))
    size, ids = int(facts.list_index.max(initial=0)) + 1, max(len(facts.member_id), 1)
    list_keys = KeyIndex(row_group[member_rows] * size + facts.list_index[member_rows])
    member_list, topic_list = (
        list_keys.lookup(row_group[rows] * size + facts.list_index[rows]) for rows in (member_rows, topic_rows)
    )
    member = member_keys.lookup(row_group[member_rows] * ids + facts.member_index[member_rows])
    num_members = max(len(member_keys), 1)
    member_list, member = np.divmod(np.unique(member_list * num_members + member), num_members)
    return _Lists(member_list, member, topic_list[topic_list >= 0], topic_rows[topic_list >= 0])


_DEFAULT_SLICE = {"first": -1, "step": 1, "count": 0}
"""Values for null in the columns of a slice."""


def _find_all_subscriber_sets(
    subscriber: IntArray,
    topic: IntArray,
    lists: _Lists,
    listed_topic: IntArray,
    group: IntArray,
    member_group: IntArray,
) -> tuple[IntArray, list[IntArray]]:
    """Returns the subscriber set of each topic, and the sets, as `find_subscriber_sets` does.

    A topic of one list only has the subscribers of that list. Other listed topics are expanded to subscriptions, but
    only the first of those with the same lists and the same further subscribers.

    Args:
        subscriber, topic: subscriptions that are rows.
        lists: the lists.
        listed_topic: topic of each of `lists.topic_rows`.
        group: group of each topic.
        member_group: group of each member.
    """
    num_topics, num_members = len(group), max(len(member_group), 1)
    listed = np.unique(lists.topic_list * max(num_topics, 1) + listed_topic)
    in_list, listed_topic = np.divmod(listed, max(num_topics, 1))
    is_single = np.bincount(listed_topic, minlength=num_topics) == 1
    is_single[topic] = False
    like = _first_alike(subscriber, topic, in_list, listed_topic, ~is_single, num_members)
    is_first, of_list = like == np.arange(num_topics), is_single[listed_topic]
    subscriber, topic = subscriber[is_first[topic]], topic[is_first[topic]]
    is_expanded = is_first[listed_topic] & ~of_list
    nth, position = match_keys(in_list[is_expanded], lists.member_list)
    if len(nth):
        topic = np.append(topic, listed_topic[is_expanded][nth])
        subscriber = np.append(subscriber, lists.member[position])
        topic, subscriber = np.divmod(np.unique(topic * num_members + subscriber), num_members)
    # The lists follow the topics, as if each were a topic with the list's members.
    num_lists = int(lists.member_list.max(initial=-1)) + 1
    list_group = np.zeros(num_lists, np.int64)
    list_group[lists.member_list] = member_group[lists.member]
    is_used = mask_from_indexes(in_list[of_list], num_lists)[lists.member_list]
    subscriber_set, subscriber_sets = find_subscriber_sets(
        np.append(subscriber, lists.member[is_used]),
        np.append(topic, num_topics + lists.member_list[is_used]),
        num_topics + num_lists,
        np.append(group, list_group),
        member_group,
    )
    subscriber_set[listed_topic[of_list]] = subscriber_set[num_topics + in_list[of_list]]
    return subscriber_set[like], subscriber_sets


def _first_alike(
    subscriber: IntArray, topic: IntArray, in_list: IntArray, listed_topic: IntArray, is_mixed: BoolArray, size: int
) -> IntArray:
    """Returns the first topic with the same lists and the same other subscribers as each listed one of `is_mixed`; for
    all other topics themselves. Members are below `size`."""
    like = np.arange(len(is_mixed))
    topics, names = np.append(topic, listed_topic), np.append(subscriber, size + in_list)
    rows = np.flatnonzero((is_mixed & mask_from_indexes(listed_topic, len(is_mixed)))[topics])
    rows = rows[np.lexsort((names[rows], topics[rows]))]
    first: dict[bytes, int] = {}
    for start, end in key_ranges(topics[rows]):
        at = int(topics[rows[start]])
        like[at] = first.setdefault(names[rows[start:end]].tobytes(), at)
    return like


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


# --- the specs of selected members, for simulated restarts ----------------------------------------------------
#
# a new id.


@dataclass(frozen=True)
class GroupSubset:
    """The specs of selected members and their groups.

    Attributes:
        specs: the subset, with indexes of its own. Members own only what `select_members` was given.
        groups, members, topics: the index in the parent specs of each group, member, and topic of the subset.
    """

    specs: GroupSpecs
    groups: IntArray
    members: IntArray
    topics: IntArray


def select_members(
    specs: GroupSpecs, members: IntArray, ids: Sequence[str], owned: PartitionSlices, departed: PartitionSlices
) -> GroupSubset:
    """Returns the specs of these members, with their groups and all topics of the groups.

    Args:
        specs: the parent specs.
        members: indexes of the selected members.
        ids: the current id of each member of the parent specs.
        owned: what each member owns now, with indexes of the parent specs.
        departed: what members that have left owned, likewise.
    """
    member_ids = pa.array([ids[member] for member in members.tolist()], pa.string())
    order = np.lexsort((NameIndex(member_ids).columns[0], specs.members.group[members]))
    members, member_ids = members[order], member_ids.take(pa.array(order))
    groups = np.unique(specs.members.group[members])
    topics = np.flatnonzero(np.isin(specs.topics.group, groups))
    group_of, member_of, topic_of = (
        invert(selected, size)
        for selected, size in ((groups, specs.num_groups), (members, len(specs.members)), (topics, len(specs.topics)))
    )
    member_columns = replace(specs.members.take(members), group=group_of[specs.members.group[members]])
    topic_group = group_of[specs.topics.group[topics]]
    # Topics with the same subscribers have the same ones in the subset.
    lists = specs.list_subscribers(np.arange(len(specs.members)))
    listed, first, list_index = np.unique(lists.of_topic[topics], return_index=True, return_inverse=True)
    in_list, place = expand_slices(lists.start[listed], np.ones_like(listed), lists.size[listed])
    subscriber = member_of[lists.members[place]]
    in_list, subscriber = in_list[subscriber >= 0], subscriber[subscriber >= 0]
    subscriber_set, subscriber_sets = find_subscriber_sets(
        subscriber, in_list, len(listed), topic_group[first], member_columns.group
    )
    has_subscribers = mask_from_indexes(in_list, len(listed))[list_index]
    subset_specs = GroupSpecs(
        facts=_select_facts(specs, members, groups, member_ids),
        fact_group_index=specs.fact_group_index[groups],
        members=member_columns,
        topics=TopicColumns(
            topic_group,
            specs.topics.name[topics],
            specs.topics.partitions[topics],
            specs.topics.is_subscribed[topics] & has_subscribers,
            subscriber_set[list_index],
        ),
        subscriber_sets=subscriber_sets,
        owned=owned.take(member_of[owned.member] >= 0).renumber(member_of, topic_of),
        departed_owned=departed.take(topic_of[departed.topic] >= 0).renumber(member_of, topic_of),
        subscription_rows=None,
        racks=specs.racks,
        rack_sets=specs.rack_sets,
        rack_set={int(topic_of[topic]): sets for topic, sets in specs.rack_set.items() if topic_of[topic] >= 0},
    )
    return GroupSubset(subset_specs, groups, members, topics)


def _select_facts(specs: GroupSpecs, members: IntArray, groups: IntArray, member_ids: pa.Array) -> IndexedFacts:
    """Returns the facts of these groups, with these ids for the members."""
    facts = specs.facts
    is_selected = mask_from_indexes(specs.fact_group_index[groups], facts.num_groups)
    member = facts.member_index.copy()
    member[specs.members.row[members]] = len(facts.member_id) + np.arange(len(members))
    return replace(
        facts,
        rows_by_kind={
            kind: fact_rows[is_selected[facts.group_index[fact_rows]]] for kind, fact_rows in facts.rows_by_kind.items()
        },
        member_index=member,
        member_id=pa.concat_arrays([facts.member_id, member_ids]),
    )
