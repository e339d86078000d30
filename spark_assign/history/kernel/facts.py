"""Reduces batches of `__consumer_offsets` records to facts, the input of all kernels that process complete groups.

A fact is tagged by its `kind`:

    record     an unchanged coordinator record about a group: key, value, and where and when it was written
    commits    the commits of one topic by a group, as intervals in which no two consecutive commits are further apart
               than the threshold. The intervals of several batches merge to those of all of them, in any order. Fields:
               topic; topic_id if a record names it; `commit_intervals` with partition, from_ms and until_ms (first and
               last commit), commits, first_offset and last_offset (committed at from_ms and at until_ms); and `once`
               with partition, at_ms, and offset of intervals of a single commit
    deleted    the same for the tombstones of a topic's commits, one interval per partition; offsets have no meaning
    unreadable     a record that can't be decoded, unchanged, with code and detail; the group is null if even that is
               unknown

Every fact has the cluster and, except for some `unreadable` facts, the group.

The time of a commit is the timestamp of its record, not the one in its value. Record timestamps are from the same clock
as those of the records about the group itself, with which pauses are compared; a tombstone has no other timestamp; and
up to Kafka 3.9 the timestamp in the value was whatever an old client (OffsetCommit request version 1) had sent. If a
record has no timestamp (log format of Kafka 0.9), the one in the value is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.history.kernel.batch_decoder import CORRUPT, NEWER_VERSION, read_commit_values, read_keys
from spark_assign.history.kernel.binary_column import BinaryColumn, combine_chunks, dictionary_indexes
from spark_assign.history.kernel.commit_intervals import (
    LISTS,
    CommitIntervals,
    intervals_from_commits,
    pack_keys,
)
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.wire.group_records import NAMES, NEWEST

RECORD, COMMITS, DELETED, UNREADABLE = KINDS = ("record", "commits", "deleted", "unreadable")

_TEXT, _LONG, _INT = pa.string(), pa.int64(), pa.int32()
FACTS = pa.schema(
    [
        pa.field("cluster", _TEXT, nullable=False),
        pa.field("group_id", _TEXT),
        pa.field("kind", _TEXT, nullable=False),
        *(pa.field(name, dtype) for name, dtype in {"partition": _INT, "offset": _LONG, "at_ms": _LONG}.items()),
        *(pa.field(name, pa.binary()) for name in ("key", "value")),
        *(pa.field(name, _TEXT) for name in ("code", "detail", "topic", "topic_id")),
        *(pa.field(name, dtype) for name, dtype in LISTS.items()),
    ]
)
"""Columns of facts. `partition`, `offset`, and `at_ms` say where and when a record was written."""

RECORDS = pa.schema(
    [
        *(pa.field(name, dtype) for name, dtype in {"cluster": _TEXT, "partition": _INT}.items()),
        *(pa.field(name, _LONG) for name in ("offset", "at_ms")),
        *(pa.field(name, pa.binary()) for name in ("key", "value")),
    ]
)
"""Input records: `tables.history.RECORDS` with the timestamp in milliseconds."""

_MAX_COMMIT_MS = 253_402_300_800_000
"""The year 10000, in milliseconds since 1970: no clock yields a later commit timestamp."""

_INFINITE_MS = np.iinfo(np.int64).max


def reduce_records(records: pa.Table, gap_ms: int) -> pa.Table:
    """Reduces records to facts.

    Args:
        records: RECORDS of any clusters, in any order.
        gap_ms: commits that are further apart belong to different intervals, in milliseconds.

    Returns:
        FACTS in no particular order. Each record is in exactly one fact: commits and tombstones are counted, all other
        records are unchanged.
    """
    batch = _Batch(records)
    return pa.concat_tables([batch.commits(gap_ms), batch.deleted(), batch.group_records(), batch.unreadable()])


def to_facts(kind: str, num_rows: int, columns: Mapping[str, Any]) -> pa.Table:
    """Returns facts of one kind; columns that are not given are null."""
    columns = {"kind": pa.DictionaryArray.from_arrays(np.zeros(num_rows, np.int8), [kind]), **columns}
    return pa.table(
        [
            pa.nulls(num_rows, field.type) if field.name not in columns else _cast(columns[field.name], field.type)
            for field in FACTS
        ],
        schema=FACTS,
    )


class _Batch:
    """A batch of records, their decoded keys, and the code and detail of records that can't be decoded, by row."""

    def __init__(self, records: pa.Table) -> None:
        self._records = records = records.combine_chunks()
        self._keys = read_keys(records["key"])
        self._faults = dict(self._keys.faults)
        self._cluster, self._clusters = dictionary_indexes(records["cluster"])
        is_tombstone: BoolArray = records["value"].is_null().to_numpy()
        is_readable = (self._keys.record_type >= 0) & ~self._find_newer_versions(is_tombstone)
        is_commit = self._keys.is_commit
        self._commit_rows = np.flatnonzero(is_readable & is_commit & ~is_tombstone)
        self._deleted_rows = np.flatnonzero(is_readable & is_commit & is_tombstone)
        self._group_record_rows = np.flatnonzero(is_readable & ~is_commit)

    def _find_newer_versions(self, is_tombstone: BoolArray) -> BoolArray:
        """Returns which values have an unknown, newer version. They are unreadable: a new field might matter."""
        values = BinaryColumn(self._records["value"])
        version = np.where(values.end - values.start >= 2, values.read_integers(">i2", values.start), 0)
        newest = np.full(max(NEWEST) + 2, _INFINITE_MS)
        newest[list(NEWEST)] = list(NEWEST.values())
        is_newer: BoolArray = ~is_tombstone & (version > newest[self._keys.record_type])
        for row in np.flatnonzero(is_newer).tolist():
            record_type = int(self._keys.record_type[row])
            name, newest_version = NAMES[record_type], NEWEST[record_type]
            detail = f"{name} in version {version[row]}; the newest that is known is {newest_version}"
            self._faults[row] = NEWER_VERSION, detail
        return is_newer

    def commits(self, gap_ms: int) -> pa.Table:
        """Returns the intervals of commits, and records values that can't be decoded as faults."""
        rows = self._commit_rows
        values = read_commit_values(self._keys.record_type[rows], _take(self._records["value"], rows))
        self._faults |= {int(rows[row]): (CORRUPT, detail) for row, detail in values.faults.items()}
        at_ms = self._int_column("at_ms", rows)
        lacks_timestamp = (at_ms < 0) & (values.commit_ms >= 0) & (values.commit_ms < _MAX_COMMIT_MS)
        at_ms = np.where(lacks_timestamp, values.commit_ms, at_ms)
        is_valid = values.is_valid
        rows, topic_id = rows[is_valid], values.topic_id[is_valid]
        topic = pack_keys(self._topic_keys(rows), topic_id)
        intervals, commit = intervals_from_commits(
            topic, self._keys.partition[rows], at_ms[is_valid], values.offset[is_valid], gap_ms
        )
        topic_ids = pa.DictionaryArray.from_arrays(topic_id[commit], pa.array(values.topic_ids, pa.string()))
        return self._interval_facts(COMMITS, intervals, rows[commit], topic_ids)

    def deleted(self) -> pa.Table:
        """Returns the tombstones of commits, counted by partition."""
        rows = self._deleted_rows
        offset = np.zeros(len(rows), np.int64)
        at_ms = self._int_column("at_ms", rows)
        intervals, commit = intervals_from_commits(
            self._topic_keys(rows), self._keys.partition[rows], at_ms, offset, _INFINITE_MS
        )
        return self._interval_facts(DELETED, intervals, rows[commit])

    def group_records(self) -> pa.Table:
        """Returns the records about groups, unchanged."""
        return self._record_facts(RECORD, self._group_record_rows, {})

    def unreadable(self) -> pa.Table:
        """Returns the records that can't be decoded, unchanged. Must be called after `commits`."""
        rows = np.array(sorted(self._faults), np.int64)
        faults = [self._faults[row] for row in rows.tolist()]
        columns = {"code": [code for code, _ in faults], "detail": [detail for _, detail in faults]}
        return self._record_facts(UNREADABLE, rows, columns)

    def _record_facts(self, kind: str, rows: IntArray, fault_columns: Mapping[str, Any]) -> pa.Table:
        columns = {name: _take(self._records[name], rows) for name in RECORDS.names}
        return to_facts(kind, len(rows), {"group_id": self._names("group", rows), **columns, **fault_columns})

    def _interval_facts(
        self, kind: str, intervals: CommitIntervals, rows: IntArray, topic_ids: pa.Array | None = None
    ) -> pa.Table:
        """Returns facts of intervals; `rows` is a record of each interval, whose key names group and topic."""
        tables = [FACTS.empty_table()]
        for name, first, lists in intervals.to_lists():
            list_rows = rows[first]
            columns = {
                "cluster": self._clusters.take(pa.array(self._cluster[list_rows])),
                "group_id": self._names("group", list_rows),
                "topic": self._names("topic", list_rows),
                name: lists,
            }
            if topic_ids is not None:
                columns["topic_id"] = topic_ids.take(pa.array(first))
            tables.append(to_facts(kind, len(list_rows), columns))
        return pa.concat_tables(tables)

    def _topic_keys(self, rows: IntArray) -> IntArray:
        """Returns a key per row that sorts by cluster, group, and topic."""
        return pack_keys(pack_keys(self._cluster[rows], self._keys.group[rows]), self._keys.topic[rows])

    def _names(self, name: str, rows: IntArray) -> pa.Array:
        names = pa.array(getattr(self._keys, f"{name}s"), pa.string())
        indexes = getattr(self._keys, name)[rows]
        return names.take(pa.array(indexes, mask=indexes < 0))

    def _int_column(self, name: str, rows: IntArray) -> IntArray:
        values: IntArray = combine_chunks(self._records[name]).to_numpy(zero_copy_only=False)[rows]
        return values


def _take(column: pa.Array | pa.ChunkedArray, rows: IntArray) -> pa.Array:
    """Returns rows of a column; `rows` are distinct and ascending, so as many as there are means all."""
    array = combine_chunks(column)
    return array if len(rows) == len(array) else array.take(pa.array(rows))


def _cast(column: Any, dtype: pa.DataType) -> pa.Array:
    if isinstance(column, pa.Array):
        return column if column.type == dtype else column.cast(dtype)
    return pa.array(column, dtype)
