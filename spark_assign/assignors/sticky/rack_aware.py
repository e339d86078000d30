"""Assigns homogeneous groups with racks (`AbstractStickyAssignor.RackInfo`, KIP-881).

Principles, in order of priority
    1. Balance: the numbers of partitions of two members differ by at most one.
    2. Racks: a member gets partitions with a replica in its rack.
    3. Stickiness: each member keeps its partitions.

Steps
    1. Keep: each member gives up the partitions without a replica in its rack, and keeps as many others as its quota
       allows.
    2. Match racks: the unassigned partitions, those with the fewest members in their racks first, go to a member in
       whose rack they have a replica: round robin, by id, to the members below the quota, then to those that can exceed
       the quota.
    3. Rest: the remaining partitions are assigned without racks.

Example: t0 and t1 have replicas in rack x only, t2 and t3 in y only. C0 (rack x) owns t0 and t2; C1 (rack y) joins.

    keep           C0: [t0]        C1: []
    match racks    C0: [t0, t1]    C1: [t2, t3]

Up to 3.7.0 (before KAFKA-15170), step 2 doesn't count the members that exceed the quota. If there are too many, other
members stay below the quota, and Kafka's class throws. Cooperative-sticky doesn't withhold there what was given up for
its rack.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spark_assign.assignors.group_specs import KEPT, OVER_QUOTA, RACK_MISMATCH, GroupAssignments
from spark_assign.assignors.range import racks_matter
from spark_assign.assignors.release_rules import LATEST_RULES, ReleaseRules
from spark_assign.assignors.sticky.constrained import (
    MemberQuota,
    assign_round_robin,
    compute_quotas,
    drop_contested,
)
from spark_assign.assignors.sticky.sticky_groups import (
    BELOW_MIN_QUOTA,
    TOO_FEW_PARTITIONS,
    AssignorError,
    OwnedOrder,
    ResolvedOwnership,
    StickyGroups,
    keep_owned,
)
from spark_assign.numeric.arrays import (
    PARTITION_BITS,
    BoolArray,
    IntArray,
    PartitionSlices,
    ranges_by_length,
    split_keys,
    starts_new_key,
)


@dataclass(frozen=True)
class Racks:
    """Racks of the members and replicas of one group.

    Attributes:
        member_rack: rack of each member; -1 if unknown.
        rack_sets: sets of racks in which a partition has replicas.
        partition_rack_set: topic to the index into `rack_sets` of each partition.
    """

    member_rack: IntArray
    rack_sets: Sequence[frozenset[int]]
    partition_rack_set: Mapping[int, IntArray]

    @property
    def matter(self) -> bool:
        """Returns whether racks affect the assignment (`AbstractPartitionAssignor.useRackAwareAssignment`)."""
        used = {index for indexes in self.partition_rack_set.values() for index in np.unique(indexes).tolist()}
        member_racks = set(self.member_rack[self.member_rack >= 0].tolist())
        return racks_matter([self.rack_sets[index] for index in used], member_racks)

    def rack_set_of(self, topic: IntArray, partition: IntArray) -> IntArray:
        """Returns the rack set of each partition; -1 for partitions that don't exist."""
        known, lengths = self.partition_rack_set, np.zeros(int(topic.max(initial=-1)) + 1, np.int64)
        topics = [at for at in sorted(known) if at < len(lengths)]
        lengths[topics] = [len(known[at]) for at in topics]
        place = (np.cumsum(lengths) - lengths)[topic] + partition
        exists = partition < lengths[topic]
        rack_set = np.full(len(topic), -1, np.int64)
        rack_set[exists] = np.concatenate([rack_set[:0], *(known[at] for at in topics)])[place[exists]]
        return rack_set

    def rack_matched(self) -> BoolArray:
        """Returns a mask, by rack set and member: whether the member has no rack, or one of the set. The last row is
        the empty set."""
        max_rack = max(self.member_rack.max(initial=0), *(max(racks, default=0) for racks in self.rack_sets))
        is_matched = np.zeros(
            (len(self.rack_sets) + 1, int(max_rack) + 2), bool
        )  # the last column is for members without a rack
        for index, racks in enumerate(self.rack_sets):
            is_matched[index, list(racks)] = True
        is_matched[:, -1] = True
        return is_matched[:, self.member_rack]


def plan_with_racks(
    groups: StickyGroups,
    resolved: ResolvedOwnership,
    racks: Racks,
    owned_order: OwnedOrder,
    rules: ReleaseRules = LATEST_RULES,
) -> GroupAssignments:
    """Returns the assignment of one homogeneous group in which racks matter.

    Args:
        groups: the one group.
        resolved: its owned partitions, after conflicts are resolved.
        racks: racks of members and replicas.
        owned_order: see `keep_owned`.
        rules: rules of a release.
    """
    size = len(groups.member_group)
    rows = drop_contested(resolved).expand()
    is_mismatched = ~racks.rack_matched()[racks.rack_set_of(rows.topic, rows.first), rows.member]
    owned = rows.take(~is_mismatched)
    quota = compute_quotas(groups, np.bincount(owned.member, minlength=size))
    kept, over_quota = keep_owned(owned, quota.num_owned, quota.num_kept, owned_order, rules)
    released = over_quota.concat(rows.take(is_mismatched))
    owner_of = dict(zip(released.partition_keys.tolist(), released.member.tolist(), strict=True))
    mismatched_keys = np.sort(rows.partition_keys[is_mismatched])

    unassigned = _find_unassigned(groups, kept)
    rack_set = racks.rack_set_of(*split_keys(unassigned))
    # `RackInfo.sortPartitionsByRackConsumers`: first the partitions that the fewest members have in their racks.
    #
    # Example: t0 has replicas in x, t1 in x and y; C0 is in x, C1 in y. Of the rack sets {x} and {x, y}:
    #     rack_matched [[True, False], [True, True]], and a row for the empty set    num_matched [1, 2, 0]
    num_matched = (racks.rack_matched() & (racks.member_rack >= 0)).sum(axis=1)
    unassigned, rack_set = (
        column[np.argsort(num_matched[rack_set], kind="stable")] for column in (unassigned, rack_set)
    )
    matcher = _RackMatcher(racks, quota, groups, counts=not rules.racks_exceed_quota)
    next_member = np.array([matcher.next_member(index) for index in rack_set.tolist()], np.int64)
    unmatched = np.flatnonzero(next_member < 0)
    next_member[unmatched] = _assign_unmatched(matcher, len(unmatched))

    owner = np.array([owner_of.get(key, -1) for key in unassigned.tolist()], np.int64)
    is_moved = (owner >= 0) & (owner != next_member)
    reason = np.where(is_moved, np.where(np.isin(unassigned, mismatched_keys), RACK_MISMATCH, OVER_QUOTA), KEPT)
    withheld = np.zeros(len(unassigned), bool)
    if groups.cooperative:
        is_released = np.isin(unassigned, over_quota.partition_keys) if rules.withholds_over_quota else is_moved
        withheld = is_released | np.isin(unassigned, resolved.multiple_owners)
    no_reason = np.full(len(kept), KEPT)
    return GroupAssignments.of_partitions(
        np.append(kept.member, next_member),
        *split_keys(np.append(kept.partition_keys, unassigned)),
        np.append(no_reason, reason),
        np.append(no_reason > KEPT, withheld),
    )


def _find_unassigned(groups: StickyGroups, kept: PartitionSlices) -> IntArray:
    """Returns the keys of the unassigned partitions.

    All partitions after a kept one that doesn't exist, or that two members keep, count as unassigned.
    """
    topic = np.repeat(np.arange(len(groups.partitions)), groups.partitions)
    all_keys = (topic << PARTITION_BITS) | ranges_by_length(groups.partitions)
    kept = kept.take(np.argsort(kept.partition_keys))
    keys = kept.partition_keys
    stops = np.flatnonzero((kept.first >= groups.partitions[kept.topic]) | ~starts_new_key(keys))
    if len(stops):
        keys = keys[: stops[0]]
    return all_keys[~np.isin(all_keys, keys)]


class _RackMatcher:
    """Assigns partitions to members in a matching rack (step 2).

    Members below the quota are on a ring by id; members that can exceed the quota are in a queue; both are kept by
    rack.
    """

    def __init__(self, racks: Racks, quota: MemberQuota, groups: StickyGroups, *, counts: bool) -> None:
        """Initializes the ring and the queue. `counts`: whether members that exceed the quota are counted."""
        self.racks = racks
        self.counts = counts
        self.has = has = quota.num_kept.copy()
        self.least = int(quota.min_quota[0])
        extra = int(groups.partitions.sum()) % len(has)
        self.most = self.least + (extra > 0)
        self.room = extra - int((has > self.least).sum())
        self.pointer = 0
        self.below: dict[int, list[int]] = {}
        self.exactly: dict[int, deque[tuple[int, int]]] = {}
        self.order: list[int] = []
        """Members with exactly the quota that can get one more, in the order in which they reached it."""
        self.full: set[int] = set()
        for member in np.flatnonzero(has < self.least).tolist():
            self.below.setdefault(int(racks.member_rack[member]), []).append(member)
        for member in np.flatnonzero(quota.can_exceed_min_quota).tolist():
            self._queue(member)

    def next_member(self, rack_set: int) -> int:
        """Returns the member that gets a partition with this rack set; -1 if no member in these racks has room."""
        racks = self.racks.rack_sets[rack_set] if rack_set >= 0 else frozenset()
        member = self._next_below(racks)
        if member >= 0:
            self.has[member] += 1
            self.pointer = member + 1
            if self.has[member] >= self.least:
                ring = self.below[int(self.racks.member_rack[member])]
                del ring[bisect_left(ring, member)]
                if self.has[member] < self.most and self.can_exceed:
                    self._queue(member)
            return member
        waiting = [self.exactly[rack][0] for rack in racks if self.exactly.get(rack)]
        if not waiting or not self.can_exceed:
            return -1
        _, member = min(waiting)
        self.exactly[int(self.racks.member_rack[member])].popleft()
        self.full.add(member)
        self.has[member] += 1
        self.room -= self.counts
        return member

    @property
    def can_exceed(self) -> bool:
        """Returns whether a member can get one more than the quota."""
        return self.room > 0 or not self.counts

    def _next_below(self, racks: frozenset[int]) -> int:
        """Returns the first member in these racks at or after the pointer, wrapping around."""
        ahead: list[int] = []
        behind: list[int] = []
        for rack in racks:
            ring = self.below.get(rack)
            if ring:
                position = bisect_left(ring, self.pointer)
                (ahead if position < len(ring) else behind).append(ring[position % len(ring)])
        return min(ahead) if ahead else min(behind, default=-1)

    def _queue(self, member: int) -> None:
        self.exactly.setdefault(int(self.racks.member_rack[member]), deque()).append((len(self.order), member))
        self.order.append(member)


def _assign_unmatched(matcher: _RackMatcher, num_partitions: int) -> IntArray:
    """Returns the members that get the next `num_partitions` partitions (step 3).

    Raises:
        AssignorError: Kafka's class throws an exception.
    """
    num_missing = np.maximum(matcher.least - matcher.has, 0)
    queue = [member for member in matcher.order if member not in matcher.full] if matcher.can_exceed else []
    # Members come in the order of the queue, then the others, so `assign_round_robin` processes them in this order.
    others = np.setdiff1d(np.arange(len(num_missing)), queue)
    ordered = np.append(np.array(queue, np.int64), others)
    can_exceed = np.arange(len(ordered)) < len(queue)
    zero, one, count = np.zeros(1, np.int64), np.ones(1, np.int64), np.array([num_partitions])
    unassigned = PartitionSlices(-one, zero, zero, one, count).take(count > 0)
    assigned, _, rejected = assign_round_robin(
        np.zeros(len(ordered), np.int64), zero, unassigned, num_missing[ordered], can_exceed, 1
    )
    if not rejected:
        return ordered[assigned.owners(zero, num_partitions)]
    if matcher.counts or matcher.room or rejected[0][1] != TOO_FEW_PARTITIONS:
        raise AssignorError(rejected[0][1])
    member = np.repeat(np.arange(len(num_missing)), num_missing)
    turns = np.lexsort((member, ranges_by_length(num_missing)))[:num_partitions]
    num_missing -= np.bincount(member[turns], minlength=len(num_missing))
    raise AssignorError(BELOW_MIN_QUOTA, int(np.argmax(num_missing > 0)))
