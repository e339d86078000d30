"""Runs of partitions, in arrays: first, first + step, … count of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.segmented_arrays import expand_slices

PARTITION_BITS = 32
"""A partition's number fits in so many bits, so that topic << KEY_BITS | partition sorts by topic and partition."""


@dataclass(frozen=True)
class PartitionSlices:
    """Runs of partitions, as columns: member, topic, first, step, count. No run is empty."""

    member: IntArray
    topic: IntArray
    first: IntArray
    step: IntArray
    count: IntArray

    def __len__(self) -> int:
        return len(self.member)

    @property
    def last(self) -> IntArray:
        """The last partition of each run."""
        return self.first + self.step * (self.count - 1)

    def where(self, chosen: BoolArray | IntArray) -> PartitionSlices:
        """Some of the runs."""
        return PartitionSlices(
            self.member[chosen], self.topic[chosen], self.first[chosen], self.step[chosen], self.count[chosen]
        )

    def joined(self, other: PartitionSlices) -> PartitionSlices:
        """These runs and others."""
        pairs = zip(self.columns, other.columns, strict=True)
        return PartitionSlices(*(np.concatenate(pair) for pair in pairs))

    @property
    def columns(self) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
        """The five columns."""
        return self.member, self.topic, self.first, self.step, self.count

    def rows(self) -> PartitionSlices:
        """The same, a run for each partition."""
        if (self.count == 1).all():
            return self
        row, partition = expand_slices(self.first, self.step, self.count)
        one = np.ones(len(row), np.int64)
        return PartitionSlices(self.member[row], self.topic[row], partition, one, one)

    @property
    def keys(self) -> IntArray:
        """Topic and first partition as one sortable number."""
        return (self.topic << PARTITION_BITS) | self.first


EMPTY_SLICES = PartitionSlices(*(np.empty(0, np.int64) for _ in range(5)))
"""No runs."""


def mask_from_indexes(places: IntArray, number: int) -> BoolArray:
    """Flags that are set at these places."""
    flags = np.zeros(number, bool)
    flags[places] = True
    return flags


def match_equal_slices(one: PartitionSlices, other: PartitionSlices) -> tuple[IntArray, IntArray]:
    """The runs that are in both, as places in each; neither has a run twice."""
    both = one.joined(other)
    order = np.lexsort(both.columns[::-1])
    same = np.ones(max(len(order) - 1, 0), bool)
    for column in both.columns:
        same &= column[order][1:] == column[order][:-1]
    first, second = order[:-1][same], order[1:][same]
    fine = (first < len(one)) & (second >= len(one))
    return first[fine], second[fine] - len(one)


def intersect_partitions(one: PartitionSlices, other: PartitionSlices) -> PartitionSlices:
    """Single partitions that a member has in both."""
    rows, others = one.rows(), other.rows()
    size = int(max(rows.member.max(initial=0), others.member.max(initial=0))) + 1
    keys, of = np.unique(np.concatenate([rows.keys, others.keys]), return_inverse=True)
    del keys
    mine, theirs = of[: len(rows)] * size + rows.member, of[len(rows) :] * size + others.member
    return rows.where(np.isin(mine, theirs))


def owners_to_slices(owner: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """The owner of each partition to evenly spaced runs, losslessly.

    Args:
        owner: for each partition the number of its owner; negative: nobody.

    Returns:
        owner, first, step and count of each run, ordered by owner and first.
    """
    order = np.argsort(owner, kind="stable")
    order = order[owner[order] >= 0]
    return compress_sorted(owner[order], order)


def compress_sorted(key: IntArray, partition: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Rows sorted by key and ascending partition, without repeats, to key, first, step and count of runs.

    A row turns where its key or its gap to the row before changes. In a stretch of turns the first starts a run, the
    second is that run's second partition (its gap is the new step), the third starts another run, and so on.
    """
    size = len(partition)
    if size == 0:
        empty = np.empty(0, dtype=np.int64)
        return empty, empty, empty, empty
    row = np.arange(size)
    new_key = np.append(True, key[1:] != key[:-1])
    gap = np.append(0, partition[1:] - partition[:-1])
    gap[new_key] = 0
    turns = new_key | np.append(True, gap[1:] != gap[:-1])
    stretch_begins = turns & (new_key | np.append(True, ~turns[:-1]))
    begin = np.maximum.accumulate(np.where(stretch_begins, row, 0))
    starts = turns & ((row - begin) % 2 == 0)
    first_rows = np.flatnonzero(starts)
    count = np.diff(np.append(first_rows, size))
    last = partition[first_rows + count - 1]
    first = partition[first_rows]
    step = np.where(count > 1, (last - first) // np.maximum(count - 1, 1), 1)
    return key[first_rows], first, step, count
