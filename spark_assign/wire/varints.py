"""Numbers of Kafka's record format: zigzag, seven bits a byte, the lowest first."""

from __future__ import annotations

from spark_assign.wire.reader import WireError

_MOST_BITS = 70


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends. Raises IndexError past the end of the bytes, WireError for a number too long."""
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
        if shift >= _MOST_BITS:
            raise WireError(f"a number of more than ten bytes before byte {at}")


def nullable_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    """Bytes behind their length, and where they end; -1 is null."""
    size, at = varint(data, at)
    if size < 0:
        return None, at
    if at + size > len(data):
        raise WireError(f"{size} bytes expected at byte {at}, {len(data) - at} left")
    return data[at : at + size], at + size
