"""Computes the CRC-32C (Castagnoli) checksums of many byte ranges at once with NumPy. Record batches carry this
checksum.

A checksum processes bytes in sequence, but it is linear. Each range is cut into blocks of one size, all blocks are
processed side by side, and neighboring blocks of a range are combined until one is left:

1. Gather the blocks. The first block of a range is padded with zeros in front, which don't change a checksum of zero.
2. Invert the first four bytes of each range: this is equivalent to starting from ones instead of zero.
3. Process the blocks, four bytes at a time.
4. Combine pairs of blocks, from the end of a range: shift the checksum of the first one by the bytes of the second.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from spark_assign.numeric.array_types import IntArray

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
