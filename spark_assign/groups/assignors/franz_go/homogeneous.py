"""Balances homogeneous groups.

Principles, in order of priority
    1. Balance: the numbers of partitions of two members differ by at most one.
    2. Stickiness: members keep what they own.

Steps
    0. Racks (only 1.21): an unassigned partition goes to the member with the fewest in the rack of its leader, if that
       has less than an even share, rounded up.
    1. Fill: each unassigned partition goes to the member with the fewest (by a heap).
    2. Steal: members with the fewest take from those with the most, in pairs, level by level.

Example: topic t has five partitions, and C1 joins.

    owned     C0: [t0, t1, t2, t3]    C1: []
    fill      C0: [t0, t1, t2, t3]    C1: [t4]
    target    C0: [t0, t1, t2]        C1: [t4, t3]

Without racks, the member that gets the next partition depends only on loads, and the stolen partition only on names and
numbers. So the order of topics affects only the order of the unassigned partitions (`order_dependent_positions`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from spark_assign.groups.assignors.franz_go.balancer_input import (
    NO_MEMBER,
    FranzGoGroup,
    LoadLevels,
    MemberHeap,
    count_loads,
)


@dataclass(frozen=True)
class HomogeneousAssignment:
    """The assignment of a homogeneous group.

    Attributes:
        owner: owner of each partition.
        unassigned: partitions without a previous owner, in assignment order.
        new_owner: member that got each of them.
        from_members: members from which partitions were stolen.
    """

    owner: list[int]
    unassigned: list[int]
    new_owner: list[int]
    from_members: set[int]


def plan_homogeneous(
    group: FranzGoGroup, previous_owner: list[int], order: Sequence[int] | None = None
) -> HomogeneousAssignment:
    """Returns the assignment of a group, topic by topic (`order`, default: by name), given the previous owner of each
    partition."""
    owner, load = list(previous_owner), count_loads(previous_owner, group.num_members)
    partitions = chain.from_iterable(map(group.partitions_of, range(len(group.partitions)) if order is None else order))
    unassigned = [partition for partition in partitions if owner[partition] == NO_MEMBER]
    by_rack = _assign_by_rack(group, unassigned, load) if group.leader_rack else {}
    remaining = [partition for partition in unassigned if partition not in by_rack]
    heap = MemberHeap(range(group.num_members), load)
    new_owner = by_rack | dict(zip(remaining, heap.take_many(len(remaining)), strict=True))
    for partition, member in new_owner.items():
        owner[partition] = member
    steals = plan_steals(load)
    from_members = {from_member for from_member, _ in steals}
    owned = _owned_partitions(group, previous_owner, from_members)
    for partition, member in new_owner.items():
        if member in from_members:
            owned[member].append(partition)
    for from_member, to_member in steals:
        owner[owned[from_member].pop()] = to_member
    return HomogeneousAssignment(owner, unassigned, [new_owner[partition] for partition in unassigned], from_members)


def _assign_by_rack(group: FranzGoGroup, unassigned: list[int], load: list[int]) -> dict[int, int]:
    """Returns the partitions that go to a member in the rack of their leader, in this order, and counts them."""
    quota = -(-len(group.leader_rack) // group.num_members)
    members_by_rack: dict[int, list[int]] = {}
    for member, rack in enumerate(group.member_rack):
        members_by_rack.setdefault(rack, []).append(member)
    heaps = {rack: MemberHeap(members, load) for rack, members in members_by_rack.items()}
    new_owner = {}
    for partition in unassigned:
        heap = heaps.get(group.leader_rack[partition])
        if heap is not None and heap.least_load < quota:
            (new_owner[partition],) = heap.take_many(1)
    return new_owner


def _owned_partitions(group: FranzGoGroup, owner: list[int], from_members: set[int]) -> dict[int, list[int]]:
    """Returns the partitions of these members, sorted by partition number and topic."""
    owned: dict[int, list[int]] = {from_member: [] for from_member in from_members}
    for partition, member in enumerate(owner):
        if member in from_members:
            owned[member].append(partition)
    for partitions in owned.values():
        partitions.sort(key=lambda partition: (partition - group.first[group.topic[partition]], group.topic[partition]))
    return owned


def plan_steals(load: list[int]) -> list[tuple[int, int]]:
    """Returns (from_member, to_member) of each steal, until no two members differ by more than one."""
    levels = LoadLevels(load)
    steals: list[tuple[int, int]] = []
    top, bottom = max(levels.of), min(levels.of)
    while top > bottom + 1:
        low, high = levels.of[bottom], levels.of[top]
        pairs = min(len(low), len(high))
        steals += zip(high[:pairs], low[:pairs], strict=True)
        levels.members_at(bottom + 1).extend(low[:pairs])
        levels.members_at(top - 1).extend(high[:pairs])
        del low[:pairs], high[:pairs]
        if not low:
            levels.drop_if_empty(bottom)
            bottom += 1
        if not high:
            levels.drop_if_empty(top)
            top -= 1
    return steals
