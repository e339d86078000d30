"""The last step where subscriptions differ: who has how many is settled, now as much as possible stays where it was.

Topics with the same subscribers are a class. Of a class it matters only how many partitions each member has (a cell),
and with how many it came: each one more is a move. A rotation gives one of some cells to others and saves a move; it
may swap the loads of two members that differ by one. Rotations are turned until none is left (Bellman and Ford find
them as cycles of negative cost), then the partitions are handed out anew, to those that came with them first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_assign.groups.assignors.franz_go.balancer_input import NO_MEMBER, FranzGoGroup

_INFINITE = 1 << 62
_NONE = -1


@dataclass
class Cell:
    """How many partitions of a class a member has, with how many it came, and what one more or one less costs."""

    subscriber_set: int
    member: int
    count: int = 0
    original_count: int = 0

    @property
    def add_cost(self) -> int:
        """What one more costs."""
        return int(self.count >= self.original_count)

    @property
    def drop_cost(self) -> int:
        """What one less costs."""
        if self.count == 0:
            return _INFINITE
        return -int(self.count > self.original_count)

    def capacity(self, delta: int) -> int:
        """How many can come or go before the next one costs otherwise."""
        if delta > 0:
            return self.original_count - self.count if self.count < self.original_count else _INFINITE
        return self.count - self.original_count if self.count > self.original_count else self.count


def restore_owners(group: FranzGoGroup, order: Sequence[int], held: list[list[int]], came: list[int]) -> bool:
    """Hand out anew what can stay where it was; says whether anything was handed out anew.

    Args:
        group: whose subscriptions differ.
        order: of its topics.
        held: of each member what it has; is changed.
        came: of each partition who had it before.
    """
    cells, place, classes = _cells(group, order, held, came)
    if not cells:
        return False
    moved = False
    while cycles := _find_rotations(cells, group.num_members, _loads(cells, group.num_members)):
        moved = True
        for cycle, shifts in cycles:
            turn = 1 if shifts else min(cells[at].capacity(delta) for at, delta in cycle)
            for at, delta in cycle:
                cells[at].count += delta * turn
    crossed = any(
        came[partition] not in (NO_MEMBER, member) for member, partitions in enumerate(held) for partition in partitions
    )
    if not moved and not crossed:
        return False
    _reassign(group, cells, place, classes, held, came)
    return True


def _loads(cells: list[Cell], members: int) -> list[int]:
    loads = [0] * members
    for cell in cells:
        loads[cell.member] += cell.count
    return loads


def _cells(
    group: FranzGoGroup, order: Sequence[int], held: list[list[int]], came: list[int]
) -> tuple[list[Cell], dict[tuple[int, int], int], list[int]]:
    """The cells, by member and class; the place of each; and of each topic its class."""
    numbers: dict[tuple[int, ...], int] = {}
    classes = [0] * len(group.partitions)
    for topic in order:
        classes[topic] = numbers.setdefault(tuple(group.subscribers[topic]), len(numbers))
    of_member: list[list[int]] = [[] for _ in range(group.num_members)]
    for subscribers, row in numbers.items():
        for member in subscribers:
            of_member[member].append(row)
    filled = {classes[group.topic[partition]] for partitions in held for partition in partitions}
    cells = [Cell(row, member) for member, rows in enumerate(of_member) for row in rows if row in filled]
    place = {(cell.subscriber_set, cell.member): at for at, cell in enumerate(cells)}
    for member, partitions in enumerate(held):
        for partition in partitions:
            cells[place[classes[group.topic[partition]], member]].count += 1
    for partition, member in enumerate(came):
        if member != NO_MEMBER:
            cells[place[classes[group.topic[partition]], member]].original_count += 1
    return cells, place, classes


def _reassign(
    group: FranzGoGroup,
    cells: list[Cell],
    place: dict[tuple[int, int], int],
    classes: list[int],
    held: list[list[int]],
    came: list[int],
) -> None:
    need = [cell.count for cell in cells]
    piles: dict[int, list[int]] = {}
    every = [partition for partitions in held for partition in partitions]
    for partitions in held:
        partitions.clear()
    for partition in every:
        row = classes[group.topic[partition]]
        at = place.get((row, came[partition]), _NONE)
        if at != _NONE and need[at] > 0:
            need[at] -= 1
            held[came[partition]].append(partition)
        else:
            piles.setdefault(row, []).append(partition)
    for cell, lacks in zip(cells, need, strict=True):
        pile = piles.get(cell.subscriber_set, [])
        held[cell.member] += pile[:lacks]
        del pile[:lacks]


def _find_rotations(cells: list[Cell], members: int, loads: list[int]) -> list[tuple[list[tuple[int, int]], bool]]:
    """Rotations that save moves, each as cells and what they get, and whether it shifts load; no two have one node.

    Nodes are the classes, the members, and one for each load that there is: a member that takes one more comes to the
    load above, and a member on that load that gives one comes down.
    """
    prices = [(cell.subscriber_set, cell.member, cell.add_cost, cell.drop_cost) for cell in cells]
    if all(drop >= 0 for _, _, _, drop in prices):
        return []
    rows = max(row for row, _, _, _ in prices) + 1
    first_level = rows + members
    level_at: dict[int, int] = {}
    for load in loads:
        if load > 0:
            level_at.setdefault(load, first_level + len(level_at))
    nodes = first_level + len(level_at)
    distance, via_cell, via = [0] * nodes, [_NONE] * nodes, [_NONE] * nodes

    def relax(origin: int, to: int, cost: int, cell: int) -> bool:
        if distance[origin] + cost >= distance[to]:
            return False
        distance[to], via_cell[to], via[to] = distance[origin] + cost, cell, origin
        return True

    for _ in range(nodes):
        changed = False
        for at, (row, member, add, drop) in enumerate(prices):
            changed |= relax(row, rows + member, add, at)
            changed |= relax(rows + member, row, drop, at)
        for member, load in enumerate(loads):
            if load + 1 in level_at:
                changed |= relax(rows + member, level_at[load + 1], 0, _NONE)
            if load > 0:
                changed |= relax(level_at[load], rows + member, 0, _NONE)
        if not changed:
            return []
        if roots := _on_cycles(via):
            return [_cycle(root, via, via_cell, rows, first_level) for root in roots]
    return []


def _on_cycles(via: list[int]) -> list[int]:
    """A node of each cycle."""
    seen = [_NONE] * len(via)
    roots = []
    for start in range(len(via)):
        if seen[start] != _NONE:
            continue
        node = start
        while node != _NONE and seen[node] == _NONE:
            seen[node] = start
            node = via[node]
        if node != _NONE and seen[node] == start:
            roots.append(node)
    return roots


def _cycle(
    root: int, via: list[int], via_cell: list[int], rows: int, first_level: int
) -> tuple[list[tuple[int, int]], bool]:
    steps, shifts = [], False
    node = root
    while True:
        if node >= first_level:
            shifts = True
        elif via_cell[node] != _NONE:
            steps.append((via_cell[node], 1 if node >= rows else -1))
        node = via[node]
        if node == root:
            return steps, shifts
