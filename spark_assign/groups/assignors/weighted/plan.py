"""Groups planned by weighted-sticky: those of which nothing has to change are seen at once, the others one by one.

The least bound that can be held where the one asked for cannot: it hangs on loads and subscriptions, not on owners.

So that it is the same the next time, and what holds it stays where it is. Few partitions are looked at exactly
(`exact`); of many, the largest first each go to the member with least (LPT, which is never more than 4/3 - 1/(3n) of
the least possible where all may have all); where that is more than the bound, a bound between is tried ten times, each
partition to the fullest member that still takes it (MULTIFIT).


Partitions without load: as many for everybody, whoever has more than its share of them gives up the last ones.

The share is the number of such partitions that the same members may have, over these members, rounded up. Who has fewer
partitions with load may keep more, as long as it has no more in all than the same share of all. What nobody has, or
keeps, goes to whoever has fewest of them, of these to the one with fewest partitions in all.

Example: nothing is written to t-0 … t-4. a has all of them, b joins: the share is 3, b gets t-3 and t-4.
"""

from __future__ import annotations

from heapq import heapify, heapreplace

import numpy as np

from spark_assign.groups.assignors.sticky.sticky_groups import KEPT, OVER_QUOTA
from spark_assign.groups.assignors.weighted.branch_and_bound import MAX_EXACT, MAX_SEARCHED, min_bound, min_moved
from spark_assign.groups.assignors.weighted.pack import Bins, min_cover, pack, return_home
from spark_assign.groups.assignors.weighted.weighted_groups import (
    HELD,
    HOT_PARTITION,
    MAKES_ROOM,
    NO_MEMBER,
    OVER_CAPACITY,
    OVER_LOAD,
    RELAXED,
    Packing,
    WeightedAssignment,
    WeightedGroups,
)
from spark_assign.numeric.array_types import BoolArray, FloatArray, IntArray
from spark_assign.numeric.segmented_arrays import key_ranges, row_numbers

_ROUNDING = 1e-9
_MAX_SECOND_TRY = 5_000
"""Of more partitions, what is given up is as good as exact: there is nothing to be won by another try."""


def plan_weighted(groups: WeightedGroups) -> WeightedAssignment:
    """Who gets what, why what moves does, and how it went with each group's bound."""
    owner, reason = groups.owner.copy(), np.full(len(groups.owner), KEPT)
    busy = (groups.load > 0) & (
        np.array([len(some) for some in groups.eligible_sets], np.int64)[groups.eligible_set] > 0
    )
    idle = (groups.load <= 0) & (
        np.array([len(some) for some in groups.eligible_sets], np.int64)[groups.eligible_set] > 0
    )
    before = _loads(groups, owner, busy)
    begins = np.searchsorted(groups.member_group, np.arange(len(groups.bound) + 1))
    for begin, end in key_ranges(groups.partition_group):
        if _needs_change(groups, owner, before, busy, slice(begin, end)):
            rows = begin + np.flatnonzero(busy[begin:end])
            _plan_group(groups, rows, owner, int(begins[groups.partition_group[begin]]))
    with_load = np.bincount(owner[busy & (owner >= 0)], minlength=len(groups.member_group))
    _assign_zero_load_partitions(groups, np.flatnonzero(idle), owner, with_load)
    had = groups.owner >= 0
    moves = had & (owner != groups.owner)
    much = np.zeros(len(owner), bool)
    much[had] = (before > groups.bound[groups.member_group] * (1 + _ROUNDING))[groups.owner[had]]
    reason[moves] = np.where(idle, OVER_QUOTA, np.where(much, OVER_LOAD, MAKES_ROOM))[moves]
    return WeightedAssignment(owner, reason, _bound_status(groups, owner, busy))


def _loads(groups: WeightedGroups, owner: IntArray, busy: BoolArray) -> FloatArray:
    some = busy & (owner >= 0)
    return np.bincount(owner[some], groups.load[some], len(groups.member_group)).astype(np.float64)


def _needs_change(groups: WeightedGroups, owner: IntArray, load: FloatArray, busy: BoolArray, rows: slice) -> bool:
    """Whether something has to be done in a group: a partition is with nobody, or somebody has too much."""
    mine = owner[rows][busy[rows]]
    if not len(mine):
        return False
    return bool(
        (mine < 0).any() or load[mine].max() > groups.bound[groups.partition_group[rows.start]] * (1 + _ROUNDING)
    )


# --- one group ----------------------------------------------------------------------------------------------------


def _plan_group(groups: WeightedGroups, rows: IntArray, owner: IntArray, first: int) -> None:
    """Each part of a group that has members of its own."""
    kinds, kind = np.unique(groups.eligible_set[rows], return_inverse=True)
    may = [groups.eligible_sets[number] for number in kinds.tolist()]
    bound = float(groups.bound[groups.partition_group[rows[0]]])
    for some in _connected_sets(may):
        part = np.flatnonzero(np.isin(kind, some))
        members = np.unique(np.concatenate([may[number] for number in some]))
        number = np.full(int(members.max()) - first + 1, NO_MEMBER)
        number[members - first] = np.arange(len(members))
        of_kind = np.full(len(may), -1)
        of_kind[some] = np.arange(len(some))
        home = groups.owner[rows[part]]
        packing = Packing(
            groups.load[rows[part]],
            np.where(home >= 0, number[np.maximum(home - first, 0)], NO_MEMBER),
            of_kind[kind[part]],
            [number[may[each] - first] for each in some],
            np.full(len(members), bound),
        )
        owner[rows[part]] = members[pack_within_bounds(packing)]


def _connected_sets(may: list[IntArray]) -> list[list[int]]:
    """Sets of members, those together that share some."""
    parts: list[tuple[set[int], list[int]]] = []
    for number, members in enumerate(may):
        mine, numbers = set(members.tolist()), [number]
        for part in [part for part in parts if part[0] & mine]:
            parts.remove(part)
            mine, numbers = mine | part[0], part[1] + numbers
        parts.append((mine, numbers))
    return [sorted(numbers) for _, numbers in parts]


def pack_within_bounds(packing: Packing) -> IntArray:
    """Of each partition its next owner; all bounds are held where an assignment was found that does."""
    packing = packing.with_bound(np.maximum(packing.bound, _exclusive_load(packing)))
    at = _find_min_moved(packing)
    if packing.holds_bounds(at):
        return at
    packing, found = relax_bound(packing)
    at = _find_min_moved(packing)
    return at if packing.holds_bounds(at) else return_home(packing, relabel_members(packing, found))


def _exclusive_load(packing: Packing) -> FloatArray:
    """Of each member the load that nobody else may have."""
    alone = np.array([some[0] if len(some) == 1 else NO_MEMBER for some in packing.eligible_sets], np.int64)[
        packing.eligible_set
    ]
    return packing.loads(alone)


def _find_min_moved(packing: Packing) -> IntArray:
    at = pack(packing)
    if len(packing.load) > _MAX_SECOND_TRY or _is_optimal(packing, at) or packing.is_infeasible():
        return at
    other = pack(packing, tight=True)
    at = min(at, other, key=lambda each: (not packing.holds_bounds(each), packing.moved_load(each)))
    if len(packing.load) > (MAX_EXACT if packing.holds_bounds(at) else MAX_SEARCHED) or _is_optimal(packing, at):
        return at
    best = min_moved(packing)
    return (
        at
        if best is None
        else min(at, best, key=lambda each: (not packing.holds_bounds(each), packing.moved_load(each)))
    )


def _is_optimal(packing: Packing, at: IntArray) -> bool:
    """Whether this holds all bounds, and no more moves than has to leave members that have too much."""
    return packing.holds_bounds(at) and packing.moved_load(at) <= _must_move(packing) * (1 + _ROUNDING)


def _must_move(packing: Packing) -> float:
    """What has to leave members that have too much, wherever it goes: no answer moves less."""
    much, least = packing.is_overloaded(packing.home), 0.0
    for member in np.flatnonzero(much).tolist():
        mine = packing.load[packing.home == member]
        if mine.max() > packing.limit[member]:
            least += float(np.sort(mine)[:-1].sum())
        else:
            least += float(mine[min_cover(mine, float(mine.sum() - packing.limit[member]))].sum())
    return least


def relabel_members(packing: Packing, found: IntArray) -> IntArray:
    """The same assignment with members named so that much load stays where it is, where all may have all."""
    if (
        len(packing.eligible_sets) > 1
        or len(packing.eligible_sets[0]) < packing.num_members
        or (packing.bound != packing.bound[0]).any()
    ):
        return found
    had = packing.home >= 0
    pairs, pair = np.unique(packing.home[had] * packing.num_members + found[had], return_inverse=True)
    common = np.bincount(pair, packing.load[had], len(pairs))
    name = np.full(packing.num_members, NO_MEMBER)
    free = np.ones(packing.num_members, bool)
    for each in np.lexsort((pairs, -common)).tolist():
        member, place = divmod(int(pairs[each]), packing.num_members)
        if free[member] and name[place] == NO_MEMBER:
            name[place], free[member] = member, False
    name[name == NO_MEMBER] = np.flatnonzero(free)
    return name[found]


# --- the rest -----------------------------------------------------------------------------------------------------


def _assign_zero_load_partitions(groups: WeightedGroups, rows: IntArray, owner: IntArray, number: IntArray) -> None:
    """Partitions without load, those together that the same members may have."""
    rows = rows[np.argsort(groups.eligible_set[rows], kind="stable")]
    for begin, end in key_ranges(groups.eligible_set[rows]):
        some = rows[begin:end]
        may = groups.eligible_sets[int(groups.eligible_set[some[0]])]
        first = int(may[0])
        window = number[first : int(may[-1]) + 1]
        owner[some] = first + assign_zero_load(np.where(owner[some] >= 0, owner[some] - first, -1), may - first, window)


def _bound_status(groups: WeightedGroups, owner: IntArray, busy: BoolArray) -> IntArray:
    some = busy & (owner >= 0)
    members = len(groups.member_group)
    load = np.bincount(owner[some], groups.load[some], members)
    number = np.bincount(owner[some], minlength=members)
    much = load > groups.bound[groups.member_group] * (1 + _ROUNDING)
    size = len(groups.bound)
    beyond = np.bincount(groups.member_group[much & (number > 1)], minlength=size) > 0
    hot = np.bincount(groups.member_group[much], minlength=size) > 0
    all_of_them = np.bincount(groups.member_group, minlength=size) * groups.capacity
    full = np.bincount(groups.partition_group[busy], groups.load[busy], size) > all_of_them * (1 + _ROUNDING)
    return np.select([full, beyond, hot], [OVER_CAPACITY, RELAXED, HOT_PARTITION], HELD)


_TRIES = 10
_MAX_TRIED = 5_000
"""More partitions than that are not tried once more."""


def relax_bound(packing: Packing) -> tuple[Packing, IntArray]:
    """The packing with the least bounds found that can be held, and an assignment that does."""
    scratch = Packing(
        packing.load, np.full(len(packing.load), NO_MEMBER), packing.eligible_set, packing.eligible_sets, packing.bound
    )
    found = _largest_first(scratch)
    least = _max_excess_load(packing, found)
    if len(packing.load) <= MAX_EXACT:
        exact = min_bound(scratch, least)
        least = least if exact is None else exact
    elif len(packing.load) <= _MAX_TRIED:
        low = max(float(packing.bound.min()), float(packing.load.sum()) / packing.num_members)
        for _ in range(_TRIES):
            between = (low + least) / 2
            tried = _fullest_first(scratch.with_bound(np.maximum(packing.bound, between)))
            if tried is None:
                low = between
            else:
                least, found = min(least, _max_excess_load(packing, tried)), tried
    return packing.with_bound(np.maximum(packing.bound, least)), found


def _max_excess_load(packing: Packing, at: IntArray) -> float:
    """The most that a member has that is not to have so much."""
    return float(packing.loads(at)[packing.is_overloaded(at)].max(initial=0.0))


def _largest_first(packing: Packing) -> IntArray:
    bins = Bins(packing.with_bound(np.full(packing.num_members, 1 + 2 * packing.load.sum())))
    bins.place()
    return bins.assigned_member


def _fullest_first(packing: Packing) -> IntArray | None:
    load, number = np.zeros(packing.num_members), np.zeros(packing.num_members, np.int64)
    at = np.full(len(packing.load), NO_MEMBER)
    for partition in np.lexsort((np.arange(len(at)), -packing.load)).tolist():
        size, may = float(packing.load[partition]), packing.eligible_sets[packing.eligible_set[partition]]
        room: FloatArray = np.where(number[may] == 0, packing.bound.max(), packing.limit[may] - load[may] - size)
        if room.max() < 0:
            return None
        member = int(may[np.argmin(np.where(room >= 0, room, np.inf))])
        at[partition] = member
        load[member] += size
        number[member] += 1
    return at


def assign_zero_load(owner: IntArray, may: IntArray, number: IntArray) -> IntArray:
    """Of each partition without load its next owner.

    Args:
        owner: of each who has it; -1: nobody. Owners are in `may`.
        may: the members that may have them, ascending.
        number: of each member how many partitions with load it has; what it gets here is added.
    """
    share = -(-len(owner) // len(may))
    of_all = -(-(len(owner) + int(number[may].sum())) // len(may))
    keeps = np.maximum(share, of_all - number)
    order = np.argsort(owner, kind="stable")
    place = np.empty(len(owner), np.int64)
    place[order] = row_numbers(owner[order])
    at = np.where((owner >= 0) & (place < keeps[owner]), owner, -1)
    had = np.bincount(at[at >= 0], minlength=len(number))
    free = np.flatnonzero(at < 0)
    heap = [(int(had[member]), int(number[member]), member) for member in may.tolist()]
    heapify(heap)
    to_member = []
    for _ in range(len(free)):
        mine, all_in_all, member = heap[0]
        heapreplace(heap, (mine + 1, all_in_all, member))
        to_member.append(member)
    at[free] = to_member
    number += np.bincount(at, minlength=len(number))
    return at
