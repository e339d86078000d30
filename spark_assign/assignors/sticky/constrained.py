"""Assigns homogeneous groups without racks (Kafka's `ConstrainedAssignmentBuilder`).

Principles, in order of priority
    1. Balance: the numbers of partitions of two members differ by at most one.
    2. Stickiness: each member keeps as many of its partitions as its quota allows.

Steps
    1. Quota: with p partitions and n members, each member gets p // n partitions, and p % n of them get one more. Of
       the members that own more than that, the first p % n in hash order keep one more.
    2. Keep: each member keeps the first of its partitions by (partition, topic), up to its quota.
    3. Fill: the unassigned partitions, by (topic, partition), go round robin, by member id, to the members below the
       quota. The remaining ones go to members that can exceed the quota: first those that kept their quota, by id, then
       those that were filled up, in this order.

Example: topic t has six partitions and C2 joins. The quota is 2.

    owned     C0: [t0, t1, t2, t3]    C1: [t4, t5]    C2: []
    target    C0: [t0, t1]            C1: [t4, t5]    C2: [t2, t3]

All steps process many groups at once and use slices.

Up to 3.7.0, cooperative-sticky withholds all partitions above a member's quota, even if they go back to that member.
Up to 2.8, Kafka uses the algorithm in `sticky_2_8`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.assignors.group_specs import KEPT, OVER_QUOTA, GroupAssignments
from spark_assign.assignors.release_rules import LATEST_RULES, ReleaseRules
from spark_assign.assignors.sticky.sticky_groups import (
    KAFKA_FAILS,
    NO_UNFILLED_MEMBERS,
    TOO_FEW_PARTITIONS,
    OwnedOrder,
    ResolvedOwnership,
    StickyGroups,
    keep_owned,
)
from spark_assign.numeric.arrays import (
    EMPTY_SLICES,
    PARTITION_BITS,
    BoolArray,
    IntArray,
    PartitionSlices,
    expand_slices,
    mask_from_indexes,
    member_partition_keys,
    ranges_by_length,
    rank_partitions,
    row_numbers,
    split_keys,
    starts_new_key,
)


def plan_constrained(
    groups: StickyGroups, resolved: ResolvedOwnership, owned_order: OwnedOrder, rules: ReleaseRules = LATEST_RULES
) -> GroupAssignments:
    """Returns the assignment of groups whose members all subscribe to the same topics.

    Args:
        groups: the groups.
        resolved: their owned partitions, after conflicts are resolved.
        owned_order: see `keep_owned`.
        rules: rules of a release.
    """
    owned = drop_contested(resolved)
    quota = compute_quotas(groups, np.bincount(owned.member, owned.count, len(groups.member_group)).astype(np.int64))
    kept, released = keep_owned(owned, quota.num_owned, quota.num_kept, owned_order, rules)
    reassigned = find_reassigned(groups, kept, resolved.shared_partitions)
    unassigned = find_unassigned(groups, owned, kept, released, reassigned, resolved.shared_partitions)
    assigned, row, rejected = assign_round_robin(
        groups.member_group,
        groups.topic_group,
        unassigned.slices,
        np.maximum(quota.min_quota - quota.num_kept, 0),
        quota.can_exceed_min_quota,
        groups.num_groups,
    )
    return combine_assignment(groups, resolved, kept, unassigned.take(row), assigned, rejected, rules)


def drop_contested(resolved: ResolvedOwnership) -> PartitionSlices:
    """Returns the owned partitions, except those with multiple owners, even if a third member won the conflict."""
    if not len(resolved.multiple_owners):
        return resolved.slices
    # Partitions with multiple owners have slices of their own.
    return resolved.slices.take(
        ~(np.isin(resolved.slices.partition_keys, resolved.multiple_owners) & (resolved.slices.count == 1))
    )


# --- Steps 1 and 2: quota, keep -----------------------------------------------------------------------------


@dataclass(frozen=True)
class MemberQuota:
    """The quota of each member. All arrays have shape (num_members,).

    Attributes:
        num_owned: number of partitions that it owns.
        num_kept: number of partitions that it keeps.
        min_quota: quota of its group, p // n.
        can_exceed_min_quota: whether it keeps exactly the quota and can get one more.
    """

    num_owned: IntArray
    num_kept: IntArray
    min_quota: IntArray
    can_exceed_min_quota: BoolArray


def compute_quotas(groups: StickyGroups, num_owned: IntArray) -> MemberQuota:
    """Returns the quota of each member, given the number of partitions that it owns (step 1)."""
    # `assignOwnedPartitions` visits members in hash order, and lets one keep maxQuota partitions while fewer than
    # `expectedNumMembersWithOverMinQuotaPartitions` do. Among the members of a group that own more than minQuota, the
    # position of a member in hash order is the count that Kafka has when it visits the member.
    #
    # Example: t has five partitions, C0 owns all of them, and C1 joins.
    #     min_quota [2, 2]    num_above [1]    is_above [True, False]    num_kept [3, 0]
    group = groups.member_group
    members = np.bincount(group, minlength=groups.num_groups)
    total = np.bincount(groups.topic_group, groups.partitions, groups.num_groups).astype(np.int64)
    min_quota, num_above = (total // members)[group], total % members
    is_above = (num_owned > min_quota) & (num_above[group] > 0)
    keeps_above = np.zeros(len(num_owned), bool)
    if is_above.any():
        candidates = np.flatnonzero(is_above)
        candidates = candidates[np.lexsort((groups.owned_hash_order[candidates], group[candidates]))]
        keeps_above[candidates[row_numbers(group[candidates]) < num_above[group[candidates]]]] = True
    # The members of `unfilledMembersWithExactlyMinQuotaPartitions`, which Kafka clears when enough keep maxQuota.
    has_room = np.bincount(group[keeps_above], minlength=groups.num_groups) < num_above
    return MemberQuota(
        num_owned=num_owned,
        num_kept=np.minimum(num_owned, min_quota + keeps_above),
        min_quota=min_quota,
        can_exceed_min_quota=has_room[group] & (num_owned >= min_quota) & ~keeps_above,
    )


# --- Step 3: fill -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UnassignedPartitions:
    """Partitions to assign.

    Attributes:
        slices: the partitions; `member` is the member that gave them up, -1 for none.
        current_owner: member that keeps the partitions although Kafka assigns them again; -1 for none.
    """

    slices: PartitionSlices
    current_owner: IntArray

    def take(self, rows: BoolArray | IntArray) -> UnassignedPartitions:
        """Returns the selected slices."""
        return UnassignedPartitions(self.slices.take(rows), self.current_owner[rows])


def find_unassigned(
    groups: StickyGroups,
    owned: PartitionSlices,
    kept: PartitionSlices,
    released: PartitionSlices,
    reassigned: PartitionSlices,
    shared: IntArray,
) -> UnassignedPartitions:
    """Returns the partitions to assign.

    Args:
        groups: the groups.
        owned, kept, released: partitions of members.
        reassigned: kept partitions that are assigned again.
        shared: see `ResolvedOwnership.shared_partitions`.
    """
    previous_owner = np.full(len(reassigned), -1, np.int64)
    if len(shared):
        shared_slices = released.take(np.isin(released.partition_keys, shared))
        owner_by_key = dict(zip(shared_slices.partition_keys.tolist(), shared_slices.member.tolist(), strict=True))
        previous_owner = np.array([owner_by_key.get(key, -1) for key in reassigned.partition_keys.tolist()], np.int64)
        released = released.take(
            ~np.isin(released.partition_keys, kept.partition_keys[np.isin(kept.partition_keys, shared)])
        )
        owned, released = drop_second_owners(owned, shared), drop_second_owners(released, shared)
    slices = released.below(groups.partitions).concat(
        find_unowned(owned, groups.partitions), PartitionSlices(previous_owner, *reassigned.columns[1:])
    )
    current_owner = np.full(len(slices), -1, np.int64)
    current_owner[len(slices) - len(reassigned) :] = reassigned.member
    return UnassignedPartitions(slices, current_owner)


def find_unowned(owned: PartitionSlices, partitions: IntArray) -> PartitionSlices:
    """Returns the partitions without an owner; `member` is -1.

    If all longer slices of a topic have one step, its partitions are split by residue modulo the step. In each residue
    class, slices are intervals, and the unowned partitions are the gaps between them. If a topic has other slices, or
    fewer owned partitions than residues, its owned partitions are listed, and the gaps have step 1.
    """
    owned = owned.below(partitions)
    num_owned = np.bincount(owned.topic, owned.count, len(partitions)).astype(np.int64)
    has_unowned = num_owned < partitions
    if not has_unowned.any():
        return EMPTY_SLICES
    owned = owned.take(has_unowned[owned.topic])
    steps = np.where(owned.count > 1, owned.step, 0)
    max_step = np.zeros(len(partitions), np.int64)
    np.maximum.at(max_step, owned.topic, steps)
    is_scattered = mask_from_indexes(owned.topic[(steps > 0) & (steps != max_step[owned.topic])], len(partitions))
    is_scattered |= num_owned < max_step
    owned = owned.take(~is_scattered[owned.topic]).concat(owned.take(is_scattered[owned.topic]).expand())
    step = np.where(is_scattered | (max_step == 0), 1, max_step)

    num_residues = np.where(has_unowned, np.minimum(step, partitions), 0)
    residue_topic = np.repeat(np.arange(len(partitions)), num_residues)
    residue_value = ranges_by_length(num_residues)
    length = -(-(partitions[residue_topic] - residue_value) // step[residue_topic])
    # `getUnassignedPartitions` goes through two sorted lists of partitions. Here, slices of one residue are intervals.
    #
    # Example: t has five partitions, C0 owns t0 and t2, C1 owns t1 and nothing else. The step is 2.
    #     (start, end) of residue 0: (0, 2), (3, 3)    of residue 1: (0, 1), (2, 2)
    #     gaps between them          (2, 3): t4        (1, 2): t3
    # Each residue class ends with an empty slice after its last partition, so each gap precedes a slice.
    topic = np.concatenate([owned.topic, residue_topic])
    residue = np.concatenate([owned.first % step[owned.topic], residue_value])
    start = np.concatenate([owned.first // step[owned.topic], length])
    end = start + np.concatenate([owned.count, np.zeros(len(residue_value), np.int64)])
    order = np.lexsort((start, residue, topic))
    topic, residue, start, end = topic[order], residue[order], start[order], end[order]
    gap_start = np.append(0, end[:-1])
    gap_start[starts_new_key((topic << PARTITION_BITS) | residue)] = 0
    no_member = np.full(len(topic), -1, np.int64)
    gaps = PartitionSlices(no_member, topic, residue + gap_start * step[topic], step[topic], start - gap_start)
    return gaps.take(gaps.count > 0)


def drop_second_owners(slices: PartitionSlices, shared: IntArray) -> PartitionSlices:
    """Returns the slices without the second owners of shared partitions, which have slices of their own."""
    shared_rows = np.flatnonzero(np.isin(slices.partition_keys, shared) & (slices.count == 1))
    is_first = np.ones(len(slices), bool)
    is_first[np.delete(shared_rows, np.unique(slices.partition_keys[shared_rows], return_index=True)[1])] = False
    return slices.take(is_first)


def find_reassigned(groups: StickyGroups, kept: PartitionSlices, shared: IntArray) -> PartitionSlices:
    """Returns the kept partitions that Kafka assigns again.

    Kafka compares the sorted kept partitions with all partitions (`getUnassignedPartitions`). The comparison gets stuck
    at the first kept partition that doesn't exist or that two members keep; all later ones count as unassigned.
    """
    stops = (kept.last >= groups.partitions[kept.topic]) | np.isin(kept.partition_keys, shared)
    if not stops.any():
        return kept.take(stops)
    rows = kept.take(np.isin(groups.topic_group[kept.topic], groups.topic_group[kept.topic[stops]])).expand()
    rows = rows.take(np.argsort(rows.partition_keys, kind="stable"))
    is_missing = rows.first >= groups.partitions[rows.topic]
    stops = is_missing | ~starts_new_key(rows.partition_keys)
    stuck_at = np.full(groups.num_groups, np.iinfo(np.int64).max)
    np.minimum.at(stuck_at, groups.topic_group[rows.topic[stops]], rows.partition_keys[stops])
    return rows.take(~stops & (rows.partition_keys > stuck_at[groups.topic_group[rows.topic]]))


# --- Result -------------------------------------------------------------------------------------------------


def combine_assignment(
    groups: StickyGroups,
    resolved: ResolvedOwnership,
    kept: PartitionSlices,
    unassigned: UnassignedPartitions,
    assigned: PartitionSlices,
    rejected: dict[int, tuple[str, str]],
    rules: ReleaseRules,
) -> GroupAssignments:
    """Combines the kept and the newly assigned partitions.

    Args:
        groups: the groups.
        resolved: their owned partitions, after conflicts are resolved.
        kept: partitions that members keep.
        unassigned: for each assigned slice the unassigned slice that it is a part of.
        assigned: slices of unassigned partitions, with the members that get them.
        rejected: code and exception by rejected group.
        rules: rules of a release.
    """
    if rejected:
        is_planned = ~mask_from_indexes(list(rejected), groups.num_groups)
        kept = kept.take(is_planned[groups.member_group[kept.member]])
    previous_owner, is_new = unassigned.slices.member, unassigned.current_owner != assigned.member
    assigned, previous_owner = assigned.take(is_new), previous_owner[is_new]
    contested = np.append(resolved.multiple_owners, resolved.shared_partitions)
    if len(contested):
        # Contested partitions get slices of their own.
        has_contested = mask_from_indexes(split_keys(contested)[0], len(groups.partitions))[assigned.topic]
        others, owner = assigned.take(has_contested), previous_owner[has_contested]
        assigned = assigned.take(~has_contested).concat(others.expand())
        previous_owner = np.append(previous_owner[~has_contested], np.repeat(owner, others.count))
    if len(resolved.shared_partitions):
        shared = kept.take(np.isin(kept.partition_keys, resolved.shared_partitions))
        is_new = ~np.isin(*member_partition_keys(assigned, shared))
        assigned, previous_owner = assigned.take(is_new), previous_owner[is_new]
    is_moved = (previous_owner >= 0) & (previous_owner != assigned.member)
    reason = np.where(is_moved, OVER_QUOTA, KEPT)
    withheld = np.zeros(len(assigned), bool)
    if groups.cooperative:
        is_released = previous_owner >= 0 if rules.withholds_over_quota else is_moved
        withheld = is_released | np.isin(assigned.partition_keys, resolved.multiple_owners)
    return GroupAssignments.of(kept, rejected).concat(GroupAssignments.of_slices(assigned, reason, withheld))


# --- assigns unassigned partitions round robin (`assignRoundRobin`; step 3 of `constrained`) ------------------
#
# Kafka assigns them one by one, by (topic, partition), to the next member, by id, that is below the quota, and then to
# the members that can exceed it. So the member of a partition follows from its rank among the unassigned partitions,
# and slices are assigned as a whole.
#
# Steps
#     1. Rounds: as long as no member reaches its quota, the same members get one partition each in every round. The
#        ranks of these rounds are a phase. In the last phase, each member that exceeds the quota gets one partition.
#     2. Cut the slices where a phase starts.
#     3. In a phase of n members, a slice with ranks that differ by d returns to the same member after n / gcd(n, d)
#        partitions. So each of these members gets a slice with that many times the step.
#
# Example: C0 lacks three partitions, C1 and C2 lack one. Unassigned are t0, t2, t4, t6, t8.
#
#     phases    ranks 0 to 2: [C0, C1, C2]    ranks 3 to 4: [C0]
#     target    C0: [t0], [t6, t8]            C1: [t2]    C2: [t4]


def assign_round_robin(
    member_group: IntArray,
    topic_group: IntArray,
    unassigned: PartitionSlices,
    num_missing: IntArray,
    can_exceed: BoolArray,
    num_groups: int,
) -> tuple[PartitionSlices, IntArray, dict[int, tuple[str, str]]]:
    """Assigns partitions to members.

    Args:
        member_group: group of each member; members are sorted by id.
        topic_group: group of each topic, ascending.
        unassigned: the partitions, in any order, each once.
        num_missing: number of partitions that each member needs to reach the quota.
        can_exceed: members with the quota that can get one more.
        num_groups: number of groups.

    Returns:
        what members of groups that aren't rejected get; the index of the unassigned slice that each slice is a part of;
        and the code and exception by rejected group.
    """
    # Exceptions: `assignRoundRobin` finds no member for a partition; `verifyUnfilledMembers` finds a member below
    # minQuota.
    group = topic_group[unassigned.topic]
    num_unassigned = np.bincount(group, unassigned.count, num_groups).astype(np.int64)
    num_needed = np.bincount(member_group, num_missing, num_groups).astype(np.int64)
    # Members that exceed the quota: those that kept it, by id, then those that were filled up, by their last turn.
    above_quota = np.flatnonzero(can_exceed | (num_missing > 0))
    above_quota = above_quota[np.lexsort((above_quota, num_missing[above_quota], member_group[above_quota]))]
    is_used = row_numbers(member_group[above_quota]) < (num_unassigned - num_needed)[member_group[above_quota]]
    above_quota = above_quota[is_used]
    capacity = num_needed + np.bincount(member_group[above_quota], minlength=num_groups)
    rejected = {int(group): (KAFKA_FAILS, TOO_FEW_PARTITIONS) for group in np.flatnonzero(num_unassigned < num_needed)}
    rejected |= {int(group): (KAFKA_FAILS, NO_UNFILLED_MEMBERS) for group in np.flatnonzero(num_unassigned > capacity)}
    rows = np.arange(len(unassigned))
    if rejected:
        is_planned = ~mask_from_indexes(list(rejected), num_groups)
        rows = np.flatnonzero(is_planned[group])
        num_missing = np.where(is_planned[member_group], num_missing, 0)
        above_quota = above_quota[is_planned[member_group[above_quota]]]
    slices, row = _assign_ranks(unassigned.take(rows), _find_phases(member_group, num_missing, above_quota))
    return slices, rows[row], rejected


@dataclass(frozen=True)
class _Phases:
    """Ranges of ranks in which the same members take turns, ascending.

    Attributes:
        start: first rank of each phase, and the number of all ranks at the end.
        size: number of members of each phase.
        first_member: index of the first member of each phase in `members`.
        members: the members in the order of their turns, phase after phase.
    """

    start: IntArray
    size: IntArray
    first_member: IntArray
    members: IntArray


def _find_phases(member_group: IntArray, num_missing: IntArray, above_quota: IntArray) -> _Phases:
    """Returns the phases of all groups (step 1). Ranks count on from group to group."""
    # A turn of `unfilledConsumerIter` is a rank. A member leaves the iteration when it reaches minQuota, so the turns
    # repeat until the next member does.
    #
    # Example: C0 lacks three partitions, C1 lacks one.
    #     filled_at [1, 3]    rounds [1, 2]    size [2, 1]    members [C0, C1, C0]    start [0, 2, 4]
    missing = np.flatnonzero(num_missing)
    key = (member_group[missing] << PARTITION_BITS) | num_missing[missing]
    phases, last_phase = np.unique(key, return_inverse=True)
    group, filled_at = phases >> PARTITION_BITS, phases & ((1 << PARTITION_BITS) - 1)
    rounds = filled_at - np.where(starts_new_key(group), 0, np.append(0, filled_at)[:-1])
    first_phase = np.searchsorted(group, member_group[missing])
    row, phase = expand_slices(first_phase, np.ones_like(first_phase), last_phase - first_phase + 1)
    members = missing[row[np.argsort(phase, kind="stable")]]
    last_groups, num_above = np.unique(member_group[above_quota], return_counts=True)
    size = np.append(np.bincount(phase, minlength=len(phases)), num_above)
    order = np.argsort(np.append(group, last_groups), kind="stable")
    ranks = size * np.append(rounds, np.ones_like(last_groups))
    start = np.append(0, np.cumsum(ranks[order]))
    return _Phases(start, size[order], (np.cumsum(size) - size)[order], np.append(members, above_quota))


def _assign_ranks(unassigned: PartitionSlices, phases: _Phases) -> tuple[PartitionSlices, IntArray]:
    """Assigns slices to the members of the phases (steps 2 and 3)."""
    # Example: the four partitions of t, one slice, in the phases of the example of `_find_phases`.
    #     row [0, 0]    phase [0, 1]    start [0, 2]    end [2, 4]    period [2, 1]    num_parts [2, 1]
    #     C0: [t0]    C1: [t1]    C0: [t2, t3]
    ranked = rank_partitions(unassigned)
    slices, rank_step = ranked.slices, ranked.rank_step
    last_rank = ranked.rank + rank_step * (slices.count - 1)
    first_phase, last_phase = (np.searchsorted(phases.start, rank, "right") - 1 for rank in (ranked.rank, last_rank))
    row, phase = expand_slices(first_phase, np.ones_like(first_phase), last_phase - first_phase + 1)
    rank, rank_step, count = ranked.rank[row], rank_step[row], slices.count[row]
    # Partitions start, …, end - 1 of the slice have ranks of the phase.
    start = np.maximum(-((rank - phases.start[phase]) // rank_step), 0)
    end = np.minimum(-((rank - phases.start[phase + 1]) // rank_step), count)
    size = phases.size[phase]
    period = size // np.gcd(size, rank_step)
    num_parts = np.clip(end - start, 0, period)
    part = np.repeat(np.arange(len(row)), num_parts)
    start = start[part] + ranges_by_length(num_parts)
    row, phase, period = row[part], phase[part], period[part]
    turn = (ranked.rank[row] + rank_step[part] * start - phases.start[phase]) % size[part]
    return PartitionSlices(
        phases.members[phases.first_member[phase] + turn],
        slices.topic[row],
        slices.first[row] + slices.step[row] * start,
        slices.step[row] * period,
        -((start - end[part]) // period),
    ), ranked.row[row]
