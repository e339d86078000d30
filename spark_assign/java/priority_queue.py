"""Implements `java.util.PriorityQueue`: its sift rules decide which of several equal items comes first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Heap(Generic[Item]):
    """A binary heap of items by ascending priority. Among equal priorities the heap order decides."""

    def __init__(self, items: Iterable[tuple[float, Item]] = ()) -> None:
        """Creates a heap and adds the items in this order."""
        self._rows: list[tuple[float, Item]] = []
        for priority, item in items:
            self.add(priority, item)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, priority: float, item: Item) -> None:
        """Adds an item at the end and moves it up past all larger ones (`siftUp`)."""
        rows = self._rows
        rows.append((priority, item))
        at = len(rows) - 1
        while at > 0 and priority < rows[parent := (at - 1) >> 1][0]:
            rows[at] = rows[parent]
            at = parent
        rows[at] = (priority, item)

    def poll(self) -> Item:
        """Removes and returns the first item. The last item replaces it and sinks (`siftDown`)."""
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
