"""Racks in the sticky assignors (`AbstractStickyAssignor.RackInfo`), and the constrained case with them.

Steps, where racks matter
    1. Everybody gives up what has no replica in its rack, and keeps of the rest what the quota allows.
    2. Near: what is left goes, those near to the fewest members first, to a member in whose rack it has a replica:
       round the members below the quota, by id, then to those that may have one more.
    3. Rest: what is left of that goes as if there were no racks.

Up to 3.7.0 (before KAFKA-15170) nobody counts in step 2 how many members have one more than the quota; where too many
have, others lack the quota in the end, and Kafka's class throws. Cooperative-sticky does not withhold there what was
given up for its rack.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spark_assign.groups.assignors.release_rules import LATEST_RULES, ReleaseRules
from spark_assign.groups.assignors.sticky.constrained import (
    MemberQuota,
    assign_round_robin,
    compute_quotas,
    drop_contested,
    to_slices,
)
from spark_assign.groups.assignors.sticky.ownership_conflicts import ResolvedOwnership
from spark_assign.groups.assignors.sticky.retained_partitions import TopicOrder, keep_owned
from spark_assign.groups.assignors.sticky.sticky_groups import (
    BELOW_MIN_QUOTA,
    KEPT,
    OVER_QUOTA,
    RACK_MISMATCH,
    TOO_FEW_PARTITIONS,
    StickyAssignment,
    StickyGroups,
)
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PARTITION_BITS, PartitionSlices
from spark_assign.numeric.segmented_arrays import expand_slices, ranges_by_length, starts_new_key


@dataclass(frozen=True)
class Racks:
    """Where members and replicas of one group are.

    Attributes:
        member_rack: of each member the number of its rack; -1 for none.
        rack_sets: the sets of racks that partitions have replicas in.
        partition_rack_set: of each topic, per partition, the number of its set.
    """

    member_rack: IntArray
    rack_sets: Sequence[frozenset[int]]
    partition_rack_set: Mapping[int, IntArray]

    @property
    def matter(self) -> bool:
        """Whether racks are looked at (`AbstractPartitionAssignor.useRackAwareAssignment`)."""
        used = {self.rack_sets[number] for numbers in self.partition_rack_set.values() for number in np.unique(numbers)}
        everywhere = frozenset[int]().union(*used)
        return not everywhere.isdisjoint(self.member_rack[self.member_rack >= 0].tolist()) and used != {everywhere}

    def rack_set_of(self, topic: IntArray, partition: IntArray) -> IntArray:
        """The number of each partition's set; -1 for partitions that do not exist."""
        found = np.full(len(topic), -1, np.int64)
        for each, numbers in self.partition_rack_set.items():
            here = np.flatnonzero((topic == each) & (partition < len(numbers)))
            found[here] = numbers[partition[here]]
        return found

    def rack_matched(self) -> BoolArray:
        """near[set, member]: whether the member has no rack, or one of the set; the last row is the empty set."""
        most = max(self.member_rack.max(initial=0), *(max(racks, default=0) for racks in self.rack_sets))
        holds = np.zeros(
            (len(self.rack_sets) + 1, int(most) + 2), bool
        )  # the last column is that of members without a rack
        for number, racks in enumerate(self.rack_sets):
            holds[number, list(racks)] = True
        holds[:, -1] = True
        return holds[:, self.member_rack]


def plan_with_racks(
    groups: StickyGroups,
    claims: ResolvedOwnership,
    racks: Racks,
    told: PartitionSlices | TopicOrder,
    rules: ReleaseRules = LATEST_RULES,
) -> StickyAssignment:
    """Plan one group whose members all subscribe to the same topics and in which racks matter.

    Args:
        groups: the one group.
        claims: who owns what.
        racks: of members and replicas.
        told, rules: as `constrained.plan_constrained` has them.
    """
    size = len(groups.member_group)
    rows = drop_contested(claims).expand()
    far = ~racks.rack_matched()[racks.rack_set_of(rows.topic, rows.first), rows.member]
    owned = rows.take(~far)
    quota = compute_quotas(groups, np.bincount(owned.member, minlength=size))
    kept, given_up = keep_owned(owned, quota.num_owned, quota.num_kept, told, rules)
    surplus = given_up.concat(rows.take(far))
    owner_of = dict(zip(surplus.partition_keys.tolist(), surplus.member.tolist(), strict=True))
    far_keys = np.sort(rows.partition_keys[far])

    left = _find_unassigned(groups, kept)
    sets = racks.rack_set_of(left >> PARTITION_BITS, left & ((1 << PARTITION_BITS) - 1))
    members_near = (racks.rack_matched() & (racks.member_rack >= 0)).sum(axis=1)
    left, sets = (column[np.argsort(members_near[sets], kind="stable")] for column in (left, sets))
    hand_out = _RackMatcher(racks, quota, groups, counts=not rules.racks_exceed_quota)
    next_member = np.array([hand_out.next_member(number) for number in sets.tolist()], np.int64)
    rest = np.flatnonzero(next_member < 0)
    to_members, refused = assign_unmatched(hand_out, len(rest))
    if refused:
        nothing = rows.take(np.empty(0, np.int64))
        return StickyAssignment(
            nothing, nothing.member, nothing.member.astype(bool), *_rejection(refused, hand_out, len(rest))
        )
    next_member[rest] = to_members

    owner = np.array([owner_of.get(key, -1) for key in left.tolist()], np.int64)
    changes = (owner >= 0) & (owner != next_member)
    reason = np.where(changes, np.where(np.isin(left, far_keys), RACK_MISMATCH, OVER_QUOTA), KEPT)
    withheld = np.zeros(len(left), bool)
    if groups.cooperative:
        taken_away = np.isin(left, given_up.partition_keys) if rules.withholds_over_quota else changes
        withheld = taken_away | np.isin(left, claims.multiple_owners)
    stays = np.zeros(len(kept), np.int64)
    runs, reason, withheld = to_slices(
        np.append(kept.member, next_member),
        np.append(kept.topic, left >> PARTITION_BITS),
        np.append(kept.first, left & ((1 << PARTITION_BITS) - 1)),
        np.append(stays, reason),
        np.append(stays.astype(bool), withheld),
    )
    return StickyAssignment(runs, reason, withheld, {})


def _rejection(refused: dict[int, str], near: _RackMatcher, dealt: int) -> tuple[dict[int, str], dict[int, int]]:
    """The refusal of the group, and the member that is named in it."""
    if near.counts or near.room or refused[0] != TOO_FEW_PARTITIONS:
        return refused, {}
    lacking = np.maximum(near.least - near.has, 0)
    turns = np.lexsort((np.repeat(np.arange(len(lacking)), lacking), ranges_by_length(lacking)))[:dealt]
    lacking -= np.bincount(np.repeat(np.arange(len(lacking)), lacking)[turns], minlength=len(lacking))
    return {0: BELOW_MIN_QUOTA}, {0: int(np.argmax(lacking > 0))}


def _find_unassigned(groups: StickyGroups, kept: PartitionSlices) -> IntArray:
    """Keys of the partitions that nobody keeps; behind a kept one that does not exist all count as such.

    So do all behind one that is kept twice.
    """
    one = np.ones(len(groups.partitions), np.int64)
    row, partition = expand_slices(one * 0, one, groups.partitions)
    every = (row << PARTITION_BITS) | partition
    kept = kept.take(np.argsort(kept.partition_keys))
    keys = kept.partition_keys
    stops = np.flatnonzero((kept.first >= groups.partitions[kept.topic]) | ~starts_new_key(keys))
    if len(stops):
        keys = keys[: stops[0]]
    return every[~np.isin(every, keys)]


class _RackMatcher:
    """Step 2: members below the quota stand on a ring by id, those that may have one more in a queue, rack by rack."""

    def __init__(self, racks: Racks, quota: MemberQuota, groups: StickyGroups, *, counts: bool) -> None:
        """`counts`: whether anybody counts how many have one more than the quota."""
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
        """Members with exactly the quota that may have one more, in the order in which they came to it."""
        self.full: set[int] = set()
        for member in np.flatnonzero(has < self.least).tolist():
            self.below.setdefault(int(racks.member_rack[member]), []).append(member)
        for member in np.flatnonzero(quota.can_exceed_min_quota).tolist():
            self._queue(member)

    def next_member(self, number: int) -> int:
        """Who takes a partition of this set of racks; -1 for nobody near that has room."""
        near = self.racks.rack_sets[number] if number >= 0 else frozenset()
        member = self._next_below(near)
        if member >= 0:
            self.has[member] += 1
            self.pointer = member + 1
            if self.has[member] >= self.least:
                line = self.below[int(self.racks.member_rack[member])]
                del line[bisect_left(line, member)]
                if self.has[member] < self.most and self.some_room:
                    self._queue(member)
            return member
        waiting = [self.exactly[rack][0] for rack in near if self.exactly.get(rack)]
        if not waiting or not self.some_room:
            return -1
        _, member = min(waiting)
        self.exactly[int(self.racks.member_rack[member])].popleft()
        self.full.add(member)
        self.has[member] += 1
        self.room -= self.counts
        return member

    @property
    def some_room(self) -> bool:
        """Whether a member may have one more than the quota."""
        return self.room > 0 or not self.counts

    def _next_below(self, near: frozenset[int]) -> int:
        """The first member of these racks at or behind the pointer, round the ring."""
        ahead: list[int] = []
        behind: list[int] = []
        for rack in near:
            line = self.below.get(rack)
            if line:
                at = bisect_left(line, self.pointer)
                (ahead if at < len(line) else behind).append(line[at % len(line)])
        return min(ahead) if ahead else min(behind, default=-1)

    def _queue(self, member: int) -> None:
        self.exactly.setdefault(int(self.racks.member_rack[member]), deque()).append((len(self.order), member))
        self.order.append(member)


def assign_unmatched(near: _RackMatcher, number: int) -> tuple[IntArray, dict[int, str]]:
    """Step 3: who takes the next `number` partitions; and the refusal of the group, if it does not come out even."""
    lacking = np.maximum(near.least - near.has, 0)
    queue = [member for member in near.order if member not in near.full] if near.some_room else []
    # Members in the queue's order come before all others, so that `deal` serves them so.
    others = np.setdiff1d(np.arange(len(lacking)), queue)
    line = np.append(np.array(queue, np.int64), others)
    may_have_more = np.arange(len(line)) < len(queue)
    zero = np.zeros(len(line), np.int64)
    to_members, refused = assign_round_robin(zero, np.zeros(number, np.int64), lacking[line], may_have_more, 1)
    return (to_members if refused else line[to_members]), refused
