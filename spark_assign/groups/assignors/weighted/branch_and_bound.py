"""The best answer there is, for few partitions: every assignment is looked at that could be better.

The largest partitions first; each at home first, then with who has most room. Two members are as good as one where they
have as much room, may have the same, and what is still to come belongs to neither. What already moves more than the
best answer so far is not looked at any further.

Two questions: the least bound that an assignment can hold (`min_bound`), and of those that hold the bounds the one
that moves least load (`min_moved`).
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from spark_assign.groups.assignors.weighted.weighted_groups import Packing
from spark_assign.numeric.array_types import IntArray

MAX_EXACT = 14
"""So many partitions are looked at in this way; up to 40 where no answer was found that holds all bounds."""

MAX_SEARCHED = 40

_MAX_STEPS = 20_000
"""After so many steps the search is given up."""


class _OutOfStepsError(Exception):
    pass


def min_moved(packing: Packing) -> IntArray | None:
    """Of each partition its member, all bounds held and as little load moved as was found; null: there is no answer, or
    none was found in time."""
    search = _Search(packing)
    with suppress(_OutOfStepsError):
        search.move(0, 0.0)
    return search.best


def min_bound(packing: Packing, known: float = float("inf")) -> float | None:
    """The least number that, as a bound of those whose own one is less, can be held; null: not found in time.

    Args:
        packing: of which nobody has anything.
        known: a number that can be held.
    """
    search = _Search(packing)
    search.most = known
    try:
        search.fill(0, 0.0)
    except _OutOfStepsError:
        return None
    return search.most


class _Search:
    def __init__(self, packing: Packing) -> None:
        self.order = np.lexsort((np.arange(len(packing.load)), -packing.load)).tolist()
        self.size = packing.load[self.order].tolist()
        self.home = packing.home[self.order].tolist()
        self.may = [packing.eligible_sets[kind].tolist() for kind in packing.eligible_set[self.order].tolist()]
        self.limit = packing.limit.tolist()
        self.alike = [tuple(each) for each in packing.is_eligible.T.tolist()]
        # After which partition, in order, nothing more of what a member owns comes.
        self.last = [-1] * packing.num_members
        for place, member in enumerate(self.home):
            if member >= 0:
                self.last[member] = place
        self.load, self.number = [0.0] * packing.num_members, [0] * packing.num_members
        self.at = [0] * len(self.order)
        self.best: IntArray | None = None
        self.moved = self.most = float("inf")
        self.steps = _MAX_STEPS

    def choices(self, place: int) -> list[int]:
        """The members to try, in order."""
        self.steps -= 1
        if self.steps < 0:
            raise _OutOfStepsError
        home, found, seen = self.home[place], [], set()
        over = [load - limit for load, limit in zip(self.load, self.limit, strict=True)]
        for member in sorted(self.may[place], key=lambda each: (each != home, over[each], each)):
            key = (self.load[member], self.limit[member], self.alike[member])
            if self.last[member] < place:
                if key in seen:
                    continue
                seen.add(key)
            found.append(member)
        return found

    def put(self, place: int, member: int, sign: int) -> None:
        """There, or away from there."""
        self.load[member] = self.load[member] + sign * self.size[place] if self.number[member] + sign else 0.0
        self.number[member] += sign
        self.at[place] = member

    def move(self, place: int, moved: float) -> None:
        """The rest from this partition on; so much has moved."""
        if moved >= self.moved * (1 - 1e-12):
            return
        if place == len(self.order):
            self.moved = moved
            self.best = np.empty(place, np.int64)
            self.best[self.order] = self.at
            return
        size, home = self.size[place], self.home[place]
        for member in self.choices(place):
            before = self.load[member]
            if self.number[member] and before + size > self.limit[member]:
                continue
            self.put(place, member, 1)
            self.move(place + 1, moved + (size if 0 <= home != member else 0.0))
            self.put(place, member, -1)
            self.load[member] = before

    def fill(self, place: int, most: float) -> None:
        """The rest from this partition on; nobody with two partitions or more has more than that, where it may not."""
        if most >= self.most * (1 - 1e-12):
            return
        if place == len(self.order):
            self.most = most
            return
        size = self.size[place]
        for member in self.choices(place):
            before = self.load[member]
            over = before + size if self.number[member] and before + size > self.limit[member] else 0.0
            self.put(place, member, 1)
            self.fill(place + 1, max(most, over))
            self.put(place, member, -1)
            self.load[member] = before
            if self.most <= 0.0:
                return
