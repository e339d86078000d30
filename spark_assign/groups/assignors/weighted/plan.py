"""Groups planned by weighted-sticky: those of which nothing has to change are seen at once, the others one by one."""

from __future__ import annotations

import numpy as np

from spark_assign.groups.assignors.sticky.sticky_types import OVER_QUOTA, STAYS
from spark_assign.groups.assignors.weighted.branch_and_bound import FEW, SOME, least_moved
from spark_assign.groups.assignors.weighted.min_cover import least_to_give
from spark_assign.groups.assignors.weighted.pack import go_home, settle
from spark_assign.groups.assignors.weighted.packing import NO_MEMBER, Packing
from spark_assign.groups.assignors.weighted.relax_bound import relax
from spark_assign.groups.assignors.weighted.weighted_groups import (
    HELD,
    HOT_PARTITION,
    MAKES_ROOM,
    OVER_CAPACITY,
    OVER_LOAD,
    RELAXED,
    WeightedAssignment,
    WeightedGroups,
)
from spark_assign.groups.assignors.weighted.zero_load import share_idle
from spark_assign.numeric.array_types import BoolArray, FloatArray, IntArray
from spark_assign.numeric.segmented_arrays import key_ranges

_ROUNDING = 1e-9
_MANY = 5_000
"""Of more partitions, what is given up is as good as exact: there is nothing to be won by another try."""


def plan_weighted(groups: WeightedGroups) -> WeightedAssignment:
    """Who gets what, why what moves does, and how it went with each group's bound."""
    owner, reason = groups.owner.copy(), np.full(len(groups.owner), STAYS)
    busy = (groups.load > 0) & (np.array([len(some) for some in groups.may], np.int64)[groups.kind] > 0)
    idle = (groups.load <= 0) & (np.array([len(some) for some in groups.may], np.int64)[groups.kind] > 0)
    before = _loads(groups, owner, busy)
    begins = np.searchsorted(groups.member_group, np.arange(len(groups.bound) + 1))
    for begin, end in key_ranges(groups.group):
        if _open(groups, owner, before, busy, slice(begin, end)):
            rows = begin + np.flatnonzero(busy[begin:end])
            _settle_group(groups, rows, owner, int(begins[groups.group[begin]]))
    with_load = np.bincount(owner[busy & (owner >= 0)], minlength=len(groups.member_group))
    _share_idle_ones(groups, np.flatnonzero(idle), owner, with_load)
    had = groups.owner >= 0
    moves = had & (owner != groups.owner)
    much = np.zeros(len(owner), bool)
    much[had] = (before > groups.bound[groups.member_group] * (1 + _ROUNDING))[groups.owner[had]]
    reason[moves] = np.where(idle, OVER_QUOTA, np.where(much, OVER_LOAD, MAKES_ROOM))[moves]
    return WeightedAssignment(owner, reason, _words(groups, owner, busy))


def _loads(groups: WeightedGroups, owner: IntArray, busy: BoolArray) -> FloatArray:
    some = busy & (owner >= 0)
    return np.bincount(owner[some], groups.load[some], len(groups.member_group)).astype(np.float64)


def _open(groups: WeightedGroups, owner: IntArray, load: FloatArray, busy: BoolArray, rows: slice) -> bool:
    """Whether something has to be done in a group: a partition is with nobody, or somebody has too much."""
    mine = owner[rows][busy[rows]]
    if not len(mine):
        return False
    return bool((mine < 0).any() or load[mine].max() > groups.bound[groups.group[rows.start]] * (1 + _ROUNDING))


# --- one group ----------------------------------------------------------------------------------------------------


def _settle_group(groups: WeightedGroups, rows: IntArray, owner: IntArray, first: int) -> None:
    """Each part of a group that has members of its own."""
    kinds, kind = np.unique(groups.kind[rows], return_inverse=True)
    may = [groups.may[number] for number in kinds.tolist()]
    bound = float(groups.bound[groups.group[rows[0]]])
    for some in _parts(may):
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
        owner[rows[part]] = members[settled(packing)]


def _parts(may: list[IntArray]) -> list[list[int]]:
    """Sets of members, those together that share some."""
    parts: list[tuple[set[int], list[int]]] = []
    for number, members in enumerate(may):
        mine, numbers = set(members.tolist()), [number]
        for part in [part for part in parts if part[0] & mine]:
            parts.remove(part)
            mine, numbers = mine | part[0], part[1] + numbers
        parts.append((mine, numbers))
    return [sorted(numbers) for _, numbers in parts]


def settled(packing: Packing) -> IntArray:
    """Of each partition its next owner; all bounds are held where an assignment was found that does."""
    packing = packing.with_bound(np.maximum(packing.bound, _forced(packing)))
    at = _least_moved(packing)
    if packing.holds(at):
        return at
    packing, found = relax(packing)
    at = _least_moved(packing)
    return at if packing.holds(at) else go_home(packing, like_home(packing, found))


def _forced(packing: Packing) -> FloatArray:
    """Of each member the load that nobody else may have."""
    alone = np.array([some[0] if len(some) == 1 else NO_MEMBER for some in packing.may], np.int64)[packing.kind]
    return packing.loads(alone)


def _least_moved(packing: Packing) -> IntArray:
    at = settle(packing)
    if len(packing.load) > _MANY or _is_least(packing, at) or packing.cannot_hold():
        return at
    other = settle(packing, tight=True)
    at = min(at, other, key=lambda each: (not packing.holds(each), packing.moved(each)))
    if len(packing.load) > (FEW if packing.holds(at) else SOME) or _is_least(packing, at):
        return at
    best = least_moved(packing)
    return at if best is None else min(at, best, key=lambda each: (not packing.holds(each), packing.moved(each)))


def _is_least(packing: Packing, at: IntArray) -> bool:
    """Whether this holds all bounds, and no more moves than has to leave members that have too much."""
    return packing.holds(at) and packing.moved(at) <= _must_move(packing) * (1 + _ROUNDING)


def _must_move(packing: Packing) -> float:
    """What has to leave members that have too much, wherever it goes: no answer moves less."""
    much, least = packing.too_much(packing.home), 0.0
    for member in np.flatnonzero(much).tolist():
        mine = packing.load[packing.home == member]
        if mine.max() > packing.limit[member]:
            least += float(np.sort(mine)[:-1].sum())
        else:
            least += float(mine[least_to_give(mine, float(mine.sum() - packing.limit[member]))].sum())
    return least


def like_home(packing: Packing, found: IntArray) -> IntArray:
    """The same assignment with members named so that much load stays where it is, where all may have all."""
    if len(packing.may) > 1 or len(packing.may[0]) < packing.members or (packing.bound != packing.bound[0]).any():
        return found
    had = packing.home >= 0
    pairs, pair = np.unique(packing.home[had] * packing.members + found[had], return_inverse=True)
    common = np.bincount(pair, packing.load[had], len(pairs))
    name = np.full(packing.members, NO_MEMBER)
    free = np.ones(packing.members, bool)
    for each in np.lexsort((pairs, -common)).tolist():
        member, place = divmod(int(pairs[each]), packing.members)
        if free[member] and name[place] == NO_MEMBER:
            name[place], free[member] = member, False
    name[name == NO_MEMBER] = np.flatnonzero(free)
    return name[found]


# --- the rest -----------------------------------------------------------------------------------------------------


def _share_idle_ones(groups: WeightedGroups, rows: IntArray, owner: IntArray, number: IntArray) -> None:
    """Partitions without load, those together that the same members may have."""
    rows = rows[np.argsort(groups.kind[rows], kind="stable")]
    for begin, end in key_ranges(groups.kind[rows]):
        some = rows[begin:end]
        may = groups.may[int(groups.kind[some[0]])]
        first = int(may[0])
        window = number[first : int(may[-1]) + 1]
        owner[some] = first + share_idle(np.where(owner[some] >= 0, owner[some] - first, -1), may - first, window)


def _words(groups: WeightedGroups, owner: IntArray, busy: BoolArray) -> IntArray:
    some = busy & (owner >= 0)
    members = len(groups.member_group)
    load = np.bincount(owner[some], groups.load[some], members)
    number = np.bincount(owner[some], minlength=members)
    much = load > groups.bound[groups.member_group] * (1 + _ROUNDING)
    size = len(groups.bound)
    beyond = np.bincount(groups.member_group[much & (number > 1)], minlength=size) > 0
    hot = np.bincount(groups.member_group[much], minlength=size) > 0
    all_of_them = np.bincount(groups.member_group, minlength=size) * groups.capacity
    full = np.bincount(groups.group[busy], groups.load[busy], size) > all_of_them * (1 + _ROUNDING)
    return np.select([full, beyond, hot], [OVER_CAPACITY, RELAXED, HOT_PARTITION], HELD)
