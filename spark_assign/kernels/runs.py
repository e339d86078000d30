"""Partitions to runs, in arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def compress_owners(owner: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """The owner of each partition to evenly spaced runs, losslessly.

    Args:
        owner: for each partition the number of its owner; negative: nobody.

    Returns:
        owner, first, step and count of each run, ordered by owner and first.
    """
    order = np.argsort(owner, kind="stable")
    order = order[owner[order] >= 0]
    return compress_sorted(owner[order], order)


def compress_sorted(key: Ints, partition: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Rows sorted by key and ascending partition, without repeats, to key, first, step and count of runs.

    A row turns where its key or its gap to the row before changes. In a stretch of turns the first starts a run, the
    second is that run's second partition (its gap is the new step), the third starts another run, and so on.
    """
    size = len(partition)
    if size == 0:
        empty = np.empty(0, dtype=np.int64)
        return empty, empty, empty, empty
    row = np.arange(size)
    new_key = np.append(True, key[1:] != key[:-1])
    gap = np.append(0, partition[1:] - partition[:-1])
    gap[new_key] = 0
    turns = new_key | np.append(True, gap[1:] != gap[:-1])
    stretch_begins = turns & (new_key | np.append(True, ~turns[:-1]))
    begin = np.maximum.accumulate(np.where(stretch_begins, row, 0))
    starts = turns & ((row - begin) % 2 == 0)
    first_rows = np.flatnonzero(starts)
    count = np.diff(np.append(first_rows, size))
    last = partition[first_rows + count - 1]
    first = partition[first_rows]
    step = np.where(count > 1, (last - first) // np.maximum(count - 1, 1), 1)
    return key[first_rows], first, step, count
