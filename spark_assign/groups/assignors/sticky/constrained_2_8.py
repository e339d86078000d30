"""Assigns homogeneous groups as Kafka 2.5.1 to 2.8 does (`constrainedAssign`).

Principles: as in `constrained`, but the number of members that exceed the quota isn't computed beforehand.

Steps
    1. Quota: with p partitions and n members, the quota is p // n, or one more if there is a remainder. Each member
       keeps up to that many of its partitions, in the order in which it reports them.
    2. Fill: the unassigned partitions, by (topic, partition), go round robin, by member id, to the members below p //
    n. 3. Steal: if there weren't enough, each member that is still below, by id, takes one partition from a member with
       one more, in hash order: the first partition that this member keeps.
    4. Rest: if there were too many, one goes to each member with exactly p // n: first those that kept them, in hash
       order, then those that were filled up, in this order.

Example: topic t has seven partitions, all owned in one generation. The quota is 2; C0 and C1 keep three, and C2 steals
t0 from C0.

    owned     C0: [t0, t1, t2]    C1: [t3, t4, t5]    C2: [t6]
    target    C0: [t1, t2]        C1: [t3, t4, t5]    C2: [t0, t6]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.groups.assignors.release_rules import ReleaseRules
from spark_assign.groups.assignors.sticky.constrained import drop_contested, find_unassigned
from spark_assign.groups.assignors.sticky.ownership_conflicts import ResolvedOwnership
from spark_assign.groups.assignors.sticky.retained_partitions import (
    OwnedOrder,
    first_in_owned_order,
    keep_in_owned_order,
)
from spark_assign.groups.assignors.sticky.sticky_groups import AT_CAPACITY, KAFKA_FAILS, UNDER_CAPACITY, StickyGroups
from spark_assign.groups.kernel.group_specs import KEPT, OVER_QUOTA, GroupAssignments
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.partition_slices import PARTITION_BITS, PartitionSlices, member_partition_keys, split_keys
from spark_assign.numeric.segmented_arrays import ranges_by_length, row_numbers


@dataclass(frozen=True)
class _Quota:
    """The quota of each member: partitions that it owns, keeps, and lacks, and the minimum and maximum of its group."""

    num_owned: IntArray
    num_kept: IntArray
    num_missing: IntArray
    min_quota: IntArray
    max_quota: IntArray


def plan_constrained_2_8(
    groups: StickyGroups, resolved: ResolvedOwnership, owned_order: OwnedOrder, rules: ReleaseRules
) -> GroupAssignments:
    """Returns the assignment of groups whose members all subscribe to the same topics (see `plan_constrained`)."""
    owned = drop_contested(resolved)
    quota = _compute_quotas(groups, np.bincount(owned.member, owned.count, len(groups.member_group)).astype(np.int64))
    kept, released = keep_in_owned_order(owned, quota.num_owned, quota.num_kept, owned_order)
    unassigned = find_unassigned(
        groups, owned, kept, released, kept.take(np.empty(0, np.int64)), resolved.shared_partitions
    ).slices.expand()
    unassigned = unassigned.take(np.argsort(unassigned.partition_keys))
    group = groups.topic_group[unassigned.topic]
    filled = _fill_to_min_quota(groups, quota, np.bincount(group, minlength=groups.num_groups))
    stolen, thief, too_few = _steal(groups, quota, filled, kept, owned_order)
    above_quota, too_many = _assign_remaining(groups, quota, np.bincount(group, minlength=groups.num_groups))
    rejected = dict.fromkeys(too_few, (KAFKA_FAILS, UNDER_CAPACITY)) | dict.fromkeys(
        too_many, (KAFKA_FAILS, AT_CAPACITY)
    )

    is_planned = np.ones(groups.num_groups, bool)
    is_planned[list(rejected)] = False
    filled, above_quota = (members[is_planned[groups.member_group[members]]] for members in (filled, above_quota))
    to_members = np.append(filled, above_quota)
    to_members = to_members[np.argsort(groups.member_group[to_members], kind="stable")]
    unassigned, kept = unassigned.take(is_planned[group]), kept.take(is_planned[groups.member_group[kept.member]])
    is_thief_planned = is_planned[groups.member_group[thief]]
    return _combine_assignment(
        groups, resolved, kept, unassigned, to_members, stolen.take(is_thief_planned), thief[is_thief_planned], rejected
    )


def _compute_quotas(groups: StickyGroups, num_owned: IntArray) -> _Quota:
    """Returns the quota of each member (step 1)."""
    group = groups.member_group
    members = np.bincount(group, minlength=groups.num_groups)
    total = np.bincount(groups.topic_group, groups.partitions, groups.num_groups).astype(np.int64)
    min_quota = (total // members)[group]
    max_quota = min_quota + (total % members > 0)[group]
    return _Quota(
        num_owned, np.minimum(num_owned, max_quota), np.maximum(min_quota - num_owned, 0), min_quota, max_quota
    )


def _fill_to_min_quota(groups: StickyGroups, quota: _Quota, num_unassigned: IntArray) -> IntArray:
    """Returns the members that get the first unassigned partitions, given their number per group (step 2)."""
    member = np.repeat(np.arange(len(quota.num_missing)), quota.num_missing)
    to_members = member[np.lexsort((ranges_by_length(quota.num_missing), groups.member_group[member]))]
    return to_members[row_numbers(groups.member_group[to_members]) < num_unassigned[groups.member_group[to_members]]]


def _steal(
    groups: StickyGroups, quota: _Quota, filled: IntArray, kept: PartitionSlices, owned_order: OwnedOrder
) -> tuple[PartitionSlices, IntArray, list[int]]:
    """Returns the stolen partitions, their new members, and the groups with too few partitions to steal (step 3)."""
    group = groups.member_group
    num_missing = quota.num_missing - np.bincount(filled, minlength=len(quota.num_missing))
    thief = np.repeat(np.arange(len(num_missing)), num_missing)
    at_max_quota = np.flatnonzero((quota.num_kept == quota.max_quota) & (quota.num_owned >= quota.min_quota))
    victims = at_max_quota[np.lexsort((groups.owned_hash_order[at_max_quota], group[at_max_quota]))]
    num_wanted = np.bincount(group[thief], minlength=groups.num_groups)
    too_few = np.flatnonzero(num_wanted > np.bincount(group[victims], minlength=groups.num_groups))
    from_member = victims[row_numbers(group[victims]) < num_wanted[group[victims]]]
    thief = thief[~np.isin(group[thief], too_few)]
    from_member = from_member[~np.isin(group[from_member], too_few)]
    first = first_in_owned_order(kept.take(np.isin(kept.member, from_member)), owned_order)
    return first.take(np.searchsorted(first.member, from_member)), thief, too_few.tolist()


def _assign_remaining(groups: StickyGroups, quota: _Quota, num_unassigned: IntArray) -> tuple[IntArray, list[int]]:
    """Returns the members that get one more, group by group, and the groups with too many partitions (step 4)."""
    group = groups.member_group
    num_remaining = np.maximum(
        num_unassigned - np.bincount(group, quota.num_missing, groups.num_groups).astype(np.int64), 0
    )
    at_min_quota = np.flatnonzero((quota.num_kept == quota.min_quota) | (quota.num_missing > 0))
    num_missing = quota.num_missing[at_min_quota]
    turn = np.where(num_missing > 0, at_min_quota, groups.owned_hash_order[at_min_quota])
    members = at_min_quota[np.lexsort((turn, num_missing, group[at_min_quota]))]
    members = members[row_numbers(group[members]) < num_remaining[group[members]]]
    return members, np.flatnonzero(num_remaining > np.bincount(group[members], minlength=groups.num_groups)).tolist()


def _combine_assignment(
    groups: StickyGroups,
    resolved: ResolvedOwnership,
    kept: PartitionSlices,
    unassigned: PartitionSlices,
    to_members: IntArray,
    stolen: PartitionSlices,
    thief: IntArray,
    rejected: dict[int, tuple[str, str]],
) -> GroupAssignments:
    """Combines the kept, the newly assigned, and the stolen partitions."""
    if len(stolen):
        is_near = np.isin(_member_topic_keys(kept), _member_topic_keys(stolen))
        candidates, kept = kept.take(is_near).expand(), kept.take(~is_near)
        kept = kept.concat(candidates.take(~np.isin(*member_partition_keys(candidates, stolen))))
    keys = np.append(unassigned.partition_keys, stolen.partition_keys)
    owner, to_member = np.append(unassigned.member, stolen.member), np.append(to_members, thief)
    withheld = np.zeros(len(to_member), bool)
    if groups.cooperative:
        withheld = (owner >= 0) | np.isin(keys, resolved.multiple_owners)
        # A partition is recorded once: one that is stolen from two members is withheld only from the last thief.
        last = np.unique(keys[::-1], return_index=True)[1]
        withheld[np.delete(np.arange(len(keys)), len(keys) - 1 - last)] = False
    reason = np.where((owner >= 0) & (owner != to_member), OVER_QUOTA, KEPT)
    return GroupAssignments.of(kept, rejected).concat(
        GroupAssignments.of_partitions(to_member, *split_keys(keys), reason, withheld)
    )


def _member_topic_keys(slices: PartitionSlices) -> IntArray:
    return (slices.member << PARTITION_BITS) | slices.topic
