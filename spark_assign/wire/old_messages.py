"""Messages of Kafka's formats 0 and 1 (before 0.11): one by one, or several compressed inside of one."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from spark_assign.wire.compression import decompressed
from spark_assign.wire.reader import WireError

_START = struct.Struct(">qiIbb")
_CODEC, _APPEND_TIME = 0x07, 0x08

Message = tuple[int, int, bytes | None, bytes | None]
"""Offset, timestamp (-1 in format 0, which has none), key, value."""


def messages(data: bytes) -> list[Message]:
    """All messages of a message as the log has it. Raises WireError where the bytes are none."""
    try:
        return list(_messages(data))
    except struct.error as error:
        raise WireError(f"a message is cut off: {error}") from None


def _messages(data: bytes) -> Iterator[Message]:
    offset, magic, attributes, timestamp, key, value, _ = _one(data, 0)
    codec = attributes & _CODEC
    if codec == 0:
        yield offset, timestamp, key, value
        return
    if codec == 3 and magic == 0:
        raise WireError("lz4 in message format 0, whose checksums are none: read it by a Kafka of its time")
    if value is None:
        raise WireError("a compressed message without a value")
    inside, at, found = decompressed(codec, value), 0, []
    while at < len(inside):
        within, its_magic, its_attributes, when, its_key, its_value, at = _one(inside, at)
        if its_magic != magic or its_attributes & _CODEC:
            raise WireError("a compressed message of another format inside of one")
        found.append((within, timestamp if attributes & _APPEND_TIME else when, its_key, its_value))
    # In format 1 offsets inside count from 0, and the message around them has the last one's.
    base = offset - found[-1][0] if magic and found else 0
    for within, when, its_key, its_value in found:
        yield base + within, when, its_key, its_value


def _one(data: bytes, at: int) -> tuple[int, int, int, int, bytes | None, bytes | None, int]:
    offset, size, _, magic, attributes = _START.unpack_from(data, at)
    end, at = at + 12 + size, at + _START.size
    if not at <= end <= len(data):
        raise WireError(f"a message of {size} bytes, {len(data) - at} left")
    timestamp = -1
    if magic == 1:
        (timestamp,) = struct.unpack_from(">q", data, at)
        at += 8
    key, at = _bytes(data, at, end)
    value, at = _bytes(data, at, end)
    return offset, magic, attributes, timestamp, key, value, end


def _bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    (size,) = struct.unpack_from(">i", data, at)
    at += 4
    if size < 0:
        return None, at
    if at + size > end:
        raise WireError(f"{size} bytes expected at byte {at}, {end - at} left")
    return data[at : at + size], at + size
