"""What record batches are compressed with, by the codecs of pyarrow and Python's zlib."""

from __future__ import annotations

import struct
import zlib

import pyarrow as pa

from spark_assign.wire.reader import WireError

NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
"""By the lowest three bits of a batch's attributes."""

_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = 16
_MOST = 1 << 30
"""Bytes that one batch may have; bytes that say more are no batch."""


def decompressed(codec: int, data: bytes) -> bytes:
    """What was compressed. Raises WireError where it is not what the codec makes."""
    if codec == 0:
        return data
    if codec >= len(NAMES):
        raise WireError(f"compression {codec} is none that is known")
    try:
        if NAMES[codec] == "gzip":
            return _gzip(data)
        if NAMES[codec] == "snappy":
            return _snappy(data)
        with pa.input_stream(pa.py_buffer(data), compression=NAMES[codec]) as stream:
            found: bytes = stream.read(_MOST)
            return found
    except (pa.ArrowException, OSError, ValueError, zlib.error, struct.error, MemoryError, EOFError) as error:
        told = str(error).splitlines()
        raise WireError(f"{NAMES[codec]}: {told[0] if told else type(error).__name__}") from None


def _gzip(data: bytes) -> bytes:
    stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
    found = stream.decompress(data, _MOST)
    if not stream.eof:
        raise WireError("gzip: it is cut off")
    return found


def _snappy(data: bytes) -> bytes:
    """As Java's SnappyOutputStream writes it, block by block; or one bare block."""
    if not data.startswith(_XERIAL):
        return _block(data)
    blocks, at = [], _XERIAL_HEADER
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        if not 0 <= size <= len(data) - at - 4:
            raise WireError(f"snappy: a block of {size} bytes, {len(data) - at - 4} left")
        blocks.append(_block(data[at + 4 : at + 4 + size]))
        at += 4 + size
    return b"".join(blocks)


def _block(data: bytes) -> bytes:
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    if size > min(_MOST, 64 * len(data) + 64):  # snappy makes nothing smaller than that
        raise WireError(f"snappy: {size} bytes announced in a block of {len(data)}")
    found: bytes = pa.Codec("snappy").decompress(data, decompressed_size=size, asbytes=True)
    return found
