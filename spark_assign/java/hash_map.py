"""Computes the iteration order of Java's `HashMap` and `HashSet`, on which results of Kafka's assignors depend.

The sticky assignors depend on it in four places: which member keeps one partition more, which of two owners of a
partition wins, which older owner is remembered, and which partition of a topic moves back. Unless stated otherwise, a
table starts with 16 buckets.

A bucket is iterated in insertion order until it gets a ninth key. Then a table of fewer than 64 buckets doubles; in a
larger one the bucket becomes a tree (`Tree`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from spark_assign.numeric.arrays import PARTITION_BITS, BoolArray, IntArray, starts_new_key

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


def joined_hashes(first: IntArray, second: IntArray, lengths: IntArray) -> IntArray:
    """Returns `String.hashCode` of texts that are each followed by another one, from the hashes of both and the lengths
    of the second ones in UTF-16 code units.

    Examples:
        >>> first, second = string_hashes(["a", "b"]), string_hashes(["cd", ""])
        >>> joined_hashes(first, second, np.array([2, 0])).tolist() == string_hashes(["acd", "b"]).tolist()
        True
    """
    powers = np.cumprod(np.append(1, np.full(int(lengths.max(initial=0)), 31)).astype(np.uint32), dtype=np.uint32)
    return (first.astype(np.uint32) * powers[lengths] + second.astype(np.uint32)).astype(np.int64)


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


# --- computes the iteration order of a bucket that `HashMap` keeps as a tree (`HashMap.TreeNode`) -------------
#
# The tree is for lookups; iteration follows the list that its nodes also form. But the tree changes that list: a new
# node is inserted after its parent in the tree, and the root is moved to the front.
#
#     Java's method                   here
#     treeify, moveRootToFront        Tree(…): the list stays as it was, but for the root
#     putTreeVal                      put: after the parent
#     removeTreeNode                  remove: out of the list; few nodes become a linked list again
#     split                           split: two lists, in their order; six or fewer are linked again
#
# The tree is ordered by the spread hash as a *signed* number, then by `compareTo` of the keys. Keys that are not
# `Comparable` (for example `Optional`) are ordered by `System.identityHashCode`, which differs in every process: what
# depends on it cannot be decided (`IdentityDecides`).


_UNTREEIFY_THRESHOLD = 6
_SIGN = 1 << 31


class IdentityDecides(Exception):
    """Java would order two keys by their identity hash code, which differs in every process."""


class Entry(NamedTuple, Generic[Key]):
    """A key, its spread hash (unsigned), and a value that compares as the key; None if keys are not `Comparable`."""

    key: Key
    spread: int
    rank: Any


class _Node(Generic[Key]):
    __slots__ = ("child", "entry", "next", "order", "parent", "prev", "red")

    def __init__(self, entry: Entry[Key]) -> None:
        self.entry = entry
        signed = entry.spread - (1 << 32) if entry.spread & _SIGN else entry.spread
        self.order = (signed, entry.rank)
        self.child: list[_Node[Key] | None] = [None, None]  # the left one, and the right one
        self.parent: _Node[Key] | None = None
        self.next: _Node[Key] | None = None
        self.prev: _Node[Key] | None = None
        self.red = False


class Tree(Generic[Key]):
    """The tree of one bucket."""

    def __init__(self, entries: Iterable[Entry[Key]]) -> None:
        """Builds the tree of these keys, in the order of the list (`treeify`)."""
        self._of: dict[Key, _Node[Key]] = {}
        self._root: _Node[Key] | None = None
        self._first: _Node[Key] | None = None
        last: _Node[Key] | None = None
        for entry in entries:
            node = _Node(entry)
            self._of[entry.key] = node
            if last is None:
                self._first = self._root = node
            else:
                last.next, node.prev = node, last
                self._insert(node)
            last = node
        self._move_root_to_front()

    def __iter__(self) -> Iterator[Key]:
        node = self._first
        while node is not None:
            yield node.entry.key
            node = node.next

    def __len__(self) -> int:
        return len(self._of)

    def put(self, entry: Entry[Key]) -> None:
        """Adds a key that is not present (`putTreeVal`)."""
        node = _Node(entry)
        self._of[entry.key] = node
        parent = self._insert(node)
        after = parent.next
        node.prev, node.next, parent.next = parent, after, node
        if after is not None:
            after.prev = node
        self._move_root_to_front()

    def remove(self, key: Key) -> bool:
        """Removes a key (`removeTreeNode`). Returns False if the remaining few keys are a linked list from now on."""
        node = self._of.pop(key)
        before, after = node.prev, node.next
        if before is None:
            self._first = after
        else:
            before.next = after
        if after is not None:
            after.prev = before
        root = self._root
        assert root is not None
        left, right = root.child
        if right is None or left is None or left.child[0] is None:
            return False
        self._unlink(node)
        self._move_root_to_front()
        return True

    def split(self, bit: int) -> tuple[Bucket[Key], Bucket[Key]]:
        """Returns the lower and the upper bucket that replace this one when the table doubles; `bit` separates them."""
        entries = [self._of[key].entry for key in self]
        low = [entry for entry in entries if not entry.spread & bit]
        high = [entry for entry in entries if entry.spread & bit]
        is_unsplit = not (low and high)  # then the tree moves as it is
        return self._bucket(low, is_unsplit), self._bucket(high, is_unsplit)

    def _bucket(self, entries: list[Entry[Key]], is_unsplit: bool) -> Bucket[Key]:
        if len(entries) <= _UNTREEIFY_THRESHOLD:
            return [entry.key for entry in entries]
        return self if is_unsplit else Tree(entries)

    # --- the tree -------------------------------------------------------------------------------------------

    def _insert(self, node: _Node[Key]) -> _Node[Key]:
        """Inserts a node into the tree, and returns its parent before rebalancing."""
        at = self._root
        assert at is not None
        while True:
            if at.order[0] == node.order[0] and (at.order[1] is None or at.order[1] == node.order[1]):
                raise IdentityDecides
            side = not node.order < at.order
            below = at.child[side]
            if below is None:
                break
            at = below
        node.parent, at.child[side] = at, node
        self._balance_insertion(node)
        return at

    def _move_root_to_front(self) -> None:
        """Makes the root the first node of the bucket (Java: `TreeNode.moveRootToFront`)."""
        root, first = self._root, self._first
        if root is None or root is first:
            return
        before, after = root.prev, root.next
        if after is not None:
            after.prev = before
        if before is not None:
            before.next = after
        if first is not None:
            first.prev = root
        root.next, root.prev, self._first = first, None, root

    def _replace(self, parent: _Node[Key] | None, old: _Node[Key], new: _Node[Key] | None) -> None:
        """Replaces a child of a parent (or the root). The caller sets the parent of the new child."""
        if parent is None:
            self._root = new
        else:
            parent.child[parent.child[1] is old] = new

    def _rotate(self, node: _Node[Key] | None, side: bool) -> None:
        """Moves a node down to a side (True: right), and its other child up (Java: `rotateLeft`, `rotateRight`)."""
        if node is None or (up := node.child[not side]) is None:
            return
        inner = node.child[not side] = up.child[side]
        if inner is not None:
            inner.parent = node
        up.parent = node.parent
        self._replace(node.parent, node, up)
        if up.parent is None:
            up.red = False
        up.child[side], node.parent = node, up

    def _balance_insertion(self, node: _Node[Key]) -> None:
        """Restores the rules of a red-black tree after an insertion (Java: `TreeNode.balanceInsertion`)."""
        node.red = True
        while True:
            parent = node.parent
            if parent is None:
                node.red = False
                self._root = node
                return
            grand = parent.parent
            if not parent.red or grand is None:
                return
            side = parent is grand.child[1]
            uncle = grand.child[not side]
            if uncle is not None and uncle.red:
                uncle.red = parent.red = False
                grand.red = True
                node = grand
                continue
            if node is parent.child[not side]:
                node = parent
                self._rotate(node, side)
                parent = node.parent
                grand = None if parent is None else parent.parent
            if parent is not None:
                parent.red = False
                if grand is not None:
                    grand.red = True
                    self._rotate(grand, not side)

    def _unlink(self, node: _Node[Key]) -> None:
        """Removes a node from the tree. If it has two children, it first trades places with its successor."""
        left, successor = node.child
        if left is not None and successor is not None:
            while (below := successor.child[0]) is not None:
                successor = below
            self._swap(node, successor)
        replacement = node.child[0] or node.child[1]
        if replacement is None:
            if not node.red:
                self._balance_deletion(node)
            if node.parent is not None:
                self._replace(node.parent, node, None)
            return
        replacement.parent = node.parent
        self._replace(node.parent, node, replacement)
        if node.parent is None:
            replacement.red = False
        if not node.red:
            self._balance_deletion(replacement)

    def _swap(self, node: _Node[Key], successor: _Node[Key]) -> None:
        """Swaps the places and the colors of a node and its successor, which has no left child."""
        node.red, successor.red = successor.red, node.red
        below, above, (left, right) = successor.child[1], node.parent, node.child
        assert left is not None
        assert right is not None
        if successor is right:
            node.parent, successor.child[1] = successor, node
        else:
            node.parent = successor.parent
            self._replace(successor.parent, successor, node)
            successor.child[1], right.parent = right, successor
        node.child = [None, below]
        if below is not None:
            below.parent = node
        successor.child[0], left.parent = left, successor
        successor.parent = above
        self._replace(above, node, successor)

    def _balance_deletion(self, node: _Node[Key]) -> None:
        """Restores the rules of a red-black tree after a removal (Java: `TreeNode.balanceDeletion`)."""
        while node is not self._root:
            parent = node.parent
            if parent is None:
                node.red = False
                self._root = node
                return
            if node.red:
                node.red = False
                return
            side = parent.child[1] is node
            sibling = parent.child[not side]
            if sibling is not None and sibling.red:
                sibling.red, parent.red = False, True
                self._rotate(parent, side)
                sibling = parent.child[not side]
            if sibling is None:
                node = parent
                continue
            inner, outer = sibling.child[side], sibling.child[not side]
            if not _red(inner) and not _red(outer):
                sibling.red = True
                node = parent
                continue
            if inner is not None and not _red(outer):
                inner.red, sibling.red = False, True
                self._rotate(sibling, not side)
                sibling, outer = inner, sibling
            sibling.red = parent.red
            if outer is not None:
                outer.red = False
            parent.red = False
            self._rotate(parent, side)
            return


def _red(node: _Node[Any] | None) -> bool:
    return node is not None and node.red


Bucket = list[Key] | Tree[Key]
"""The keys of a bucket in iteration order, as a list or as a tree."""


# --- maps filled by `computeIfAbsent`, which differs from `put` in three ways ---------------------------------
#
# order      a new key becomes the head of its bucket, not its tail
# growth     the table doubles at the call after it became more than three quarters full, even for a present key
# trees      a bucket of a large table becomes a tree with its eighth key, not with its ninth


def capacities_for(expected: IntArray) -> IntArray:
    """Returns the number of buckets of a map created for a number of keys (`AssignorHelpers.newHashMap`)."""
    wanted = ((expected.astype(np.float32) + np.float32(1)) / np.float32(0.75) + np.float32(1)).astype(np.int64)
    capacities = np.ones(len(expected), np.int64)
    while (tight := capacities < wanted).any():
        capacities[tight] *= 2
    return capacities


def compute_if_absent_order(
    calls: IntArray,
    table_index: IntArray,
    hashes: IntArray,
    ranks: IntArray | None,
    capacities: IntArray,
    selected: BoolArray | None = None,
) -> IntArray:
    """Returns the selected keys in the iteration order of maps filled by `computeIfAbsent`.

    Args:
        calls: the key of each call, as an integer, in call order; no two maps share a key.
        table_index: index of the map of each call, ascending.
        hashes: hash code of each key, unsigned.
        ranks: rank of each key in the order of `compareTo`; None if the keys are not `Comparable`.
        capacities: initial number of buckets of each map.
        selected: whether the result has each key; None: it has all.

    Returns:
        the selected keys in iteration order, map after map.

    Raises:
        IdentityDecides: Java would have to order two keys that are not `Comparable`.
    """
    if not len(calls):
        return np.empty(0, np.int64)
    row = np.arange(len(calls))
    first_call = np.empty(int(calls.max()) + 1, np.int64)
    first_call[calls[::-1]] = row[::-1]
    is_first = first_call[calls] == row
    key, table = calls[is_first], table_index[is_first]
    spread = spread_hashes(hashes)
    last = np.append(np.flatnonzero(starts_new_key(table_index))[1:], len(table_index)) - 1
    sizes = np.bincount(table, minlength=len(capacities))
    before_last = sizes.copy()
    before_last[table_index[last]] -= is_first[last]
    grown = capacities.copy()
    while (tight := before_last > grown * 3 // 4).any():
        grown[tight] *= 2
    selected = np.ones(len(hashes), bool) if selected is None else selected
    is_selected = selected[key]
    selected_table = table[is_selected]
    bucket = selected_table << PARTITION_BITS | spread[key[is_selected]] & (grown[selected_table] - 1)
    order: IntArray = key[is_selected][::-1][np.argsort(bucket[::-1], kind="stable")]
    # If no bucket of the smallest table has so many keys, no bucket of a larger one has.
    ends = np.cumsum(capacities)
    chains = np.bincount((ends - capacities)[table] + (spread[key] & (capacities[table] - 1)))
    for map_index in np.unique(np.searchsorted(ends, np.flatnonzero(chains >= LONGEST_CHAIN), "right")).tolist():
        map_table = ComputedTable(int(capacities[map_index]), None if ranks is None else ranks.__getitem__)
        for call in calls[slice(*np.searchsorted(table_index, [map_index, map_index + 1]))].tolist():
            map_table.put(call, int(spread[call]))
        keys = np.array(map_table.iteration_order(), np.int64)
        order[slice(*np.searchsorted(selected_table, [map_index, map_index + 1]))] = keys[selected[keys]]
    return order


class ComputedTable(HashTable[int]):
    """A map filled by `computeIfAbsent`, kept bucket by bucket."""

    def __init__(self, capacity: int, rank: Callable[[int], Any] | None) -> None:
        """Creates an empty map; arguments: see `HashTable`."""
        super().__init__(capacity, rank)
        self._buckets = {}

    def put(self, key: int, spread: int) -> None:
        """Calls `computeIfAbsent` with a key and its hash as returned by `HashMap.hash`."""
        assert self._buckets is not None
        if len(self.spread) > self.capacity * 3 // 4:
            self._double()
        if key in self.spread:
            return
        self.spread[key] = spread
        entries = self._buckets.setdefault(self.bucket(key), [])
        if isinstance(entries, Tree):
            entries.put(self._entry(key))
            return
        entries.insert(0, key)
        if len(entries) < LONGEST_CHAIN:
            return
        if self.capacity < NEVER_REHASHED_FOR_CHAINS:
            self._double()
        else:
            self._treeify(self.bucket(key))
