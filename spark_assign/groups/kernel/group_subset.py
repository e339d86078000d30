"""The specs of selected members and their groups, which a simulated restart plans while other members are away or have
a new id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from spark_assign.groups.kernel.facts import IndexedFacts
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.groups.kernel.read_specs import find_subscriber_sets
from spark_assign.groups.kernel.topic_columns import TopicColumns
from spark_assign.java.key_index import NameIndex
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.partition_slices import PartitionSlices, invert, mask_from_indexes


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
    subscriber, subscribed = specs.subscription_pairs
    is_selected = member_of[subscriber] >= 0
    num_topics = max(len(topics), 1)
    pairs = np.sort(member_of[subscriber[is_selected]] * num_topics + topic_of[subscribed[is_selected]])
    member_columns = replace(specs.members.take(members), group=group_of[specs.members.group[members]])
    topic_group = group_of[specs.topics.group[topics]]
    subscriber_set, subscriber_sets = find_subscriber_sets(
        pairs // num_topics, pairs % num_topics, len(topics), topic_group, member_columns.group
    )
    subset_specs = GroupSpecs(
        facts=_select_facts(specs, members, groups, member_ids),
        fact_group_index=specs.fact_group_index[groups],
        members=member_columns,
        topics=TopicColumns(
            topic_group,
            specs.topics.name[topics],
            specs.topics.partitions[topics],
            mask_from_indexes(pairs % num_topics, len(topics)),
            subscriber_set,
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
