"""Arrays: their types, arrays that are sorted by a key, positions of keys, and slices of partitions as columns.

A slice is `count` partitions of one topic, namely first, first + step, and so on. Other functions count the terms that
two arithmetic progressions have in common, and read partitions that are bits of words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
Key = TypeVar("Key")
Value = TypeVar("Value")


# --- arrays that are sorted by a key, key by key -------------------------------------------------------------------


def starts_new_key(sorted_keys: NDArray[Any], *further_keys: NDArray[Any]) -> NDArray[np.bool_]:
    """Returns a mask of the rows in which at least one key differs from the row before."""
    marks = np.ones(len(sorted_keys), bool)
    marks[1:] = sorted_keys[1:] != sorted_keys[:-1]
    for keys in further_keys:
        marks[1:] |= keys[1:] != keys[:-1]
    return marks


def row_numbers(sorted_keys: IntArray) -> IntArray:
    """Returns the position, from 0, of each row among the rows with its key."""
    return np.arange(len(sorted_keys)) - first_rows(sorted_keys)


def first_rows(sorted_keys: IntArray) -> IntArray:
    """Returns the index of the first row with the key of each row."""
    return np.maximum.accumulate(np.where(starts_new_key(sorted_keys), np.arange(len(sorted_keys)), 0))


def sorted_union(first: IntArray, second: IntArray) -> IntArray:
    """Returns the different numbers of two sorted arrays, ascending. `np.union1d` hashes them, which takes longer."""
    both = np.sort(np.concatenate([first, second]), kind="stable")
    return both[starts_new_key(both)]


def number_keys(first: IntArray, second: IntArray, size: int) -> tuple[IntArray, IntArray, IntArray]:
    """Returns the different keys of two arrays, ascending, and the position of each key of each array among them.

    Args:
        first, second: keys from 0 to size - 1.
        size: if it isn't much larger than the number of keys, they are counted instead of sorted.
    """
    if size > 8 * (len(first) + len(second)):
        keys = sorted_union(np.sort(first), np.sort(second))
        return keys, np.searchsorted(keys, first), np.searchsorted(keys, second)
    occurs = np.zeros(size, bool)
    occurs[first] = True
    occurs[second] = True
    position = np.cumsum(occurs) - 1
    return np.flatnonzero(occurs), position[first], position[second]


def number_lists(lists: Sequence[Sequence[int]]) -> tuple[list[int], list[Sequence[int]]]:
    """Returns the number of each list among the different ones, and these, in the order in which they occur. Lists that
    are one object are compared with the others once."""
    by_content: dict[tuple[int, ...], int] = {}
    by_object: dict[int, int] = {}
    for each in lists:
        if id(each) not in by_object:
            by_object[id(each)] = by_content.setdefault(tuple(each), len(by_content))
    return [by_object[id(each)] for each in lists], list(by_content)


def values_by_key(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Returns the values of each key, keys and values in the order in which they come."""
    values: dict[Key, list[Value]] = {}
    for key, value in pairs:
        values.setdefault(key, []).append(value)
    return values


def ranges_by_length(lengths: IntArray) -> IntArray:
    """Returns 0, 1, …, length - 1 for each length, concatenated."""
    starts = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) - np.repeat(starts, lengths)


def key_ranges(sorted_keys: IntArray) -> list[tuple[int, int]]:
    """Returns the start and the end (exclusive) of the rows of each key."""
    if not len(sorted_keys):
        return []
    starts = np.flatnonzero(starts_new_key(sorted_keys))
    return list(zip(starts.tolist(), np.append(starts[1:], len(sorted_keys)).tolist(), strict=True))


def expand_slices(first: IntArray, step: IntArray, count: IntArray) -> tuple[IntArray, IntArray]:
    """Expands slices into partitions.

    Returns:
        the index of the slice of each partition, and the partition.
    """
    row = np.repeat(np.arange(len(count)), count)
    return row, first[row] + ranges_by_length(count) * step[row]


def exclusive_sum(counts: IntArray, first: IntArray) -> IntArray:
    """Returns the sum of the counts from row `first[i]` up to, but not including, row i. Shape: (num_rows,)."""
    preceding = np.cumsum(counts) - counts
    return preceding - preceding[first] if len(counts) else preceding


# --- slices of partitions ------------------------------------------------------------------------------------------


MAX_REPLICAS = 1_000
"""Maximum number of replicas of a partition: lists are rows of a matrix as wide as the longest one."""

MAX_PARTITIONS = 1_000_000
"""Maximum number of partitions of a topic, and of partitions that slices claim in addition to those of the topics.

A larger number is an error in a table: a cluster of Kafka has at most about two million partitions in all its topics.
It is checked before slices are expanded, because a row with a wrong number would need more memory than a worker has.
"""
PARTITION_BITS = 32
"""The number of bits of a partition. `topic << PARTITION_BITS | partition` sorts by topic, then by partition."""


@dataclass(frozen=True)
class PartitionSlices:
    """Slices of partitions, one row per slice. A slice is empty only where a docstring says so.

    Attributes:
        member: index of the owner.
        topic: index of the topic.
        first, step, count: the partitions are first, first + step, and so on; there are `count` of them.
    """

    member: IntArray
    topic: IntArray
    first: IntArray
    step: IntArray
    count: IntArray

    def __len__(self) -> int:
        return len(self.member)

    @property
    def last(self) -> IntArray:
        """Returns the last partition of each slice."""
        return self.first + self.step * (self.count - 1)

    def take(self, chosen: BoolArray | IntArray | slice) -> PartitionSlices:
        """Returns the slices at the indexes, in the range, or where the mask is True."""
        return PartitionSlices(
            self.member[chosen], self.topic[chosen], self.first[chosen], self.step[chosen], self.count[chosen]
        )

    def concat(self, *others: PartitionSlices) -> PartitionSlices:
        """Returns these slices followed by the others."""
        columns = zip(self.columns, *(other.columns for other in others), strict=True)
        return PartitionSlices(*(np.concatenate(parts) for parts in columns))

    def renumber(self, members: IntArray, topics: IntArray) -> PartitionSlices:
        """Returns the same slices with the members and topics that the arrays have at their indexes."""
        return PartitionSlices(members[self.member], topics[self.topic], *self.columns[2:])

    def shift(self, member: int, topic: int) -> PartitionSlices:
        """Returns the same slices with these numbers added to the indexes of members and topics."""
        return PartitionSlices(self.member + member, self.topic + topic, *self.columns[2:])

    def below(self, partitions: IntArray) -> PartitionSlices:
        """Returns the partitions that exist, given the number of partitions of each topic."""
        limit = -(-(partitions[self.topic] - self.first) // self.step)
        return PartitionSlices(*self.columns[:4], np.minimum(self.count, limit)).take(limit > 0)

    @property
    def columns(self) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
        """Returns the five columns in the order of the fields."""
        return self.member, self.topic, self.first, self.step, self.count

    def owners(self, start: IntArray, size: int) -> IntArray:
        """Returns the member of each partition, at index start[topic] + partition; -1 for none. Shape: (size,)."""
        rows = self.expand()
        owner = np.full(size, -1, np.int64)
        owner[start[rows.topic] + rows.first] = rows.member
        return owner

    def expand(self) -> PartitionSlices:
        """Returns the same partitions with one slice for each."""
        if (self.count == 1).all():
            return self
        row, partition = expand_slices(self.first, self.step, self.count)
        ones = np.ones(len(row), np.int64)
        return PartitionSlices(self.member[row], self.topic[row], partition, ones, ones)

    @property
    def partition_keys(self) -> IntArray:
        """Returns the topic and the first partition of each slice packed into one sortable integer."""
        return (self.topic << PARTITION_BITS) | self.first


EMPTY_SLICES = PartitionSlices(*(np.empty(0, np.int64) for _ in range(5)))
"""Zero slices."""


def mask_from_indexes(indexes: IntArray | Sequence[int], size: int) -> BoolArray:
    """Returns a boolean mask of length `size` that is True at `indexes`."""
    mask = np.zeros(size, bool)
    mask[indexes] = True
    return mask


def invert(indexes: IntArray | Sequence[int], size: int) -> IntArray:
    """Returns the position of each index in `indexes`; -1 for an index that isn't in it. Shape: (size,)."""
    positions = np.full(size, -1, np.int64)
    positions[indexes] = np.arange(len(indexes))
    return positions


def positions_in(keys: IntArray, wanted: IntArray) -> IntArray:
    """Returns the position of each wanted key among the keys, the first one if a key repeats; `len(keys)` if it is
    missing."""
    sorter = np.argsort(keys, kind="stable")
    at = np.searchsorted(keys[sorter], wanted)
    is_missing = np.append(keys[sorter], -1)[at] != wanted
    return np.where(is_missing, len(keys), np.append(sorter, len(keys))[at])


def match_keys(wanted: IntArray, keys: IntArray) -> tuple[IntArray, IntArray]:
    """Returns the pairs of equal keys: an index into `wanted`, ascending, and an index into `keys`, ascending in each
    group of equal keys."""
    sorter = np.argsort(keys, kind="stable")
    sorted_keys = keys[sorter]
    starts, ends = (np.searchsorted(sorted_keys, wanted, side) for side in ("left", "right"))
    row, position = expand_slices(starts, np.ones_like(starts), ends - starts)
    return row, sorter[position]


def find_alike(slices: PartitionSlices, group: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Finds the topics of a group that have the same slices, with the same members in the same order.

    Candidates are found by a hash and then compared.

    Args:
        slices: slices in the order of their topics.
        group: group of each slice.

    Returns:
        for each topic that occurs: its first slice, its number of slices, and the first topic that is like it (as an
        index into these arrays).
    """
    if not len(slices):
        return (np.empty(0, np.int64),) * 3
    start = np.flatnonzero(starts_new_key(slices.topic))
    size = np.diff(np.append(start, len(slices)))
    position, columns = ranges_by_length(size), (slices.member, slices.first, slices.step, slices.count)
    mixed = np.zeros(len(slices), np.int64)
    for column in columns:
        mixed = (mixed ^ column) * ODD
        mixed ^= mixed >> 29
    mixed = np.add.reduceat(mixed * (2 * position + 1), start)
    order = np.lexsort((mixed, size, group[start]))
    is_first = starts_new_key(group[start][order], size[order], mixed[order])
    like = np.empty_like(order)
    like[order] = order[is_first][np.cumsum(is_first) - 1]
    row = np.repeat(start[like], size) + position
    is_equal = np.logical_and.reduce([column[row] == column for column in columns])
    return start, size, np.where(np.logical_and.reduceat(is_equal, start), like, np.arange(len(like)))


ODD = -7046029254386353131
"""An odd number with random bits (2^64 divided by the golden ratio, as a signed integer)."""


def member_partition_keys(left: PartitionSlices, right: PartitionSlices) -> tuple[IntArray, IntArray]:
    """Returns integers that are equal if the member and the first partition of two slices are; for each input."""
    member = np.append(left.member, right.member)
    _, partition = np.unique(np.append(left.partition_keys, right.partition_keys), return_inverse=True)
    keys = partition * (int(member.max(initial=0)) + 1) + member
    return keys[: len(left)], keys[len(left) :]


def split_keys(partition_keys: IntArray) -> tuple[IntArray, IntArray]:
    """Returns the topic and the partition of each `PartitionSlices.partition_keys`."""
    return partition_keys >> PARTITION_BITS, partition_keys & ((1 << PARTITION_BITS) - 1)


def match_equal_slices(left: PartitionSlices, right: PartitionSlices) -> tuple[IntArray, IntArray]:
    """Returns the indexes, in each input, of the slices that are in both. Neither input may repeat a slice."""
    both = left.concat(right)
    order = np.lexsort(both.columns[::-1])
    is_equal = ~starts_new_key(*(column[order] for column in both.columns))[1:]
    first, second = order[:-1][is_equal], order[1:][is_equal]
    is_pair = (first < len(left)) & (second >= len(left))
    return first[is_pair], second[is_pair] - len(left)


def intersect_partitions(left: PartitionSlices, right: PartitionSlices) -> PartitionSlices:
    """Returns the partitions that a member has in both inputs, one slice for each."""
    left = left.expand()
    return left.take(np.isin(*member_partition_keys(left, right.expand())))


def owners_to_slices(owner: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Compresses the owner of each partition of a topic into slices.

    Args:
        owner: index of the owner of each partition; negative if it has none. Shape: (num_partitions,).

    Returns:
        owner, first, step and count of each slice, sorted by owner and first partition.
    """
    order = np.argsort(owner, kind="stable")
    order = order[owner[order] >= 0]
    return compress_sorted(owner[order], order)


def compress(member: IntArray, topic: IntArray, partition: IntArray) -> PartitionSlices:
    """Compresses partitions, in any order, into slices. A partition that a member has twice counts once."""
    return compress_tagged(member, topic, partition, np.zeros(len(member), np.int64))[0]


def compress_tagged(
    member: IntArray, topic: IntArray, partition: IntArray, tag: IntArray
) -> tuple[PartitionSlices, IntArray]:
    """Compresses partitions, in any order, into slices whose partitions have one tag; returns the tag of each slice.

    A partition that a member has twice with one tag counts once.
    """
    order = np.lexsort((partition, tag, topic, member))
    columns = [column[order] for column in (member, topic, tag)]
    is_start = starts_new_key(*columns)
    key = np.cumsum(is_start, dtype=np.int64)
    partition = partition[order]
    is_distinct = is_start | starts_new_key(partition)
    slice_key, first, step, count = compress_sorted(key[is_distinct], partition[is_distinct])
    member, topic, tag = (column[np.flatnonzero(is_start)[slice_key - 1]] for column in columns)
    return PartitionSlices(member, topic, first, step, count), tag


def compress_slices(slices: PartitionSlices, tag: IntArray) -> tuple[PartitionSlices, IntArray]:
    """Compresses slices, in any order, into fewer slices with partitions of one member, topic, and tag; returns the tag
    of each. The result is sorted by member, topic, tag, and first partition.

    Slices of one member, topic, and tag must not overlap, unless all of them are single partitions. They are merged as
    `compress_sorted` does. Interleaved slices are expanded before that, or stay as they are, whatever leaves fewer
    slices, assuming that all partitions are as irregular as the first ones of the slices.
    """
    if (slices.count == 1).all():
        return compress_tagged(*slices.columns[:3], tag)
    key = (slices.member * (int(slices.topic.max()) + 1) + slices.topic) * (int(tag.max()) + 1) + tag
    order = np.lexsort((slices.first, key))
    slices, key, tag = slices.take(order), key[order], tag[order]
    starts = np.flatnonzero(starts_new_key(key))
    size = np.diff(np.append(starts, len(key)))
    index = np.repeat(np.arange(len(starts)), size)
    is_interleaved = find_interleaved(index, slices)
    irregular, *_ = compress_sorted(index[is_interleaved], slices.first[is_interleaved])
    num_expanded = np.bincount(irregular, minlength=len(starts)) * np.add.reduceat(slices.count, starts) // size
    is_final = (size == 1)[index] | (is_interleaved & (size < num_expanded)[index])
    final = PartitionSlices(index, *slices.columns[1:]).take(is_final)
    rest = PartitionSlices(index, *slices.columns[1:]).take(~is_final)
    if len(rest):
        is_interleaved = is_interleaved[~is_final]
        rest = rest.take(~is_interleaved).concat(rest.take(is_interleaved).expand())
        rest = rest.take(np.lexsort((rest.first, rest.member)))
        rest = rest.take(starts_new_key(rest.member, rest.first))
        merged = merge_sorted(rest.member, rest)
        final = final.concat(PartitionSlices(merged[0], *merged))
        final = final.take(np.lexsort((final.first, final.member)))
    row = starts[final.member]
    step = np.where(final.count > 1, final.step, 1)
    return PartitionSlices(slices.member[row], slices.topic[row], final.first, step, final.count), tag[row]


def find_interleaved(key: IntArray, slices: PartitionSlices) -> BoolArray:
    """Returns a mask of the slices of those keys in which a slice starts before the preceding one ends.

    The slices are sorted by key and first partition.
    """
    starts = starts_new_key(key)
    index = np.cumsum(starts) - 1
    overlaps = ~starts[1:] & (slices.last[:-1] >= slices.first[1:])
    is_interleaved: BoolArray = mask_from_indexes(index[1:][overlaps], len(key))[index]
    return is_interleaved


def compress_sorted(key: IntArray, partition: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Compresses partitions into slices: key, first, step and count of each.

    The rows are sorted by key and partition, without duplicates. A row is a turn if its key differs from the row
    before, or its gap to that row does. Of consecutive turns the first starts a slice, the second is the second
    partition of that slice (its gap is the step), the third starts the next slice, and so on.
    """
    return _compress_rows(key, partition, partition, np.ones_like(partition))


def merge_sorted(key: IntArray, slices: PartitionSlices) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Compresses slices as `compress_sorted` compresses their partitions, without expanding them.

    The slices are sorted by key and first partition, and each ends before the next one of its key starts.
    """
    row, place = expand_slices(np.zeros_like(key), np.ones_like(key), np.minimum(slices.count, 3))
    first = slices.first[row] + slices.step[row] * place
    is_rest = place == 2
    last, count = np.where(is_rest, slices.last[row], first), np.where(is_rest, slices.count[row] - 2, 1)
    return _compress_rows(key[row], first, last, count)


def _compress_rows(
    key: IntArray, first: IntArray, last: IntArray, count: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Compresses rows as described in `compress_sorted`. A row is one partition, or `count` partitions up to `last`
    that follow the two preceding ones at the same gap."""
    size = len(first)
    if size == 0:
        empty = np.empty(0, dtype=np.int64)
        return empty, empty, empty, empty
    row = np.arange(size)
    new_key = starts_new_key(key)
    gap = np.append(0, first[1:] - last[:-1])
    gap[new_key] = 0
    turns = new_key | starts_new_key(gap)
    first_turns = turns & (new_key | np.append(True, ~turns[:-1]))
    first_turn = np.maximum.accumulate(np.where(first_turns, row, 0))
    starts = turns & ((row - first_turn) % 2 == 0)
    first_rows = np.flatnonzero(starts)
    count = np.add.reduceat(count, first_rows)
    last = last[np.append(first_rows[1:], size) - 1]
    first = first[first_rows]
    step = np.where(count > 1, (last - first) // np.maximum(count - 1, 1), 1)
    return key[first_rows], first, step, count


def compress_in_order(rows: PartitionSlices) -> PartitionSlices:
    """Returns single partitions as slices in the same order: consecutive partitions of a member and topic with one step
    are a slice."""
    starts = starts_new_key(rows.member, rows.topic)
    starts[1:] |= rows.first[1:] < rows.first[:-1]
    key, *columns = compress_sorted(np.cumsum(starts), rows.first)
    row = np.flatnonzero(starts)[key - 1]
    return PartitionSlices(rows.member[row], rows.topic[row], *columns)


def count_common_terms(
    first: IntArray, step: IntArray, count: IntArray, other_first: IntArray, other_step: IntArray, other_count: IntArray
) -> IntArray:
    """Returns the number of common terms of each pair of progressions.

    The common terms are a progression, too. Its step is the least common multiple of both steps; its first term at or
    after both starts follows from the Chinese remainder theorem.
    """
    divisor = np.gcd(step, other_step)
    gap = other_first - first
    reduced = step // divisor
    modulus = other_step // divisor
    # first + k * step = other_first modulo other_step, so k = gap / divisor * reduced^-1 modulo `modulus`.
    k = (gap // divisor) % modulus * _inverse(reduced, modulus) % modulus
    period = step * modulus
    common = first + k * step
    start = np.maximum(first, other_first)
    common += np.maximum(0, -(-(start - common) // period)) * period
    last = np.minimum(first + step * (count - 1), other_first + other_step * (other_count - 1))
    num_common = np.where(common <= last, (last - common) // period + 1, 0)
    return np.where(gap % divisor == 0, num_common, 0)  # the last term of an empty progression precedes its first


def _inverse(value: IntArray, modulus: IntArray) -> IntArray:
    """Returns the inverse of each value modulo its modulus, which is coprime to it (Euclid's algorithm)."""
    a, b = value % modulus, modulus.copy()
    x, y = np.ones_like(value), np.zeros_like(value)
    while (a > 1).any():
        unfinished = a > 1
        safe = np.where(unfinished, a, 1)
        q = b // safe
        a, b = np.where(unfinished, b - q * a, a), np.where(unfinished, a, b)
        x, y = np.where(unfinished, y - q * x, x), np.where(unfinished, x, y)
    return x % modulus


# --- ranks partitions of slices: the position of each partition among all, sorted by topic and partition ------
#
# The ranks of the partitions of a slice are a progression, too, as long as the same slices of a topic alternate. So
# interleaved slices are cut where another slice starts or ends. A topic in which interleaved slices have different
# steps is expanded to partitions.
#
# Example: of topic t, one slice is t1, t4, t7, t10, and another is t2, t5.
#
#     slice              first rank    difference of ranks
#     t1, t4             0             2
#     t2, t5             1             2
#     t7, t10            4             1


@dataclass(frozen=True)
class RankedSlices:
    """Slices, sorted by topic and first partition, with the ranks of their partitions.

    Attributes:
        slices: the slices.
        row: index of the input slice that each slice is a part of.
        rank, rank_step: the ranks are rank, rank + rank_step, and so on.
    """

    slices: PartitionSlices
    row: IntArray
    rank: IntArray
    rank_step: IntArray


def rank_partitions(slices: PartitionSlices) -> RankedSlices:
    """Returns the ranks of all partitions. No partition may occur twice; members are ignored."""
    row = np.argsort(slices.partition_keys)
    slices = slices.take(row)
    is_interleaved = find_interleaved(slices.topic, slices)
    window = slices.partition_keys
    if is_interleaved.any():
        simple, others = np.flatnonzero(~is_interleaved), np.flatnonzero(is_interleaved)
        parts, part, part_window = _cut(slices.take(others))
        row, slices = row[np.append(simple, others[part])], slices.take(simple).concat(parts)
        window = np.append(window[simple], part_window)
        order = np.lexsort((slices.first, window))
        row, slices, window = row[order], slices.take(order), window[order]
    starts = np.flatnonzero(starts_new_key(window))
    size = np.diff(np.append(starts, len(window)))
    first_rank = (np.cumsum(slices.count) - slices.count)[starts]
    return RankedSlices(slices, row, np.repeat(first_rank, size) + row_numbers(window), np.repeat(size, size))


def _cut(slices: PartitionSlices) -> tuple[PartitionSlices, IntArray, IntArray]:
    """Cuts interleaved slices, sorted by topic, where another slice of the topic starts or ends.

    Returns:
        the parts; the index of the input slice of each; and an integer that is equal for parts that alternate, and
        sorts like their partitions.
    """
    starts = np.flatnonzero(starts_new_key(slices.topic))
    size = np.diff(np.append(starts, len(slices)))
    max_step = np.repeat(np.maximum.reduceat(np.where(slices.count > 1, slices.step, 1), starts), size)
    has_other_step = (slices.count > 1) & (slices.step != max_step)
    is_scattered = np.repeat(np.logical_or.reduceat(has_other_step, starts), size)
    # A slice is a range of periods of length `step`, in each of which it has one partition.
    step = np.where(is_scattered, 1, max_step)
    row, first = expand_slices(slices.first, slices.step, np.where(is_scattered, slices.count, 1))
    count = np.where(is_scattered, 1, slices.count)[row]
    topic, step = slices.topic[row], step[row]
    period = (topic << PARTITION_BITS) | (first // step)
    bounds = np.unique(np.append(period, period + count))
    start = np.searchsorted(bounds, period)
    part, bound = expand_slices(start, np.ones_like(start), np.searchsorted(bounds, period + count) - start)
    first = first[part] + (bounds[bound] - period[part]) * step[part]
    window = bounds[bound] + (step - 1)[part] * (bounds[bound] & ((1 << PARTITION_BITS) - 1))
    parts = PartitionSlices(slices.member[row[part]], topic[part], first, step[part], bounds[bound + 1] - bounds[bound])
    return parts, row[part], window


# --- ownership of single partitions as bitmaps, and conversion to slices --------------------------------------
#
# A bitmap stands for 512 consecutive partitions of a topic, of which a member owns those whose bits are set: bit b of
# word w is partition 512 * bitmap index + 64 * w + b. Rows are aggregated to bitmaps without a sort and without Python:
# `bits` is the bitwise or of the rows, `xor` their exclusive or, and `count` their number, by which duplicates are
# found.


WORDS_PER_BITMAP = 8
BITMAP_INDEX_BITS = 9
"""Number of low bits of a partition number within a bitmap; the higher bits are the bitmap index."""
_WORDS_BATCH_SIZE = 524_288
"""Number of words that are unpacked at once."""


def read_bitmaps(column: pa.Array) -> IntArray:
    """Returns the words of bitmaps. Shape: (num_bitmaps, WORDS_PER_BITMAP)."""
    return np.asarray(column.flatten().to_numpy(zero_copy_only=False), np.int64).reshape(-1, WORDS_PER_BITMAP)


def unpack(bits: IntArray) -> tuple[IntArray, IntArray]:
    """Returns the row and the position within the bitmap of each set bit, in order."""
    rows, positions = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    flat = bits.reshape(-1)
    nonzero = np.flatnonzero(flat)  # in sparse bitmaps, most words are zero
    for start in range(0, len(nonzero), _WORDS_BATCH_SIZE):
        batch = nonzero[start : start + _WORDS_BATCH_SIZE]
        octets = flat[batch].astype("<i8").view(np.uint8).reshape(-1, 8)
        found = np.flatnonzero(np.unpackbits(octets, axis=1, bitorder="little"))
        word_index = batch[found >> 6]
        rows.append(word_index // WORDS_PER_BITMAP)
        positions.append((word_index % WORDS_PER_BITMAP << 6) | (found & 63))
    return np.concatenate(rows), np.concatenate(positions)


def slices_from_bitmaps(
    key: IntArray, bitmap_index: IntArray, bits: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Converts bitmaps, in any order, to slices: evenly spaced partitions of one key become one slice.

    Returns:
        key, first, step and count of each slice.
    """
    order = np.lexsort((bitmap_index, key))
    row, position = unpack(bits[order])
    return compress_sorted(key[order][row], (bitmap_index[order][row] << BITMAP_INDEX_BITS) + position)


def find_duplicates(bits: IntArray, xor: IntArray, count: IntArray) -> tuple[IntArray, IntArray]:
    """Returns partitions that occur in several rows.

    Args:
        bits, xor: or and exclusive or of the rows of each bitmap.
        count: number of rows.

    Returns:
        index of the bitmap, and position of the partition within it, each once; -1 if a partition occurs three times
        (or five, …), because the exclusive or doesn't show which one it is.
    """
    even = bits & ~xor
    row, position = unpack(even)
    with_several = np.flatnonzero(count > 1)
    num_distinct = np.bincount(unpack(bits[with_several])[0], minlength=len(with_several))
    odd = with_several[count[with_several] > num_distinct + np.bincount(row, minlength=len(bits))[with_several]]
    odd = odd[~np.isin(odd, row)]
    return np.append(row, odd), np.append(position, np.full(len(odd), -1))


# --- keys and names by index -----------------------------------------------------------------------------------------


def take_names(names: pa.Array, indexes: IntArray) -> pa.Array:
    """Returns the names at the indexes; null for a negative index."""
    return names.take(pa.array(indexes, pa.int64(), mask=indexes < 0))


_PIECE_BYTES = 64 << 20
"""Size of the names in a piece of rows: a column of Arrow texts holds at most 2^31 - 1 bytes."""


def name_sizes(names: pa.Array, indexes: IntArray) -> IntArray:
    """Returns the bytes of the names at the indexes; 0 for a negative index."""
    return np.append(pc.binary_length(names).fill_null(0).to_numpy(zero_copy_only=False), 0).astype(np.int64)[indexes]


def byte_pieces(sizes: IntArray) -> Iterator[slice]:
    """Yields ranges of rows in order, of about `_PIECE_BYTES` each; none if there are no rows.

    Args:
        sizes: bytes of the names of each row.
    """
    ends = np.flatnonzero(np.diff(np.cumsum(sizes) // _PIECE_BYTES)) + 1
    yield from (slice(*each) for each in pairwise([0, *ends.tolist(), len(sizes)]) if each[1] > each[0])


def name_pieces(*named: tuple[pa.Array, IntArray]) -> Iterator[slice]:
    """Yields ranges of rows in order, in which no length of a name makes a column of Arrow texts too large.

    Args:
        named: pairs of names and the index of the name of each row, for each column; negative for none.
    """
    yield from byte_pieces(reduce(np.add, (name_sizes(*each) for each in named)))


def byte_ranks(texts: pa.Array) -> IntArray:
    """Returns the rank of each text among the distinct ones by UTF-8 bytes, as C and Go compare; null comes last."""
    return np.asarray(pc.rank(texts.cast(pa.string()), tiebreaker="dense"), np.int64)


class KeyIndex:
    """Distinct keys in ascending order, and the position of a key among them.

    Attributes:
        keys: the distinct keys, ascending.
    """

    def __init__(self, keys: IntArray) -> None:
        """Indexes the keys."""
        self._positions: IntArray | None = None
        size = int(keys.max(initial=-1)) + 1
        if keys.min(initial=0) < 0 or size > len(keys):
            self.keys = np.unique(keys)
            return
        # A dense range of keys, as with the topics of one large group, is looked up and not searched.
        exists = np.zeros(size, bool)
        exists[keys] = True
        self.keys = np.flatnonzero(exists)
        self._positions = np.where(exists, np.cumsum(exists) - 1, -1)

    def __len__(self) -> int:
        return len(self.keys)

    def lookup(self, keys: IntArray) -> IntArray:
        """Returns the position of each key; -1 if the index doesn't contain it."""
        if not len(self.keys):
            return np.full(len(keys), -1, np.int64)
        if self._positions is not None:
            in_range = (keys >= 0) & (keys < len(self._positions))
            if in_range.all():
                return self._positions[keys]
            return np.where(in_range, self._positions[np.where(in_range, keys, 0)], -1)
        position = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[position] == keys, position, -1)


def to_int_array(column: pa.ChunkedArray | pa.Array, missing: int) -> IntArray:
    """Converts a column of integers to NumPy; null becomes `missing`."""
    return np.asarray(column.fill_null(missing).to_numpy(), dtype=np.int64)


def index_rows(rows: pa.Table, key: list[str]) -> tuple[IntArray, IntArray]:
    """Indexes the distinct keys of rows; null is a value like any other.

    Returns:
        for each row, the index of its key; for each key, the index of a row that has it.
    """
    key_index, num_keys = np.zeros(len(rows), np.int64), 1
    for name in key:
        encoded = rows[name].combine_chunks().dictionary_encode(null_encoding="encode")
        combined = key_index * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy().astype(np.int64)
        distinct, key_index = np.unique(combined, return_inverse=True)
        num_keys = len(distinct)
    example = np.empty(num_keys if len(rows) else 0, np.int64)
    example[key_index] = np.arange(len(rows))
    return key_index, example
