"""Single partitions as blocks of bits, and back to runs.

A block is 512 neighbouring partitions of a topic, of which a member owns those whose bits are set: bit b of word w
stands for partition 512 * block + 64 * w + b. Rows become blocks by one aggregation that needs neither a sort nor
Python. `bits` is the `or` of the rows, `twice` their `xor` and, so that a partition that stands in several rows is
found, `count` is the number of rows.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.partition_slices import compress_sorted

WORDS_PER_BITMAP = 8
BITMAP_INDEX_BITS = 9
"""A block has so many bits of a partition's number below its own."""

_WORDS_BATCH_SIZE = 524_288
"""So many words are unpacked together."""


def read_bitmaps(column: pa.Array) -> IntArray:
    """The words of blocks, a row per block."""
    return np.asarray(column.flatten().to_numpy(zero_copy_only=False), np.int64).reshape(-1, WORDS_PER_BITMAP)


def unpack(bits: IntArray) -> tuple[IntArray, IntArray]:
    """Of each bit that is set, the row of its block and its number there, in order."""
    rows, numbers = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    flat = bits.reshape(-1)
    some = np.flatnonzero(flat)  # in sparse blocks most words are empty
    for begin in range(0, len(some), _WORDS_BATCH_SIZE):
        at = some[begin : begin + _WORDS_BATCH_SIZE]
        octets = flat[at].astype("<i8").view(np.uint8).reshape(-1, 8)
        found = np.flatnonzero(np.unpackbits(octets, axis=1, bitorder="little"))
        word = at[found >> 6]
        rows.append(word // WORDS_PER_BITMAP)
        numbers.append((word % WORDS_PER_BITMAP << 6) | (found & 63))
    return np.concatenate(rows), np.concatenate(numbers)


def slices_from_bitmaps(
    key: IntArray, block: IntArray, bits: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Blocks in any order as runs, losslessly: evenly spaced neighbours of one key become one run.

    Returns:
        key, first, step and count of each run.
    """
    order = np.lexsort((block, key))
    at, low = unpack(bits[order])
    return compress_sorted(key[order][at], (block[order][at] << BITMAP_INDEX_BITS) + low)


def find_duplicates(bits: IntArray, twice: IntArray, count: IntArray) -> tuple[IntArray, IntArray]:
    """Partitions that stand in several rows.

    Args:
        bits, twice: the `or` and the `xor` of each block's rows; count: their number.

    Returns:
        rows of blocks, and the partition's number in the block, each once; -1 where a block has a partition three
        times (or five, …), of which the `xor` does not tell which one it is.
    """
    even = bits & ~twice
    row, low = unpack(even)
    some = np.flatnonzero(count > 1)
    different = np.bincount(unpack(bits[some])[0], minlength=len(some))
    odd = some[count[some] > different + np.bincount(row, minlength=len(bits))[some]]
    odd = odd[~np.isin(odd, row)]
    return np.append(row, odd), np.append(low, np.full(len(odd), -1))
