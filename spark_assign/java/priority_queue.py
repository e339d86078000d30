"""Implements `java.util.PriorityQueue`: its sift rules decide which of several equal items comes first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")


class Heap(Generic[Item]):
    """A binary heap of items by ascending priority, a number or a tuple. Among equal priorities heap order decides."""

    def __init__(self, items: Iterable[tuple[Any, Item]] = ()) -> None:
        """Creates a heap and adds the items in this order."""
        self._rows: list[tuple[Any, Item]] = []
        for row in items:
            if self._rows and row[0] < self._rows[(len(self._rows) - 1) >> 1][0]:
                self.add(*row)
            else:
                self._rows.append(row)

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

    def poll_and_add(self) -> Item:
        """Polls an item and adds it again with its priority plus one."""
        priority = self._rows[0][0]
        item = self.poll()
        self.add(priority + 1, item)
        return item

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


def poll_in_turns(priorities: Sequence[int], items: Sequence[Item]) -> Iterator[Item]:
    """Yields without end what is polled from a heap; each item is added again with its priority plus one.

    Args:
        priorities: the priority of each item; a heap gets them in this order.
        items: the items, at least one.
    """
    if (highest := max(priorities)) > min(priorities):
        heap = Heap(zip(priorities, items, strict=True))
        while heap._rows[0][0] < highest:
            yield heap.poll_and_add()
        items = heap.items()
    order, refill = _round_of_equals(len(items))
    while True:
        for slot in order:
            yield items[slot]
        items = [items[order[turn]] for turn in refill]


@lru_cache(maxsize=256)
def _round_of_equals(size: int) -> tuple[Sequence[int], Sequence[int]]:
    """Returns a round of `poll_in_turns` if all priorities are equal, so that each item is polled once.

    The first poll moves the last item to the root, where it stays. From then on, the last item is the one that was
    added again, and `siftUp` leaves it there. At the next poll, `siftDown` moves it from the root down a path of items
    that weren't polled yet, always to the left child if that is one of them. So they are polled in the preorder of
    their slots, and those that were polled get the slots in postorder.
    Example: after the polls of [a b c d e] the array is [e b c d a'], [b d c a' e'], [d e' c a' b'], [c e' b' a' d'],
    and [d' e' b' a' c']. The order of polls is a, e, b, d, c.

    Returns:
        The slots in the order in which they are polled. And for each slot, the number of the poll whose item is there
        after the round.
    """
    preorder, postorder = list[int](), list[int]()

    def visit(slot: int) -> None:
        if slot < size - 1:
            preorder.append(slot)
            visit(2 * slot + 1)
            visit(2 * slot + 2)
            postorder.append(slot)

    visit(0)
    slots = [*postorder, size - 1]
    return [0, size - 1, *preorder[1:]][:size], sorted(range(size), key=slots.__getitem__)


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
