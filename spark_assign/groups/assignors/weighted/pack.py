"""Everybody below its bound, with as little load moved as possible: the steps of weighted-sticky for one packing.

Steps
    1. Give up: who has too much gives up the least load that is at least its excess (`give_up`). A partition that is
       more than the bound by itself stays, and all others of its member go.
    2. Place: what nobody has, the largest first, goes to the member with most room.
    3. Make room: what fits nowhere takes the place of a smaller one that fits somewhere else. Where no single one does,
       the cheapest set of smaller ones goes, and looks for a place in its turn.
    4. Return: what has left its owner, and would fit there in the end, goes back, in the place of one that came if need
       be.

Example: bound 10. a has 6 5, b has 5 3, c has 9. a has 1 too much and gives up 5, which fits nowhere; with b it takes
the place of 3, for which there is room with a.

Ties: the first partition, the first member. What is looked at again and again is bounded (`_MAX_EXAMINED`).


What a member gives up that has too much: as little load as possible, of that as few partitions as possible.

Principle: the least sum of loads that is at least the excess. Of few partitions every choice is looked at; of many, the
largest ones that are not more than what is left of the excess, and one at the end that covers the rest: of many
partitions there is always one of about the right size.

Example: loads 9 5 4 2, and 6 too much: 4 and 2 go, for 9 would be more, and 5 is too little.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace

import numpy as np

from spark_assign.groups.assignors.weighted.weighted_groups import NO_MEMBER, Packing
from spark_assign.numeric.array_types import BoolArray, FloatArray, IntArray

_MAX_EXAMINED = 20_000_000
"""So many partitions may be looked at to make room for others, at 64 at least."""

_EMPTY = np.finfo(np.float64).max
"""The room of a member that has nothing, which takes any partition."""

_MAX_CANDIDATES = 12
"""So many members are asked what it would cost them to make room."""


def pack(packing: Packing, *, tight: bool = False) -> IntArray:
    """Of each partition the member that gets it; whether that holds all bounds, `packing.holds` says.

    Where it is `tight`, partitions go where they fit best and not where most room is: that leaves room for large ones.
    """
    bins = Bins(packing)
    bins.release()
    bins.place(tight=tight)
    bins.make_room()
    bins.return_home()
    return bins.assigned_member


def return_home(packing: Packing, at: IntArray) -> IntArray:
    """From an assignment that holds all bounds, whoever had what: as much as possible returns to its owner."""
    bins = Bins(packing, at)
    bins.return_home()
    return bins.assigned_member


class Bins:
    """Members as they are filled: who has what (`assigned_member`), and of each member the load and the number of
    partitions."""

    def __init__(self, packing: Packing, at: IntArray | None = None) -> None:
        """Everything at home, or where it is."""
        self.packing = packing
        self.assigned_member: IntArray = (packing.home if at is None else at).copy()
        self.load: FloatArray = packing.loads(self.assigned_member)
        self.num_assigned: IntArray = np.bincount(
            self.assigned_member[self.assigned_member >= 0], minlength=packing.num_members
        )
        self._waiting: list[int] = []
        self._looks = max(_MAX_EXAMINED // max(len(self.assigned_member), 1), 64)

    # --- give up ------------------------------------------------------------------------------------------------------

    def release(self) -> None:
        """Members that have too much."""
        packing = self.packing
        much = packing.is_overloaded(self.assigned_member)
        if not much.any():
            return
        mine = np.flatnonzero(much[self.assigned_member] & (self.assigned_member >= 0))
        mine = mine[np.argsort(self.assigned_member[mine], kind="stable")]
        for some in np.split(mine, np.flatnonzero(np.diff(self.assigned_member[mine])) + 1):
            member = int(self.assigned_member[some[0]])
            self._take(some[self._least(some, member, float(self.load[member] - packing.limit[member]))])

    def _least(self, some: IntArray, member: int, excess: float) -> IntArray:
        load = self.packing.load[some]
        largest = int(load.argmax())
        if load[largest] > self.packing.limit[member]:
            return np.delete(np.arange(len(some)), largest)
        return min_cover(load, excess)

    # --- place --------------------------------------------------------------------------------------------------------

    def place(self, *, tight: bool = False) -> None:
        """What nobody has, with whom most room is; what fits nowhere waits, or, where it is tight, all."""
        packing = self.packing
        self._empty_for_hot()
        free = np.flatnonzero(self.assigned_member < 0)
        free = free[np.lexsort((free, -packing.load[free]))]
        if tight:
            self._waiting = free.tolist()
            return
        taken, number, limit = self.load.tolist(), self.num_assigned.tolist(), packing.limit.tolist()
        heaps: dict[int, list[tuple[float, int]]] = {}
        put: list[int] = []
        for load, kind in zip(packing.load[free].tolist(), packing.eligible_set[free].tolist(), strict=True):
            heap = heaps.get(kind)
            if heap is None:
                heap = heaps[kind] = [
                    (taken[member] - limit[member], member) for member in packing.eligible_sets[kind].tolist()
                ]
                heapify(heap)
            over, member = heap[0]
            # Members are in the heaps of several kinds: what they got by another one is seen here.
            while over != taken[member] - limit[member]:
                heapreplace(heap, (taken[member] - limit[member], member))
                over, member = heap[0]
            if over + load <= 0 or not number[member]:
                taken[member] += load
                number[member] += 1
                heapreplace(heap, (taken[member] - limit[member], member))
                put.append(member)
            else:
                put.append(NO_MEMBER)
        self.assigned_member[free] = put
        self.load, self.num_assigned = np.array(taken), np.array(number)
        self._waiting = free[self.assigned_member[free] < 0].tolist()

    def _empty_for_hot(self) -> None:
        """A partition that is more than any bound needs a member that has nothing else: that with the least to lose."""
        packing = self.packing
        hot = packing.load > packing.limit.max(initial=0)
        for partition in np.flatnonzero(hot & (self.assigned_member < 0)).tolist():
            may = packing.eligible_sets[packing.eligible_set[partition]]
            taken = np.bincount(self.assigned_member[hot & (self.assigned_member >= 0)], minlength=packing.num_members)
            may = may[taken[may] == 0]
            if len(may):
                member = int(may[np.argmin(self.load[may])])
                self._take(np.flatnonzero(self.assigned_member == member))
                self._put(partition, member)

    # --- make room ----------------------------------------------------------------------------------------------------

    def make_room(self) -> None:
        """What waits, the largest first."""
        # Whom few may have is not easily served later.
        choices = [len(some) for some in self.packing.eligible_sets]
        order = [choices[kind] for kind in self.packing.eligible_set.tolist()]
        waiting = [(order[partition], -float(self.packing.load[partition]), partition) for partition in self._waiting]
        heapify(waiting)
        while waiting:
            partition = heappop(waiting)[2]
            member = self._with_room(partition)
            if member == NO_MEMBER and self._looks > 0:
                self._looks -= 1
                member = self._by_exchange(partition)
                if member == NO_MEMBER:
                    member, leave = self._cheapest_to_clear(partition)
                    self._take(leave)
                    for each in leave.tolist():
                        heappush(waiting, (order[each], -float(self.packing.load[each]), each))
            if member == NO_MEMBER:
                may = self.packing.eligible_sets[self.packing.eligible_set[partition]]
                member = int(may[np.argmin(self.load[may] - self.packing.limit[may])])
            self._put(partition, member)
        self._waiting = []

    def _with_room(self, partition: int) -> int:
        """Where a partition fits: at home, or where it fits best."""
        packing, load = self.packing, float(self.packing.load[partition])
        home = int(packing.home[partition])
        may = packing.eligible_sets[packing.eligible_set[partition]]
        room = np.where(self.num_assigned[may] == 0, _EMPTY, packing.limit[may] - self.load[may] - load)
        if home >= 0 and (self.num_assigned[home] == 0 or self.load[home] + load <= packing.limit[home]):
            return home
        fits = room >= 0
        return int(may[np.argmin(np.where(fits, room, np.inf))]) if fits.any() else NO_MEMBER

    def _by_exchange(self, partition: int) -> int:
        """Where it fits once a smaller one has gone to a third member, which is done here; the cheapest such place."""
        packing, load = self.packing, float(self.packing.load[partition])
        home = int(packing.home[partition])
        after = self.load[self.assigned_member] - packing.load + load
        fits = (self.assigned_member >= 0) & (after <= packing.limit[self.assigned_member])
        fits &= packing.is_eligible[packing.eligible_set[partition]][self.assigned_member]
        some = np.flatnonzero(fits)
        some = some[packing.load[some] <= self._room_elsewhere(some)]
        if not len(some):
            return NO_MEMBER
        cost = np.where(self.assigned_member[some] == packing.home[some], packing.load[some], 0.0)
        cost += np.where(self.assigned_member[some] == home, 0.0, load if home >= 0 else 0.0)
        leaves = int(some[np.argmin(cost)])
        member = int(self.assigned_member[leaves])
        self._take(np.array([leaves]))
        self.load[member] += load
        self.num_assigned[member] += 1
        self._put(leaves, self._with_room(leaves))
        self.load[member] -= load
        self.num_assigned[member] -= 1
        return member

    def _room_elsewhere(self, some: IntArray) -> FloatArray:
        """Of each of these partitions the most room that another member has for it."""
        packing, room = self.packing, np.where(self.num_assigned == 0, np.inf, self.packing.limit - self.load)
        most = np.full(len(some), -np.inf)
        for kind in np.unique(packing.eligible_set[some]).tolist():
            may, mine = packing.eligible_sets[kind], packing.eligible_set[some] == kind
            first = int(may[np.argmax(room[may])])
            others = room[may[may != first]]
            most[mine] = np.where(self.assigned_member[some[mine]] == first, others.max(initial=-np.inf), room[first])
        return most

    def _cheapest_to_clear(self, partition: int) -> tuple[int, IntArray]:
        """The member that can make room at the least cost, and the smaller partitions that have to leave it."""
        packing, load = self.packing, float(self.packing.load[partition])
        home, may = int(packing.home[partition]), packing.eligible_sets[packing.eligible_set[partition]]
        asked = may[np.lexsort((may, self.load[may] - packing.limit[may]))][:_MAX_CANDIDATES].tolist()
        best: tuple[float, int, IntArray] = (np.inf, NO_MEMBER, np.empty(0, np.int64))
        for member in ([home] if home >= 0 and home not in asked else []) + asked:
            mine = np.flatnonzero((self.assigned_member == member) & (packing.load < load))
            excess = float(self.load[member] + load - packing.limit[member])
            if packing.load[mine].sum() < excess:
                continue
            leave = mine[min_cover(packing.load[mine], excess)]
            cost = float(packing.load[leave][packing.home[leave] == member].sum())
            cost += load if home >= 0 and member != home else 0.0
            if cost < best[0]:
                best = cost, member, leave
        return best[1], best[2]

    # --- return -------------------------------------------------------------------------------------------------------

    def return_home(self) -> None:
        """What is away goes back where that is possible; the largest first, until nothing more does."""
        packing = self.packing
        again = True
        while again and self._looks > 0:
            again = False
            away = np.flatnonzero((packing.home >= 0) & (self.assigned_member != packing.home))
            room = packing.limit - self.load
            away = away[packing.load[away] <= self._could_be(room, away)[packing.home[away]]]
            for partition in away[np.lexsort((away, -packing.load[away]))].tolist():
                self._looks -= 1
                if self._looks > 0 and self.assigned_member[partition] != packing.home[partition]:
                    again |= self._comes_home(partition)

    def _could_be(self, room: FloatArray, away: IntArray) -> FloatArray:
        """The room that members would have without those that came to them."""
        came = self.assigned_member != self.packing.home
        return room + np.bincount(self.assigned_member[came], self.packing.load[came], self.packing.num_members)

    def _comes_home(self, partition: int) -> bool:
        packing, load = self.packing, float(self.packing.load[partition])
        home, now = int(packing.home[partition]), int(self.assigned_member[partition])
        if self.load[home] + load <= packing.limit[home]:
            self._take(np.array([partition]))
            self._put(partition, home)
            return True
        came = np.flatnonzero((self.assigned_member == home) & (packing.home != home))
        for other in came[np.lexsort((came, packing.load[came]))].tolist():
            size = float(packing.load[other])
            if self.load[home] - size + load > packing.limit[home]:
                continue
            self._take(np.array([partition, other]))
            self._put(partition, home)
            elsewhere = self._with_room(other)
            if elsewhere != NO_MEMBER:
                self._put(other, elsewhere)
                return True
            self._take(np.array([partition]))
            self._put(partition, now)
            self._put(other, home)
        return False

    # --- one by one ---------------------------------------------------------------------------------------------------

    def _take(self, some: IntArray) -> None:
        packing = self.packing
        self.load -= np.bincount(self.assigned_member[some], packing.load[some], packing.num_members)
        self.num_assigned -= np.bincount(self.assigned_member[some], minlength=packing.num_members)
        self.load[self.num_assigned == 0] = 0.0
        self.assigned_member[some] = NO_MEMBER

    def _put(self, partition: int, member: int) -> None:
        self.assigned_member[partition] = member
        self.load[member] += self.packing.load[partition]
        self.num_assigned[member] += 1


def find_hot_partitions(packing: Packing) -> BoolArray:
    """Partitions that are more than the bound of everybody who may have them."""
    most = np.array([packing.limit[may].max() for may in packing.eligible_sets])
    return np.asarray(packing.load > most[packing.eligible_set])


_MAX_EXHAUSTIVE = 12
"""Of so many partitions, 2 ** 12 sums."""


def min_cover(load: FloatArray, excess: float) -> IntArray:
    """Places of the partitions to give up, with loads of at least the excess; all, where that is too little."""
    if float(load.sum()) <= excess:
        return np.arange(len(load))
    if len(load) <= _MAX_EXHAUSTIVE:
        return _min_cover_exact(load, excess)
    return _min_cover_greedy(load, excess)


def _min_cover_exact(load: FloatArray, excess: float) -> IntArray:
    sums, number = np.zeros(1), np.zeros(1, np.int64)
    for each in load:
        sums, number = np.append(sums, sums + each), np.append(number, number + 1)
    enough = np.flatnonzero(sums >= excess)
    best = int(enough[np.lexsort((enough, number[enough], sums[enough]))[0]])
    return np.flatnonzero((best >> np.arange(len(load))) & 1)


def _min_cover_greedy(load: FloatArray, excess: float) -> IntArray:
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
    return np.sort(order[_drop_unneeded(given, up, excess)])


def _drop_unneeded(given: BoolArray, up: FloatArray, excess: float) -> BoolArray:
    """Without those, the largest first, that were not needed in the end."""
    spare = float(up[given].sum()) - excess
    for place in np.flatnonzero(given)[::-1].tolist():
        if up[place] <= spare:
            given[place] = False
            spare -= float(up[place])
        elif spare < up[0]:
            break
    return given
