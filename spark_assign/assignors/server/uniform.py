"""Uniform, Kafka's `UniformAssignor`: first for homogeneous groups (`UniformHomogeneousAssignmentBuilder`).

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

from array import array
from bisect import bisect_left, bisect_right, insort
from collections import Counter, deque
from collections.abc import Iterator, Mapping, MutableSequence, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, cycle, islice
from typing import Any

import numpy as np

from spark_assign.assignors.group_specs import BALANCING, KEPT, OVER_QUOTA
from spark_assign.assignors.sticky.constrained import find_unowned
from spark_assign.assignors.sticky.sticky_groups import split_slices
from spark_assign.numeric.arrays import (
    EMPTY_SLICES,
    BoolArray,
    IntArray,
    PartitionSlices,
    exclusive_sum,
    expand_slices,
    find_interleaved,
    first_rows,
    key_ranges,
    mask_from_indexes,
    merge_sorted,
    number_lists,
    row_numbers,
    sorted_union,
    starts_new_key,
    values_by_key,
)


@dataclass(frozen=True)
class TargetAssignments:
    """The target assignment.

    Attributes:
        slices: which member gets which partitions.
        reason: why the partitions of each slice moved from a member that could have kept them (see `sticky_groups`).
        first_new_slice: index of the first newly assigned slice; earlier ones were kept.
        unassigned: partitions without a previous owner, as returned by `find_unassigned`.
    """

    slices: PartitionSlices
    reason: IntArray
    first_new_slice: int = 0
    unassigned: PartitionSlices = EMPTY_SLICES

    def take(self, mask: BoolArray) -> TargetAssignments:
        """Returns the slices that the mask selects, with their reasons."""
        return TargetAssignments(self.slices.take(mask), self.reason[mask])

    @property
    def is_new(self) -> BoolArray:
        """Returns a mask of the newly assigned slices."""
        return np.arange(len(self.slices)) >= self.first_new_slice


def find_unassigned(previous: PartitionSlices, partitions: IntArray) -> PartitionSlices:
    """Returns the partitions without a previous owner, sorted by topic and partition. `member` is -1.

    Args:
        previous: previous target. No partition occurs twice or doesn't exist.
        partitions: number of partitions of each topic.
    """
    has_unowned = np.bincount(previous.topic, previous.count, len(partitions)) < partitions
    unowned = find_unowned(previous.take(has_unowned[previous.topic]), np.where(has_unowned, partitions, 0))
    unowned = unowned.take(np.argsort(unowned.partition_keys))
    is_interleaved = find_interleaved(unowned.topic, unowned)
    unowned = unowned.take(~is_interleaved).concat(unowned.take(is_interleaved).expand())
    unowned = unowned.take(np.argsort(unowned.partition_keys))
    topic, *columns = merge_sorted(unowned.topic, unowned)
    return PartitionSlices(np.full(len(topic), -1), topic, *columns)


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
    # `maybeRevokePartitions` iterates over what a member had, and revokes what comes after its quota: `num_before` is
    # the number of partitions that Kafka has seen of the member when it reaches a slice.
    # Example: t has five partitions, C0 had t0 to t3, and C1 joins.
    #     quota [3, 2]    num_before [0]    kept C0: [t0, t1, t2]    revoked: [t3]    unowned: [t4]
    #     unassigned [t4], [t3]    num_missing [0, 2]    assigned C1: [t4], [t3]
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
    # The first sum is the number of extras that Kafka has given to members before this one, the second one the number
    # of members without an extra. Example: five partitions, two members.
    #     num_owned [5, 0]    is_above [True, False]     extras before [0, 1]    has_extra [True, False]
    #     num_owned [2, 0]    is_above [False, False]    without before [0, 1]    has_extra [False, True]
    has_extra = is_above & (exclusive_sum(is_above.astype(np.int64), first) < extra[group])
    has_extra |= exclusive_sum((~is_above).astype(np.int64), first) >= (size - extra)[group]
    return quota[group] + has_extra


def _assign_unassigned(unassigned: PartitionSlices, num_missing: IntArray) -> tuple[PartitionSlices, IntArray]:
    """Splits the unassigned slices at their ends, and where a member reaches its quota (step 4).

    Returns:
        what members get, and for each slice the index of the input slice that it is a part of.
    """
    # `assignRemainingPartitions` counts on with `unassignedPartitionIndex`. A slice of the result ends where an
    # unassigned slice ends, or where a member has all it needs.
    # Example: one slice with five partitions; C0 needs two, C1 needs three.
    #     ends [5]    filled_at [2, 5]    start [0, 2]    end [2, 5]    to_member [C0, C1]    first [0, 2]
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


# --- uniform for heterogeneous groups (Kafka's `UniformHeterogeneousAssignmentBuilder`) -----------------------
#
# Principles
#     1. Balance as far as subscriptions allow: no member could give a partition to a subscriber of its topic that has
#        two less. This is approached topic by topic, in at most 16 passes.
#     2. Stickiness: members keep partitions of topics that they still subscribe to, unless balance moves them.
# Racks are ignored. The load of a member is the number of its partitions, of all topics.
#
# Example: C0 and C1 subscribe to t0 (three partitions), and only C1 to t1 (two).
#
#     step 2, t1 first (two per subscriber)    C0: []                    C1: [t1p0, t1p1]
#     step 2, then t0, to the least loaded     C0: [t0p0, t0p1, t0p2]    C1: [t1p0, t1p1]
#     step 3, nothing (loads are 3 and 2)      C0: [t0p0, t0p1, t0p2]    C1: [t1p0, t1p1]
#
# Steps
#     1. Keep the partitions that members had of topics that they subscribe to.
#     2. Assign the unowned partitions: topics with the most partitions per subscriber first, then those with fewer
#        subscribers, then by id; partitions in ascending order, each to the next of the least loaded subscribers.
#     3. Balance: iterate in that order over the topics with two or more subscribers until a pass moves nothing. In a
#        topic, the most loaded subscribers give, their highest partition first, and the least loaded ones take, until
#        the loads of the two ranges differ by at most one.
#
# The order of members breaks ties between loads: the earlier member comes first in step 2 and for taking, the later one
# for giving.


NO_MEMBER = -1
"""The owner of a partition without an owner."""


def assign_heterogeneous(
    num_members: int,
    topic_group: IntArray,
    partitions: IntArray,
    ranks: IntArray,
    subscriber_set: IntArray,
    sets: Sequence[IntArray],
    previous: PartitionSlices,
) -> TargetAssignments:
    """Returns the target assignment of groups.

    Args:
        num_members: number of members; their indexes are in the order in which the assignor processes them.
        topic_group: group of each topic, ascending.
        partitions: number of partitions of each topic.
        ranks: position of each topic by `Uuid.compareTo`.
        subscriber_set: index into `sets` of each topic.
        sets: subscribers of topics of one group, ascending; at least one.
        previous: previous target, in any order, of topics to which the members subscribe. No partition occurs twice or
            doesn't exist.
    """
    loads = array("q", np.bincount(previous.member, previous.count, num_members).astype(np.int64).tobytes())
    load = np.frombuffer(loads, np.int64)  # the same memory
    sizes = np.array([len(members) for members in sets], np.int64)
    component = _components(sets, sizes, len(sets) + topic_group, subscriber_set)
    order = order_topics(component, partitions, ranks, sizes[subscriber_set])
    subscribers, slices = _SetLists(sets), previous
    num_owned = np.bincount(previous.topic, previous.count, len(partitions))
    if (is_open := num_owned < partitions).any():
        runs = find_runs(order[is_open[order]], subscriber_set)
        assigned = _SliceColumns()
        for topic, numbers, members in assign_unassigned(
            runs, subscribers, _unassigned(previous, partitions, num_owned), loads
        ):
            assigned.add(topic, numbers, members)
        slices = previous.concat(assigned.slices)
    owned, moves = _OwnedSlices(slices, load, len(partitions)), _Moves()
    is_unbalanced = np.zeros(int(component.max(initial=-1)) + 1, bool)
    is_unbalanced[component[np.isin(subscriber_set, _unbalanced_sets(sets, sizes, load))]] = True
    order = order[is_unbalanced[component[order]] & (sizes[subscriber_set[order]] > 1)]
    for start, end in key_ranges(component[order]):
        runs = find_runs(order[start:end], subscriber_set)
        for topic, *columns in balance(runs, subscribers, loads, owned):
            moves.add(topic, *columns)
    if moves.num_moves:
        return _apply(moves, slices, len(previous), len(partitions))
    return TargetAssignments(slices, np.full(len(slices), KEPT))


def assign_group(
    num_members: int,
    subscribers: Sequence[Sequence[int]],
    partitions: Sequence[int],
    ranks: Sequence[int],
    previous: PartitionSlices,
) -> TargetAssignments:
    """Returns the target assignment of one group, given the subscribers of each topic."""
    numbers, different = number_lists(subscribers)
    subscriber_set = np.array(numbers, np.int64)
    zeros, counts, rank = np.zeros_like(subscriber_set), np.array(partitions, np.int64), np.array(ranks, np.int64)
    sets = [np.array(members, np.int64) for members in different]
    return assign_heterogeneous(num_members, zeros, counts, rank, subscriber_set, sets, previous)


def _components(sets: Sequence[IntArray], sizes: IntArray, group: IntArray, subscriber_set: IntArray) -> IntArray:
    """Returns a number for each topic. Topics with different numbers share no subscriber, so that the order of one
    among the others has no effect: those of a set that shares no member with another set, or else all of a group.
    """
    if not len(sets):
        return group
    members = np.concatenate(sets)
    num_sets = np.maximum.reduceat(np.bincount(members)[members], np.cumsum(sizes) - sizes)
    return np.where(num_sets[subscriber_set] == 1, subscriber_set, group)


class _SetLists(dict[int, list[int]]):
    """The members of sets as lists, each made when it is needed."""

    def __init__(self, sets: Sequence[IntArray]) -> None:
        super().__init__()
        self._sets = sets

    def __missing__(self, index: int) -> list[int]:
        members: list[int] = self._sets[index].tolist()
        self[index] = members
        return members


def rebalance(
    owners: list[list[int]], loads: list[int], subscribers: Sequence[Sequence[int]], ranks: Sequence[int]
) -> list[tuple[int, int, int, int]]:
    """Assigns the unowned partitions of one group and balances it (steps 2 and 3).

    Args:
        owners: owner of each partition of each topic after step 1, or `NO_MEMBER`; changed in place.
        loads: number of partitions of each member; changed in place.
        subscribers: subscribers of each topic, ascending; at least one.
        ranks: integers of any size that sort the topics by `Uuid.compareTo`.

    Returns:
        (topic, partition, from_member or `NO_MEMBER`, to_member) of each move, in order.
    """
    set_numbers, different = number_lists(subscribers)
    subscriber_set = np.array(set_numbers, np.int64)
    sets = {number: list(members) for number, members in enumerate(different)}
    partitions, sizes = (np.array([len(each) for each in lists], np.int64) for lists in (owners, subscribers))
    positions = np.unique(np.array(ranks, object), return_inverse=True)[1]
    order = order_topics(np.zeros(len(owners), np.int64), partitions, positions, sizes)
    unassigned = {
        topic: [partition for partition, member in enumerate(owner) if member == NO_MEMBER]
        for topic, owner in enumerate(owners)
        if NO_MEMBER in owner
    }
    moves: list[tuple[int, int, int, int]] = []
    runs = find_runs(order[np.isin(order, list(unassigned))], subscriber_set)
    for topic, numbers, members in assign_unassigned(runs, sets, unassigned, loads):
        for partition, member in zip(numbers, cycle(members)):
            owners[topic][partition] = member
            moves.append((topic, partition, NO_MEMBER, member))

    runs = find_runs(order[sizes[order] > 1], subscriber_set)
    for topic, *columns in balance(runs, sets, loads, _Owners(owners)):
        for partition, from_member, to_member in zip(*columns, strict=True):
            owners[topic][partition] = to_member
            moves.append((topic, partition, from_member, to_member))
    return moves


class _Owners:
    """The owner of each partition of each topic."""

    def __init__(self, owners: list[list[int]]) -> None:
        self._owners = owners

    def of(self, topic: int) -> Owned:
        """Returns what members own of a topic."""
        return {**values_by_key((member, partition) for partition, member in enumerate(self._owners[topic]))}

    def find(self, topics: Sequence[int], limit: int) -> Sequence[int]:
        """Returns all topics."""
        return topics


class _OwnedSlices:
    """Slices that members own.

    Attributes:
        by_topic: what members own of each topic that might have been balanced, changed by its moves.
    """

    def __init__(self, slices: PartitionSlices, load: IntArray, num_topics: int) -> None:
        self.by_topic: dict[int, Owned] = {}
        self._slices, self._load, self._num_topics = slices, load, num_topics
        self._starts = np.empty(0, np.int64)

    def of(self, topic: int) -> Owned:
        """Returns what members own of a topic."""
        if topic not in self.by_topic:
            rows = slice(*self._starts[topic : topic + 2].tolist())
            member, _, first, step, count = self._slices.take(rows).columns
            members = member.tolist()
            ranges = list(map(range, first.tolist(), (first + step * count).tolist(), step.tolist()))
            self.by_topic[topic] = owned = {**dict(zip(members, ranges, strict=True))}
            if len(owned) < len(ranges):
                several: dict[int, list[Sequence[int]]] = {}
                for each, partitions in zip(members, ranges, strict=True):
                    if partitions is not owned[each]:
                        several.setdefault(each, [owned[each]]).append(partitions)
                owned.update((each, _Merged(parts)) for each, parts in several.items())
        return self.by_topic[topic]

    def find(self, topics: Sequence[int], limit: int) -> set[int]:
        """Returns the topics in which an owner has more than `limit` partitions, or might have after moves."""
        if not len(self._starts):
            self._slices = self._slices.take(np.argsort(self._slices.topic, kind="stable"))
            self._starts = np.searchsorted(self._slices.topic, np.arange(self._num_topics + 1))
        topic = np.array([topic for topic in topics if topic not in self.by_topic], np.int64)
        start, end = self._starts[topic], self._starts[topic + 1]
        index, rows = expand_slices(start, np.ones_like(start), end - start)
        is_candidate = np.bincount(index, self._load[self._slices.member[rows]] > limit, len(topic)) > 0
        return {*topic[is_candidate].tolist(), *self.by_topic}


class _Merged(Sequence[int]):
    """The partitions of several ranges, which are sorted when one is read."""

    def __init__(self, ranges: list[Sequence[int]]) -> None:
        self._ranges = ranges

    def __len__(self) -> int:
        return sum(map(len, self._ranges))

    @cached_property
    def _sorted(self) -> list[int]:
        return sorted(chain(*self._ranges))

    def __getitem__(self, index: Any) -> Any:
        return self._sorted[index]


def _unassigned(previous: PartitionSlices, partitions: IntArray, num_owned: IntArray) -> dict[int, Sequence[int]]:
    """Returns the partitions without an owner of each topic that has any."""
    unowned = np.flatnonzero(num_owned == 0).tolist()
    unassigned: dict[int, Sequence[int]] = {topic: range(partitions[topic]) for topic in unowned}
    is_partial = (num_owned > 0) & (num_owned < partitions)
    sizes = np.where(is_partial, partitions, 0)
    ends = np.cumsum(sizes)
    owner = previous.take(is_partial[previous.topic]).owners(ends - sizes, int(sizes.sum()))
    free = np.flatnonzero(owner < 0)
    free_topic = np.searchsorted(ends, free, "right")
    numbers = (free - (ends - sizes)[free_topic]).tolist()
    for start, end in key_ranges(free_topic):
        unassigned[int(free_topic[start])] = _as_range(numbers[start:end])
    return unassigned


def _as_range(numbers: list[int]) -> Sequence[int]:
    """Returns a range of these numbers if they have one step."""
    whole = range(numbers[0], numbers[-1] + 1, numbers[1] - numbers[0] if len(numbers) > 1 else 1)
    return whole if len(whole) == len(numbers) and list(whole) == numbers else numbers


class _SliceColumns:
    """Collects slices."""

    def __init__(self) -> None:
        self._member, self._first, self._count = list[int](), list[int](), list[int]()
        self._chunks: list[tuple[int, int, int]] = []

    def add(self, topic: int, numbers: Sequence[int], members: list[int]) -> None:
        """Adds partitions of a topic that are dealt to members one by one, again and again."""
        size, step = len(members), 1
        if len(numbers) > size and isinstance(numbers, range):
            step = size * numbers.step
            rounds, more = divmod(len(numbers), size)
            self._count += [rounds + 1] * more + [rounds] * (size - more)
            numbers = numbers[:size]
        else:
            self._count += [1] * len(numbers)
        self._member += (members * -(-len(numbers) // size))[: len(numbers)]
        self._first += numbers
        self._chunks.append((topic, step, len(numbers)))

    @property
    def slices(self) -> PartitionSlices:
        """Returns the slices."""
        topic, step, sizes = np.array(self._chunks, np.int64).reshape(-1, 3).T
        # Twice as fast as from lists.
        columns = (array("q", each) for each in (self._member, self._first, self._count))
        member, first, count = (np.array(each, np.int64) for each in columns)
        return PartitionSlices(
            member, np.repeat(topic, sizes), first, np.where(count == 1, 1, np.repeat(step, sizes)), count
        )


def _unbalanced_sets(sets: Sequence[IntArray], sizes: IntArray, load: IntArray) -> IntArray:
    """Returns the sets in which the loads of two members differ by more than one."""
    if not len(sets):
        return np.empty(0, np.int64)
    load, starts = load[np.concatenate(sets)], np.cumsum(sizes) - sizes
    return np.flatnonzero(np.maximum.reduceat(load, starts) - np.minimum.reduceat(load, starts) > 1)


class _Moves:
    """Collects moves of partitions, in order."""

    def __init__(self) -> None:
        self.num_moves, self._topics = list[int](), list[int]()
        self._partition, self._from, self._to = list[int](), list[int](), list[int]()

    def add(self, topic: int, partitions: list[int], from_members: list[int], to_members: list[int]) -> None:
        """Adds moves of partitions of a topic."""
        self._topics.append(topic)
        self.num_moves.append(len(partitions))
        self._partition += partitions
        self._from += from_members
        self._to += to_members

    @property
    def columns(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Returns each partition that moved, by topic and partition: topic, partition, first owner, and last owner."""
        topic = np.repeat(np.array(self._topics, np.int64), self.num_moves)
        partition, old, new = (
            np.frombuffer(array("q", each), np.int64) for each in (self._partition, self._from, self._to)
        )
        order = np.lexsort((partition, topic))
        topic, partition = topic[order], partition[order]
        starts = np.flatnonzero(starts_new_key(topic, partition))
        ends = np.append(starts[1:], len(order)) - 1
        return topic[starts], partition[starts], old[order[starts]], new[order[ends]]


def _apply(moves: _Moves, slices: PartitionSlices, num_previous: int, num_topics: int) -> TargetAssignments:
    """Returns the slices after the moves, and the reasons. The first `num_previous` slices are of the previous target.

    Members give their highest partitions, so that of the slices of a member and a topic those below a limit stay.
    """
    topic, partition, from_member, to_member = moves.columns
    num_members = int(slices.member.max()) + 1
    # Example: C0 had t0 to t4, and t3 and t4 move to C1.
    #     losing [0] (topic 0, member C0)    limit [3]    stay [3]    kept C0: [t0, t1, t2]    C1: [t3], [t4]
    losing, lowest = np.unique(topic * num_members + from_member, return_index=True)
    rows = np.flatnonzero(mask_from_indexes(topic, num_topics)[slices.topic])
    keys = slices.topic[rows] * num_members + slices.member[rows]
    place = np.searchsorted(losing[:-1], keys)
    is_losing = losing[place] == keys
    rows, limit = rows[is_losing], partition[lowest[place[is_losing]]]
    giving = slices.take(rows)
    stay = np.clip(-((giving.first - limit) // giving.step), 0, giving.count)
    count = slices.count.copy()
    count[rows] = stay
    kept = PartitionSlices(*slices.columns[:3], np.where(count == 1, 1, slices.step), count).take(count > 0)
    row, given = expand_slices(giving.first + stay * giving.step, giving.step, giving.count - stay)
    is_previous = rows[row[np.lexsort((given, giving.topic[row]))]] < num_previous
    is_balancing = is_previous & (from_member != to_member)
    ones = np.ones_like(topic)
    return TargetAssignments(
        kept.concat(PartitionSlices(to_member, topic, partition, ones, ones)),
        np.append(np.full(len(kept), KEPT), np.where(is_balancing, BALANCING, KEPT)),
    )


# --- steps 2 and 3 for heterogeneous groups, on lists ---------------------------------------------------------
#
# Kafka sorts the subscribers of each topic in both steps. Here, consecutive topics with the same subscribers are a
# *run*.
#     - Step 2 sorts the subscribers again only where the least loaded ones don't suffice for a topic.
#     - Step 3 skips runs if their loads differ by one at most, and topics if no owner has two partitions more than the
#       least loaded subscriber. In all others, it looks only at members that own partitions of the topic.


_MAX_PASSES = 16
_FEW_ROUNDS = 8
"""Rounds that are as fast one by one."""

Run = tuple[int, list[int]]
"""A set of subscribers, and consecutive topics that have it."""
Owned = dict[int, Sequence[int]]
"""The partitions of a topic that each member has, ascending."""


def order_topics(topic_group: IntArray, partitions: IntArray, ranks: IntArray, num_subscribers: IntArray) -> IntArray:
    """Returns the topics, group by group, in the order of step 2 (`sortTopicIdPartitions`)."""
    return np.lexsort((ranks, num_subscribers, -(partitions / num_subscribers), topic_group))


def find_runs(topics: IntArray, subscriber_set: IntArray) -> list[Run]:
    """Returns the runs of topics, in their order."""
    sets, listed = subscriber_set[topics], topics.tolist()
    return [(int(sets[start]), listed[start:end]) for start, end in key_ranges(sets)]


def assign_unassigned(
    runs: Sequence[Run],
    subscribers: Mapping[int, list[int]],
    unassigned: Mapping[int, Sequence[int]],
    loads: MutableSequence[int],
) -> Iterator[tuple[int, Sequence[int], list[int]]]:
    """Yields a topic, some of its partitions, and the members that get them, one by one, again and again.

    Args:
        runs: topics with unassigned partitions.
        subscribers: members of each set, ascending.
        unassigned: the unassigned partitions of each topic, ascending.
        loads: number of partitions of each member; changed in place.
    """
    for subscriber_set, topics in runs:
        members = subscribers[subscriber_set]
        if len(members) == 1:
            for topic in topics:
                loads[members[0]] += len(unassigned[topic])
                yield topic, unassigned[topic], members
            continue
        least_loaded = _LeastLoaded(members, loads)
        for topic in topics:
            numbers, end = unassigned[topic], 0
            for cycle_members, count in least_loaded.take(len(numbers)):
                start, end = end, end + count
                yield topic, numbers[start:end], cycle_members


class _LeastLoaded:
    """Deals partitions to the least loaded of some members, topic by topic."""

    def __init__(self, members: list[int], loads: MutableSequence[int]) -> None:
        self._members, self._loads = members, loads
        self._lowest, self._next = list[int](), 0

    def take(self, count: int) -> Iterator[tuple[list[int], int]]:
        """Yields the members that get the partitions of a topic: lists that are dealt to in cycles, and how many."""
        loads, order = self._loads, list[int]()
        if self._next + count > len(self._lowest):
            order = sorted(self._members, key=loads.__getitem__)
            lowest = loads[order[0]]
            self._lowest, self._next = order[: bisect_right(order, lowest, key=loads.__getitem__)], 0
        if count <= len(self._lowest):
            members = self._lowest[self._next : self._next + count]
            self._next += count
            for member in members:
                loads[member] += 1
            yield members, count
            return
        # Go round the least loaded members, who become more from level to level.
        self._lowest, end = [], 0
        levels = [loads[member] for member in order]
        while count:
            end = bisect_right(levels, levels[end], end)
            number = count if end == len(order) else min(count, end * (levels[end] - levels[end - 1]))
            members = order[:end]
            rounds, more = divmod(number, end)
            for at, member in enumerate(members if rounds else members[:more]):
                loads[member] += rounds + (at < more)
            yield members, number
            count -= number


def balance(
    runs: Sequence[Run],
    subscribers: Mapping[int, list[int]],
    loads: MutableSequence[int],
    ownership: _Owners | _OwnedSlices,
) -> Iterator[tuple[int, list[int], list[int], list[int]]]:
    """Yields each topic in which partitions move: the partition, the old owner and the new owner of each move.

    As in Kafka, the first topic counts as one that moved something.

    Args:
        runs: all topics with two or more subscribers.
        subscribers: members of each set, ascending.
        loads: number of partitions of each member; changed in place.
        ownership: what members own; changed in place.
    """
    last_run, last_topic = -1, -1
    for _ in range(_MAX_PASSES):
        for run, (subscriber_set, topics) in enumerate(runs):
            order = sorted(subscribers[subscriber_set], key=loads.__getitem__)
            if loads[order[-1]] - loads[order[0]] <= 1:
                if run == last_run:
                    return
                last_run, last_topic = (run, topics[0]) if last_run < 0 else (last_run, last_topic)
                continue
            candidates = ownership.find(topics, loads[order[0]] + 1)
            for topic in topics:
                if topic == last_topic:
                    return
                moved = list[int]()
                if topic in candidates and loads[order[-1]] - loads[order[0]] > 1:
                    owned = ownership.of(topic)
                    moved, old, new = _balance_topic(owned, order, loads)
                if moved:
                    num_lost, change = Counter(old), Counter(new)
                    _move(owned, moved, num_lost, new)
                    change.subtract(num_lost)
                    order = _sort_again(subscribers[subscriber_set], order, loads, change)
                    yield topic, moved, old, new
                if moved or last_run < 0:
                    last_run, last_topic = run, topic


def _balance_topic(
    owned: Owned, order: list[int], loads: MutableSequence[int]
) -> tuple[list[int], list[int], list[int]]:
    """Balances one topic; `order` has its subscribers sorted by load and index.

    The most loaded members are a range of `order`, which grows to its start: `waiting` are those that come later
    in this round, `visited` those who have had theirs; the last ones come first. The least loaded ones are a range that
    grows to the end of `order`. Kafka removes a member that has nothing to give from the first range by an exchange
    with the last one of the range, which so has its turn later in the next round.

    Returns:
        the partition, the old owner and the new owner of each move.
    """
    size, from_members = len(order), _from_members(owned, order, loads)
    remaining = {order[place]: len(owned[order[place]]) for place in from_members}
    waiting, visited = deque[int](), deque[int]()
    most, start, place = 0, size, size
    least, least_end, least_next = loads[order[0]] - 1, 0, 0
    moved, old, new = list[int](), list[int](), list[int]()
    while True:
        if waiting:
            member = waiting.pop()
            if not remaining[member]:
                visited.rotate(1)
                continue
        elif from_members and from_members[-1] >= start:
            visited.rotate(place - 1 - from_members[-1])
            place = from_members.pop()
            member = order[place]
        else:
            visited.rotate(place - start)
            if visited:
                most -= 1
            elif from_members:
                most = loads[order[from_members[-1]]]
            if most - least <= 1 or not (visited or from_members):
                break
            waiting, visited, place = visited, waiting, start
            # Rounds in which all of the range give, nobody joins either range, and the end isn't near.
            room, rounds = least_end - least_next, 0
            if waiting and least_end and remaining[waiting[-1]] > _FEW_ROUNDS:
                rounds = ((most - least - 3) * least_end + room) // (len(waiting) + least_end)
            if rounds > _FEW_ROUNDS:
                levels = (loads[order[least_end]] if least_end < size else most) - least - 1
                rounds = min(rounds, (levels * least_end + room) // len(waiting))
                rounds = min(rounds, most - 1 - loads[order[start - 1]] if start else rounds)
                rounds = min(rounds, *(remaining[member] for member in waiting)) if rounds > _FEW_ROUNDS else 0
            if rounds > _FEW_ROUNDS:
                losing = [*reversed(waiting)]
                left = {member: remaining[member] - rounds for member in losing}
                given = [reversed(owned[member][count : count + rounds]) for member, count in left.items()]
                moved += chain.from_iterable(zip(*given, strict=True))
                old += losing * rounds
                new += islice(cycle(order[:least_end]), least_next, least_next + rounds * len(losing))
                remaining |= left
                more, least_next = divmod(least_next + rounds * len(losing) - 1, least_end)
                most, least, least_next = most - rounds, least + more, least_next + 1
            if start and loads[order[start - 1]] >= most:
                start = bisect_left(order, most, 0, start, key=loads.__getitem__)
            continue
        if least_next == least_end:
            least += 1
            if most - least <= 1:
                break
            while least_end < size and loads[order[least_end]] == least:
                least_end += 1
            least_next = 0
        visited.appendleft(member)
        remaining[member] = count = remaining[member] - 1
        moved.append(owned[member][count])
        old.append(member)
        new.append(order[least_next])
        least_next += 1
    return moved, old, new


def _from_members(owned: Owned, order: list[int], loads: Sequence[int]) -> list[int]:
    """Returns the positions in `order` of the owners that have two partitions more than its first member, ascending."""
    limit = loads[order[0]] + 1
    if 16 * len(owned) > len(order):
        return [place for place, member in enumerate(order) if member in owned and loads[member] > limit]
    from_members = [(loads[member], member) for member in owned if loads[member] > limit]
    return sorted(
        bisect_left(order, from_member, key=lambda member: (loads[member], member)) for from_member in from_members
    )


def _sort_again(
    subscribers: list[int], order: list[int], loads: MutableSequence[int], change: Mapping[int, int]
) -> list[int]:
    """Changes the loads; returns the subscribers sorted by load and index, `order` being their order before."""
    is_large = 8 * len(change) > len(order)
    for member in () if is_large else change:
        del order[bisect_left(order, (loads[member], member), key=lambda each: (loads[each], each))]
    for member, delta in change.items():
        loads[member] += delta
    if is_large:
        return sorted(subscribers, key=loads.__getitem__)
    for member in change:
        insort(order, member, key=lambda each: (loads[each], each))
    return order


def _move(owned: Owned, moved: list[int], num_lost: Mapping[int, int], new: list[int]) -> None:
    """Changes what members own of a topic. Members give their last partitions, which are ranges as a rule."""
    for member, count in num_lost.items():
        owned[member] = owned[member][:-count]
        if not owned[member]:
            del owned[member]
    for member, numbers in values_by_key(zip(new, moved, strict=True)).items():
        owned[member] = sorted([*owned.get(member, ()), *numbers])
