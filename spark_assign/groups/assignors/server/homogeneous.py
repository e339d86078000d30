"""Uniform for homogeneous groups (Kafka's `UniformHomogeneousAssignmentBuilder`).

Principles, in order of priority
    1. Balance: with p partitions and n members, each member gets p // n partitions, and p % n of them get one more (an
       extra).
    2. Stickiness: members keep their partitions as far as their quota allows. Extras go to members that exceed the
       quota already; the remaining ones go to the last members in assignment order.
Racks are ignored.

Example: topic t0 has four partitions, C1 and C2 join. The quota is 1, with one extra.

    before    C0: [t0p0, t0p1, t0p2, t0p3]    C1: []        C2: []
    after     C0: [t0p0, t0p1]                C1: [t0p2]    C2: [t0p3]    (C0 keeps its quota and the extra)

Steps
    1. Quotas: in assignment order, members that exceed the quota get an extra while there are any. Kafka iterates over
       members, and when only as many members remain as there are extras, each of them gets one. This is the case after
       n - p % n members without an extra.
    2. Keep: each member keeps its first partitions, in the order of its map and sets, up to its quota.
    3. Unassigned: partitions without an owner, topic by topic, then those revoked in step 2, member by member.
    4. Fill: members below their quota, in assignment order, take partitions from the front of this list.

Kafka iterates over partitions. Here, steps 1 and 2 are sums over slices, for many groups at once. This is the algorithm
of Kafka 4.0.1 to 4.4; in 4.0.0, the first members in assignment order get the extras (before KAFKA-18688).
"""

from __future__ import annotations

import numpy as np

from spark_assign.groups.assignors.server.target_assignments import TargetAssignments, find_unassigned
from spark_assign.groups.assignors.sticky.retained_partitions import split_slices
from spark_assign.groups.kernel.group_specs import KEPT, OVER_QUOTA
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices
from spark_assign.numeric.segmented_arrays import exclusive_sum, first_rows, row_numbers, sorted_union


def assign_homogeneous(
    group: IntArray,
    topic_group: IntArray,
    partitions: IntArray,
    previous: PartitionSlices,
    *,
    extras_to_first: bool = False,
) -> TargetAssignments:
    """Returns the target assignment of groups in which each member subscribes to all topics.

    Args:
        group: group of each member, ascending. Members of a group are in assignment order.
        topic_group: group of each topic, ascending. Topics of a group are in the order of the hash set of their ids.
        partitions: number of partitions of each topic.
        previous: previous target, ascending by member; topics in the order of the member's map, partitions in the order
            of its sets. No partition occurs twice or doesn't exist.
        extras_to_first: see `compute_quotas`.
    """
    num_owned = np.bincount(previous.member, previous.count, len(group))
    quota = compute_quotas(group, topic_group, partitions, num_owned, extras_to_first=extras_to_first)
    num_before = exclusive_sum(previous.count, first_rows(previous.member))
    kept, revoked = split_slices(previous, np.clip(quota[previous.member] - num_before, 0, previous.count))
    unowned = find_unassigned(previous, partitions)
    unassigned = unowned.concat(revoked)
    order = np.argsort(topic_group[unassigned.topic], kind="stable")
    num_missing = quota - np.bincount(kept.member, kept.count, len(group)).astype(np.int64)
    assigned, slice_index = _assign_unassigned(unassigned.take(order), num_missing)
    reason = np.where(order[slice_index] < len(unowned), KEPT, OVER_QUOTA)
    reason = np.append(np.full(len(kept), KEPT), reason)
    return TargetAssignments(kept.concat(assigned), reason, len(kept), unowned)


def compute_quotas(
    group: IntArray, topic_group: IntArray, partitions: IntArray, num_owned: IntArray, *, extras_to_first: bool = False
) -> IntArray:
    """Returns the number of partitions that each member gets, given the number that it had (step 1).

    With `extras_to_first`, the first members get the extras, as in Kafka 4.0.0.
    """
    num_groups = int(group[-1]) + 1 if len(group) else 0
    size = np.bincount(group, minlength=num_groups)
    total = np.bincount(topic_group, partitions, num_groups).astype(np.int64)
    quota, extra = np.divmod(total, np.maximum(size, 1))
    is_above: BoolArray = num_owned > quota[group]
    first = first_rows(group)
    if extras_to_first:
        return quota[group] + (row_numbers(group) < extra[group])
    has_extra = is_above & (exclusive_sum(is_above.astype(np.int64), first) < extra[group])
    has_extra |= exclusive_sum((~is_above).astype(np.int64), first) >= (size - extra)[group]
    return quota[group] + has_extra


def _assign_unassigned(unassigned: PartitionSlices, num_missing: IntArray) -> tuple[PartitionSlices, IntArray]:
    """Splits the unassigned slices at their ends, and where a member reaches its quota (step 4).

    Returns:
        what members get, and for each slice the index of the input slice that it is a part of.
    """
    to_members = np.flatnonzero(num_missing)
    ends, filled_at = np.cumsum(unassigned.count), np.cumsum(num_missing[to_members])
    end = sorted_union(ends, filled_at)
    start = np.append(0, end)[:-1]
    slice_index = np.searchsorted(ends, start, "right")
    to_member = to_members[np.searchsorted(filled_at, start, "right")]
    first = (
        unassigned.first[slice_index] + (start - (ends - unassigned.count)[slice_index]) * unassigned.step[slice_index]
    )
    return PartitionSlices(
        to_member, unassigned.topic[slice_index], first, unassigned.step[slice_index], end - start
    ), slice_index
