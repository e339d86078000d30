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

    @property
    def lowest(self) -> Any:
        """The priority of the first item."""
        return self._rows[0][0]

    def poll_and_add(self) -> Item:
        """Polls an item and adds it again with its priority plus one."""
        priority = self.lowest
        item = self.poll()
        self.add(priority + 1, item)
        return item

    def next_turns(self) -> list[Item]:
        """Returns the next items of `poll_and_add`, up to the last with the lowest priority; changes nothing.

        There is a closed form if all other items, among them the last of the array, have the lowest priority plus one;
        otherwise the list is empty. Then `siftDown` moves the last item down a path of lowest items, always to the left
        child if that is one of them, and `siftUp` leaves the item that is added at the end. So the items are polled in
        the preorder of their slots, and the slots get items of the higher priority in postorder.
        Example: in [a0 b0 c0 d1], where a, b, and c have the lowest priority, they are polled in this order, and the
        array changes to [b0 d1 c0 a1], [c0 d1 a1 b1], and [b1 d1 a1 c1].
        """
        rows, lowest = self._rows, self.lowest
        if rows[-1][0] == lowest or any(priority > lowest + 1 for priority, _ in rows):
            return []
        return [rows[slot][1] for slot in _traversals(len(rows))[0] if rows[slot][0] == lowest]

    def take_turns(self, items: Sequence[Item]) -> None:
        """Polls the first items of `next_turns` and adds each again with its priority plus one."""
        rows, lowest = self._rows, self.lowest
        preorder, postorder = _traversals(len(rows))
        lower = [rows[slot] for slot in preorder if rows[slot][0] == lowest][len(items) :]
        slots = [slot for slot in postorder if rows[slot][0] == lowest]
        higher = [rows[-1], *((lowest + 1, item) for item in items)]
        remaining = set(slots[len(items) :])
        for slot, row in zip([slot for slot in preorder if slot in remaining], lower, strict=True):
            rows[slot] = row
        for slot, row in zip([*slots[: len(items)], len(rows) - 1], higher, strict=True):
            rows[slot] = row

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


@lru_cache(maxsize=256)
def _traversals(size: int) -> tuple[Sequence[int], Sequence[int]]:
    """Returns the slots of a heap's array in preorder and in postorder."""
    preorder, reverse_postorder = [], []
    for slots, left, right in ((preorder, 1, 2), (reverse_postorder, 2, 1)):
        stack = [0]
        while stack:
            if (slot := stack.pop()) < size:
                slots.append(slot)
                stack += (2 * slot + right, 2 * slot + left)
    return preorder, reverse_postorder[::-1]


def poll_in_turns(priorities: Sequence[int], items: Sequence[Item]) -> Iterator[Item]:
    """Yields without end what is polled from a heap; each item is added again with its priority plus one.

    Args:
        priorities: the priority of each item; a heap gets them in this order.
        items: the items, at least one.
    """
    if (highest := max(priorities)) > min(priorities):
        heap = Heap(zip(priorities, items, strict=True))
        while heap.lowest < highest:
            yield heap.poll_and_add()
        items = heap.items()
    order, refill = _round_of_equals(len(items))
    while True:
        for slot in order:
            yield items[slot]
        items = [items[order[turn]] for turn in refill]


@lru_cache(maxsize=256)
def _round_of_equals(size: int) -> tuple[Sequence[int], Sequence[int]]:
    """Returns a round of `poll_in_turns` if all priorities are equal.

    Returns:
        The slots in the order in which they are polled: the root; the last item, which replaces it; then as in
        `Heap.next_turns`. And for each slot, the number of the poll whose item is there after the round.
    """
    preorder, postorder = ([slot for slot in slots if slot != size - 1] for slots in _traversals(size))
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
