"""Finds the best assignment of few partitions by branch and bound.

The largest partitions come first; each is tried with its owner, then with the members with the most room. Two members
are equivalent if they have the same load and bound, are eligible for the same partitions, and no later partition
belongs to either. A branch that moves more load than the best assignment so far is cut.

`min_bound` finds the lowest bound that an assignment can hold, `min_moved` the assignment within the bounds that moves
the least load.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from spark_assign.groups.assignors.weighted.weighted_groups import Packing
from spark_assign.numeric.array_types import IntArray

MAX_EXACT = 14
"""Maximum number of partitions; `MAX_SEARCHED` if no assignment was found that holds all bounds."""

MAX_SEARCHED = 40

_MAX_STEPS = 20_000
"""Maximum number of steps of a search."""


class _OutOfStepsError(Exception):
    """The search took too many steps."""


def min_moved(packing: Packing) -> IntArray | None:
    """Returns the member of each partition, with the least load moved within all bounds; None if none was found in
    time."""
    search = _Search(packing)
    with suppress(_OutOfStepsError):
        search.move(0, 0.0)
    return search.best


def min_bound(packing: Packing, known: float = float("inf")) -> float | None:
    """Returns the lowest load that can replace the bounds below it; None if it wasn't found in time.

    Args:
        packing: a packing without owners.
        known: a load that can be held.
    """
    search = _Search(packing)
    search.highest = known
    try:
        search.fill(0, 0.0)
    except _OutOfStepsError:
        return None
    return search.highest


class _Search:
    """The state of a search. Partitions are sorted by load, descending; `position` refers to this order."""

    def __init__(self, packing: Packing) -> None:
        self.order = np.lexsort((np.arange(len(packing.load)), -packing.load)).tolist()
        self.size = packing.load[self.order].tolist()
        self.home = packing.home[self.order].tolist()
        self.eligible = [
            packing.eligible_sets[set_index].tolist() for set_index in packing.eligible_set[self.order].tolist()
        ]
        self.limit = packing.limit.tolist()
        self.eligibility = [tuple(row) for row in packing.is_eligible.T.tolist()]
        # Position of the last partition that each member owns.
        self.last = [-1] * packing.num_members
        for position, member in enumerate(self.home):
            if member >= 0:
                self.last[member] = position
        self.load, self.num_assigned = [0.0] * packing.num_members, [0] * packing.num_members
        self.assigned = [0] * len(self.order)
        self.best: IntArray | None = None
        self.moved = self.highest = float("inf")
        self.steps = _MAX_STEPS

    def choices(self, position: int) -> list[int]:
        """Returns the members to try, in order."""
        self.steps -= 1
        if self.steps < 0:
            raise _OutOfStepsError
        home, members, seen = self.home[position], [], set()
        over = [load - limit for load, limit in zip(self.load, self.limit, strict=True)]
        for member in sorted(
            self.eligible[position], key=lambda candidate: (candidate != home, over[candidate], candidate)
        ):
            key = (self.load[member], self.limit[member], self.eligibility[member])
            if self.last[member] < position:
                if key in seen:
                    continue
                seen.add(key)
            members.append(member)
        return members

    def put(self, position: int, member: int, sign: int) -> None:
        """Adds a partition to a member (sign 1), or removes it (sign -1)."""
        self.load[member] = self.load[member] + sign * self.size[position] if self.num_assigned[member] + sign else 0.0
        self.num_assigned[member] += sign
        self.assigned[position] = member

    def move(self, position: int, moved: float) -> None:
        """Assigns the partitions from this position on; `moved` is the load moved so far."""
        if moved >= self.moved * (1 - 1e-12):
            return
        if position == len(self.order):
            self.moved = moved
            self.best = np.empty(position, np.int64)
            self.best[self.order] = self.assigned
            return
        size, home = self.size[position], self.home[position]
        for member in self.choices(position):
            before = self.load[member]
            if self.num_assigned[member] and before + size > self.limit[member]:
                continue
            self.put(position, member, 1)
            self.move(position + 1, moved + (size if 0 <= home != member else 0.0))
            self.put(position, member, -1)
            self.load[member] = before

    def fill(self, position: int, highest: float) -> None:
        """Assigns the partitions from this position on; `highest` is the highest load above a bound so far."""
        if highest >= self.highest * (1 - 1e-12):
            return
        if position == len(self.order):
            self.highest = highest
            return
        size = self.size[position]
        for member in self.choices(position):
            before = self.load[member]
            over = before + size if self.num_assigned[member] and before + size > self.limit[member] else 0.0
            self.put(position, member, 1)
            self.fill(position + 1, max(highest, over))
            self.put(position, member, -1)
            self.load[member] = before
            if self.highest <= 0.0:
                return
