"""The order in which the group coordinator passes members, topics, and partitions to its assignors.

    members             the coordinator's table (a `TimelineHashMap`), copied to a `HashMap` by member id
    topics              the names in the `HashSet` of a subscription; their ids are added to another set in this order
    previous target     a `HashMap` of topic ids; for each topic, a `HashSet` of partitions

A target assignment is written as a record and read again, so its maps and sets are new and are filled in the order of
the record. All orders are functions of ids, except within a bucket, where the insertion order counts: a `HashMap` or
`HashSet` is iterated bucket by bucket, and a bucket in insertion order.

The first half of this module computes the orders of many tables as columns, the second half that of a single table.
"""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from spark_assign.java.hash_map import LONGEST_CHAIN, HashTable, capacities, spread_hashes
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import invert
from spark_assign.numeric.segmented_arrays import key_ranges, row_numbers, starts_new_key

_GOLDEN_RATIO = 0x9E3779B97F4A7C15
_SMALLEST_TABLE = 2
_MOST_BITS = 32
_SMALLEST_SET = 16
_BUCKET_BITS = 32
_MASK = 0xFFFFFFFF
_MASK_64 = 0xFFFFFFFFFFFFFFFF


def table_slots(hashes: IntArray, group: IntArray) -> IntArray:
    """Returns the slot of each member in the coordinator's table (`BaseHashTable`), which is iterated slot by slot.

    Before a member is written, the table doubles if one more entry would exceed a load factor of 4/3, even if the
    member is in the table already. It never shrinks. Each member is written twice when it joins.

    Args:
        hashes: `String.hashCode` of member ids, unsigned.
        group: group of each member, ascending.
    """
    sizes = np.bincount(group)
    bits = np.ones(len(sizes), np.int64)
    while (is_full := (sizes + 1) * 3 > (_SMALLEST_TABLE << (bits + 1))).any():
        bits[is_full] += 1
    signed = np.where(hashes >> 31, hashes - (1 << 32), hashes).astype(np.int64).astype(np.uint64)
    return ((signed * np.uint64(_GOLDEN_RATIO)) >> (64 - bits[group]).astype(np.uint64)).astype(np.int64)


@dataclass(frozen=True)
class TopicIds:
    """Ids of topics.

    Attributes:
        hash: `Uuid.hashCode`, unsigned.
        rank: position of each id by `Uuid.compareTo`, which compares the two halves as signed integers.
        is_valid: whether the text is a valid id. Otherwise, hash and rank are undefined.
    """

    hash: IntArray
    rank: IntArray
    is_valid: BoolArray


def read_topic_ids(texts: Sequence[str | None]) -> TopicIds:
    """Parses topic ids as Kafka prints them: 22 characters of base64."""
    halves = np.zeros((len(texts), 2), ">u8")
    is_valid = np.zeros(len(texts), bool)
    for index, text in enumerate(texts):
        if text is not None and (raw := _raw(text)) is not None:
            halves[index], is_valid[index] = np.frombuffer(raw, ">u8"), True
    high, low = halves.astype(np.uint64).T
    mixed = high ^ low
    rank = invert(np.lexsort((low.astype(np.int64), high.astype(np.int64))), len(texts))
    return TopicIds(((mixed >> np.uint64(32)) ^ (mixed & np.uint64(_MASK))).astype(np.int64), rank, is_valid)


def _raw(text: str) -> bytes | None:
    """Returns the 16 bytes of a topic id; None if it isn't valid."""
    try:
        raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if len(raw) == 16 else None


def set_order(hashes: IntArray, ranks: IntArray, set_index: IntArray, sizes: IntArray | None = None) -> IntArray:
    """Returns the indexes of keys in the iteration order of their hash sets, set after set.

    Each set is created from a collection (`new HashSet<>(collection)`, Java 17).

    Args:
        hashes: hash codes of the keys, unsigned, in insertion order.
        ranks: rank of each key in the order of `compareTo`.
        set_index: index of each key's set, ascending.
        sizes: size of each collection, if it isn't the number of keys.
    """
    if not len(set_index):
        return np.empty(0, np.int64)
    buckets = _set_capacities(set_index, sizes)
    spread = spread_hashes(hashes)
    bucket = spread & (buckets[set_index] - 1)
    order = np.lexsort((bucket, set_index))
    treeified = _treeified((set_index << _BUCKET_BITS | bucket)[order])
    if len(treeified):
        bounds = key_ranges(set_index)
        starts = np.flatnonzero(starts_new_key(set_index))
        for tree_set in treeified.tolist():
            start, end = bounds[int(np.searchsorted(set_index[starts], tree_set))]
            table: HashTable[int] = HashTable(int(buckets[tree_set]), ranks.__getitem__)
            for key in range(start, end):
                table.put(key, int(spread[key]))
            order[start:end] = table.iteration_order()
    return order


def set_buckets(hashes: IntArray, set_index: IntArray, sizes: IntArray | None = None) -> IntArray:
    """Returns the bucket of each key in such a set. Keys of a bucket are iterated in insertion order.

    Arguments: see `set_order`; keys are in any order. If a bucket has so many keys that Java makes it a tree, the whole
    set counts as one bucket.
    """
    return _buckets(hashes, set_index, _set_capacities(set_index, sizes))


def map_buckets(hashes: IntArray, set_index: IntArray) -> IntArray:
    """Returns the bucket of each key in a hash map that is filled key by key."""
    return _buckets(hashes, set_index, capacities(np.bincount(set_index)))


def _buckets(hashes: IntArray, set_index: IntArray, num_buckets: IntArray) -> IntArray:
    bucket = spread_hashes(hashes) & (num_buckets[set_index] - 1)
    bucket[np.isin(set_index, _treeified(np.sort(set_index << _BUCKET_BITS | bucket)))] = 0
    return bucket


def _treeified(keys: IntArray) -> IntArray:
    """Returns the sets in which a bucket becomes a tree, given the set and bucket of each key, ascending."""
    return np.unique(keys[row_numbers(keys) >= LONGEST_CHAIN] >> _BUCKET_BITS)


def _set_capacities(set_index: IntArray, sizes: IntArray | None) -> IntArray:
    sizes = np.bincount(set_index) if sizes is None else sizes
    num_buckets = np.full(len(sizes), _SMALLEST_SET, np.int64)
    while (is_full := num_buckets < sizes * 4 // 3 + 1).any():
        num_buckets[is_full] *= 2
    return num_buckets


Key = TypeVar("Key")


def set_capacity(size: int) -> int:
    """Returns the number of buckets of `new HashSet<>(collection)` for a collection of this size."""
    return max(1 << (size * 4 // 3).bit_length(), _SMALLEST_SET)


def map_capacity(size: int, initial_capacity: int = _SMALLEST_SET) -> int:
    """Returns the number of buckets of a map of this size with this initial capacity."""
    while size * 4 > initial_capacity * 3:
        initial_capacity *= 2
    return initial_capacity


def power_of_two(minimum: int) -> int:
    """Returns the smallest power of two that isn't below `minimum` (`HashMap.tableSizeFor`)."""
    return 1 << max(minimum - 1, 0).bit_length()


def iteration_order(
    keys: Sequence[Key],
    hashes: Sequence[int],
    capacity: int,
    rank: Callable[[Key], Any] | None = None,
    initial_capacity: int | None = None,
) -> list[Key]:
    """Returns the keys of a table in the order of its iterator.

    Args:
        keys: in insertion order.
        hashes: `hashCode` of each key, unsigned.
        capacity: final number of buckets.
        rank: returns a value that compares as `compareTo` of the keys does. It decides between keys with the same hash
            code in a bucket of more than eight keys. None if all hash codes differ.
        initial_capacity: number of buckets of the empty table; None if it is the final number.
    """
    if len(keys) == 1:
        return list(keys)
    spread = [code ^ code >> 16 for code in hashes]
    initial_capacity = capacity if initial_capacity is None else initial_capacity
    if len(keys) > LONGEST_CHAIN and _is_treeified(spread, initial_capacity):
        table: HashTable[int] = HashTable(initial_capacity, None if rank is None else lambda index: rank(keys[index]))
        for index, code in enumerate(hashes):
            table.add(index, code)
        return [keys[index] for index in table.iteration_order()]
    buckets = [code & capacity - 1 for code in spread]
    return [keys[index] for index in sorted(range(len(keys)), key=buckets.__getitem__)]


def _is_treeified(spread: Sequence[int], capacity: int) -> bool:
    """Checks whether a bucket ever has more than eight keys while the table grows from this capacity."""
    while True:
        early = spread[: capacity * 3 // 4 + 1]
        buckets = [code & capacity - 1 for code in early]
        if len(buckets) - len(set(buckets)) >= LONGEST_CHAIN and max(Counter(buckets).values()) > LONGEST_CHAIN:
            return True
        if len(early) == len(spread):
            return False
        capacity *= 2


class CoordinatorTable:
    """The keys of one of the coordinator's tables (`BaseHashTable` of a `TimelineHashMap`).

    It is iterated by slot (the upper bits of a product), and within a slot from the last key to the first. Before a key
    is put, the table doubles if one more entry would exceed a load factor of 4/3, even if the key is in the table
    already. It never shrinks.
    """

    def __init__(self) -> None:
        self._bits = 1
        self._products: dict[str, int] = {}
        self._order: list[str] | None = []

    def __len__(self) -> int:
        return len(self._products)

    def put(self, key: str, hash_code: int) -> None:
        """Adds a key, or replaces its value. `hash_code` is `String.hashCode`, unsigned."""
        if (len(self._products) + 1) * 3 > 4 << self._bits:
            shift = 64 - self._bits
            self._products = dict(sorted(self._products.items(), key=lambda item: item[1] >> shift))
            self._bits += 1
            self._order = None
        if key not in self._products:
            signed = hash_code - (hash_code >> 31 << 32)
            self._products[key] = signed * _GOLDEN_RATIO & _MASK_64
            self._order = None

    def remove(self, key: str) -> None:
        """Removes a key if it is in the table."""
        if self._products.pop(key, None) is not None:
            self._order = None

    def grow_until(self, listed: Sequence[str]) -> None:
        """Doubles the table until its iterator returns the keys in this order. If no size does, keeps the size.

        A table that once had more keys is larger than its keys require. Keys that share a slot must have been put from
        the last listed to the first.
        """
        for bits in range(self._bits, _MOST_BITS):
            slots = [self._products[key] >> 64 - bits for key in listed]
            if slots == sorted(slots):
                self._bits, self._order = bits, None
                return

    def iteration_order(self) -> list[str]:
        """Returns the keys in the order of an iterator."""
        if self._order is None:
            shift = 64 - self._bits
            self._order = list(reversed(self._products))
            self._order.sort(key=lambda key: self._products[key] >> shift)
        return self._order
