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

All steps process many groups at once and use slices. Only unassigned partitions are processed one by one.

Up to 3.7.0, cooperative-sticky withholds all partitions above a member's quota, even if they go back to that member.
Up to 2.8, Kafka uses the algorithm in `constrained_2_8`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.groups.assignors.release_rules import LATEST_RULES, ReleaseRules
from spark_assign.groups.assignors.sticky.ownership_conflicts import ResolvedOwnership
from spark_assign.groups.assignors.sticky.retained_partitions import OwnedOrder, keep_owned
from spark_assign.groups.assignors.sticky.sticky_groups import (
    KAFKA_FAILS,
    NO_UNFILLED_MEMBERS,
    TOO_FEW_PARTITIONS,
    StickyGroups,
)
from spark_assign.groups.kernel.group_specs import KEPT, OVER_QUOTA, GroupAssignments
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PARTITION_BITS, PartitionSlices, mask_from_indexes
from spark_assign.numeric.segmented_arrays import expand_slices, ranges_by_length, row_numbers, starts_new_key


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
    to_member, rejected = assign_round_robin(
        groups.member_group,
        groups.topic_group[unassigned.topic],
        np.maximum(quota.min_quota - quota.num_kept, 0),
        quota.can_exceed_min_quota,
        groups.num_groups,
    )
    return combine_assignment(groups, resolved, kept, unassigned, to_member, rejected, rules)


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
    """Partitions to assign, sorted by (topic, partition).

    Attributes:
        topic, partition: the partition.
        previous_owner: member that gave it up; -1 for none.
        current_owner: member that keeps it although Kafka assigns it again; -1 for none.
    """

    topic: IntArray
    partition: IntArray
    previous_owner: IntArray
    current_owner: IntArray

    @property
    def keys(self) -> IntArray:
        """Returns the key of each partition, as `PartitionSlices.partition_keys`."""
        return (self.topic << PARTITION_BITS) | self.partition

    def take(self, rows: BoolArray | IntArray) -> UnassignedPartitions:
        """Returns the selected partitions."""
        return UnassignedPartitions(*(column[rows] for column in vars(self).values()))


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
    released = released.below(groups.partitions).expand()
    topics, partitions_unowned = find_unowned(owned, groups.partitions)
    no_member = np.full(len(released) + len(topics), -1, np.int64)
    unassigned = UnassignedPartitions(
        topic=np.concatenate([released.topic, topics, reassigned.topic]),
        partition=np.concatenate([released.first, partitions_unowned, reassigned.first]),
        previous_owner=np.concatenate([released.member, no_member[len(released) :], previous_owner]),
        current_owner=np.append(no_member, reassigned.member),
    )
    return unassigned.take(np.argsort(unassigned.keys, kind="stable"))


def find_unowned(owned: PartitionSlices, partitions: IntArray) -> tuple[IntArray, IntArray]:
    """Returns the partitions without an owner, as topics and partitions.

    If all longer slices of a topic have one step, its partitions are split by residue modulo the step. In each residue
    class, slices are intervals, and the unowned partitions are the gaps between them.
    """
    owned = owned.below(partitions)
    num_owned = np.bincount(owned.topic, owned.count, len(partitions)).astype(np.int64)
    has_unowned = num_owned < partitions
    if not has_unowned.any():
        return np.empty(0, np.int64), np.empty(0, np.int64)
    owned = owned.take(has_unowned[owned.topic])
    steps = np.where(owned.count > 1, owned.step, 0)
    max_step = np.zeros(len(partitions), np.int64)
    np.maximum.at(max_step, owned.topic, steps)
    is_scattered = mask_from_indexes(owned.topic[(steps > 0) & (steps != max_step[owned.topic])], len(partitions))
    owned = owned.take(~is_scattered[owned.topic]).concat(owned.take(is_scattered[owned.topic]).expand())
    step = np.where(is_scattered | (max_step == 0), 1, max_step)

    num_residues = np.where(has_unowned, np.minimum(step, partitions), 0)
    residue_topic = np.repeat(np.arange(len(partitions)), num_residues)
    residue_value = ranges_by_length(num_residues)
    length = -(-(partitions[residue_topic] - residue_value) // step[residue_topic])
    # Each residue class ends with an empty slice after its last partition, so each gap precedes a slice.
    topic = np.concatenate([owned.topic, residue_topic])
    residue = np.concatenate([owned.first % step[owned.topic], residue_value])
    start = np.concatenate([owned.first // step[owned.topic], length])
    end = start + np.concatenate([owned.count, np.zeros(len(residue_value), np.int64)])
    order = np.lexsort((start, residue, topic))
    topic, residue, start, end = topic[order], residue[order], start[order], end[order]
    gap_start = np.append(0, end[:-1])
    gap_start[starts_new_key((topic << PARTITION_BITS) | residue)] = 0
    gap = start - gap_start
    row, unowned = expand_slices(residue + gap_start * step[topic], step[topic], np.maximum(gap, 0))
    return topic[row], unowned


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


def assign_round_robin(
    member_group: IntArray, partition_group: IntArray, num_missing: IntArray, can_exceed: BoolArray, num_groups: int
) -> tuple[IntArray, dict[int, tuple[str, str]]]:
    """Assigns partitions to members (`assignRoundRobin`).

    Args:
        member_group: group of each member; members are sorted by id.
        partition_group: group of each partition, in assignment order.
        num_missing: number of partitions that each member needs to reach the quota.
        can_exceed: members with the quota that can get one more.
        num_groups: number of groups.

    Returns:
        the member of each partition (-1 in rejected groups), and the code and exception by rejected group.
    """
    num_unassigned = np.bincount(partition_group, minlength=num_groups)
    num_needed = np.bincount(member_group, num_missing, num_groups).astype(np.int64)
    member = np.repeat(np.arange(len(num_missing)), num_missing)
    turn = ranges_by_length(num_missing)
    # Members that exceed the quota: those that kept it, by id, then those that were filled up, by their last turn.
    is_filled = num_missing > 0
    above_quota = np.flatnonzero(can_exceed | is_filled)
    above_quota = above_quota[np.lexsort((above_quota, num_missing[above_quota], member_group[above_quota]))]
    is_used = row_numbers(member_group[above_quota]) < (num_unassigned - num_needed)[member_group[above_quota]]
    above_quota = above_quota[is_used]
    capacity = num_needed + np.bincount(member_group[above_quota], minlength=num_groups)
    rejected = {int(group): (KAFKA_FAILS, TOO_FEW_PARTITIONS) for group in np.flatnonzero(num_unassigned < num_needed)}
    rejected |= {int(group): (KAFKA_FAILS, NO_UNFILLED_MEMBERS) for group in np.flatnonzero(num_unassigned > capacity)}
    to_members = np.concatenate([member, above_quota])
    turns = np.concatenate([turn, np.full(len(above_quota), np.iinfo(np.int64).max)])
    # Both inputs are sorted already, and the sort is stable.
    order = np.argsort(turns, kind="stable") if num_groups == 1 else np.lexsort((turns, member_group[to_members]))
    to_members = to_members[order]
    if not rejected:
        return to_members, rejected
    is_planned = ~mask_from_indexes(list(rejected), num_groups)
    planned_members = np.full(len(partition_group), -1, np.int64)
    planned_members[is_planned[partition_group]] = to_members[is_planned[member_group[to_members]]]
    return planned_members, rejected


# --- Result -------------------------------------------------------------------------------------------------


def combine_assignment(
    groups: StickyGroups,
    resolved: ResolvedOwnership,
    kept: PartitionSlices,
    unassigned: UnassignedPartitions,
    to_member: IntArray,
    rejected: dict[int, tuple[str, str]],
    rules: ReleaseRules,
) -> GroupAssignments:
    """Combines the kept and the newly assigned partitions."""
    if rejected:
        is_planned = ~mask_from_indexes(list(rejected), groups.num_groups)
        kept = kept.take(is_planned[groups.member_group[kept.member]])
        unassigned, to_member = unassigned.take(to_member >= 0), to_member[to_member >= 0]
    if (unassigned.current_owner >= 0).any():
        is_new = unassigned.current_owner != to_member
        unassigned, to_member = unassigned.take(is_new), to_member[is_new]
    if len(resolved.shared_partitions):
        shared = kept.take(np.isin(kept.partition_keys, resolved.shared_partitions))
        kept_pairs = set(zip(shared.member.tolist(), shared.partition_keys.tolist(), strict=True))
        assigned_pairs = zip(to_member.tolist(), unassigned.keys.tolist(), strict=True)
        is_new = np.array([pair not in kept_pairs for pair in assigned_pairs], bool)
        unassigned, to_member = unassigned.take(is_new), to_member[is_new]
    is_moved = (unassigned.previous_owner >= 0) & (unassigned.previous_owner != to_member)
    reason = np.where(is_moved, OVER_QUOTA, KEPT)
    withheld = np.zeros(len(to_member), bool)
    if groups.cooperative:
        is_released = unassigned.previous_owner >= 0 if rules.withholds_over_quota else is_moved
        withheld = is_released | np.isin(unassigned.keys, resolved.multiple_owners)
    return GroupAssignments.of(kept, rejected).concat(
        GroupAssignments.of_partitions(to_member, unassigned.topic, unassigned.partition, reason, withheld)
    )
