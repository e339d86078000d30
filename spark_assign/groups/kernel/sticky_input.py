"""The groups of specs as the sticky assignors read them: of which generation claims are, and in what order told.

Sticky is eager: its members have given up all before they join, and tell what they owned, and in which generation, in
the assignor's user data. Cooperative-sticky reads the subscription, which tells what is owned by topic and partition;
its generation came with 3.4, until then it was in the user data, and until 2.8.0 nowhere.
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
    """The groups of specs; topics are numbered as in `Topics.known`.

    Args:
        specs: the groups.
        cooperative: whether it is cooperative-sticky, which withholds what changes hands.
        rules: of which release.
    """
    members, topics, known = specs.members, specs.topics, specs.topics.with_metadata
    claims, is_known = _known(specs, specs.owned)
    nameless = topics.is_subscribed & (topics.partitions <= 0)
    in_order = rules.keeps_in_owned_order and not cooperative
    hashed = rules.reports_in_hash_order and cooperative
    return StickyBatch(
        groups=StickyGroups(
            members.group,
            members.hash_order,
            topics.group[known],
            topics.partitions[known],
            cooperative,
            members.treeified,
        ),
        owned_generation=_claimed_in(specs, cooperative, rules),
        generation=members.generation,
        owned=claims,
        topic_subscriber_set=topics.subscriber_set[known],
        topic_hash=string_hashes(specs.facts.topic_names.to_pylist())[topics.name[known]],
        topics_without_metadata=list(
            zip(topics.group[nameless].tolist(), topics.subscriber_set[nameless].tolist(), strict=True)
        ),
        subscriber_sets=dict(enumerate(specs.subscriber_sets)),
        member_rack=members.rack,
        rack_sets=specs.rack_sets,
        partition_rack_set={
            at: specs.rack_set[topic] for at, topic in enumerate(known.tolist()) if topic in specs.rack_set
        },
        owned_order=_known(specs, read_owned_order(specs))[0] if in_order else EMPTY_SLICES,
        owned_without_metadata=specs.owned.take(~is_known) if rules.only_general or hashed else EMPTY_SLICES,
        rules=rules,
    )


def _known(specs: GroupSpecs, runs: PartitionSlices) -> tuple[PartitionSlices, IntArray]:
    """Those of topics with metadata, in their numbers; and which they are."""
    known = specs.topics.with_metadata
    topic = np.searchsorted(known, runs.topic)
    here = np.append(known, -1)[topic] == runs.topic
    return PartitionSlices(runs.member, topic, *runs.columns[2:]).take(here), here


def _claimed_in(specs: GroupSpecs, cooperative: bool, rules: ReleaseRules) -> IntArray:
    """Of each member the generation that its claims are of; -1 for none."""
    members = specs.members
    if cooperative and rules.ignores_generations:
        return np.full(len(members), -1, np.int64)
    if not cooperative or rules.generation_in_user_data:
        return np.where(members.has_user_data, members.user_data_generation, members.generation)
    return np.where(members.generation >= 0, members.generation, members.user_data_generation)


# DOC: In which order members have what they own, where a fleet says so (`owned.position`).


def read_owned_order(specs: GroupSpecs) -> PartitionSlices:
    """Single partitions as members tell that they own them, where facts say in which order."""
    if specs.owned_order is not None:
        return specs.owned_order
    told, members, topics = specs.facts, specs.members, specs.topics
    number = np.full(told.num_groups, -1, np.int64)
    number[specs.fact_group_index] = np.arange(specs.num_groups)
    rows = told.rows_by_kind[OWNED_ORDER][number[told.group_index[told.rows_by_kind[OWNED_ORDER]]] >= 0]
    if not len(rows):
        return EMPTY_SLICES
    rows = rows[np.lexsort((told.int_column("position")[rows], told.member_index[rows], told.group_index[rows]))]
    ids, names = max(len(told.member_id), 1), max(len(told.topic_names), 1)
    group = number[told.group_index[rows]]
    member = KeyIndex(members.group * ids + told.member_index[members.row]).lookup(
        group * ids + told.member_index[rows]
    )
    topic = KeyIndex(topics.group * names + topics.name).lookup(group * names + told.topic_index[rows])
    at = told.column("at", rows)
    partition = np.asarray(at.flatten().to_numpy(zero_copy_only=False), np.int64)
    row = np.repeat(np.arange(len(rows)), np.asarray(at.value_lengths().to_numpy(zero_copy_only=False), np.int64))
    one = np.ones(len(row), np.int64)
    every = PartitionSlices(member[row], topic[row], partition, one, one)
    return every.take((every.member >= 0) & (every.topic >= 0))


def in_owned_order(owned: PartitionSlices, told: PartitionSlices) -> tuple[IntArray, BoolArray]:
    """Single partitions in the order in which their members tell them, as far as they do.

    Args:
        owned: single partitions in some other order.
        told: as `read_owned_order` has them, in the same numbers of members and topics.

    Returns:
        the places of `owned` in the new order; and of each, in the old one, whether its member tells all it has here.
    """
    every = np.arange(len(owned))
    if not len(told) or not len(owned):
        return every, np.zeros(len(owned), bool)
    size = int(max(owned.member.max(), told.member.max())) + 1
    keys = KeyIndex(told.partition_keys)
    one, other = (
        keys.lookup(told.partition_keys) * size + told.member,
        keys.lookup(owned.partition_keys) * size + owned.member,
    )
    order = np.argsort(one, kind="stable")
    at = np.minimum(np.searchsorted(one[order], other), len(one) - 1)
    place = np.where(one[order][at] == other, order[at], -1)
    silent = np.zeros(size, bool)
    silent[owned.member[place < 0]] = True
    known = ~silent[owned.member]
    return np.lexsort((np.where(known, place, every), owned.member)), known


# DOC: Groups in which nothing is in dispute: members all subscribe to the same topics, and nobody claims what another
# does.
#
# The sticky assignors of other libraries go partition by partition. In such groups it can be told from counts alone
# what
# comes out: there they are planned on runs, many at once, and only what changes hands is looked at one by one.
#


@dataclass(frozen=True)
class UndisputedGroups:
    """Some groups of specs.

    Attributes:
        groups: of all groups, which.
        owned: what members own, as far as there are such partitions.
        load: of all members, how many partitions they own.
        topic, partition: what nobody owns, by topic and partition.
    """

    groups: BoolArray
    owned: PartitionSlices
    load: IntArray
    topic: IntArray
    partition: IntArray

    def without(self, others: BoolArray, specs: GroupSpecs) -> UndisputedGroups:
        """The same without some groups."""
        if not (others & self.groups).any():
            return self
        owned = self.owned.take(~others[specs.members.group[self.owned.member]])
        some = ~others[specs.topics.group[self.topic]]
        load = np.where(others[specs.members.group], 0, self.load)
        return UndisputedGroups(self.groups & ~others, owned, load, self.topic[some], self.partition[some])


def find_undisputed(specs: GroupSpecs, chosen: BoolArray, counted_in: BoolArray) -> UndisputedGroups:
    """Those of the chosen groups in which nothing is in dispute.

    Args:
        specs: all groups.
        chosen: of each group, whether it is one of those.
        counted_in: of each member, whether it counts: if not, it is as if it were not there.
    """
    members, topics = specs.members, specs.topics
    known = np.zeros(len(topics), bool)
    known[topics.with_metadata] = chosen[topics.group[topics.with_metadata]]
    claims = specs.owned
    claims = claims.take(counted_in[claims.member] & known[claims.topic])
    fitting = -(-(topics.partitions[claims.topic] - claims.first) // claims.step)
    owned = PartitionSlices(*claims.columns[:4], np.minimum(claims.count, fitting)).take(fitting > 0)
    asked_by = np.bincount(specs.subscriptions % max(len(topics), 1), minlength=len(topics))
    all_members = np.bincount(members.group[counted_in], minlength=specs.num_groups)
    groups = chosen.copy()
    groups[topics.group[topics.is_subscribed & (asked_by != all_members[topics.group])]] = False
    groups[topics.group[find_overlapping_topics(owned)]] = False
    owned = owned.take(groups[members.group[owned.member]])
    load = np.bincount(owned.member, owned.count, len(members)).astype(np.int64)
    partitions = np.where(known & groups[topics.group], topics.partitions, 0)
    topic, partition = find_unowned(owned, partitions)
    order = np.lexsort((partition, topic))
    return UndisputedGroups(groups, owned, load, topic[order], partition[order])
