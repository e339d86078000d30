"""Computes the iteration order of maps filled by `HashMap.computeIfAbsent`, which differs from `put` in three ways.

order      a new key becomes the head of its bucket, not its tail
growth     the table doubles at the call after it became more than three quarters full, even for a present key
trees      a bucket of a large table becomes a tree with its eighth key, not with its ninth
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spark_assign.java.hash_map import LONGEST_CHAIN, NEVER_REHASHED_FOR_CHAINS, HashTable, spread_hashes
from spark_assign.java.tree_bin import Tree
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PARTITION_BITS
from spark_assign.numeric.segmented_arrays import starts_new_key


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
