"""Walks of single tables of the coordinator, one at a time; `coordinator_hash_order` has the same for columns of them.

A `HashMap` or `HashSet` is walked bucket by bucket, and in a bucket as its keys were put in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from spark_assign.java.hash_map import LONGEST_CHAIN, HashTable

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = 0xFFFFFFFF
_MASK_64 = 0xFFFFFFFFFFFFFFFF
_SMALLEST = 16

Key = TypeVar("Key")


def set_capacity(size: int) -> int:
    """Buckets of `new HashSet<>(collection)`, of a collection of this size."""
    return power_of_two(max(size * 4 // 3 + 1, _SMALLEST))


def map_capacity(size: int, begins: int = _SMALLEST) -> int:
    """Buckets of a map that began with so many, once it has this size."""
    while size * 4 > begins * 3:
        begins *= 2
    return begins


def power_of_two(least: int) -> int:
    """The smallest power of two that is not below this (`HashMap.tableSizeFor`)."""
    return 1 << max(least - 1, 0).bit_length()


def walk(
    keys: Sequence[Key],
    hashes: Sequence[int],
    capacity: int,
    rank: Callable[[Key], Any] | None = None,
    begins: int | None = None,
) -> list[Key]:
    """The keys of a table in the order of its iterator.

    Args:
        keys: in the order in which they were put in.
        hashes: `hashCode` of each, unsigned.
        capacity: buckets that the table has in the end.
        rank: of a key, what compares as `compareTo` of the keys does; it decides among keys of one hash in a bucket of
            more than eight. Null: no two hashes are alike.
        begins: buckets that the table had when it was empty; null: as many as in the end.
    """
    spread = [each ^ each >> 16 for each in hashes]
    begins = capacity if begins is None else begins
    if len(keys) > LONGEST_CHAIN and _is_treeified(spread, begins):
        table: HashTable[int] = HashTable(begins, None if rank is None else lambda at: rank(keys[at]))
        for at, code in enumerate(hashes):
            table.add(at, code)
        return [keys[at] for at in table.walk()]
    buckets = [each & capacity - 1 for each in spread]
    return [keys[at] for at in sorted(range(len(keys)), key=buckets.__getitem__)]


def _is_treeified(spread: Sequence[int], capacity: int) -> bool:
    """Whether a bucket gets more than eight keys at some time while the table grows from this capacity."""
    while True:
        early = spread[: capacity * 3 // 4 + 1]
        if max(Counter(each & capacity - 1 for each in early).values()) > LONGEST_CHAIN:
            return True
        if len(early) == len(spread):
            return False
        capacity *= 2


class CoordinatorTable:
    """The keys of one of the coordinator's own tables (`BaseHashTable` of a `TimelineHashMap`).

    It is walked by slot, the upper bits of a product, and in a slot from the key that came last to the first one. It
    doubles before a key is put in, also one that is there already, if one more would fill more than four thirds of it;
    it never shrinks.
    """

    def __init__(self) -> None:
        self._bits = 1
        self._products: dict[str, int] = {}
        self._walk: list[str] | None = []

    def __len__(self) -> int:
        return len(self._products)

    def put(self, key: str, hash_code: int) -> None:
        """Put a key in, or its value anew; `hash_code` is `String.hashCode`, unsigned."""
        if (len(self._products) + 1) * 3 > 4 << self._bits:
            shift = 64 - self._bits
            self._products = dict(sorted(self._products.items(), key=lambda each: each[1] >> shift))
            self._bits += 1
            self._walk = None
        if key not in self._products:
            signed = hash_code - (hash_code >> 31 << 32)
            self._products[key] = signed * _GOLDEN & _MASK_64
            self._walk = None

    def remove(self, key: str) -> None:
        """Take a key out, if it is there."""
        if self._products.pop(key, None) is not None:
            self._walk = None

    def walk(self) -> list[str]:
        """The keys in the order of an iterator."""
        if self._walk is None:
            shift = 64 - self._bits
            self._walk = list(reversed(self._products))
            self._walk.sort(key=lambda key: self._products[key] >> shift)
        return self._walk
