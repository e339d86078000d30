"""Uniform, where all members of a group subscribe to the same topics (Kafka's `UniformHomogeneousAssignmentBuilder`).

Principles, in this priority
    1. Balance: p partitions over n members give each p / n, and p % n of them one more (`extra`).
    2. Stickiness: everybody keeps what it has as far as its quota allows. An extra goes to members that have it
       already; what is left of them goes to the last members of the group's order.
Racks play no part.

Example: three members, t0 with 4 partitions. C0 had all of it, C1 and C2 are new; quota 1, extra 1.
    before                       after
    C0: [t0p0 t0p1 t0p2 t0p3]    C0: [t0p0 t0p1]   keeps its quota and the extra
    C1: []                       C1: [t0p2]
    C2: []                       C2: [t0p3]

Steps
    1. Targets: who has more than the quota holds an extra, in order, as long as there are extras. Kafka goes from
       member to member, and from the moment when only as many members come as there are extras everybody holds one.
       That moment is when so many members without it have passed as shall have none in the end.
    2. Keep: of what a member had, in the order of its map and sets, as much as its target says.
    3. Free list: what nobody had, topic by topic; after it what step 2 took away, member by member.
    4. Deal: members below their target, in order, take what they lack from the front of that list.

Kafka walks over single partitions; here steps 1 and 2 are sums over runs, many groups side by side. 4.1 to 4.4 decide
so; before, the extras went to the first members.
"""

from __future__ import annotations

import numpy as np

from spark_assign.groups.assignors.server.target_assignments import TargetAssignments, find_unassigned, split_slices
from spark_assign.groups.assignors.sticky.constrained import to_slices
from spark_assign.groups.assignors.sticky.sticky_groups import KEPT, OVER_QUOTA
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices
from spark_assign.numeric.segmented_arrays import exclusive_sum


def assign_homogeneous(
    group: IntArray, topic_group: IntArray, partitions: IntArray, previous: PartitionSlices
) -> TargetAssignments:
    """The target assignment of groups in each of which everybody subscribes to all topics.

    Args:
        group: of each member, ascending; the members of a group in the order in which the assignor sees them.
        topic_group: of each topic, ascending; the topics of a group in the walk of the hash set of their ids.
        partitions: of each topic.
        previous: the members' target so far, ascending by member; of a member in the order of its map of topics, and
            within a topic in the order of its set of partitions. No partition twice, none beyond its topic's count.
    """
    target = compute_quotas(group, topic_group, partitions, np.bincount(previous.member, previous.count, len(group)))
    first_run = np.searchsorted(previous.member, previous.member)
    before = exclusive_sum(previous.count, first_run)
    kept, taken = split_slices(previous, np.clip(target[previous.member] - before, 0, previous.count))
    free = find_unassigned(previous, partitions)
    listed = free.concat(taken)
    order = np.argsort(topic_group[listed.topic], kind="stable")
    lacking = target - np.bincount(kept.member, kept.count, len(group)).astype(np.int64)
    dealt, run = _assign_unassigned(listed.take(order), lacking)
    reason = np.where(order[run] < len(free), KEPT, OVER_QUOTA)
    one = dealt.count == 1
    some = dealt.take(one)
    singles, why, _ = to_slices(some.member, some.topic, some.first, reason[one], np.zeros(len(some), bool))
    runs = kept.concat(dealt.take(~one)).concat(singles)
    return TargetAssignments(runs, np.concatenate([np.full(len(kept), KEPT), reason[~one], why]), len(kept), free)


def compute_quotas(group: IntArray, topic_group: IntArray, partitions: IntArray, had: IntArray) -> IntArray:
    """Step 1: how many partitions each member shall have."""
    number = int(group[-1]) + 1 if len(group) else 0
    size = np.bincount(group, minlength=number)
    total = np.bincount(topic_group, partitions, number).astype(np.int64)
    quota, extra = np.divmod(total, np.maximum(size, 1))
    more: BoolArray = had > quota[group]
    first = np.searchsorted(group, group)
    holds = more & (exclusive_sum(more.astype(np.int64), first) < extra[group])
    holds |= exclusive_sum((~more).astype(np.int64), first) >= (size - extra)[group]
    return quota[group] + holds


def _assign_unassigned(listed: PartitionSlices, lacking: IntArray) -> tuple[PartitionSlices, IntArray]:
    """Step 4: the free list, cut where a run of it ends or a member has what it lacks.

    Returns:
        what members get, and of each piece the run that it is cut from.
    """
    to_members = np.flatnonzero(lacking)
    ends, full = np.cumsum(listed.count), np.cumsum(lacking[to_members])
    end = np.union1d(ends, full)
    begin = np.append(0, end)[:-1]
    run, to_member = np.searchsorted(ends, begin, "right"), to_members[np.searchsorted(full, begin, "right")]
    first = listed.first[run] + (begin - (ends - listed.count)[run]) * listed.step[run]
    return PartitionSlices(to_member, listed.topic[run], first, listed.step[run], end - begin), run
