"""Assigns groups by weighted-sticky.

The load of a partition is its `in_messages_per_second`. An unknown rate is replaced by the mean of the known rates of
its topic or, without any, of its group: a partition without a rate isn't idle. Members without a subscription don't
count in the mean load per member.

A partition that another member still owns is withheld, as by cooperative-sticky. If two members claim a partition, the
first by member id is its owner.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from heapq import heapify, heapreplace

import numpy as np

from spark_assign.assignors.group_specs import KEPT, OVER_QUOTA, GroupAssignments, GroupSpecs
from spark_assign.assignors.server.assign_server import first_owners, withhold_owned
from spark_assign.assignors.server.uniform import TargetAssignments
from spark_assign.assignors.weighted import WEIGHTED_STICKY
from spark_assign.assignors.weighted.pack import (
    MAX_EXACT,
    MAX_SEARCHED,
    Bins,
    min_bound,
    min_cover,
    min_moved,
    pack,
    return_home,
)
from spark_assign.assignors.weighted.weighted_groups import (
    BOUND_STATUSES,
    HELD,
    HOT_PARTITION,
    MAKES_ROOM,
    NO_MEMBER,
    OVER_CAPACITY,
    OVER_LOAD,
    RELAXED,
    ROUNDING,
    Packing,
    WeightedAssignment,
    WeightedGroups,
    compute_bounds,
    fill_loads,
)
from spark_assign.numeric.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    compress_tagged,
    invert,
    key_ranges,
    mask_from_indexes,
    ranges_by_length,
    row_numbers,
    values_by_key,
)


@np.errstate(over="ignore", invalid="ignore")  # an infinite bound or capacity is none, or rejects the group
def assign_weighted(specs: GroupSpecs, selected: BoolArray) -> GroupAssignments:
    """Assigns the selected groups; groups with invalid loads, capacity, or bound are rejected."""
    rejected = {group: rejection for group, rejection in _find_rejected(specs) if selected[group]}
    selected = selected.copy()
    selected[list(rejected)] = False
    topics = specs.topics.with_metadata
    topics = topics[selected[specs.topics.group[topics]]]
    topic = np.repeat(topics, specs.topics.partitions[topics])
    partition = ranges_by_length(specs.topics.partitions[topics])
    groups = _groups(specs, topics, topic, partition)
    result = plan_weighted(groups)
    has_owner = result.owner >= 0
    columns = (each[has_owner] for each in (result.owner, topic, partition, result.reason))
    assignments = withhold_owned(specs, TargetAssignments(*compress_tagged(*columns)))
    statuses = {group: BOUND_STATUSES[result.status[group]] for group in np.unique(groups.partition_group).tolist()}
    return replace(assignments, rejected=rejected, load_bound_status=statuses)


def _find_rejected(specs: GroupSpecs) -> Iterator[tuple[int, tuple[str, str]]]:
    """Yields groups that cannot be weighted: group index, code, and detail with the remedy."""
    yield from specs.loads.faults.items()
    has_topics = mask_from_indexes(specs.topics.group[specs.topics.with_metadata], specs.num_groups)
    capacity, load_bound = specs.load_setting("capacity"), specs.load_setting("load_bound")
    for group in np.flatnonzero(has_topics & ((capacity <= 0) | np.isinf(capacity))).tolist():
        yield group, ("bad-capacity", f"groups.capacity is {capacity[group]:g}. {_CAPACITY}")
    for group in np.flatnonzero(has_topics & ((load_bound < 1) | np.isinf(load_bound))).tolist():
        yield group, ("bad-load-bound", f"groups.load_bound is {load_bound[group]:g}. {_BOUND}")
    for group in np.flatnonzero(has_topics & ~specs.loads.has_loads).tolist():
        if group not in specs.loads.faults:
            yield group, ("no-loads", _NO_LOADS)


_CAPACITY = "Say how many messages a second one member can handle, a number above 0, or nothing"
_BOUND = "Say how many times the mean load a member may have, a number from 1, or nothing"
_NO_LOADS = (
    f"{WEIGHTED_STICKY} needs in_messages_per_second, and the table loads has no value for the group. Take a "
    "snapshot with readings (--interval 60s --times 5) or timestamps (--rates-since 10m), fill in loads, or choose "
    "another assignor"
)


def _groups(specs: GroupSpecs, topics: IntArray, topic: IntArray, partition: IntArray) -> WeightedGroups:
    """Returns the input of weighted-sticky: the groups of these topics, with one row per partition."""
    group = specs.topics.group[topic]
    rate = specs.loads.in_messages_per_second[specs.loads.position_of(topic, partition)]
    load = fill_loads(rate, topic, group, specs.num_groups)
    subscribing = np.bincount(specs.members.group[specs.members.has_subscription], minlength=specs.num_groups)
    capacity = specs.load_setting("capacity")
    total = np.bincount(group, load, specs.num_groups).astype(np.float64)
    bound = compute_bounds(total, subscribing, specs.load_setting("load_bound"), capacity)
    kind, eligible = specs.distinct_sets(topics)
    topic_kind = np.full(len(specs.topics), -1)
    topic_kind[topics] = kind
    return WeightedGroups(
        member_group=specs.members.group,
        partition_group=group,
        load=load,
        owner=_owners(specs, topics, topic),
        eligible_set=topic_kind[topic],
        eligible_sets=eligible,
        bound=bound,
        capacity=np.where(np.isnan(capacity), np.inf, capacity),
    )


def _owners(specs: GroupSpecs, topics: IntArray, topic: IntArray) -> IntArray:
    """Returns the owner of each partition that still subscribes to it; -1 for none."""
    partitions, first = specs.topics.partitions[topics], np.full(len(specs.topics), -1)
    first[topics] = np.cumsum(partitions) - partitions
    return first_owners(specs, topics, np.arange(len(specs.members))).owners(first, len(topic))


# --- plans groups with weighted-sticky ------------------------------------------------------------------------
#
# Groups in which nothing must change are found at once; the others are planned one by one (`pack_within_bounds`).
#
# If the bound can't be held, the lowest feasible one replaces it (`relax_bound`). It depends only on loads and
# subscriptions, not on owners, so the next plan finds the same bound and nothing moves again. For few partitions it is
# exact (`pack`). Otherwise, the largest partitions first go to the member with the least load (LPT, at most
# 4/3 - 1/(3n) of the minimum if all members are eligible); then ten bounds between are tried, each partition going to
# the fullest member that has room (MULTIFIT).
#
# Partitions without load are balanced by count (`assign_zero_load`): with the same eligible members, each member gets
# its share, rounded up, and gives up its last partitions above that. A member with fewer partitions with load can keep
# more, up to the share of all partitions. Unassigned partitions go to the member with the fewest of them, then with the
# fewest partitions.
#
# Example: t0 … t4 have no load. C0 owns all of them, and C1 joins. The share is 3.
#
#     owned     C0: [t0, t1, t2, t3, t4]    C1: []
#     target    C0: [t0, t1, t2]            C1: [t3, t4]


_MAX_SECOND_TRY = 5_000
"""Maximum number of partitions for a second attempt. With more, the released load is practically minimal."""


def plan_weighted(groups: WeightedGroups) -> WeightedAssignment:
    """Returns the new owners, why partitions moved, and the status of each group's bound."""
    owner, reason = groups.owner.copy(), np.full(len(groups.owner), KEPT)
    is_eligible = np.array([len(members) > 0 for members in groups.eligible_sets], bool)[groups.eligible_set]
    has_load, is_idle = is_eligible & (groups.load > 0), is_eligible & (groups.load <= 0)
    before = _loads(groups, owner, has_load)
    first_member = np.searchsorted(groups.member_group, np.arange(len(groups.bound) + 1))
    for start, end in key_ranges(groups.partition_group):
        if _needs_change(groups, owner, before, has_load, slice(start, end)):
            rows = start + np.flatnonzero(has_load[start:end])
            _plan_group(groups, rows, owner, int(first_member[groups.partition_group[start]]))
    num_with_load = np.bincount(owner[has_load & (owner >= 0)], minlength=len(groups.member_group))
    _assign_zero_load_partitions(groups, np.flatnonzero(is_idle), owner, num_with_load)
    is_owned = groups.owner >= 0
    is_moved = is_owned & (owner != groups.owner)
    is_overloaded = np.zeros(len(owner), bool)
    is_overloaded[is_owned] = (before > groups.bound[groups.member_group] * (1 + ROUNDING))[groups.owner[is_owned]]
    reason[is_moved] = np.where(is_idle, OVER_QUOTA, np.where(is_overloaded, OVER_LOAD, MAKES_ROOM))[is_moved]
    return WeightedAssignment(owner, reason, _bound_status(groups, owner, has_load))


def _loads(groups: WeightedGroups, owner: IntArray, has_load: BoolArray) -> FloatArray:
    """Returns the load of each member."""
    rows = has_load & (owner >= 0)
    return np.bincount(owner[rows], groups.load[rows], len(groups.member_group)).astype(np.float64)


def _needs_change(groups: WeightedGroups, owner: IntArray, load: FloatArray, has_load: BoolArray, rows: slice) -> bool:
    """Checks whether a partition of a group has no owner, or a member is overloaded."""
    owners = owner[rows][has_load[rows]]
    if not len(owners):
        return False
    return bool(
        (owners < 0).any() or load[owners].max() > groups.bound[groups.partition_group[rows.start]] * (1 + ROUNDING)
    )


# --- Steps 1 to 5: one group --------------------------------------------------------------------------------------


def _plan_group(groups: WeightedGroups, rows: IntArray, owner: IntArray, first: int) -> None:
    """Plans each part of a group with members of its own."""
    set_ids, partition_set = np.unique(groups.eligible_set[rows], return_inverse=True)
    eligible = [groups.eligible_sets[member_index] for member_index in set_ids.tolist()]
    bound = float(groups.bound[groups.partition_group[rows[0]]])
    for sets in _connected_sets(eligible):
        part_rows = np.flatnonzero(np.isin(partition_set, sets))
        members = np.unique(np.concatenate([eligible[member_index] for member_index in sets]))
        member_index = invert(members - first, int(members.max()) - first + 1)
        set_index = invert(sets, len(eligible))
        home = groups.owner[rows[part_rows]]
        packing = Packing(
            groups.load[rows[part_rows]],
            np.where(home >= 0, member_index[np.maximum(home - first, 0)], NO_MEMBER),
            set_index[partition_set[part_rows]],
            [member_index[eligible[set_number] - first] for set_number in sets],
            np.full(len(members), bound),
        )
        owner[rows[part_rows]] = members[pack_within_bounds(packing)]


def _connected_sets(eligible: list[IntArray]) -> list[list[int]]:
    """Returns the connected components of sets that share members."""
    root, first = list(range(len(eligible))), dict[int, int]()

    def find(index: int) -> int:
        while root[index] != index:
            root[index] = index = root[root[index]]
        return index

    for index, members in enumerate(eligible):
        for member in members.tolist():
            root[find(index)] = find(first.setdefault(member, index))
    return list(values_by_key((find(index), index) for index in range(len(eligible))).values())


def pack_within_bounds(packing: Packing) -> IntArray:
    """Returns the next owner of each partition. All bounds are held if an assignment was found that holds them."""
    packing = replace(packing, bound=np.maximum(packing.bound, _exclusive_load(packing)))
    assigned = _find_min_moved(packing)
    if packing.holds_bounds(assigned):
        return assigned
    packing, relaxed = relax_bound(packing)
    assigned = _find_min_moved(packing)
    return assigned if packing.holds_bounds(assigned) else return_home(packing, relabel_members(packing, relaxed))


def _exclusive_load(packing: Packing) -> FloatArray:
    """Returns, for each member, the load for which no other member is eligible."""
    only_member = np.array(
        [members[0] if len(members) == 1 else NO_MEMBER for members in packing.eligible_sets], np.int64
    )[packing.eligible_set]
    return packing.loads(only_member)


def _find_min_moved(packing: Packing) -> IntArray:
    """Returns the best assignment found: one that holds the bounds, then one that moves the least load."""
    assigned = pack(packing)
    if len(packing.load) > _MAX_SECOND_TRY or _is_optimal(packing, assigned) or packing.is_infeasible():
        return assigned

    def rank(candidate: IntArray) -> tuple[bool, float]:
        return not packing.holds_bounds(candidate), packing.moved_load(candidate)

    assigned = min(assigned, pack(packing, tight=True), key=rank)
    if len(packing.load) > (MAX_EXACT if packing.holds_bounds(assigned) else MAX_SEARCHED) or _is_optimal(
        packing, assigned
    ):
        return assigned
    best = min_moved(packing)
    return assigned if best is None else min(assigned, best, key=rank)


def _is_optimal(packing: Packing, assigned: IntArray) -> bool:
    """Checks whether an assignment holds all bounds and moves only what must leave overloaded members."""
    return packing.holds_bounds(assigned) and packing.moved_load(assigned) <= _must_move(packing) * (1 + ROUNDING)


def _must_move(packing: Packing) -> float:
    """Returns the load that must leave overloaded members. No assignment moves less."""
    is_overloaded, total = packing.is_overloaded(packing.home), 0.0
    for member in np.flatnonzero(is_overloaded).tolist():
        loads = packing.load[packing.home == member]
        if loads.max() > packing.limit[member]:
            total += float(np.sort(loads)[:-1].sum())
        else:
            total += float(loads[min_cover(loads, float(loads.sum() - packing.limit[member]))].sum())
    return total


def relabel_members(packing: Packing, assigned: IntArray) -> IntArray:
    """Renames the members of an assignment so that more load stays where it is, if all members are eligible for
    everything."""
    if (
        len(packing.eligible_sets) > 1
        or len(packing.eligible_sets[0]) < packing.num_members
        or (packing.bound != packing.bound[0]).any()
    ):
        return assigned
    is_owned = packing.home >= 0
    pairs, pair = np.unique(packing.home[is_owned] * packing.num_members + assigned[is_owned], return_inverse=True)
    common = np.bincount(pair, packing.load[is_owned], len(pairs))
    new_member = np.full(packing.num_members, NO_MEMBER)
    is_free = np.ones(packing.num_members, bool)
    for row in np.lexsort((pairs, -common)).tolist():
        member, old_member = divmod(int(pairs[row]), packing.num_members)
        if is_free[member] and new_member[old_member] == NO_MEMBER:
            new_member[old_member], is_free[member] = member, False
    new_member[new_member == NO_MEMBER] = np.flatnonzero(is_free)
    return new_member[assigned]


# --- Step 6: partitions without load ------------------------------------------------------------------------------


def _assign_zero_load_partitions(
    groups: WeightedGroups, rows: IntArray, owner: IntArray, num_assigned: IntArray
) -> None:
    """Assigns partitions without load, those with the same eligible members together."""
    rows = rows[np.argsort(groups.eligible_set[rows], kind="stable")]
    for start, end in key_ranges(groups.eligible_set[rows]):
        set_rows = rows[start:end]
        eligible = groups.eligible_sets[int(groups.eligible_set[set_rows[0]])]
        first = int(eligible[0])
        window = num_assigned[first : int(eligible[-1]) + 1]
        owner[set_rows] = first + assign_zero_load(
            np.where(owner[set_rows] >= 0, owner[set_rows] - first, -1), eligible - first, window
        )


def _bound_status(groups: WeightedGroups, owner: IntArray, has_load: BoolArray) -> IntArray:
    """Returns the status of each group's bound."""
    rows = has_load & (owner >= 0)
    num_members = len(groups.member_group)
    load = _loads(groups, owner, has_load)
    num_partitions = np.bincount(owner[rows], minlength=num_members)
    is_above = load > groups.bound[groups.member_group] * (1 + ROUNDING)
    num_groups = len(groups.bound)
    is_exceeded = np.bincount(groups.member_group[is_above & (num_partitions > 1)], minlength=num_groups) > 0
    is_hot = np.bincount(groups.member_group[is_above], minlength=num_groups) > 0
    capacity = np.bincount(groups.member_group, minlength=num_groups) * groups.capacity
    is_full = np.bincount(groups.partition_group[has_load], groups.load[has_load], num_groups) > capacity * (
        1 + ROUNDING
    )
    return np.select([is_full, is_exceeded, is_hot], [OVER_CAPACITY, RELAXED, HOT_PARTITION], HELD)


_TRIES = 10
_MAX_TRIED = 5_000
"""Maximum number of partitions for which further bounds are tried."""


def relax_bound(packing: Packing) -> tuple[Packing, IntArray]:
    """Returns the packing with the lowest bounds found that can be held, and an assignment that holds them."""
    scratch = replace(packing, home=np.full(len(packing.load), NO_MEMBER))
    assigned = _largest_first(scratch)
    least = _max_excess_load(packing, assigned)
    if len(packing.load) <= MAX_EXACT:
        exact = min_bound(scratch, least)
        least = least if exact is None else exact
    elif len(packing.load) <= _MAX_TRIED:
        low = max(float(packing.bound.min()), float(packing.load.sum()) / packing.num_members)
        for _ in range(_TRIES):
            between = (low + least) / 2
            tried = _fullest_first(replace(scratch, bound=np.maximum(packing.bound, between)))
            if tried is None:
                low = between
            else:
                least, assigned = min(least, _max_excess_load(packing, tried)), tried
    return replace(packing, bound=np.maximum(packing.bound, least)), assigned


def _max_excess_load(packing: Packing, assigned: IntArray) -> float:
    """Returns the maximum load of the overloaded members."""
    return float(packing.loads(assigned)[packing.is_overloaded(assigned)].max(initial=0.0))


def _largest_first(packing: Packing) -> IntArray:
    """Assigns the largest partitions first, each to the member with the least load (LPT)."""
    bins = Bins(replace(packing, bound=np.full(packing.num_members, 1 + 2 * packing.load.sum())))
    bins.place()
    return bins.assigned_member


def _fullest_first(packing: Packing) -> IntArray | None:
    """Assigns the largest partitions first, each to the fullest member with room (MULTIFIT); None if one doesn't
    fit."""
    load, num_assigned = np.zeros(packing.num_members), np.zeros(packing.num_members, np.int64)
    assigned = np.full(len(packing.load), NO_MEMBER)
    for partition in np.lexsort((np.arange(len(assigned)), -packing.load)).tolist():
        size, eligible = float(packing.load[partition]), packing.eligible_sets[packing.eligible_set[partition]]
        room: FloatArray = np.where(
            num_assigned[eligible] == 0, packing.bound.max(), packing.limit[eligible] - load[eligible] - size
        )
        if room.max() < 0:
            return None
        member = int(eligible[np.argmin(np.where(room >= 0, room, np.inf))])
        assigned[partition] = member
        load[member] += size
        num_assigned[member] += 1
    return assigned


def assign_zero_load(owner: IntArray, eligible: IntArray, num_assigned: IntArray) -> IntArray:
    """Returns the next owner of each partition without load.

    Args:
        owner: owner of each partition, which must be eligible; -1 for none.
        eligible: eligible members, ascending.
        num_assigned: number of partitions of each member; updated in place.
    """
    share = -(-len(owner) // len(eligible))
    total_share = -(-(len(owner) + int(num_assigned[eligible].sum())) // len(eligible))
    num_kept = np.maximum(share, total_share - num_assigned)
    order = np.argsort(owner, kind="stable")
    position = np.empty(len(owner), np.int64)
    position[order] = row_numbers(owner[order])
    assigned = np.where((owner >= 0) & (position < num_kept[owner]), owner, -1)
    num_idle = np.bincount(assigned[assigned >= 0], minlength=len(num_assigned))
    unassigned = np.flatnonzero(assigned < 0)
    heap = [(int(num_idle[member]), int(num_assigned[member]), member) for member in eligible.tolist()]
    heapify(heap)
    to_member = []
    for _ in range(len(unassigned)):
        count, total, member = heap[0]
        heapreplace(heap, (count + 1, total, member))
        to_member.append(member)
    assigned[unassigned] = to_member
    num_assigned += np.bincount(assigned, minlength=len(num_assigned))
    return assigned
