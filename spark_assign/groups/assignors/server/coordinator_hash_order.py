"""In which order the coordinator hands members, topics and partitions to its assignors.

    members       the coordinator's table (a `TimelineHashMap`), copied into a `HashMap` by member id
    topics        names in the `HashSet` of a subscription, their ids put into another one in that walk
    previous      a `HashMap` of topic ids; of each topic a `HashSet` of its partitions

A target assignment is written as a record and read back, so that maps and sets are new ones, filled in the order of the
record. All orders are functions of ids, but for keys of one bucket: there it matters which came first.


Walks of single tables of the coordinator, one at a time; `coordinator_hash_order` has the same for columns of them.

A `HashMap` or `HashSet` is walked bucket by bucket, and in a bucket as its keys were put in.
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
from spark_assign.numeric.segmented_arrays import key_ranges, row_numbers, starts_new_key

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SMALLEST_TABLE = 2
_SMALLEST_SET = 16
_BUCKET_BITS = 32
_MASK = 0xFFFFFFFF


def table_slots(hashes: IntArray, group: IntArray) -> IntArray:
    """Of each member its slot in the coordinator's table (`BaseHashTable`), which is walked slot by slot.

    The table doubles before a member is written, one that is there already, too, if one more would make it fuller than
    four thirds; it never shrinks. Every member is written twice when it joins.

    Args:
        hashes: `String.hashCode` of member ids, unsigned.
        group: of each member, ascending.
    """
    sizes = np.bincount(group)
    bits = np.ones(len(sizes), np.int64)
    while (tight := (sizes + 1) * 3 > (_SMALLEST_TABLE << (bits + 1))).any():
        bits[tight] += 1
    signed = np.where(hashes >> 31, hashes - (1 << 32), hashes).astype(np.int64).astype(np.uint64)
    return ((signed * _GOLDEN) >> (64 - bits[group]).astype(np.uint64)).astype(np.int64)


@dataclass(frozen=True)
class TopicIds:
    """Ids of topics.

    Attributes:
        hash: `Uuid.hashCode`, unsigned.
        rank: of each id its place among all by `Uuid.compareTo`, which takes its halves as signed numbers.
        is_valid: whether it is one; of others hash and rank say nothing.
    """

    hash: IntArray
    rank: IntArray
    is_valid: BoolArray


def read_topic_ids(texts: Sequence[str | None]) -> TopicIds:
    """Topic ids as Kafka prints them: 22 characters of base64."""
    halves = np.zeros((len(texts), 2), ">u8")
    fine = np.zeros(len(texts), bool)
    for at, text in enumerate(texts):
        if text is not None and (raw := _raw(text)) is not None:
            halves[at], fine[at] = np.frombuffer(raw, ">u8"), True
    high, low = halves.astype(np.uint64).T
    both = high ^ low
    order = np.lexsort((low.astype(np.int64), high.astype(np.int64)))
    rank = np.empty(len(texts), np.int64)
    rank[order] = np.arange(len(texts))
    return TopicIds(((both >> np.uint64(32)) ^ (both & np.uint64(_MASK))).astype(np.int64), rank, fine)


def _raw(text: str) -> bytes | None:
    try:
        raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if len(raw) == 16 else None


def set_order(hashes: IntArray, of: IntArray, sizes: IntArray | None = None) -> IntArray:
    """The order in which hash sets are walked that are made of a collection (`new HashSet<>(collection)`, Java 17).

    Args:
        hashes: of the keys, unsigned, in the order in which they are put in.
        of: of each key, ascending, the number of its set.
        sizes: of each set the size of the collection, if it is not the number of keys.

    Returns:
        the indexes of the keys in the order of the walk, set after set.
    """
    if not len(of):
        return np.empty(0, np.int64)
    buckets = _set_capacities(of, sizes)
    spread = spread_hashes(hashes)
    bucket = spread & (buckets[of] - 1)
    order = np.lexsort((bucket, of))
    long = _treeified((of << _BUCKET_BITS | bucket)[order])
    if len(long):
        bounds = key_ranges(of)
        starts = np.flatnonzero(starts_new_key(of))
        for each in long.tolist():
            begin, end = bounds[int(np.searchsorted(of[starts], each))]
            table: HashTable[int] = HashTable(int(buckets[each]), hashes.__getitem__)
            for at in range(begin, end):
                table.put(at, int(spread[at]))
            order[begin:end] = table.iteration_order()
    return order


def set_buckets(hashes: IntArray, of: IntArray, sizes: IntArray | None = None) -> IntArray:
    """Of each key of such a set its bucket; keys of one bucket are walked in the order in which they were put in.

    Arguments as for `set_order`, in any order. Where a bucket has so many keys that Java rebuilds something, the whole
    set counts as one bucket.
    """
    return _buckets(hashes, of, _set_capacities(of, sizes))


def map_buckets(hashes: IntArray, of: IntArray) -> IntArray:
    """The same of hash maps that grew key by key."""
    return _buckets(hashes, of, capacities(np.bincount(of)))


def _buckets(hashes: IntArray, of: IntArray, sizes: IntArray) -> IntArray:
    bucket = spread_hashes(hashes) & (sizes[of] - 1)
    bucket[np.isin(of, _treeified(np.sort(of << _BUCKET_BITS | bucket)))] = 0
    return bucket


def _treeified(keys: IntArray) -> IntArray:
    """The sets in which a bucket has more keys than a chain may be long; of each key set and bucket, ascending."""
    return np.unique(keys[row_numbers(keys) >= LONGEST_CHAIN] >> _BUCKET_BITS)


def _set_capacities(of: IntArray, sizes: IntArray | None) -> IntArray:
    sizes = np.bincount(of) if sizes is None else sizes
    found = np.full(len(sizes), _SMALLEST_SET, np.int64)
    while (tight := found < sizes * 4 // 3 + 1).any():
        found[tight] *= 2
    return found


_GOLDEN_RATIO = 0x9E3779B97F4A7C15
_MASK = 0xFFFFFFFF
_MASK_64 = 0xFFFFFFFFFFFFFFFF
_SMALLEST_SET = 16

Key = TypeVar("Key")


def set_capacity(size: int) -> int:
    """Buckets of `new HashSet<>(collection)`, of a collection of this size."""
    return power_of_two(max(size * 4 // 3 + 1, _SMALLEST_SET))


def map_capacity(size: int, begins: int = _SMALLEST_SET) -> int:
    """Buckets of a map that began with so many, once it has this size."""
    while size * 4 > begins * 3:
        begins *= 2
    return begins


def power_of_two(least: int) -> int:
    """The smallest power of two that is not below this (`HashMap.tableSizeFor`)."""
    return 1 << max(least - 1, 0).bit_length()


def iteration_order(
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
        return [keys[at] for at in table.iteration_order()]
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
            self._products[key] = signed * _GOLDEN_RATIO & _MASK_64
            self._walk = None

    def remove(self, key: str) -> None:
        """Take a key out, if it is there."""
        if self._products.pop(key, None) is not None:
            self._walk = None

    def iteration_order(self) -> list[str]:
        """The keys in the order of an iterator."""
        if self._walk is None:
            shift = 64 - self._bits
            self._walk = list(reversed(self._products))
            self._walk.sort(key=lambda key: self._products[key] >> shift)
        return self._walk
