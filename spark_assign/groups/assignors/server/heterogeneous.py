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
from collections.abc import Mapping, Sequence
from itertools import chain, cycle

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
from spark_assign.numeric.segmented_arrays import expand_slices, key_ranges

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
    owned, moved = _OwnedSlices(slices, load, len(partitions)), list[int]()
    is_unbalanced = np.zeros(int(component.max(initial=-1)) + 1, bool)
    is_unbalanced[component[np.isin(subscriber_set, _unbalanced_sets(sets, sizes, load))]] = True
    order = order[is_unbalanced[component[order]] & (sizes[subscriber_set[order]] > 1)]
    for start, end in key_ranges(component[order]):
        runs = find_runs(order[start:end], subscriber_set)
        moved += [topic for topic, *_ in balance(runs, subscribers, loads, owned)]
    if moved:
        return _replace_topics(slices, {topic: owned.by_topic[topic] for topic in moved}, previous, partitions)
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
            ranges: dict[int, list[range]] = {}
            columns = self._slices.take(rows).columns
            for member, _, first, step, count in zip(*(column.tolist() for column in columns), strict=True):
                ranges.setdefault(member, []).append(range(first, first + step * count, step))
            self.by_topic[topic] = {member: _merge(numbers) for member, numbers in ranges.items()}
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


def _merge(ranges: list[range]) -> Sequence[int]:
    return ranges[0] if len(ranges) == 1 else sorted(chain(*ranges))


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


def _replace_topics(
    slices: PartitionSlices, moved: Mapping[int, Owned], previous: PartitionSlices, partitions: IntArray
) -> TargetAssignments:
    """Returns the slices with those of topics in which partitions have moved replaced, and the reasons."""
    columns = _SliceColumns()
    for topic, owned in moved.items():
        for member, numbers in owned.items():
            columns.add(topic, numbers, [member])
    is_moved = mask_from_indexes(list(moved), len(partitions))
    sizes, new = np.where(is_moved, partitions, 0), columns.slices
    starts = np.cumsum(sizes) - sizes
    owner = previous.take(is_moved[previous.topic]).owners(starts, int(sizes.sum()))[starts[new.topic] + new.first]
    kept = slices.take(~is_moved[slices.topic])
    is_new = (owner >= 0) & (owner != new.member)
    return TargetAssignments(kept.concat(new), np.append(np.full(len(kept), KEPT), np.where(is_new, BALANCING, KEPT)))
