"""Reads the records of a segment's batches: as columns for many batches at once, and as objects for one batch.

A record of format 2 starts with its size, so its position follows from the one before it. Records are found in rounds:
round k finds record k of all batches that have one. The fields of all records are then read side by side:

    size  attributes  timestamp  offset  key size  key  value size  value  headers

Sizes, timestamp, and offset are zigzag varints; timestamp and offset are relative to those of the batch. The records
of a batch that isn't regular, for example with sizes that don't fit, and messages of formats 0 and 1, are read one by
one; that reader reports what is wrong. Both readers agree on every batch.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from spark_assign.numeric.arrays import BoolArray, IntArray
from spark_assign.wire.log_segment import APPEND_TIME, CODEC, Batch, BatchColumns, Bytes
from spark_assign.wire.reader import WireError

ABORT, COMMIT = 0, 1

RECORDS = pa.schema(
    {**dict.fromkeys(("batch", "offset", "timestamp_ms"), pa.int64()), **dict.fromkeys(("key", "value"), pa.binary())}
)
"""Records of several batches. `batch` is the index of the batch. `timestamp_ms` fits in 64 bits as microseconds."""

_MAX_TIMESTAMP_MS = ((1 << 63) - 1) // 1000

_MIN_RECORD_SIZE = 6
_MIN_ROUND_BATCHES = 100
"""Minimum number of batches for which a round is faster than a loop over the records."""
_REGULAR_BITS = 56
"""Maximum bits of a regular varint."""
_REGULAR_BASE = 1 << 62
"""Maximum offset and timestamp of a regular batch: with a regular varint added, it fits in 64 bits."""
MAX_RECORDS = 2_000_000
"""Maximum number of records that are read at once. A record takes about 200 bytes of memory, however small it is."""
_MARKER_BYTES = 1 << 16
"""Maximum size of what a transaction marker can become, in bytes. Those of Kafka aren't compressed."""
_NOWHERE = 1 << 60
"""A position after any file."""


class Record(NamedTuple):
    """One record of a batch."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


@dataclass
class ByteLimit:
    """How many bytes compressed batches can still become. Those of a batch that can't be read count, too."""

    left: int

    def decompress(self, codec: int, data: bytes) -> bytes:
        """Returns decompressed bytes. Raises WireError as `decompress` does."""
        try:
            content = decompress(codec, data, min(max(self.left, 0), _MAX_BATCH_BYTES))
        except DecompressionError as error:
            self.left -= error.size
            raise
        self.left -= len(content) if codec else 0
        return content


# --- many batches -------------------------------------------------------------------------------------------------


def read_batches(
    data: bytes, batches: BatchColumns, of_file: ByteLimit | None = None
) -> tuple[pa.Table, dict[int, str]]:
    """Returns the RECORDS of batches in their order, and the error of each batch that can't be read, by its index.

    Together, the batches have at most MAX_RECORDS records, and become at most `max_decompressed` of their size, and at
    most what is left of the file.
    """
    most = max_decompressed(int((batches.end - batches.body).sum()))
    most = most if of_file is None else min(most, of_file.left)
    limit = ByteLimit(most)
    table, is_regular = _read_regular(data, batches, limit)
    rows: list[tuple[Any, ...]] = []
    errors: dict[int, str] = {}
    for index, batch in zip(np.flatnonzero(~is_regular).tolist(), batches.rows(~is_regular), strict=True):
        try:
            for record in read_batch(data, batch, limit, MAX_RECORDS - table.num_rows - len(rows)):
                at_ms = min(max(record.timestamp_ms, -_MAX_TIMESTAMP_MS), _MAX_TIMESTAMP_MS)
                rows.append((index, *record._replace(timestamp_ms=at_ms)))
        except WireError as error:
            errors[index] = str(error)
    if of_file is not None:
        of_file.left -= most - limit.left
    if rows:
        columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), RECORDS, strict=True)]
        table = pa.concat_tables([table, pa.table(columns, schema=RECORDS)])
        table = table.take(pa.array(np.argsort(table["batch"].to_numpy(), kind="stable")))
    return table, errors


def _read_regular(data: bytes, batches: BatchColumns, limit: ByteLimit) -> tuple[pa.Table, BoolArray]:
    """Returns the RECORDS of the regular batches, and which batches are regular."""
    is_regular = (batches.magic == 2) & (batches.base_offset < _REGULAR_BASE)
    is_regular &= (batches.base_timestamp > -_REGULAR_BASE) & (batches.base_timestamp < _REGULAR_BASE)
    # With less than a byte per record, one is likely repeated: the reader of single records stops there.
    is_regular &= batches.number <= batches.end - batches.body
    content, start, end = _decompress(data, batches, is_regular, limit)
    is_regular &= batches.number * _MIN_RECORD_SIZE <= end - start
    is_regular &= np.cumsum(np.where(is_regular, batches.number, 0)) <= MAX_RECORDS
    view, number = np.frombuffer(content, np.uint8), np.where(is_regular, batches.number, 0)
    batch = np.repeat(np.arange(len(number)), number)
    at, record_end, batch_end = _find_records(content, start, end, number)
    timestamp, at = _read_varints(view, at + 1)
    offset, at = _read_varints(view, at)
    key_size, key_start = _read_varints(view, at)
    key_end = key_start + np.maximum(key_size, 0)
    value_size, value_start = _read_varints(view, key_end)
    value_end = value_start + np.maximum(value_size, 0)
    # Headers follow: records of groups have none.
    is_regular &= batch_end == end
    is_regular[batch[(value_end > record_end) | (record_end > end[batch])]] = False
    timestamp += batches.base_timestamp[batch]
    has_append_time = batches.attributes & APPEND_TIME != 0
    timestamp = np.where(has_append_time[batch], batches.max_timestamp[batch], timestamp)
    timestamp = np.clip(timestamp, -_MAX_TIMESTAMP_MS, _MAX_TIMESTAMP_MS)
    is_regular[batch[(offset < 0) | (offset > (batches.last_offset - batches.base_offset)[batch])]] = False
    offset += batches.base_offset[batch]
    is_regular[batch[1:][(batch[1:] == batch[:-1]) & (offset[1:] <= offset[:-1])]] = False
    rows = slice(None) if is_regular.all() else is_regular[batch]
    bounds = [bound[rows] for bound in (key_start, key_end, value_start, value_end)]
    keys, values = _take_bytes(content, bounds, [size[rows] < 0 for size in (key_size, value_size)])
    columns = [column[rows] for column in (batch, offset, timestamp)]
    return pa.table([*columns, keys, values], schema=RECORDS), is_regular


def _decompress(
    data: bytes, batches: BatchColumns, is_regular: BoolArray, limit: ByteLimit
) -> tuple[bytes, IntArray, IntArray]:
    """Returns the decompressed records of all batches, and the start and the end of each batch in these bytes. Batches
    that can't be decompressed, or only to more than the bytes that are left, are marked as irregular.
    """
    codecs = batches.attributes & CODEC
    if not codecs[is_regular].any():
        return data, batches.body, batches.end
    parts = []
    bounds = zip(codecs.tolist(), batches.body.tolist(), batches.end.tolist(), strict=True)
    for index, (codec, body, batch_end) in enumerate(bounds):
        try:
            parts.append(limit.decompress(codec, data[body:batch_end]) if is_regular[index] else b"")
        except WireError:
            parts.append(b"")
            is_regular[index] = False
    size = np.array([len(part) for part in parts])
    end = np.cumsum(size)
    return b"".join(parts), end - size, end


def _find_records(content: bytes, start: IntArray, end: IntArray, number: IntArray) -> tuple[IntArray, ...]:
    """Returns the position after the size of each record, the end of each record, and the end of each batch's last
    record.
    """
    view, batch_end = np.frombuffer(content, np.uint8), start.copy()
    order, first = np.argsort(-number, kind="stable"), np.cumsum(number) - number
    after_size, record_end = np.full((2, int(number.sum())), _NOWHERE)
    num_active = np.searchsorted(-number[order], -np.arange(int(number.max(initial=0))))
    num_rounds = np.searchsorted(-num_active, -_MIN_ROUND_BATCHES, side="right")
    for round_index, count in enumerate(num_active[:num_rounds].tolist()):
        active = order[:count]
        size, at = _read_varints(view, batch_end[active])
        record = first[active] + round_index
        after_size[record] = at
        record_end[record] = np.where(size < 0, _NOWHERE, at + size)
        batch_end[active] = np.minimum(record_end[record], end[active])
    for batch in order[: num_active[num_rounds]].tolist() if num_rounds < len(num_active) else ():
        bounds = _walk_records(content, int(batch_end[batch]), int(end[batch]), int(number[batch] - num_rounds))
        row = int(first[batch]) + num_rounds
        after_size[row : row + len(bounds)], record_end[row : row + len(bounds)] = np.array(bounds).reshape(-1, 2).T
        batch_end[batch] = record_end[first[batch] + number[batch] - 1]
    return after_size, record_end, batch_end


def _walk_records(content: bytes, at: int, end: int, number: int) -> list[tuple[int, int]]:
    """Returns the position after the size, and the end, of each record of a long batch up to one that doesn't fit."""
    bounds: list[tuple[int, int]] = []
    try:
        while len(bounds) < number and at < end:
            size, at = varint(content, at)
            if not 0 <= size <= end - at:
                break
            bounds.append((at, at := at + size))
    except (IndexError, WireError):
        pass
    return bounds


def _read_varints(view: Bytes, at: IntArray) -> tuple[IntArray, IntArray]:
    """Returns the zigzag varints at positions, and the positions after them. A varint that isn't regular ends after
    any file.
    """
    byte = view.take(at, mode="clip")
    value, after = (byte & 0x7F).astype(np.int64), at + 1
    longer = np.flatnonzero(byte > 0x7F)
    for shift in range(7, _REGULAR_BITS, 7):
        if not len(longer):
            break
        byte = view.take(after[longer], mode="clip")
        value[longer] |= (byte & 0x7F).astype(np.int64) << shift
        after[longer] += 1
        longer = longer[byte > 0x7F]
    after[longer] = _NOWHERE
    return (value >> 1) ^ -(value & 1), after


def _take_bytes(content: bytes, bounds: list[IntArray], is_null: list[BoolArray]) -> list[pa.Array]:
    """Returns the bytes between pairs of bounds as columns. The bounds of a record ascend, and so do records."""
    # All bytes are one column. Its values are the keys, the values, and the bytes between them.
    offsets = np.append(np.column_stack(bounds).ravel(), len(content))
    size, buffers = len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(content)]
    pieces = pa.LargeBinaryArray.from_buffers(pa.large_binary(), size, buffers)
    rows = np.arange(0, size, len(bounds))
    return [pieces.take(pa.array(rows + 2 * index, mask=mask)).cast(pa.binary()) for index, mask in enumerate(is_null)]


# --- one batch ----------------------------------------------------------------------------------------------------


def read_batch(
    data: bytes, batch: Batch, limit: ByteLimit | None = None, max_records: int = MAX_RECORDS
) -> list[Record]:
    """Returns the records of a batch. Raises WireError if its bytes are malformed although the checksum is right, and
    if it has more records or decompressed bytes than may be read.
    """
    limit = limit or ByteLimit(max_decompressed(batch.end - batch.body))
    if batch.magic < 2:
        return _read_messages(data[batch.position : batch.end], limit, max_records)
    body = limit.decompress(batch.attributes & CODEC, data[batch.body : batch.end])
    append_time = batch.max_timestamp if batch.attributes & APPEND_TIME else None
    records_read: list[Record] = []
    at = 0
    try:
        for _ in range(batch.number):
            if len(records_read) >= max_records and at < len(body):
                raise WireError(f"more than {MAX_RECORDS} records are next to each other")
            length, at = varint(body, at)
            end = at + length
            if length < 0 or end > len(body):
                raise WireError(f"a record of {length} bytes, {len(body) - at} left")
            timestamp, at = varint(body, at + 1)
            offset, at = varint(body, at)
            _check_offset(records_read, batch.base_offset + offset, batch.base_offset, batch.last_offset)
            key, at = nullable_bytes(body, at)
            value, at = nullable_bytes(body, at)
            if at > end:
                raise WireError("a record is longer than it says")
            at = end  # headers: records of groups have none
            timestamp_ms = batch.base_timestamp + timestamp if append_time is None else append_time
            records_read.append(Record(batch.base_offset + offset, timestamp_ms, key, value))
    except IndexError:
        raise WireError("a record is cut off") from None
    if at != len(body):
        raise WireError(f"{len(body) - at} bytes after the last record")
    return records_read


def _check_offset(records: list[Record], offset: int, first: int, last: int) -> None:
    """Raises WireError if the next offset of a batch isn't higher, because one record could be repeated without end, or
    isn't one of the batch. Compaction changes neither the first nor the last offset in the header of a batch.
    """
    if records and offset <= records[-1].offset:
        raise WireError(f"its offsets don't ascend: {offset} follows {records[-1].offset}")
    if not first <= offset <= last:
        raise WireError(f"offset {offset} is not from {first} to {last}")


def read_marker(data: bytes, batch: Batch) -> int | None:
    """Returns ABORT or COMMIT for a control batch, or None for a marker of another kind."""
    for record in read_batch(data, batch, ByteLimit(_MARKER_BYTES)):
        if record.key is not None and len(record.key) >= 4:
            (kind,) = struct.unpack_from(">h", record.key, 2)
            return kind if kind in (ABORT, COMMIT) else None
    return None


_MESSAGE_START = struct.Struct(">qiIbb")


def _read_messages(data: bytes, limit: ByteLimit, max_records: int) -> list[Record]:
    """Returns all messages inside a message of format 0 or 1. The timestamp is -1 in format 0, which has none.

    Raises:
        WireError: the bytes are malformed.
    """
    try:
        return list(_iter_messages(data, limit, max_records))
    except struct.error as error:
        raise WireError(f"a message is cut off: {error}") from None


def _iter_messages(data: bytes, limit: ByteLimit, max_records: int) -> Iterator[Record]:
    """Yields the message, or the messages that it contains in compressed form."""
    offset, magic, attributes, timestamp, key, value, _ = _read_message(data, 0)
    codec = attributes & CODEC
    if codec == 0:
        yield Record(offset, timestamp, key, value)
        return
    if codec == 3 and magic == 0:
        raise WireError(
            "lz4 in message format 0 has no valid checksums. Read it with a Kafka client that writes this format"
        )
    if value is None:
        raise WireError("a compressed message without a value")
    content, position = limit.decompress(codec, value), 0
    messages: list[Record] = []
    while position < len(content):
        if len(messages) >= max_records:
            raise WireError(f"more than {MAX_RECORDS} records are next to each other")
        relative_offset, inner_magic, inner_attributes, inner_timestamp, inner_key, inner_value, position = (
            _read_message(content, position)
        )
        if inner_magic != magic or inner_attributes & CODEC:
            raise WireError("a compressed message of another format inside of one")
        # The message around them has the offset of the last one, and relative offsets count from 0.
        _check_offset(messages, relative_offset, 0, offset)
        message_timestamp = timestamp if attributes & APPEND_TIME else inner_timestamp
        messages.append(Record(relative_offset, message_timestamp, inner_key, inner_value))
    # Offsets inside are relative in format 1 only.
    base = offset - messages[-1].offset if magic and messages else 0
    yield from (message._replace(offset=base + message.offset) for message in messages)


def _read_message(data: bytes, at: int) -> tuple[int, int, int, int, bytes | None, bytes | None, int]:
    """Returns the fields of the message at a position, and the position after it."""
    offset, size, _, magic, attributes = _MESSAGE_START.unpack_from(data, at)
    end, at = at + 12 + size, at + _MESSAGE_START.size
    if not at <= end <= len(data):
        raise WireError(f"a message of {size} bytes, {len(data) - at} left")
    timestamp = -1
    if magic == 1:
        (timestamp,) = struct.unpack_from(">q", data, at)
        at += 8
    key, at = _message_bytes(data, at, end)
    value, at = _message_bytes(data, at, end)
    return offset, magic, attributes, timestamp, key, value, end


def _message_bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    """Reads nullable bytes that a 4-byte length precedes. Returns them and the position after them."""
    (size,) = struct.unpack_from(">i", data, at)
    at += 4
    if size < 0:
        return None, at
    if at + size > end:
        raise WireError(f"{size} bytes expected at byte {at}, {end - at} left")
    return data[at : at + size], at + size


_MAX_BITS = 70


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns a zigzag varint and the position after it. Raises IndexError past the end of the bytes, WireError for
    more than ten bytes.
    """
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    value, shift = byte & 0x7F, 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift >= _MAX_BITS:
            raise WireError(f"a number of more than ten bytes before byte {at}")


def nullable_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    """Reads bytes that a varint length precedes (-1 is null). Returns them and the position after them."""
    size, at = varint(data, at)
    if size < 0:
        return None, at
    if at + size > len(data):
        raise WireError(f"{size} bytes expected at byte {at}, {len(data) - at} left")
    return data[at : at + size], at + size


# --- decompresses record batches with pyarrow's codecs and Python's zlib --------------------------------------


NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
"""Kafka's names of the codecs; the index is the value of the lowest three bits of a batch's attributes."""

_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = 16
_MIN_BYTES, _MAX_RATIO, _MAX_BYTES = 1 << 26, 64, 1 << 30
_MAX_BATCH_BYTES = 1 << 26
"""Maximum size of what a batch can become. A broker accepts a batch of 1 MiB by default (`max.message.bytes`)."""
_MIN_TOTAL_BYTES = 1 << 27
"""Size of what all segments together can become, however small they are, in bytes."""
_LARGEST_RATIOS = {1: 1_032, 2: 64}
"""How many times their size bytes can become, by codecs that aren't read in chunks."""
_CHUNK_BYTES = 1 << 20
"""Size of almost any decompressed batch or more, in bytes. A read allocates the bytes that it may return."""


def max_decompressed(compressed: int) -> int:
    """Returns the maximum size of what compressed bytes can become, in bytes: 64 times their size, but at least 64 MiB
    and at most 1 GiB. Names and offsets of groups compress about 10:1, and zeros 1000:1 (gzip) to 30,000:1 (zstd).
    """
    return min(max(_MIN_BYTES, _MAX_RATIO * compressed), _MAX_BYTES)


def max_of_segment(compressed: int, num_segments: int = 1) -> int:
    """Returns the maximum size of what all batches of a segment can become, however damage divides them, in bytes:
    64 times its size, but at least 64 MiB, or its share of 128 MiB if there are more than two segments.
    """
    return max(min(_MIN_BYTES, _MIN_TOTAL_BYTES // num_segments), _MAX_RATIO * compressed)


class DecompressionError(WireError):
    """Raised for bytes that can't be decompressed.

    Attributes:
        size: number of bytes that they became before that, at most.
    """

    def __init__(self, message: str, size: int) -> None:
        super().__init__(message)
        self.size = size


def decompress(codec: int, data: bytes, limit: int = _MAX_BYTES) -> bytes:
    """Returns the decompressed bytes.

    Raises:
        DecompressionError: `data` isn't valid for the codec, is cut off, or becomes more than `limit` bytes.
        WireError: the codec is unknown.
    """
    if codec == 0:
        return data
    if codec >= len(NAMES):
        raise WireError(f"compression {codec} is none that is known")
    size = 0
    try:
        if codec in _LARGEST_RATIOS:
            size = min(_LARGEST_RATIOS[codec] * len(data), limit)
            return (_gzip if NAMES[codec] == "gzip" else _snappy)(data, limit)
        with pa.input_stream(pa.py_buffer(data), compression=NAMES[codec]) as stream:
            chunks = []
            while len(chunk := stream.read(_CHUNK_BYTES)) == _CHUNK_BYTES:
                chunks.append(chunk)
                size += _CHUNK_BYTES
                _check_size(NAMES[codec], size, limit)
            _check_size(NAMES[codec], size + len(chunk), limit)
            return b"".join([*chunks, chunk])
    except WireError as error:
        raise DecompressionError(str(error), size + _CHUNK_BYTES) from None
    except (pa.ArrowException, OSError, ValueError, zlib.error, struct.error, MemoryError, EOFError) as error:
        lines = str(error).splitlines()
        message = f"{NAMES[codec]}: {lines[0] if lines else type(error).__name__}"
        raise DecompressionError(message, size + _CHUNK_BYTES) from None


def _check_size(name: str, size: int, limit: int) -> None:
    """Raises WireError if the decompressed size is above the limit."""
    if size > limit:
        raise WireError(f"{name}: with the batches before it, it becomes more than the limit for compressed batches")


def _gzip(data: bytes, limit: int) -> bytes:
    """Returns the decompressed bytes of a complete gzip stream."""
    stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
    content = stream.decompress(data, limit + 1)
    _check_size("gzip", len(content), limit)
    if not stream.eof:
        raise WireError("gzip: it is cut off")
    return content


def _snappy(data: bytes, limit: int) -> bytes:
    """Returns the decompressed bytes of the block stream that Java's SnappyOutputStream writes, or of one bare
    block."""
    if not data.startswith(_XERIAL):
        return _block(data, limit)
    blocks, position, left = [], _XERIAL_HEADER, limit
    while position < len(data):
        (size,) = struct.unpack_from(">i", data, position)
        if not 0 <= size <= len(data) - position - 4:
            raise WireError(f"snappy: a block of {size} bytes, {len(data) - position - 4} left")
        blocks.append(_block(data[position + 4 : position + 4 + size], left))
        left -= len(blocks[-1])
        position += 4 + size
    return b"".join(blocks)


def _block(data: bytes, limit: int) -> bytes:
    """Returns the decompressed bytes of one raw snappy block, after a check of the size that its header announces."""
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    _check_size("snappy", size, limit)
    if size > 64 * len(data) + 64:  # no snappy block has a higher compression ratio
        raise WireError(f"snappy: {size} bytes announced in a block of {len(data)}")
    content: bytes = pa.Codec("snappy").decompress(data, decompressed_size=size, asbytes=True)
    return content
