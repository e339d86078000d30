"""Compresses commits into intervals in which consecutive commits are no further apart than a threshold.

The intervals of all commits can be computed from the intervals of any subsets, in any order: two intervals merge if
they overlap or touch within the threshold, which is true of the intervals exactly if it is true of their commits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from spark_assign.history.kernel.binary_column import build_lists, combine_chunks
from spark_assign.history.kernel.timeline import CommitInterval
from spark_assign.numeric.arrays import IntArray, starts_new_key

_MIN_INT64 = np.iinfo(np.int64).min

COMMIT_INTERVAL = pa.struct(
    {
        "partition": pa.int32(),
        **dict.fromkeys(("start_ms", "end_ms", "commits", "first_offset", "last_offset"), pa.int64()),
        **dict.fromkeys(("cell_offset", "next_offset"), pa.int64()),
    }
)
"""An interval of a topic's commits."""

SINGLE_COMMIT = pa.struct({"partition": pa.int32(), "at_ms": pa.int64(), "offset": pa.int64()})
"""An interval of one commit in half the bytes. In a compacted topic, almost all intervals are of this kind."""

LISTS = {"once": pa.list_(SINGLE_COMMIT), "commit_intervals": pa.list_(COMMIT_INTERVAL)}
"""The columns of facts that hold intervals."""

TopicPartition = tuple[str, int]
"""Topic name and partition."""


class CommitIntervals(NamedTuple):
    """Intervals of commits as columns. A single commit is an interval, too.

    Attributes:
        topic: index of a topic of a group.
        partition: partition of the topic.
        start_ms: time of the first commit.
        end_ms: time of the last commit.
        commits: number of commits.
        first_offset: the largest offset committed at `start_ms`.
        last_offset: the largest offset committed at `end_ms`.
        cell_offset: the largest offset committed in the cell of `start_ms`. Cells divide time, and are as long as the
            threshold.
        next_offset: the largest offset committed in that cell and the next one, so for at least the threshold.
    """

    topic: IntArray
    partition: IntArray
    start_ms: IntArray
    end_ms: IntArray
    commits: IntArray
    first_offset: IntArray
    last_offset: IntArray
    cell_offset: IntArray
    next_offset: IntArray

    @property
    def topic_partition(self) -> IntArray:
        """A key per interval that sorts by topic and partition."""
        return pack_keys(self.topic, self.partition)

    def to_lists(self) -> Iterator[tuple[str, IntArray, pa.ListArray]]:
        """Converts the intervals, which must be sorted by topic, to the columns of `LISTS`.

        Yields:
            the column, a row of an interval in each list, and one list per topic.
        """
        is_single = self.commits == 1
        single = self.topic, self.partition, self.start_ms, self.first_offset
        for (name, list_type), mask, columns in zip(
            LISTS.items(), (is_single, ~is_single), (single, self), strict=True
        ):
            if mask.any():
                topic, *fields = columns if mask.all() else (column[mask] for column in columns)
                starts = np.flatnonzero(starts_new_key(topic))
                yield name, np.flatnonzero(mask)[starts], build_lists(list_type, starts, fields)


def flatten_intervals(topic: IntArray, facts: pa.Table) -> CommitIntervals:
    """Returns the intervals in the lists of facts; `topic` is the topic index of each fact."""
    single_topic, single = _flatten_lists(topic, facts["once"])
    interval_topic, fields = _flatten_lists(topic, facts["commit_intervals"])
    if len(single_topic):
        partition, at_ms, offset = single
        count = np.ones(len(at_ms), np.int64)
        singles = CommitIntervals(single_topic, partition, at_ms, at_ms, count, *[offset] * 4)
        if not len(interval_topic):
            return singles
        pairs = zip(singles, (interval_topic, *fields), strict=True)
        return CommitIntervals(*(np.concatenate(pair) for pair in pairs))
    return CommitIntervals(interval_topic, *fields)


def _flatten_lists(topic: IntArray, column: pa.ChunkedArray) -> tuple[IntArray, list[IntArray]]:
    """Returns the topic of each struct in a column of lists, and the fields of the structs."""
    lists = combine_chunks(column)
    fields = [field.to_numpy(zero_copy_only=False).astype(np.int64, copy=False) for field in lists.flatten().flatten()]
    return np.repeat(topic, lists.value_lengths().fill_null(0).to_numpy()), fields


def intervals_from_commits(
    topic: IntArray, partition: IntArray, at_ms: IntArray, offset: IntArray, gap_ms: int
) -> tuple[CommitIntervals, IntArray]:
    """Returns the intervals of single commits, as `merge_intervals` does."""
    count = np.ones(len(topic), np.int64)
    return merge_intervals(CommitIntervals(topic, partition, at_ms, at_ms, count, *[offset] * 4), gap_ms)


def merge_intervals(intervals: CommitIntervals, gap_ms: int) -> tuple[CommitIntervals, IntArray]:
    """Merges intervals that overlap or are at most `gap_ms` apart.

    Of several commits at the same time, the largest offset counts, so the order of the records doesn't matter.

    Returns:
        the intervals sorted by topic, partition, and time, and for each the row of one of its input intervals.
    """
    topic_partition = intervals.topic_partition
    if (topic_partition[1:] > topic_partition[:-1]).all():
        return intervals, np.arange(len(topic_partition))
    order = np.argsort(pack_keys(topic_partition, intervals.start_ms), kind="stable")
    intervals = CommitIntervals(*(column[order] for column in intervals))
    topic_partition = topic_partition[order]
    latest = pack_keys(topic_partition, intervals.end_ms)
    max_until_ms = intervals.end_ms[_running_argmax(latest)]
    starts_interval = starts_new_key(topic_partition)
    starts_interval[1:] |= intervals.start_ms[1:] - max_until_ms[:-1] > gap_ms
    first = np.flatnonzero(starts_interval)
    merged_index = np.cumsum(starts_interval) - 1
    start_ms, end_ms = intervals.start_ms[first], np.maximum.reduceat(intervals.end_ms, first)
    first_offset = np.where(intervals.start_ms == start_ms[merged_index], intervals.first_offset, _MIN_INT64)
    last_offset = np.where(intervals.end_ms == end_ms[merged_index], intervals.last_offset, _MIN_INT64)
    cells_after = intervals.start_ms // max(gap_ms, 1) - (start_ms // max(gap_ms, 1))[merged_index]
    cell_offset = np.where(cells_after == 0, intervals.cell_offset, _MIN_INT64)
    of_next = np.where(cells_after == 1, intervals.cell_offset, _MIN_INT64)
    next_offset = np.where(cells_after == 0, intervals.next_offset, of_next)
    merged = CommitIntervals(
        intervals.topic[first],
        intervals.partition[first],
        start_ms,
        end_ms,
        np.add.reduceat(intervals.commits, first),
        np.maximum.reduceat(first_offset, first),
        *(np.maximum.reduceat(offset, first) for offset in (last_offset, cell_offset, next_offset)),
    )
    return merged, order[first]


def pack_keys(major: IntArray, minor: IntArray) -> IntArray:
    """Returns one nonnegative key per row that sorts by `major`, then by `minor`."""
    if not len(major):
        return major
    low, high = int(minor.min()), int(minor.max())
    if (int(major.max()) + 1) * (high - low + 1) >= 1 << 63:
        major, minor = (np.unique(values, return_inverse=True)[1] for values in (major, minor))
        low, high = 0, int(minor.max())
    return major * (high - low + 1) + (minor - low)


def _running_argmax(values: IntArray) -> IntArray:
    """Returns, for each row, the last index of the largest value up to that row."""
    largest = np.maximum.accumulate(values)
    return np.maximum.accumulate(np.where(values == largest, np.arange(len(values)), 0))


# --- commits of many groups ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CommitColumns:
    """The commits of many groups, one row per group and topic partition, sorted by these.

    Attributes:
        group: index of the group.
        topic: topic name.
        partition: partition of the topic.
        intervals: the intervals of all rows.
        first: index of each row's first interval, and their total number at the end, shape (num_rows + 1,).
        deleted: number of tombstones of each row.
    """

    group: IntArray
    topic: pa.DictionaryArray
    partition: IntArray
    intervals: CommitIntervals
    first: IntArray
    deleted: IntArray

    @cached_property
    def rows_with_gaps(self) -> list[int]:
        """Indexes of the rows that have several intervals, ascending."""
        rows: list[int] = np.flatnonzero(np.diff(self.first) > 1).tolist()
        return rows

    def iter_rows(self, start: int, end: int) -> Iterator[tuple[TopicPartition, tuple[CommitInterval, ...]]]:
        """Yields the rows from `start` up to `end`, each with its intervals."""
        first = self.first[start : end + 1].tolist()
        columns = (getattr(self.intervals, name)[first[0] : first[-1]].tolist() for name in CommitInterval._fields)
        intervals = list(map(CommitInterval, *columns))
        topics = self.topic.slice(start, end - start).to_pylist()
        for topic, partition, (first_interval, next_interval) in zip(
            topics, self.partition[start:end].tolist(), pairwise(first), strict=True
        ):
            yield (topic, partition), tuple(intervals[first_interval - first[0] : next_interval - first[0]])


class Commits(Mapping[TopicPartition, tuple[CommitInterval, ...]]):
    """The commits of one group, converted to Python objects on first use: most groups never need them."""

    def __init__(self, columns: CommitColumns, start: int, end: int) -> None:
        self._columns, self._start, self._end = columns, start, end

    def __getitem__(self, topic_partition: TopicPartition) -> tuple[CommitInterval, ...]:
        return self._by_partition[topic_partition]

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._by_partition)

    def __len__(self) -> int:
        return self._end - self._start

    @cached_property
    def _by_partition(self) -> dict[TopicPartition, tuple[CommitInterval, ...]]:
        if not len(self):
            return {}
        return dict(sorted(self._columns.iter_rows(self._start, self._end)))

    def with_gaps(self) -> Iterator[tuple[TopicPartition, tuple[CommitInterval, ...]]]:
        """Yields the partitions that have several intervals, so gaps between them."""
        rows = self._columns.rows_with_gaps
        first, last = (bisect_left(rows, bound) for bound in (self._start, self._end))
        for row in rows[first:last]:
            yield from self._columns.iter_rows(row, row + 1)


def partitions_with_gaps(
    commits: Mapping[TopicPartition, tuple[CommitInterval, ...]],
) -> list[tuple[TopicPartition, tuple[CommitInterval, ...]]]:
    """Returns the partitions that have several intervals, sorted by topic and partition."""
    items = commits.with_gaps() if isinstance(commits, Commits) else commits.items()
    return sorted((partition, intervals) for partition, intervals in items if len(intervals) > 1)
