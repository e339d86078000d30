"""Arithmetic on consecutive stretches of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_assign.kernels.arrays import Ints


def first_of_each(sorted_keys: NDArray[Any]) -> NDArray[np.bool_]:
    """Marks the rows at which a new key begins."""
    marks = np.ones(len(sorted_keys), bool)
    marks[1:] = sorted_keys[1:] != sorted_keys[:-1]
    return marks


def ranks(sorted_keys: Ints) -> Ints:
    """Of each row its number, from 0, among the rows of its key."""
    row = np.arange(len(sorted_keys))
    return row - np.maximum.accumulate(np.where(first_of_each(sorted_keys), row, 0))


def counted(lengths: Ints) -> Ints:
    """0, 1, … up to each length, one after the other."""
    begins = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) - np.repeat(begins, lengths)


def stretches(sorted_keys: Ints) -> list[tuple[int, int]]:
    """Begin and end of the rows of each key."""
    if not len(sorted_keys):
        return []
    begins = np.flatnonzero(first_of_each(sorted_keys))
    return list(zip(begins.tolist(), np.append(begins[1:], len(sorted_keys)).tolist(), strict=True))


def expand_runs(first: Ints, step: Ints, count: Ints) -> tuple[Ints, Ints]:
    """Runs to partitions.

    Returns:
        for each partition the index of its run, and the partition.
    """
    row = np.repeat(np.arange(len(count)), count)
    return row, first[row] + counted(count) * step[row]


def exclusive_sum(counts: Ints, first: Ints) -> Ints:
    """Of each row the sum of the counts before it, since the row `first` of its stretch."""
    before = np.cumsum(counts) - counts
    return before - before[first] if len(counts) else before
