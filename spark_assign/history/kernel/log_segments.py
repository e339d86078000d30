"""Reads log segments of `__consumer_offsets` as records, as a consumer with `isolation.level=read_committed` does.

The records of a transaction count if the next marker of its producer commits it. This marker can be in a later segment:
`first_markers` returns the first marker of each producer in a segment. A transaction without a marker is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import pyarrow as pa

from spark_assign.wire import log_segment
from spark_assign.wire.log_segment import CORRUPT, Batch, Damaged, Record
from spark_assign.wire.reader import WireError

SEGMENT = r"__consumer_offsets-(\d+)/(\d{20})\.log$"
"""Pattern of the end of a segment's path: partition, and the base offset of the segment."""
_PATH = re.compile(SEGMENT)
_BATCH_SIZE = 10_000
_MAX_TIMESTAMP_MS = ((1 << 63) - 1) // 1000
"""The largest timestamp, in milliseconds, that fits in 64 bits as microseconds."""

DAMAGED = pa.schema(
    {
        "cluster": pa.string(),
        "path": pa.string(),
        "partition": pa.int32(),
        **dict.fromkeys(("position", "size", "after"), pa.int64()),
        **dict.fromkeys(("code", "detail"), pa.string()),
    }
)
"""Byte ranges of a segment that can't be read as records. `after` is the last offset before the range. Codes: `cut-off`
(the end of a segment that was being written), `corrupt`, `unknown-format`."""
MARKERS = pa.schema({"partition": pa.int32(), "producer_id": pa.int64(), "marker": pa.int64(), "committed": pa.bool_()})

Markers = Mapping[int, list[tuple[int, bool]]]
"""Producer id to its markers: offset, and whether the marker commits. Sorted by offset."""


def parse_path(path: str) -> tuple[int, int]:
    """Returns the partition and the base offset in a segment's path."""
    match = _PATH.search(path)
    assert match is not None, path
    return int(match[1]), int(match[2])


def first_markers(files: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the MARKERS of segments, the first marker of each producer per segment.

    Args:
        files: path and content of each segment.
    """
    rows: list[tuple[int, int, int, bool]] = []
    for partition, file in _iter_files(files):
        producers: set[int] = set()
        for batch in log_segment.batches(file["content"], check=False):
            if not isinstance(batch, Batch) or not batch.control or batch.producer_id in producers:
                continue
            if (marker_type := _read_marker(file["content"], batch)) is not None:
                producers.add(batch.producer_id)
                rows.append((partition, batch.producer_id, batch.base_offset, marker_type == log_segment.COMMIT))
    return _to_batch(rows, MARKERS)


def read_records(files: pa.RecordBatch, cluster: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields the records of segments.

    Args:
        files: path and content of each segment, and as `markers` the first markers of all segments of its partition.
        cluster: the cluster of all records.
        schema: `tables.history.RECORDS`.
    """
    rows = (
        (cluster, partition, offset, 1000 * min(max(at_ms, -_MAX_TIMESTAMP_MS), _MAX_TIMESTAMP_MS), key, value)
        for partition, file in _iter_files(files)
        for offset, at_ms, key, value in _read_committed(file["content"], _markers_by_producer(file["markers"]))
    )
    while batch := list(islice(rows, _BATCH_SIZE)):
        yield _to_batch(batch, schema)


def find_damage(files: pa.RecordBatch, cluster: str) -> pa.RecordBatch:
    """Returns the DAMAGED byte ranges of segments.

    Args:
        files: path and content of each segment.
        cluster: the cluster of all segments.
    """
    rows: list[tuple[Any, ...]] = []
    for partition, file in _iter_files(files):
        path, data = file["path"], file["content"]
        for batch in log_segment.batches(data):
            damage = batch
            if isinstance(damage, Batch):
                error = _find_error(data, damage)
                if error is None:
                    continue
                size = damage.end - damage.position
                damage = Damaged(damage.position, size, damage.base_offset - 1, CORRUPT, error)
            after = damage.offset if damage.offset >= 0 else None
            rows.append((cluster, path, partition, damage.position, damage.size, after, damage.code, damage.detail))
    return _to_batch(rows, DAMAGED)


def _read_committed(data: bytes, markers: Markers) -> Iterator[Record]:
    """Yields the records of a segment without those of aborted and open transactions."""
    open_transactions: dict[int, list[Record]] = {}
    for batch in log_segment.batches(data):
        if not isinstance(batch, Batch):
            continue
        if batch.control:
            if (marker_type := _read_marker(data, batch)) is not None:
                transaction = open_transactions.pop(batch.producer_id, [])
                yield from transaction if marker_type == log_segment.COMMIT else ()
            continue
        try:
            records = log_segment.records(data, batch)
        except WireError:
            continue  # `find_damage` reports it
        if batch.transactional:
            open_transactions.setdefault(batch.producer_id, []).extend(records)
        else:
            yield from records
    for producer_id, records in open_transactions.items():
        last_offset = records[-1].offset if records else -1
        producer_markers = markers.get(producer_id, ())
        is_committed = next((commits for offset, commits in producer_markers if offset > last_offset), False)
        yield from records if is_committed else ()


def _markers_by_producer(rows: list[dict[str, Any]] | None) -> Markers:
    markers: dict[int, list[tuple[int, bool]]] = {}
    for row in rows or ():
        markers.setdefault(row["producer_id"], []).append((row["marker"], row["committed"]))
    for producer_markers in markers.values():
        producer_markers.sort()
    return markers


def _read_marker(data: bytes, batch: Batch) -> int | None:
    """Returns the type of a transaction marker; None if it can't be read or is no marker."""
    try:
        return log_segment.marker(data, batch)
    except WireError:
        return None


def _find_error(data: bytes, batch: Batch) -> str | None:
    """Returns why the records of a batch can't be read; None if they can."""
    try:
        log_segment.records(data, batch)
    except WireError as error:
        return str(error)
    return None


def _iter_files(files: pa.RecordBatch) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields one file at a time, because the content is large, with its partition."""
    for row_index in range(files.num_rows):
        (row,) = files.slice(row_index, 1).to_pylist()
        yield parse_path(row["path"])[0], row


def _to_batch(rows: list[Any], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
