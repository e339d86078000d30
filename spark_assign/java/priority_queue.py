"""Implements `java.util.PriorityQueue`: its sift rules decide which of several equal items comes first."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")


class Heap(Generic[Item]):
    """A binary heap of items by ascending priority, a number or a tuple. Among equal priorities heap order decides."""

    def __init__(self, items: Iterable[tuple[Any, Item]] = ()) -> None:
        """Creates a heap and adds the items in this order."""
        self._rows: list[tuple[Any, Item]] = []
        for priority, item in items:
            self.add(priority, item)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, priority: Any, item: Item) -> None:
        """Adds an item at the end and moves it up past all larger ones (`siftUp`)."""
        rows = self._rows
        rows.append((priority, item))
        at = len(rows) - 1
        while at > 0 and priority < rows[parent := (at - 1) >> 1][0]:
            rows[at] = rows[parent]
            at = parent
        rows[at] = (priority, item)

    @classmethod
    def from_rows(cls, rows: Iterable[tuple[Any, Item]]) -> Heap[Item]:
        """Returns a heap of a collection: its array in this order, sifted down from the middle (`heapify`)."""
        heap = cls()
        heap._rows = list(rows)
        for at in range((len(heap._rows) >> 1) - 1, -1, -1):
            heap._sift_down(at, heap._rows[at])
        return heap

    def items(self) -> list[Item]:
        """Returns the items in the order of the array, which is the iteration order."""
        return [item for _, item in self._rows]

    def poll(self) -> Item:
        """Removes and returns the first item. The last item replaces it and sinks (`siftDown`)."""
        rows = self._rows
        first, last = rows[0][1], rows.pop()
        if rows:
            self._sift_down(0, last)
        return first

    def reprioritize(self, item: Item, priority: Any) -> None:
        """Changes the priority of an item and leaves it where it is, as in Java if a field of the item changes."""
        at = self.items().index(item)
        self._rows[at] = priority, item

    def remove(self, item: Item) -> None:
        """Removes an item (`removeAt`): the last item takes its place and sinks, or rises if it doesn't sink."""
        rows = self._rows
        at = self.items().index(item)
        last = rows.pop()
        if at == len(rows):
            return
        if self._sift_down(at, last) == at:
            rows[at:], tail = [], rows[at + 1 :]
            self.add(*last)
            rows += tail

    def _sift_down(self, at: int, last: tuple[Any, Item]) -> int:
        """Puts an item at a place and moves it down below all smaller ones; returns its new place."""
        rows, size = self._rows, len(self._rows)
        while at < size >> 1:
            child = 2 * at + 1
            if child + 1 < size and rows[child][0] > rows[child + 1][0]:
                child += 1
            if last[0] <= rows[child][0]:
                break
            rows[at] = rows[child]
            at = child
        rows[at] = last
        return at


def in_poll_order(rows: Iterable[tuple[Any, Item]]) -> list[Item]:
    """Returns items in the order of polls from a queue to which all were added before, in this order.

    Args:
        rows: priority and item. If all priorities differ, the order is theirs.
    """
    rows = list(rows)
    if len({priority for priority, _ in rows}) == len(rows):
        return [item for _, item in sorted(rows, key=itemgetter(0))]
    heap = Heap(rows)
    return [heap.poll() for _ in rows]
