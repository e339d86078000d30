"""Restores original owners in heterogeneous groups without changing how balanced the loads are (the last step).

Topics with the same subscribers form a subscriber set. Within a set, only the number of partitions of each member (a
`Cell`) and its original number matter: each one above that is a move. A rotation passes partitions from cell to cell
and saves a move; it can swap the loads of two members that differ by one.

Steps
    1. Count the cells.
    2. Rotate while there is a cycle of negative cost (Bellman-Ford).
    3. Reassign the partitions of each set, to their original owners first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_assign.groups.assignors.franz_go.balancer_input import NO_MEMBER, FranzGoGroup

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
    set_numbers: dict[tuple[int, ...], int] = {}
    topic_set = [0] * len(group.partitions)
    for topic in order:
        topic_set[topic] = set_numbers.setdefault(tuple(group.subscribers[topic]), len(set_numbers))
    member_sets: list[list[int]] = [[] for _ in range(group.num_members)]
    for subscribers, set_number in set_numbers.items():
        for member in subscribers:
            member_sets[member].append(set_number)
    used_sets = {topic_set[group.topic[partition]] for partitions in partitions_by_member for partition in partitions}
    cells = [
        Cell(set_number, member)
        for member, sets in enumerate(member_sets)
        for set_number in sets
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
