"""Computes the CRC-32C (Castagnoli) checksums of many byte ranges at once with NumPy. Record batches carry this
checksum.

A checksum processes bytes in sequence, but it is linear. Each range is cut into blocks of one size, all blocks are
processed side by side, and the checksums of the blocks of a range are then combined.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

_BLOCK = 64
_BATCH_BYTES = 1 << 23
"""Bytes that one NumPy pass processes; bounds the memory."""
_POLYNOMIAL = 0x82F63B78
_ONES = 0xFFFFFFFF

Checksums = npt.NDArray[np.uint32]


def crc32c(data: npt.NDArray[np.uint8], starts: Sequence[int], ends: Sequence[int]) -> Checksums:
    """Returns the checksum of `data[start:end]` for each pair of `starts` and `ends`. Every range has at least four
    bytes.
    """
    first, last = np.asarray(starts, np.int64), np.asarray(ends, np.int64)
    checksums = np.zeros(len(first), np.uint32)
    index = 0
    end_bytes = np.cumsum(last - first)
    while index < len(first):
        done_bytes = end_bytes[index - 1] if index else 0
        end_index = max(index + 1, int(np.searchsorted(end_bytes, done_bytes + _BATCH_BYTES)))
        checksums[index:end_index] = _checksums_of_batch(data, first[index:end_index], last[index:end_index])
        index = end_index
    return checksums


def _checksums_of_batch(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> Checksums:
    """Returns the checksums of ranges that are processed in one pass.

    Leading zeros don't change a checksum as long as it is zero, so blocks are padded in front. Starting from ones
    instead of zeros is equivalent to inverting the first four bytes of a range.
    """
    sizes = ends - starts
    num_blocks = -(-sizes // _BLOCK)
    end_index = np.cumsum(num_blocks)
    padded = np.zeros(int(end_index[-1]) * _BLOCK, np.uint8)
    offset = end_index * _BLOCK - sizes
    source = np.arange(int(sizes.sum())) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
    padded[source + np.repeat(offset - starts, sizes)] = data[source]
    padded[(offset[:, None] + np.arange(4)).ravel()] ^= 0xFF
    table = _table()
    block_checksums = np.zeros(len(padded) // _BLOCK, np.uint32)
    for column in np.ascontiguousarray(padded.reshape(-1, _BLOCK).T):
        block_checksums = table[(block_checksums ^ column) & 0xFF] ^ (block_checksums >> 8)
    return _combine_blocks(block_checksums, end_index - num_blocks, num_blocks) ^ np.uint32(_ONES)


def _combine_blocks(
    block_checksums: Checksums, first: npt.NDArray[np.int64], num_blocks: npt.NDArray[np.int64]
) -> Checksums:
    """Combines the checksums of blocks into one per range: block by block, for all ranges that have that many
    blocks."""
    checksums = block_checksums[first]
    shift = _shift_tables()
    order = np.argsort(-num_blocks, kind="stable")
    num_blocks_sorted = num_blocks[order]
    for block_index in range(1, int(num_blocks_sorted[0])):
        longer = order[: int(np.searchsorted(-num_blocks_sorted, -block_index, side="left"))]
        previous = checksums[longer]
        shifted = (
            shift[0][previous & 0xFF]
            ^ shift[1][(previous >> 8) & 0xFF]
            ^ shift[2][(previous >> 16) & 0xFF]
            ^ shift[3][previous >> 24]
        )
        checksums[longer] = shifted ^ block_checksums[first[longer] + block_index]
    return checksums


@cache
def _table() -> Checksums:
    """Returns the lookup table of the checksum for one byte. Shape: (256,)."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, np.uint32(_POLYNOMIAL) ^ (table >> 1), table >> 1)
    return table


@cache
def _shift_tables() -> Checksums:
    """Returns what each byte of a checksum becomes after a block of zeros. Shape: (4, 256)."""
    table = _table()
    tables = np.arange(256, dtype=np.uint32)[None, :] << (8 * np.arange(4, dtype=np.uint32))[:, None]
    for _ in range(_BLOCK):
        tables = table[tables & 0xFF] ^ (tables >> 8)
    return tables
