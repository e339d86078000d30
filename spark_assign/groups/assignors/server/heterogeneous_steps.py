"""Steps 2 and 3 of `server.heterogeneous`, on lists: assign the unowned partitions, and balance the loads.

Kafka sorts the subscribers of each topic in both steps. Here, consecutive topics with the same subscribers are a *run*.
    - Step 2 sorts the subscribers again only where the least loaded ones don't suffice for a topic.
    - Step 3 skips runs whose loads differ by one at most, and topics whose owners have at most one partition more than
      the least loaded subscriber. In all others, it looks only at members that own partitions of the topic.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.segmented_arrays import starts_new_key

_MAX_PASSES = 16

Run = tuple[int, list[int]]
"""A set of subscribers, and consecutive topics that have it."""
Owned = dict[int, Sequence[int]]
"""The partitions of a topic that each member has, ascending."""


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
    loads: list[int],
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

    def __init__(self, members: list[int], loads: list[int]) -> None:
        self._members, self._loads = members, loads
        self._sort()

    def _sort(self) -> None:
        """Finds the least loaded members; the ones before `_next` have got a partition since."""
        order = sorted(self._members, key=self._loads.__getitem__)
        lowest = self._loads[order[0]]
        self._lowest, self._next = order[: bisect_right(order, lowest, key=self._loads.__getitem__)], 0

    def take(self, count: int) -> Iterator[tuple[list[int], int]]:
        """Yields the members that get the partitions of a topic: lists that are dealt to in cycles, and how many."""
        end = self._next + count
        if end <= len(self._lowest):
            members = self._lowest[self._next : end]
            self._next = end
            for member in members:
                self._loads[member] += 1
            yield members, count
        else:
            yield from self._take_in_rounds(count)
        if self._next == len(self._lowest):
            self._sort()

    def _take_in_rounds(self, count: int) -> Iterator[tuple[list[int], int]]:
        """Goes round the least loaded members, who become more from level to level."""
        order = sorted(self._members, key=self._loads.__getitem__)
        levels = [self._loads[member] for member in order]
        end = 0
        while count:
            end = bisect_right(levels, levels[end], end)
            number = count if end == len(order) else min(count, end * (levels[end] - levels[end - 1]))
            members = order[:end]
            rounds, more = divmod(number, end)
            for at, member in enumerate(members if rounds else members[:more]):
                self._loads[member] += rounds + (at < more)
            yield members, number
            count -= number
        self._next = len(self._lowest)


# --- step 3 -------------------------------------------------------------------------------------------------------


def balance(
    runs: Sequence[Run],
    subscribers: Mapping[int, list[int]],
    loads: list[int],
    find: Callable[[Sequence[int], int], Mapping[int, Owned]],
) -> Iterator[tuple[int, list[tuple[int, int, int]]]]:
    """Yields each topic in which partitions move, and (partition, from_member, to_member) of each move.

    As in Kafka, the first topic counts as one that moved something.

    Args:
        runs: all topics with two or more subscribers.
        subscribers: members of each set, ascending.
        loads: number of partitions of each member; changed in place.
        find: returns what members own of topics, without those in which no owner has more than a number of partitions;
            changed in place.
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
            candidates = find(topics, loads[order[0]] + 1)
            for topic in topics:
                if topic == last_topic:
                    return
                moves = []
                if topic in candidates and loads[order[-1]] - loads[order[0]] > 1:
                    moves = _balance_topic(candidates[topic], order, loads)
                if moves:
                    order = _sort_again(subscribers[subscriber_set], order, loads, moves)
                    _move(candidates[topic], moves)
                    yield topic, moves
                if moves or last_run < 0:
                    last_run, last_topic = run, topic


def _balance_topic(owned: Owned, order: list[int], loads: list[int]) -> list[tuple[int, int, int]]:
    """Balances one topic; `order` has its subscribers sorted by load and index. Returns the moves.

    The most loaded members are a range of `order`, which grows to its start: `waiting` are those whose turn is to come
    in this round, `visited` those who have had theirs; the last ones come first. The least loaded ones are a range that
    grows to the end of `order`. Kafka removes a member that has nothing to give from the first range by an exchange
    with the last one of the range, which so has its turn later in the next round.
    """
    load, size = loads.__getitem__, len(order)
    from_members = _from_members(owned, order, loads)
    remaining = {order[place]: len(owned[order[place]]) for place in from_members}
    waiting, visited = list[int](), deque[int]()
    most, start, place = 0, size, size
    least, least_end, least_next = loads[order[0]] - 1, 0, 0
    moves: list[tuple[int, int, int]] = []
    while True:
        # The next member that has a partition to give.
        while True:
            if waiting:
                from_member = waiting.pop()
                if remaining[from_member]:
                    break
                visited.rotate(1)
            elif from_members and from_members[-1] >= start:
                visited.rotate(place - 1 - from_members[-1])
                place = from_members.pop()
                from_member = order[place]
                break
            else:
                visited.rotate(place - start)
                if visited:
                    most -= 1
                elif from_members:
                    most = load(order[from_members[-1]])
                else:
                    return moves
                if most - least <= 1:
                    return moves
                waiting, visited, place = list(visited), deque(), start
                start = bisect_left(order, most, 0, start, key=load)
        if least_next == least_end:
            least += 1
            least_end = bisect_right(order, least, least_end, key=load)
            least_next = 0
            if most - least <= 1:
                return moves
        to_member = order[least_next]
        least_next += 1
        visited.appendleft(from_member)
        remaining[from_member] -= 1
        loads[from_member] -= 1
        loads[to_member] += 1
        moves.append((owned[from_member][remaining[from_member]], from_member, to_member))


def _from_members(owned: Owned, order: list[int], loads: list[int]) -> list[int]:
    """Returns the positions in `order` of the owners that have two partitions more than its first member, ascending."""
    limit = loads[order[0]] + 1
    if 16 * len(owned) > len(order):
        return [place for place, member in enumerate(order) if member in owned and loads[member] > limit]
    from_members = [(loads[member], member) for member in owned if loads[member] > limit]
    return sorted(
        bisect_left(order, from_member, key=lambda member: (loads[member], member)) for from_member in from_members
    )


def _sort_again(
    subscribers: list[int], order: list[int], loads: list[int], moves: list[tuple[int, int, int]]
) -> list[int]:
    """Returns the subscribers sorted by load and index after moves; `order` is their order before, and is changed."""
    change: dict[int, int] = {}
    for _, from_member, to_member in moves:
        change[from_member] = change.get(from_member, 0) - 1
        change[to_member] = change.get(to_member, 0) + 1
    if 8 * len(change) > len(order):
        return sorted(subscribers, key=loads.__getitem__)
    for member, delta in change.items():
        old = (loads[member] - delta, member)
        del order[bisect_left(order, old, key=lambda each: (loads[each] - change.get(each, 0), each))]
    for member in change:
        insort(order, member, key=lambda each: (loads[each], each))
    return order


def _move(owned: Owned, moves: list[tuple[int, int, int]]) -> None:
    """Changes what members own of a topic. Members give their last partitions, which are ranges as a rule."""
    lost: dict[int, int] = {}
    gained: dict[int, list[int]] = {}
    for partition, from_member, to_member in moves:
        lost[from_member] = lost.get(from_member, 0) + 1
        gained.setdefault(to_member, []).append(partition)
    for from_member, count in lost.items():
        owned[from_member] = owned[from_member][:-count]
        if not owned[from_member]:
            del owned[from_member]
    for to_member, numbers in gained.items():
        owned[to_member] = sorted([*owned.get(to_member, ()), *numbers])
