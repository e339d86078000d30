"""Builds the orders that the broker's assignors depend on (`assignors.server.coordinator_order`).

If a fleet lacks the input of an order, the order is a guess:
    - Members are in the slots of the coordinator's hash table that their ids determine; members with the same slot are
      ordered by id. In the broker, the member that joins last, and so triggers the assignment, comes last, and the
      table might have been larger.
    - Topics are ordered by name instead of by id.
A `TieOrder` marks guesses: keys with the same `tie` can be in any order.
"""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from spark_assign.assignors.group_facts import LISTED_TOPIC, SUBSCRIPTION
from spark_assign.assignors.group_specs import UNKNOWN_POSITION, GroupSpecs
from spark_assign.java.hash_map import LONGEST_CHAIN, HashTable, capacities, spread_hashes, table_order
from spark_assign.numeric.arrays import (
    PARTITION_BITS,
    BoolArray,
    IntArray,
    KeyIndex,
    PartitionSlices,
    invert,
    key_ranges,
    mask_from_indexes,
    member_partition_keys,
    positions_in,
    row_numbers,
    starts_new_key,
)
from spark_assign.tables.quoting import in_text

# --- the order in which the group coordinator passes members, topics, and partitions to its assignors ---------
#
#     members             the coordinator's table (a `TimelineHashMap`), copied to a `HashMap` by member id
#     topics              the names in the `HashSet` of a subscription; their ids are added to another set in this order
#     previous target     a `HashMap` of topic ids; for each topic, a `HashSet` of partitions
#
# A target assignment is written as a record and read again, so its maps and sets are new and are filled in the order of
# the record. All orders are functions of ids, except within a bucket, where the insertion order counts: a `HashMap` or
# `HashSet` is iterated bucket by bucket, and a bucket in insertion order.
#
# The first half of this section computes the orders of many tables as columns, the second half that of a single table.


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
    return spread_order(keys, [code ^ code >> 16 for code in hashes], capacity, rank, initial_capacity)


def spread_order(
    keys: Sequence[Key],
    spread: Sequence[int],
    capacity: int,
    rank: Callable[[Key], Any] | None,
    initial_capacity: int | None = None,
) -> list[Key]:
    """Returns the keys of a table in the order of its iterator, as `iteration_order`, from their spread hash codes
    (`HashMap.hash`)."""
    initial_capacity = capacity if initial_capacity is None else initial_capacity
    if len(keys) > LONGEST_CHAIN and _is_treeified(spread, initial_capacity):
        table: HashTable[int] = HashTable(initial_capacity, None if rank is None else lambda index: rank(keys[index]))
        for index, code in enumerate(spread):
            table.put(index, code)
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


# --- builds the orders that the broker's assignors depend on (`assignors.server.coordinator_order`) ---


@dataclass(frozen=True)
class TieOrder:
    """An order of members or topics.

    Attributes:
        index: member or topic index at each position.
        tie: ascending numbers; adjacent positions with the same number are in an unknown order.
    """

    index: IntArray
    tie: IntArray

    def take(self, mask: BoolArray) -> TieOrder:
        """Returns the positions that the mask selects."""
        return TieOrder(self.index[mask], self.tie[mask])


def coordinator_member_order(specs: GroupSpecs) -> TieOrder:
    """Returns all members, by group, in the order in which the assignor sees them."""
    members = specs.members
    if not len(members):
        return TieOrder(np.empty(0, np.int64), np.empty(0, np.int64))
    hashes, position = specs.member_hash, specs.list_position
    slots = table_slots(hashes, members.group)
    has_positions = mask_from_indexes(members.group[position < UNKNOWN_POSITION], specs.num_groups)
    by_slot = ~has_positions | find_classic_groups(specs)
    slot = np.where(by_slot[members.group], slots, position)
    order = np.lexsort((slot, members.group))
    order = order[table_order(hashes[order], order, members.group[order])]
    bucket = map_buckets(hashes, members.group)
    # The order within a bucket is unknown if a member has no position, or several have the same.
    group, bucket, slot = members.group[order], bucket[order], slot[order]
    bucket_index = np.cumsum(starts_new_key(group, bucket)) - 1
    starts_bucket = starts_new_key(bucket_index)
    if starts_bucket.all():
        return TieOrder(order, bucket_index)
    sorted_places = np.lexsort((slot, bucket_index))
    is_duplicate = np.zeros(len(order), bool)
    is_duplicate[sorted_places] = ~starts_new_key(bucket_index[sorted_places], slot[sorted_places])
    is_unknown = np.bincount(bucket_index, is_duplicate | (slot == UNKNOWN_POSITION) | by_slot[group]) > 0
    return TieOrder(order, np.cumsum(starts_bucket | ~is_unknown[bucket_index]) - 1)


def find_classic_groups(specs: GroupSpecs) -> BoolArray:
    """Returns the mask of the groups that are known to be classic: not in the new coordinator table, and without a
    target."""
    return np.array([kind == "classic" for kind in specs.group_values("group_type")], bool)


@dataclass(frozen=True)
class TopicIdIndex(TopicIds):
    """Ids of the topics of specs. In groups of `by_name`, hash and rank are the position by name.

    Attributes:
        by_name: mask of the groups in which a topic id is unknown.
        rejected: code and detail by group index, for groups with an invalid id.
    """

    by_name: BoolArray
    rejected: dict[int, tuple[str, str]]


def read_topic_ids_of_specs(specs: GroupSpecs) -> TopicIdIndex:
    """Reads the ids of the topics of the specs."""
    topics, facts = specs.topics, specs.facts
    id_texts: list[str | None] = [None] * len(topics)
    if "topic_id" in facts.table.column_names:
        rows = np.append(facts.rows_by_kind[SUBSCRIPTION], facts.rows_by_kind[LISTED_TOPIC])
        rows = rows[facts.topic_index[rows] >= 0]
        size = max(len(facts.topic_names), 1)
        key, first = np.unique(facts.group_index[rows] * size + facts.topic_index[rows], return_index=True)
        topic = KeyIndex(specs.fact_group_index[topics.group] * size + topics.name).lookup(key)
        for topic_position, text in zip(topic.tolist(), facts.column("topic_id", rows[first]).to_pylist(), strict=True):
            if topic_position >= 0:
                id_texts[topic_position] = text
    ids = read_topic_ids(id_texts)
    rejected: dict[int, tuple[str, str]] = {}
    nameless_topics = topics.with_metadata[~ids.is_valid[topics.with_metadata]]
    for topic in nameless_topics.tolist():
        if id_texts[topic] is not None:
            detail = (
                f"topics: topic_id {id_texts[topic]!r:.260} of {in_text(specs.topic[topic].as_py())} isn't an ID. "
                "Kafka prints one as 22 characters"
            )
            rejected.setdefault(int(topics.group[topic]), ("bad-topic-id", detail))
    by_name = mask_from_indexes(topics.group[nameless_topics], specs.num_groups)
    topic_position, nameless = row_numbers(topics.group), by_name[topics.group]
    hashes, ranks = (np.where(nameless, topic_position, values) for values in (ids.hash, ids.rank))
    return TopicIdIndex(hashes, ranks, ids.is_valid, by_name, rejected)


def coordinator_topic_order(specs: GroupSpecs, topics: IntArray, ids: TopicIdIndex) -> TieOrder:
    """Returns topics, by group, in the iteration order of the hash set of their ids, which is filled from a set of
    names.

    Args:
        specs: the groups.
        topics: indexes of the topics with metadata.
        ids: ids of all topics.
    """
    subscribed = np.flatnonzero(specs.topics.is_subscribed)
    name_hash, group_of_name = specs.topic_hash[subscribed], specs.topics.group[subscribed]
    by_name_set = subscribed[set_order(name_hash, subscribed, group_of_name)]
    bucket_of_name = np.zeros(len(specs.topics), np.int64)
    bucket_of_name[subscribed] = set_buckets(name_hash, group_of_name)
    # Names without metadata have no id, but increase the size of the set.
    sizes = np.bincount(group_of_name, minlength=specs.num_groups)
    is_selected = mask_from_indexes(topics, len(specs.topics))
    inserted = by_name_set[is_selected[by_name_set]]
    group = specs.topics.group[inserted]
    order = set_order(ids.hash[inserted], ids.rank[inserted], group, sizes)
    bucket = set_buckets(ids.hash[inserted], group, sizes)[order]
    ordered, group = inserted[order], group[order]
    bucket_index = np.cumsum(starts_new_key(group, bucket)) - 1
    # If Java treeifies a bucket, the order of names has no effect.
    short = np.bincount(bucket_index)[bucket_index] <= LONGEST_CHAIN if len(bucket_index) else np.empty(0, bool)
    starts_bucket = starts_new_key(bucket_index) | (starts_new_key(bucket_of_name[ordered]) & short)
    return TieOrder(ordered, np.cumsum(starts_new_key(group) | (starts_bucket & ~ids.by_name[group])) - 1)


def coordinator_previous_order(
    losing: PartitionSlices, id_hash: IntArray, id_rank: IntArray
) -> tuple[PartitionSlices, IntArray, IntArray]:
    """Returns previously owned partitions, one per row, in the iteration order of the members' maps and sets.

    Args:
        losing: slices sorted by member, topic, and partition.
        id_hash, id_rank: hash and rank of each topic id.

    Returns:
        the rows; the tie of each row's topic; the tie of each row's partition.
    """
    rows = losing.expand()
    if not len(rows):
        return rows, rows.topic, rows.topic
    # Sets of partitions, filled in ascending order.
    rows = rows.take(np.lexsort((rows.first, rows.topic, rows.member)))
    starts_set = starts_new_key(rows.member << PARTITION_BITS | rows.topic)
    set_index = np.cumsum(starts_set) - 1
    tie = set_buckets(rows.first, set_index)
    order = set_order(rows.first, rows.first, set_index)
    rows, tie = rows.take(order), tie[order]
    # Maps of topics, filled from the record. `computeIfAbsent` inserts a key before the keys of its bucket, so that the
    # record has the new topics of one assignment in reverse order. These maps grow as they fill.
    member, topic = rows.member[starts_set], rows.topic[starts_set]
    member_number, hashes = np.cumsum(starts_new_key(member)) - 1, id_hash[topic]
    insertion = np.lexsort((-topic, member))
    map_order = insertion[table_order(hashes[insertion], id_rank[topic][insertion], member_number[insertion])]
    topic_tie = map_buckets(hashes, member_number)[set_index]
    position = invert(map_order, len(map_order))
    order = np.argsort(position[set_index], kind="stable")
    return rows.take(order), topic_tie[order], tie[order]


def in_owned_order(owned: PartitionSlices, ordered: PartitionSlices) -> tuple[IntArray, BoolArray]:
    """Sorts single partitions by the order in which their members report them.

    Args:
        owned: single partitions in any order.
        ordered: the reported order, with the same member and topic indexes.

    Returns:
        the sort order of `owned`; and for each row of `owned`, whether its member reports all of its rows.
    """
    indexes = np.arange(len(owned))
    if not len(ordered) or not len(owned):
        return indexes, np.zeros(len(owned), bool)
    position = positions_in(*member_partition_keys(ordered, owned))
    is_incomplete = mask_from_indexes(owned.member[position == len(ordered)], int(owned.member.max()) + 1)
    is_ordered = ~is_incomplete[owned.member]
    return np.lexsort((np.where(is_ordered, position, indexes), owned.member)), is_ordered
