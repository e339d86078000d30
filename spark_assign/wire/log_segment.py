"""Reads the batches of a segment file of a partition's log: record batches, and the messages of formats 0 and 1.

Batches are read as columns, a block of a few megabytes at a time, and every checksum is verified. Damaged bytes are
reported with their position and skipped. A segment that the broker is still writing can end in the middle of a batch.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from spark_assign.numeric.arrays import BoolArray, IntArray

CUT_OFF, CORRUPT, UNKNOWN_FORMAT = "cut-off", "corrupt", "unknown-format"
NO_HEADER = "bytes aren't a header"

_HEADER = struct.Struct(">qiibIhiqqqhii")
_HEADER_FIELDS = np.dtype(">i8, >i4, >i4, i1, >u4, >i2, >i4, >i8, >i8, >i8, >i2, >i4, >i4")
_START = struct.Struct(">qiib")
_LENGTH = struct.Struct(">i")
CODEC, APPEND_TIME = 0x07, 0x08
_TRANSACTIONAL, _CONTROL = 0x10, 0x20
_MAGIC_AT, _CHECKED_FROM = 16, 21
_LENGTH_AT, _BEFORE_LENGTH = 8, 12
_MIN_LENGTH = {0: 14, 1: 22, 2: _HEADER.size - _BEFORE_LENGTH}
_BLOCK_BYTES = 1 << 22
"""Size of a block of batches, if it isn't a single larger batch, in bytes."""
_MAX_OFFSET = (1 << 63) - 1
_MAX_SEGMENT_OFFSETS = (1 << 31) - 1
"""Maximum number of offsets in a segment: its index stores offsets relative to the first one as an int32."""
_SEARCHED_BYTES, _SEARCHED_RATIO = 1 << 26, 64
"""Number of bytes with a wrong checksum that are read before the rest counts as damaged: at least, and per byte before
them."""
_CHECKED_BYTES = 1 << 14
"""Number of bytes that each candidate for the next batch counts in addition to its own."""
_WINDOW = 1 << 12
"""Number of bytes in which the search for the next batch starts, and size of the block after it."""
_MAX_DAMAGED = 10_000
"""Maximum number of damaged ranges of a file: the last one is the rest of the file."""


_Number = TypeVar("_Number", int, IntArray)


class _BatchFields(NamedTuple, Generic[_Number]):
    """The fields of one batch, or of several as arrays."""

    position: _Number
    body: _Number
    end: _Number
    magic: _Number
    base_offset: _Number
    last_offset: _Number
    attributes: _Number
    base_timestamp: _Number
    max_timestamp: _Number
    producer_id: _Number
    number: _Number
    checksum: _Number

    @property
    def transactional(self) -> Any:
        """Whether a batch belongs to a transaction, so that a marker decides whether its records are committed."""
        return (self.magic == 2) & (self.attributes & _TRANSACTIONAL != 0)

    @property
    def control(self) -> Any:
        """Whether a batch is a transaction marker."""
        return (self.magic == 2) & (self.attributes & _CONTROL != 0)


class Batch(_BatchFields[int]):
    """A record batch, or one message of formats 0 and 1. Its records are in `data[body:end]`."""

    __slots__ = ()


class BatchColumns(_BatchFields[IntArray]):
    """Consecutive batches of a file, one array per field of `Batch`."""

    __slots__ = ()

    def first(self, count: int) -> BatchColumns:
        """Returns the first batches."""
        return BatchColumns(*(column[:count] for column in self))

    def rows(self, mask: BoolArray | slice = slice(None)) -> Iterator[Batch]:
        """Yields the batches of a mask, or all, as objects."""
        return map(Batch._make, zip(*(column[mask].tolist() for column in self), strict=True))


class Damaged(NamedTuple):
    """Bytes of a file that aren't a batch. `offset` is the last offset before them, or -1 if there is none."""

    position: int
    size: int
    offset: int
    code: str
    detail: str


def iter_blocks(data: bytes, *, check: bool = True) -> Iterator[BatchColumns | Damaged]:
    """Yields all batches and every damaged range of a file, in the order of the file.

    Without `check`, checksums are assumed to be right until a length is wrong.
    """
    view = np.frombuffer(data, np.uint8)
    position, last_offset, num_damaged, block_bytes = 0, -1, 0, _BLOCK_BYTES
    left = _SEARCHED_BYTES + len(data)
    while position < len(data):
        batches, position, error = _next_batches(view, data, position, block_bytes)
        # What is checked in vain after damage is no more than what is right before it.
        block_bytes = min(2 * block_bytes, _BLOCK_BYTES)
        if check or error is not None:
            limit = left + _SEARCHED_RATIO * int(batches.position.min(initial=position))
            is_valid = _check_batches(view, data, batches, last_offset, limit)
            if not is_valid.all():
                num_valid = int(np.argmin(is_valid))
                position = int(batches.position[num_valid])
                size = int(batches.end[num_valid]) - position
                error = "the checksum or the offset is not what it should be"
                if size > limit:
                    error = f"a batch of {size} bytes isn't checked, because too many bytes before it are damaged"
                left -= size if size <= limit else 0
                batches = batches.first(num_valid)
        if len(batches.position):
            last_offset = int(batches.last_offset[-1])
            yield batches
        if error is not None:
            num_damaged, block_bytes, next_position = num_damaged + 1, _WINDOW, len(data)
            if num_damaged < _MAX_DAMAGED:
                next_position, left = _find_next_batch(view, data, position, last_offset, left)
            else:
                error = f"{error}; after {_MAX_DAMAGED:,} damaged ranges, the rest of the file isn't read"
            if (damage := _classify_damage(data, position, next_position, last_offset, error)) is not None:
                yield damage
            position = next_position


def _next_batches(view: Bytes, data: bytes, position: int, size: int) -> tuple[BatchColumns, int, str | None]:
    """Returns the batches of a block of at most `size` bytes, or a larger batch, that their lengths lead to, the
    position after them, and the error at that position.
    """
    positions, block_end = [position], position + size
    while position < block_end and position <= len(data) - _START.size:
        (length,) = _LENGTH.unpack_from(data, position + _LENGTH_AT)
        end = position + _BEFORE_LENGTH + length
        if length < _MIN_LENGTH[0] or end > len(data):
            break
        if end > block_end and len(positions) > 1:
            block_end = position
            break
        positions.append(position := end)
    is_complete = position == len(data) or position >= block_end
    batches, is_header = _read_headers(view, data, np.array(positions, np.int64))
    if not is_header.all():
        num_valid = int(np.argmin(is_header))
        batches, position, is_complete = batches.first(num_valid), positions[num_valid], False
    error = None if is_complete else _read_header(data, position)
    assert not isinstance(error, Batch), "the headers of a block are read in two ways"
    return batches, position, error


def _read_headers(view: Bytes, data: bytes, bounds: IntArray) -> tuple[BatchColumns, BoolArray]:
    """Returns the batches between consecutive positions, and whether each header is valid."""
    position, end = bounds[:-1], bounds[1:]
    columns = np.zeros((len(BatchColumns._fields), len(position)), np.int64)
    is_record_batch = (view[position + _MAGIC_AT] == 2) & (end - position >= _HEADER.size)
    position, end = position[is_record_batch], end[is_record_batch]
    shape = (max(len(view) - _HEADER.size + 1, 0),)
    headers: npt.NDArray[Any] = np.ndarray(shape, _HEADER_FIELDS, view, strides=(1,))[position]
    fields = (headers[name].astype(np.int64) for name in _HEADER_FIELDS.names or ())
    base, _, _, magic, checksum, attributes, delta, base_timestamp, max_timestamp, producer, _, _, number = fields
    body, last = position + _HEADER.size, base + delta
    place, offsets, times = (position, body, end), (base, last), (base_timestamp, max_timestamp)
    columns[:, is_record_batch] = [*place, magic, *offsets, attributes, *times, producer, number, checksum]
    is_header = is_record_batch.copy()
    is_header[is_record_batch] = (base >= 0) & (delta >= 0) & (last >= 0) & (number >= 0)
    for row in np.flatnonzero(~is_record_batch).tolist():
        header = _read_header(data, int(bounds[row]))
        if isinstance(header, str):
            break
        columns[:, row], is_header[row] = header, True
    return BatchColumns(*columns), is_header


def _read_header(data: bytes, position: int) -> Batch | str:
    """Returns the batch that starts at a position, decoded from its header, or the text of the error."""
    remaining = len(data) - position
    if remaining < _START.size:
        return f"{remaining} {NO_HEADER}"
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
    if delta < 0 or count < 0 or base + delta > _MAX_OFFSET:
        return f"{count} records, the last {delta} after the first"
    body = position + _HEADER.size
    return Batch(
        position, body, end, magic, base, base + delta, attributes, first, max_timestamp, producer, count, checksum
    )


def _check_batches(view: Bytes, data: bytes, batches: BatchColumns, last_offset: int, limit: int) -> BoolArray:
    """Returns whether each batch is valid, up to the first one that isn't: it has at most `limit` bytes, its checksum
    is right, and its offsets, which the checksum doesn't cover, ascend.
    """
    base, last = batches.base_offset, batches.last_offset
    previous = np.append(last_offset, last[:-1])
    is_valid: BoolArray = (base > previous) & ((previous < 0) | (last - previous <= _MAX_SEGMENT_OFFSETS))
    is_valid[:-1] &= (base[1:] <= previous[:-1]) | (base[1:] > last[:-1])
    is_valid &= batches.end - batches.position <= limit
    checked = np.flatnonzero(is_valid & (batches.magic == 2))
    checksums = crc32c(view, batches.position[checked] + _CHECKED_FROM, batches.end[checked])
    is_valid[checked] &= checksums == batches.checksum[checked]
    for row in np.flatnonzero(is_valid & (batches.magic < 2)).tolist():
        checksum = zlib.crc32(data[batches.position[row] + _MAGIC_AT : batches.end[row]])
        is_valid[row] &= checksum == batches.checksum[row]
    return is_valid


def _find_next_batch(view: Bytes, data: bytes, position: int, last_offset: int, left: int) -> tuple[int, int]:
    """Returns the position of the next valid batch, or the end of the file, and how many bytes can still be wrong."""
    start = _read_header(data, position)
    if not isinstance(start, str):
        is_batch, left = _is_batch(view, data, start.end, last_offset, left)
        if is_batch:
            return start.end, left
    window, size = position + 1, _WINDOW
    while window <= len(data) - _HEADER.size:
        window_end = min(window + size, len(data) - _HEADER.size + 1)
        looks_like_header = (view[window + _MAGIC_AT : window_end + _MAGIC_AT] == 2) & (view[window:window_end] == 0)
        looks_like_header &= (view[window + 1 : window_end + 1] == 0) & (
            view[window + _CHECKED_FROM : window_end + _CHECKED_FROM] == 0
        )
        for candidate in (np.flatnonzero(looks_like_header) + window).tolist():
            is_batch, left = _is_batch(view, data, candidate, last_offset, left)
            if is_batch:
                return candidate, left
        window, size = window_end, 2 * size
    return len(data), left


def _is_batch(view: Bytes, data: bytes, position: int, last_offset: int, left: int) -> tuple[bool, int]:
    """Returns whether there is a valid batch at a position, and how many bytes can still be wrong."""
    header, limit = _read_header(data, position), left + _SEARCHED_RATIO * position
    if isinstance(header, str) or header.end - position > limit:
        return False, left
    is_batch = bool(_check_batches(view, data, BatchColumns(*np.array([header]).T), last_offset, limit).all())
    return is_batch, left if is_batch else left - _CHECKED_BYTES - (header.end - position)


def _classify_damage(data: bytes, position: int, end: int, last_offset: int, error: str) -> Damaged | None:
    """Classifies a damaged range. Returns None for the zeros with which a broker preallocates a file."""
    if end == len(data):
        if not data[position:].strip(b"\0"):  # a broker may make the file as long as it will be
            return None
        if not isinstance(_read_header(data, position), Batch) and error.endswith(("left", NO_HEADER)):
            return Damaged(position, end - position, last_offset, CUT_OFF, error)
    code = UNKNOWN_FORMAT if error.startswith("message format") else CORRUPT
    return Damaged(position, end - position, last_offset, code, error)


# --- computes the CRC-32C (Castagnoli) checksums of many byte ranges at once with NumPy. Record batches carry this ---
#
# checksum.
#
# A checksum processes bytes in sequence, but it is linear. Each range is cut into blocks of one size, all blocks are
# processed side by side, and neighboring blocks of a range are combined until one is left:
#
# 1. Gather the blocks. The first block of a range is padded with zeros in front, which don't change a checksum of zero.
# 2. Invert the first four bytes of each range: this is equivalent to starting from ones instead of zero.
# 3. Process the blocks, four bytes at a time.
# 4. Combine pairs of blocks, from the end of a range: shift the checksum of the first one by the bytes of the second.


_BLOCK = 64
_BATCH_BYTES = 1 << 22
"""Bytes that one pass processes; bounds the memory."""
_POLYNOMIAL = 0x82F63B78
_ONES = 0xFFFFFFFF

Bytes = npt.NDArray[np.uint8]
Checksums = npt.NDArray[np.uint32]


def crc32c(data: Bytes, starts: IntArray, ends: IntArray) -> Checksums:
    """Returns the checksum of `data[start:end]` for each pair of `starts` and `ends`. Every range has at least four
    bytes.
    """
    checksums = np.zeros(len(starts), np.uint32)
    index = 0
    end_bytes = np.cumsum(ends - starts)
    while index < len(starts):
        done_bytes = end_bytes[index - 1] if index else 0
        end_index = max(index + 1, int(np.searchsorted(end_bytes, done_bytes + _BATCH_BYTES)))
        checksums[index:end_index] = _checksums_of_batch(data, starts[index:end_index], ends[index:end_index])
        index = end_index
    return checksums


def _checksums_of_batch(data: Bytes, starts: IntArray, ends: IntArray) -> Checksums:
    """Returns the checksums of ranges that are processed in one pass."""
    num_blocks = -(-(ends - starts) // _BLOCK)
    end_index = np.cumsum(num_blocks)
    words = _gather_blocks(data, starts, ends, num_blocks, end_index)
    low, high = _word_tables()
    checksums = np.zeros(len(words), np.uint32)
    for column in np.ascontiguousarray(words.T):
        checksums ^= column
        checksums = low[checksums & 0xFFFF] ^ high[checksums >> 16]
    return _combine_blocks(checksums, end_index, num_blocks) ^ np.uint32(_ONES)


def _gather_blocks(
    data: Bytes, starts: IntArray, ends: IntArray, num_blocks: IntArray, end_index: IntArray
) -> Checksums:
    """Returns the blocks of all ranges as words of four bytes, shape (number of blocks, words per block)."""
    base = int(starts.min()) - _BLOCK
    window = data[max(base, 0) : int(ends.max())]
    if base < 0:
        window = np.append(np.zeros(-base, np.uint8), window)
    overlapping: npt.NDArray[Any] = np.ndarray((len(window) - _BLOCK + 1,), f"V{_BLOCK}", window, strides=(1,))
    blocks_to_end = np.repeat(end_index, num_blocks) - np.arange(int(end_index[-1]))
    block_starts = np.repeat(ends - base, num_blocks) - _BLOCK * blocks_to_end
    blocks = overlapping[block_starts].view(np.uint64).reshape(-1, _BLOCK // 8)
    padding = num_blocks * _BLOCK - (ends - starts)
    first = end_index - num_blocks
    blocks[first] &= _padding_masks()[padding]
    flat = blocks.reshape(-1).view(np.uint8)
    flat[(first * _BLOCK + padding)[:, None] + np.arange(4)] ^= 0xFF
    words: Checksums = blocks.view("<u4")
    return words


def _combine_blocks(checksums: Checksums, end_index: IntArray, num_blocks: IntArray) -> Checksums:
    """Combines the checksums of the blocks of each range, pair by pair."""
    block_bytes = _BLOCK
    while (num_blocks > 1).any():
        num_pairs = (num_blocks + 1) // 2
        pair_end_index = np.cumsum(num_pairs)
        pairs_to_end = np.repeat(pair_end_index, num_pairs) - np.arange(int(pair_end_index[-1]))
        second = np.repeat(end_index, num_pairs) - 2 * pairs_to_end + 1
        has_first = np.ones(len(second), bool)
        has_first[pair_end_index - num_pairs] = num_blocks % 2 == 0
        previous = np.where(has_first, checksums[second - 1], np.uint32(0))
        checksums = checksums[second] ^ _shift(previous, _shift_tables(block_bytes))
        end_index, num_blocks, block_bytes = pair_end_index, num_pairs, 2 * block_bytes
    return checksums


def _shift(checksums: Checksums, tables: Checksums) -> Checksums:
    """Returns what checksums become after the number of zeros for which the tables are."""
    shifted: Checksums = tables[0][checksums & 0xFF] ^ tables[1][(checksums >> 8) & 0xFF]
    shifted ^= tables[2][(checksums >> 16) & 0xFF] ^ tables[3][checksums >> 24]
    return shifted


@cache
def _padding_masks() -> npt.NDArray[np.uint64]:
    """Returns, for each number of padding bytes, a mask of the other bytes of a block. Shape: (64, 8)."""
    is_padding = np.arange(_BLOCK) < np.arange(_BLOCK)[:, None]
    return np.where(is_padding, 0, 0xFF).astype(np.uint8).view(np.uint64)


@cache
def _shift_tables(num_bytes: int) -> Checksums:
    """Returns what each byte of a checksum becomes after `num_bytes` (a power of two) zeros. Shape: (4, 256)."""
    if num_bytes == 1:
        table = np.arange(256, dtype=np.uint32)
        for _ in range(8):
            table = np.where(table & 1, np.uint32(_POLYNOMIAL) ^ (table >> 1), table >> 1)
        higher = np.arange(256, dtype=np.uint32) << (8 * np.arange(3, dtype=np.uint32))[:, None]
        return np.concatenate([table[None], higher])
    return _shift(_shift_tables(num_bytes // 2), _shift_tables(num_bytes // 2))


@cache
def _word_tables() -> tuple[Checksums, Checksums]:
    """Returns what the low and the high half of a checksum become after four zeros. Shape: (65536,) each."""
    values: Checksums = np.arange(1 << 16, dtype=np.uint32)
    return _shift(values, _shift_tables(4)), _shift(values << np.uint32(16), _shift_tables(4))
