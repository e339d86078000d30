"""`java.util.PriorityQueue`: a binary heap, whose sift rules say which of several least ones comes first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Heap(Generic[Item]):
    """Items by ascending priority; of equal ones none has come first or last, but stands higher in the heap."""

    def __init__(self, items: Iterable[tuple[float, Item]] = ()) -> None:
        """A heap of these, put in one after the other."""
        self._rows: list[tuple[float, Item]] = []
        for priority, item in items:
            self.add(priority, item)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, priority: float, item: Item) -> None:
        """Put one in, at the end, and up from there past all that are larger (`siftUp`)."""
        rows = self._rows
        rows.append((priority, item))
        at = len(rows) - 1
        while at > 0 and priority < rows[parent := (at - 1) >> 1][0]:
            rows[at] = rows[parent]
            at = parent
        rows[at] = (priority, item)

    def poll(self) -> Item:
        """Take the first one out; the last one goes to its place, and down past all that are smaller (`siftDown`)."""
        rows = self._rows
        first, last = rows[0][1], rows.pop()
        size, at = len(rows), 0
        if not size:
            return first
        while at < size >> 1:
            child = 2 * at + 1
            if child + 1 < size and rows[child][0] > rows[child + 1][0]:
                child += 1
            if last[0] <= rows[child][0]:
                break
            rows[at] = rows[child]
            at = child
        rows[at] = last
        return first
