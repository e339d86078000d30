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
    4. Restore: partitions go back to their owners without changing loads (`heterogeneous`; since 1.22).

Before 1.22, a member that steals prefers partitions that it owned before (`OriginalsFirst`).

Example: C0 subscribes to t, C1 to t and u, C2 to u. t and u have two partitions, all owned by C1 or C2.

    owned      C0: []      C1: [t0, t1]    C2: [u0, u1]
    balance    C0: [t0]    C1: [t1]        C2: [u0, u1]    (C0 steals from C1)
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from spark_assign.assignors.franz_go.balancer_input import (
    NO_MEMBER,
    NO_RACK,
    FranzGoGroup,
    LoadLevels,
    MemberHeap,
    swap_remove,
)
from spark_assign.numeric.arrays import number_lists

MOST_REACHED = 20_000_000
"""Maximum number of members that all searches for steals of a group reach, which takes up to a minute."""


class TooManyStealsError(Exception):
    """The searches for steals of a group take too long."""


@dataclass(frozen=True)
class Steal:
    """A partition that moves from one member to another."""

    from_member: int
    to_member: int
    partition: int


class StealGraph:
    """The members, and what each can steal: for each topic and owner one partition, the first.

    If a member can't steal, neither can those that it reaches, and no later steal involves them or their topics: the
    loads of all of them differ by one at most. So no other search continues through these topics (`_final`).
    """

    def __init__(self, group: FranzGoGroup, order: Iterable[int], owner: list[int], load: list[int]) -> None:
        """Builds the graph from the current owners."""
        self._topic, self._owner, self._load = group.topic, owner, load
        self._subscriptions = _subscriptions(group, list(order))
        # Owners of each topic, in the order in which they were added, including those without partitions.
        self._owners: list[dict[int, list[int]]] = [{} for _ in group.partitions]
        self._final, self._final_lists = set[int](), set[int]()
        self._num_reached = 0
        for topic in order:
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
        queue, visited, lists = [(-level, 0, member)], set[int](), set[int]()
        while queue:
            negative_load, distance, current = heapq.heappop(queue)
            if -negative_load > level + 1:
                return self._path(reached, current)
            topics = self._subscriptions[current]
            if id(topics) in lists or id(topics) in self._final_lists:
                continue
            lists.add(id(topics))
            for topic in topics:
                if topic in visited or topic in self._final:
                    continue  # all its owners are reached
                visited.add(topic)
                for owner, partitions in self._owners[topic].items():
                    if partitions and owner not in reached:
                        reached[owner] = Steal(owner, current, partitions[0])
                        heapq.heappush(queue, (-self._load[owner], distance + 1, owner))
        self._final |= visited
        self._final_lists |= lists
        return []

    def _path(self, reached: dict[int, Steal | None], current: int) -> list[Steal]:
        """Returns the steals that lead to this member. Raises TooManyStealsError."""
        self._num_reached += len(reached)
        if self._num_reached > MOST_REACHED:
            problem = f"{len(self._load):,} members, {len(self._owner):,} partitions"
            raise TooManyStealsError(f"{problem}: their balance takes more than {MOST_REACHED:,} steps")
        path = []
        while (steal := reached[current]) is not None:
            path.append(steal)
            current = steal.to_member
        return path


def _subscriptions(group: FranzGoGroup, order: Sequence[int]) -> list[list[int]]:
    """Returns the topics of each member in this order. Members that subscribe to the same topics share a list."""
    numbers, sets = number_lists([group.subscribers[topic] for topic in order])
    places: list[list[int]] = [[] for _ in sets]
    for place, number in enumerate(numbers):
        places[number].append(place)
    sets_of: list[list[int]] = [[] for _ in range(group.num_members)]
    for number, members in enumerate(sets):
        for member in members:
            sets_of[member].append(number)
    topics = {
        key: [order[place] for place in sorted(chain.from_iterable(places[number] for number in key))]
        for key in set(map(tuple, sets_of))
    }
    return [topics[tuple(each)] for each in sets_of]


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
    """The same before 1.22: all partitions of a topic in their order, those that the member owned before first.

    Once the owners of a topic are reached, only its partitions that a member owned before change anything.
    """

    def __init__(
        self, group: FranzGoGroup, order: Iterable[int], owner: list[int], load: list[int], original_owner: list[int]
    ) -> None:
        """Builds the graph from the current and the original owners."""
        super().__init__(group, order, owner, load)
        self._original_owner = original_owner
        self._originals: list[dict[int, list[int]]] = [{} for _ in range(group.num_members)]
        for topic in order:
            for partition in group.partitions_of(topic):
                if original_owner[partition] != NO_MEMBER:
                    self._originals[original_owner[partition]].setdefault(topic, []).append(partition)

    def _add(self, partition: int, member: int) -> None:
        """Adds a partition to the heap of a member's partitions of its topic."""
        heapq.heappush(self._owners[self._topic[partition]].setdefault(member, []), partition)

    def move(self, steal: Steal) -> None:
        """Records a steal. The partition stays in the heap of its former owner until it is its first."""
        self._owner[steal.partition] = steal.to_member
        self._add(steal.partition, steal.to_member)

    def _firsts(self, topic: int, reached: Container[int]) -> Iterator[int]:
        """Yields the first partition of each owner of a topic that isn't reached yet."""
        for owner, partitions in self._owners[topic].items():
            while partitions and self._owner[partitions[0]] != owner:
                heapq.heappop(partitions)
            if partitions and owner not in reached:
                yield partitions[0]

    def find(self, member: int) -> list[Steal]:
        """Returns the steals by which the member gets one more partition from one with at least two more; empty if
        there are none."""
        if id(self._subscriptions[member]) in self._final_lists:
            return []
        level = self._load[member]
        reached = {member: _Reached(None, (-level, 0, member))}
        visited, lists = set[int](), set[int]()
        heap = _GoHeap()
        heap.push(reached[member])
        while heap.items:
            current = heap.pop()
            negative_load, distance, to_member = current.key
            if -negative_load > level + 1:
                return self._path({each: found.steal for each, found in reached.items()}, to_member)
            current.is_done = True
            originals, topics = self._originals[to_member], self._subscriptions[to_member]
            for topic in originals if id(topics) in lists else topics:
                partitions = originals.get(topic, [])
                if topic not in visited:
                    visited.add(topic)
                    partitions = sorted({*partitions, *self._firsts(topic, reached)})
                for partition in partitions:
                    owner = self._owner[partition]
                    found = reached.get(owner)
                    is_original = self._original_owner[partition] == to_member
                    if found is not None and (not is_original or found.is_done or found.is_original):
                        continue
                    steal, key = Steal(owner, to_member, partition), (-self._load[owner], distance + 1, owner)
                    if found is None:
                        reached[owner] = found = _Reached(steal, key, is_original)
                        heap.push(found)
                    else:
                        found.steal, found.key, found.is_original = steal, key, True
                        heap.fix(found.position)
            lists.add(id(topics))
        self._final_lists.update(id(self._subscriptions[each]) for each in reached)
        return []


class _FewestFirst:
    """Subscribers, those with the fewest partitions first, and among equals the first in a rack, or the first of all.

    Loads only rise, so an entry of a heap is corrected when it is the first.
    """

    def __init__(self, subscribers: Sequence[int], load: list[int], racks: Sequence[int]) -> None:
        self._load, self._heaps = load, defaultdict[int, list[tuple[int, int, int]]](list)
        for place, member in enumerate(subscribers):
            for rack in {NO_RACK, *([racks[member]] if racks else [])}:
                self._heaps[rack].append((0, place, member))

    def take(self, rack: int) -> int:
        """Returns the subscriber that gets a partition whose leader is in a rack."""
        first, in_rack = self._first(NO_RACK), self._first(rack) if rack in self._heaps else None
        load, _, member = in_rack if in_rack is not None and in_rack[0] == first[0] else first
        self._load[member] = load + 1
        return member

    def _first(self, rack: int) -> tuple[int, int, int]:
        heap = self._heaps[rack]
        while heap[0][0] != self._load[heap[0][2]]:
            _, place, member = heap[0]
            heapq.heapreplace(heap, (self._load[member], place, member))
        return heap[0]


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
    fewest_first: dict[int, _FewestFirst] = {}
    for topic in order:
        unassigned = [partition for partition in group.partitions_of(topic) if owner[partition] == NO_MEMBER]
        if not unassigned or not group.subscribers[topic]:
            continue
        if group.rules.before_1_22:
            members = group.subscribers[topic]
            if id(members) not in fewest_first:
                fewest_first[id(members)] = _FewestFirst(members, load, group.member_rack)
            for partition in unassigned:
                rack = group.leader_rack[partition] if group.leader_rack else NO_RACK
                owner[partition] = member = fewest_first[id(members)].take(rack)
                partitions_by_member[member].append(partition)
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


# --- restores original owners in heterogeneous groups without changing how balanced the loads are (the last step) ---
#
# Topics with the same subscribers form a subscriber set. Within a set, only the number of partitions of each member (a
# `Cell`) and its original number matter: each one above that is a move. A rotation passes partitions from cell to cell
# and saves a move; it can swap the loads of two members that differ by one.
#
# Steps
#     1. Count the cells.
#     2. Rotate while there is a cycle of negative cost (Bellman-Ford).
#     3. Reassign the partitions of each set, to their original owners first.


_INFINITE = 1 << 62
_NONE = -1


@dataclass
class Cell:
    """The number of partitions of a subscriber set that a member has, its original number, and the cost of a change."""

    subscriber_set: int
    member: int
    count: int = 0
    original_count: int = 0

    @property
    def add_cost(self) -> int:
        """Returns the cost of one more partition."""
        return int(self.count >= self.original_count)

    @property
    def drop_cost(self) -> int:
        """Returns the cost of one less."""
        if self.count == 0:
            return _INFINITE
        return -int(self.count > self.original_count)

    def capacity(self, delta: int) -> int:
        """Returns how many partitions can be added or dropped until the cost changes."""
        if delta > 0:
            return self.original_count - self.count if self.count < self.original_count else _INFINITE
        return self.count - self.original_count if self.count > self.original_count else self.count


def restore_owners(
    group: FranzGoGroup, order: Sequence[int], partitions_by_member: list[list[int]], original_owner: list[int]
) -> bool:
    """Restores original owners; returns whether anything was reassigned.

    Args:
        group: a heterogeneous group.
        order: order of its topics.
        partitions_by_member: partitions of each member; changed in place.
        original_owner: owner of each partition before balancing.
    """
    cells, cell_index, topic_set = _cells(group, order, partitions_by_member, original_owner)
    if not cells:
        return False
    moved = False
    while cycles := _find_rotations(cells, group.num_members, _loads(cells, group.num_members)):
        moved = True
        for cycle, shifts_load in cycles:
            amount = 1 if shifts_load else min(cells[cell].capacity(delta) for cell, delta in cycle)
            for cell, delta in cycle:
                cells[cell].count += delta * amount
    crossed = any(
        original_owner[partition] not in (NO_MEMBER, member)
        for member, partitions in enumerate(partitions_by_member)
        for partition in partitions
    )
    if not moved and not crossed:
        return False
    _reassign(group, cells, cell_index, topic_set, partitions_by_member, original_owner)
    return True


def _loads(cells: list[Cell], num_members: int) -> list[int]:
    """Returns the number of partitions of each member."""
    loads = [0] * num_members
    for cell in cells:
        loads[cell.member] += cell.count
    return loads


def _cells(
    group: FranzGoGroup, order: Sequence[int], partitions_by_member: list[list[int]], original_owner: list[int]
) -> tuple[list[Cell], dict[tuple[int, int], int], list[int]]:
    """Returns the cells, by member and set; the index of each by (set, member); and the set of each topic (step 1)."""
    numbers, sets = number_lists([group.subscribers[topic] for topic in order])
    topic_set = [0] * len(group.partitions)
    for topic, number in zip(order, numbers, strict=True):
        topic_set[topic] = number
    member_sets: list[list[int]] = [[] for _ in range(group.num_members)]
    for set_number, subscribers in enumerate(sets):
        for member in subscribers:
            member_sets[member].append(set_number)
    used_sets = {topic_set[group.topic[partition]] for partitions in partitions_by_member for partition in partitions}
    cells = [
        Cell(set_number, member)
        for member, of_member in enumerate(member_sets)
        for set_number in of_member
        if set_number in used_sets
    ]
    cell_index = {(cell.subscriber_set, cell.member): index for index, cell in enumerate(cells)}
    for member, partitions in enumerate(partitions_by_member):
        for partition in partitions:
            cells[cell_index[topic_set[group.topic[partition]], member]].count += 1
    for partition, member in enumerate(original_owner):
        if member != NO_MEMBER:
            cells[cell_index[topic_set[group.topic[partition]], member]].original_count += 1
    return cells, cell_index, topic_set


def _reassign(
    group: FranzGoGroup,
    cells: list[Cell],
    cell_index: dict[tuple[int, int], int],
    topic_set: list[int],
    partitions_by_member: list[list[int]],
    original_owner: list[int],
) -> None:
    """Reassigns the partitions of each set, to their original owners first (step 3)."""
    num_missing = [cell.count for cell in cells]
    unassigned: dict[int, list[int]] = {}
    all_partitions = [partition for partitions in partitions_by_member for partition in partitions]
    for partitions in partitions_by_member:
        partitions.clear()
    for partition in all_partitions:
        set_number = topic_set[group.topic[partition]]
        index = cell_index.get((set_number, original_owner[partition]), _NONE)
        if index != _NONE and num_missing[index] > 0:
            num_missing[index] -= 1
            partitions_by_member[original_owner[partition]].append(partition)
        else:
            unassigned.setdefault(set_number, []).append(partition)
    for cell, count in zip(cells, num_missing, strict=True):
        set_partitions = unassigned.get(cell.subscriber_set, [])
        partitions_by_member[cell.member] += set_partitions[:count]
        del set_partitions[:count]


def _find_rotations(cells: list[Cell], num_members: int, loads: list[int]) -> list[tuple[list[tuple[int, int]], bool]]:
    """Returns disjoint rotations that save moves: (cell, change) pairs, and whether it shifts load (step 2).

    Nodes are the sets, the members, and one for each load. A member that gets one more reaches the next load; a member
    at that load that gives one comes down.
    """
    costs = [(cell.subscriber_set, cell.member, cell.add_cost, cell.drop_cost) for cell in cells]
    if all(drop >= 0 for _, _, _, drop in costs):
        return []
    num_sets = max(set_number for set_number, _, _, _ in costs) + 1
    first_level = num_sets + num_members
    level_at: dict[int, int] = {}
    for load in loads:
        if load > 0:
            level_at.setdefault(load, first_level + len(level_at))
    num_nodes = first_level + len(level_at)
    distance, previous_cell, previous_node = [0] * num_nodes, [_NONE] * num_nodes, [_NONE] * num_nodes

    def relax(origin: int, target: int, cost: int, cell: int) -> bool:
        if distance[origin] + cost >= distance[target]:
            return False
        distance[target], previous_cell[target], previous_node[target] = distance[origin] + cost, cell, origin
        return True

    for _ in range(num_nodes):
        changed = False
        for cell, (set_number, member, add, drop) in enumerate(costs):
            changed |= relax(set_number, num_sets + member, add, cell)
            changed |= relax(num_sets + member, set_number, drop, cell)
        for member, load in enumerate(loads):
            if load + 1 in level_at:
                changed |= relax(num_sets + member, level_at[load + 1], 0, _NONE)
            if load > 0:
                changed |= relax(level_at[load], num_sets + member, 0, _NONE)
        if not changed:
            return []
        if roots := _on_cycles(previous_node):
            return [_cycle(root, previous_node, previous_cell, num_sets, first_level) for root in roots]
    return []


def _on_cycles(previous_node: list[int]) -> list[int]:
    """Returns a node of each cycle."""
    seen = [_NONE] * len(previous_node)
    roots = []
    for start in range(len(previous_node)):
        if seen[start] != _NONE:
            continue
        node = start
        while node != _NONE and seen[node] == _NONE:
            seen[node] = start
            node = previous_node[node]
        if node != _NONE and seen[node] == start:
            roots.append(node)
    return roots


def _cycle(
    root: int, previous_node: list[int], previous_cell: list[int], num_sets: int, first_level: int
) -> tuple[list[tuple[int, int]], bool]:
    """Returns the cycle through a node."""
    steps, shifts_load = [], False
    node = root
    while True:
        if node >= first_level:
            shifts_load = True
        elif previous_cell[node] != _NONE:
            steps.append((previous_cell[node], 1 if node >= num_sets else -1))
        node = previous_node[node]
        if node == root:
            return steps, shifts_load
