"""Sticky where all members subscribe to the same topics, as Kafka 2.5.1 to 2.8 plan it (`constrainedAssign`).

Principle: as today (`constrained`), but nobody is told beforehand how many members may have one more than the quota.

Steps
    1. Quota: p partitions over n members give each p // n, or one more where that leaves a remainder. Each member keeps
       so many of what it owns, in the order in which it tells them; one more for all that own it.
    2. Fill: what nobody keeps, by (topic, partition), goes round the members below the quota, by id.
    3. Steal: if that was not enough, those that still lack some, by id, take one each from the members that have one
       more, in the walk of the hash map: the first that each of them keeps.
    4. Rest: if it was too much, one each to members that have just the quota: those that kept it, in the walk of the
       hash map, then those that were filled up, in the order in which they were.

Example: t has 7 partitions; a owns 0 1 2, b owns 3 4 5 and c owns 6, all of one generation. The quota is 2: a and b
keep three. c lacks one and steals 0 from a: a has 1 2, b 3 4 5, c 0 6.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.groups.assignors.release_rules import ReleaseRules
from spark_assign.groups.assignors.sticky.constrained import (
    UnassignedPartitions,
    drop_contested,
    find_unassigned,
    to_slices,
)
from spark_assign.groups.assignors.sticky.ownership_conflicts import ResolvedOwnership
from spark_assign.groups.assignors.sticky.retained_partitions import (
    TopicOrder,
    first_in_owned_order,
    keep_in_owned_order,
)
from spark_assign.groups.assignors.sticky.sticky_groups import (
    AT_CAPACITY,
    KEPT,
    OVER_QUOTA,
    UNDER_CAPACITY,
    StickyAssignment,
    StickyGroups,
)
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.partition_slices import PARTITION_BITS, PartitionSlices
from spark_assign.numeric.segmented_arrays import ranges_by_length, row_numbers


@dataclass(frozen=True)
class _Quota:
    """Of each member what it owns, keeps and lacks, and the least and the most that its group's members are to have."""

    num_owned: IntArray
    num_kept: IntArray
    num_missing: IntArray
    min_quota: IntArray
    max_quota: IntArray


def plan_constrained_2_8(
    groups: StickyGroups, claims: ResolvedOwnership, told: PartitionSlices | TopicOrder, rules: ReleaseRules
) -> StickyAssignment:
    """Plan groups whose members all subscribe to the same topics; arguments: `constrained.plan_constrained`."""
    owned = drop_contested(claims)
    quota = _compute_quotas(groups, np.bincount(owned.member, owned.count, len(groups.member_group)).astype(np.int64))
    kept, given_up = keep_in_owned_order(owned, quota.num_owned, quota.num_kept, told)
    left = find_unassigned(groups, owned, kept, given_up, kept.take(np.empty(0, np.int64)), claims.shared_partitions)
    group = groups.topic_group[left.topic]
    filled = _fill_to_min_quota(groups, quota, np.bincount(group, minlength=groups.num_groups))
    stolen, thief, poor = _steal(groups, quota, filled, kept, told)
    more, rich = _assign_remaining(groups, quota, np.bincount(group, minlength=groups.num_groups))
    refused = dict.fromkeys(poor, UNDER_CAPACITY) | dict.fromkeys(rich, AT_CAPACITY)

    fine = np.ones(groups.num_groups, bool)
    fine[list(refused)] = False
    filled, more = (members[fine[groups.member_group[members]]] for members in (filled, more))
    to_members = np.append(filled, more)
    to_members = to_members[np.argsort(groups.member_group[to_members], kind="stable")]
    left, kept = left.take(fine[group]), kept.take(fine[groups.member_group[kept.member]])
    some = fine[groups.member_group[thief]]
    return _combine_assignment(groups, claims, kept, left, to_members, stolen.take(some), thief[some], refused)


def _compute_quotas(groups: StickyGroups, owned: IntArray) -> _Quota:
    group = groups.member_group
    members = np.bincount(group, minlength=groups.num_groups)
    total = np.bincount(groups.topic_group, groups.partitions, groups.num_groups).astype(np.int64)
    least = (total // members)[group]
    most = least + (total % members > 0)[group]
    return _Quota(owned, np.minimum(owned, most), np.maximum(least - owned, 0), least, most)


def _fill_to_min_quota(groups: StickyGroups, quota: _Quota, dealt: IntArray) -> IntArray:
    """Step 2: who takes the partitions of each group, one after the other; `dealt`, how many there are of each."""
    member = np.repeat(np.arange(len(quota.num_missing)), quota.num_missing)
    to_members = member[np.lexsort((ranges_by_length(quota.num_missing), groups.member_group[member]))]
    return to_members[row_numbers(groups.member_group[to_members]) < dealt[groups.member_group[to_members]]]


def _steal(
    groups: StickyGroups, quota: _Quota, filled: IntArray, kept: PartitionSlices, told: PartitionSlices | TopicOrder
) -> tuple[PartitionSlices, IntArray, list[int]]:
    """Step 3: what is stolen, by whom, and the groups in which there is too little to steal."""
    group = groups.member_group
    still = quota.num_missing - np.bincount(filled, minlength=len(quota.num_missing))
    thief = np.repeat(np.arange(len(still)), still)
    have_most = np.flatnonzero((quota.num_kept == quota.max_quota) & (quota.num_owned >= quota.min_quota))
    line = have_most[np.lexsort((groups.owned_hash_order[have_most], group[have_most]))]
    wanted = np.bincount(group[thief], minlength=groups.num_groups)
    poor = np.flatnonzero(wanted > np.bincount(group[line], minlength=groups.num_groups))
    from_member = line[row_numbers(group[line]) < wanted[group[line]]]
    thief = thief[~np.isin(group[thief], poor)]
    from_member = from_member[~np.isin(group[from_member], poor)]
    first = first_in_owned_order(kept.take(np.isin(kept.member, from_member)), told)
    return first.take(np.searchsorted(first.member, from_member)), thief, poor.tolist()


def _assign_remaining(groups: StickyGroups, quota: _Quota, dealt: IntArray) -> tuple[IntArray, list[int]]:
    """Step 4: who takes one more, group by group, and the groups in which there is too much left."""
    group = groups.member_group
    rest = np.maximum(dealt - np.bincount(group, quota.num_missing, groups.num_groups).astype(np.int64), 0)
    have_least = np.flatnonzero((quota.num_kept == quota.min_quota) | (quota.num_missing > 0))
    lacked = quota.num_missing[have_least]
    line = have_least[
        np.lexsort((np.where(lacked > 0, have_least, groups.owned_hash_order[have_least]), lacked, group[have_least]))
    ]
    line = line[row_numbers(group[line]) < rest[group[line]]]
    return line, np.flatnonzero(rest > np.bincount(group[line], minlength=groups.num_groups)).tolist()


def _combine_assignment(
    groups: StickyGroups,
    claims: ResolvedOwnership,
    kept: PartitionSlices,
    left: UnassignedPartitions,
    to_members: IntArray,
    stolen: PartitionSlices,
    thief: IntArray,
    refused: dict[int, str],
) -> StickyAssignment:
    """What is kept, dealt and stolen, together."""
    if len(stolen):
        near = np.isin(_member_topic_keys(kept), _member_topic_keys(stolen))
        robbed, kept = kept.take(near).expand(), kept.take(~near)
        _, number = np.unique(np.append(robbed.partition_keys, stolen.partition_keys), return_inverse=True)
        each = number * len(groups.member_group) + np.append(robbed.member, stolen.member)
        kept = kept.concat(robbed.take(~np.isin(each[: len(robbed)], each[len(robbed) :])))
    keys = np.append((left.topic << PARTITION_BITS) | left.partition, stolen.partition_keys)
    owner, to_member = np.append(left.previous_owner, stolen.member), np.append(to_members, thief)
    withheld = np.zeros(len(to_member), bool)
    if groups.cooperative:
        withheld = (owner >= 0) | np.isin(keys, claims.multiple_owners)
        # It is noted once for a partition: one that is stolen from two members is withheld from the last thief only.
        last = np.unique(keys[::-1], return_index=True)[1]
        withheld[np.delete(np.arange(len(keys)), len(keys) - 1 - last)] = False
    reason = np.where((owner >= 0) & (owner != to_member), OVER_QUOTA, KEPT)
    runs, reason, withheld = to_slices(
        to_member, keys >> PARTITION_BITS, keys & ((1 << PARTITION_BITS) - 1), reason, withheld
    )
    nothing = np.zeros(len(kept), np.int64)
    return StickyAssignment(
        kept.concat(runs), np.append(nothing, reason), np.append(nothing.astype(bool), withheld), refused
    )


def _member_topic_keys(runs: PartitionSlices) -> IntArray:
    return (runs.member << PARTITION_BITS) | runs.topic
