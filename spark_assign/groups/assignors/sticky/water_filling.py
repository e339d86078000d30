"""Arithmetic on the numbers of partitions that members have: how far they are filled, and how even they are."""

from __future__ import annotations

import numpy as np

from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.segmented_arrays import ranges_by_length, row_numbers


def find_level(sizes: IntArray, number: int) -> int:
    """The least level up to which vessels filled to `sizes` take `number` more."""
    ordered = np.sort(sizes)
    each = np.arange(1, len(ordered) + 1)
    room_below = each * ordered - np.cumsum(ordered)
    lowest = int(np.searchsorted(room_below, number, side="left"))
    filled = int(ordered[:lowest].sum())
    return -(-(number + filled) // lowest)


def balance_score(sizes: IntArray) -> int:
    """The sum of differences of all pairs (`getBalanceScore`), in Java's 32 bits."""
    ordered = np.sort(sizes)
    number = len(ordered)
    total = int(((2 * np.arange(number) - number + 1) * ordered).sum())
    return (total + (1 << 31)) % (1 << 32) - (1 << 31)


def fill_up(group: IntArray, load: IntArray, name: IntArray, free: IntArray) -> IntArray:
    """Who gets what nobody has, if each time it is whoever has least, and of those the first by name.

    Args:
        group, load, name: of each member; groups ascend.
        free: of each group, how many partitions are to be handed out.

    Returns:
        members, by group and turn.
    """
    # The least level at which members who have less, each brought up to it, take at least so many.
    low = np.zeros(len(free), np.int64)
    high = np.zeros(len(free), np.int64)
    np.maximum.at(high, group, load)
    high += free
    while (low < high).any():
        middle = (low + high) >> 1
        taken = np.bincount(group, np.maximum(middle[group] - load, 0), len(free))
        enough = taken >= free
        high, low = np.where(enough, middle, high), np.where(enough, low, np.minimum(middle + 1, high))
    takes = np.maximum(high[group] - load, 0)
    member = np.repeat(np.arange(len(load)), takes)
    member = member[np.lexsort((name[member], load[member] + ranges_by_length(takes), group[member]))]
    return member[row_numbers(group[member]) < free[group[member]]]
