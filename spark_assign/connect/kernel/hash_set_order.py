"""In which order Java walks over a `HashSet` of a few names.

Principle: a table has a power of two of buckets; a name stands in the bucket of its spread hash modulo that number.
The walk goes from bucket to bucket, and inside a bucket in the order in which the names were put in.

Example: the hashes 17, 1 and 2 in 16 buckets: 17 and 1 share bucket 1, so the walk is 17, 1, 2.

Two kinds of tables: one that is filled name by name starts with 16 buckets and doubles once more than three quarters
of them are taken; a copy (`new HashSet<>(collection)`) is made large enough at once. Where more than eight names share
a bucket, a table is filled as Java fills it (`java_hash.HashTable`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from spark_assign.java.hash_map import LONGEST_CHAIN, HashTable

_SMALLEST = 16


def walk(numbers: Sequence[int], spread: Sequence[int]) -> list[int]:
    """A `HashSet` that was filled one by one.

    Args:
        numbers: of the names, which sort as the names do, in the order in which they were put in.
        spread: of every name its spread hash (`Names.spread`).
    """
    capacity = _SMALLEST
    while len(numbers) * 4 > capacity * 3:
        capacity *= 2
    return _walk(numbers, spread, _SMALLEST, capacity)


def walk_of_copy(numbers: Sequence[int], spread: Sequence[int]) -> list[int]:
    """A `HashSet` that was made from a list; arguments as `walk` has them."""
    capacity = _SMALLEST
    while capacity < int(len(numbers) / 0.75) + 1:
        capacity *= 2
    return _walk(numbers, spread, capacity, capacity)


def _walk(numbers: Sequence[int], spread: Sequence[int], begin: int, end: int) -> list[int]:
    """The walk over a table that grew from `begin` to `end` buckets."""
    if len(numbers) > LONGEST_CHAIN and _treeified(numbers, spread, begin, end):
        table: HashTable[int] = HashTable(begin, rank=int)
        for each in numbers:
            table.put(each, spread[each])
        return table.iteration_order()
    return sorted(numbers, key=lambda number: spread[number] & (end - 1))


def _treeified(numbers: Sequence[int], spread: Sequence[int], begin: int, end: int) -> bool:
    """Whether more than eight names share a bucket at any time while the table grows."""
    capacity = begin
    while capacity <= end:
        early = numbers[: capacity * 3 // 4 + 1]  # what comes later meets larger tables only
        if max(Counter([spread[each] & (capacity - 1) for each in early]).values()) > LONGEST_CHAIN:
            return True
        capacity *= 2
    return False
