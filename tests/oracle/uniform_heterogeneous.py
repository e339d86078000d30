"""Steps 2 and 3 of uniform for heterogeneous groups, partition by partition as in Kafka's class."""

from __future__ import annotations

from collections.abc import Sequence

_MAX_PASSES = 16
NO_MEMBER = -1


def rebalance(
    owners: list[list[int]], loads: list[int], subscribers: Sequence[Sequence[int]], ranks: Sequence[int]
) -> list[tuple[int, int, int, int]]:
    """Steps 2 and 3, with the arguments and the result of `assignors.server.uniform.rebalance`."""
    partitions = list(map(len, owners))
    ordered_topics = sorted(
        range(len(partitions)),
        key=lambda topic: (-partitions[topic] / len(subscribers[topic]), len(subscribers[topic]), ranks[topic]),
    )
    moves: list[tuple[int, int, int, int]] = []
    for topic in ordered_topics:
        moves += [(topic, *move) for move in _assign_unassigned(owners[topic], subscribers[topic], loads)]
    _balance([topic for topic in ordered_topics if len(subscribers[topic]) > 1], owners, subscribers, loads, moves)
    return moves


def _assign_unassigned(owner: list[int], subscribers: Sequence[int], loads: list[int]) -> list[tuple[int, int, int]]:
    """Runs step 2 for one topic; returns (partition, from_member, to_member) of each assigned partition."""
    unassigned = [partition for partition, member in enumerate(owner) if member == NO_MEMBER]
    if not unassigned:
        return []
    least_loaded = LeastLoadedMembers(sort_by_load(subscribers, loads), loads)
    for partition in unassigned:
        member = least_loaded.next_member()
        owner[partition] = member
        loads[member] += 1
    return [(partition, NO_MEMBER, owner[partition]) for partition in unassigned]


def _balance(
    topics: Sequence[int],
    owners: list[list[int]],
    subscribers: Sequence[Sequence[int]],
    loads: list[int],
    moves: list[tuple[int, int, int, int]],
) -> None:
    """Runs step 3. As in Kafka, the first topic counts as one that moved something."""
    last = None
    for _ in range(_MAX_PASSES):
        for topic in topics:
            if topic == last:
                return
            moved = _balance_topic(owners[topic], subscribers[topic], loads)
            moves += [(topic, *move) for move in moved]
            if moved or last is None:
                last = topic


def _balance_topic(owner: list[int], subscribers: Sequence[int], loads: list[int]) -> list[tuple[int, int, int]]:
    """Runs step 3 for one topic; returns (partition, from_member, to_member) of each move."""
    order = sort_by_load(subscribers, loads)
    if loads[order[-1]] - loads[order[0]] <= 1:
        return []
    # What members had before: they can't give the partitions that they take now.
    movable: dict[int, list[int]] = {}
    for partition, member in enumerate(owner):
        movable.setdefault(member, []).append(partition)
    # Both ranges use one list: members that can't give change their position in it.
    least_loaded, most_loaded = LeastLoadedMembers(order, loads), MostLoadedMembers(order, loads)
    moved: list[tuple[int, int, int]] = []
    while most_loaded.level - least_loaded.level > 1:
        from_member = most_loaded.next_member()
        while from_member is not None and not movable.get(from_member):
            most_loaded.exclude()
            from_member = most_loaded.next_member()
        if from_member is None:
            break
        partition = movable[from_member].pop()
        to_member = least_loaded.next_member()
        if most_loaded.level - least_loaded.level <= 1:
            break
        owner[partition] = to_member
        loads[from_member] -= 1
        loads[to_member] += 1
        moved.append((partition, from_member, to_member))
    return moved


def sort_by_load(members: Sequence[int], loads: Sequence[int]) -> list[int]:
    """Sorts members by load, then by index."""
    return sorted(members, key=lambda member: (loads[member], member))


class LeastLoadedMembers:
    """Iterates over the least loaded members, again and again: a range at the start of the order, which grows as it
    fills up.

    Attributes:
        level: load of the members in the range before this iteration over it.
    """

    def __init__(self, order: list[int], loads: list[int]) -> None:
        """Starts with members sorted by load; `loads` are their current loads."""
        self._order, self._loads = order, loads
        self._end = self._next = 0
        self.level = loads[order[0]] - 1

    def next_member(self) -> int:
        """Returns the next member to get a partition."""
        if self._next >= self._end:
            self.level += 1
            while self._end < len(self._order) and self._loads[self._order[self._end]] == self.level:
                self._end += 1
            self._next = 0
        self._next += 1
        return self._order[self._next - 1]


class MostLoadedMembers:
    """Iterates over the most loaded members, again and again: a range at the end of the order, from its end.

    Attributes:
        level: load of the members in the range before this iteration over it.
    """

    def __init__(self, order: list[int], loads: list[int]) -> None:
        """Starts with members sorted by load; `loads` are their current loads."""
        self._order, self._loads = order, loads
        self._start = self._end = len(order)
        self._next = len(order) - 1
        self.level = loads[order[-1]] + 1

    def next_member(self) -> int | None:
        """Returns the next member to give a partition; None if there is none."""
        if self._next < self._start:
            emptied = self._end <= self._start and self._start > 0
            self.level = self._loads[self._order[self._start - 1]] if emptied else self.level - 1
            while self._start > 0 and self._loads[self._order[self._start - 1]] == self.level:
                self._start -= 1
            self._next = self._end - 1
        if self._next < 0:
            return None
        self._next -= 1
        return self._order[self._next + 1]

    def exclude(self) -> None:
        """Removes the last returned member from the range: it can't give a partition."""
        last, end = self._next + 1, self._end - 1
        self._order[last], self._order[end] = self._order[end], self._order[last]
        self._end = end
