"""A segment of a partition's log as the broker keeps it in a file: record batches, and the messages of old formats.

`batches` walks through a file and checks every checksum; `records` reads those of one batch. What is damaged is told
with its place and passed over; a segment that is being written to ends in the middle of a batch.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spark_assign.wire import old_messages, varints
from spark_assign.wire.compression import decompressed
from spark_assign.wire.crc32c import crc32c
from spark_assign.wire.reader import WireError

CUT_OFF, CORRUPT, UNKNOWN_FORMAT = "cut-off", "corrupt", "unknown-format"
ABORT, COMMIT = 0, 1

_HEADER = struct.Struct(">qiibIhiqqqhii")
_START = struct.Struct(">qiib")
_CODEC, _APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_MAGIC_AT, _CHECKED_FROM = 16, 21
_BEFORE_LENGTH = 12
_SMALLEST = {0: 14, 1: 22, 2: _HEADER.size - _BEFORE_LENGTH}
_AT_ONCE = 4096
_MOST_OF_A_SEGMENT = (1 << 31) - 1
"""Offsets: its index counts them from the first one."""
_WINDOW = 1 << 12
"""Bytes that are searched for the next batch at first."""

Bytes = npt.NDArray[np.uint8]


class Batch(NamedTuple):
    """One batch, or one message of an old format; its records stand in data[body:end]."""

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
        """Whether a marker decides what its records are worth."""
        return self.magic == 2 and bool(self.attributes & _TRANSACTIONAL)

    @property
    def control(self) -> bool:
        """Whether it is such a marker."""
        return self.magic == 2 and bool(self.attributes & _CONTROL)


class Damaged(NamedTuple):
    """Bytes of a file that no batch could be made of; `offset`: the last one before them, -1 where there is none."""

    position: int
    size: int
    offset: int
    code: str
    detail: str


class Record(NamedTuple):
    """One record."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def batches(data: bytes, *, check: bool = True) -> Iterator[Batch | Damaged]:
    """Everything in a file, in its order. Without `check` checksums are taken as right until lengths lead nowhere."""
    view = np.frombuffer(data, np.uint8)
    at, last = 0, -1
    while at < len(data):
        some, at, wrong = _some(data, at)
        ok = _sound(view, data, some, last) if check or wrong is not None else np.ones(len(some), bool)
        sound = len(some) if ok.all() else int(np.argmin(ok))
        yield from some[:sound]
        last = some[sound - 1].last_offset if sound else last
        if sound < len(some):
            at, wrong = some[sound].position, "the checksum or the offset is not what it should be"
        if wrong is not None:
            upto = _next(view, data, at, last)
            if (damage := _damaged(data, at, upto, last, wrong)) is not None:
                yield damage
            at = upto


def records(data: bytes, batch: Batch) -> list[Record]:
    """The records of a batch. Raises WireError where its bytes are none, though the checksum is right."""
    body = data[batch.body : batch.end]
    if batch.magic < 2:
        return [Record(*each) for each in old_messages.messages(data[batch.position : batch.end])]
    body = decompressed(batch.attributes & _CODEC, body)
    append_time = batch.max_timestamp if batch.attributes & _APPEND_TIME else None
    found, at = [], 0
    try:
        for _ in range(batch.number):
            length, at = varints.varint(body, at)
            end = at + length
            if length < 0 or end > len(body):
                raise WireError(f"a record of {length} bytes, {len(body) - at} left")
            timestamp, at = varints.varint(body, at + 1)
            offset, at = varints.varint(body, at)
            key, at = varints.nullable_bytes(body, at)
            value, at = varints.nullable_bytes(body, at)
            if at > end:
                raise WireError("a record is longer than it says")
            at = end  # headers: records of groups have none
            when = batch.base_timestamp + timestamp if append_time is None else append_time
            found.append(Record(batch.base_offset + offset, when, key, value))
    except IndexError:
        raise WireError("a record is cut off") from None
    if at != len(body):
        raise WireError(f"{len(body) - at} bytes after the last record")
    return found


def marker(data: bytes, batch: Batch) -> int | None:
    """Of a control batch: ABORT or COMMIT; None where it is a marker of something else."""
    for record in records(data, batch):
        if record.key is not None and len(record.key) >= 4:
            (kind,) = struct.unpack_from(">h", record.key, 2)
            return kind if kind in (ABORT, COMMIT) else None
    return None


def _some(data: bytes, at: int) -> tuple[list[Batch], int, str | None]:
    """Batches as far as lengths lead, where that is, and what is wrong there."""
    found: list[Batch] = []
    while at < len(data) and len(found) < _AT_ONCE:
        batch = _batch(data, at)
        if isinstance(batch, str):
            return found, at, batch
        found.append(batch)
        at = batch.end
    return found, at, None


def _batch(data: bytes, at: int) -> Batch | str:
    """The batch that begins here, by its header alone; or what is wrong with it."""
    left = len(data) - at
    if left < _START.size:
        return f"{left} bytes are no header"
    base, length, _, magic = _START.unpack_from(data, at)
    if magic not in _SMALLEST:
        return f"message format {magic}"
    if length < _SMALLEST[magic] or base < 0:
        return f"a batch of {length} bytes at offset {base}"
    end = at + _BEFORE_LENGTH + length
    if end > len(data):
        return f"a batch of {length} bytes, {left - _BEFORE_LENGTH} left"
    if magic < 2:
        (checksum,) = struct.unpack_from(">I", data, at + _BEFORE_LENGTH)
        return Batch(at, at + _BEFORE_LENGTH, end, magic, base, base, data[at + 17], -1, -1, -1, 1, checksum)
    *_, checksum, attributes, delta, first, most, producer, _, _, count = _HEADER.unpack_from(data, at)
    if delta < 0 or count < 0:
        return f"{count} records, the last {delta} after the first"
    body = at + _HEADER.size
    return Batch(at, body, end, magic, base, base + delta, attributes, first, most, producer, count, checksum)


def _sound(view: Bytes, data: bytes, some: Sequence[Batch], last: int) -> npt.NDArray[np.bool_]:
    """Whether checksums are right, and offsets, which they do not cover, go on."""
    ok = np.ones(len(some), bool)
    new = [number for number, batch in enumerate(some) if batch.magic == 2]
    if new:
        found = crc32c(view, [some[at].position + _CHECKED_FROM for at in new], [some[at].end for at in new])
        ok[new] = found == np.array([some[at].checksum for at in new], np.uint32)
    for at, batch in enumerate(some):
        if batch.magic < 2:
            ok[at] = zlib.crc32(data[batch.position + _MAGIC_AT : batch.end]) == batch.checksum
        if not ok[at]:
            break
        follows = some[at + 1].base_offset if at + 1 < len(some) else None
        far = last >= 0 and batch.last_offset - last > _MOST_OF_A_SEGMENT
        if batch.base_offset <= last or far or (follows is not None and last < follows <= batch.last_offset):
            ok[at] = False
            break
        last = batch.last_offset
    return ok


def _next(view: Bytes, data: bytes, at: int, last: int) -> int:
    """Where the next sound batch begins, the end of the file where there is none."""
    start = _batch(data, at)
    if not isinstance(start, str) and start.end < len(data):
        natural = _batch(data, start.end)
        if not isinstance(natural, str) and _sound(view, data, [natural], last).all():
            return start.end
    window, size = at + 1, _WINDOW
    while window <= len(data) - _HEADER.size:
        upto = min(window + size, len(data) - _HEADER.size + 1)
        like = (view[window + _MAGIC_AT : upto + _MAGIC_AT] == 2) & (view[window:upto] == 0)
        like &= (view[window + 1 : upto + 1] == 0) & (view[window + _CHECKED_FROM : upto + _CHECKED_FROM] == 0)
        for candidate in (np.flatnonzero(like) + window).tolist():
            batch = _batch(data, candidate)
            if not isinstance(batch, str) and _sound(view, data, [batch], last).all():
                return int(candidate)
        window, size = upto, 2 * size
    return len(data)


def _damaged(data: bytes, at: int, upto: int, last: int, wrong: str) -> Damaged | None:
    if upto == len(data):
        if not data[at:].strip(b"\0"):  # a broker may make the file as long as it will be
            return None
        if not isinstance(_batch(data, at), Batch) and wrong.endswith(("left", "no header")):
            return Damaged(at, upto - at, last, CUT_OFF, wrong)
    code = UNKNOWN_FORMAT if wrong.startswith("message format") else CORRUPT
    return Damaged(at, upto - at, last, code, wrong)
