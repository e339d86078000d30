"""`java.util.PriorityQueue`: what its sift rules make of equal priorities."""

from __future__ import annotations

from itertools import islice
from random import Random

from spark_assign.java.priority_queue import Heap, in_poll_order, poll_in_turns


def polled(heap: Heap[str]) -> str:
    """All items, in the order in which they come out."""
    return "".join(heap.poll() for _ in range(len(heap)))


def test_equal_ones_come_in_an_order_of_their_own() -> None:
    """As Java 17 polls them: the last one goes to the place of the first, and stays there."""
    assert polled(Heap((0, name) for name in "abcde")) == "aedcb"
    assert polled(Heap((0, name) for name in "abcdefgh")) == "ahgfedcb"


def test_one_is_put_back_among_its_equals() -> None:
    """A new one goes to the end, and not past its equals."""
    heap = Heap((0, name) for name in "abc")
    first = heap.poll()
    heap.add(0, first)
    assert first + polled(heap) == "aca"[:2] + "ab"


def test_the_least_comes_first() -> None:
    """Whatever is put in and taken out meanwhile."""
    random = Random(3)
    heap: Heap[int] = Heap()
    there: list[int] = []
    for _ in range(2_000):
        if there and random.random() < 0.45:
            least = min(there)
            assert heap.poll() == least
            there.remove(least)
        else:
            there.append(random.randrange(50))
            heap.add(there[-1], there[-1])
    assert len(heap) == len(there)


def test_one_is_taken_out_of_the_middle() -> None:
    """The last one takes its place, and sinks or rises; the others come in their order."""
    for seed in range(200):
        random = Random(seed)
        numbers = random.sample(range(100), 12)
        heap = Heap.from_rows((number, number) for number in numbers)
        removed = random.sample(numbers, 5)
        for number in removed:
            heap.remove(number)
        assert [heap.poll() for _ in range(len(heap))] == sorted(set(numbers).difference(removed))


def test_a_changed_priority_moves_nothing() -> None:
    """It counts only once something else moves past it."""
    heap = Heap((number, number) for number in range(4))
    heap.reprioritize(0, 9)
    assert heap.items() == [0, 1, 2, 3]
    assert [heap.poll() for _ in range(4)] == [0, 1, 2, 3]


def test_all_are_added_before_the_first_poll() -> None:
    """The order is that of polls, whether or not priorities are equal."""
    for seed in range(100):
        random = Random(seed)
        rows = [(random.randrange(1 + seed % 2 * 1_000), number) for number in range(12)]
        heap = Heap(rows)
        assert in_poll_order(rows) == [heap.poll() for _ in rows]


def test_turns_are_polls_one_by_one() -> None:
    """The closed form for equal priorities gives the items of single polls, also after a start with others."""
    random = Random(5)
    for size in [*range(1, 36), 63, 64, 65, 130]:
        for values in ([5], [5, 6], [0, 1, 2], [0, 9, 10]):
            priorities = random.choices(values, k=size)
            heap = Heap(zip(priorities, range(size), strict=True))
            turns = list(islice(poll_in_turns(priorities, range(size)), 15 * size))
            assert turns == [heap.poll_and_add() for _ in turns]
