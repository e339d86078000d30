"""franz-go's sticky balancers where nothing is in dispute (`undisputed`): `groups.assignors.franz_go.homogeneous`, on
runs.

Only what nobody owns, and what members have too much, is looked at one by one. Whoever gives was dealt nothing: who was
has at most one more than whoever has least. So what is order-dependent is only what was dealt
(`groups.assignors.franz_go.deal_positions`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spark_assign.groups.assignors.franz_go.deal_positions import hanging
from spark_assign.groups.assignors.franz_go.homogeneous import steals_of
from spark_assign.groups.assignors.franz_go.member_heaps import LeastLoaded
from spark_assign.groups.assignors.sticky.constrained import as_runs
from spark_assign.groups.assignors.sticky.retained_partitions import keep_first
from spark_assign.groups.assignors.sticky.sticky_types import OVER_QUOTA, STAYS
from spark_assign.groups.kernel.group_assignments import GroupAssignments
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.groups.kernel.undisputed import UndisputedGroups
from spark_assign.java.key_index import byte_ranks
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, PartitionSlices
from spark_assign.numeric.segmented_arrays import row_numbers

_NONE = np.empty(0, np.int64)


def served(specs: GroupSpecs) -> IntArray:
    """The members by group, static ones first: by instance id, then the others by member id, as Go compares them."""
    instance = specs.facts.column("group_instance_id", specs.members.row)
    dynamic = ~instance.is_valid().to_numpy(zero_copy_only=False)
    name = np.where(dynamic, byte_ranks(specs.member_id), byte_ranks(instance))
    order: IntArray = np.lexsort((name, dynamic, specs.members.group))
    return order


def plan_undisputed(
    specs: GroupSpecs, undisputed: UndisputedGroups, in_line: IntArray, *, cooperative: bool
) -> GroupAssignments:
    """Plan these groups; `in_line` has all members as they are served."""
    if not undisputed.groups.any():
        return GroupAssignments(EMPTY_SLICES, EMPTY_SLICES.member, EMPTY_SLICES.member.astype(bool), {})
    to_member, hangs, from_member, getter = _dealt(specs, undisputed, in_line)
    zero = np.zeros(len(to_member), np.int64)
    dealt, stays, at_once = as_runs(to_member, undisputed.topic, undisputed.partition, zero, zero.astype(bool))
    some = zero[hangs]
    order_dependent = as_runs(
        to_member[hangs], undisputed.topic[hangs], undisputed.partition[hangs], some, some.astype(bool)
    )[0]
    kept, moved = _given(undisputed, from_member)
    reason, waits = np.full(len(moved), OVER_QUOTA), np.full(len(moved), cooperative)
    taken, reason, waits = as_runs(getter, moved.topic, moved.first, reason, waits)
    return GroupAssignments(
        kept.concat(dealt).concat(taken),
        np.concatenate([np.full(len(kept), STAYS), stays, reason]),
        np.concatenate([np.zeros(len(kept), bool), at_once, waits]),
        {},
        order_dependent,
    )


def _dealt(
    specs: GroupSpecs, undisputed: UndisputedGroups, in_line: IntArray
) -> tuple[IntArray, BoolArray, IntArray, IntArray]:
    """To whom everything goes that nobody owns, and whether it may go elsewhere; then who gives to whom."""
    to_members, from_members, getters, hangs = [_NONE], [_NONE], [_NONE], [_NONE.astype(bool)]
    for members, load, topic in _groups(specs, undisputed, in_line):
        least = LeastLoaded(range(len(members)), load)
        dealt = np.array(least.takes(len(topic)), np.int64)
        to_members.append(members[dealt])
        hangs.append(hanging(topic, dealt))
        if max(load) > min(load) + 1:
            from_member, getter = np.array(steals_of(load), np.int64).T
            from_members.append(members[from_member])
            getters.append(members[getter])
    return np.concatenate(to_members), np.concatenate(hangs), np.concatenate(from_members), np.concatenate(getters)


def _groups(
    specs: GroupSpecs, undisputed: UndisputedGroups, in_line: IntArray
) -> Iterator[tuple[IntArray, list[int], IntArray]]:
    """Of each group its members, how many partitions each of them has, and the topic of each that nobody has."""
    groups = np.arange(specs.num_groups + 1)
    ends = np.searchsorted(specs.members.group[in_line], groups).tolist()
    free = np.searchsorted(specs.topics.group[undisputed.topic], groups).tolist()
    for group in np.flatnonzero(undisputed.groups).tolist():
        members = in_line[ends[group] : ends[group + 1]]
        yield members, undisputed.load[members].tolist(), undisputed.topic[free[group] : free[group + 1]]


def _given(undisputed: UndisputedGroups, from_member: IntArray) -> tuple[PartitionSlices, PartitionSlices]:
    """What members keep of what they own; and partition by partition what they give, in the order of `from_member`.

    They give the highest partition numbers, and of these the last topics.
    """
    if not len(from_member):
        return undisputed.owned, EMPTY_SLICES
    gives = np.bincount(from_member, minlength=len(undisputed.load))
    some = (gives > 0)[undisputed.owned.member]
    kept, given = keep_first(undisputed.owned.take(some), undisputed.load, undisputed.load - gives)
    given = given.expand()
    given = given.take(np.lexsort((-given.topic, -given.first, given.member)))
    order = np.argsort(from_member, kind="stable")
    turn = np.empty(len(from_member), np.int64)
    turn[order] = row_numbers(from_member[order])
    return undisputed.owned.take(~some).concat(kept), given.take(np.searchsorted(given.member, from_member) + turn)
