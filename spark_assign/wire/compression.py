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
_MIN_BYTES, _MAX_RATIO, _MAX_BYTES = 1 << 26, 64, 1 << 30
_CHUNK_BYTES = 1 << 20
"""Size of almost any decompressed batch or more, in bytes. A read allocates the bytes that it may return."""


def max_decompressed(compressed: int) -> int:
    """Returns the maximum size of what compressed bytes can become, in bytes: 64 times their size, but at least 64 MiB
    and at most 1 GiB. Names and offsets of groups compress about 10:1, and zeros 1000:1 (gzip) to 30,000:1 (zstd).
    """
    return min(max(_MIN_BYTES, _MAX_RATIO * compressed), _MAX_BYTES)


def decompress(codec: int, data: bytes, limit: int = _MAX_BYTES) -> bytes:
    """Returns the decompressed bytes.

    Raises:
        WireError: `data` isn't valid for the codec, is cut off, or becomes more than `limit` bytes.
    """
    if codec == 0:
        return data
    if codec >= len(NAMES):
        raise WireError(f"compression {codec} is none that is known")
    try:
        if NAMES[codec] == "gzip":
            return _gzip(data, limit)
        if NAMES[codec] == "snappy":
            return _snappy(data, limit)
        with pa.input_stream(pa.py_buffer(data), compression=NAMES[codec]) as stream:
            chunks, size = [], 0
            while len(chunk := stream.read(_CHUNK_BYTES)) == _CHUNK_BYTES:
                chunks.append(chunk)
                size += _CHUNK_BYTES
                _check_size(NAMES[codec], size, limit)
            _check_size(NAMES[codec], size + len(chunk), limit)
            return b"".join([*chunks, chunk])
    except (pa.ArrowException, OSError, ValueError, zlib.error, struct.error, MemoryError, EOFError) as error:
        lines = str(error).splitlines()
        raise WireError(f"{NAMES[codec]}: {lines[0] if lines else type(error).__name__}") from None


def _check_size(name: str, size: int, limit: int) -> None:
    """Raises WireError if the decompressed size is above the limit."""
    if size > limit:
        raise WireError(f"{name}: it becomes more than {limit} bytes")


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
