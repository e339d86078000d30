"""The sticky assignors' choice between their two algorithms, for many groups at once.

Where all members subscribe to the same topics the constrained one plans (`constrained`, with racks
`racks`), elsewhere the general one (`general`). Whether subscriptions are the same is asked in the walk
of the hash map, against the first that is not empty: members without subscription that come before it are overlooked,
and are given partitions as if they had asked for them (`AbstractStickyAssignor.allSubscriptionsEqual`).

Older releases (`groups.assignors.release_rules`): up to 3.4 without racks; up to 2.8 with the first constrained
algorithm (`constrained_2_8`), and elsewhere from claims by generation (`general_2_8`); up to 2.5.0 the latter for all
groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from spark_assign.groups.assignors.release_rules import LATEST_RULES, ReleaseRules
from spark_assign.groups.assignors.sticky.constrained import plan_constrained
from spark_assign.groups.assignors.sticky.constrained_2_8 import plan_constrained_2_8
from spark_assign.groups.assignors.sticky.general import find_previous_owners, plan_general
from spark_assign.groups.assignors.sticky.general_2_8 import GenerationInput, plan_from_generations
from spark_assign.groups.assignors.sticky.general_balance import Subscribers
from spark_assign.groups.assignors.sticky.ownership_conflicts import ResolvedOwnership, resolve_conflicts
from spark_assign.groups.assignors.sticky.rack_aware import Racks, plan_with_racks
from spark_assign.groups.assignors.sticky.retained_partitions import TopicOrder, hash_owned_order
from spark_assign.groups.assignors.sticky.sticky_groups import StickyAssignment, StickyGroups
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, PARTITION_BITS, PartitionSlices

ALL_MEMBERS = -1
"""The class of subscribers that are all members of their group."""


@dataclass(frozen=True)
class StickyBatch:
    """Groups 0, 1, … with all that the sticky assignors look at.

    Attributes:
        groups: members and topics with metadata.
        owned_generation: of each member the generation that its claims are of; -1 for none.
        generation: of each member its subscription's generation; -1 for none.
        owned: what members own of topics with metadata.
        topic_subscriber_set: of each topic the class of its subscribers.
        topic_hash: of each topic its `String.hashCode`.
        topics_without_metadata: group and class of subscribed topics without metadata.
        subscriber_sets: of each class but `ALL_MEMBERS` the members.
        member_rack: of each member its rack; -1 for none.
        rack_sets: the sets of racks that partitions have replicas in; the first is empty.
        partition_rack_set: of topics with known racks, of each partition the number of its set.
        owned_order: single partitions in the order in which members tell what they own, where that matters; or in which
            they tell topics (`keep`).
        owned_without_metadata: what members own of topics without metadata, where that matters; numbers of topics only
            tell them apart.
        rules: of which release.
    """

    groups: StickyGroups
    owned_generation: IntArray
    generation: IntArray
    owned: PartitionSlices
    topic_subscriber_set: IntArray
    topic_hash: IntArray
    topics_without_metadata: Sequence[tuple[int, int]]
    subscriber_sets: Mapping[int, IntArray]
    member_rack: IntArray
    rack_sets: Sequence[frozenset[int]]
    partition_rack_set: Mapping[int, IntArray]
    owned_order: PartitionSlices | TopicOrder = EMPTY_SLICES
    owned_without_metadata: PartitionSlices = EMPTY_SLICES
    rules: ReleaseRules = LATEST_RULES

    @cached_property
    def sets_without_metadata(self) -> Mapping[int, list[int]]:
        """The classes in `other_classes`, by group."""
        found: dict[int, list[int]] = {}
        for group, subscribers in self.topics_without_metadata:
            found.setdefault(group, []).append(subscribers)
        return found


def plan_batch(batch: StickyBatch) -> StickyAssignment:
    """Plan every group of a batch."""
    groups = batch.groups
    if batch.rules.reports_in_hash_order and groups.cooperative:
        batch = replace(
            batch,
            owned_order=hash_owned_order(
                batch.owned, batch.owned_without_metadata, batch.topic_hash, len(groups.member_group)
            ),
        )
    claims = resolve_conflicts(
        batch.owned, groups.hash_order, groups.member_group, batch.owned_generation, batch.generation, batch.rules
    )
    alone = _needs_single_plan(batch)
    if not alone.any():
        return _plan_constrained(groups, claims, batch.owned_order, batch.rules)
    parts = [_plan_batched(batch, claims, alone)]
    parts += [_plan_single(one) for one in _split_groups(batch, claims, alone)]
    refused: dict[int, str] = {}
    for part in parts:
        refused |= part.rejected
    runs = PartitionSlices(
        *(np.concatenate(columns) for columns in zip(*(part.slices.columns for part in parts), strict=True))
    )
    reason = np.concatenate([part.reason for part in parts])
    named = {group: member for part in parts for group, member in part.error_member.items()}
    return StickyAssignment(runs, reason, np.concatenate([part.withheld for part in parts]), refused, named)


def _plan_constrained(
    groups: StickyGroups, claims: ResolvedOwnership, told: PartitionSlices | TopicOrder, rules: ReleaseRules
) -> StickyAssignment:
    plan = plan_constrained_2_8 if rules.uses_constrained_2_8 else plan_constrained
    return plan(groups, claims, told, rules)


def take_groups(batch: StickyBatch, chosen: BoolArray) -> StickyBatch:
    """Some groups of a batch, as a batch of its own."""
    groups = batch.groups
    members = np.flatnonzero(chosen[groups.member_group])
    topics = np.flatnonzero(chosen[groups.topic_group])
    number = np.cumsum(chosen) - 1
    mine = batch.owned.take(chosen[groups.topic_group[batch.owned.topic]])
    told = batch.owned_order.take(chosen[groups.topic_group[batch.owned_order.topic]])
    gone = batch.owned_without_metadata.take(chosen[groups.member_group[batch.owned_without_metadata.member]])
    return StickyBatch(
        groups=_select_groups(groups, members, topics, number),
        owned_generation=batch.owned_generation[members],
        generation=batch.generation[members],
        owned=_to_local(mine, members, topics),
        topic_subscriber_set=batch.topic_subscriber_set[topics],
        topic_hash=batch.topic_hash[topics],
        topics_without_metadata=[
            (int(number[group]), each) for group, each in batch.topics_without_metadata if chosen[group]
        ],
        subscriber_sets={
            each: np.searchsorted(members, asked)
            for each, asked in batch.subscriber_sets.items()
            if chosen[groups.member_group[asked[0]]]
        },
        member_rack=batch.member_rack[members],
        rack_sets=batch.rack_sets,
        partition_rack_set={
            at: batch.partition_rack_set[topic]
            for at, topic in enumerate(topics.tolist())
            if topic in batch.partition_rack_set
        },
        owned_order=_order_to_local(told, members, topics),
        owned_without_metadata=PartitionSlices(np.searchsorted(members, gone.member), *gone.columns[1:]),
        rules=batch.rules,
    )


def _needs_single_plan(batch: StickyBatch) -> BoolArray:
    """Groups that may need another algorithm than the constrained one without racks."""
    groups = batch.groups
    alone = np.full(groups.num_groups, batch.rules.only_general)
    if batch.rules.uses_racks:
        alone[groups.member_group[batch.member_rack >= 0]] = True
    alone[groups.topic_group[batch.topic_subscriber_set != ALL_MEMBERS]] = True
    alone[[group for group, subscribers in batch.topics_without_metadata if subscribers != ALL_MEMBERS]] = True
    return alone


def _plan_batched(batch: StickyBatch, claims: ResolvedOwnership, alone: BoolArray) -> StickyAssignment:
    """All groups but some, by the constrained algorithm."""
    groups = batch.groups
    members = np.flatnonzero(~alone[groups.member_group])
    topics = np.flatnonzero(~alone[groups.topic_group])
    part = _select_groups(groups, members, topics, np.cumsum(~alone) - 1)
    mine = claims.slices.take(~alone[groups.member_group[claims.slices.member]])
    told = _order_to_local(
        batch.owned_order.take(~alone[groups.member_group[batch.owned_order.member]]), members, topics
    )
    decided = _plan_constrained(part, _conflicts_to_local(claims, mine, members, topics), told, batch.rules)
    return _to_batch(decided, members, topics, np.flatnonzero(~alone))


@dataclass(frozen=True)
class _SingleGroup:
    """One group of a batch, with numbers of its own."""

    batch: StickyBatch
    group_index: int
    members: IntArray
    topics: IntArray
    groups: StickyGroups
    owned: PartitionSlices
    owned_order: PartitionSlices | TopicOrder
    resolved: ResolvedOwnership


def _split_groups(batch: StickyBatch, claims: ResolvedOwnership, alone: BoolArray) -> Iterator[_SingleGroup]:
    groups = batch.groups
    raw_group = groups.member_group[batch.owned.member]
    settled_group = groups.member_group[claims.slices.member]
    told_group = groups.member_group[batch.owned_order.member]
    raw_order, order = np.argsort(raw_group, kind="stable"), np.argsort(settled_group, kind="stable")
    told_order = np.argsort(told_group, kind="stable")
    raw_group, settled_group, told_group = raw_group[raw_order], settled_group[order], told_group[told_order]
    zero = np.zeros(groups.num_groups, np.int64)

    def rows_of(sorted_groups: IntArray, number: int) -> slice:
        return slice(*np.searchsorted(sorted_groups, [number, number + 1]).tolist())

    for number in np.flatnonzero(alone).tolist():
        members = np.arange(len(groups.member_group))[rows_of(groups.member_group, number)]
        topics = np.arange(len(groups.topic_group))[rows_of(groups.topic_group, number)]
        raw = batch.owned.take(raw_order[rows_of(raw_group, number)])
        mine = claims.slices.take(order[rows_of(settled_group, number)])
        told = batch.owned_order.take(told_order[rows_of(told_group, number)])
        yield _SingleGroup(
            batch,
            number,
            members,
            topics,
            _select_groups(groups, members, topics, zero),
            _to_local(raw, members, topics),
            _order_to_local(told, members, topics),
            _conflicts_to_local(claims, mine, members, topics),
        )


def _select_groups(groups: StickyGroups, members: IntArray, topics: IntArray, number: IntArray) -> StickyGroups:
    return StickyGroups(
        member_group=number[groups.member_group[members]],
        hash_order=groups.hash_order[members],
        topic_group=number[groups.topic_group[topics]],
        partitions=groups.partitions[topics],
        cooperative=groups.cooperative,
        treeified=groups.treeified and groups.treeified.select(members),
    )


def _to_local(runs: PartitionSlices, members: IntArray, topics: IntArray) -> PartitionSlices:
    return PartitionSlices(
        np.searchsorted(members, runs.member), np.searchsorted(topics, runs.topic), *runs.columns[2:]
    )


def _order_to_local(
    told: PartitionSlices | TopicOrder, members: IntArray, topics: IntArray
) -> PartitionSlices | TopicOrder:
    if isinstance(told, PartitionSlices):
        return _to_local(told, members, topics)
    return TopicOrder(np.searchsorted(members, told.member), np.searchsorted(topics, told.topic))


def _conflicts_to_local(
    claims: ResolvedOwnership, mine: PartitionSlices, members: IntArray, topics: IntArray
) -> ResolvedOwnership:
    def in_part(keys: IntArray) -> IntArray:
        here = keys[np.isin(keys >> PARTITION_BITS, topics)]
        return (np.searchsorted(topics, here >> PARTITION_BITS) << PARTITION_BITS) | (
            here & ((1 << PARTITION_BITS) - 1)
        )

    return ResolvedOwnership(
        _to_local(mine, members, topics), in_part(claims.multiple_owners), in_part(claims.shared_partitions)
    )


def _to_batch(decided: StickyAssignment, members: IntArray, topics: IntArray, groups: IntArray) -> StickyAssignment:
    """A decision in the numbers of the batch."""
    runs = PartitionSlices(members[decided.slices.member], topics[decided.slices.topic], *decided.slices.columns[2:])
    refused = {int(groups[group]): why for group, why in decided.rejected.items()}
    named = {int(groups[group]): int(members[member]) for group, member in decided.error_member.items()}
    return StickyAssignment(runs, decided.reason, decided.withheld, refused, named)


def _plan_single(one: _SingleGroup) -> StickyAssignment:
    """One group, by the algorithm that fits it."""
    batch, members, topics, rules = one.batch, one.members, one.topics, one.batch.rules
    of_class = _subscriber_masks(one)
    known = [of_class[int(each)] for each in batch.topic_subscriber_set[topics]]
    racks = _racks(one)
    differs = _first_heterogeneous(one, of_class)
    of_topic = np.array(known, bool).reshape(len(topics), len(members))
    if differs is None and not rules.only_general:
        if racks:
            decided = plan_with_racks(one.groups, one.resolved, racks, one.owned_order, rules)
        else:
            decided = _plan_constrained(one.groups, one.resolved, one.owned_order, rules)
    elif rules.uses_constrained_2_8:
        nameless = len(batch.sets_without_metadata.get(one.group_index, ()))
        hashes = batch.topic_hash[topics]
        asked = GenerationInput(one.groups, of_topic, hashes, nameless, differs, batch.owned_generation[members])
        gone = batch.owned_without_metadata.take(
            batch.groups.member_group[batch.owned_without_metadata.member] == one.group_index
        )
        gone = PartitionSlices(np.searchsorted(members, gone.member), *gone.columns[1:])
        decided = plan_from_generations(asked, one.owned, gone, one.owned_order, rules)
    else:
        earlier = find_previous_owners(one.owned, one.groups.hash_order, batch.owned_generation[members])
        subscribers = Subscribers(of_topic, batch.topic_hash[topics], earlier)
        decided = plan_general(one.groups, one.owned, one.resolved, subscribers, racks, rules)
    return _to_batch(decided, members, topics, np.array([one.group_index]))


def _subscriber_masks(one: _SingleGroup) -> dict[int, BoolArray]:
    """Of every class of subscribers in the group, whether each member is in it."""
    batch = one.batch
    used = {*batch.topic_subscriber_set[one.topics].tolist(), *batch.sets_without_metadata.get(one.group_index, ())}
    found = {}
    for each in used:
        found[each] = np.full(len(one.members), each == ALL_MEMBERS)
        if each != ALL_MEMBERS:
            found[each][np.searchsorted(one.members, batch.subscriber_sets[each])] = True
    return found


def _first_heterogeneous(one: _SingleGroup, of_class: Mapping[int, BoolArray]) -> int | None:
    """The place in the walk of the first member that asks for other topics than the first that asks for any."""
    signature = (
        np.array(list(of_class.values()), bool).reshape(-1, len(one.members)).T[np.argsort(one.groups.hash_order)]
    )
    subscribed = np.flatnonzero(signature.any(axis=1))
    if not len(subscribed):
        return None
    first = subscribed[0]
    others = np.flatnonzero((signature[first:] != signature[first]).any(axis=1))
    return int(first + others[0]) if len(others) else None


def _racks(one: _SingleGroup) -> Racks | None:
    """Racks, if they matter to the group."""
    batch = one.batch
    of_member = batch.member_rack[one.members]
    if not batch.rules.uses_racks or not (of_member >= 0).any() or not len(one.topics):
        return None
    nowhere = {number: np.zeros(int(partitions), np.int64) for number, partitions in enumerate(one.groups.partitions)}
    known = {
        number: batch.partition_rack_set[topic]
        for number, topic in enumerate(one.topics.tolist())
        if topic in batch.partition_rack_set
    }
    racks = Racks(of_member, batch.rack_sets, nowhere | known)
    return racks if racks.matter else None
