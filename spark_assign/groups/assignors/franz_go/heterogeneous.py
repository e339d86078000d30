"""Balances heterogeneous groups, given an order of topics and of disputed partitions.

Principles, in order of priority
    1. Balance as far as subscriptions allow.
    2. Stickiness: members keep what they own.

Steps
    1. Return: a disputed partition goes back to the owner of an older generation, if that is at least two below.
    2. Fill: each unassigned partition goes to the subscriber with the fewest partitions (in 1.21 among equals to one
       in the rack of its leader).
    3. Balance: a member with the fewest partitions steals from one with at least two more, directly or along a path of
       members that steal from each other, as long as there is one.
    4. Restore: partitions go back to their owners without changing loads (`restore_owners`; since 1.22).

Before 1.22, a member that steals prefers partitions that it owned before (`OriginalsFirst`).

Example: C0 subscribes to t, C1 to t and u, C2 to u. t and u have two partitions, all owned by C1 or C2.

    owned      C0: []      C1: [t0, t1]    C2: [u0, u1]
    balance    C0: [t0]    C1: [t1]        C2: [u0, u1]    (C0 steals from C1)
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from spark_assign.groups.assignors.franz_go.balancer_input import (
    NO_MEMBER,
    NO_RACK,
    FranzGoGroup,
    LoadLevels,
    MemberHeap,
    swap_remove,
)
from spark_assign.groups.assignors.franz_go.restore_owners import restore_owners


@dataclass(frozen=True)
class Steal:
    """A partition that moves from one member to another."""

    from_member: int
    to_member: int
    partition: int


class StealGraph:
    """The members, and what each can steal: for each topic and owner one partition, the first."""

    def __init__(self, group: FranzGoGroup, order: Iterable[int], owner: list[int], load: list[int]) -> None:
        """Builds the graph from the current owners."""
        self._topic, self._owner, self._load = group.topic, owner, load
        self._subscriptions: list[list[int]] = [[] for _ in range(group.num_members)]
        # Owners of each topic, in the order in which they were added, including those without partitions.
        self._owners: list[dict[int, list[int]]] = [{} for _ in group.partitions]
        for topic in order:
            for member in group.subscribers[topic]:
                self._subscriptions[member].append(topic)
            for partition in group.partitions_of(topic):
                if owner[partition] != NO_MEMBER:
                    self._add(partition, owner[partition])

    def _add(self, partition: int, member: int) -> None:
        """Adds a partition of a member."""
        self._owners[self._topic[partition]].setdefault(member, []).append(partition)

    def move(self, steal: Steal) -> None:
        """Records a steal."""
        partitions = self._owners[self._topic[steal.partition]][self._owner[steal.partition]]
        swap_remove(partitions, steal.partition)
        self._owner[steal.partition] = steal.to_member
        self._add(steal.partition, steal.to_member)

    def find(self, member: int) -> list[Steal]:
        """Returns the steals by which the member gets one more partition from one with at least two more; empty if
        there are none."""
        level = self._load[member]
        reached: dict[int, Steal | None] = {member: None}
        queue, visited = [(-level, 0, member)], set()
        while queue:
            negative_load, distance, current = heapq.heappop(queue)
            if -negative_load > level + 1:
                return self._path(reached, current)
            for topic in self._subscriptions[current]:
                if topic in visited:
                    continue  # all its owners are reached
                visited.add(topic)
                for owner, partitions in self._owners[topic].items():
                    if partitions and owner not in reached:
                        reached[owner] = Steal(owner, current, partitions[0])
                        heapq.heappush(queue, (-self._load[owner], distance + 1, owner))
        return []

    @staticmethod
    def _path(reached: dict[int, Steal | None], current: int) -> list[Steal]:
        """Returns the steals that lead to this member."""
        path = []
        while (steal := reached[current]) is not None:
            path.append(steal)
            current = steal.to_member
        return path


@dataclass(eq=False)
class _Reached:
    """A member that the search has reached, and the steal through which.

    Attributes:
        steal: steal from the member; None at the start.
        key: load (negative), distance, and member: the order of the search.
        is_original: whether the steal returns the partition to its original owner, which comes first.
        position: position in the heap.
        is_done: whether the search has continued from the member.
    """

    steal: Steal | None
    key: tuple[int, int, int]
    is_original: bool = False
    position: int = 0
    is_done: bool = False

    def precedes(self, other: _Reached) -> bool:
        """Checks whether the search continues from this member first; neither is first if both are original."""
        if self.is_original or other.is_original:
            return self.is_original and not other.is_original
        return self.key < other.key


@dataclass
class _GoHeap:
    """A heap like Go's `container/heap`: the order of equal elements matters."""

    items: list[_Reached] = field(default_factory=list)

    def push(self, item: _Reached) -> None:
        """Adds an element."""
        item.position = len(self.items)
        self.items.append(item)
        self._rise(item.position)

    def pop(self) -> _Reached:
        """Removes and returns the first element."""
        self._swap(0, len(self.items) - 1)
        item = self.items.pop()
        self._sink(0)
        return item

    def fix(self, position: int) -> None:
        """Restores the order after the element at a position has changed."""
        if not self._sink(position):
            self._rise(position)

    def _swap(self, first: int, second: int) -> None:
        items = self.items
        items[first], items[second] = items[second], items[first]
        items[first].position, items[second].position = first, second

    def _rise(self, position: int) -> None:
        while position and self.items[position].precedes(self.items[(position - 1) // 2]):
            self._swap(position, (position - 1) // 2)
            position = (position - 1) // 2

    def _sink(self, start: int) -> bool:
        position, items = start, self.items
        while (child := 2 * position + 1) < len(items):
            if child + 1 < len(items) and items[child + 1].precedes(items[child]):
                child += 1
            if not items[child].precedes(items[position]):
                break
            self._swap(position, child)
            position = child
        return position > start


class OriginalsFirst(StealGraph):
    """The same before 1.22: all partitions of a topic in their order, those that the member owned before first."""

    def __init__(
        self, group: FranzGoGroup, order: Iterable[int], owner: list[int], load: list[int], original_owner: list[int]
    ) -> None:
        """Builds the graph from the current and the original owners."""
        super().__init__(group, order, owner, load)
        self._original_owner, self._partitions_of = original_owner, group.partitions_of

    def find(self, member: int) -> list[Steal]:
        """Returns the steals by which the member gets one more partition from one with at least two more; empty if
        there are none."""
        level = self._load[member]
        reached = {member: _Reached(None, (-level, 0, member))}
        heap = _GoHeap()
        heap.push(reached[member])
        while heap.items:
            current = heap.pop()
            negative_load, distance, to_member = current.key
            if -negative_load > level + 1:
                return self._path({each: found.steal for each, found in reached.items()}, to_member)
            current.is_done = True
            for topic in self._subscriptions[to_member]:
                for partition in self._partitions_of(topic):
                    owner = self._owner[partition]
                    found = reached.get(owner)
                    is_original = self._original_owner[partition] == to_member
                    steal, key = Steal(owner, to_member, partition), (-self._load[owner], distance + 1, owner)
                    if found is None:
                        reached[owner] = found = _Reached(steal, key, is_original)
                        heap.push(found)
                    elif is_original and not (found.is_done or found.is_original):
                        found.steal, found.key, found.is_original = steal, key, True
                        heap.fix(found.position)
        return []


@dataclass(frozen=True)
class HeterogeneousAssignment:
    """The assignment of a heterogeneous group.

    Attributes:
        owner: owner of each partition.
        only_assigned: whether only unassigned partitions got an owner, and nothing else changed.
    """

    owner: list[int]
    only_assigned: bool


def plan_heterogeneous(group: FranzGoGroup, order: Sequence[int], stale: Sequence[int]) -> HeterogeneousAssignment:
    """Returns the assignment of a group.

    Args:
        group: the group.
        order: order of its topics.
        stale: order of the partitions in `group.stale` that can be returned.
    """
    partitions_by_member: list[list[int]] = [[] for _ in range(group.num_members)]
    for topic in order:
        for partition in group.partitions_of(topic):
            if group.owner[partition] != NO_MEMBER:
                partitions_by_member[group.owner[partition]].append(partition)
    original_owner = list(group.owner)
    for partition in stale:
        _return_to_stale_owner(partition, group.stale[partition], partitions_by_member, original_owner)
    load = [len(partitions) for partitions in partitions_by_member]
    owner = list(original_owner)
    _assign_unassigned(group, order, partitions_by_member, owner, load)
    if group.rules.before_1_22:
        graph: StealGraph = OriginalsFirst(group, order, owner, load, original_owner)
    else:
        graph = StealGraph(group, order, owner, load)
    stolen = _balance(graph, partitions_by_member, load)
    repaired = not group.rules.before_1_22 and restore_owners(group, order, partitions_by_member, original_owner)
    for member, partitions in enumerate(partitions_by_member):
        for partition in partitions:
            owner[partition] = member
    return HeterogeneousAssignment(owner, not stolen and not repaired)


def _return_to_stale_owner(
    partition: int, member: int, partitions_by_member: list[list[int]], original_owner: list[int]
) -> None:
    """Returns a partition to its stale owner if it has no owner, or one with at least two more partitions (step 1)."""
    owner = original_owner[partition]
    if owner != NO_MEMBER:
        if len(partitions_by_member[member]) + 1 >= len(partitions_by_member[owner]):
            return
        swap_remove(partitions_by_member[owner], partition)
    partitions_by_member[member].append(partition)
    original_owner[partition] = member


def _assign_unassigned(
    group: FranzGoGroup, order: Sequence[int], partitions_by_member: list[list[int]], owner: list[int], load: list[int]
) -> None:
    """Assigns each unassigned partition to the subscriber with the fewest partitions (step 2)."""
    for topic in order:
        unassigned = [partition for partition in group.partitions_of(topic) if owner[partition] == NO_MEMBER]
        if not unassigned or not group.subscribers[topic]:
            continue
        if group.rules.before_1_22:
            for partition in unassigned:  # among equals the first subscriber
                rack = group.leader_rack[partition] if group.leader_rack else NO_RACK
                racks = group.member_rack or load
                owner[partition] = member = min(
                    group.subscribers[topic], key=lambda each: (load[each], rack != NO_RACK and racks[each] != rack)
                )
                partitions_by_member[member].append(partition)
                load[member] += 1
            continue
        heap = MemberHeap(group.subscribers[topic], load)
        for partition, member in zip(unassigned, heap.take_many(len(unassigned)), strict=True):
            owner[partition] = member
            partitions_by_member[member].append(partition)


def _balance(graph: StealGraph, partitions_by_member: list[list[int]], load: list[int]) -> bool:
    """Lets the members with the fewest partitions steal while possible (step 3); returns whether anything was
    stolen."""
    levels, stolen = LoadLevels(load), False
    while len(levels.of) > 1:
        bottom = min(levels.of)
        low, high = levels.of[bottom], levels.of[max(levels.of)]
        if max(levels.of) <= bottom + 1:
            break
        while low:
            member = low[0]
            path = graph.find(member)
            if not path:
                # The member can't steal from any other, so its load is final.
                levels.leave(bottom, member)
                continue
            stolen = True
            for steal in path:
                _move(steal, partitions_by_member, levels, load)
                graph.move(steal)
            if not high:
                break
    return stolen


def _move(steal: Steal, partitions_by_member: list[list[int]], levels: LoadLevels, load: list[int]) -> None:
    """Moves a stolen partition."""
    swap_remove(partitions_by_member[steal.from_member], steal.partition)
    partitions_by_member[steal.to_member].append(steal.partition)
    for member, change in ((steal.from_member, -1), (steal.to_member, 1)):
        levels.leave(load[member], member)
        load[member] += change
        levels.members_at(load[member]).append(member)
