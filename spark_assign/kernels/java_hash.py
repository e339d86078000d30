"""Java's hash orders, which Kafka's assignors inherit from `String.hashCode` and `HashMap`.

The sticky assignors use them in four places: who keeps one partition more, who wins a claim, which old claimer is
remembered, and which partition of a topic moves back. A table here is a `HashMap` or `HashSet` that began with 16
buckets. (Buckets that Java turns into trees, from nine entries in a table of 64 or more, are not reproduced.)
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_MASK = 0xFFFFFFFF
_SMALLEST = 16
_LONGEST_CHAIN = 8
_NEVER_REHASHED_FOR_CHAINS = 64


def string_hashes(texts: Sequence[str]) -> Ints:
    """`String.hashCode` of each text, as unsigned 32 bits: 31 * hash + unit, over UTF-16 code units."""
    encoded = [text.encode("utf-16-le", "surrogatepass") for text in texts]
    lengths = np.fromiter((len(each) // 2 for each in encoded), np.int64, len(encoded))
    units = np.frombuffer(b"".join(encoded), dtype="<u2").astype(np.uint32)
    begins = np.cumsum(lengths) - lengths
    hashes = np.zeros(len(encoded), np.uint32)
    # The longest texts come first, so that those that still have a unit at some place are a prefix.
    longest = np.argsort(-lengths, kind="stable")
    for place in range(int(lengths.max(initial=0))):
        going = longest[: np.searchsorted(-lengths[longest], -place, side="left")]
        hashes[going] = hashes[going] * np.uint32(31) + units[begins[going] + place]
    return hashes.astype(np.int64)


def java_key(text: str) -> bytes:
    """A key that sorts texts as `String.compareTo` does: by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def string_hash(text: str) -> int:
    """The same of one text, where an array would be too much."""
    code = 0
    units = java_key(text)
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8) + low) & _MASK
    return code


def partition_hash(topic_hash: int, partition: int) -> int:
    """`TopicPartition.hashCode`, as unsigned 32 bits."""
    return (31 * (31 + partition) + topic_hash) & _MASK


def table_order(hashes: Ints, group: Ints | None = None) -> Ints:
    """The order in which a `HashMap` is walked.

    Args:
        hashes: of the keys, in the order in which they were put in.
        group: of each key, ascending, the number of its own map; null for one map.

    Returns:
        the indexes of the keys in the order of the walk, map after map.
    """
    group = np.zeros(len(hashes), np.int64) if group is None else group
    spread = (hashes ^ (hashes >> 16)) & _MASK
    sizes = np.bincount(group)
    capacities = _capacities(sizes)
    # Long chains can make a small table grow early: those few tables are filled key by key.
    small = spread & (_SMALLEST - 1)
    chains = np.bincount(group * _SMALLEST + small, minlength=len(sizes) * _SMALLEST).reshape(-1, _SMALLEST)
    for each in np.flatnonzero((chains.max(axis=1, initial=0) > _LONGEST_CHAIN) & (capacities < 64)):
        capacities[each] = _grown(spread[group == each].tolist())
    return np.lexsort((spread & (capacities[group] - 1), group))


def _capacities(sizes: Ints) -> Ints:
    """Buckets of tables of these sizes: 16, doubled once the size exceeds three quarters of them."""
    capacities = np.full(len(sizes), _SMALLEST, np.int64)
    while (tight := sizes * 4 > capacities * 3).any():
        capacities[tight] *= 2
    return capacities


def _grown(spread: list[int]) -> int:
    """The capacity of a table after putting these keys in one by one."""
    table: HashTable[int] = HashTable()
    for number, each in enumerate(spread):
        table.put(number, each)
    return table.capacity


Key = TypeVar("Key", bound=Hashable)


class HashTable(Generic[Key]):
    """A `HashSet`, or the keys of a `HashMap`, whose order is asked for now and then."""

    def __init__(self) -> None:
        self.capacity = _SMALLEST
        self.spread: dict[Key, int] = {}

    def add(self, key: Key, hash_code: int) -> None:
        """Put a key in; one that is there stays where it is."""
        self.put(key, (hash_code ^ (hash_code >> 16)) & _MASK)

    def put(self, key: Key, spread: int) -> None:
        """Put a key in, by the hash that `HashMap` spreads over its buckets."""
        if key in self.spread:
            return
        if len(self.spread) >= _LONGEST_CHAIN and self.capacity < _NEVER_REHASHED_FOR_CHAINS:
            mask = self.capacity - 1
            chain = sum((other & mask) == (spread & mask) for other in self.spread.values())
            if chain >= _LONGEST_CHAIN:
                self.capacity *= 2
        self.spread[key] = spread
        if len(self.spread) * 4 > self.capacity * 3:
            self.capacity *= 2

    def remove(self, key: Key) -> None:
        """Take a key out; the table never shrinks."""
        del self.spread[key]

    def __len__(self) -> int:
        return len(self.spread)

    def first(self) -> Key:
        """The key that an iterator gives first: of the lowest bucket, the one put in first."""
        return min(self.spread, key=self.bucket)

    def walk(self) -> list[Key]:
        """The keys in the order of an iterator: bucket after bucket, and in a bucket as they were put in."""
        return sorted(self.spread, key=self.bucket)

    def bucket(self, key: Key) -> int:
        """Where a key that is there stands."""
        return self.spread[key] & (self.capacity - 1)
