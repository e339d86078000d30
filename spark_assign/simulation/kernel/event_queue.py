"""Time that jumps from one thing that happens to the next."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any


class EventQueue:
    """What is to happen, by time; at one instant in the order in which it was asked for."""

    def __init__(self) -> None:
        self.now = 0
        self._asked = 0
        self._waiting: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []

    def at(self, time: int, what: Callable[..., None], *args: Any) -> None:
        """Call it at that time."""
        self._asked += 1
        heappush(self._waiting, (time, self._asked, what, args))

    def step(self, until: int | None) -> bool:
        """Let the next thing happen; false if there is none before or at that time."""
        if not self._waiting or (until is not None and self._waiting[0][0] > until):
            return False
        self.now, _, what, args = heappop(self._waiting)
        what(*args)
        return True
