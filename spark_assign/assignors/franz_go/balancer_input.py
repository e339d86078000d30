"""The groups that franz-go's balancers see, and the balancer of homogeneous groups.

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

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate, chain

import numpy as np

from spark_assign.numeric.arrays import IntArray, values_by_key


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
    members_by_rack = values_by_key((rack, member) for member, rack in enumerate(group.member_rack))
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


# --- a group as franz-go's balancers see it, its owners, and its levels of members ----------------------------


NO_MEMBER = -1
NO_RACK, NO_MEMBER_RACK = -1, -2


@dataclass(frozen=True)
class FranzGoRules:
    """Behavior of the sticky balancers in one line of releases. The defaults are that of 1.22.

    Balancers of releases before 1.22 differ only if subscriptions differ, and from 1.20 also in what cooperative-sticky
    withholds.

    Attributes:
        before_1_22: a member that steals prefers partitions that it owned before, and partitions aren't restored to
            their owners after balancing.
        trusts_stale_claims: a claim of an older generation counts as ownership: the partition isn't withheld. If
            subscriptions differ, such a claim can stop the leader, or lead to two owners (before 1.21.4).
        uses_racks: members prefer partitions with a leader in their rack, as soon as a member has a rack (1.21; later
            releases only if they are configured to).
    """

    before_1_22: bool = False
    trusts_stale_claims: bool = False
    uses_racks: bool = False


FRANZ_GO_1_22 = FranzGoRules()
FRANZ_GO_1_21 = FranzGoRules(before_1_22=True, uses_racks=True)
FRANZ_GO_1_20 = FranzGoRules(before_1_22=True, trusts_stale_claims=True)


@dataclass(frozen=True)
class FranzGoGroup:
    """One group: members 0, 1, … in the leader's order, and topics 0, 1, … by name.

    Partitions are numbered consecutively, topic by topic.

    Attributes:
        num_members: number of members.
        partitions: number of partitions of each topic; 0 without metadata.
        subscribers: subscribers of each topic, ascending.
        owner: previous owner of each partition, which subscribes to it: the first member in the newest generation, or
            `NO_MEMBER`.
        stale: partition to the stale owner that might get it back: of all other owners, again the newest and first.
        rules: behavior of the balancer.
        leader_rack: rack of the leader of each partition, or `NO_RACK`; empty if racks aren't used.
        member_rack: rack of each member, or `NO_MEMBER_RACK`, which no leader has.
    """

    num_members: int
    partitions: list[int]
    subscribers: list[list[int]]
    owner: list[int]
    stale: dict[int, int] = field(default_factory=dict)
    rules: FranzGoRules = FRANZ_GO_1_22
    leader_rack: list[int] = field(default_factory=list)
    member_rack: list[int] = field(default_factory=list)

    @cached_property
    def first(self) -> list[int]:
        """Returns the first partition of each topic."""
        return [0, *accumulate(self.partitions)][:-1]

    @cached_property
    def topic(self) -> list[int]:
        """Returns the topic of each partition."""
        return [topic for topic, count in enumerate(self.partitions) for _ in range(count)]

    def partitions_of(self, topic: int) -> range:
        """Returns the partitions of a topic."""
        return range(self.first[topic], self.first[topic] + self.partitions[topic])


def count_loads(owner: Iterable[int], num_members: int) -> list[int]:
    """Returns the number of partitions of each member, given the owner of each partition."""
    counts = Counter(owner)
    return [counts[member] for member in range(num_members)]


def resolve_owners(
    members: IntArray, owned: IntArray, generation: IntArray, num_partitions: int
) -> tuple[IntArray, dict[int, int]]:
    """Returns the owner of each partition, and partition to its stale owner.

    Args:
        members, owned: owner and partition of each reported ownership, by member.
        generation: generation of each member.
        num_partitions: number of partitions.
    """
    owner = np.full(num_partitions, NO_MEMBER, np.int64)
    counts = np.bincount(owned, minlength=num_partitions)
    is_unique = counts[owned] == 1
    owner[owned[is_unique]] = members[is_unique]
    stale: dict[int, int] = {}
    newest: dict[int, int] = {}
    older: dict[int, int] = {}
    for member, partition in zip(members[~is_unique].tolist(), owned[~is_unique].tolist(), strict=True):
        # Generations aren't negative in franz-go; an unknown one counts as 0.
        member_generation = max(int(generation[member]), 0)
        if member_generation > newest.get(partition, -1):
            if partition in newest:
                stale[partition], older[partition] = int(owner[partition]), newest[partition]
            owner[partition], newest[partition] = member, member_generation
        elif member_generation > older.get(partition, -1):
            stale[partition], older[partition] = member, member_generation
    return owner, stale


class MemberHeap:
    """A heap of members by load. Only the load of its top changes, so members only sink."""

    def __init__(self, members: Iterable[int], load: list[int]) -> None:
        self._heap, self._load = list(members), load
        for position in reversed(range(len(self._heap) // 2)):
            self._sink(position)

    def take_many(self, num_times: int) -> list[int]:
        """Returns the least loaded member `num_times` times; each time, its load increases by one.

        Once all loads are equal, each round depends only on the positions in the heap, not on the members.
        """
        load, size = self._load, len(self._heap)
        loads = [load[member] for member in self._heap]
        num_until_level = size * max(loads) - sum(loads)
        if num_times < num_until_level + size:
            return self._take_each(num_times)
        members = self._take_each(num_until_level)
        rounds, num_remaining = divmod(num_times - num_until_level, size)
        positions, new_positions = _round(size)
        heap = self._heap
        for _ in range(rounds):
            members += [heap[position] for position in positions]
            heap = [heap[position] for position in new_positions]
        for member in heap:
            load[member] += rounds
        self._heap = heap
        return members + self._take_each(num_remaining)

    @property
    def least_load(self) -> int:
        """Returns the load of the least loaded member."""
        return self._load[self._heap[0]]

    def _take_each(self, num_times: int) -> list[int]:
        """Does the same one by one."""
        heap, load = self._heap, self._load
        size, members = len(heap), []
        for _ in range(num_times):
            top = heap[0]
            members.append(top)
            load[top] = new_load = load[top] + 1
            position, child = 0, 1
            while child < size:
                if child + 1 < size and load[heap[child + 1]] < load[heap[child]]:
                    child += 1
                if new_load <= load[heap[child]]:
                    break
                heap[position] = heap[child]
                position, child = child, 2 * child + 1
            heap[position] = top
        return members

    def _sink(self, position: int) -> None:
        """Moves the member at a position down."""
        heap, load = self._heap, self._load
        while (child := 2 * position + 1) < len(heap):
            if child + 1 < len(heap) and load[heap[child + 1]] < load[heap[child]]:
                child += 1
            if load[heap[position]] <= load[heap[child]]:
                return
            heap[position], heap[child] = heap[child], heap[position]
            position = child


@lru_cache(maxsize=64)
def _round(size: int) -> tuple[list[int], list[int]]:
    """Returns the positions from which a heap of equal loads takes each member once, and the positions afterward."""
    heap = MemberHeap(range(size), [0] * size)
    return heap._take_each(size), heap._heap


class LoadLevels:
    """Members by load, those of a level in the order in which they reached it."""

    def __init__(self, load: list[int]) -> None:
        self.of: dict[int, list[int]] = {}
        for member, level in enumerate(load):
            self.members_at(level).append(member)

    def members_at(self, level: int) -> list[int]:
        """Returns the list of members at a level, which can be changed."""
        return self.of.setdefault(level, [])

    def leave(self, level: int, member: int) -> None:
        """Removes a member; the last one of its level takes its position."""
        swap_remove(self.of[level], member)
        self.drop_if_empty(level)

    def drop_if_empty(self, level: int) -> None:
        """Removes a level without members."""
        if not self.of[level]:
            del self.of[level]


def swap_remove(values: list[int], value: int) -> None:
    """Removes a value from a list; the last one takes its position."""
    values[values.index(value)] = values[-1]
    values.pop()
