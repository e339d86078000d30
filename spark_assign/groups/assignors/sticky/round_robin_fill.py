"""Assigns unassigned partitions round robin (`assignRoundRobin`; step 3 of `constrained`).

Kafka assigns them one by one, by (topic, partition), to the next member, by id, that is below the quota, and then to
the members that can exceed it. So the member of a partition follows from its rank among the unassigned partitions, and
slices are assigned as a whole.

Steps
    1. Rounds: as long as no member reaches its quota, the same members get one partition each in every round. The ranks
       of these rounds are a phase. In the last phase, each member that exceeds the quota gets one partition.
    2. Cut the slices where a phase starts.
    3. In a phase of n members, a slice with ranks that differ by d returns to the same member after n / gcd(n, d)
       partitions. So each of these members gets a slice with that many times the step.

Example: C0 lacks three partitions, C1 and C2 lack one. Unassigned are t0, t2, t4, t6, t8.

    phases    ranks 0 to 2: [C0, C1, C2]    ranks 3 to 4: [C0]
    target    C0: [t0], [t6, t8]            C1: [t2]    C2: [t4]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.groups.assignors.sticky.sticky_groups import KAFKA_FAILS, NO_UNFILLED_MEMBERS, TOO_FEW_PARTITIONS
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PARTITION_BITS, PartitionSlices, mask_from_indexes
from spark_assign.numeric.ranked_slices import rank_partitions
from spark_assign.numeric.segmented_arrays import expand_slices, ranges_by_length, row_numbers, starts_new_key


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
