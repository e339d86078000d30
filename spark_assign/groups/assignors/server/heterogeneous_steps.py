"""Steps 2 and 3 of `server.heterogeneous`, on lists: assign the unowned partitions, and balance the loads.

Kafka sorts the subscribers of each topic in both steps. Here, consecutive topics with the same subscribers are a *run*.
    - Step 2 sorts the subscribers again only where the least loaded ones don't suffice for a topic.
    - Step 3 skips runs if their loads differ by one at most, and topics if no owner has two partitions more than the
      least loaded subscriber. In all others, it looks only at members that own partitions of the topic.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter, deque
from collections.abc import Container, Iterator, Mapping, MutableSequence, Sequence
from itertools import chain, cycle, islice
from typing import Protocol

import numpy as np

from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.segmented_arrays import starts_new_key

_MAX_PASSES = 16
_FEW_ROUNDS = 8
"""Rounds that are as fast one by one."""

Run = tuple[int, list[int]]
"""A set of subscribers, and consecutive topics that have it."""
Owned = dict[int, Sequence[int]]
"""The partitions of a topic that each member has, ascending."""


class Ownership(Protocol):
    """What members own of the topics."""

    def of(self, topic: int) -> Owned:
        """Returns what members own of a topic."""

    def find(self, topics: Sequence[int], limit: int) -> Container[int]:
        """Returns the topics in which an owner has more than `limit` partitions, of all topics; maybe others, too."""


def order_topics(topic_group: IntArray, partitions: IntArray, ranks: IntArray, num_subscribers: IntArray) -> IntArray:
    """Returns the topics, group by group, in the order of step 2."""
    return np.lexsort((ranks, num_subscribers, -(partitions / num_subscribers), topic_group))


def find_runs(topics: IntArray, subscriber_set: IntArray) -> list[Run]:
    """Returns the runs of topics, in their order."""
    sets, listed = subscriber_set[topics], topics.tolist()
    starts = np.flatnonzero(starts_new_key(sets))
    bounds = [*starts.tolist(), len(listed)]
    return [
        (each, listed[start:end])
        for each, start, end in zip(sets[starts].tolist(), bounds[:-1], bounds[1:], strict=True)
    ]


# --- step 2 -------------------------------------------------------------------------------------------------------


def assign_unassigned(
    runs: Sequence[Run],
    subscribers: Mapping[int, list[int]],
    unassigned: Mapping[int, Sequence[int]],
    loads: MutableSequence[int],
) -> Iterator[tuple[int, Sequence[int], list[int]]]:
    """Yields a topic, some of its partitions, and the members that get them, one by one, again and again.

    Args:
        runs: topics with unassigned partitions.
        subscribers: members of each set, ascending.
        unassigned: the unassigned partitions of each topic, ascending.
        loads: number of partitions of each member; changed in place.
    """
    for subscriber_set, topics in runs:
        members = subscribers[subscriber_set]
        if len(members) == 1:
            for topic in topics:
                loads[members[0]] += len(unassigned[topic])
                yield topic, unassigned[topic], members
            continue
        least_loaded = _LeastLoaded(members, loads)
        for topic in topics:
            numbers, end = unassigned[topic], 0
            for cycle_members, count in least_loaded.take(len(numbers)):
                start, end = end, end + count
                yield topic, numbers[start:end], cycle_members


class _LeastLoaded:
    """Deals partitions to the least loaded of some members, topic by topic."""

    def __init__(self, members: list[int], loads: MutableSequence[int]) -> None:
        self._members, self._loads = members, loads
        self._lowest, self._next = list[int](), 0

    def take(self, count: int) -> Iterator[tuple[list[int], int]]:
        """Yields the members that get the partitions of a topic: lists that are dealt to in cycles, and how many."""
        loads, order = self._loads, list[int]()
        if self._next + count > len(self._lowest):
            order = sorted(self._members, key=loads.__getitem__)
            lowest = loads[order[0]]
            self._lowest, self._next = order[: bisect_right(order, lowest, key=loads.__getitem__)], 0
        if count <= len(self._lowest):
            members = self._lowest[self._next : self._next + count]
            self._next += count
            for member in members:
                loads[member] += 1
            yield members, count
            return
        # Go round the least loaded members, who become more from level to level.
        self._lowest, end = [], 0
        levels = [loads[member] for member in order]
        while count:
            end = bisect_right(levels, levels[end], end)
            number = count if end == len(order) else min(count, end * (levels[end] - levels[end - 1]))
            members = order[:end]
            rounds, more = divmod(number, end)
            for at, member in enumerate(members if rounds else members[:more]):
                loads[member] += rounds + (at < more)
            yield members, number
            count -= number


# --- step 3 -------------------------------------------------------------------------------------------------------


def balance(
    runs: Sequence[Run],
    subscribers: Mapping[int, list[int]],
    loads: MutableSequence[int],
    ownership: Ownership,
) -> Iterator[tuple[int, list[int], list[int], list[int]]]:
    """Yields each topic in which partitions move: the partition, the old owner and the new owner of each move.

    As in Kafka, the first topic counts as one that moved something.

    Args:
        runs: all topics with two or more subscribers.
        subscribers: members of each set, ascending.
        loads: number of partitions of each member; changed in place.
        ownership: what members own; changed in place.
    """
    last_run, last_topic = -1, -1
    for _ in range(_MAX_PASSES):
        for run, (subscriber_set, topics) in enumerate(runs):
            order = sorted(subscribers[subscriber_set], key=loads.__getitem__)
            if loads[order[-1]] - loads[order[0]] <= 1:
                if run == last_run:
                    return
                last_run, last_topic = (run, topics[0]) if last_run < 0 else (last_run, last_topic)
                continue
            candidates = ownership.find(topics, loads[order[0]] + 1)
            for topic in topics:
                if topic == last_topic:
                    return
                moved = list[int]()
                if topic in candidates and loads[order[-1]] - loads[order[0]] > 1:
                    owned = ownership.of(topic)
                    moved, old, new = _balance_topic(owned, order, loads)
                if moved:
                    num_lost, change = Counter(old), Counter(new)
                    _move(owned, moved, num_lost, new)
                    change.subtract(num_lost)
                    order = _sort_again(subscribers[subscriber_set], order, loads, change)
                    yield topic, moved, old, new
                if moved or last_run < 0:
                    last_run, last_topic = run, topic


def _balance_topic(
    owned: Owned, order: list[int], loads: MutableSequence[int]
) -> tuple[list[int], list[int], list[int]]:
    """Balances one topic; `order` has its subscribers sorted by load and index.

    The most loaded members are a range of `order`, which grows to its start: `waiting` are those that come later
    in this round, `visited` those who have had theirs; the last ones come first. The least loaded ones are a range that
    grows to the end of `order`. Kafka removes a member that has nothing to give from the first range by an exchange
    with the last one of the range, which so has its turn later in the next round.

    Returns:
        the partition, the old owner and the new owner of each move.
    """
    size, from_members = len(order), _from_members(owned, order, loads)
    remaining = {order[place]: len(owned[order[place]]) for place in from_members}
    waiting, visited = deque[int](), deque[int]()
    most, start, place = 0, size, size
    least, least_end, least_next = loads[order[0]] - 1, 0, 0
    moved, old, new = list[int](), list[int](), list[int]()
    while True:
        if waiting:
            member = waiting.pop()
            if not remaining[member]:
                visited.rotate(1)
                continue
        elif from_members and from_members[-1] >= start:
            visited.rotate(place - 1 - from_members[-1])
            place = from_members.pop()
            member = order[place]
        else:
            visited.rotate(place - start)
            if visited:
                most -= 1
            elif from_members:
                most = loads[order[from_members[-1]]]
            if most - least <= 1 or not (visited or from_members):
                break
            waiting, visited, place = visited, waiting, start
            # Rounds in which all of the range give, nobody joins either range, and the end isn't near.
            room, rounds = least_end - least_next, 0
            if waiting and least_end and remaining[waiting[-1]] > _FEW_ROUNDS:
                rounds = ((most - least - 3) * least_end + room) // (len(waiting) + least_end)
            if rounds > _FEW_ROUNDS:
                levels = (loads[order[least_end]] if least_end < size else most) - least - 1
                rounds = min(rounds, (levels * least_end + room) // len(waiting))
                rounds = min(rounds, most - 1 - loads[order[start - 1]] if start else rounds)
                rounds = min(rounds, *(remaining[member] for member in waiting)) if rounds > _FEW_ROUNDS else 0
            if rounds > _FEW_ROUNDS:
                losing = [*reversed(waiting)]
                left = {member: remaining[member] - rounds for member in losing}
                given = [reversed(owned[member][count : count + rounds]) for member, count in left.items()]
                moved += chain.from_iterable(zip(*given, strict=True))
                old += losing * rounds
                new += islice(cycle(order[:least_end]), least_next, least_next + rounds * len(losing))
                remaining |= left
                more, least_next = divmod(least_next + rounds * len(losing) - 1, least_end)
                most, least, least_next = most - rounds, least + more, least_next + 1
            if start and loads[order[start - 1]] >= most:
                start = bisect_left(order, most, 0, start, key=loads.__getitem__)
            continue
        if least_next == least_end:
            least += 1
            if most - least <= 1:
                break
            while least_end < size and loads[order[least_end]] == least:
                least_end += 1
            least_next = 0
        visited.appendleft(member)
        remaining[member] = count = remaining[member] - 1
        moved.append(owned[member][count])
        old.append(member)
        new.append(order[least_next])
        least_next += 1
    return moved, old, new


def _from_members(owned: Owned, order: list[int], loads: Sequence[int]) -> list[int]:
    """Returns the positions in `order` of the owners that have two partitions more than its first member, ascending."""
    limit = loads[order[0]] + 1
    if 16 * len(owned) > len(order):
        return [place for place, member in enumerate(order) if member in owned and loads[member] > limit]
    from_members = [(loads[member], member) for member in owned if loads[member] > limit]
    return sorted(
        bisect_left(order, from_member, key=lambda member: (loads[member], member)) for from_member in from_members
    )


def _sort_again(
    subscribers: list[int], order: list[int], loads: MutableSequence[int], change: Mapping[int, int]
) -> list[int]:
    """Changes the loads; returns the subscribers sorted by load and index, `order` being their order before."""
    is_large = 8 * len(change) > len(order)
    for member in () if is_large else change:
        del order[bisect_left(order, (loads[member], member), key=lambda each: (loads[each], each))]
    for member, delta in change.items():
        loads[member] += delta
    if is_large:
        return sorted(subscribers, key=loads.__getitem__)
    for member in change:
        insort(order, member, key=lambda each: (loads[each], each))
    return order


def _move(owned: Owned, moved: list[int], num_lost: Mapping[int, int], new: list[int]) -> None:
    """Changes what members own of a topic. Members give their last partitions, which are ranges as a rule."""
    for member, count in num_lost.items():
        owned[member] = owned[member][:-count]
        if not owned[member]:
            del owned[member]
    gained: dict[int, list[int]] = {}
    for partition, member in zip(moved, new, strict=True):
        gained.setdefault(member, []).append(partition)
    for member, numbers in gained.items():
        owned[member] = sorted([*owned.get(member, ()), *numbers])
