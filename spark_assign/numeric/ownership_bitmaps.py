"""Ownership of single partitions as bitmaps, and conversion to slices.

A bitmap stands for 512 consecutive partitions of a topic, of which a member owns those whose bits are set: bit b of
word w is partition 512 * bitmap index + 64 * w + b. Rows are aggregated to bitmaps without a sort and without Python:
`bits` is the bitwise or of the rows, `xor` their exclusive or, and `count` their number, by which duplicates are found.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.partition_slices import compress_sorted

WORDS_PER_BITMAP = 8
BITMAP_INDEX_BITS = 9
"""Number of low bits of a partition number within a bitmap; the higher bits are the bitmap index."""

_WORDS_BATCH_SIZE = 524_288
"""Number of words that are unpacked at once."""


def read_bitmaps(column: pa.Array) -> IntArray:
    """Returns the words of bitmaps. Shape: (num_bitmaps, WORDS_PER_BITMAP)."""
    return np.asarray(column.flatten().to_numpy(zero_copy_only=False), np.int64).reshape(-1, WORDS_PER_BITMAP)


def unpack(bits: IntArray) -> tuple[IntArray, IntArray]:
    """Returns the row and the position within the bitmap of each set bit, in order."""
    rows, positions = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    flat = bits.reshape(-1)
    nonzero = np.flatnonzero(flat)  # in sparse bitmaps, most words are zero
    for start in range(0, len(nonzero), _WORDS_BATCH_SIZE):
        batch = nonzero[start : start + _WORDS_BATCH_SIZE]
        octets = flat[batch].astype("<i8").view(np.uint8).reshape(-1, 8)
        found = np.flatnonzero(np.unpackbits(octets, axis=1, bitorder="little"))
        word_index = batch[found >> 6]
        rows.append(word_index // WORDS_PER_BITMAP)
        positions.append((word_index % WORDS_PER_BITMAP << 6) | (found & 63))
    return np.concatenate(rows), np.concatenate(positions)


def slices_from_bitmaps(
    key: IntArray, bitmap_index: IntArray, bits: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Converts bitmaps, in any order, to slices: evenly spaced partitions of one key become one slice.

    Returns:
        key, first, step and count of each slice.
    """
    order = np.lexsort((bitmap_index, key))
    row, position = unpack(bits[order])
    return compress_sorted(key[order][row], (bitmap_index[order][row] << BITMAP_INDEX_BITS) + position)


def find_duplicates(bits: IntArray, xor: IntArray, count: IntArray) -> tuple[IntArray, IntArray]:
    """Returns partitions that occur in several rows.

    Args:
        bits, xor: or and exclusive or of the rows of each bitmap.
        count: number of rows.

    Returns:
        index of the bitmap, and position of the partition within it, each once; -1 if a partition occurs three times
        (or five, …), because the exclusive or doesn't show which one it is.
    """
    even = bits & ~xor
    row, position = unpack(even)
    with_several = np.flatnonzero(count > 1)
    num_distinct = np.bincount(unpack(bits[with_several])[0], minlength=len(with_several))
    odd = with_several[count[with_several] > num_distinct + np.bincount(row, minlength=len(bits))[with_several]]
    odd = odd[~np.isin(odd, row)]
    return np.append(row, odd), np.append(position, np.full(len(odd), -1))
