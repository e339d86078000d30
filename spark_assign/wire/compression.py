"""Decompresses record batches with pyarrow's codecs and Python's zlib."""

from __future__ import annotations

import struct
import zlib

import pyarrow as pa

from spark_assign.wire.reader import WireError

NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
"""Kafka's names of the codecs; the index is the value of the lowest three bits of a batch's attributes."""

_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = 16
_MAX_BYTES = 1 << 30
"""Maximum size of a decompressed batch, in bytes. A batch that announces more is damaged."""
_FIRST_BYTES = 1 << 20
"""Size of almost any decompressed batch or more, in bytes."""


def decompress(codec: int, data: bytes) -> bytes:
    """Returns the decompressed bytes. Raises WireError if `data` isn't valid for the codec."""
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
            # A read allocates the bytes that it may return, and clearing a gigabyte takes longer than most batches.
            content: bytes = stream.read(_FIRST_BYTES)
            return content + stream.read(_MAX_BYTES) if len(content) == _FIRST_BYTES else content
    except (pa.ArrowException, OSError, ValueError, zlib.error, struct.error, MemoryError, EOFError) as error:
        lines = str(error).splitlines()
        raise WireError(f"{NAMES[codec]}: {lines[0] if lines else type(error).__name__}") from None


def _gzip(data: bytes) -> bytes:
    """Returns the decompressed bytes of a complete gzip stream."""
    stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
    content = stream.decompress(data, _MAX_BYTES)
    if not stream.eof:
        raise WireError("gzip: it is cut off")
    return content


def _snappy(data: bytes) -> bytes:
    """Returns the decompressed bytes of the block stream that Java's SnappyOutputStream writes, or of one bare
    block."""
    if not data.startswith(_XERIAL):
        return _block(data)
    blocks, position = [], _XERIAL_HEADER
    while position < len(data):
        (size,) = struct.unpack_from(">i", data, position)
        if not 0 <= size <= len(data) - position - 4:
            raise WireError(f"snappy: a block of {size} bytes, {len(data) - position - 4} left")
        blocks.append(_block(data[position + 4 : position + 4 + size]))
        position += 4 + size
    return b"".join(blocks)


def _block(data: bytes) -> bytes:
    """Returns the decompressed bytes of one raw snappy block, after a check of the size that its header announces."""
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    if size > min(_MAX_BYTES, 64 * len(data) + 64):  # no snappy block has a higher compression ratio
        raise WireError(f"snappy: {size} bytes announced in a block of {len(data)}")
    content: bytes = pa.Codec("snappy").decompress(data, decompressed_size=size, asbytes=True)
    return content
