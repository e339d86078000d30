"""Commits as intervals in which no two that follow each other are further apart than a threshold.

Intervals of some commits and intervals of others make those of all of them, whatever was united first: two are one if
they overlap or touch within the threshold, which holds of their commits exactly if it holds of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_assign.history.kernel.binary_column import lists_of, one_array
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.segmented_arrays import starts_new_key

_LEAST = np.iinfo(np.int64).min

COMMIT_INTERVAL = pa.struct(
    {
        "partition": pa.int32(),
        **dict.fromkeys(("from_ms", "until_ms", "commits", "first_offset", "last_offset"), pa.int64()),
    }
)
"""One of a topic's intervals."""

ONCE = pa.struct({"partition": pa.int32(), "at_ms": pa.int64(), "offset": pa.int64()})
"""One of a single commit, in half the bytes: of a compacted topic nearly all are."""

LISTS = {"once": pa.list_(ONCE), "commit_intervals": pa.list_(COMMIT_INTERVAL)}
"""The columns in which facts have them."""


@dataclass(frozen=True)
class CommitIntervals:
    """Intervals of commits as columns; `topic` is the number of a topic of a group. One commit is an interval, too."""

    topic: IntArray
    partition: IntArray
    from_ms: IntArray
    until_ms: IntArray
    commits: IntArray
    first_offset: IntArray
    last_offset: IntArray

    @property
    def slot(self) -> IntArray:
        """Numbers of what is committed, by topic and partition."""
        return pack_keys(self.topic, self.partition)

    def listed(self) -> Iterator[tuple[str, IntArray, pa.ListArray]]:
        """As LISTS, a list for each topic: the column, of each list a row that is in it, and the lists.

        They are by topic.
        """
        once = self.commits == 1
        single = self.topic, self.partition, self.from_ms, self.first_offset
        for (name, kind), which, columns in zip(LISTS.items(), (once, ~once), (single, _columns(self)), strict=True):
            if which.any():
                topic, *parts = columns if which.all() else (column[which] for column in columns)
                begins = np.flatnonzero(starts_new_key(topic))
                yield name, np.flatnonzero(which)[begins], lists_of(kind, begins, parts)


def flatten_intervals(topic: IntArray, facts: pa.Table) -> CommitIntervals:
    """Intervals out of the lists of facts of some topics."""
    of_single, single = _flatten_intervals(topic, facts["once"])
    of_several, several = _flatten_intervals(topic, facts["commit_intervals"])
    if len(of_single):
        partition, at_ms, offset = single
        some = CommitIntervals(of_single, partition, at_ms, at_ms, np.ones(len(at_ms), np.int64), offset, offset)
        if not len(of_several):
            return some
        pairs = zip(_columns(some), (of_several, *several), strict=True)
        return CommitIntervals(*(np.concatenate(pair) for pair in pairs))
    return CommitIntervals(of_several, *several)


def _flatten_intervals(topic: IntArray, column: pa.ChunkedArray) -> tuple[IntArray, list[IntArray]]:
    """The columns of a column of lists, and of each row its topic."""
    lists = one_array(column)
    parts = [part.to_numpy(zero_copy_only=False).astype(np.int64, copy=False) for part in lists.flatten().flatten()]
    return np.repeat(topic, lists.value_lengths().fill_null(0).to_numpy()), parts


def of_commits(
    topic: IntArray, partition: IntArray, at_ms: IntArray, offset: IntArray, gap_ms: int
) -> tuple[CommitIntervals, IntArray]:
    """The intervals of single commits, as `merge_intervals`."""
    return merge_intervals(
        CommitIntervals(topic, partition, at_ms, at_ms, np.ones(len(topic), np.int64), offset, offset), gap_ms
    )


def merge_intervals(some: CommitIntervals, gap_ms: int) -> tuple[CommitIntervals, IntArray]:
    """The fewest intervals that say the same, by topic, partition and time, and of each a row that is in it.

    Of several commits at one moment the largest offset counts, so that no order of the records matters.
    """
    slot = some.slot
    if (slot[1:] > slot[:-1]).all():
        return some, np.arange(len(slot))
    order = np.argsort(pack_keys(slot, some.from_ms), kind="stable")
    some, slot = CommitIntervals(*(column[order] for column in _columns(some))), slot[order]
    latest = pack_keys(slot, some.until_ms)
    reach = some.until_ms[_place_of_largest(latest)]
    begins = starts_new_key(slot)
    begins[1:] |= some.from_ms[1:] - reach[:-1] > gap_ms
    first = np.flatnonzero(begins)
    of = np.cumsum(begins) - 1
    from_ms, until_ms = some.from_ms[first], np.maximum.reduceat(some.until_ms, first)
    at_first = np.where(some.from_ms == from_ms[of], some.first_offset, _LEAST)
    at_last = np.where(some.until_ms == until_ms[of], some.last_offset, _LEAST)
    found = CommitIntervals(
        some.topic[first],
        some.partition[first],
        from_ms,
        until_ms,
        np.add.reduceat(some.commits, first),
        np.maximum.reduceat(at_first, first),
        np.maximum.reduceat(at_last, first),
    )
    return found, order[first]


def pack_keys(major: IntArray, minor: IntArray) -> IntArray:
    """One number for two, that sorts as the first does and, where those are equal, as the second; not below 0."""
    if not len(major):
        return major
    low, high = int(minor.min()), int(minor.max())
    if (int(major.max()) + 1) * (high - low + 1) >= 1 << 63:
        major, minor = (np.unique(each, return_inverse=True)[1] for each in (major, minor))
        low, high = 0, int(minor.max())
    return major * (high - low + 1) + (minor - low)


def _place_of_largest(numbers: IntArray) -> IntArray:
    """Of each row the place of the largest number up to it."""
    largest = np.maximum.accumulate(numbers)
    return np.maximum.accumulate(np.where(numbers == largest, np.arange(len(numbers)), 0))


def _columns(some: CommitIntervals) -> tuple[IntArray, ...]:
    return tuple(getattr(some, name) for name in CommitIntervals.__dataclass_fields__)
