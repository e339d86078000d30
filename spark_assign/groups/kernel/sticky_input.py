"""Reads what sticky assignors need from `GroupSpecs`: the generations of claims, the order of owned partitions, and the
groups in which ownership is undisputed.

Sticky is eager: its members have revoked everything before they join, and report what they owned, and in which
generation, in the assignor's user data. Cooperative-sticky reads the subscription, which reports owned partitions by
topic and partition. Its generation was added in 3.4; before, it was in the user data, and before 2.8.0 nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.groups.assignors.release_rules import LATEST_RULES, ReleaseRules
from spark_assign.groups.assignors.sticky.constrained import find_unowned
from spark_assign.groups.assignors.sticky.ownership_conflicts import find_overlapping_topics
from spark_assign.groups.assignors.sticky.plan_batch import StickyBatch
from spark_assign.groups.assignors.sticky.sticky_groups import StickyGroups
from spark_assign.groups.kernel.facts import OWNED_ORDER
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.java.hash_map import string_hashes
from spark_assign.java.key_index import KeyIndex
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, PartitionSlices


def sticky_batch(specs: GroupSpecs, *, cooperative: bool, rules: ReleaseRules = LATEST_RULES) -> StickyBatch:
    """Returns the groups of specs as input of the sticky assignors; topic indexes refer to `topics.with_metadata`.

    Args:
        specs: the groups.
        cooperative: whether the assignor is cooperative-sticky, which withholds partitions that change their owner.
        rules: rules of the client release.
    """
    members, topics, topic_index = specs.members, specs.topics, specs.topics.with_metadata
    owned, is_known = _known(specs, specs.owned)
    nameless = topics.is_subscribed & (topics.partitions <= 0)
    uses_owned_order = rules.keeps_in_owned_order and not cooperative
    hashed = rules.reports_in_hash_order and cooperative
    return StickyBatch(
        groups=StickyGroups(
            members.group,
            members.hash_order,
            topics.group[topic_index],
            topics.partitions[topic_index],
            cooperative,
            members.treeified,
        ),
        owned_generation=_claimed_in(specs, cooperative, rules),
        generation=members.generation,
        owned=owned,
        topic_subscriber_set=topics.subscriber_set[topic_index],
        topic_hash=string_hashes(specs.facts.topic_names.to_pylist())[topics.name[topic_index]],
        topics_without_metadata=list(
            zip(topics.group[nameless].tolist(), topics.subscriber_set[nameless].tolist(), strict=True)
        ),
        subscriber_sets=dict(enumerate(specs.subscriber_sets)),
        member_rack=members.rack,
        rack_sets=specs.rack_sets,
        partition_rack_set={
            index: specs.rack_set[topic] for index, topic in enumerate(topic_index.tolist()) if topic in specs.rack_set
        },
        owned_order=_known(specs, read_owned_order(specs))[0] if uses_owned_order else EMPTY_SLICES,
        owned_without_metadata=specs.owned.take(~is_known) if rules.only_general or hashed else EMPTY_SLICES,
        rules=rules,
    )


def _known(specs: GroupSpecs, slices: PartitionSlices) -> tuple[PartitionSlices, IntArray]:
    """Returns the slices of topics with metadata, in indexes of these topics, and the mask of those slices."""
    topic_index = specs.topics.with_metadata
    topic = np.searchsorted(topic_index, slices.topic)
    is_known = np.append(topic_index, -1)[topic] == slices.topic
    return PartitionSlices(slices.member, topic, *slices.columns[2:]).take(is_known), is_known


def _claimed_in(specs: GroupSpecs, cooperative: bool, rules: ReleaseRules) -> IntArray:
    """Returns the generation of the claims of each member; -1 for none."""
    members = specs.members
    if cooperative and rules.ignores_generations:
        return np.full(len(members), -1, np.int64)
    if not cooperative or rules.generation_in_user_data:
        return np.where(members.has_user_data, members.user_data_generation, members.generation)
    return np.where(members.generation >= 0, members.generation, members.user_data_generation)


def read_owned_order(specs: GroupSpecs) -> PartitionSlices:
    """Returns single partitions in the order in which members report them, if the fleet has that order
    (`owned.position`)."""
    if specs.owned_order is not None:
        return specs.owned_order
    facts, members, topics = specs.facts, specs.members, specs.topics
    spec_index = np.full(facts.num_groups, -1, np.int64)
    spec_index[specs.fact_group_index] = np.arange(specs.num_groups)
    rows = facts.rows_by_kind[OWNED_ORDER][spec_index[facts.group_index[facts.rows_by_kind[OWNED_ORDER]]] >= 0]
    if not len(rows):
        return EMPTY_SLICES
    rows = rows[np.lexsort((facts.int_column("position")[rows], facts.member_index[rows], facts.group_index[rows]))]
    num_ids, num_topics = max(len(facts.member_id), 1), max(len(facts.topic_names), 1)
    group = spec_index[facts.group_index[rows]]
    member = KeyIndex(members.group * num_ids + facts.member_index[members.row]).lookup(
        group * num_ids + facts.member_index[rows]
    )
    topic = KeyIndex(topics.group * num_topics + topics.name).lookup(group * num_topics + facts.topic_index[rows])
    partitions = facts.column("at", rows)
    partition = np.asarray(partitions.flatten().to_numpy(zero_copy_only=False), np.int64)
    row = np.repeat(
        np.arange(len(rows)), np.asarray(partitions.value_lengths().to_numpy(zero_copy_only=False), np.int64)
    )
    ones = np.ones(len(row), np.int64)
    owned = PartitionSlices(member[row], topic[row], partition, ones, ones)
    return owned.take((owned.member >= 0) & (owned.topic >= 0))


def in_owned_order(owned: PartitionSlices, ordered: PartitionSlices) -> tuple[IntArray, BoolArray]:
    """Sorts single partitions by the order in which their members report them.

    Args:
        owned: single partitions in any order.
        told: the reported order (`read_owned_order`), with the same member and topic indexes.

    Returns:
        the sort order of `owned`; and for each row of `owned`, whether its member reports all of its rows.
    """
    indexes = np.arange(len(owned))
    if not len(ordered) or not len(owned):
        return indexes, np.zeros(len(owned), bool)
    size = int(max(owned.member.max(), ordered.member.max())) + 1
    keys = KeyIndex(ordered.partition_keys)
    ordered_keys, owned_keys = (
        keys.lookup(ordered.partition_keys) * size + ordered.member,
        keys.lookup(owned.partition_keys) * size + owned.member,
    )
    order = np.argsort(ordered_keys, kind="stable")
    match = np.minimum(np.searchsorted(ordered_keys[order], owned_keys), len(ordered_keys) - 1)
    position = np.where(ordered_keys[order][match] == owned_keys, order[match], -1)
    is_incomplete = np.zeros(size, bool)
    is_incomplete[owned.member[position < 0]] = True
    is_ordered = ~is_incomplete[owned.member]
    return np.lexsort((np.where(is_ordered, position, indexes), owned.member)), is_ordered


@dataclass(frozen=True)
class UndisputedGroups:
    """Homogeneous groups without conflicting owners.

    The sticky assignors of other libraries work partition by partition. In undisputed groups the result follows from
    counts, so that many groups are planned at once on slices, and only partitions that change their owner are expanded.

    Attributes:
        groups: mask over all groups.
        owned: partitions that members own and that exist.
        load: number of partitions that each member owns. Shape: (num_members,).
        topic, partition: partitions without an owner, sorted by topic and partition.
    """

    groups: BoolArray
    owned: PartitionSlices
    load: IntArray
    topic: IntArray
    partition: IntArray

    def without(self, mask: BoolArray, specs: GroupSpecs) -> UndisputedGroups:
        """Returns the groups except those that the mask selects."""
        if not (mask & self.groups).any():
            return self
        owned = self.owned.take(~mask[specs.members.group[self.owned.member]])
        remaining = ~mask[specs.topics.group[self.topic]]
        load = np.where(mask[specs.members.group], 0, self.load)
        return UndisputedGroups(self.groups & ~mask, owned, load, self.topic[remaining], self.partition[remaining])


def find_undisputed(specs: GroupSpecs, selected: BoolArray, counted_in: BoolArray) -> UndisputedGroups:
    """Finds the undisputed groups among the selected groups.

    Args:
        specs: all groups.
        selected: mask of the selected groups.
        counted_in: mask of the members that take part; other members are ignored.
    """
    members, topics = specs.members, specs.topics
    known = np.zeros(len(topics), bool)
    known[topics.with_metadata] = selected[topics.group[topics.with_metadata]]
    owned_slices = specs.owned
    owned_slices = owned_slices.take(counted_in[owned_slices.member] & known[owned_slices.topic])
    fitting = -(-(topics.partitions[owned_slices.topic] - owned_slices.first) // owned_slices.step)
    owned = PartitionSlices(*owned_slices.columns[:4], np.minimum(owned_slices.count, fitting)).take(fitting > 0)
    num_subscribers = np.bincount(specs.subscriptions % max(len(topics), 1), minlength=len(topics))
    num_members = np.bincount(members.group[counted_in], minlength=specs.num_groups)
    groups = selected.copy()
    groups[topics.group[topics.is_subscribed & (num_subscribers != num_members[topics.group])]] = False
    groups[topics.group[find_overlapping_topics(owned)]] = False
    owned = owned.take(groups[members.group[owned.member]])
    load = np.bincount(owned.member, owned.count, len(members)).astype(np.int64)
    partitions = np.where(known & groups[topics.group], topics.partitions, 0)
    topic, partition = find_unowned(owned, partitions)
    order = np.lexsort((partition, topic))
    return UndisputedGroups(groups, owned, load, topic[order], partition[order])
