"""Log segments of `__consumer_offsets` as records, as a consumer reads them that sees committed ones only.

What was written in a transaction counts if the next marker of its producer says so. It may stand in a later segment:
`first_markers` tells the first one of each producer in a segment. A transaction that is open at the end is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from spark_assign.wire import log_segment
from spark_assign.wire.log_segment import CORRUPT, Batch, Damaged, Record
from spark_assign.wire.reader import WireError

SEGMENT = r"__consumer_offsets-(\d+)/(\d{20})\.log$"
"""The end of a segment's path: partition, and the first offset that it may have."""
_PATH = re.compile(SEGMENT)
_ROWS = 10_000
_MOST_MS = (1 << 63) // 1000 - 1
"""Timestamps have microseconds here."""

RECORDS = pa.schema(
    [
        pa.field("cluster", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
    ]
)
DAMAGED = pa.schema(
    [
        pa.field("cluster", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("after", pa.int64()),
        pa.field("code", pa.string(), nullable=False),
        pa.field("detail", pa.string(), nullable=False),
    ]
)
"""Bytes of a segment of which no records could be made. `after`: the last offset before them; `code`: `cut-off` (the
end of a segment that was being written to), `corrupt`, `unknown-format`."""
MARKERS = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("producer_id", pa.int64(), nullable=False),
        pa.field("marker", pa.int64(), nullable=False),
        pa.field("committed", pa.bool_(), nullable=False),
    ]
)

Later = Mapping[int, list[tuple[int, bool]]]
"""Producer to the offsets of its markers and whether they commit, ascending."""


def place_of(path: str) -> tuple[int, int]:
    """Partition and first offset of a segment's path."""
    found = _PATH.search(path)
    assert found is not None, path
    return int(found[1]), int(found[2])


def first_markers(files: pa.RecordBatch) -> pa.RecordBatch:
    """MARKERS of segments (path, content)."""
    rows: list[tuple[int, int, int, bool]] = []
    for file in _each(files):
        partition, _ = place_of(file["path"])
        seen: set[int] = set()
        for batch in log_segment.batches(file["content"], check=False):
            if not isinstance(batch, Batch) or not batch.control or batch.producer_id in seen:
                continue
            if (kind := _marker(file["content"], batch)) is not None:
                seen.add(batch.producer_id)
                rows.append((partition, batch.producer_id, batch.base_offset, kind == log_segment.COMMIT))
    return _batch(rows, MARKERS)


def records(files: pa.RecordBatch, cluster: str) -> Iterator[pa.RecordBatch]:
    """RECORDS of segments (path, content, and as `markers` those of the whole partition)."""
    rows: list[tuple[str, int, int, int, bytes | None, bytes | None]] = []
    for file in _each(files):
        partition, _ = place_of(file["path"])
        for record in _committed(file["content"], _later(file["markers"])):
            offset, timestamp_ms, key, value = record
            at_us = 1000 * min(max(timestamp_ms, -_MOST_MS), _MOST_MS)
            rows.append((cluster, partition, offset, at_us, key, value))
            if len(rows) == _ROWS:
                yield _batch(rows, RECORDS)
                rows = []
    yield _batch(rows, RECORDS)


def damaged(files: pa.RecordBatch, cluster: str) -> pa.RecordBatch:
    """DAMAGED of segments (path, content)."""
    rows: list[tuple[Any, ...]] = []
    for file in _each(files):
        path, data = file["path"], file["content"]
        partition, _ = place_of(path)
        for each in log_segment.batches(data):
            if isinstance(each, Batch):
                wrong = _wrong(data, each)
                if wrong is None:
                    continue
                size = each.end - each.position
                each = Damaged(each.position, size, each.base_offset - 1, CORRUPT, wrong)
            after = each.offset if each.offset >= 0 else None
            rows.append((cluster, path, partition, each.position, each.size, after, each.code, each.detail))
    return _batch(rows, DAMAGED)


def _committed(data: bytes, later: Later) -> Iterator[Record]:
    open_ones: dict[int, list[Record]] = {}
    for batch in log_segment.batches(data):
        if not isinstance(batch, Batch):
            continue
        if batch.control:
            if (kind := _marker(data, batch)) is not None:
                of_producer = open_ones.pop(batch.producer_id, [])
                yield from of_producer if kind == log_segment.COMMIT else ()
            continue
        try:
            found = log_segment.records(data, batch)
        except WireError:
            continue  # `damaged` tells
        if batch.transactional:
            open_ones.setdefault(batch.producer_id, []).extend(found)
        else:
            yield from found
    for producer_id, found in open_ones.items():
        last = found[-1].offset if found else -1
        ends = next((committed for at, committed in later.get(producer_id, ()) if at > last), False)
        yield from found if ends else ()


def _later(markers: list[dict[str, Any]] | None) -> Later:
    found: dict[int, list[tuple[int, bool]]] = {}
    for each in markers or ():
        found.setdefault(each["producer_id"], []).append((each["marker"], each["committed"]))
    for of_producer in found.values():
        of_producer.sort()
    return found


def _marker(data: bytes, batch: Batch) -> int | None:
    try:
        return log_segment.marker(data, batch)
    except WireError:
        return None


def _wrong(data: bytes, batch: Batch) -> str | None:
    try:
        log_segment.records(data, batch)
    except WireError as error:
        return str(error)
    return None


def _each(files: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """One file at a time: its content is large."""
    for number in range(files.num_rows):
        (row,) = files.slice(number, 1).to_pylist()
        yield row


def _batch(rows: list[Any], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
