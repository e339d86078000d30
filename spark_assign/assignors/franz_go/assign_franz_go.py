"""Assigns groups as franz-go's sticky balancers do, and as its range does in 1.21.

Sticky reads claims from the user data. Cooperative-sticky reads them from the subscription if that has a generation;
otherwise from the user data, where Java clients before 3.4 report only the generation. In that case it withholds what
these members own without seeing that they own it. If no member of a group has a generation, all count as equal.

Only 1.21 uses racks without being configured to: those of members, and of the brokers that lead. Undisputed groups are
planned on slices, many at once; other groups, and those with racks, partition by partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from spark_assign.assignors.franz_go.balancer_input import (
    FRANZ_GO_1_22,
    NO_MEMBER,
    NO_MEMBER_RACK,
    NO_RACK,
    FranzGoGroup,
    FranzGoRules,
    MemberHeap,
    plan_steals,
    resolve_owners,
)
from spark_assign.assignors.franz_go.heterogeneous import TooManyStealsError
from spark_assign.assignors.franz_go.order_dependence import order_dependent_positions, plan_group
from spark_assign.assignors.group_specs import (
    BALANCING,
    KEPT,
    OVER_QUOTA,
    GroupAssignments,
    GroupSpecs,
    SubscriberLists,
    assignment_order,
    read_leader_racks,
)
from spark_assign.assignors.range import assign_ranges
from spark_assign.assignors.sticky.sticky_groups import keep_by_partition
from spark_assign.assignors.undisputed_groups import UndisputedGroups, find_undisputed
from spark_assign.numeric.arrays import (
    EMPTY_SLICES,
    BoolArray,
    IntArray,
    PartitionSlices,
    byte_ranks,
    compress,
    invert,
    mask_from_indexes,
    owners_to_slices,
    ranges_by_length,
    row_numbers,
)


def assign_by_franz_go(
    specs: GroupSpecs, assignor: str, selected: BoolArray, rules: FranzGoRules = FRANZ_GO_1_22
) -> GroupAssignments:
    """Assigns the selected groups by franz-go's `sticky`, `cooperative-sticky`, or `range` of 1.21."""
    racks = _read_racks(specs) if rules.uses_racks else {}
    if assignor == "range":
        lists = specs.list_subscribers(byte_assignment_order(specs))
        return GroupAssignments.of(assign_range_by_leader_racks(specs, lists, selected, racks))
    cooperative = assignor == "cooperative-sticky"
    generation, readable = _read_generations(specs, cooperative)
    without_racks = selected & ~mask_from_indexes(np.array([*racks], np.int64), specs.num_groups)
    undisputed = find_undisputed(specs, without_racks, np.ones(len(specs.members), bool), readable)
    assignments = plan_undisputed(specs, undisputed, byte_assignment_order(specs), cooperative=cooperative)
    disputed = selected & ~undisputed.groups
    return assignments.concat(_one_by_one(specs, disputed, generation, readable, cooperative, rules, racks))


def _read_racks(specs: GroupSpecs) -> dict[int, tuple[IntArray, IntArray]]:
    """Returns, for each group in which a member and a leader have a rack, the index of partition 0 of each topic and
    the racks of leaders.
    """
    start = np.append(0, np.cumsum(np.maximum(specs.topics.partitions, 0)))
    leader_rack = read_leader_racks(specs, start)
    groups = np.repeat(specs.topics.group, np.diff(start))[leader_rack != NO_RACK]
    members = specs.members
    return dict.fromkeys(np.intersect1d(groups, members.group[members.rack >= 0]).tolist(), (start, leader_rack))


def _one_by_one(
    specs: GroupSpecs,
    selected: BoolArray,
    generation: IntArray,
    readable: BoolArray,
    cooperative: bool,
    rules: FranzGoRules,
    racks: dict[int, tuple[IntArray, IntArray]],
) -> GroupAssignments:
    """Assigns the selected groups partition by partition."""
    if not selected.any():
        return GroupAssignments.of(EMPTY_SLICES)
    results, rejected = [], dict[int, tuple[str, str]]()
    for group in _groups(specs, selected):
        try:
            results.append(_plan(specs, *group, generation, readable, cooperative, rules, racks))
        except TooManyStealsError as error:
            rejected[int(specs.members.group[group[0][0]])] = "too-many-steals", str(error)
    if not results:
        return GroupAssignments.of(EMPTY_SLICES, rejected)
    *columns, order_dependent = (np.concatenate(each) for each in zip(*results, strict=True))
    dependent_columns = (column[order_dependent] for column in columns[:3])
    find = partial(compress, *dependent_columns)
    return replace(GroupAssignments.of_partitions(*columns), rejected=rejected, find_order_dependent=find)


def _read_generations(specs: GroupSpecs, cooperative: bool) -> tuple[IntArray, BoolArray]:
    """Returns the generation of the claims of each member, and whether the balancer sees these claims."""
    members = specs.members
    if not cooperative:
        generation: IntArray = np.where(members.has_user_data, members.user_data_generation, members.generation)
        return generation, np.ones(len(members), bool)
    has_generation = (
        np.bincount(members.group, np.maximum(members.generation, members.user_data_generation) >= 0, specs.num_groups)
        > 0
    )
    return members.generation, (members.generation >= 0) | ~has_generation[members.group]


def _groups(
    specs: GroupSpecs, selected: BoolArray
) -> Iterator[tuple[IntArray, IntArray, list[IntArray], PartitionSlices]]:
    """Yields, for each selected group, its members in the leader's order, its topics by name, the subscribers of each
    topic, and the claims, one partition each; subscribers and claims are in indexes of the group."""
    members, topics, ordered = specs.members, specs.topics, byte_assignment_order(specs)
    claims, groups = _claims(specs, selected), np.arange(specs.num_groups + 1)
    columns = (members.group[ordered], topics.group, members.group[claims.member])
    member_ends, topic_ends, claim_ends = (np.searchsorted(column, groups).tolist() for column in columns)
    member_index = invert(ordered, len(members))
    for group in np.flatnonzero(selected).tolist():
        start = member_ends[group]
        group_topics = np.arange(topic_ends[group], topic_ends[group + 1])
        group_topics = group_topics[topics.is_subscribed[group_topics]]
        sets = topics.subscriber_set[group_topics].tolist()
        subscribers = {each: np.sort(member_index[specs.set_members(group, each)]) - start for each in set(sets)}
        owned = claims.take(np.arange(claim_ends[group], claim_ends[group + 1]))
        topic = np.searchsorted(group_topics, owned.topic)
        yield (
            ordered[start : member_ends[group + 1]],
            group_topics,
            [subscribers[each] for each in sets],
            PartitionSlices(member_index[owned.member] - start, topic, *owned.columns[2:]),
        )


def _claims(specs: GroupSpecs, selected: BoolArray) -> PartitionSlices:
    """Returns existing partitions of subscribed topics that members claim, one per row."""
    claims = specs.owned
    is_selected = selected[specs.members.group[claims.member]]
    rows = claims.take(is_selected & np.isin(claims.topic, specs.topics.with_metadata)).expand()
    rows = rows.take(rows.first < specs.topics.partitions[rows.topic])
    return rows.take(np.argsort(rows.member, kind="stable"))


def _plan(
    specs: GroupSpecs,
    members: IntArray,
    topics: IntArray,
    subscribers: list[IntArray],
    claims: PartitionSlices,
    generation: IntArray,
    readable: BoolArray,
    cooperative: bool,
    rules: FranzGoRules,
    racks: dict[int, tuple[IntArray, IntArray]],
) -> tuple[IntArray, ...]:
    """Returns member, topic, and partition of everything that is assigned in one group; the reason; whether it is
    withheld; and whether it is order-dependent.
    """
    partitions = np.maximum(specs.topics.partitions[topics], 0)
    starts = np.cumsum(partitions) - partitions
    claims = claims.take(np.argsort(claims.member, kind="stable"))
    claimer, claimed = claims.member, starts[claims.topic] + claims.first
    is_readable = readable[members[claimer]]
    previous, stale = resolve_owners(
        claimer[is_readable], claimed[is_readable], generation[members], int(partitions.sum())
    )
    # A claim of an unsubscribed topic only conflicts with the claims of other members.
    topic, partition = np.repeat(topics, partitions), ranges_by_length(partitions)
    owned = np.flatnonzero(previous != NO_MEMBER)
    previous[owned[~specs.subscribes(members[previous[owned]], topic[owned])]] = NO_MEMBER
    # Topics with the same subscribers share a list.
    lists = {number: each.tolist() for number, each in {id(each): each for each in subscribers}.items()}
    in_vain = [len(each) < len(members) for each, count in zip(subscribers, partitions, strict=True) if not count]
    leader_rack, member_rack = [], []
    if (known := racks.get(int(specs.members.group[members[0]]))) is not None:
        start, leaders = known
        leader_rack = leaders[np.repeat(start[topics], partitions) + ranges_by_length(partitions)].tolist()
        rack = specs.members.rack[members]
        member_rack = np.where(rack >= 0, rack, NO_MEMBER_RACK).tolist()
    group = FranzGoGroup(
        len(members),
        partitions.tolist(),
        [lists[id(each)] for each in subscribers],
        previous.tolist(),
        stale,
        rules,
        leader_rack,
        member_rack,
    )
    result = plan_group(group, unmatched_subscriptions=any(in_vain))
    owner = np.array(result.owner, np.int64)
    is_revoked = (previous != NO_MEMBER) & (previous != owner)
    reason = np.where(is_revoked, OVER_QUOTA if result.homogeneous else BALANCING, KEPT)
    withheld = np.zeros(len(owner), bool)
    if cooperative:
        withheld = _withheld(owner, claimer, claimed, generation[members], rules)
    return members[owner], topic, partition, reason, withheld, np.array(result.order_dependent, bool)


def _withheld(
    owner: IntArray, claimer: IntArray, claimed: IntArray, generation: IntArray, rules: FranzGoRules
) -> BoolArray:
    """Returns whether each partition is withheld: another member claims it, and its new owner doesn't claim it with the
    newest generation.
    """
    newest = np.full(len(owner), -1, np.int64)
    np.maximum.at(newest, claimed, generation[claimer])
    is_own = owner[claimed] == claimer
    has_others, has_owner = np.zeros(len(owner), bool), np.zeros(len(owner), bool)
    has_others[claimed[~is_own]] = True
    has_owner[claimed[is_own & (rules.trusts_stale_claims | (generation[claimer] >= newest[claimed]))]] = True
    return has_others & ~has_owner


def byte_assignment_order(specs: GroupSpecs) -> IntArray:
    """Returns the members by group, static members first: by instance id, then dynamic members by member id, in byte
    order (as Go compares strings).
    """
    instance = np.where(specs.instance_id.is_valid(), byte_ranks(specs.instance_id), -1)
    return assignment_order(specs.members.group, byte_ranks(specs.member_id), instance)


def plan_undisputed(
    specs: GroupSpecs, undisputed: UndisputedGroups, ordered: IntArray, *, cooperative: bool
) -> GroupAssignments:
    """Assigns undisputed groups on slices (`assignors.franz_go.balancer_input`).

    Only partitions without an owner, and the surplus of members, are expanded. A member that loses partitions gets no
    new ones, because a member that gets new ones has at most one more than the least loaded. So only newly assigned
    partitions are order-dependent (`assignors.franz_go.order_dependence`).

    Args:
        specs: all groups.
        undisputed: the undisputed groups.
        ordered: all members in the order of `byte_assignment_order`.
        cooperative: whether moved partitions are withheld.
    """
    if not undisputed.groups.any():
        return GroupAssignments.of(EMPTY_SLICES)
    to_member, is_order_dependent, from_member, moved_to = _assign_unassigned(specs, undisputed, ordered)
    new = compress(to_member, undisputed.topic, undisputed.partition)
    kept, moved = _split_kept(undisputed, from_member)
    moved = compress(moved_to, moved.topic, moved.first)
    assignments = GroupAssignments.of(kept.concat(new)).concat(
        GroupAssignments(moved, np.full(len(moved), OVER_QUOTA), np.full(len(moved), cooperative))
    )
    columns = (to_member, undisputed.topic, undisputed.partition)
    dependent = partial(compress, *(column[is_order_dependent] for column in columns))
    return replace(assignments, find_order_dependent=dependent)


def _assign_unassigned(
    specs: GroupSpecs, undisputed: UndisputedGroups, ordered: IntArray
) -> tuple[IntArray, BoolArray, IntArray, IntArray]:
    """Returns the new owner of each partition without an owner, whether that is order-dependent, and the moves:
    from_member and to_member.
    """
    results = []
    groups = np.arange(specs.num_groups + 1)
    ends = np.searchsorted(specs.members.group[ordered], groups).tolist()
    unassigned = np.searchsorted(specs.topics.group[undisputed.topic], groups).tolist()
    for group in np.flatnonzero(undisputed.groups).tolist():
        members = ordered[ends[group] : ends[group + 1]]
        load, topic = undisputed.load[members].tolist(), undisputed.topic[unassigned[group] : unassigned[group + 1]]
        positions = np.array(MemberHeap(range(len(members)), load).take_many(len(topic)), np.int64)
        steals = plan_steals(load) if max(load) > min(load) + 1 else []
        moves = members[np.array(steals, np.int64).reshape(-1, 2)].T
        results.append((members[positions], order_dependent_positions(topic, positions), *moves))
    to_member, is_order_dependent, from_member, moved_to = map(np.concatenate, zip(*results, strict=True))
    return to_member, is_order_dependent, from_member, moved_to


def _split_kept(undisputed: UndisputedGroups, from_member: IntArray) -> tuple[PartitionSlices, PartitionSlices]:
    """Returns the slices that members keep, and the partitions that they lose, in the order of `from_member`.

    A member loses its highest partition numbers and, among equal numbers, its last topics.
    """
    if not len(from_member):
        return undisputed.owned, EMPTY_SLICES
    num_lost = np.bincount(from_member, minlength=len(undisputed.load))
    is_losing = (num_lost > 0)[undisputed.owned.member]
    kept, lost = keep_by_partition(undisputed.owned.take(is_losing), undisputed.load, undisputed.load - num_lost)
    lost = lost.expand()
    lost = lost.take(np.lexsort((-lost.topic, -lost.first, lost.member)))
    order = np.argsort(from_member, kind="stable")
    row_number = np.empty(len(from_member), np.int64)
    row_number[order] = row_numbers(from_member[order])
    return undisputed.owned.take(~is_losing).concat(kept), lost.take(
        np.searchsorted(lost.member, from_member) + row_number
    )


# --- range as franz-go 1.21.4 to 1.21.7 assigns it: by the racks of members and of the brokers that lead ------
#
# Principles
#     1. Of p partitions and n subscribers, each subscriber gets p // n, and the first p % n get one more.
#     2. A member with a rack takes the first partitions with a leader in its rack, up to this number.
#     3. The other partitions go, in order, to the members that still lack some, in order.
#
# Each topic is assigned by itself. Java's range (KIP-881) instead uses the racks of all replicas, assigns topics with
# the same subscribers and partitions alike, and lets a member without a rack take partitions of any rack in step 2.
#
# Example: t has four partitions with leaders in racks y, y, x, y. C0 is in rack x, C1 in rack y.
#
#     by rack    C0: [p2]        C1: [p0, p1]
#     rest       C0: [p2, p3]


def assign_range_by_leader_racks(
    specs: GroupSpecs, lists: SubscriberLists, selected: BoolArray, racks: Mapping[int, tuple[IntArray, IntArray]]
) -> PartitionSlices:
    """Assigns the selected groups.

    Args:
        specs: all groups.
        lists: the subscribers of each topic, in the order in which they are assigned to.
        selected: mask of groups.
        racks: for each group that uses racks, the index of partition 0 of each topic, and the racks of leaders.
    """
    topics = specs.topics
    partitions = topics.partitions_to_assign(selected)
    slices = assign_ranges(lists, partitions)
    uses_racks = selected & np.isin(np.arange(specs.num_groups), [*racks])
    by_rack = uses_racks[topics.group] & (partitions > 0)
    replacements: list[PartitionSlices] = []
    for topic in np.flatnonzero(by_rack).tolist():
        start, leader_racks = racks[int(topics.group[topic])]
        members = lists.of(topic)
        leaders = leader_racks[start[topic] : start[topic] + partitions[topic]]
        position, *ranges = owners_to_slices(_owners(specs.members.rack[members], leaders))
        replacements.append(PartitionSlices(members[position], np.full(len(position), topic), *ranges))
    return slices.take(~by_rack[slices.topic]).concat(*replacements)


def _owners(member_racks: IntArray, leader_racks: IntArray) -> IntArray:
    """Returns the position of the owner of each partition of a topic.

    Members of different racks don't compete in step 2, so that each rack is assigned in one step.
    """
    quota, extra = divmod(len(leader_racks), len(member_racks))
    lacks = quota + (np.arange(len(member_racks)) < extra)
    owner = np.full(len(leader_racks), -1, np.int64)
    for rack in np.intersect1d(member_racks[member_racks >= 0], leader_racks).tolist():
        members, free = np.flatnonzero(member_racks == rack), np.flatnonzero(leader_racks == rack)
        matched = np.repeat(members, lacks[members])[: len(free)]
        owner[free[: len(matched)]] = matched
        lacks -= np.bincount(matched, minlength=len(lacks))
    owner[owner < 0] = np.repeat(np.arange(len(lacks)), lacks)
    return owner
