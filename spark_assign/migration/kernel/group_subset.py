"""Subsets of group specs, and assignments of groups that Spark has no rows for.

A simulated restart plans groups while members are away or have a new id. `select_members` builds their specs from those
of the complete groups. `assign_without_spark` runs any of Kafka's assignors on them: Spark windows compute range and
round robin if Spark has the rows; this module applies the same two rules to the columns of the specs. Cases that
windows don't cover use the same kernels in both places (`groups.kernel.range_roundrobin_fallback`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from spark_assign.groups.assignors.release_rules import LATEST_RULES, parse_release_assignor
from spark_assign.groups.assignors.server.range import assign_server_ranges
from spark_assign.groups.assignors.sticky.sticky_groups import KEPT, member_hash_orders
from spark_assign.groups.kernel.assign import assign
from spark_assign.groups.kernel.facts import WINDOW_ASSIGNORS, IndexedFacts
from spark_assign.groups.kernel.group_specs import GroupAssignments, GroupSpecs, MemberColumns, find_subscriber_sets
from spark_assign.groups.kernel.range_roundrobin_fallback import assign_heterogeneous_round_robin, assign_ranges_by_rack
from spark_assign.groups.kernel.topic_columns import TopicColumns
from spark_assign.java.hash_map import string_hashes
from spark_assign.java.key_index import NameIndex
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices
from spark_assign.numeric.segmented_arrays import row_numbers


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

    def to_parent_indexes(self, runs: PartitionSlices) -> PartitionSlices:
        """Returns slices of the subset with the indexes of the parent specs."""
        return PartitionSlices(self.members[runs.member], self.topics[runs.topic], *runs.columns[2:])


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
    id_index = NameIndex(member_ids)
    order = np.lexsort((id_index.columns[0], specs.members.group[members]))
    members, member_ids, rank = members[order], member_ids.take(pa.array(order)), id_index.columns[0][order]
    groups = np.unique(specs.members.group[members])
    topics = np.flatnonzero(np.isin(specs.topics.group, groups))
    group_of, member_of, topic_of = (
        _invert_indexes(selected, size)
        for selected, size in ((groups, specs.num_groups), (members, len(specs.members)), (topics, len(specs.topics)))
    )
    subscriber, subscribed_topic = np.divmod(specs.subscriptions, max(len(specs.topics), 1))
    is_selected = member_of[subscriber] >= 0
    pairs = member_of[subscriber[is_selected]] * max(len(topics), 1) + topic_of[subscribed_topic[is_selected]]
    by_pair = np.argsort(pairs)
    pairs, subscription_rows = pairs[by_pair], specs.subscription_rows[is_selected][by_pair]
    facts = _select_facts(specs, members, groups, member_ids)
    member_columns = _member_columns(specs, facts.member_index, members, group_of, member_ids, rank)
    topic_columns = _topic_columns(specs, topics, group_of, pairs)
    subscribers, classes = find_subscriber_sets(
        pairs // max(len(topics), 1), pairs % max(len(topics), 1), len(topics), topic_columns.group, member_columns
    )
    owned_slices, departed_slices = (
        owned.take(member_of[owned.member] >= 0),
        departed.take(topic_of[departed.topic] >= 0),
    )
    subset_specs = GroupSpecs(
        facts=facts,
        fact_group_index=specs.fact_group_index[groups],
        members=replace(
            member_columns, has_subscription=np.bincount(pairs // max(len(topics), 1), minlength=len(members)) > 0
        ),
        topics=replace(topic_columns, subscriber_set=subscribers),
        subscriber_sets=classes,
        owned=PartitionSlices(member_of[owned_slices.member], topic_of[owned_slices.topic], *owned_slices.columns[2:]),
        departed_owned=PartitionSlices(
            departed_slices.member, topic_of[departed_slices.topic], *departed_slices.columns[2:]
        ),
        subscriptions=pairs,
        subscription_rows=subscription_rows,
        racks=specs.racks,
        rack_sets=specs.rack_sets,
        rack_set={int(topic_of[topic]): sets for topic, sets in specs.rack_set.items() if topic_of[topic] >= 0},
    )
    return GroupSubset(subset_specs, groups, members, topics)


def _invert_indexes(indexes: IntArray, size: int) -> IntArray:
    """Returns the position of each index in `indexes`; -1 for an index that isn't in it. Shape: (size,)."""
    inverse = np.full(size, -1, np.int64)
    inverse[indexes] = np.arange(len(indexes))
    return inverse


def _select_facts(specs: GroupSpecs, members: IntArray, groups: IntArray, member_ids: pa.Array) -> IndexedFacts:
    """Returns the facts of these groups, with these ids for the members."""
    facts = specs.facts
    is_selected = np.zeros(facts.num_groups, bool)
    is_selected[specs.fact_group_index[groups]] = True
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


def _member_columns(
    specs: GroupSpecs,
    fact_member: IntArray,
    members: IntArray,
    group_of: IntArray,
    member_ids: pa.Array,
    rank: IntArray,
) -> MemberColumns:
    parent, facts = specs.members, specs.facts
    group, rows = group_of[parent.group[members]], parent.row[members]
    instance = NameIndex(facts.column("group_instance_id", rows)).columns[0]
    order = np.lexsort((rank, instance, instance < 0, group))
    assignment_order = np.empty(len(members), np.int64)
    assignment_order[order] = row_numbers(group[order])
    position = facts.int_column("position", np.iinfo(np.int32).max)[rows]
    hashes = string_hashes(member_ids.to_pylist()) if len(member_ids) else np.empty(0, np.int64)
    hash_order, treeified = member_hash_orders(hashes, fact_member[rows], group, np.lexsort((position, group)))
    return MemberColumns(
        group=group,
        row=rows,
        assignment_order=assignment_order,
        hash_order=hash_order,
        treeified=treeified,
        generation=parent.generation[members],
        user_data_generation=parent.user_data_generation[members],
        has_user_data=parent.has_user_data[members],
        rack=parent.rack[members],
        has_subscription=parent.has_subscription[members],
    )


def _topic_columns(specs: GroupSpecs, topics: IntArray, group_of: IntArray, pairs: IntArray) -> TopicColumns:
    parent = specs.topics
    is_subscribed = np.zeros(len(topics), bool)
    is_subscribed[pairs % max(len(topics), 1)] = True
    return TopicColumns(
        group_of[parent.group[topics]],
        parent.name[topics],
        parent.partitions[topics],
        is_subscribed,
        parent.subscriber_set[topics],
    )


def assign_without_spark(specs: GroupSpecs, assignor: str, selected: BoolArray) -> GroupAssignments:
    """Assigns the selected groups with one of Kafka's assignors, optionally of a release, without rows of Spark."""
    name, rules = parse_release_assignor(assignor) or (assignor, LATEST_RULES)
    if name not in WINDOW_ASSIGNORS:
        return assign(specs, assignor, selected, {})
    slices = _assign_ranges(specs) if name == "range" else _assign_round_robin(specs)
    runs = slices.take(selected[specs.members.group[slices.member]])
    if name == "roundrobin":
        runs = assign_heterogeneous_round_robin(specs, selected, runs)
    elif rules.uses_racks:
        runs = assign_ranges_by_rack(specs, selected, runs)
    return GroupAssignments(runs, np.full(len(runs), KEPT), np.zeros(len(runs), bool), {})


def _assign_ranges(specs: GroupSpecs) -> PartitionSlices:
    """Assigns by range without racks: consecutive partitions to the subscribers of a topic, in assignment order."""
    member, topic = np.divmod(specs.subscriptions, max(len(specs.topics), 1))
    exists = specs.topics.partitions[topic] > 0
    partitions = np.maximum(specs.topics.partitions, 0)
    return assign_server_ranges(member[exists], topic[exists], specs.members.assignment_order, partitions)


def _assign_round_robin(specs: GroupSpecs) -> PartitionSlices:
    """Assigns by round robin if all topics have the same subscribers: the subscribers take turns over all partitions,
    by topic name.
    """
    topics = specs.topics
    member, topic = np.divmod(specs.subscriptions, max(len(topics), 1))
    order = np.lexsort((specs.members.assignment_order[member], topic))
    member, topic = member[order], topic[order]
    partitions = np.maximum(np.where(topics.is_subscribed, topics.partitions, 0), 0)
    size = np.bincount(topic, minlength=len(topics))[topic]
    first = (row_numbers(topic) - topics.sum_of_preceding(partitions)[topic]) % size
    count = -(-(partitions[topic] - first) // size)
    runs = PartitionSlices(member, topic, first, size, np.maximum(count, 0))
    return runs.take(runs.count > 0)
