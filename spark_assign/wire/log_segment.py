"""Reads a segment file of a partition's log: record batches, and the messages of formats 0 and 1.

`batches` iterates over a file and verifies every checksum. `records` reads the records of one batch. Damaged bytes
are reported with their position and skipped. A segment that the broker is still writing can end in the middle of a
batch.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spark_assign.wire.compression import decompress
from spark_assign.wire.crc32c import crc32c
from spark_assign.wire.reader import WireError

CUT_OFF, CORRUPT, UNKNOWN_FORMAT = "cut-off", "corrupt", "unknown-format"
ABORT, COMMIT = 0, 1

_HEADER = struct.Struct(">qiibIhiqqqhii")
_START = struct.Struct(">qiib")
_CODEC, _APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_MAGIC_AT, _CHECKED_FROM = 16, 21
_BEFORE_LENGTH = 12
_MIN_LENGTH = {0: 14, 1: 22, 2: _HEADER.size - _BEFORE_LENGTH}
_BATCHES_PER_CHECK = 4096
_MAX_SEGMENT_OFFSETS = (1 << 31) - 1
"""Maximum number of offsets in a segment: its index stores offsets relative to the first one as an int32."""
_WINDOW = 1 << 12
"""Number of bytes in which the search for the next batch starts."""

Bytes = npt.NDArray[np.uint8]


class Batch(NamedTuple):
    """A record batch, or one message of formats 0 and 1. Its records are in `data[body:end]`."""

    position: int
    body: int
    end: int
    magic: int
    base_offset: int
    last_offset: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    number: int
    checksum: int

    @property
    def transactional(self) -> bool:
        """Checks whether the batch belongs to a transaction, so that a marker decides whether its records are
        committed.
        """
        return self.magic == 2 and bool(self.attributes & _TRANSACTIONAL)

    @property
    def control(self) -> bool:
        """Checks whether the batch is a transaction marker."""
        return self.magic == 2 and bool(self.attributes & _CONTROL)


class Damaged(NamedTuple):
    """Bytes of a file that aren't a batch. `offset` is the last offset before them, or -1 if there is none."""

    position: int
    size: int
    offset: int
    code: str
    detail: str


class Record(NamedTuple):
    """One record of a batch."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def batches(data: bytes, *, check: bool = True) -> Iterator[Batch | Damaged]:
    """Yields every batch and every damaged range of a file, in the order of the file.

    Without `check`, checksums are assumed to be right until a length is wrong.
    """
    view = np.frombuffer(data, np.uint8)
    position, last_offset = 0, -1
    while position < len(data):
        candidates, position, error = _next_batches(data, position)
        is_valid = (
            _check_batches(view, data, candidates, last_offset)
            if check or error is not None
            else np.ones(len(candidates), bool)
        )
        num_valid = len(candidates) if is_valid.all() else int(np.argmin(is_valid))
        yield from candidates[:num_valid]
        last_offset = candidates[num_valid - 1].last_offset if num_valid else last_offset
        if num_valid < len(candidates):
            position, error = candidates[num_valid].position, "the checksum or the offset is not what it should be"
        if error is not None:
            next_position = _find_next_batch(view, data, position, last_offset)
            if (damage := _classify_damage(data, position, next_position, last_offset, error)) is not None:
                yield damage
            position = next_position


def records(data: bytes, batch: Batch) -> list[Record]:
    """Returns the records of a batch. Raises WireError if its bytes are malformed although the checksum is right."""
    if batch.magic < 2:
        return _read_messages(data[batch.position : batch.end])
    body = decompress(batch.attributes & _CODEC, data[batch.body : batch.end])
    append_time = batch.max_timestamp if batch.attributes & _APPEND_TIME else None
    records_read, at = [], 0
    try:
        for _ in range(batch.number):
            length, at = varint(body, at)
            end = at + length
            if length < 0 or end > len(body):
                raise WireError(f"a record of {length} bytes, {len(body) - at} left")
            timestamp, at = varint(body, at + 1)
            offset, at = varint(body, at)
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


def marker(data: bytes, batch: Batch) -> int | None:
    """Returns ABORT or COMMIT for a control batch, or None for a marker of another kind."""
    for record in records(data, batch):
        if record.key is not None and len(record.key) >= 4:
            (kind,) = struct.unpack_from(">h", record.key, 2)
            return kind if kind in (ABORT, COMMIT) else None
    return None


def _next_batches(data: bytes, position: int) -> tuple[list[Batch], int, str | None]:
    """Returns up to `_BATCHES_PER_CHECK` batches that their lengths lead to, the position after them, and the error
    at that position.
    """
    found_batches: list[Batch] = []
    while position < len(data) and len(found_batches) < _BATCHES_PER_CHECK:
        batch = _read_header(data, position)
        if isinstance(batch, str):
            return found_batches, position, batch
        found_batches.append(batch)
        position = batch.end
    return found_batches, position, None


def _read_header(data: bytes, position: int) -> Batch | str:
    """Returns the batch that starts at a position, decoded from its header, or the text of the error."""
    remaining = len(data) - position
    if remaining < _START.size:
        return f"{remaining} bytes are no header"
    base, length, _, magic = _START.unpack_from(data, position)
    if magic not in _MIN_LENGTH:
        return f"message format {magic}"
    if length < _MIN_LENGTH[magic] or base < 0:
        return f"a batch of {length} bytes at offset {base}"
    end = position + _BEFORE_LENGTH + length
    if end > len(data):
        return f"a batch of {length} bytes, {remaining - _BEFORE_LENGTH} left"
    if magic < 2:
        (checksum,) = struct.unpack_from(">I", data, position + _BEFORE_LENGTH)
        return Batch(
            position, position + _BEFORE_LENGTH, end, magic, base, base, data[position + 17], -1, -1, -1, 1, checksum
        )
    *_, checksum, attributes, delta, first, max_timestamp, producer, _, _, count = _HEADER.unpack_from(data, position)
    if delta < 0 or count < 0:
        return f"{count} records, the last {delta} after the first"
    body = position + _HEADER.size
    return Batch(
        position, body, end, magic, base, base + delta, attributes, first, max_timestamp, producer, count, checksum
    )


def _check_batches(view: Bytes, data: bytes, candidates: Sequence[Batch], last_offset: int) -> npt.NDArray[np.bool_]:
    """Returns whether each batch is valid: its checksum, and its offsets, which the checksum doesn't cover, ascend."""
    is_valid = np.ones(len(candidates), bool)
    if checked_indexes := [number for number, batch in enumerate(candidates) if batch.magic == 2]:
        checked = [candidates[at] for at in checked_indexes]
        starts, ends = [batch.position + _CHECKED_FROM for batch in checked], [batch.end for batch in checked]
        expected = np.array([batch.checksum for batch in checked], np.uint32)
        is_valid[checked_indexes] = crc32c(view, starts, ends) == expected
    for at, batch in enumerate(candidates):
        if batch.magic < 2:
            is_valid[at] = zlib.crc32(data[batch.position + _MAGIC_AT : batch.end]) == batch.checksum
        if not is_valid[at]:
            break
        next_offset = candidates[at + 1].base_offset if at + 1 < len(candidates) else None
        is_too_far = last_offset >= 0 and batch.last_offset - last_offset > _MAX_SEGMENT_OFFSETS
        if (
            batch.base_offset <= last_offset
            or is_too_far
            or (next_offset is not None and last_offset < next_offset <= batch.last_offset)
        ):
            is_valid[at] = False
            break
        last_offset = batch.last_offset
    return is_valid


def _find_next_batch(view: Bytes, data: bytes, position: int, last_offset: int) -> int:
    """Returns the position of the next valid batch, or the end of the file."""
    start = _read_header(data, position)
    if not isinstance(start, str) and start.end < len(data):
        following = _read_header(data, start.end)
        if not isinstance(following, str) and _check_batches(view, data, [following], last_offset).all():
            return start.end
    window, size = position + 1, _WINDOW
    while window <= len(data) - _HEADER.size:
        window_end = min(window + size, len(data) - _HEADER.size + 1)
        looks_like_header = (view[window + _MAGIC_AT : window_end + _MAGIC_AT] == 2) & (view[window:window_end] == 0)
        looks_like_header &= (view[window + 1 : window_end + 1] == 0) & (
            view[window + _CHECKED_FROM : window_end + _CHECKED_FROM] == 0
        )
        for candidate in (np.flatnonzero(looks_like_header) + window).tolist():
            batch = _read_header(data, candidate)
            if not isinstance(batch, str) and _check_batches(view, data, [batch], last_offset).all():
                return int(candidate)
        window, size = window_end, 2 * size
    return len(data)


def _classify_damage(data: bytes, position: int, end: int, last_offset: int, error: str) -> Damaged | None:
    """Classifies a damaged range. Returns None for the zeros with which a broker preallocates a file."""
    if end == len(data):
        if not data[position:].strip(b"\0"):  # a broker may make the file as long as it will be
            return None
        if not isinstance(_read_header(data, position), Batch) and error.endswith(("left", "no header")):
            return Damaged(position, end - position, last_offset, CUT_OFF, error)
    code = UNKNOWN_FORMAT if error.startswith("message format") else CORRUPT
    return Damaged(position, end - position, last_offset, code, error)


_MESSAGE_START = struct.Struct(">qiIbb")


def _read_messages(data: bytes) -> list[Record]:
    """Returns all messages inside a message of format 0 or 1. The timestamp is -1 in format 0, which has none.

    Raises:
        WireError: the bytes are malformed.
    """
    try:
        return list(_iter_messages(data))
    except struct.error as error:
        raise WireError(f"a message is cut off: {error}") from None


def _iter_messages(data: bytes) -> Iterator[Record]:
    """Yields the message, or the messages that it contains in compressed form."""
    offset, magic, attributes, timestamp, key, value, _ = _read_message(data, 0)
    codec = attributes & _CODEC
    if codec == 0:
        yield Record(offset, timestamp, key, value)
        return
    if codec == 3 and magic == 0:
        raise WireError("lz4 in message format 0, whose checksums are none: read it by a Kafka of its time")
    if value is None:
        raise WireError("a compressed message without a value")
    content, position, messages = decompress(codec, value), 0, []
    while position < len(content):
        relative_offset, inner_magic, inner_attributes, inner_timestamp, inner_key, inner_value, position = (
            _read_message(content, position)
        )
        if inner_magic != magic or inner_attributes & _CODEC:
            raise WireError("a compressed message of another format inside of one")
        message_timestamp = timestamp if attributes & _APPEND_TIME else inner_timestamp
        messages.append(Record(relative_offset, message_timestamp, inner_key, inner_value))
    # In format 1 offsets inside count from 0, and the message around them has the last one's.
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
