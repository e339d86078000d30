"""Arithmetic on the numbers of partitions that members have: how far they are filled, and how even they are."""

from __future__ import annotations

import numpy as np

from spark_assign.kernels.arrays import Ints


def level_of(sizes: Ints, number: int) -> int:
    """The least level up to which vessels filled to `sizes` take `number` more."""
    ordered = np.sort(sizes)
    each = np.arange(1, len(ordered) + 1)
    room_below = each * ordered - np.cumsum(ordered)
    lowest = int(np.searchsorted(room_below, number, side="left"))
    filled = int(ordered[:lowest].sum())
    return -(-(number + filled) // lowest)


def unevenness(sizes: Ints) -> int:
    """The sum of differences of all pairs (`getBalanceScore`), in Java's 32 bits."""
    ordered = np.sort(sizes)
    number = len(ordered)
    total = int(((2 * np.arange(number) - number + 1) * ordered).sum())
    return (total + (1 << 31)) % (1 << 32) - (1 << 31)
