"""Plans many groups with the sticky assignors (Kafka's `AbstractStickyAssignor.assignPartitions`).

Steps
    1. Resolve conflicts between members that own the same partition (`ownership_conflicts`).
    2. If all members subscribe to the same topics, assign with the constrained algorithm: all such groups at once
       (`constrained`), or a single group with racks (`rack_aware`).
    3. Otherwise, assign each group with the general algorithm (`general`).

Subscriptions are compared in hash order with the first one that isn't empty. A member without a subscription that
precedes it is overlooked, and gets partitions as if it subscribed to the same topics (`allSubscriptionsEqual`).

Earlier releases (`release_rules`)
    - up to 3.4 ignore racks;
    - up to 2.8 use the first constrained algorithm (`constrained_2_8`), and plan heterogeneous groups from generations
      (`general_2_8`);
    - up to 2.5.0 plan all groups from generations.
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
from spark_assign.groups.assignors.sticky.ownership_conflicts import ResolvedOwnership, resolve_conflicts
from spark_assign.groups.assignors.sticky.rack_aware import Racks, plan_with_racks
from spark_assign.groups.assignors.sticky.retained_partitions import OwnedOrder, TopicOrder, hash_owned_order
from spark_assign.groups.assignors.sticky.sticky_groups import StickyAssignment, StickyGroups, Subscribers
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, PARTITION_BITS, PartitionSlices

ALL_MEMBERS = -1
"""The subscriber set that contains all members of the group."""


@dataclass(frozen=True)
class StickyBatch:
    """Groups 0, 1, … with all inputs of the sticky assignors.

    Attributes:
        groups: members, and topics with metadata.
        owned_generation: generation in which each member owned its partitions; -1 if unknown.
        generation: generation of each member's subscription; -1 if unknown.
        owned: partitions that members own, of topics with metadata.
        topic_subscriber_set: index of each topic's set of subscribers, or `ALL_MEMBERS`.
        topic_hash: `String.hashCode` of each topic's name.
        topics_without_metadata: (group, subscriber set) of each subscribed topic without metadata.
        subscriber_sets: members of each subscriber set, ascending, except `ALL_MEMBERS`.
        member_rack: rack of each member; -1 if unknown.
        rack_sets: sets of racks in which a partition has replicas; the first is empty.
        partition_rack_set: topic to the index into `rack_sets` of each partition, for topics with known racks.
        owned_order: single partitions, or (member, topic) pairs, in the order in which members report them. Contains
            only what `keep_owned` needs.
        owned_without_metadata: owned partitions of topics without metadata, if a rule depends on them. Topic indexes
            serve only to tell these topics apart.
        rules: rules of a release.
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
    owned_order: OwnedOrder = EMPTY_SLICES
    owned_without_metadata: PartitionSlices = EMPTY_SLICES
    rules: ReleaseRules = LATEST_RULES

    @cached_property
    def sets_without_metadata(self) -> Mapping[int, list[int]]:
        """Returns group to the subscriber sets of its topics without metadata."""
        by_group: dict[int, list[int]] = {}
        for group, subscribers in self.topics_without_metadata:
            by_group.setdefault(group, []).append(subscribers)
        return by_group


def plan_batch(batch: StickyBatch) -> StickyAssignment:
    """Returns the assignment of every group of a batch."""
    groups = batch.groups
    if batch.rules.reports_in_hash_order and groups.cooperative:
        batch = replace(
            batch,
            owned_order=hash_owned_order(
                batch.owned, batch.owned_without_metadata, batch.topic_hash, len(groups.member_group)
            ),
        )
    resolved = resolve_conflicts(
        batch.owned, groups.hash_order, groups.member_group, batch.owned_generation, batch.generation, batch.rules
    )
    is_single = _needs_single_plan(batch)
    if not is_single.any():
        return _plan_constrained(groups, resolved, batch.owned_order, batch.rules)
    planned = [_plan_batched(batch, resolved, is_single)]
    planned += [_plan_single(single) for single in _split_groups(batch, resolved, is_single)]
    rejected: dict[int, str] = {}
    for part in planned:
        rejected |= part.rejected
    slices = PartitionSlices(
        *(np.concatenate(columns) for columns in zip(*(part.slices.columns for part in planned), strict=True))
    )
    reason = np.concatenate([part.reason for part in planned])
    error_member = {group: member for part in planned for group, member in part.error_member.items()}
    return StickyAssignment(slices, reason, np.concatenate([part.withheld for part in planned]), rejected, error_member)


def _plan_constrained(
    groups: StickyGroups, resolved: ResolvedOwnership, owned_order: OwnedOrder, rules: ReleaseRules
) -> StickyAssignment:
    plan = plan_constrained_2_8 if rules.uses_constrained_2_8 else plan_constrained
    return plan(groups, resolved, owned_order, rules)


def take_groups(batch: StickyBatch, is_selected: BoolArray) -> StickyBatch:
    """Returns the selected groups of a batch as a batch of their own.

    Args:
        batch: the batch.
        is_selected: mask of groups.
    """
    groups = batch.groups
    members = np.flatnonzero(is_selected[groups.member_group])
    topics = np.flatnonzero(is_selected[groups.topic_group])
    new_group = np.cumsum(is_selected) - 1
    owned = batch.owned.take(is_selected[groups.topic_group[batch.owned.topic]])
    owned_order = batch.owned_order.take(is_selected[groups.topic_group[batch.owned_order.topic]])
    other_owned = batch.owned_without_metadata.take(
        is_selected[groups.member_group[batch.owned_without_metadata.member]]
    )
    return StickyBatch(
        groups=_select_groups(groups, members, topics, new_group),
        owned_generation=batch.owned_generation[members],
        generation=batch.generation[members],
        owned=_to_local(owned, members, topics),
        topic_subscriber_set=batch.topic_subscriber_set[topics],
        topic_hash=batch.topic_hash[topics],
        topics_without_metadata=[
            (int(new_group[group]), subscribers)
            for group, subscribers in batch.topics_without_metadata
            if is_selected[group]
        ],
        subscriber_sets={
            subscribers: np.searchsorted(members, set_members)
            for subscribers, set_members in batch.subscriber_sets.items()
            if is_selected[groups.member_group[set_members[0]]]
        },
        member_rack=batch.member_rack[members],
        rack_sets=batch.rack_sets,
        partition_rack_set={
            new_topic: batch.partition_rack_set[topic]
            for new_topic, topic in enumerate(topics.tolist())
            if topic in batch.partition_rack_set
        },
        owned_order=_order_to_local(owned_order, members, topics),
        owned_without_metadata=PartitionSlices(np.searchsorted(members, other_owned.member), *other_owned.columns[1:]),
        rules=batch.rules,
    )


def _needs_single_plan(batch: StickyBatch) -> BoolArray:
    """Returns a mask of the groups that might need more than the constrained algorithm without racks."""
    groups = batch.groups
    is_single = np.full(groups.num_groups, batch.rules.only_general)
    if batch.rules.uses_racks:
        is_single[groups.member_group[batch.member_rack >= 0]] = True
    is_single[groups.topic_group[batch.topic_subscriber_set != ALL_MEMBERS]] = True
    is_single[[group for group, subscribers in batch.topics_without_metadata if subscribers != ALL_MEMBERS]] = True
    return is_single


def _plan_batched(batch: StickyBatch, resolved: ResolvedOwnership, is_single: BoolArray) -> StickyAssignment:
    """Assigns the groups that aren't planned one by one, with the constrained algorithm."""
    groups = batch.groups
    members = np.flatnonzero(~is_single[groups.member_group])
    topics = np.flatnonzero(~is_single[groups.topic_group])
    local_groups = _select_groups(groups, members, topics, np.cumsum(~is_single) - 1)
    slices = resolved.slices.take(~is_single[groups.member_group[resolved.slices.member]])
    owned_order = _order_to_local(
        batch.owned_order.take(~is_single[groups.member_group[batch.owned_order.member]]), members, topics
    )
    assignment = _plan_constrained(
        local_groups, _conflicts_to_local(resolved, slices, members, topics), owned_order, batch.rules
    )
    return _to_batch(assignment, members, topics, np.flatnonzero(~is_single))


@dataclass(frozen=True)
class _SingleGroup:
    """One group of a batch. `groups`, `owned`, `owned_order` and `resolved` have indexes of their own, from 0.

    Attributes:
        batch: the batch.
        group_index: index of the group in the batch.
        members: indexes of its members in the batch.
        topics: indexes of its topics in the batch.
        groups: the group.
        owned: its owned partitions, before conflicts are resolved.
        owned_order: as in the batch.
        resolved: its owned partitions, after conflicts are resolved.
    """

    batch: StickyBatch
    group_index: int
    members: IntArray
    topics: IntArray
    groups: StickyGroups
    owned: PartitionSlices
    owned_order: OwnedOrder
    resolved: ResolvedOwnership


def _split_groups(batch: StickyBatch, resolved: ResolvedOwnership, is_single: BoolArray) -> Iterator[_SingleGroup]:
    """Yields the groups that are planned one by one."""
    groups = batch.groups
    owned_group = groups.member_group[batch.owned.member]
    resolved_group = groups.member_group[resolved.slices.member]
    ordered_group = groups.member_group[batch.owned_order.member]
    owned_rows, resolved_rows = np.argsort(owned_group, kind="stable"), np.argsort(resolved_group, kind="stable")
    ordered_rows = np.argsort(ordered_group, kind="stable")
    owned_group, resolved_group, ordered_group = (
        owned_group[owned_rows],
        resolved_group[resolved_rows],
        ordered_group[ordered_rows],
    )
    zero = np.zeros(groups.num_groups, np.int64)

    def group_rows(sorted_groups: IntArray, group: int) -> slice:
        return slice(*np.searchsorted(sorted_groups, [group, group + 1]).tolist())

    for group in np.flatnonzero(is_single).tolist():
        members = np.arange(len(groups.member_group))[group_rows(groups.member_group, group)]
        topics = np.arange(len(groups.topic_group))[group_rows(groups.topic_group, group)]
        owned = batch.owned.take(owned_rows[group_rows(owned_group, group)])
        resolved_slices = resolved.slices.take(resolved_rows[group_rows(resolved_group, group)])
        owned_order = batch.owned_order.take(ordered_rows[group_rows(ordered_group, group)])
        yield _SingleGroup(
            batch,
            group,
            members,
            topics,
            _select_groups(groups, members, topics, zero),
            _to_local(owned, members, topics),
            _order_to_local(owned_order, members, topics),
            _conflicts_to_local(resolved, resolved_slices, members, topics),
        )


def _select_groups(groups: StickyGroups, members: IntArray, topics: IntArray, new_group: IntArray) -> StickyGroups:
    return StickyGroups(
        member_group=new_group[groups.member_group[members]],
        hash_order=groups.hash_order[members],
        topic_group=new_group[groups.topic_group[topics]],
        partitions=groups.partitions[topics],
        cooperative=groups.cooperative,
        treeified=groups.treeified and groups.treeified.select(members),
    )


def _to_local(slices: PartitionSlices, members: IntArray, topics: IntArray) -> PartitionSlices:
    return PartitionSlices(
        np.searchsorted(members, slices.member), np.searchsorted(topics, slices.topic), *slices.columns[2:]
    )


def _order_to_local(owned_order: OwnedOrder, members: IntArray, topics: IntArray) -> OwnedOrder:
    if isinstance(owned_order, PartitionSlices):
        return _to_local(owned_order, members, topics)
    return TopicOrder(np.searchsorted(members, owned_order.member), np.searchsorted(topics, owned_order.topic))


def _conflicts_to_local(
    resolved: ResolvedOwnership, slices: PartitionSlices, members: IntArray, topics: IntArray
) -> ResolvedOwnership:
    def keys_to_local(keys: IntArray) -> IntArray:
        local_keys = keys[np.isin(keys >> PARTITION_BITS, topics)]
        return (np.searchsorted(topics, local_keys >> PARTITION_BITS) << PARTITION_BITS) | (
            local_keys & ((1 << PARTITION_BITS) - 1)
        )

    return ResolvedOwnership(
        _to_local(slices, members, topics),
        keys_to_local(resolved.multiple_owners),
        keys_to_local(resolved.shared_partitions),
    )


def _to_batch(assignment: StickyAssignment, members: IntArray, topics: IntArray, groups: IntArray) -> StickyAssignment:
    """Converts the indexes of an assignment to those of the batch."""
    slices = PartitionSlices(
        members[assignment.slices.member], topics[assignment.slices.topic], *assignment.slices.columns[2:]
    )
    rejected = {int(groups[group]): reason for group, reason in assignment.rejected.items()}
    error_member = {int(groups[group]): int(members[member]) for group, member in assignment.error_member.items()}
    return StickyAssignment(slices, assignment.reason, assignment.withheld, rejected, error_member)


def _plan_single(single: _SingleGroup) -> StickyAssignment:
    """Assigns one group with the algorithm that its subscriptions, racks, and release require."""
    batch, members, topics, rules = single.batch, single.members, single.topics, single.batch.rules
    subscriber_masks = _subscriber_masks(single)
    topic_masks = [subscriber_masks[int(subscribers)] for subscribers in batch.topic_subscriber_set[topics]]
    racks = _racks(single)
    first_heterogeneous = _first_heterogeneous(single, subscriber_masks)
    is_subscribed = np.array(topic_masks, bool).reshape(len(topics), len(members))
    if first_heterogeneous is None and not rules.only_general:
        if racks:
            assignment = plan_with_racks(single.groups, single.resolved, racks, single.owned_order, rules)
        else:
            assignment = _plan_constrained(single.groups, single.resolved, single.owned_order, rules)
    elif rules.uses_constrained_2_8:
        num_without_metadata = len(batch.sets_without_metadata.get(single.group_index, ()))
        topic_hash = batch.topic_hash[topics]
        generation_input = GenerationInput(
            single.groups,
            is_subscribed,
            topic_hash,
            num_without_metadata,
            first_heterogeneous,
            batch.owned_generation[members],
        )
        other_owned = batch.owned_without_metadata.take(
            batch.groups.member_group[batch.owned_without_metadata.member] == single.group_index
        )
        other_owned = PartitionSlices(np.searchsorted(members, other_owned.member), *other_owned.columns[1:])
        assignment = plan_from_generations(generation_input, single.owned, other_owned, single.owned_order, rules)
    else:
        previous_owner = find_previous_owners(single.owned, single.groups.hash_order, batch.owned_generation[members])
        subscribers = Subscribers(is_subscribed, batch.topic_hash[topics], previous_owner)
        assignment = plan_general(single.groups, single.owned, single.resolved, subscribers, racks, rules)
    return _to_batch(assignment, members, topics, np.array([single.group_index]))


def _subscriber_masks(single: _SingleGroup) -> dict[int, BoolArray]:
    """Returns subscriber set to a mask of the group's members, for the sets that the group uses."""
    batch = single.batch
    subscriber_sets = {
        *batch.topic_subscriber_set[single.topics].tolist(),
        *batch.sets_without_metadata.get(single.group_index, ()),
    }
    masks = {}
    for subscribers in subscriber_sets:
        masks[subscribers] = np.full(len(single.members), subscribers == ALL_MEMBERS)
        if subscribers != ALL_MEMBERS:
            masks[subscribers][np.searchsorted(single.members, batch.subscriber_sets[subscribers])] = True
    return masks


def _first_heterogeneous(single: _SingleGroup, subscriber_masks: Mapping[int, BoolArray]) -> int | None:
    """Returns the position in hash order of the first member whose subscription differs from the first nonempty one."""
    signature = (
        np.array(list(subscriber_masks.values()), bool)
        .reshape(-1, len(single.members))
        .T[np.argsort(single.groups.hash_order)]
    )
    subscribed = np.flatnonzero(signature.any(axis=1))
    if not len(subscribed):
        return None
    first = subscribed[0]
    different = np.flatnonzero((signature[first:] != signature[first]).any(axis=1))
    return int(first + different[0]) if len(different) else None


def _racks(single: _SingleGroup) -> Racks | None:
    """Returns the racks of a group; None if they don't affect the assignment."""
    batch = single.batch
    member_rack = batch.member_rack[single.members]
    if not batch.rules.uses_racks or not (member_rack >= 0).any() or not len(single.topics):
        return None
    unknown = {
        topic_index: np.zeros(int(partitions), np.int64)
        for topic_index, partitions in enumerate(single.groups.partitions)
    }
    known = {
        topic_index: batch.partition_rack_set[topic]
        for topic_index, topic in enumerate(single.topics.tolist())
        if topic in batch.partition_rack_set
    }
    racks = Racks(member_rack, batch.rack_sets, unknown | known)
    return racks if racks.matter else None
