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
from spark_assign.groups.assignors.sticky.constrained_2_8 import plan_first_constrained
from spark_assign.groups.assignors.sticky.general import earlier_claims, plan_general
from spark_assign.groups.assignors.sticky.general_2_8 import GenerationInput, plan_from_generations
from spark_assign.groups.assignors.sticky.general_balance import Subscribers
from spark_assign.groups.assignors.sticky.ownership_conflicts import ResolvedOwnership, resolve_conflicts
from spark_assign.groups.assignors.sticky.rack_aware import Racks, plan_with_racks
from spark_assign.groups.assignors.sticky.retained_partitions import TopicOrder, told_by_hash
from spark_assign.groups.assignors.sticky.sticky_types import StickyAssignment, StickyGroups
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, PARTITION_BITS, PartitionSlices

ALL_MEMBERS = -1
"""The class of subscribers that are all members of their group."""


@dataclass(frozen=True)
class StickyBatch:
    """Groups 0, 1, … with all that the sticky assignors look at.

    Attributes:
        groups: members and topics with metadata.
        claimed_in: of each member the generation that its claims are of; -1 for none.
        generation: of each member its subscription's generation; -1 for none.
        claims: what members own of topics with metadata.
        topic_class: of each topic the class of its subscribers.
        topic_hash: of each topic its `String.hashCode`.
        other_classes: group and class of subscribed topics without metadata.
        classes: of each class but `ALL_MEMBERS` the members.
        rack: of each member its rack; -1 for none.
        rack_sets: the sets of racks that partitions have replicas in; the first is empty.
        rack_set: of topics with known racks, of each partition the number of its set.
        told: single partitions in the order in which members tell what they own, where that matters; or in which they
            tell topics (`keep`).
        gone: what members own of topics without metadata, where that matters; numbers of topics only tell them apart.
        rules: of which release.
    """

    groups: StickyGroups
    claimed_in: IntArray
    generation: IntArray
    claims: PartitionSlices
    topic_class: IntArray
    topic_hash: IntArray
    other_classes: Sequence[tuple[int, int]]
    classes: Mapping[int, IntArray]
    rack: IntArray
    rack_sets: Sequence[frozenset[int]]
    rack_set: Mapping[int, IntArray]
    told: PartitionSlices | TopicOrder = EMPTY_SLICES
    gone: PartitionSlices = EMPTY_SLICES
    rules: ReleaseRules = LATEST_RULES

    @cached_property
    def other_classes_of(self) -> Mapping[int, list[int]]:
        """The classes in `other_classes`, by group."""
        found: dict[int, list[int]] = {}
        for group, subscribers in self.other_classes:
            found.setdefault(group, []).append(subscribers)
        return found


def plan_batch(batch: StickyBatch) -> StickyAssignment:
    """Plan every group of a batch."""
    groups = batch.groups
    if batch.rules.tells_by_hash and groups.cooperative:
        batch = replace(batch, told=told_by_hash(batch.claims, batch.gone, batch.topic_hash, len(groups.member_group)))
    claims = resolve_conflicts(
        batch.claims, groups.walk, groups.member_group, batch.claimed_in, batch.generation, batch.rules
    )
    alone = _groups_on_their_own(batch)
    if not alone.any():
        return _constrained(groups, claims, batch.told, batch.rules)
    parts = [_together(batch, claims, alone)]
    parts += [_alone(one) for one in _each(batch, claims, alone)]
    refused: dict[int, str] = {}
    for part in parts:
        refused |= part.refused
    runs = PartitionSlices(
        *(np.concatenate(columns) for columns in zip(*(part.runs.columns for part in parts), strict=True))
    )
    reason = np.concatenate([part.reason for part in parts])
    named = {group: member for part in parts for group, member in part.named.items()}
    return StickyAssignment(runs, reason, np.concatenate([part.withheld for part in parts]), refused, named)


def _constrained(
    groups: StickyGroups, claims: ResolvedOwnership, told: PartitionSlices | TopicOrder, rules: ReleaseRules
) -> StickyAssignment:
    plan = plan_first_constrained if rules.first_constrained else plan_constrained
    return plan(groups, claims, told, rules)


def take_groups(batch: StickyBatch, chosen: BoolArray) -> StickyBatch:
    """Some groups of a batch, as a batch of its own."""
    groups = batch.groups
    members = np.flatnonzero(chosen[groups.member_group])
    topics = np.flatnonzero(chosen[groups.topic_group])
    number = np.cumsum(chosen) - 1
    mine = batch.claims.take(chosen[groups.topic_group[batch.claims.topic]])
    told = batch.told.take(chosen[groups.topic_group[batch.told.topic]])
    gone = batch.gone.take(chosen[groups.member_group[batch.gone.member]])
    return StickyBatch(
        groups=_part(groups, members, topics, number),
        claimed_in=batch.claimed_in[members],
        generation=batch.generation[members],
        claims=_in_part(mine, members, topics),
        topic_class=batch.topic_class[topics],
        topic_hash=batch.topic_hash[topics],
        other_classes=[(int(number[group]), each) for group, each in batch.other_classes if chosen[group]],
        classes={
            each: np.searchsorted(members, asked)
            for each, asked in batch.classes.items()
            if chosen[groups.member_group[asked[0]]]
        },
        rack=batch.rack[members],
        rack_sets=batch.rack_sets,
        rack_set={at: batch.rack_set[topic] for at, topic in enumerate(topics.tolist()) if topic in batch.rack_set},
        told=_told_in_part(told, members, topics),
        gone=PartitionSlices(np.searchsorted(members, gone.member), *gone.columns[1:]),
        rules=batch.rules,
    )


def _groups_on_their_own(batch: StickyBatch) -> BoolArray:
    """Groups that may need another algorithm than the constrained one without racks."""
    groups = batch.groups
    alone = np.full(groups.number, batch.rules.general_only)
    if batch.rules.racks:
        alone[groups.member_group[batch.rack >= 0]] = True
    alone[groups.topic_group[batch.topic_class != ALL_MEMBERS]] = True
    alone[[group for group, subscribers in batch.other_classes if subscribers != ALL_MEMBERS]] = True
    return alone


def _together(batch: StickyBatch, claims: ResolvedOwnership, alone: BoolArray) -> StickyAssignment:
    """All groups but some, by the constrained algorithm."""
    groups = batch.groups
    members = np.flatnonzero(~alone[groups.member_group])
    topics = np.flatnonzero(~alone[groups.topic_group])
    part = _part(groups, members, topics, np.cumsum(~alone) - 1)
    mine = claims.runs.take(~alone[groups.member_group[claims.runs.member]])
    told = _told_in_part(batch.told.take(~alone[groups.member_group[batch.told.member]]), members, topics)
    decided = _constrained(part, _renumbered(claims, mine, members, topics), told, batch.rules)
    return _named(decided, members, topics, np.flatnonzero(~alone))


@dataclass(frozen=True)
class _SingleGroup:
    """One group of a batch, with numbers of its own."""

    batch: StickyBatch
    number: int
    members: IntArray
    topics: IntArray
    groups: StickyGroups
    raw: PartitionSlices
    told: PartitionSlices | TopicOrder
    claims: ResolvedOwnership


def _each(batch: StickyBatch, claims: ResolvedOwnership, alone: BoolArray) -> Iterator[_SingleGroup]:
    groups = batch.groups
    raw_group = groups.member_group[batch.claims.member]
    settled_group = groups.member_group[claims.runs.member]
    told_group = groups.member_group[batch.told.member]
    raw_order, order = np.argsort(raw_group, kind="stable"), np.argsort(settled_group, kind="stable")
    told_order = np.argsort(told_group, kind="stable")
    raw_group, settled_group, told_group = raw_group[raw_order], settled_group[order], told_group[told_order]
    zero = np.zeros(groups.number, np.int64)

    def rows_of(sorted_groups: IntArray, number: int) -> slice:
        return slice(*np.searchsorted(sorted_groups, [number, number + 1]).tolist())

    for number in np.flatnonzero(alone).tolist():
        members = np.arange(len(groups.member_group))[rows_of(groups.member_group, number)]
        topics = np.arange(len(groups.topic_group))[rows_of(groups.topic_group, number)]
        raw = batch.claims.take(raw_order[rows_of(raw_group, number)])
        mine = claims.runs.take(order[rows_of(settled_group, number)])
        told = batch.told.take(told_order[rows_of(told_group, number)])
        yield _SingleGroup(
            batch,
            number,
            members,
            topics,
            _part(groups, members, topics, zero),
            _in_part(raw, members, topics),
            _told_in_part(told, members, topics),
            _renumbered(claims, mine, members, topics),
        )


def _part(groups: StickyGroups, members: IntArray, topics: IntArray, number: IntArray) -> StickyGroups:
    return StickyGroups(
        member_group=number[groups.member_group[members]],
        walk=groups.walk[members],
        topic_group=number[groups.topic_group[topics]],
        partitions=groups.partitions[topics],
        cooperative=groups.cooperative,
        treeified=groups.treeified and groups.treeified.part(members),
    )


def _in_part(runs: PartitionSlices, members: IntArray, topics: IntArray) -> PartitionSlices:
    return PartitionSlices(
        np.searchsorted(members, runs.member), np.searchsorted(topics, runs.topic), *runs.columns[2:]
    )


def _told_in_part(
    told: PartitionSlices | TopicOrder, members: IntArray, topics: IntArray
) -> PartitionSlices | TopicOrder:
    if isinstance(told, PartitionSlices):
        return _in_part(told, members, topics)
    return TopicOrder(np.searchsorted(members, told.member), np.searchsorted(topics, told.topic))


def _renumbered(
    claims: ResolvedOwnership, mine: PartitionSlices, members: IntArray, topics: IntArray
) -> ResolvedOwnership:
    def in_part(keys: IntArray) -> IntArray:
        here = keys[np.isin(keys >> PARTITION_BITS, topics)]
        return (np.searchsorted(topics, here >> PARTITION_BITS) << PARTITION_BITS) | (
            here & ((1 << PARTITION_BITS) - 1)
        )

    return ResolvedOwnership(_in_part(mine, members, topics), in_part(claims.contested), in_part(claims.shared))


def _named(decided: StickyAssignment, members: IntArray, topics: IntArray, groups: IntArray) -> StickyAssignment:
    """A decision in the numbers of the batch."""
    runs = PartitionSlices(members[decided.runs.member], topics[decided.runs.topic], *decided.runs.columns[2:])
    refused = {int(groups[group]): why for group, why in decided.refused.items()}
    named = {int(groups[group]): int(members[member]) for group, member in decided.named.items()}
    return StickyAssignment(runs, decided.reason, decided.withheld, refused, named)


def _alone(one: _SingleGroup) -> StickyAssignment:
    """One group, by the algorithm that fits it."""
    batch, members, topics, rules = one.batch, one.members, one.topics, one.batch.rules
    of_class = _classes(one)
    known = [of_class[int(each)] for each in batch.topic_class[topics]]
    racks = _racks(one)
    differs = _first_that_differs(one, of_class)
    of_topic = np.array(known, bool).reshape(len(topics), len(members))
    if differs is None and not rules.general_only:
        if racks:
            decided = plan_with_racks(one.groups, one.claims, racks, one.told, rules)
        else:
            decided = _constrained(one.groups, one.claims, one.told, rules)
    elif rules.first_constrained:
        nameless = len(batch.other_classes_of.get(one.number, ()))
        hashes = batch.topic_hash[topics]
        asked = GenerationInput(one.groups, of_topic, hashes, nameless, differs, batch.claimed_in[members])
        gone = batch.gone.take(batch.groups.member_group[batch.gone.member] == one.number)
        gone = PartitionSlices(np.searchsorted(members, gone.member), *gone.columns[1:])
        decided = plan_from_generations(asked, one.raw, gone, one.told, rules)
    else:
        earlier = earlier_claims(one.raw, one.groups.walk, batch.claimed_in[members])
        subscribers = Subscribers(of_topic, batch.topic_hash[topics], earlier)
        decided = plan_general(one.groups, one.raw, one.claims, subscribers, racks, rules)
    return _named(decided, members, topics, np.array([one.number]))


def _classes(one: _SingleGroup) -> dict[int, BoolArray]:
    """Of every class of subscribers in the group, whether each member is in it."""
    batch = one.batch
    used = {*batch.topic_class[one.topics].tolist(), *batch.other_classes_of.get(one.number, ())}
    found = {}
    for each in used:
        found[each] = np.full(len(one.members), each == ALL_MEMBERS)
        if each != ALL_MEMBERS:
            found[each][np.searchsorted(one.members, batch.classes[each])] = True
    return found


def _first_that_differs(one: _SingleGroup, of_class: Mapping[int, BoolArray]) -> int | None:
    """The place in the walk of the first member that asks for other topics than the first that asks for any."""
    signature = np.array(list(of_class.values()), bool).reshape(-1, len(one.members)).T[np.argsort(one.groups.walk)]
    subscribed = np.flatnonzero(signature.any(axis=1))
    if not len(subscribed):
        return None
    first = subscribed[0]
    others = np.flatnonzero((signature[first:] != signature[first]).any(axis=1))
    return int(first + others[0]) if len(others) else None


def _racks(one: _SingleGroup) -> Racks | None:
    """Racks, if they matter to the group."""
    batch = one.batch
    of_member = batch.rack[one.members]
    if not batch.rules.racks or not (of_member >= 0).any() or not len(one.topics):
        return None
    nowhere = {number: np.zeros(int(partitions), np.int64) for number, partitions in enumerate(one.groups.partitions)}
    known = {
        number: batch.rack_set[topic] for number, topic in enumerate(one.topics.tolist()) if topic in batch.rack_set
    }
    racks = Racks(of_member, batch.rack_sets, nowhere | known)
    return racks if racks.matter else None
