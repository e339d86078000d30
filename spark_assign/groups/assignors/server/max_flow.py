"""As much as fits through a network of pipes (Dinic's algorithm); the same network, the same flow."""

from __future__ import annotations

from collections import deque


class Network:
    """Nodes 0, 1, …, and pipes between them."""

    def __init__(self, nodes: int) -> None:
        """No pipe yet."""
        self._pipes: list[list[int]] = [[] for _ in range(nodes)]
        self._end: list[int] = []
        self._room: list[int] = []
        self._level: list[int] = []
        self._next: list[int] = []

    def pipe(self, begin: int, end: int, capacity: int) -> int:
        """Lay a pipe; its number."""
        number = len(self._end)
        self._end += [end, begin]
        self._room += [capacity, 0]
        self._pipes[begin].append(number)
        self._pipes[end].append(number + 1)
        return number

    def fill(self, source: int, sink: int) -> None:
        """Send as much as possible, along shortest ways first."""
        while self._find_levels(source, sink):
            self._next = [0] * len(self._pipes)
            while self._send(source, sink, sum(self._room[pipe] for pipe in self._pipes[source])):
                pass

    def through(self, pipe: int) -> int:
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
