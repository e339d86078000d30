"""What a member gives up that has too much: as little load as possible, of that as few partitions as possible.

Principle: the least sum of loads that is at least the excess. Of few partitions every choice is looked at; of many, the
largest ones that are not more than what is left of the excess, and one at the end that covers the rest: of many
partitions there is always one of about the right size.

Example: loads 9 5 4 2, and 6 too much: 4 and 2 go, for 9 would be more, and 5 is too little.
"""

from __future__ import annotations

import numpy as np

from spark_assign.numeric.array_types import BoolArray, FloatArray, IntArray

_EVERY_CHOICE = 12
"""Of so many partitions, 2 ** 12 sums."""


def least_to_give(load: FloatArray, excess: float) -> IntArray:
    """Places of the partitions to give up, with loads of at least the excess; all, where that is too little."""
    if float(load.sum()) <= excess:
        return np.arange(len(load))
    if len(load) <= _EVERY_CHOICE:
        return _of_few(load, excess)
    return _of_many(load, excess)


def _of_few(load: FloatArray, excess: float) -> IntArray:
    sums, number = np.zeros(1), np.zeros(1, np.int64)
    for each in load:
        sums, number = np.append(sums, sums + each), np.append(number, number + 1)
    enough = np.flatnonzero(sums >= excess)
    best = int(enough[np.lexsort((enough, number[enough], sums[enough]))[0]])
    return np.flatnonzero((best >> np.arange(len(load))) & 1)


def _of_many(load: FloatArray, excess: float) -> IntArray:
    order = np.lexsort((-np.arange(len(load)), load))
    up = load[order]
    below = np.append(0.0, np.cumsum(up))
    given = np.zeros(len(up), bool)
    rest, end = excess, len(up)
    while rest > 0:
        end = min(end, int(np.searchsorted(up, rest, "right")))
        if not end:
            break
        # As many as there is excess for, from the largest that is not too large.
        begin = max(int(np.searchsorted(below, below[end] - rest, "left")), 0)
        begin = min(begin, end - 1)
        given[begin:end] = True
        rest -= float(up[begin:end].sum())
        end = begin
    if rest > 0:
        open_ = np.flatnonzero(~given & (up >= rest))
        given[open_[0] if len(open_) else np.flatnonzero(~given)[-1]] = True
    alone = int(np.searchsorted(up, excess, "left"))
    if alone < len(up) and up[alone] < up[given].sum():
        given = np.arange(len(up)) == alone
    return np.sort(order[_needed(given, up, excess)])


def _needed(given: BoolArray, up: FloatArray, excess: float) -> BoolArray:
    """Without those, the largest first, that were not needed in the end."""
    spare = float(up[given].sum()) - excess
    for place in np.flatnonzero(given)[::-1].tolist():
        if up[place] <= spare:
            given[place] = False
            spare -= float(up[place])
        elif spare < up[0]:
            break
    return given
