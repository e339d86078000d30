"""Arithmetic on the numbers of partitions of members: fill levels and balance."""

from __future__ import annotations

import numpy as np

from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.segmented_arrays import ranges_by_length, row_numbers


def find_level(sizes: IntArray, number: int) -> int:
    """Returns the lowest level up to which `number` more partitions can raise members with these sizes."""
    ordered = np.sort(sizes)
    num_members = np.arange(1, len(ordered) + 1)
    room_below = num_members * ordered - np.cumsum(ordered)
    lowest = int(np.searchsorted(room_below, number, side="left"))
    total = int(ordered[:lowest].sum())
    return -(-(number + total) // lowest)


def balance_score(sizes: IntArray) -> int:
    """Returns the sum of the differences of all pairs (`getBalanceScore`), in Java's 32 bits."""
    ordered = np.sort(sizes)
    number = len(ordered)
    total = int(((2 * np.arange(number) - number + 1) * ordered).sum())
    return (total + (1 << 31)) % (1 << 32) - (1 << 31)


def fill_up(group: IntArray, load: IntArray, name: IntArray, num_free: IntArray) -> IntArray:
    """Assigns partitions one by one, each to the member with the fewest partitions; ties are broken by name.

    Args:
        group: group of each member, ascending.
        load: number of partitions of each member.
        name: integer for each member that sorts like its id.
        num_free: number of partitions to assign in each group.

    Returns:
        the member of each partition, by group and turn.
    """
    # The lowest level at which the room of the members below it is enough.
    low = np.zeros(len(num_free), np.int64)
    high = np.zeros(len(num_free), np.int64)
    np.maximum.at(high, group, load)
    high += num_free
    while (low < high).any():
        middle = (low + high) >> 1
        room = np.bincount(group, np.maximum(middle[group] - load, 0), len(num_free))
        enough = room >= num_free
        high, low = np.where(enough, middle, high), np.where(enough, low, np.minimum(middle + 1, high))
    num_assigned = np.maximum(high[group] - load, 0)
    member = np.repeat(np.arange(len(load)), num_assigned)
    member = member[np.lexsort((name[member], load[member] + ranges_by_length(num_assigned), group[member]))]
    return member[row_numbers(group[member]) < num_free[group[member]]]
