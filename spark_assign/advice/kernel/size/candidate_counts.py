"""Which numbers of members are looked at, and what is read from them."""

from __future__ import annotations

import numpy as np

from spark_assign.numeric.array_types import BoolArray, FloatArray, IntArray

AT_ONCE = 50
"""So many numbers of members are looked at, before the gap around the answer is filled."""

MOST = 5_000
"""No group is looked at with more members than so many, unless it has more today."""

SAME = 0.05
"""The most loaded member has as good as the least that is possible if it has no more than this share above it."""


def numbers_to_try(now: int, partitions: int, enough: float, of_use: float) -> IntArray:
    """The numbers of members to begin with, ascending: all of them where those are few, else evenly spread by ratio.

    Args:
        now: how many there are.
        partitions: that the group subscribes to; with more members some have nothing.
        enough: how many could do it if load were spread evenly; `NaN`: not known.
        of_use: with how many the most loaded member has one partition only, if load were spread evenly.
    """
    known = [bound for bound in (now, enough, of_use) if np.isfinite(bound)]
    last = int(min(max(partitions, 1), max(2 * max(known), 8), max(MOST, now)))
    if last <= AT_ONCE:
        return np.arange(1, max(last, now) + 1)
    spread = np.geomspace(1, last, AT_ONCE - 10).round().astype(np.int64)
    near = [now + step for step in (-1, 0, 1)]
    if np.isfinite(enough):
        near += [int(np.ceil(enough)) + step for step in range(6)]
    fine = [each for each in near if 1 <= each <= max(last, now)]
    return np.unique(np.append(spread, fine)).astype(np.int64)


def between(tried: IntArray, fits: BoolArray) -> IntArray:
    """Numbers that were not tried between the first that fits and the one before it that does not."""
    if not fits.any():
        return np.empty(0, np.int64)
    first = int(np.argmax(fits))
    below = int(tried[first - 1]) if first else 0
    gap = np.arange(below + 1, int(tried[first]))
    return gap if len(gap) <= AT_ONCE else np.unique(np.linspace(gap[0], gap[-1], AT_ONCE).astype(np.int64))


def knee(members: IntArray, most: FloatArray) -> int:
    """Where the curve of the most loaded member bends: its point farthest below the line between its ends."""
    if len(members) < 3 or most[0] <= most[-1]:
        return int(members[0])
    across = (members - members[0]) / (members[-1] - members[0])
    down = (most - most[-1]) / (most[0] - most[-1])
    return int(members[np.argmax(1 - across - down)])


def of_no_more_use(members: IntArray, most: FloatArray) -> int:
    """The smallest number with which the most loaded member has as good as the least that any number gives it."""
    return int(members[np.argmax(most <= most.min() * (1 + SAME))])
