"""Weighted-sticky where the number of members is open, too: the fewest that can handle the load, and little moved.

Steps
    1. How few: the largest partitions first, each to the fullest member that still takes it (best fit decreasing).
    2. How many of those there are now stay: as many as in 1, or up to `spare` times as many more. Members with least
       load are closed, empty ones are added.
    3. `settle` with these, and, where that does not hold the capacity, once more, tight. Else one more; where that
       would be too many, the packing of step 1, its members named so that much load stays.

`spare` is what is paid for peace: with 0 the last member is closed as soon as that is possible, and many partitions of
a tight packing move; with 0.1 members are closed only where there are a tenth more than needed.
"""

from __future__ import annotations

from math import ceil

import numpy as np

from spark_assign.assignors.weighted.assign_weighted import relabel_members
from spark_assign.assignors.weighted.pack import pack
from spark_assign.assignors.weighted.weighted_groups import NO_MEMBER, Packing
from spark_assign.numeric.arrays import FloatArray, IntArray


def fewest_members(load: FloatArray, home: IntArray, capacity: float, spare: float = 0.0) -> IntArray:
    """Of each partition its next member; those that are new have the lowest numbers that are free.

    Args:
        load: of each partition, above zero.
        home: of each its member, -1 for nobody.
        capacity: what a member can handle. One partition that is more has a member for itself.
        spare: how many more members than needed may be kept, as a share of these.
    """
    found = fullest_first(load, capacity)
    needed = int(found.max(initial=-1)) + 1
    most = ceil(needed * (1 + spare))
    living = np.unique(home[home >= 0])
    number = min(max(len(living), needed), most)
    while True:
        names, packing = _with_members(load, home, living, number, capacity)
        for tight in (False, True):
            at = pack(packing, tight=tight) if len(living) else found
            if packing.holds_bounds(at):
                return names[at]
        if number >= most:
            names, packing = _with_members(load, home, living, needed, capacity)
            return names[relabel_members(packing, found)]
        number += 1


def _with_members(
    load: FloatArray, home: IntArray, living: IntArray, number: int, capacity: float
) -> tuple[IntArray, Packing]:
    """So many members: those that have most, or all and new ones; and the names of all."""
    has = np.bincount(home[home >= 0], load[home >= 0], int(living.max(initial=-1)) + 1)[living]
    stay = np.sort(living[np.lexsort((living, -has))[:number]])
    free = np.setdiff1d(np.arange(number + len(living)), living)[: number - len(stay)]
    names = np.append(stay, free).astype(np.int64)
    place = np.full(int(max(names.max(initial=-1), living.max(initial=-1))) + 1, NO_MEMBER)
    place[names] = np.arange(number)
    own = np.where(home >= 0, place[np.maximum(home, 0)], NO_MEMBER)
    kind = np.zeros(len(load), np.int64)
    return names, Packing(load, own, kind, [np.arange(number)], np.full(number, capacity))


def fullest_first(load: FloatArray, capacity: float) -> IntArray:
    """Best fit decreasing: of each partition its member, numbered as they are needed."""
    at = np.empty(len(load), np.int64)
    room, members = np.empty(len(load)), 0
    for partition in np.lexsort((np.arange(len(load)), -load)).tolist():
        left = room[:members] - load[partition]
        fits = left >= -1e-9 * capacity
        member = int(np.argmin(np.where(fits, left, np.inf))) if fits.any() else members
        if member == members:
            room[members] = capacity
            members += 1
        at[partition] = member
        room[member] -= load[partition]
    return at
