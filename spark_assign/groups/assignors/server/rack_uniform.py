"""Uniform with racks: an assignor of ours, which Kafka does not have. It says what uniform leaves on the table.

Principles, in this priority
    1. Balance: everybody has as many partitions as from uniform (of each topic, where subscriptions differ).
    2. Stickiness: nobody gives up more than uniform takes from it. Where that takes nothing, nothing moves, however far
       away members read.
    3. Racks: under these two, as many partitions as possible go to a member that has a replica of them in its rack.
Where uniform's own answer has as many of those, it stands.

Example: t has 4 partitions, p0 and p1 with replicas in rack y, p2 and p3 in rack x. C0 (rack x) had all of it, C1
(rack y) is new.
    uniform         C0: [p0 p1]    C1: [p2 p3]    all four are read across racks
    rack-uniform    C0: [p2 p3]    C1: [p0 p1]    none is

Steps
    1. Who has more than it shall have keeps partitions that are near to it before others. That never costs a match: to
       give up a near one and to keep another instead loses here what it may win elsewhere. Which of several that are
       equally near (or far) it gives up is open.
    2. A maximum flow settles that: from each such member as many of those as it must give up, by the set of racks that
       their replicas are in, to the racks of members that lack partitions, as many as these lack. What must be given up
       in any case and what nobody had flows along.
    3. Deal: what has flown to a rack goes to its members in order, the rest to whoever still lacks something.


As much as fits through a network of pipes (Dinic's algorithm); the same network, the same flow."""

from __future__ import annotations

from collections import deque

import numpy as np

from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.segmented_arrays import row_numbers

_NO_MEMBER = -1


def assign_by_rack(had: IntArray, kind: IntArray, target: IntArray, rack: IntArray, near: BoolArray) -> IntArray:
    """Who gets each partition of a group, or of a topic of it.

    Args:
        had: of each partition, by topic and number, the member that had it, -1 for nobody.
        kind: of each partition the number of the set of racks that it has replicas in.
        target: of each member, in the order in which the assignor sees them, how many it shall have; all in all as many
            as there are partitions.
        rack: of each member, -1 for none.
        near: `near[kind, rack]`, whether the rack is in the set.
    """
    size = np.bincount(had[had >= 0], minlength=len(target))
    here = had != _NO_MEMBER
    matched = np.zeros(len(had), bool)
    matched[here] = is_rack_matched(rack[had[here]], kind[here], near)
    loses = np.zeros(len(had), bool)
    loses[here] = (size > target)[had[here]]
    plenty = np.bincount(had[matched], minlength=len(target)) >= target
    lacking = np.maximum(target - size, 0)
    # Step 1: those that are open, and what is given away in any case.
    open_ = loses.copy()
    open_[loses] = matched[loses] == plenty[had[loses]]
    given = ~here | (loses & ~matched & ~open_)
    must = np.maximum(size - target, 0) - np.bincount(had[given & here], minlength=len(target))
    racks = np.bincount(rack[rack >= 0], lacking[rack >= 0], near.shape[1]).astype(np.int64)
    flown = _max_rack_matches(had, kind, open_, given, must, racks, near)
    given |= _select_released(had, kind, open_, must, flown.of_member)
    to_member = np.where(given, _NO_MEMBER, had)
    _assign_unassigned(to_member, kind, lacking, rack, flown.to_rack)
    return to_member


def is_rack_matched(rack: IntArray, kind: IntArray, near: BoolArray) -> BoolArray:
    """Whether replicas of each partition (of this kind) are in a member's rack; -1 is no rack."""
    found: BoolArray = (rack >= 0) & near[kind, rack]
    return found


class _FlowResult:
    """What has flown: by member and kind, and by kind and rack."""

    def __init__(self, of_member: dict[tuple[int, int], int], to_rack: dict[tuple[int, int], int]) -> None:
        self.of_member, self.to_rack = of_member, to_rack


def _max_rack_matches(
    had: IntArray, kind: IntArray, open_: BoolArray, given: BoolArray, must: IntArray, racks: IntArray, near: BoolArray
) -> _FlowResult:
    """Step 2."""
    kinds, wanting = np.unique(kind[open_ | given]), np.flatnonzero(racks)
    of_kind = np.full(len(near), -1, np.int64)
    of_kind[kinds] = np.arange(len(kinds))
    from_members = np.flatnonzero(must)
    place = np.full(len(must), -1, np.int64)
    place[from_members] = np.arange(len(from_members))
    source, sink = 0, 1
    from_member, set_of, to = 2, 2 + len(from_members), 2 + len(from_members) + len(kinds)
    network = FlowNetwork(to + len(wanting))
    for number, member in enumerate(from_members.tolist()):
        network.add_edge(source, from_member + number, int(must[member]))
    some = open_.copy()
    some[open_] = must[had[open_]] > 0
    pairs, much = np.unique(place[had[some]] * len(near) + kind[some], return_counts=True)
    pipes = {}
    for pair, capacity in zip(pairs.tolist(), much.tolist(), strict=True):
        number, each = divmod(pair, len(near))
        pipe = network.add_edge(from_member + number, set_of + int(of_kind[each]), capacity)
        pipes[int(from_members[number]), each] = pipe
    for number, capacity in enumerate(np.bincount(of_kind[kind[given]], minlength=len(kinds)).tolist()):
        network.add_edge(source, set_of + number, capacity)
    endless, ends = len(had), {}
    for number, rack in enumerate(wanting.tolist()):
        network.add_edge(to + number, sink, int(racks[rack]))
        for each in np.flatnonzero(near[kinds, rack]).tolist():
            ends[int(kinds[each]), rack] = network.add_edge(set_of + each, to + number, endless)
    network.max_flow(source, sink)
    of_member = {key: network.flow(pipe) for key, pipe in pipes.items()}
    return _FlowResult(of_member, {key: network.flow(pipe) for key, pipe in ends.items()})


def _select_released(
    had: IntArray, kind: IntArray, open_: BoolArray, must: IntArray, flown: dict[tuple[int, int], int]
) -> BoolArray:
    """Which of the open ones are given up: as many of a kind as have flown, and others as far as that is not enough.

    The last ones go.
    """
    at = np.flatnonzero(open_)[::-1]
    order = np.lexsort((np.arange(len(at)), kind[at], had[at]))
    at = at[order]
    pairs = had[at] * (int(kind.max(initial=0)) + 1) + kind[at]
    much = np.array([flown.get(key, 0) for key in zip(had[at].tolist(), kind[at].tolist(), strict=True)], np.int64)
    goes = np.zeros(len(had), bool)
    goes[at] = row_numbers(pairs) < much
    still = must - np.bincount(had[goes], minlength=len(must))
    rest = np.flatnonzero(open_ & ~goes)[::-1]
    rest = rest[np.argsort(had[rest], kind="stable")]
    goes[rest] = row_numbers(had[rest]) < still[had[rest]]
    return goes


def _assign_unassigned(
    to_member: IntArray, kind: IntArray, lacking: IntArray, rack: IntArray, flown: dict[tuple[int, int], int]
) -> None:
    """Step 3: give what is free in `to_member`."""
    free = np.flatnonzero(to_member == _NO_MEMBER)
    of_kind = free[np.argsort(kind[free], kind="stable")]
    begin = np.searchsorted(kind[of_kind], np.arange(int(kind.max(initial=0)) + 1)).tolist()
    to_rack: dict[int, list[IntArray]] = {}
    for (each, where), much in sorted(flown.items()):
        to_rack.setdefault(where, []).append(of_kind[begin[each] : begin[each] + much])
        begin[each] += much
    left = lacking.copy()
    for where, parts in to_rack.items():
        some = np.sort(np.concatenate(parts))
        members = np.flatnonzero(rack == where)
        to_member[some] = np.repeat(members, lacking[members])[: len(some)]
        left -= np.bincount(to_member[some], minlength=len(left))
    to_member[to_member == _NO_MEMBER] = np.repeat(np.arange(len(left)), left)


class FlowNetwork:
    """Nodes 0, 1, …, and pipes between them."""

    def __init__(self, nodes: int) -> None:
        """No pipe yet."""
        self._pipes: list[list[int]] = [[] for _ in range(nodes)]
        self._end: list[int] = []
        self._room: list[int] = []
        self._level: list[int] = []
        self._next: list[int] = []

    def add_edge(self, begin: int, end: int, capacity: int) -> int:
        """Lay a pipe; its number."""
        number = len(self._end)
        self._end += [end, begin]
        self._room += [capacity, 0]
        self._pipes[begin].append(number)
        self._pipes[end].append(number + 1)
        return number

    def max_flow(self, source: int, sink: int) -> None:
        """Send as much as possible, along shortest ways first."""
        while self._find_levels(source, sink):
            self._next = [0] * len(self._pipes)
            while self._send(source, sink, sum(self._room[pipe] for pipe in self._pipes[source])):
                pass

    def flow(self, pipe: int) -> int:
        """What flows through a pipe."""
        return self._room[pipe + 1]

    def _find_levels(self, source: int, sink: int) -> bool:
        """How far each node is from the source; whether the sink can be reached."""
        self._level = [-1] * len(self._pipes)
        self._level[source] = 0
        waiting = deque([source])
        while waiting:
            node = waiting.popleft()
            for pipe in self._pipes[node]:
                end = self._end[pipe]
                if self._room[pipe] and self._level[end] < 0:
                    self._level[end] = self._level[node] + 1
                    waiting.append(end)
        return self._level[sink] >= 0

    def _send(self, node: int, sink: int, much: int) -> int:
        """Send up to so much from a node to the sink, every step one level on."""
        if node == sink or not much:
            return much
        pipes, sent = self._pipes[node], 0
        while self._next[node] < len(pipes):
            pipe = pipes[self._next[node]]
            if self._room[pipe] and self._level[self._end[pipe]] == self._level[node] + 1:
                got = self._send(self._end[pipe], sink, min(much - sent, self._room[pipe]))
                self._room[pipe] -= got
                self._room[pipe ^ 1] += got
                sent += got
                if sent == much:
                    return sent
            self._next[node] += 1
        return sent
