"""Reduces batches of `__consumer_offsets` records to facts, the input of all kernels that process complete groups.

A fact is tagged by its `kind`:

    record     an unchanged coordinator record about a group: key, value, and where and when it was written; code and
               detail if its version isn't known
    commits    the commits of one topic by a group, as intervals in which no two consecutive commits are further apart
               than the threshold. The intervals of several batches merge to those of all of them, in any order. Fields:
               topic; topic_id if a record names it; `commit_intervals` with partition, start_ms and end_ms (first and
               last commit), commits, first_offset and last_offset (committed at start_ms and at end_ms), cell_offset
               and next_offset (committed soon after start_ms, see `commit_intervals`); and `once` with partition,
               at_ms, and offset of intervals of a single commit
    deleted    the same for the tombstones of a topic's commits, one interval per partition; offsets have no meaning
    unreadable     any other record that can't be decoded, unchanged, with code and detail; the group is null if even
               that is unknown

Every fact has the cluster and, except for some `unreadable` facts, the group.

The time of a commit is the timestamp of its record, not the one in its value. Record timestamps are from the same clock
as those of the records about the group itself, with which pauses are compared; a tombstone has no other timestamp; and
up to Kafka 3.9 the timestamp in the value was whatever an old client (OffsetCommit request version 1) had sent. If a
record has no timestamp (log format of Kafka 0.9), the one in the value is used.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.groups.kernel.tagged_rows import tagged
from spark_assign.history.kernel.batch_decoder import CORRUPT, NEWER_VERSION, read_commit_values, read_keys
from spark_assign.history.kernel.binary_column import BinaryColumn, combine_chunks, dictionary_indexes
from spark_assign.history.kernel.commit_intervals import (
    LISTS,
    CommitIntervals,
    flatten_intervals,
    intervals_from_commits,
    merge_intervals,
    pack_keys,
)
from spark_assign.numeric.arrays import BoolArray, IntArray, starts_new_key
from spark_assign.tables.groups import is_own_group
from spark_assign.wire.group_records import NAMES, NEWEST

RECORD, COMMITS, DELETED, UNREADABLE = KINDS = ("record", "commits", "deleted", "unreadable")

RECORDS = pa.schema(
    {
        "cluster": pa.string(),
        "partition": pa.int32(),
        **dict.fromkeys(("offset", "at_ms"), pa.int64()),
        **dict.fromkeys(("key", "value"), pa.binary()),
    }
)
"""Input records: `tables.history.RECORDS` with the timestamp in milliseconds."""

_NAMES = ("group_id", "kind", "code", "detail", "topic", "topic_id")
FACTS = pa.schema({**{field.name: field.type for field in RECORDS}, **dict.fromkeys(_NAMES, pa.string()), **LISTS})
"""Columns of facts. `partition`, `offset`, and `at_ms` say where and when a record was written."""

BUCKETS = pa.schema({"bucket": pa.int32(), "facts": pa.binary()})
"""Serialized facts of some groups. All facts of a group have the same bucket."""

_TOPIC_KEY = ("cluster", "group_id", "topic", "topic_id")
_MAX_BYTES = 64 << 20

_MIN_MS, _MAX_MS = -30_610_224_000_000, 253_370_764_800_000
"""The years 1000 and 9999, in milliseconds since 1970. A timestamp before the first or after the second one is from no
clock, and Python's times end soon after it."""

_INFINITE_MS = np.iinfo(np.int64).max


def reduce_records(records: pa.Table, gap_ms: int) -> pa.Table:
    """Reduces records to facts.

    Args:
        records: RECORDS of any clusters, in any order.
        gap_ms: commits that are further apart belong to different intervals, in milliseconds.

    Returns:
        FACTS in no particular order. Each record is in exactly one fact: commits and tombstones are counted, all other
        records are unchanged. Records of groups of Spark's Kafka source are left out.
    """
    batch = _Batch(records)
    return pa.concat_tables([batch.commits(gap_ms), batch.deleted(), batch.group_records(), batch.unreadable()])


class _Batch:
    """A batch of records, their decoded keys, and the code and detail of records that can't be decoded, by row."""

    def __init__(self, records: pa.Table) -> None:
        keys = read_keys(records["key"])
        is_own = np.array([*map(is_own_group, keys.groups), False])[keys.group]  # without a group: the last one
        if is_own.any():
            records = records.filter(pa.array(~is_own))
            keys = read_keys(records["key"])
        self._keys = keys
        self._faults = dict(self._keys.faults)
        at_ms: IntArray = combine_chunks(records["at_ms"]).to_numpy(zero_copy_only=False)
        is_time = (at_ms >= _MIN_MS) & (at_ms < _MAX_MS)
        for row in np.flatnonzero(~is_time).tolist():
            self._faults[row] = CORRUPT, f"its timestamp, {at_ms[row]} ms, isn't a time in the years 1000 to 9998"
        if not is_time.all():  # -1: no timestamp
            times = pa.array(np.where(is_time, at_ms, -1))
            records = records.set_column(records.schema.get_field_index("at_ms"), "at_ms", times)
        self._records = records = records.combine_chunks()
        self._cluster, self._clusters = dictionary_indexes(records["cluster"])
        self._at_ms: IntArray = combine_chunks(records["at_ms"]).to_numpy(zero_copy_only=False)
        is_tombstone: BoolArray = records["value"].is_null().to_numpy()
        is_readable = is_time & (self._keys.record_type >= 0) & ~self._find_newer_versions(is_tombstone)
        is_commit = self._keys.topic >= 0
        self._commit_rows = np.flatnonzero(is_readable & is_commit & ~is_tombstone)
        self._deleted_rows = np.flatnonzero(is_readable & is_commit & is_tombstone)
        self._group_record_rows = np.flatnonzero(is_time & (self._keys.record_type >= 0) & ~is_commit)

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
        at_ms = self._at_ms[rows]
        lacks_timestamp = (at_ms < 0) & (values.commit_ms >= 0) & (values.commit_ms < _MAX_MS)
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
        intervals, commit = intervals_from_commits(
            self._topic_keys(rows), self._keys.partition[rows], self._at_ms[rows], offset, _INFINITE_MS
        )
        return self._interval_facts(DELETED, intervals, rows[commit])

    def group_records(self) -> pa.Table:
        """Returns the records about groups, unchanged."""
        return self._record_facts(RECORD, self._group_record_rows)

    def unreadable(self) -> pa.Table:
        """Returns the records that can't be decoded, unchanged. Must be called after `commits`."""
        rows = np.array(sorted(self._faults.keys() - set(self._group_record_rows.tolist())), np.int64)
        return self._record_facts(UNREADABLE, rows)

    def _record_facts(self, kind: str, rows: IntArray) -> pa.Table:
        columns = {name: _take(self._records[name], rows) for name in RECORDS.names}
        faults = [self._faults.get(row, (None, None)) for row in rows.tolist()]
        code, detail = (pa.array([fault[item] for fault in faults], pa.string()) for item in (0, 1))
        columns |= {"group_id": self._names("group", rows), "code": code, "detail": detail}
        return tagged(kind, columns, len(rows), FACTS)

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
            tables.append(tagged(kind, columns, len(list_rows), FACTS))
        return pa.concat_tables(tables)

    def _topic_keys(self, rows: IntArray) -> IntArray:
        """Returns a key per row that sorts by cluster, group, and topic."""
        return pack_keys(pack_keys(self._cluster[rows], self._keys.group[rows]), self._keys.topic[rows])

    def _names(self, name: str, rows: IntArray) -> pa.Array:
        names = pa.array(getattr(self._keys, f"{name}s"), pa.string())
        indexes = getattr(self._keys, name)[rows]
        return names.take(pa.array(indexes, mask=indexes < 0))


def _take(column: pa.Array | pa.ChunkedArray, rows: IntArray) -> pa.Array:
    """Returns rows of a column; `rows` are distinct and ascending, so as many as there are means all."""
    array = combine_chunks(column)
    return array if len(rows) == len(array) else array.take(pa.array(rows))


# --- merging and buckets ------------------------------------------------------------------------------------------


def bucket_facts(chunks: Iterable[pa.Table], gap_ms: int, num_buckets: int) -> Iterator[pa.Table]:
    """Reduces records to facts and groups these into buckets.

    Args:
        chunks: RECORDS.
        gap_ms: as for `reduce_records`.
        num_buckets: number of buckets.

    Yields:
        BUCKETS. Facts are merged until they exceed a maximum size, so memory is bounded.
    """
    pending: list[pa.Table] = []
    for part in chain.from_iterable(map(_to_parts, chunks)):
        pending.append(reduce_records(part, gap_ms))
        if _is_oversize(pending, 1):
            pending = [merge(pa.concat_tables(pending), gap_ms)]
            if _is_oversize(pending, 2):
                yield _to_buckets(pending[0], num_buckets)
                pending = []
    if pending:
        yield _to_buckets(merge(pa.concat_tables(pending), gap_ms), num_buckets)


def _to_parts(records: pa.Table) -> Iterator[pa.Table]:
    """Yields parts of about the maximum size: a decoder takes several times the memory of its records."""
    num_rows = max(len(records) * _MAX_BYTES // max(records.nbytes, 1), 1)
    yield from (records.slice(start, num_rows) for start in range(0, max(len(records), 1), num_rows))


def merge_buckets(rows: pa.Table, gap_ms: int) -> Iterator[pa.Table]:
    """Yields the merged FACTS of each bucket, in no particular order.

    Args:
        rows: BUCKETS; all rows of each bucket that occurs.
        gap_ms: as for `reduce_records`.
    """
    row_bucket = rows["bucket"].to_numpy()
    serialized = rows["facts"]
    for bucket in np.unique(row_bucket).tolist():
        tables = [
            pa.Table.from_batches([pa.ipc.read_record_batch(serialized[row].as_buffer(), FACTS)])
            for row in np.flatnonzero(row_bucket == bucket).tolist()
        ]
        yield merge(pa.concat_tables(tables), gap_ms)


def merge(table: pa.Table, gap_ms: int) -> pa.Table:
    """Returns the fewest facts with the same content."""
    kind = table["kind"]
    intervals = (
        _merge_kind(table.filter(pc.equal(kind, interval_kind)), interval_kind, max_gap_ms)
        for interval_kind, max_gap_ms in ((COMMITS, gap_ms), (DELETED, _INFINITE_MS))
    )
    others = table.filter(pc.is_in(kind, value_set=pa.array([RECORD, UNREADABLE])))
    return pa.concat_tables([others, *intervals])


def _merge_kind(table: pa.Table, kind: str, gap_ms: int) -> pa.Table:
    """Merges facts of one kind that consist of intervals."""
    topic = np.zeros(len(table), np.int64)
    for name in _TOPIC_KEY:
        topic = pack_keys(topic, dictionary_indexes(table[name])[0])
    order = np.argsort(topic, kind="stable")
    if starts_new_key(topic[order]).all():
        return table
    table, topic = table.take(pa.array(order)), topic[order]
    intervals, _ = merge_intervals(flatten_intervals(topic, table), gap_ms)
    merged = []
    for column, rows, lists in intervals.to_lists():
        keys = table.select(_TOPIC_KEY).take(pa.array(np.searchsorted(topic, intervals.topic[rows])))
        columns = {column: lists, **{name: combine_chunks(keys[name]) for name in _TOPIC_KEY}}
        merged.append(tagged(kind, columns, len(rows), FACTS))
    return pa.concat_tables(merged)


def _to_buckets(table: pa.Table, num_buckets: int) -> pa.Table:
    """Returns one row per bucket."""
    if not len(table):
        return BUCKETS.empty_table()
    bucket = _assign_buckets(table, num_buckets)
    order = np.argsort(bucket, kind="stable")
    batch = table.take(pa.array(order)).combine_chunks().to_batches()[0]
    buckets, starts = np.unique(bucket[order], return_index=True)
    ends = np.append(starts[1:], len(bucket))
    serialized = [
        batch.slice(start, end - start).serialize().to_pybytes()
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    return pa.table([pa.array(buckets, pa.int32()), pa.array(serialized, pa.binary())], schema=BUCKETS)


def _assign_buckets(table: pa.Table, num_buckets: int) -> IntArray:
    """Returns the bucket of each fact: a hash of cluster and group, or of the offset if the group is null."""
    cluster, clusters = dictionary_indexes(table["cluster"])
    group, groups = dictionary_indexes(table["group_id"])
    _, row, key_index = np.unique(pack_keys(cluster, group), return_index=True, return_inverse=True)
    values = (clusters.take(pa.array(cluster[row])), groups.take(pa.array(group[row])))
    names = zip(*(column.to_pylist() for column in values), strict=True)
    key_bucket = [zlib.crc32(f"{cluster_name}\0{group_id}".encode()) % num_buckets for cluster_name, group_id in names]
    bucket: IntArray = np.array(key_bucket, np.int64)[key_index]
    without_group = table["group_id"].is_null().to_numpy()
    bucket[without_group] = table["offset"].fill_null(0).to_numpy()[without_group] % num_buckets
    return bucket


def _is_oversize(tables: list[pa.Table], divisor: int) -> bool:
    """Checks whether tables exceed the maximum size divided by `divisor`."""
    size: int = sum(table.nbytes for table in tables)
    return size * divisor > _MAX_BYTES
