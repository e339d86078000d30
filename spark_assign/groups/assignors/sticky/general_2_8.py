"""Sticky from the claims of each partition by generation, as Kafka 2.4 to 2.8 have it (`generalAssign`).

Principle: as today (`general`), but of each partition the claimer of its newest generation owns it, however old that
is, and that of its second newest may get it back (`prepopulateCurrentAssignments`). Of equal generations the first in
the walk of the hash map counts; of claims without a generation the last.

Two faults of those releases
    - Up to 2.8 a leader reads user data twice, and the second time there is nothing left of them. So members that come
      before the first one which shows that subscriptions differ claim nothing (sticky), or no generation.
    - Up to 2.5.0 all groups are planned so. Where subscriptions are equal and anything is owned, partitions are walked
      over in another order (`sortPartitions`), which hangs on Java's hash order throughout.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.groups.assignors.release_rules import ReleaseRules
from spark_assign.groups.assignors.sticky.general import even_out, nothing_decided
from spark_assign.groups.assignors.sticky.general_balance import GeneralBalancer, Subscribers
from spark_assign.groups.assignors.sticky.no_rebalance_2_4 import plan_at_rest
from spark_assign.groups.assignors.sticky.ownership_conflicts import ResolvedOwnership
from spark_assign.groups.assignors.sticky.retained_partitions import TopicOrder, in_order
from spark_assign.groups.assignors.sticky.sticky_types import StickyAssignment, StickyGroups
from spark_assign.java.hash_map import spread_hashes, table_order
from spark_assign.java.tree_bin import IdentityDecides
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PARTITION_BITS, PartitionSlices
from spark_assign.numeric.segmented_arrays import row_numbers, starts_new_key

UNKNOWABLE = (
    "It cannot be known: nine partitions of one hash code share a bucket, and Java tells them apart by address."
)

_NONE = -1
_UNREADABLE = -2
"""Generations of claims: none at all, and that of user data that cannot be read, which others without one overwrite."""


@dataclass(frozen=True)
class GenerationInput:
    """One group, besides its claims.

    Attributes:
        groups: the one group.
        of_topic: of_topic[topic, member], who subscribes to what.
        topic_hash: of each topic its `String.hashCode`.
        without_metadata: how many topics without metadata somebody asks for.
        differs: the place in the walk of the first member that shows that subscriptions differ; null where none does.
        claimed_in: of each member the generation that its claims are of; -1 for none.
    """

    groups: StickyGroups
    of_topic: BoolArray
    topic_hash: IntArray
    without_metadata: int
    differs: int | None
    claimed_in: IntArray


def plan_from_generations(
    asked: GenerationInput,
    raw: PartitionSlices,
    gone: PartitionSlices,
    told: PartitionSlices | TopicOrder,
    rules: ReleaseRules,
) -> StickyAssignment:
    """Plan one group.

    Args:
        asked: the group.
        raw: all claims of topics with metadata.
        gone: those of other topics, whose numbers only tell them apart.
        told: as `keep.keep_owned` has it.
        rules: of which release.
    """
    groups, walk = asked.groups, asked.groups.walk
    if rules.general_only and asked.of_topic.all():
        topics = None
        if len(raw) + len(gone):
            topics = _topics_in_walk(Hashes(asked.topic_hash, asked.without_metadata, 0, 0))
        decided = plan_at_rest(groups, raw, asked.topic_hash, topics)
        if decided is not None:
            return decided
    read_twice = np.zeros(len(walk), bool)
    if asked.differs is not None and not rules.general_only:
        read_twice[np.argsort(walk)[: asked.differs]] = True
    unreadable = read_twice & (asked.claimed_in >= 0) & groups.cooperative
    legible = raw if groups.cooperative else raw.take(~read_twice[raw.member])
    claims = by_generation(legible.expand(), walk, asked.claimed_in, unreadable)
    order = None
    if rules.general_only and asked.of_topic.all() and len(raw) + len(gone):
        lost = by_generation(gone.expand(), walk, asked.claimed_in, unreadable)
        hashes = Hashes(asked.topic_hash, asked.without_metadata, len(lost.newest), len(lost.second))
        try:
            order = order_of_2_4(as_put(raw, told, walk), claims, groups.partitions, hashes)
        except IdentityDecides:
            return nothing_decided(raw, UNKNOWABLE)
    newest, second = (rows.take(rows.first < groups.partitions[rows.topic]) for rows in (claims.newest, claims.second))
    earlier = dict(zip(second.partition_keys.tolist(), second.member.tolist(), strict=True))
    subscribers = Subscribers(asked.of_topic, asked.topic_hash, earlier)
    books = GeneralBalancer(groups, newest, subscribers, None, rules, order)
    return even_out(groups, raw, ResolvedOwnership(newest, np.empty(0, np.int64)), books)


@dataclass(frozen=True)
class OwnersByGeneration:
    """Claims of one group by generation.

    Attributes:
        newest: who claims each partition in its newest generation, as single partitions; claims of partitions that
            do not exist are among them.
        second: the same of its second newest.
    """

    newest: PartitionSlices
    second: PartitionSlices


def by_generation(
    raw: PartitionSlices, walk: IntArray, claimed_in: IntArray, unreadable: BoolArray
) -> OwnersByGeneration:
    """Claims of one group, in the order in which they are put into the hash map.

    Args:
        raw: single partitions.
        walk: of each member its place in the walk.
        claimed_in: of each member the generation that its claims are of; -1 for none.
        unreadable: members whose generation cannot be read.
    """
    generation = np.where(unreadable, _UNREADABLE, claimed_in)[raw.member]
    read = np.where(generation == _UNREADABLE, _NONE, generation)
    place = walk[raw.member]
    # Of a generation the first counts, but of claims without one the last; before those the first unreadable one.
    turn = np.where(generation == _NONE, -place, place)
    order = np.lexsort((turn, generation == _UNREADABLE, -read, raw.partition_keys))
    rows, read = raw.take(order), read[order]
    keys = rows.partition_keys
    same = ~starts_new_key(keys) & ~np.append(True, read[1:] != read[:-1])[: len(keys)]
    rows = rows.take(~same)
    rank = row_numbers(rows.partition_keys)
    return OwnersByGeneration(rows.take(rank == 0), rows.take(rank == 1))


def as_put(raw: PartitionSlices, told: PartitionSlices | TopicOrder, walk: IntArray) -> PartitionSlices:
    """Claims in the order in which a leader puts them into the hash map: member by member, as each tells them."""
    rows = in_order(raw.expand(), told)
    return rows.take(np.argsort(walk[rows.member], kind="stable"))


# --- the order of 2.4 ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hashes:
    """What the order of partitions hangs on in one group.

    Attributes:
        topic: of each topic with metadata its `String.hashCode`.
        without_metadata: how many topics without metadata somebody asks for.
        gone, gone_twice: how many partitions of other topics are claimed, in one or more generations, and in several.
    """

    topic: IntArray
    without_metadata: int
    gone: int
    gone_twice: int

    def of(self, rows: PartitionSlices) -> IntArray:
        """`TopicPartition.hashCode` of single partitions."""
        return (31 * (31 + rows.first) + self.topic[rows.topic]) & 0xFFFFFFFF


def order_of_2_4(put: PartitionSlices, claims: OwnersByGeneration, partitions: IntArray, hashes: Hashes) -> IntArray:
    """Keys of all partitions in the order in which 2.4 walks over them where subscriptions are equal.

    Whoever has most, and of those the last by id, names one of its partitions: first those that another member had
    before, in their hash order, then the others in theirs. What nobody owns comes last, in its own hash order.

    Args:
        put: all claims, as `as_put` has them.
        claims: the same by generation.
        partitions: of each topic.
        hashes: of the topics.
    """
    # The map of claims, and out of it, in its order, that of partitions with a claimer before.
    _, at = np.unique(put.partition_keys, return_index=True)
    first_put = put.take(np.sort(at))
    walked = first_put.take(_walk(hashes.of(first_put), hashes.gone))
    before = walked.take(np.isin(walked.partition_keys, claims.second.partition_keys))
    before = before.take(_walk(hashes.of(before), hashes.gone_twice))
    owned = _in_order_of(claims.newest, walked.partition_keys)
    place_before = _places_in(before.partition_keys, owned.partition_keys)
    owned, place_before = (
        owned.take(owned.first < partitions[owned.topic]),
        place_before[owned.first < partitions[owned.topic]],
    )
    # Of each member those that another had before come first; both in the order of their maps.
    order = np.lexsort((place_before, owned.member))
    owned = owned.take(order)
    left = np.bincount(owned.member)[owned.member] - row_numbers(owned.member)
    named = owned.partition_keys[np.lexsort((-owned.member, -left))]

    topics = _topics_in_walk(hashes)
    every = np.concatenate(
        [(topic << PARTITION_BITS) | np.arange(partitions[topic]) for topic in topics.tolist()] or [named]
    )
    rows = PartitionSlices(
        every * 0, every >> PARTITION_BITS, every & ((1 << PARTITION_BITS) - 1), every * 0 + 1, every * 0 + 1
    )
    rows = rows.take(_walk(hashes.of(rows), 0))
    return np.append(named, rows.partition_keys[~np.isin(rows.partition_keys, named)])


def _topics_in_walk(hashes: Hashes) -> IntArray:
    """Topics as the map of partition counts has them, which is filled from the set of all subscribed topics."""
    ranks_of = np.arange(len(hashes.topic))
    as_set = _walk(hashes.topic, hashes.without_metadata, ranks_of)
    return as_set[_walk(hashes.topic[as_set], 0, ranks_of[as_set])]


def _walk(hashes: IntArray, others: int, order: IntArray | None = None) -> IntArray:
    """The walk of a hash map that these keys and so many others were put into."""
    if not others:
        return table_order(hashes, order)
    capacity = 16
    while (len(hashes) + others) * 4 > capacity * 3:
        capacity *= 2
    walk: IntArray = np.argsort(spread_hashes(hashes) & (capacity - 1), kind="stable")
    return walk


def _in_order_of(rows: PartitionSlices, keys: IntArray) -> PartitionSlices:
    return rows.take(np.argsort(_places_in(keys, rows.partition_keys), kind="stable"))


def _places_in(keys: IntArray, wanted: IntArray) -> IntArray:
    """Where the wanted keys stand in the other ones; behind all for those that do not."""
    sorter = np.argsort(keys, kind="stable")
    at = np.searchsorted(keys[sorter], wanted)
    place = np.append(sorter, len(keys))[at]
    place[np.append(keys[sorter], -1)[at] != wanted] = len(keys)
    return place
