"""Arithmetic on consecutive stretches of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_assign.numeric.array_types import IntArray


def starts_new_key(sorted_keys: NDArray[Any]) -> NDArray[np.bool_]:
    """Marks the rows at which a new key begins."""
    marks = np.ones(len(sorted_keys), bool)
    marks[1:] = sorted_keys[1:] != sorted_keys[:-1]
    return marks


def row_numbers(sorted_keys: IntArray) -> IntArray:
    """Of each row its number, from 0, among the rows of its key."""
    row = np.arange(len(sorted_keys))
    return row - np.maximum.accumulate(np.where(starts_new_key(sorted_keys), row, 0))


def ranges_by_length(lengths: IntArray) -> IntArray:
    """0, 1, … up to each length, one after the other."""
    begins = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) - np.repeat(begins, lengths)


def key_ranges(sorted_keys: IntArray) -> list[tuple[int, int]]:
    """Begin and end of the rows of each key."""
    if not len(sorted_keys):
        return []
    begins = np.flatnonzero(starts_new_key(sorted_keys))
    return list(zip(begins.tolist(), np.append(begins[1:], len(sorted_keys)).tolist(), strict=True))


def expand_slices(first: IntArray, step: IntArray, count: IntArray) -> tuple[IntArray, IntArray]:
    """Runs to partitions.

    Returns:
        for each partition the index of its run, and the partition.
    """
    row = np.repeat(np.arange(len(count)), count)
    return row, first[row] + ranges_by_length(count) * step[row]


def exclusive_sum(counts: IntArray, first: IntArray) -> IntArray:
    """Of each row the sum of the counts before it, since the row `first` of its stretch."""
    before = np.cumsum(counts) - counts
    return before - before[first] if len(counts) else before
