"""Computes on arrays that are sorted by a key, key by key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_assign.numeric.array_types import IntArray


def starts_new_key(sorted_keys: NDArray[Any], *further_keys: NDArray[Any]) -> NDArray[np.bool_]:
    """Returns a mask of the rows in which at least one key differs from the row before."""
    marks = np.ones(len(sorted_keys), bool)
    marks[1:] = sorted_keys[1:] != sorted_keys[:-1]
    for keys in further_keys:
        marks[1:] |= keys[1:] != keys[:-1]
    return marks


def row_numbers(sorted_keys: IntArray) -> IntArray:
    """Returns the position, from 0, of each row among the rows with its key."""
    return np.arange(len(sorted_keys)) - first_rows(sorted_keys)


def first_rows(sorted_keys: IntArray) -> IntArray:
    """Returns the index of the first row with the key of each row."""
    return np.maximum.accumulate(np.where(starts_new_key(sorted_keys), np.arange(len(sorted_keys)), 0))


def sorted_union(first: IntArray, second: IntArray) -> IntArray:
    """Returns the different numbers of two sorted arrays, ascending. `np.union1d` hashes them, which takes longer."""
    both = np.sort(np.concatenate([first, second]), kind="stable")
    return both[starts_new_key(both)]


def number_keys(first: IntArray, second: IntArray, size: int) -> tuple[IntArray, IntArray, IntArray]:
    """Returns the different keys of two arrays, ascending, and the position of each key of each array among them.

    Args:
        first, second: keys from 0 to size - 1.
        size: if it isn't much larger than the number of keys, they are counted instead of sorted.
    """
    if size > 8 * (len(first) + len(second)):
        keys = sorted_union(np.sort(first), np.sort(second))
        return keys, np.searchsorted(keys, first), np.searchsorted(keys, second)
    occurs = np.zeros(size, bool)
    occurs[first] = True
    occurs[second] = True
    position = np.cumsum(occurs) - 1
    return np.flatnonzero(occurs), position[first], position[second]


def number_lists(lists: Sequence[Sequence[int]]) -> tuple[list[int], list[Sequence[int]]]:
    """Returns the number of each list among the different ones, and these, in the order in which they occur. Lists that
    are one object are compared with the others once."""
    by_content: dict[tuple[int, ...], int] = {}
    by_object: dict[int, int] = {}
    for each in lists:
        if id(each) not in by_object:
            by_object[id(each)] = by_content.setdefault(tuple(each), len(by_content))
    return [by_object[id(each)] for each in lists], list(by_content)


def ranges_by_length(lengths: IntArray) -> IntArray:
    """Returns 0, 1, …, length - 1 for each length, concatenated."""
    starts = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) - np.repeat(starts, lengths)


def key_ranges(sorted_keys: IntArray) -> list[tuple[int, int]]:
    """Returns the start and the end (exclusive) of the rows of each key."""
    if not len(sorted_keys):
        return []
    starts = np.flatnonzero(starts_new_key(sorted_keys))
    return list(zip(starts.tolist(), np.append(starts[1:], len(sorted_keys)).tolist(), strict=True))


def expand_slices(first: IntArray, step: IntArray, count: IntArray) -> tuple[IntArray, IntArray]:
    """Expands slices into partitions.

    Returns:
        the index of the slice of each partition, and the partition.
    """
    row = np.repeat(np.arange(len(count)), count)
    return row, first[row] + ranges_by_length(count) * step[row]


def exclusive_sum(counts: IntArray, first: IntArray) -> IntArray:
    """Returns the sum of the counts from row `first[i]` up to, but not including, row i. Shape: (num_rows,)."""
    preceding = np.cumsum(counts) - counts
    return preceding - preceding[first] if len(counts) else preceding
