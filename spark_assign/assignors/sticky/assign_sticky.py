"""Assigns many groups with the sticky assignors (Kafka's `AbstractStickyAssignor.assignPartitions`).

Steps
    1. Read what members own, and in which generation. Sticky is eager: its members have revoked everything before they
       join, and report what they owned, and when, in the assignor's user data. Cooperative-sticky reads the
       subscription, which reports owned partitions by topic and partition. Its generation was added in 3.4; before, it
       was in the user data, and before 2.8.0 nowhere.
    2. Resolve conflicts between members that own the same partition (`sticky_groups`).
    3. If all members subscribe to the same topics, assign with the constrained algorithm: all such groups at once
       (`constrained`), or a single group with racks (`rack_aware`).
    4. Otherwise, assign each group with the general algorithm (`general`).

Subscriptions are compared in hash order with the first one that isn't empty. A member without a subscription that
precedes it is overlooked, and gets partitions as if it subscribed to the same topics (`allSubscriptionsEqual`).

Groups, members, and topics keep their indexes of `GroupSpecs`. The kernels of single groups get a view of the group:
the indexes minus that of its first member or topic.

Earlier releases (`release_rules`)
    - up to 3.4 ignore racks;
    - up to 2.8 use the first constrained algorithm (`sticky_2_8`), and plan heterogeneous groups from generations
      (`sticky_2_8`);
    - up to 2.5.0 plan all groups from generations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from spark_assign.assignors.group_specs import ALL_MEMBERS, GroupAssignments, GroupSpecs
from spark_assign.assignors.release_rules import LINE_ISSUES, RELEASE_LINES, ReleaseRules
from spark_assign.assignors.sticky.constrained import plan_constrained
from spark_assign.assignors.sticky.general import GeneralBalancer, find_previous_owners, run_balancer
from spark_assign.assignors.sticky.rack_aware import Racks, plan_with_racks
from spark_assign.assignors.sticky.sticky_2_8 import GenerationInput, plan_constrained_2_8, plan_from_generations
from spark_assign.assignors.sticky.sticky_groups import (
    KAFKA_FAILS,
    AssignorError,
    OwnedOrder,
    ResolvedOwnership,
    StickyGroups,
    Subscribers,
    hash_owned_order,
    resolve_conflicts,
)
from spark_assign.numeric.arrays import (
    EMPTY_SLICES,
    PARTITION_BITS,
    BoolArray,
    IntArray,
    PartitionSlices,
    mask_from_indexes,
)

STICKY = {"sticky": "StickyAssignor", "cooperative-sticky": "CooperativeStickyAssignor"}
"""The sticky assignors, and their classes in Kafka."""

_THROWS, _FIXED = " throws here: ", ". Fixed in "

_NO_MEMBERS = -2
"""The subscriber set of topics that nobody subscribes to."""


@dataclass(frozen=True)
class _Ownership:
    """What the members of the assigned groups own.

    Attributes:
        generation: generation in which each member owned its partitions; -1 if unknown.
        planned: owned partitions of topics with metadata.
        others: owned partitions of other topics, if a rule depends on them.
        order: single partitions, or (member, topic) pairs, in the order in which members report them. Contains only
            what `keep_owned` needs.
        resolved: owned partitions of topics with metadata, after conflicts are resolved.
    """

    generation: IntArray
    planned: PartitionSlices
    others: PartitionSlices
    order: OwnedOrder
    resolved: ResolvedOwnership


def assign_sticky(specs: GroupSpecs, assignor: str, rules: ReleaseRules, selected: BoolArray) -> GroupAssignments:
    """Assigns the selected groups with a sticky assignor of a release.

    A rejection has Kafka's exception, and the release and the issues that fix it, if later releases don't throw.
    """
    assignments = _assign(specs, assignor, rules, selected)
    fixes = _find_fixes(specs, assignor, rules, assignments.rejected)
    rejected = {
        group: (code, f"Kafka's {STICKY[assignor]}{_THROWS}{text}{fixes.get(group, '')}")
        for group, (code, text) in assignments.rejected.items()
    }
    return replace(assignments, rejected=rejected)


def _assign(specs: GroupSpecs, assignor: str, rules: ReleaseRules, selected: BoolArray) -> GroupAssignments:
    groups = StickyGroups(
        specs.members.group,
        specs.topics.group,
        specs.topics.partitions_to_assign(selected),
        assignor == "cooperative-sticky",
        cache(lambda: specs.hash_orders(selected)),
    )
    owned = _read_ownership(specs, groups, rules)
    is_single = selected & _needs_single_plan(specs, rules)
    assignments = _assign_together(groups, owned, selected & ~is_single, rules)
    if is_single.any():
        assignments = assignments.concat(*_assign_one_by_one(specs, groups, owned, is_single, rules))
    return assignments


def _find_fixes(
    specs: GroupSpecs, assignor: str, rules: ReleaseRules, rejected: Mapping[int, tuple[str, str]]
) -> dict[int, str]:
    """Returns, for each rejected group, the first release from which on the class doesn't throw, and its issues.

    Groups for which the class of the newest release throws, too, have none.
    """
    fixes: dict[int, str] = {}
    failing = set(rejected)
    for release, (_, later) in reversed(RELEASE_LINES.items()):
        if not failing or later == rules:
            break
        failing -= set(_assign(specs, assignor, later, mask_from_indexes(list(failing), specs.num_groups)).rejected)
        fixes |= dict.fromkeys(failing, f"{_FIXED}{release} ({LINE_ISSUES[release]})")
    return fixes


def exception_text(detail: str) -> str:
    """Returns the message of the exception that Kafka's class throws, from the detail of a rejection."""
    return detail.partition(_THROWS)[2].partition(_FIXED)[0]


def _read_ownership(specs: GroupSpecs, groups: StickyGroups, rules: ReleaseRules) -> _Ownership:
    """Reads what members own, and resolves conflicts (steps 1 and 2)."""
    generation = _owned_generation(specs, groups.cooperative, rules)
    is_planned = groups.partitions > 0
    owned, others = specs.owned, EMPTY_SLICES
    order: OwnedOrder = EMPTY_SLICES
    is_owned_planned = is_planned[owned.topic]
    if not is_owned_planned.all():
        owned = owned.take(is_owned_planned)
        if rules.uses_constrained_2_8:
            others = specs.owned.take(~is_owned_planned)
    if rules.reports_in_hash_order and groups.cooperative:
        order = hash_owned_order(owned, others, specs.topic_hash, len(specs.members))
    elif rules.keeps_in_owned_order and not groups.cooperative:
        order = specs.owned_order.take(is_planned[specs.owned_order.topic])
    resolved = resolve_conflicts(owned, groups, generation, specs.members.generation, rules)
    return _Ownership(generation, owned, others, order, resolved)


def _owned_generation(specs: GroupSpecs, cooperative: bool, rules: ReleaseRules) -> IntArray:
    """Returns the generation in which each member owned its partitions; -1 for none."""
    members = specs.members
    if cooperative and rules.ignores_generations:
        return np.full(len(members), -1, np.int64)
    if not cooperative or rules.generation_in_user_data:
        return np.where(members.has_user_data, members.user_data_generation, members.generation)
    return np.where(members.generation >= 0, members.generation, members.user_data_generation)


def _needs_single_plan(specs: GroupSpecs, rules: ReleaseRules) -> BoolArray:
    """Returns a mask of the groups that might need more than the constrained algorithm without racks."""
    if rules.only_general:
        return np.ones(specs.num_groups, bool)
    is_single = mask_from_indexes(specs.topics.group[specs.topics.subscriber_set != ALL_MEMBERS], specs.num_groups)
    if rules.uses_racks:
        is_single[specs.members.group[specs.members.rack >= 0]] = True
    return is_single


def _plan_constrained(
    groups: StickyGroups, resolved: ResolvedOwnership, owned_order: OwnedOrder, rules: ReleaseRules
) -> GroupAssignments:
    plan = plan_constrained_2_8 if rules.uses_constrained_2_8 else plan_constrained
    return plan(groups, resolved, owned_order, rules)


def _assign_together(
    groups: StickyGroups, owned: _Ownership, selected: BoolArray, rules: ReleaseRules
) -> GroupAssignments:
    """Assigns the selected groups with the constrained algorithm (step 3). All others have no partitions in it."""
    if not selected.any():
        return GroupAssignments.of(EMPTY_SLICES)
    resolved, order = owned.resolved, owned.order
    if not selected.all():
        groups = replace(groups, partitions=np.where(selected[groups.topic_group], groups.partitions, 0))
        resolved = replace(resolved, slices=resolved.slices.take(groups.partitions[resolved.slices.topic] > 0))
        order = order.take(groups.partitions[order.topic] > 0)
    return _plan_constrained(groups, resolved, order, rules)


# --- one group ----------------------------------------------------------------------------------------------


class _RowsByGroup:
    """The indexes of rows by group, in the given order."""

    def __init__(self, group: IntArray, num_groups: int) -> None:
        self.order = np.argsort(group, kind="stable")
        self.bounds = np.searchsorted(group[self.order], np.arange(num_groups + 1)).tolist()

    def __getitem__(self, group: int) -> IntArray:
        return self.order[self.bounds[group] : self.bounds[group + 1]]


def _assign_one_by_one(
    specs: GroupSpecs, groups: StickyGroups, owned: _Ownership, selected: BoolArray, rules: ReleaseRules
) -> list[GroupAssignments]:
    """Assigns the selected groups, each on its own."""
    bounds = np.arange(specs.num_groups + 1)
    ends = [np.searchsorted(column, bounds).tolist() for column in (groups.member_group, groups.topic_group)]
    resolved = owned.resolved
    planned, others, order, slices = (
        _RowsByGroup(groups.topic_group[rows.topic], specs.num_groups)
        for rows in (owned.planned, owned.others, owned.order, resolved.slices)
    )
    assignments = []
    for group in np.flatnonzero(selected).tolist():
        single = _SingleGroup(specs, groups, *(slice(*column[group : group + 2]) for column in ends))
        ownership = _Ownership(
            owned.generation[single.members],
            owned.planned.take(planned[group]).shift(*single.offset),
            owned.others.take(others[group]).shift(*single.offset),
            owned.order.take(order[group]).shift(*single.offset),
            ResolvedOwnership(
                resolved.slices.take(slices[group]).shift(*single.offset),
                single.shift_keys(resolved.multiple_owners),
                single.shift_keys(resolved.shared_partitions),
            ),
        )
        assignments.append(_assign_group(single, ownership, group, rules))
    return assignments


class _SingleGroup:
    """The view of one group: its members and topics start at 0.

    Attributes:
        specs: all groups.
        members, topics: the members and topics of the group in `specs`.
        offset: what to add to members and topics of `specs`.
        groups: the group.
    """

    def __init__(self, specs: GroupSpecs, groups: StickyGroups, members: slice, topics: slice) -> None:
        self.specs, self.members, self.topics = specs, members, topics
        self.offset = -members.start, -topics.start
        self.groups = StickyGroups(
            np.zeros(members.stop - members.start, np.int64),
            np.zeros(topics.stop - topics.start, np.int64),
            groups.partitions[topics],
            groups.cooperative,
            lambda: groups.read_hash_orders().take(members),
        )

    def shift_keys(self, keys: IntArray) -> IntArray:
        """Returns the keys of the group's partitions, as keys of the view; `keys` is ascending."""
        start, end = self.topics.start << PARTITION_BITS, self.topics.stop << PARTITION_BITS
        shifted: IntArray = keys[slice(*np.searchsorted(keys, [start, end]).tolist())] - start
        return shifted

    def subscribers(self) -> Subscribers:
        """Returns the subscribers of each topic."""
        topics, members = self.specs.topics, np.arange(len(self.groups.member_group))
        sets = np.where(topics.is_subscribed[self.topics], topics.subscriber_set[self.topics], _NO_MEMBERS)
        distinct, of_topic = np.unique(sets, return_inverse=True)
        known = {ALL_MEMBERS: members, _NO_MEMBERS: members[:0]}
        partial = self.specs.subscriber_sets
        return Subscribers(
            of_topic,
            [known[each] if each < 0 else partial[each] - self.members.start for each in distinct.tolist()],
        )

    def racks(self) -> Racks | None:
        """Returns the racks of the group; None if they don't affect the assignment."""
        specs, member_rack = self.specs, self.specs.members.rack[self.members]
        partitions = {topic: count for topic, count in enumerate(self.groups.partitions.tolist()) if count}
        if not partitions or not (member_rack >= 0).any():
            return None
        rack_set = {
            topic: specs.rack_set.get(self.topics.start + topic, np.zeros(count, np.int64))
            for topic, count in partitions.items()
        }
        racks = Racks(member_rack, specs.rack_sets, rack_set)
        return racks if racks.matter else None


def _assign_group(single: _SingleGroup, owned: _Ownership, group: int, rules: ReleaseRules) -> GroupAssignments:
    """Assigns one group."""
    try:
        assignments = _plan_group(single, owned, rules)
    except AssignorError as error:
        name = "" if error.member is None else single.specs.member_id[single.members.start + error.member].as_py()
        return GroupAssignments.of(EMPTY_SLICES, {group: (KAFKA_FAILS, str(error).replace("{}", name))})
    slices = assignments.slices.shift(single.members.start, single.topics.start)
    return replace(assignments, slices=slices, rejected=dict(zip([group], assignments.rejected.values(), strict=False)))


def _plan_group(single: _SingleGroup, owned: _Ownership, rules: ReleaseRules) -> GroupAssignments:
    """Runs the algorithm that the group's subscriptions, racks, and release require (steps 3 and 4)."""
    groups, resolved = single.groups, owned.resolved
    subscribers = single.subscribers()
    first_heterogeneous = _first_heterogeneous(groups, subscribers.sets)
    racks = single.racks() if rules.uses_racks else None
    if first_heterogeneous is None and not rules.only_general:
        if racks:
            return plan_with_racks(groups, resolved, racks, owned.order, rules)
        return _plan_constrained(groups, resolved, owned.order, rules)
    topic_hash = single.specs.topic_hash[single.topics]
    if rules.uses_constrained_2_8:
        generation_input = GenerationInput(groups, subscribers, topic_hash, first_heterogeneous, owned.generation)
        return plan_from_generations(generation_input, owned.planned, owned.others, owned.order, rules)
    previous_owner = find_previous_owners(owned.planned, groups, owned.generation)
    rows = resolved.slices.expand()
    balancer = GeneralBalancer(groups, rows, subscribers, topic_hash, previous_owner, racks, rules)
    return run_balancer(groups, owned.planned, resolved, balancer)


def _first_heterogeneous(groups: StickyGroups, sets: list[IntArray]) -> int | None:
    """Returns the position in hash order of the first member whose subscription differs from the first nonempty one."""
    num_sets = _count_sets(groups, sets)

    def differs_from(member: int) -> BoolArray:
        own = [members for members in sets if member in members]
        return np.asarray((num_sets != len(own)) | (_count_sets(groups, own) != len(own)), bool)

    if not num_sets.any() or not differs_from(0).any():
        return None
    order = np.argsort(groups.hash_order)
    first = int(np.argmax(num_sets[order] > 0))
    different = np.flatnonzero(differs_from(int(order[first]))[order[first:]])
    return int(first + different[0]) if len(different) else None


def _count_sets(groups: StickyGroups, sets: list[IntArray]) -> IntArray:
    """Returns the number of the sets that contain each member."""
    return np.bincount(np.concatenate([groups.member_group[:0], *sets]), minlength=len(groups.member_group))
