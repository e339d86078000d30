"""Who has least, and who has how much: the orders in which franz-go asks its members."""

from __future__ import annotations

from collections.abc import Iterable


class LeastLoaded:
    """A heap of members by load. Only its top ever changes, so things sink and never rise."""

    def __init__(self, members: Iterable[int], load: list[int]) -> None:
        self._heap, self._load = list(members), load
        for at in reversed(range(len(self._heap) // 2)):
            self._sink(at)

    def takes(self, times: int) -> list[int]:
        """So many times the least loaded member, which has one more from then on."""
        heap, load = self._heap, self._load
        size, taken = len(heap), []
        for _ in range(times):
            top = heap[0]
            taken.append(top)
            load[top] = mine = load[top] + 1
            at, least = 0, 1
            while least < size:
                if least + 1 < size and load[heap[least + 1]] < load[heap[least]]:
                    least += 1
                if mine <= load[heap[least]]:
                    break
                heap[at] = heap[least]
                at, least = least, 2 * least + 1
            heap[at] = top
        return taken

    def _sink(self, at: int) -> None:
        heap, load = self._heap, self._load
        while (least := 2 * at + 1) < len(heap):
            if least + 1 < len(heap) and load[heap[least + 1]] < load[heap[least]]:
                least += 1
            if load[heap[at]] <= load[heap[least]]:
                return
            heap[at], heap[least] = heap[least], heap[at]
            at = least


class Levels:
    """Members by their load, those of a level in the order in which they came to it."""

    def __init__(self, load: list[int]) -> None:
        self.of: dict[int, list[int]] = {}
        for member, level in enumerate(load):
            self.at(level).append(member)

    def at(self, level: int) -> list[int]:
        """The members of a level, to be changed."""
        return self.of.setdefault(level, [])

    def leave(self, level: int, member: int) -> None:
        """A member leaves; the last of its level takes its place."""
        swap_out(self.of[level], member)
        self.close(level)

    def close(self, level: int) -> None:
        """Forget a level that nobody is on."""
        if not self.of[level]:
            del self.of[level]


def swap_out(values: list[int], value: int) -> None:
    """Take a value out of a list; the last one takes its place."""
    values[values.index(value)] = values[-1]
    values.pop()
