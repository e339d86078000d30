"""Computes the iteration order of Java's `HashMap` and `HashSet`, on which results of Kafka's assignors depend.

The sticky assignors depend on it in four places: which member keeps one partition more, which of two owners of a
partition wins, which older owner is remembered, and which partition of a topic moves back. Unless stated otherwise, a
table starts with 16 buckets.

A bucket is iterated in insertion order until it gets a ninth key. Then a table of fewer than 64 buckets doubles; in a
larger one the bucket becomes a tree (`tree_bin`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Generic, TypeVar

import numpy as np

from spark_assign.java.tree_bin import Bucket, Entry, Tree
from spark_assign.numeric.array_types import BoolArray, IntArray

_MASK = 0xFFFFFFFF
_SMALLEST = 16
LONGEST_CHAIN = 8
"""The number of keys that a bucket holds as a list (`HashMap.TREEIFY_THRESHOLD`)."""
NEVER_REHASHED_FOR_CHAINS = 64
_SUSPECT = 150
"""In maps with more keys, nine of them often share a bucket of 64 by chance."""


def string_hashes(texts: Sequence[str]) -> IntArray:
    """Returns `String.hashCode` of each text as unsigned 32 bits: 31 * hash + unit, over UTF-16 code units."""
    encoded = [text.encode("utf-16-le", "surrogatepass") for text in texts]
    lengths = np.fromiter((len(text_bytes) // 2 for text_bytes in encoded), np.int64, len(encoded))
    units = np.frombuffer(b"".join(encoded), dtype="<u2").astype(np.uint32)
    starts = np.cumsum(lengths) - lengths
    hashes = np.zeros(len(encoded), np.uint32)
    # The longest texts come first, so that those that still have a unit at some place are a prefix.
    longest = np.argsort(-lengths, kind="stable")
    for position in range(int(lengths.max(initial=0))):
        active = longest[: np.searchsorted(-lengths[longest], -position, side="left")]
        hashes[active] = hashes[active] * np.uint32(31) + units[starts[active] + position]
    return hashes.astype(np.int64)


def java_key(text: str) -> bytes:
    """Returns a key that sorts texts as `String.compareTo` does: by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


@lru_cache(maxsize=4_096)
def string_hash(text: str) -> int:
    """Returns `String.hashCode` of one text as an unsigned 32-bit integer."""
    code = 0
    units = java_key(text)
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8) + low) & _MASK
    return code


def spread_hashes(hashes: IntArray) -> IntArray:
    """Returns the hashes that `HashMap` distributes over its buckets (`HashMap.hash`), unsigned 32 bits."""
    return (hashes ^ (hashes >> 16)) & _MASK


def partition_hash(topic_hash: int, partition: int) -> int:
    """Returns `TopicPartition.hashCode` as an unsigned 32-bit integer."""
    return (31 * (31 + partition) + topic_hash) & _MASK


def table_order(hashes: IntArray, ranks: IntArray | None, group: IntArray | None = None) -> IntArray:
    """Returns the iteration order of `HashMap`s.

    Args:
        hashes: of the keys, in insertion order.
        ranks: of the keys, in the order of `compareTo`; None if the keys are not `Comparable`.
        group: index of the map of each key, ascending; None for a single map.

    Returns:
        the indexes of the keys in iteration order, map after map.

    Raises:
        IdentityDecides: Java would have to order two keys that are not `Comparable`.
    """
    group = np.zeros(len(hashes), np.int64) if group is None else group
    return _order(spread_hashes(hashes), ranks, group, treeified_groups(hashes, group))


def table_orders(hashes: IntArray, ranks: IntArray, group: IntArray) -> tuple[IntArray, IntArray]:
    """Returns the iteration order of `HashMap`s, and of second ones that are filled in that order.

    Both are one array if no second map has a tree.
    """
    spread = spread_hashes(hashes)
    suspects = _suspects(spread, group)
    first = _order(spread, ranks, group, _treeified(spread, group, suspects))
    again = spread[first]
    treeified = _treeified(again, group, suspects)
    if not len(treeified):
        return first, first
    return first, first[_order(again, ranks[first], group, treeified)]


def _order(spread: IntArray, ranks: IntArray | None, group: IntArray, treeified: IntArray) -> IntArray:
    """Returns the iteration order. Maps that may have a tree are filled key by key."""
    sizes = np.bincount(group)
    order = np.lexsort((spread & (capacities(sizes)[group] - 1), group))
    starts = np.cumsum(sizes) - sizes
    for map_index in treeified.tolist():
        start, end = starts[map_index], starts[map_index] + sizes[map_index]
        table: HashTable[int] = HashTable(rank=None if ranks is None else ranks.__getitem__)
        for key in range(start, end):
            table.put(key, int(spread[key]))
        order[start:end] = table.iteration_order()
    return order


def text_order(texts: Sequence[str]) -> list[int]:
    """Returns the iteration order of a `HashMap` with these keys, as indexes into `texts` (insertion order)."""
    return table_order(string_hashes(texts), text_ranks(texts)).tolist() if texts else []


def texts_in_table_order(texts: Sequence[str]) -> list[str]:
    """Returns the texts in the iteration order of a `HashMap` with these keys."""
    return [texts[at] for at in text_order(texts)]


def text_ranks(texts: Sequence[str]) -> IntArray:
    """Returns the position of each text among all, in the order of `String.compareTo`."""
    ranks = np.empty(len(texts), np.int64)
    ranks[sorted(range(len(texts)), key=lambda at: java_key(texts[at]))] = np.arange(len(texts))
    return ranks


def treeified_groups(hashes: IntArray, group: IntArray) -> IntArray:
    """Returns the maps in which a bucket gets so many keys that the table grows early or the bucket becomes a tree.

    Arguments: see `table_order`. The result may contain further maps, but it misses none.
    """
    spread = spread_hashes(hashes)
    return _treeified(spread, group, _suspects(spread, group))


def _suspects(spread: IntArray, group: IntArray) -> BoolArray:
    """Returns, for each map, whether a bucket may get too many keys, for any insertion order.

    A small table may grow at any time, until buckets become trees. Keys that share a bucket of a larger table also
    share one of 64; for very large maps this excludes nothing.
    """
    sizes = np.bincount(group)
    buckets = capacities(sizes)
    suspects = sizes > _SUSPECT
    _mark(suspects, spread, group, buckets < NEVER_REHASHED_FOR_CHAINS, _SMALLEST)
    large = (buckets >= NEVER_REHASHED_FOR_CHAINS) & ~suspects
    _mark(suspects, spread, group, large, NEVER_REHASHED_FOR_CHAINS)
    return suspects


def _treeified(spread: IntArray, group: IntArray, suspects: BoolArray) -> IntArray:
    """Returns the suspects in which a bucket gets too many keys, for this insertion order."""
    if not suspects.any():
        return np.empty(0, np.int64)
    sizes = np.bincount(group)
    buckets = capacities(sizes)
    treeified = suspects & (buckets < NEVER_REHASHED_FOR_CHAINS)
    position = np.arange(len(group)) - (np.cumsum(sizes) - sizes)[group]
    capacity = NEVER_REHASHED_FOR_CHAINS
    while (large := suspects & (buckets >= capacity)).any():
        # At most this many keys are in the table before it doubles; later keys meet larger tables.
        early = np.flatnonzero((position <= capacity * 3 // 4) & large[group])
        _mark(treeified, spread[early], group[early], large, capacity)
        capacity *= 2
    return np.flatnonzero(treeified)


def _mark(treeified: BoolArray, spread: IntArray, group: IntArray, selected: BoolArray, capacity: int) -> None:
    """Marks the groups in which a bucket of a table of this capacity gets too many keys."""
    if not selected.any():
        return
    is_selected = selected[group]
    compact_index = np.cumsum(selected) - 1
    bucket = compact_index[group[is_selected]] * capacity + (spread[is_selected] & (capacity - 1))
    chains = np.bincount(bucket, minlength=int(selected.sum()) * capacity).reshape(-1, capacity)
    treeified[np.flatnonzero(selected)] |= chains.max(axis=1) > LONGEST_CHAIN


def capacities(sizes: IntArray) -> IntArray:
    """Returns the number of buckets of tables with these numbers of keys: 16, doubled while more than 3/4 are used."""
    buckets = np.full(len(sizes), _SMALLEST, np.int64)
    while (tight := sizes * 4 > buckets * 3).any():
        buckets[tight] *= 2
    return buckets


Key = TypeVar("Key", bound=Hashable)


class HashTable(Generic[Key]):
    """A `HashSet`, or the keys of a `HashMap`, with its iteration order.

    While no bucket is a tree, the insertion order of all keys is enough. From the first tree on, each bucket is kept
    separately.
    """

    def __init__(self, capacity: int = _SMALLEST, rank: Callable[[Any], Any] | None = java_key) -> None:
        """Creates an empty table.

        Args:
            capacity: initial number of buckets, a power of two.
            rank: maps a key to a value that compares as `compareTo`; None if the keys are not `Comparable`.
        """
        self.capacity = capacity
        self.spread: dict[Key, int] = {}
        self._rank = rank
        self._chains: dict[int, int] = {}
        self._buckets: dict[int, Bucket[Key]] | None = None

    @property
    def treeified(self) -> bool:
        """Returns whether a bucket is, or was, a tree."""
        return self._buckets is not None

    def add(self, key: Key, hash_code: int) -> None:
        """Adds a key; a key that is present stays where it is."""
        self.put(key, (hash_code ^ (hash_code >> 16)) & _MASK)

    def put(self, key: Key, spread: int) -> None:
        """Adds a key with its hash as returned by `HashMap.hash`.

        Raises:
            IdentityDecides: Java would have to order two keys that are not `Comparable`.
        """
        if key in self.spread:
            return
        self.spread[key] = spread
        bucket = spread & (self.capacity - 1)
        chain = self._chains.get(bucket, 0)
        self._chains[bucket] = chain + 1
        if self._buckets is not None:
            entries = self._buckets.setdefault(bucket, [])
            if isinstance(entries, Tree):
                entries.put(self._entry(key))
                chain = 0
            else:
                entries.append(key)
        if chain >= LONGEST_CHAIN:
            if self.capacity < NEVER_REHASHED_FOR_CHAINS:
                self._double()
            else:
                self._treeify(bucket)
        if len(self.spread) * 4 > self.capacity * 3:
            self._double()

    def remove(self, key: Key) -> None:
        """Removes a key; the table never shrinks."""
        bucket = self.bucket(key)
        del self.spread[key]
        self._chains[bucket] -= 1
        if self._buckets is None:
            return
        entries = self._buckets[bucket]
        if not isinstance(entries, Tree):
            entries.remove(key)
        elif not entries.remove(key):
            self._buckets[bucket] = list(entries)

    def clear(self) -> None:
        """Removes all keys; the number of buckets stays."""
        self.spread.clear()
        self._chains.clear()
        self._buckets = None

    def __len__(self) -> int:
        return len(self.spread)

    def first(self, among: Iterable[Key] | None = None) -> Key:
        """Returns the first key of an iterator.

        Args:
            among: consider only these keys, in insertion order; None for all keys.
        """
        if self._buckets is None:
            return min(self.spread if among is None else among, key=self.bucket)
        wanted = self.spread if among is None else set(among)
        return next(key for key in self.iteration_order() if key in wanted)

    def iteration_order(self) -> list[Key]:
        """Returns the keys in iteration order: by bucket, and in a list bucket by insertion."""
        if self._buckets is None:
            return sorted(self.spread, key=self.bucket)
        return [key for bucket in sorted(self._buckets) for key in self._buckets[bucket]]

    def bucket(self, key: Key) -> int:
        """Returns the bucket of a key that is present."""
        return self.spread[key] & (self.capacity - 1)

    def _entry(self, key: Key) -> Entry[Key]:
        return Entry(key, self.spread[key], None if self._rank is None else self._rank(key))

    def _treeify(self, bucket: int) -> None:
        """Turns a bucket into a tree (`treeifyBin`)."""
        if self._buckets is None:
            self._buckets = {}
            for key in self.spread:
                entries = self._buckets.setdefault(self.bucket(key), [])
                assert isinstance(entries, list)
                entries.append(key)
        self._buckets[bucket] = Tree([self._entry(key) for key in self._buckets[bucket]])

    def _double(self) -> None:
        """Doubles the number of buckets (`resize`)."""
        bit = self.capacity
        self.capacity *= 2
        self._chains = dict(Counter(spread & (self.capacity - 1) for spread in self.spread.values()))
        if self._buckets is None:
            return
        before, self._buckets = self._buckets, {}
        for bucket, keys in before.items():
            if isinstance(keys, Tree):
                self._buckets[bucket], self._buckets[bucket + bit] = keys.split(bit)
            else:
                self._buckets[bucket] = [key for key in keys if not self.spread[key] & bit]
                self._buckets[bucket + bit] = [key for key in keys if self.spread[key] & bit]
