"""Splits facts into chunks of complete groups, and arranges them so that each group's facts are slices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.history.kernel.binary_column import dictionary_indexes
from spark_assign.history.kernel.commit_intervals import (
    LISTS,
    CommitColumns,
    CommitIntervals,
    Commits,
    flatten_intervals,
    merge_intervals,
    pack_keys,
)
from spark_assign.history.kernel.facts import COMMITS, DELETED, RECORD, UNREADABLE
from spark_assign.history.kernel.record_parser import RawRecord
from spark_assign.numeric.arrays import IntArray, key_ranges, starts_new_key

_MAX_CHUNK_SIZE = 300_000
"""Maximum number of facts, intervals, and kilobytes of records in a chunk, unless a single group has more."""

_RECORD_BATCH_SIZE = 1_000
"""Number of records that are converted to Python at once: giant groups have records of megabytes."""

_GROUP_KEY = ("cluster", "group_id")
_MIN_INT64, _MAX_INT64 = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True)
class GroupFacts:
    """The facts of one group.

    Attributes:
        commits: the intervals of commits by topic partition.
        tombstones: number of tombstones of commits.
        topic_ids: topic id to topic name, from the group's commits.
        first_ms: time of the first record.
        last_ms: time of the last record.
        records: number of records, commits included.
    """

    cluster: str
    group_id: str
    commits: Commits
    tombstones: int
    topic_ids: dict[str, str]
    first_ms: int
    last_ms: int
    records: int
    _raw_records: pa.Table
    _record_types: frozenset[bytes]

    def raw_records(self) -> Iterator[RawRecord]:
        """Yields the records about the group itself, in order of partition and offset."""
        for start in range(0, self._raw_records.num_rows, _RECORD_BATCH_SIZE):
            batch = self._raw_records.slice(start, _RECORD_BATCH_SIZE)
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def raw_records_of_types(self, record_types: Sequence[int]) -> Iterator[tuple[bytes, bytes | None]]:
        """Yields key and value of the records with these key types, without those of unknown versions."""
        prefixes = [record_type.to_bytes(2, "big") for record_type in record_types]
        if self._record_types.isdisjoint(prefixes):
            return
        keys = pc.binary_slice(self._raw_records["key"], 0, 2)
        is_of_types = pc.is_in(keys, value_set=pa.array(prefixes))
        records = self._raw_records.filter(pc.and_(is_of_types, pc.is_null(self._raw_records["code"])))
        yield from zip(records["key"].to_pylist(), records["value"].to_pylist(), strict=True)


def iter_chunks(facts: pa.Table, gap_ms: int) -> Iterator[GroupChunk]:
    """Yields chunks of groups, sorted by cluster and group. `unreadable` facts are left out.

    Args:
        facts: FACTS of complete groups, in any order.
        gap_ms: as for `facts.reduce_records`.
    """
    is_readable = pc.and_(pc.is_valid(facts["group_id"]), pc.not_equal(facts["kind"], UNREADABLE))
    facts = (facts if pc.all(is_readable).as_py() else facts.filter(is_readable)).combine_chunks()
    group_key = pack_keys(*(dictionary_indexes(facts[name])[0] for name in _GROUP_KEY))
    # Sorting by kind keeps the records of a group together.
    kind, topic = (dictionary_indexes(facts[name])[0] for name in ("kind", "topic"))
    log_position = (facts[name].fill_null(0).to_numpy() for name in ("offset", "partition"))
    order = np.lexsort((*log_position, topic, kind, group_key))
    group_ranges = key_ranges(group_key[order])
    num_intervals = sum(pc.list_value_length(facts[name]).fill_null(0).to_numpy() for name in LISTS)
    num_kilobytes = pc.binary_length(facts["value"]).fill_null(0).to_numpy() >> 10
    size_before = np.append(0, np.cumsum(1 + (num_intervals + num_kilobytes)[order]))
    start = 0
    for end in range(1, len(group_ranges) + 1):
        first = group_ranges[start][0]
        if end == len(group_ranges) or size_before[group_ranges[end][1]] - size_before[first] > _MAX_CHUNK_SIZE:
            chunk = facts.take(pa.array(order[first : group_ranges[end - 1][1]])).combine_chunks()
            group_starts = np.array([group_range[0] - first for group_range in group_ranges[start:end]], np.int64)
            yield GroupChunk(chunk, group_starts, gap_ms)
            start = end


class GroupChunk:
    """Facts of complete groups, sorted by group.

    Attributes:
        clusters: cluster of each group.
        names: id of each group.
        commits: the commits of all groups.
    """

    def __init__(self, facts: pa.Table, group_starts: IntArray, gap_ms: int) -> None:
        self._facts, self._group_starts = facts, group_starts
        lengths = np.diff(np.append(group_starts, facts.num_rows))
        self._row_group = np.repeat(np.arange(len(group_starts)), lengths)
        self._rows_by_kind = {
            kind: np.flatnonzero(pc.equal(facts["kind"], kind).to_numpy()) for kind in (RECORD, COMMITS, DELETED)
        }
        self._row_topic, self._topics = dictionary_indexes(facts["topic"])
        self.clusters, self.names = (facts[name].take(pa.array(group_starts)).combine_chunks() for name in _GROUP_KEY)
        self._commit_intervals = self._merge_intervals(COMMITS, gap_ms)
        self._deleted_intervals = self._merge_intervals(DELETED, _MAX_INT64)
        self.commits = self._build_commit_columns()

    def groups(self) -> Iterator[GroupFacts]:
        """Yields the facts of each group."""
        clusters, names = self.clusters.to_pylist(), self.names.to_pylist()
        groups = np.arange(len(names) + 1)
        commit_starts = np.searchsorted(self.commits.group, groups).tolist()
        records = self._facts.select(["partition", "offset", "at_ms", "key", "value", "code", "detail"])
        topic_ids = self._topic_ids_by_group()
        num_commits, tombstones = map(self._count_by_group, (self._commit_intervals, self._deleted_intervals))
        first_ms, last_ms = (self._reduce_times(reduce).tolist() for reduce in (np.minimum, np.maximum))
        record_rows = self._rows_by_kind[RECORD]
        record_starts = np.searchsorted(self._row_group[record_rows], groups).tolist()
        types = pc.binary_slice(records["key"].take(pa.array(record_rows)), 0, 2).to_pylist()
        for group, (cluster, name) in enumerate(zip(clusters, names, strict=True)):
            start, count = record_starts[group], record_starts[group + 1] - record_starts[group]
            yield GroupFacts(
                cluster=cluster,
                group_id=name,
                commits=Commits(self.commits, commit_starts[group], commit_starts[group + 1]),
                tombstones=tombstones[group],
                topic_ids=topic_ids.get(group, {}),
                first_ms=first_ms[group],
                last_ms=last_ms[group],
                records=count + num_commits[group] + tombstones[group],
                _raw_records=records.slice(int(record_rows[start]) if count else 0, count),
                _record_types=frozenset(types[start : start + count]),
            )

    def _merge_intervals(self, kind: str, gap_ms: int) -> CommitIntervals:
        """Returns the intervals of a kind by group and topic, merged over batches and over the ids of a topic."""
        rows = self._rows_by_kind[kind]
        topic = self._row_group[rows] * len(self._topics) + self._row_topic[rows]
        lists = self._facts.select(list(LISTS)).take(pa.array(rows))
        return merge_intervals(flatten_intervals(topic, lists), gap_ms)[0]

    def _build_commit_columns(self) -> CommitColumns:
        intervals = self._commit_intervals
        first = np.flatnonzero(starts_new_key(intervals.topic_partition))
        group, topic = np.divmod(intervals.topic[first], len(self._topics))
        topic_names = pa.DictionaryArray.from_arrays(pa.array(topic), self._topics)
        bounds = np.append(first, len(intervals.topic))
        return CommitColumns(
            group, topic_names, intervals.partition[first], intervals, bounds, self._count_tombstones(first)
        )

    def _count_tombstones(self, first: IntArray) -> IntArray:
        """Returns the number of tombstones of each committed partition; `first` is its first interval."""
        committed, deleted = self._commit_intervals, self._deleted_intervals
        counts = np.zeros(len(first), np.int64)
        if len(deleted.topic):
            topic, partition = (
                np.concatenate([getattr(committed, name)[first], getattr(deleted, name)])
                for name in ("topic", "partition")
            )
            keys = pack_keys(topic, partition)
            index = np.searchsorted(keys[: len(first)], keys[len(first) :])
            matches = (index < len(first)) & (keys[np.minimum(index, len(first) - 1)] == keys[len(first) :])
            counts[index[matches]] = deleted.commits[matches]
        return counts

    def _count_by_group(self, intervals: CommitIntervals) -> list[int]:
        """Returns the number of commits or tombstones in the intervals of each group."""
        counts = np.zeros(len(self._group_starts), np.int64)
        np.add.at(counts, intervals.topic // len(self._topics), intervals.commits)
        found: list[int] = counts.tolist()
        return found

    def _topic_ids_by_group(self) -> dict[int, dict[str, str]]:
        """Returns, by group, topic id to topic name."""
        topic_ids: dict[int, dict[str, str]] = defaultdict(dict)
        rows = self._rows_by_kind[COMMITS]
        columns = [self._facts[name].take(pa.array(rows)).to_pylist() for name in ("topic_id", "topic")]
        for group, topic_id, topic in zip(self._row_group[rows].tolist(), *columns, strict=True):
            if topic_id is not None:
                topic_ids[group][topic_id] = topic
        return topic_ids

    def _reduce_times(self, reduce: np.ufunc) -> IntArray:
        """Returns the first or the last time of each group's facts: `reduce` is the minimum or the maximum."""
        times = np.full(len(self._group_starts), _MAX_INT64 if reduce is np.minimum else _MIN_INT64)
        rows = self._rows_by_kind[RECORD]
        reduce.at(times, self._row_group[rows], self._facts["at_ms"].take(pa.array(rows)).to_numpy())
        for intervals in (self._commit_intervals, self._deleted_intervals):
            for interval_ms in (intervals.start_ms, intervals.end_ms):
                reduce.at(times, intervals.topic // len(self._topics), interval_ms)
        return times
