"""Packs partitions so that no member exceeds its bound and as little load as possible moves (steps 2 and 3).

Steps
    1. Release: an overloaded member gives up the least load that is at least its excess (`min_cover`). A partition
       above the bound by itself stays, and all others of its member go.
    2. Place: unassigned partitions, the largest first, go to the member with the most room.
    3. Make room: a partition that fits nowhere replaces a smaller one that fits elsewhere. If there is none, the
       cheapest set of smaller ones goes, and is placed in turn.
    4. Return: partitions that left their owner, and would fit there in the end, go back, if necessary in exchange for
       one that came.

Example: the bound is 10. Partitions are named by their load. C0 has 1 too much and releases 5, which fits nowhere; at
C1 it replaces 3, for which C0 has room.

    owned     C0: [6, 5]    C1: [5, 3]    C2: [9]
    target    C0: [6, 3]    C1: [5, 5]    C2: [9]

Ties: the first partition, the first member. Repeated searches are bounded (`_MAX_EXAMINED`).

`min_cover` finds the least sum of loads that is at least the excess, with as few partitions as possible. For few
partitions it tries all subsets; for many, it takes the largest ones that don't exceed the remaining excess, and one
that
covers the rest: among many partitions, there is always one of about the right size. Example: with loads 9, 5, 4, 2 and
an excess of 6, it selects 4 and 2; 9 would be more, and 5 is too little.
"""

from __future__ import annotations

import itertools
from contextlib import suppress
from heapq import heapify, heappop, heappush, heapreplace

import numpy as np

from spark_assign.assignors.weighted.weighted_groups import NO_MEMBER, Packing
from spark_assign.numeric.arrays import BoolArray, FloatArray, IntArray, mask_from_indexes, values_by_key

_MAX_EXAMINED = 20_000_000
"""Maximum number of partitions to examine in order to make room for others, but at least 64 searches."""

_EMPTY = np.finfo(np.float64).max
"""The room of a member without partitions, which can take any partition."""

_MAX_CANDIDATES = 12
"""Maximum number of members for which the cost of making room is computed."""


def pack(packing: Packing, *, tight: bool = False) -> IntArray:
    """Returns the member of each partition. To check whether this holds all bounds, see `Packing.holds_bounds`.

    If `tight`, a partition goes where it fits best instead of where most room is, which leaves room for large
    partitions.
    """
    bins = Bins(packing)
    bins.release()
    bins.place(tight=tight)
    bins.make_room()
    bins.return_home()
    return bins.assigned_member


def return_home(packing: Packing, assigned: IntArray) -> IntArray:
    """Returns an assignment in which as much load as possible is back at its owner, given one that holds all bounds."""
    bins = Bins(packing, assigned)
    bins.return_home()
    return bins.assigned_member


class Bins:
    """The members while they are filled.

    Attributes:
        assigned_member: member of each partition, or `NO_MEMBER`.
        load: load of each member.
        num_assigned: number of partitions of each member.
    """

    def __init__(self, packing: Packing, assigned: IntArray | None = None) -> None:
        """Starts with the owners, or with `assigned`."""
        self.packing = packing
        self.assigned_member: IntArray = (packing.home if assigned is None else assigned).copy()
        self.load: FloatArray = packing.loads(self.assigned_member)
        self.num_assigned: IntArray = np.bincount(
            self.assigned_member[self.assigned_member >= 0], minlength=packing.num_members
        )
        self._waiting: list[int] = []
        self._searches_left = max(_MAX_EXAMINED // max(len(self.assigned_member), 1), 64)

    # --- Step 1: release ----------------------------------------------------------------------------------------------

    def release(self) -> None:
        """Removes partitions from overloaded members."""
        packing = self.packing
        is_overloaded = packing.is_overloaded(self.assigned_member)
        if not is_overloaded.any():
            return
        rows = np.flatnonzero(is_overloaded[self.assigned_member] & (self.assigned_member >= 0))
        rows = rows[np.argsort(self.assigned_member[rows], kind="stable")]
        for member_rows in np.split(rows, np.flatnonzero(np.diff(self.assigned_member[rows])) + 1):
            member = int(self.assigned_member[member_rows[0]])
            self._remove(
                member_rows[self._least(member_rows, member, float(self.load[member] - packing.limit[member]))]
            )

    def _least(self, rows: IntArray, member: int, excess: float) -> IntArray:
        """Returns the positions of the partitions that an overloaded member releases."""
        load = self.packing.load[rows]
        largest = int(load.argmax())
        if load[largest] > self.packing.limit[member]:
            return np.delete(np.arange(len(rows)), largest)
        return min_cover(load, excess)

    # --- Step 2: place ------------------------------------------------------------------------------------------------

    def place(self, *, tight: bool = False) -> None:
        """Assigns unassigned partitions to the members with the most room. Those that don't fit wait; if `tight`, all
        wait."""
        packing = self.packing
        self._empty_for_hot()
        unassigned = np.flatnonzero(self.assigned_member < 0)
        unassigned = unassigned[np.lexsort((unassigned, -packing.load[unassigned]))]
        if tight:
            self._waiting = unassigned.tolist()
            return
        loads, num_assigned, limit = self.load.tolist(), self.num_assigned.tolist(), packing.limit.tolist()
        heaps: dict[int, list[tuple[float, int]]] = {}
        placed: list[int] = []
        for load, set_index in zip(
            packing.load[unassigned].tolist(), packing.eligible_set[unassigned].tolist(), strict=True
        ):
            heap = heaps.get(set_index)
            if heap is None:
                heap = heaps[set_index] = [
                    (loads[member] - limit[member], member) for member in packing.eligible_sets[set_index].tolist()
                ]
                heapify(heap)
            excess, member = heap[0]
            # A member can be in the heaps of several eligible sets, so its entry can be outdated.
            while excess != loads[member] - limit[member]:
                heapreplace(heap, (loads[member] - limit[member], member))
                excess, member = heap[0]
            if excess + load <= 0 or not num_assigned[member]:
                loads[member] += load
                num_assigned[member] += 1
                heapreplace(heap, (loads[member] - limit[member], member))
                placed.append(member)
            else:
                placed.append(NO_MEMBER)
        self.assigned_member[unassigned] = placed
        self.load, self.num_assigned = np.array(loads), np.array(num_assigned)
        self._waiting = unassigned[self.assigned_member[unassigned] < 0].tolist()

    def _empty_for_hot(self) -> None:
        """Clears a member, that with the least load to lose, for each unassigned partition above any bound."""
        packing = self.packing
        is_hot = packing.load > packing.limit.max(initial=0)
        for partition in np.flatnonzero(is_hot & (self.assigned_member < 0)).tolist():
            eligible = packing.eligible_sets[packing.eligible_set[partition]]
            num_hot = np.bincount(
                self.assigned_member[is_hot & (self.assigned_member >= 0)], minlength=packing.num_members
            )
            eligible = eligible[num_hot[eligible] == 0]
            if len(eligible):
                member = int(eligible[np.argmin(self.load[eligible])])
                self._remove(np.flatnonzero(self.assigned_member == member))
                self._put(partition, member)

    # --- Step 3: make room --------------------------------------------------------------------------------------------

    def make_room(self) -> None:
        """Places the waiting partitions, the largest first."""
        # Partitions with few eligible members come first, because they are harder to place later.
        choices = [len(members) for members in self.packing.eligible_sets]
        order = [choices[set_index] for set_index in self.packing.eligible_set.tolist()]
        waiting = [(order[partition], -float(self.packing.load[partition]), partition) for partition in self._waiting]
        heapify(waiting)
        while waiting:
            partition = heappop(waiting)[2]
            member = self._with_room(partition)
            if member == NO_MEMBER and self._searches_left > 0:
                self._searches_left -= 1
                member = self._by_exchange(partition)
                if member == NO_MEMBER:
                    member, leaving = self._cheapest_to_clear(partition)
                    self._remove(leaving)
                    for released in leaving.tolist():
                        heappush(waiting, (order[released], -float(self.packing.load[released]), released))
            if member == NO_MEMBER:
                eligible = self.packing.eligible_sets[self.packing.eligible_set[partition]]
                member = int(eligible[np.argmin(self.load[eligible] - self.packing.limit[eligible])])
            self._put(partition, member)
        self._waiting = []

    def _with_room(self, partition: int) -> int:
        """Returns the member where a partition fits: its owner, or where it fits best; `NO_MEMBER` if there is none."""
        packing, load = self.packing, float(self.packing.load[partition])
        home = int(packing.home[partition])
        eligible = packing.eligible_sets[packing.eligible_set[partition]]
        room = np.where(self.num_assigned[eligible] == 0, _EMPTY, packing.limit[eligible] - self.load[eligible] - load)
        if home >= 0 and (self.num_assigned[home] == 0 or self.load[home] + load <= packing.limit[home]):
            return home
        fits = room >= 0
        return int(eligible[np.argmin(np.where(fits, room, np.inf))]) if fits.any() else NO_MEMBER

    def _by_exchange(self, partition: int) -> int:
        """Returns the member where a partition fits after moving a smaller one to a third member, at the least cost.

        Moves the smaller one. Returns `NO_MEMBER` if there is none.
        """
        packing, load = self.packing, float(self.packing.load[partition])
        home = int(packing.home[partition])
        load_after = self.load[self.assigned_member] - packing.load + load
        fits = (self.assigned_member >= 0) & (load_after <= packing.limit[self.assigned_member])
        eligible = packing.eligible_sets[packing.eligible_set[partition]]
        fits &= mask_from_indexes(eligible, packing.num_members)[self.assigned_member]
        candidates = np.flatnonzero(fits)
        candidates = candidates[packing.load[candidates] <= self._room_elsewhere(candidates)]
        if not len(candidates):
            return NO_MEMBER
        cost = np.where(self.assigned_member[candidates] == packing.home[candidates], packing.load[candidates], 0.0)
        cost += np.where(self.assigned_member[candidates] == home, 0.0, load if home >= 0 else 0.0)
        leaving = int(candidates[np.argmin(cost)])
        member = int(self.assigned_member[leaving])
        self._remove(np.array([leaving]))
        self.load[member] += load
        self.num_assigned[member] += 1
        self._put(leaving, self._with_room(leaving))
        self.load[member] -= load
        self.num_assigned[member] -= 1
        return member

    def _room_elsewhere(self, partitions: IntArray) -> FloatArray:
        """Returns the most room that another member has, for each of these partitions."""
        packing, room = self.packing, np.where(self.num_assigned == 0, np.inf, self.packing.limit - self.load)
        most = np.full(len(partitions), -np.inf)
        for set_index in np.unique(packing.eligible_set[partitions]).tolist():
            eligible, is_in_set = packing.eligible_sets[set_index], packing.eligible_set[partitions] == set_index
            first = int(eligible[np.argmax(room[eligible])])
            other_room = room[eligible[eligible != first]]
            most[is_in_set] = np.where(
                self.assigned_member[partitions[is_in_set]] == first, other_room.max(initial=-np.inf), room[first]
            )
        return most

    def _cheapest_to_clear(self, partition: int) -> tuple[int, IntArray]:
        """Returns the member that can make room at the least cost, and the smaller partitions that must leave it."""
        packing, load = self.packing, float(self.packing.load[partition])
        home, eligible = int(packing.home[partition]), packing.eligible_sets[packing.eligible_set[partition]]
        candidates = eligible[np.lexsort((eligible, self.load[eligible] - packing.limit[eligible]))][
            :_MAX_CANDIDATES
        ].tolist()
        best: tuple[float, int, IntArray] = (np.inf, NO_MEMBER, np.empty(0, np.int64))
        for member in ([home] if home >= 0 and home not in candidates else []) + candidates:
            smaller = np.flatnonzero((self.assigned_member == member) & (packing.load < load))
            excess = float(self.load[member] + load - packing.limit[member])
            if packing.load[smaller].sum() < excess:
                continue
            leaving = smaller[min_cover(packing.load[smaller], excess)]
            cost = float(packing.load[leaving][packing.home[leaving] == member].sum())
            cost += load if home >= 0 and member != home else 0.0
            if cost < best[0]:
                best = cost, member, leaving
        return best[1], best[2]

    # --- Step 4: return -----------------------------------------------------------------------------------------------

    def return_home(self) -> None:
        """Moves partitions back to their owners, the largest first, until nothing more fits."""
        packing = self.packing
        has_moved = True
        while has_moved and self._searches_left > 0:
            has_moved = False
            away = np.flatnonzero((packing.home >= 0) & (self.assigned_member != packing.home))
            room = packing.limit - self.load
            away = away[packing.load[away] <= self._room_without_arrivals(room, away)[packing.home[away]]]
            for partition in away[np.lexsort((away, -packing.load[away]))].tolist():
                self._searches_left -= 1
                if self._searches_left > 0 and self.assigned_member[partition] != packing.home[partition]:
                    has_moved |= self._try_return(partition)

    def _room_without_arrivals(self, room: FloatArray, away: IntArray) -> FloatArray:
        """Returns the room that each member would have without the partitions that it doesn't own."""
        is_arrival = self.assigned_member != self.packing.home
        return room + np.bincount(
            self.assigned_member[is_arrival], self.packing.load[is_arrival], self.packing.num_members
        )

    def _try_return(self, partition: int) -> bool:
        """Moves a partition back to its owner, if necessary in exchange; returns whether that was possible."""
        packing, load = self.packing, float(self.packing.load[partition])
        home, current = int(packing.home[partition]), int(self.assigned_member[partition])
        if self.load[home] + load <= packing.limit[home]:
            self._remove(np.array([partition]))
            self._put(partition, home)
            return True
        arrivals = np.flatnonzero((self.assigned_member == home) & (packing.home != home))
        for arrival in arrivals[np.lexsort((arrivals, packing.load[arrivals]))].tolist():
            size = float(packing.load[arrival])
            if self.load[home] - size + load > packing.limit[home]:
                continue
            self._remove(np.array([partition, arrival]))
            self._put(partition, home)
            new_member = self._with_room(arrival)
            if new_member != NO_MEMBER:
                self._put(arrival, new_member)
                return True
            self._remove(np.array([partition]))
            self._put(partition, current)
            self._put(arrival, home)
        return False

    # --- Single partitions --------------------------------------------------------------------------------------------

    def _remove(self, partitions: IntArray) -> None:
        """Removes partitions from their members."""
        packing = self.packing
        self.load -= np.bincount(self.assigned_member[partitions], packing.load[partitions], packing.num_members)
        self.num_assigned -= np.bincount(self.assigned_member[partitions], minlength=packing.num_members)
        self.load[self.num_assigned == 0] = 0.0
        self.assigned_member[partitions] = NO_MEMBER

    def _put(self, partition: int, member: int) -> None:
        """Adds a partition to a member."""
        self.assigned_member[partition] = member
        self.load[member] += self.packing.load[partition]
        self.num_assigned[member] += 1


_MAX_EXHAUSTIVE = 12
"""Maximum number of partitions for which all 2 ** n sums are computed."""


def min_cover(load: FloatArray, excess: float) -> IntArray:
    """Returns the positions of the partitions to release, with loads of at least the excess; all if that is too
    little."""
    if float(load.sum()) <= excess:
        return np.arange(len(load))
    if len(load) <= _MAX_EXHAUSTIVE:
        return _min_cover_exact(load, excess)
    return _min_cover_greedy(load, excess)


def _min_cover_exact(load: FloatArray, excess: float) -> IntArray:
    """Tries all subsets."""
    sums, counts = np.zeros(1), np.zeros(1, np.int64)
    for size in load:
        sums, counts = np.append(sums, sums + size), np.append(counts, counts + 1)
    is_enough = np.flatnonzero(sums >= excess)
    best = int(is_enough[np.lexsort((is_enough, counts[is_enough], sums[is_enough]))[0]])
    return np.flatnonzero((best >> np.arange(len(load))) & 1)


def _min_cover_greedy(load: FloatArray, excess: float) -> IntArray:
    """Takes the largest partitions that don't exceed the remaining excess, and one that covers the rest."""
    order = np.lexsort((-np.arange(len(load)), load))
    ascending = load[order]
    below = np.append(0.0, np.cumsum(ascending))
    is_selected = np.zeros(len(ascending), bool)
    remaining, end = excess, len(ascending)
    while remaining > 0:
        end = min(end, int(np.searchsorted(ascending, remaining, "right")))
        if not end:
            break
        # As many as the excess allows, from the largest one that isn't too large.
        start = max(int(np.searchsorted(below, below[end] - remaining, "left")), 0)
        start = min(start, end - 1)
        is_selected[start:end] = True
        remaining -= float(ascending[start:end].sum())
        end = start
    if remaining > 0:
        candidates = np.flatnonzero(~is_selected & (ascending >= remaining))
        is_selected[candidates[0] if len(candidates) else np.flatnonzero(~is_selected)[-1]] = True
    single = int(np.searchsorted(ascending, excess, "left"))
    if single < len(ascending) and ascending[single] < ascending[is_selected].sum():
        is_selected = np.arange(len(ascending)) == single
    return np.sort(order[_drop_unneeded(is_selected, ascending, excess)])


def _drop_unneeded(is_selected: BoolArray, ascending: FloatArray, excess: float) -> BoolArray:
    """Removes partitions, the largest first, that weren't needed in the end."""
    surplus = float(ascending[is_selected].sum()) - excess
    for position in np.flatnonzero(is_selected)[::-1].tolist():
        if ascending[position] <= surplus:
            is_selected[position] = False
            surplus -= float(ascending[position])
        elif surplus < ascending[0]:
            break
    return is_selected


# --- finds the best assignment of few partitions by branch and bound ------------------------------------------
#
# The largest partitions come first; each is tried with its owner, then with the members with the most room. Two members
# are equivalent if they have the same load and bound, are eligible for the same partitions, and no later partition
# belongs to either. A branch that moves more load than the best assignment so far is cut.
#
# `min_bound` finds the lowest bound that an assignment can hold, `min_moved` the assignment within the bounds that
# moves the least load.


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
        self.eligible_set = packing.eligible_set[self.order].tolist()
        self.limit = packing.limit.tolist()
        self.eligibility = [tuple(row) for row in packing.is_eligible.T.tolist()]
        # Position of the last partition that each member owns.
        self.last = [-1] * packing.num_members
        for position, member in enumerate(self.home):
            if member >= 0:
                self.last[member] = position
        # For each set, its owners, and its other members by what makes them equivalent while they have no partitions.
        self.owners = [[each for each in set_.tolist() if self.last[each] >= 0] for set_ in packing.eligible_sets]
        others = [((self.limit[each], row), each) for each, row in enumerate(self.eligibility) if self.last[each] < 0]
        alike = values_by_key(others).items()
        self.alike = [[found for (_, row), found in alike if row[index]] for index in range(len(self.owners))]
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
        home, index, members, seen = self.home[position], self.eligible_set[position], [], set()
        candidates = {
            *self.owners[index],
            *(each for each in self.assigned[:position] if self.eligibility[each][index]),
        }
        for alike in self.alike[index]:  # of equivalent members without partitions, the first
            candidates.update(itertools.islice((each for each in alike if not self.num_assigned[each]), 1))
        for member in sorted(candidates, key=lambda each: (each != home, self.load[each] - self.limit[each], each)):
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
