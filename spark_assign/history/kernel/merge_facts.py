"""Merges the facts of many batches, and groups them into buckets that Spark shuffles.

A shuffled row isn't a fact but a bucket: all facts of its groups, serialized by Arrow. A million facts are a few
hundred rows, which Spark shuffles without looking inside.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.history.kernel import facts
from spark_assign.history.kernel.binary_column import combine_chunks, dictionary_indexes
from spark_assign.history.kernel.commit_intervals import flatten_intervals, merge_intervals, pack_keys
from spark_assign.history.kernel.facts import reduce_records, to_facts
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.segmented_arrays import starts_new_key

BUCKETS = pa.schema([pa.field("bucket", pa.int32(), nullable=False), pa.field("facts", pa.binary(), nullable=False)])
"""Serialized facts of some groups. All facts of a group have the same bucket."""

_MAX_BYTES = 64 << 20
_TOPIC_KEY = ("cluster", "group_id", "topic", "topic_id")
_INFINITE_MS = np.iinfo(np.int64).max


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
    for chunk in chunks:
        pending.append(reduce_records(chunk, gap_ms))
        if _is_oversize(pending, 1):
            pending = [merge(pa.concat_tables(pending), gap_ms)]
            if _is_oversize(pending, 2):
                yield _to_buckets(pending[0], num_buckets)
                pending = []
    if pending:
        yield _to_buckets(merge(pa.concat_tables(pending), gap_ms), num_buckets)


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
            pa.Table.from_batches([pa.ipc.read_record_batch(serialized[row].as_buffer(), facts.FACTS)])
            for row in np.flatnonzero(row_bucket == bucket).tolist()
        ]
        yield merge(pa.concat_tables(tables), gap_ms)


def merge(table: pa.Table, gap_ms: int) -> pa.Table:
    """Returns the fewest facts with the same content."""
    kind = table["kind"]
    merged = [table.filter(_is_kind(kind, facts.RECORD, facts.UNREADABLE))]
    for interval_kind, max_gap_ms in ((facts.COMMITS, gap_ms), (facts.DELETED, _INFINITE_MS)):
        merged.append(_merge_kind(table.filter(_is_kind(kind, interval_kind)), interval_kind, max_gap_ms))
    return pa.concat_tables(merged)


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
        merged.append(to_facts(kind, len(rows), columns))
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


def _is_kind(kind: pa.ChunkedArray, *kinds: str) -> pa.ChunkedArray:
    return pc.is_in(kind, value_set=pa.array(kinds))


def _is_oversize(tables: list[pa.Table], divisor: int) -> bool:
    """Checks whether tables exceed the maximum size divided by `divisor`."""
    size: int = sum(table.nbytes for table in tables)
    return size * divisor > _MAX_BYTES
