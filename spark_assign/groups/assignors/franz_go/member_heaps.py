"""Who has least, and who has how much: the orders in which franz-go asks its members."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache


class LeastLoaded:
    """A heap of members by load. Only its top ever changes, so things sink and never rise."""

    def __init__(self, members: Iterable[int], load: list[int]) -> None:
        self._heap, self._load = list(members), load
        for at in reversed(range(len(self._heap) // 2)):
            self._sink(at)

    def takes(self, times: int) -> list[int]:
        """So many times the least loaded member, which has one more from then on.

        Once all have the same, each round of the heap goes by its places alone, whoever stands there.
        """
        load, size = self._load, len(self._heap)
        has = [load[member] for member in self._heap]
        until_level = size * max(has) - sum(has)
        if times < until_level + size:
            return self._one_by_one(times)
        taken = self._one_by_one(until_level)
        rounds, rest = divmod(times - until_level, size)
        turns, after = _round(size)
        heap = self._heap
        for _ in range(rounds):
            taken += [heap[at] for at in turns]
            heap = [heap[at] for at in after]
        for member in heap:
            load[member] += rounds
        self._heap = heap
        return taken + self._one_by_one(rest)

    def _one_by_one(self, times: int) -> list[int]:
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


@lru_cache(maxsize=64)
def _round(size: int) -> tuple[list[int], list[int]]:
    """The places from which a heap of so many, all alike, takes each once; and who stands where after it."""
    heap = LeastLoaded(range(size), [0] * size)
    return heap._one_by_one(size), heap._heap


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
