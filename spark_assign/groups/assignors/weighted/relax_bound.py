"""The least bound that can be held where the one asked for cannot: it hangs on loads and subscriptions, not on owners.

So that it is the same the next time, and what holds it stays where it is. Few partitions are looked at exactly
(`exact`); of many, the largest first each go to the member with least (LPT, which is never more than 4/3 - 1/(3n) of
the least possible where all may have all); where that is more than the bound, a bound between is tried ten times, each
partition to the fullest member that still takes it (MULTIFIT).
"""

from __future__ import annotations

import numpy as np

from spark_assign.groups.assignors.weighted.branch_and_bound import FEW, least_bound
from spark_assign.groups.assignors.weighted.pack import Bins
from spark_assign.groups.assignors.weighted.packing import NO_MEMBER, Packing
from spark_assign.numeric.array_types import FloatArray, IntArray

_TRIES = 10
_MANY = 5_000
"""More partitions than that are not tried once more."""


def relax(packing: Packing) -> tuple[Packing, IntArray]:
    """The packing with the least bounds found that can be held, and an assignment that does."""
    scratch = Packing(packing.load, np.full(len(packing.load), NO_MEMBER), packing.kind, packing.may, packing.bound)
    found = _largest_first(scratch)
    least = _held_by(packing, found)
    if len(packing.load) <= FEW:
        exact = least_bound(scratch, least)
        least = least if exact is None else exact
    elif len(packing.load) <= _MANY:
        low = max(float(packing.bound.min()), float(packing.load.sum()) / packing.members)
        for _ in range(_TRIES):
            between = (low + least) / 2
            tried = _fullest_first(scratch.with_bound(np.maximum(packing.bound, between)))
            if tried is None:
                low = between
            else:
                least, found = min(least, _held_by(packing, tried)), tried
    return packing.with_bound(np.maximum(packing.bound, least)), found


def _held_by(packing: Packing, at: IntArray) -> float:
    """The most that a member has that is not to have so much."""
    return float(packing.loads(at)[packing.too_much(at)].max(initial=0.0))


def _largest_first(packing: Packing) -> IntArray:
    bins = Bins(packing.with_bound(np.full(packing.members, 1 + 2 * packing.load.sum())))
    bins.place()
    return bins.at


def _fullest_first(packing: Packing) -> IntArray | None:
    load, number = np.zeros(packing.members), np.zeros(packing.members, np.int64)
    at = np.full(len(packing.load), NO_MEMBER)
    for partition in np.lexsort((np.arange(len(at)), -packing.load)).tolist():
        size, may = float(packing.load[partition]), packing.may[packing.kind[partition]]
        room: FloatArray = np.where(number[may] == 0, packing.bound.max(), packing.limit[may] - load[may] - size)
        if room.max() < 0:
            return None
        member = int(may[np.argmin(np.where(room >= 0, room, np.inf))])
        at[partition] = member
        load[member] += size
        number[member] += 1
    return at
