"""A segment file, batch by batch and record by record: Kafka's formats (`DefaultRecordBatch`, `DefaultRecord`), read
by plain loops.

A file is a chain of batches. Where the chain breaks, because a header is none, a checksum is wrong, or offsets don't
ascend, the next position from which a batch can be read ends the damage.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from kafka.record._crc32c import crc as crc32c

from spark_assign.wire.reader import WireError
from spark_assign.wire.segment_records import decompress

MAX_OFFSETS = 2**31 - 1
MAX_MS = (2**63 - 1) // 1000
MIN_LENGTH = {0: 14, 1: 22, 2: 49}

Row = tuple[int, int, bytes | None, bytes | None]
"""Offset, time, key and value."""


class Plain(NamedTuple):
    """A batch; `offsets` are its first and its last offset."""

    position: int
    end: int
    magic: int
    offsets: tuple[int, int]
    attributes: int
    times: tuple[int, int]
    producer: int
    number: int
    is_checked: bool


class Gap(NamedTuple):
    """Bytes that are no batch, after an offset."""

    position: int
    end: int
    after: int


def header(data: bytes, at: int) -> Plain | None:
    """The batch at a position, or None."""
    if at + 17 > len(data):
        return None
    base, length, _, magic = struct.unpack_from(">qiib", data, at)
    end = at + 12 + length
    if base < 0 or length < MIN_LENGTH.get(magic, length + 1) or end > len(data):
        return None
    if magic < 2:
        checked = struct.unpack_from(">I", data, at + 12)[0] == zlib.crc32(data[at + 16 : end])
        return Plain(at, end, magic, (base, base), data[at + 17], (-1, -1), -1, 1, checked)
    checksum, attributes, delta, first, newest, producer, _, _, number = struct.unpack_from(">IhiqqqhIi", data, at + 17)
    if delta < 0 or number < 0 or base + delta >= 2**63:
        return None
    checked = crc32c(data[at + 21 : end]) == checksum
    return Plain(at, end, magic, (base, base + delta), attributes, (first, newest), producer, number, checked)


def follows(data: bytes, batch: Plain | None, last: int, *, in_chain: bool = True) -> bool:
    """Whether a batch can be the one after an offset, and its own offsets leave room for the next one's."""
    if batch is None or not batch.is_checked or batch.offsets[0] <= last:
        return False
    after = header(data, batch.end) if in_chain else None
    overlaps = after is not None and last < after.offsets[0] <= batch.offsets[1]
    return not overlaps and (last < 0 or batch.offsets[1] - last <= MAX_OFFSETS)


def batches(data: bytes) -> Iterator[Plain | Gap]:
    """Everything in a file, in its order."""
    at, last = 0, -1
    while at < len(data):
        batch = header(data, at)
        if batch is not None and follows(data, batch, last):
            yield batch
            at, last = batch.end, batch.offsets[1]
            continue
        candidates = [] if batch is None else [batch.end]
        candidates += [place for place in range(at + 1, len(data) - 60) if is_likely(data, place)]
        found = (place for place in candidates if follows(data, header(data, place), last, in_chain=False))
        end = next(found, len(data))
        if end < len(data) or data[at:].strip(b"\0"):
            yield Gap(at, end, last)
        at = end


def is_likely(data: bytes, at: int) -> bool:
    """Whether a record batch may begin at a position: of the next few quadrillion offsets, with known attributes."""
    return data[at + 16] == 2 and data[at : at + 2] == b"\0\0" and data[at + 21] == 0


def records(data: bytes, batch: Plain) -> list[Row]:
    """The records of a record batch. Raises ValueError or IndexError if they are not as the header says."""
    if batch.magic < 2:
        return messages(data[batch.position : batch.end])
    body, at, rows = decompress(batch.attributes & 7, data[batch.position + 61 : batch.end]), 0, []
    for _ in range(batch.number):
        size, at = varint(body, at)
        end = at + size
        delta_ms, at = varint(body, at + 1)
        delta, at = varint(body, at)
        if rows and batch.offsets[0] + delta <= rows[-1][0]:
            raise ValueError("an offset occurs again")
        if not 0 <= delta <= batch.offsets[1] - batch.offsets[0]:
            raise ValueError("an offset of another batch")
        key, at = varint_bytes(body, at)
        value, at = varint_bytes(body, at)
        if not at <= end <= len(body):
            raise ValueError("a record does not end where it says")
        at_ms = batch.times[1] if batch.attributes & 8 else batch.times[0] + delta_ms
        rows.append((batch.offsets[0] + delta, min(max(at_ms, -MAX_MS), MAX_MS), key, value))
        at = end
    if at != len(body):
        raise ValueError("bytes are left")
    return rows


def messages(data: bytes) -> list[Row]:
    """The messages of formats 0 and 1 in one."""
    (outer,), found = list(each_message(data)), []
    offset, magic, attributes, at_ms, key, value = outer
    codec = attributes & 7
    if not codec:
        return [(offset, at_ms, key, value)]
    if value is None or (codec == 3 and magic == 0):
        raise ValueError("no messages inside")
    inside = list(each_message(decompress(codec, value)))
    if any(each[1] != magic or each[2] & 7 for each in inside):
        raise ValueError("another format inside")
    if any(later[0] <= each[0] for each, later in pairwise(inside)):
        raise ValueError("an offset occurs again")
    if inside and not 0 <= inside[0][0] <= inside[-1][0] <= offset:
        raise ValueError("an offset of another message")
    base = offset - inside[-1][0] if magic and inside else 0
    for relative, _, _, its_ms, *rest in inside:
        found.append((base + relative, at_ms if attributes & 8 else its_ms, *rest))
    return found


def each_message(data: bytes) -> Iterator[tuple[int, int, int, int, bytes | None, bytes | None]]:
    """Offset, format, attributes, time, key and value."""
    at = 0
    while at < len(data):
        offset, size, _, magic, attributes = struct.unpack_from(">qiIbb", data, at)
        end, place = at + 12 + size, at + 18
        if end > len(data) or end < place:
            raise ValueError("a message is cut off")
        at_ms = struct.unpack_from(">q", data, place)[0] if magic == 1 else -1
        place += 8 if magic == 1 else 0
        parts: list[bytes | None] = []
        for _ in range(2):
            (length,) = struct.unpack_from(">i", data, place)
            place += 4 + max(length, 0)
            if place > end:
                raise ValueError("a message is too long")
            parts.append(data[place - length : place] if length >= 0 else None)
        yield offset, magic, attributes, at_ms, parts[0], parts[1]
        at = end


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag number of at most ten bytes, and the position after it."""
    value = 0
    for place in range(10):
        value |= (data[at + place] & 127) << (7 * place)
        if data[at + place] < 128:
            return (value >> 1) ^ -(value & 1), at + place + 1
    raise ValueError("no number ends here")


def varint_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    """Bytes after their number; -1 is null."""
    size, at = varint(data, at)
    if size < 0:
        return None, at
    if at + size > len(data):
        raise ValueError("bytes are missing")
    return data[at : at + size], at + size


def errors(data: bytes) -> list[tuple[int, int, int]]:
    """Begin, end, and the offset before, of what can't be read."""
    found = []
    for each in batches(data):
        if isinstance(each, Gap):
            found.append((each.position, each.end, each.after))
        elif read(data, each) is None:
            found.append((each.position, each.end, each.offsets[0] - 1))
    return found


def read(data: bytes, batch: Plain) -> list[Row] | None:
    """The records, or None if they can't be read."""
    try:
        return records(data, batch)
    except (WireError, ValueError, IndexError, struct.error):
        return None


def committed(data: bytes, markers: list[tuple[int, int, bool]]) -> list[Row]:
    """The records that a `read_committed` consumer gets, in the order of the log.

    `markers` are those of the partition: producer, offset, and whether it commits. They decide what is still open.
    """
    found: list[tuple[list[Row], Plain]] = []
    waiting: dict[int, list[Plain]] = {}
    aborted: set[Plain] = set()
    for batch in batches(data):
        if isinstance(batch, Gap):
            continue
        rows = read(data, batch)
        is_v2 = batch.magic == 2
        if is_v2 and batch.attributes & 0x20:
            kinds = [struct.unpack_from(">h", key, 2)[0] for _, _, key, _ in rows or () if key and len(key) > 3]
            if kinds and kinds[0] in (0, 1):
                ended = waiting.pop(batch.producer, [])
                aborted.update(() if kinds[0] else ended)
            continue
        if is_v2 and batch.attributes & 0x10:
            waiting.setdefault(batch.producer, []).append(batch)
        found.append((rows or [], batch))
    for producer, its_batches in waiting.items():
        last = its_batches[-1].offsets[1]
        later = sorted((offset, commits) for its, offset, commits in markers if its == producer and offset > last)
        aborted.update(() if later and later[0][1] else its_batches)
    return [row for rows, batch in found if batch not in aborted for row in rows]
