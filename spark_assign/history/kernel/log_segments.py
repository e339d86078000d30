"""Reads log segments of `__consumer_offsets`, and what a broker returns of them, as records, as a consumer with
`isolation.level=read_committed` does.

A response of a broker names the aborted transactions. In a segment, the records of a transaction count if the next
marker of its producer commits it. This marker can be in a later segment: `first_markers` returns the first marker of
each producer in a segment. A transaction without a marker is left out.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Container, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.numeric.arrays import BoolArray, IntArray
from spark_assign.wire.log_segment import CORRUPT, CUT_OFF, Batch, BatchColumns, Damaged, iter_blocks
from spark_assign.wire.reader import WireError
from spark_assign.wire.segment_records import (
    ABORT,
    COMMIT,
    RECORDS,
    ByteLimit,
    max_of_segment,
    read_batches,
    read_marker,
)

SEGMENT = r"__consumer_offsets-([0-9]{1,9})/([0-9]{20})\.log$"
"""Pattern of the end of a segment's path: partition, and the base offset of the segment."""
_PATH = re.compile(SEGMENT)
_BATCH_SIZE, _BATCH_BYTES = 10_000, 1 << 26
"""Records of a batch, and the bytes that wait until there are that many."""

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
(the end of the last segment, which was being written), `corrupt`, `unknown-format`."""
MARKERS = pa.schema({"partition": pa.int32(), "producer_id": pa.int64(), "marker": pa.int64(), "committed": pa.bool_()})

Markers = tuple[IntArray, IntArray, BoolArray]
"""Producer ID and offset of each marker, and whether it commits; sorted by both."""
MAX_DAMAGED = 10_000
"""Maximum number of byte ranges of a segment that are listed: a batch that can't be read takes more memory as a row."""


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
        for block in iter_blocks(file["content"], check=False):
            for batch in () if isinstance(block, Damaged) else block.rows(block.control):
                if batch.producer_id in producers:
                    continue
                if (marker_type := _read_marker(file["content"], batch)) is not None:
                    producers.add(batch.producer_id)
                    rows.append((partition, batch.producer_id, batch.base_offset, marker_type == COMMIT))
    return _to_batch(rows, MARKERS)


def read_records(
    files: pa.RecordBatch, cluster: str, schema: pa.Schema, num_segments: int = 1
) -> Iterator[pa.RecordBatch]:
    """Yields the records of segments.

    Args:
        files: path and content of each segment, and as `markers` the first markers of all segments of its partition.
        cluster: the cluster of all records.
        schema: `tables.history.RECORDS`.
        num_segments: number of all segments that are read, which share a limit.
    """
    tables = (
        to_records(table, cluster, partition, schema)
        for partition, file in _iter_files(files)
        for table in _read_committed(file["content"], _sorted_markers(file["markers"]), num_segments)
        if table.num_rows
    )
    pending, num_rows, num_bytes = [schema.empty_table()], 0, 0
    for table in tables:
        pending.append(table)
        num_rows, num_bytes = num_rows + len(table), num_bytes + table.nbytes
        if num_rows >= _BATCH_SIZE or num_bytes >= _BATCH_BYTES:
            rows, num_rows = pa.concat_tables(pending), num_rows % _BATCH_SIZE if num_bytes < _BATCH_BYTES else 0
            yield from rows.slice(0, len(rows) - num_rows).combine_chunks().to_batches(_BATCH_SIZE)
            pending, num_bytes = [rows.slice(len(rows) - num_rows)], 0
    yield from pa.concat_tables(pending).combine_chunks().to_batches()


def read_fetched(data: bytes, start: int, end: int, aborted: list[tuple[int, int]]) -> tuple[pa.Table, int, str | None]:
    """Returns the committed records of a Fetch response for one partition, as Kafka's `CompletedFetch` does.

    From the first offset of an aborted transaction to its abort marker, the transactional batches of its producer are
    left out. Markers are no records.

    Args:
        data: record batches. The last one can be incomplete, and the first one can start before `start`.
        start, end: offsets of the records, from `start` to before `end`.
        aborted: first offset and producer ID of each aborted transaction.

    Returns:
        the records (`segment_records.RECORDS`), the offset at which to continue, and the text of what is damaged at
        this offset, or None.
    """
    tables, next_offset, damage = [RECORDS.empty_table()], start, None
    aborted = sorted(aborted, reverse=True)
    aborted_producers: set[int] = set()
    for block in iter_blocks(data):
        if isinstance(block, Damaged):
            damage = None if block.code == CUT_OFF else f"{block.code}: {block.detail}"
            break
        records, faults = read_batches(data, block)
        num_valid = min(faults, default=len(block.number))
        is_read = ~block.control
        is_read[num_valid:] = False
        is_of_transaction = block.transactional | block.control
        for index, batch in zip(np.flatnonzero(is_of_transaction).tolist(), block.rows(is_of_transaction), strict=True):
            while aborted and aborted[-1][0] <= batch.last_offset:
                aborted_producers.add(aborted.pop()[1])
            if not batch.control:
                is_read[index] &= batch.producer_id not in aborted_producers
            elif batch.producer_id in aborted_producers and _read_marker(data, batch) == ABORT:
                aborted_producers.discard(batch.producer_id)
        offset = records["offset"].to_numpy()
        is_selected = is_read[records["batch"].to_numpy()] & (offset >= start) & (offset < end)
        tables.append(records if is_selected.all() else records.filter(pa.array(is_selected)))
        if num_valid:
            next_offset = max(min(int(block.last_offset[num_valid - 1]) + 1, end), next_offset)
        if faults:
            damage = f"{CORRUPT}: {faults[num_valid]}"
            break
    return pa.concat_tables(tables), next_offset, damage


def to_records(table: pa.Table, cluster: str, partition: int, schema: pa.Schema) -> pa.Table:
    """Returns records as RECORDS (`tables.history`)."""
    keys = (pa.repeat(value, len(table)) for value in (pa.scalar(cluster), pa.scalar(partition, pa.int32())))
    at_us = pc.multiply(table["timestamp_ms"], 1000)
    return pa.table(
        [*keys, table["offset"], at_us.cast(schema.field("timestamp").type), table["key"], table["value"]],
        schema=schema,
    )


def find_damage(
    files: pa.RecordBatch, cluster: str, last: Container[str] | None = None, num_segments: int = 1
) -> pa.RecordBatch:
    """Returns the DAMAGED byte ranges of segments.

    Args:
        files: path and content of each segment.
        cluster: the cluster of all segments.
        last: the path of the last segment in each folder, the only one that was being written. None: each can be it.
        num_segments: as for `read_records`.
    """
    rows: list[tuple[Any, ...]] = []
    for partition, file in _iter_files(files):
        path, data = file["path"], file["content"]
        limit, listed, left_out = ByteLimit(max_of_segment(len(data), num_segments)), len(rows) + MAX_DAMAGED, [0, 0]
        for block in iter_blocks(data):
            found = [block] if isinstance(block, Damaged) else []
            if not isinstance(block, Damaged):
                found = _find_malformed(block, read_batches(data, block, limit)[1])
            others = found[listed - len(rows) :]
            left_out = [left_out[0] + len(others), left_out[1] + sum(each.size for each in others)]
            for damage in found[: listed - len(rows)]:
                after = damage.offset if damage.offset >= 0 else None
                code = CORRUPT if damage.code == CUT_OFF and last is not None and path not in last else damage.code
                rows.append((cluster, path, partition, damage.position, damage.size, after, code, damage.detail))
        if left_out[0]:
            *place, size, after, code, detail = rows[-1]
            detail = f"{detail}; the size includes {left_out[0]:,} more ranges"
            rows[-1] = (*place, size + left_out[1], after, code, detail)
    return _to_batch(rows, DAMAGED)


def _find_malformed(batches: BatchColumns, errors: Mapping[int, str]) -> list[Damaged]:
    """Returns the batches with records that can't be read although their checksum is right."""
    position, end, offset = (column.tolist() for column in (batches.position, batches.end, batches.base_offset))
    return [
        Damaged(position[index], end[index] - position[index], offset[index] - 1, CORRUPT, error)
        for index, error in errors.items()
    ]


def _read_committed(data: bytes, markers: Markers, num_segments: int) -> Iterator[pa.Table]:
    """Yields the records of a segment (`segment_records.RECORDS`) without those of aborted and open transactions, in
    the order of the segment.
    """
    limit = ByteLimit(max_of_segment(len(data), num_segments))
    committed: IntArray | None = None
    for block in iter_blocks(data):
        if isinstance(block, Damaged):
            continue
        records, _ = read_batches(data, block, limit)  # `find_damage` reports errors
        is_read = ~block.control
        if block.transactional.any():
            committed = _committed_batches(data, markers) if committed is None else committed
            bounds = (np.searchsorted(committed, block.last_offset, side) for side in ("left", "right"))
            is_read &= ~block.transactional | np.less(*bounds)
        yield records if is_read.all() else records.filter(pa.array(is_read[records["batch"].to_numpy()]))


def _committed_batches(data: bytes, markers: Markers) -> IntArray:
    """Returns the last offset of each batch of a committed transaction, ascending. A batch takes a few bytes, however
    many transactions are open.
    """
    committed = array("q")
    open_transactions: dict[int, array[int]] = {}
    for block in iter_blocks(data):
        for batch in () if isinstance(block, Damaged) else block.rows(block.transactional | block.control):
            if not batch.control:
                open_transactions.setdefault(batch.producer_id, array("q")).append(batch.last_offset)
            elif (marker_type := _read_marker(data, batch)) is not None:
                transaction = open_transactions.pop(batch.producer_id, array("q"))
                committed += transaction if marker_type == COMMIT else array("q")
    for producer_id, transaction in open_transactions.items():
        producers, offsets, commits = markers
        start, end = np.searchsorted(producers, producer_id, "left"), np.searchsorted(producers, producer_id, "right")
        following = start + np.searchsorted(offsets[start:end], transaction[-1], "right")
        if following < end and commits[following]:
            committed += transaction
    return np.sort(np.array(committed, np.int64))


def _sorted_markers(rows: pa.StructArray | None) -> Markers:
    """Returns the MARKERS of a partition as arrays."""
    table = pa.RecordBatch.from_struct_array(rows or pa.array([], pa.struct(MARKERS.remove(0))))
    producers, offsets, commits = (table[name].to_numpy(zero_copy_only=False) for name in MARKERS.names[1:])
    order = np.lexsort((offsets, producers))
    return producers[order], offsets[order], commits[order].astype(bool)


def _read_marker(data: bytes, batch: Batch) -> int | None:
    """Returns the type of a transaction marker; None if it can't be read or is no marker."""
    try:
        return read_marker(data, batch)
    except WireError:
        return None


def _iter_files(files: pa.RecordBatch) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields one file at a time, because the content is large, with its partition."""
    for row_index in range(files.num_rows):
        row = {name: files[name][row_index] for name in files.schema.names}
        values = {name: value.values if name == "markers" else value.as_py() for name, value in row.items()}
        yield parse_path(values["path"])[0], values


def _to_batch(rows: list[Any], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
