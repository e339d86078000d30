"""Uniform for heterogeneous groups (Kafka's `UniformHeterogeneousAssignmentBuilder`).

Principles, in order of priority
    1. Balance as far as subscriptions allow: no member could give a partition to a subscriber of its topic that has two
       less. This is approached topic by topic, in at most 16 passes.
    2. Stickiness: members keep partitions of topics that they still subscribe to, unless balance moves them.
Racks are ignored. The load of a member is the number of its partitions, of all topics.

Example: C0 and C1 subscribe to t0 (three partitions), and only C1 to t1 (two).

    step 2, t1 first (two per subscriber)    C0: []                    C1: [t1p0, t1p1]
    step 2, then t0, to the least loaded     C0: [t0p0, t0p1, t0p2]    C1: [t1p0, t1p1]
    step 3, nothing (loads are 3 and 2)      C0: [t0p0, t0p1, t0p2]    C1: [t1p0, t1p1]

Steps
    1. Keep the partitions that members had of topics that they subscribe to.
    2. Assign the unowned partitions: topics with the most partitions per subscriber first, then those with fewer
       subscribers, then by id; partitions in ascending order, each to the next of the least loaded subscribers.
    3. Balance: iterate in that order over the topics with two or more subscribers until a pass moves nothing. In a
       topic, the most loaded subscribers give, their highest partition first, and the least loaded ones take, until the
       loads of the two ranges differ by at most one.

The order of members breaks ties between loads: the earlier member comes first in step 2 and for taking, the later one
for giving.

`heterogeneous_steps` has steps 2 and 3. Many groups are assigned at once, and partitions that stay are never looked at
one by one.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import cached_property
from itertools import chain, cycle
from typing import Any

import numpy as np

from spark_assign.groups.assignors.server.heterogeneous_steps import (
    Owned,
    assign_unassigned,
    balance,
    find_runs,
    order_topics,
)
from spark_assign.groups.assignors.server.target_assignments import TargetAssignments
from spark_assign.groups.kernel.group_specs import BALANCING, KEPT
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.partition_slices import PartitionSlices, mask_from_indexes
from spark_assign.numeric.segmented_arrays import expand_slices, key_ranges, starts_new_key

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
    index: dict[tuple[int, ...], int] = {}
    subscriber_set = np.array([index.setdefault(tuple(members), len(index)) for members in subscribers], np.int64)
    zeros, counts, rank = np.zeros_like(subscriber_set), np.array(partitions, np.int64), np.array(ranks, np.int64)
    sets = [np.array(members, np.int64) for members in index]
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
    index: dict[tuple[int, ...], int] = {}
    subscriber_set = np.array([index.setdefault(tuple(members), len(index)) for members in subscribers], np.int64)
    sets = {number: list(members) for members, number in index.items()}
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


# --- slices ----------------------------------------------------------------------------------------------------------


class _Owners:
    """The owner of each partition of each topic."""

    def __init__(self, owners: list[list[int]]) -> None:
        self._owners = owners

    def of(self, topic: int) -> Owned:
        """Returns what members own of a topic."""
        owned: dict[int, list[int]] = {}
        for partition, member in enumerate(self._owners[topic]):
            owned.setdefault(member, []).append(partition)
        return {**owned}

    def find(self, topics: Sequence[int], limit: int) -> Sequence[int]:
        """Returns all topics."""
        del limit
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
