"""Sticky from the claims of each partition by generation, as Kafka 2.4 to 2.8 have it (`generalAssign`).

Principle: as today (`general`), but of each partition the claimer of its newest generation owns it, however old that
is, and that of its second newest may get it back (`prepopulateCurrentAssignments`). Of equal generations the first in
the walk of the hash map counts; of claims without a generation the last.

Two faults of those releases
    - Up to 2.8 a leader reads user data twice, and the second time there is nothing left of them. So members that come
      before the first one which shows that subscriptions differ claim nothing (sticky), or no generation.
    - Up to 2.5.0 all groups are planned so. Where subscriptions are equal and anything is owned, partitions are walked
      over in another order (`sortPartitions`), which hangs on Java's hash order throughout.


What Kafka 2.4 plans where nobody has to give up anything: only what nobody owns is dealt, and nothing is balanced.

That is so where all members subscribe to the same topics, no partition is claimed twice, and no two members differ by
two or more once everything is dealt. Then of the order of partitions (`general_2_8`) it only matters in which one those
come that nobody owns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.groups.assignors.release_rules import ReleaseRules
from spark_assign.groups.assignors.sticky.constrained import find_unowned, to_slices
from spark_assign.groups.assignors.sticky.general import reject_group, run_balancer
from spark_assign.groups.assignors.sticky.general_balance import GeneralBalancer, Subscribers
from spark_assign.groups.assignors.sticky.ownership_conflicts import ResolvedOwnership, find_overlapping_topics
from spark_assign.groups.assignors.sticky.retained_partitions import TopicOrder, sort_by_owned_order
from spark_assign.groups.assignors.sticky.sticky_groups import KEPT, StickyAssignment, StickyGroups
from spark_assign.groups.assignors.sticky.water_filling import fill_up
from spark_assign.java.hash_map import capacities, spread_hashes, table_order, treeified_groups
from spark_assign.java.tree_bin import IdentityDecides
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PARTITION_BITS, PartitionSlices
from spark_assign.numeric.segmented_arrays import ranges_by_length, row_numbers, starts_new_key

ORDER_UNKNOWN = (
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
        is_subscribed: of_topic[topic, member], who subscribes to what.
        topic_hash: of each topic its `String.hashCode`.
        num_topics_without_metadata: how many topics without metadata somebody asks for.
        first_heterogeneous: the place in the walk of the first member that shows that subscriptions differ; null where
            none does.
        owned_generation: of each member the generation that its claims are of; -1 for none.
    """

    groups: StickyGroups
    is_subscribed: BoolArray
    topic_hash: IntArray
    num_topics_without_metadata: int
    first_heterogeneous: int | None
    owned_generation: IntArray


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
    groups, walk = asked.groups, asked.groups.hash_order
    if rules.only_general and asked.is_subscribed.all():
        topics = None
        if len(raw) + len(gone):
            topics = _topic_order(PartitionHashes(asked.topic_hash, asked.num_topics_without_metadata, 0, 0))
        decided = plan_without_rebalance_2_4(groups, raw, asked.topic_hash, topics)
        if decided is not None:
            return decided
    read_twice = np.zeros(len(walk), bool)
    if asked.first_heterogeneous is not None and not rules.only_general:
        read_twice[np.argsort(walk)[: asked.first_heterogeneous]] = True
    unreadable = read_twice & (asked.owned_generation >= 0) & groups.cooperative
    legible = raw if groups.cooperative else raw.take(~read_twice[raw.member])
    claims = owners_by_generation(legible.expand(), walk, asked.owned_generation, unreadable)
    order = None
    if rules.only_general and asked.is_subscribed.all() and len(raw) + len(gone):
        lost = owners_by_generation(gone.expand(), walk, asked.owned_generation, unreadable)
        hashes = PartitionHashes(
            asked.topic_hash, asked.num_topics_without_metadata, len(lost.newest), len(lost.second)
        )
        try:
            order = partition_order_2_4(insertion_order(raw, told, walk), claims, groups.partitions, hashes)
        except IdentityDecides:
            return reject_group(raw, ORDER_UNKNOWN)
    newest, second = (rows.take(rows.first < groups.partitions[rows.topic]) for rows in (claims.newest, claims.second))
    earlier = dict(zip(second.partition_keys.tolist(), second.member.tolist(), strict=True))
    subscribers = Subscribers(asked.is_subscribed, asked.topic_hash, earlier)
    books = GeneralBalancer(groups, newest, subscribers, None, rules, order)
    return run_balancer(groups, raw, ResolvedOwnership(newest, np.empty(0, np.int64)), books)


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


def owners_by_generation(
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


def insertion_order(raw: PartitionSlices, told: PartitionSlices | TopicOrder, walk: IntArray) -> PartitionSlices:
    """Claims in the order in which a leader puts them into the hash map: member by member, as each tells them."""
    rows = sort_by_owned_order(raw.expand(), told)
    return rows.take(np.argsort(walk[rows.member], kind="stable"))


# --- the order of 2.4 ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PartitionHashes:
    """What the order of partitions hangs on in one group.

    Attributes:
        topic_hash: of each topic with metadata its `String.hashCode`.
        num_topics_without_metadata: how many topics without metadata somebody asks for.
        num_removed, num_removed_twice: how many partitions of other topics are claimed, in one or more generations, and
            in several.
    """

    topic_hash: IntArray
    num_topics_without_metadata: int
    num_removed: int
    num_removed_twice: int

    def partition_hashes(self, rows: PartitionSlices) -> IntArray:
        """`TopicPartition.hashCode` of single partitions."""
        return (31 * (31 + rows.first) + self.topic_hash[rows.topic]) & 0xFFFFFFFF


def partition_order_2_4(
    put: PartitionSlices, claims: OwnersByGeneration, partitions: IntArray, hashes: PartitionHashes
) -> IntArray:
    """Keys of all partitions in the order in which 2.4 walks over them where subscriptions are equal.

    Whoever has most, and of those the last by id, names one of its partitions: first those that another member had
    before, in their hash order, then the others in theirs. What nobody owns comes last, in its own hash order.

    Args:
        put: all claims, as `insertion_order` has them.
        claims: the same by generation.
        partitions: of each topic.
        hashes: of the topics.
    """
    # The map of claims, and out of it, in its order, that of partitions with a claimer before.
    _, at = np.unique(put.partition_keys, return_index=True)
    first_put = put.take(np.sort(at))
    walked = first_put.take(_map_order(hashes.partition_hashes(first_put), hashes.num_removed))
    before = walked.take(np.isin(walked.partition_keys, claims.second.partition_keys))
    before = before.take(_map_order(hashes.partition_hashes(before), hashes.num_removed_twice))
    owned = _sort_by_keys(claims.newest, walked.partition_keys)
    place_before = _positions_in(before.partition_keys, owned.partition_keys)
    owned, place_before = (
        owned.take(owned.first < partitions[owned.topic]),
        place_before[owned.first < partitions[owned.topic]],
    )
    # Of each member those that another had before come first; both in the order of their maps.
    order = np.lexsort((place_before, owned.member))
    owned = owned.take(order)
    left = np.bincount(owned.member)[owned.member] - row_numbers(owned.member)
    named = owned.partition_keys[np.lexsort((-owned.member, -left))]

    topics = _topic_order(hashes)
    every = np.concatenate(
        [(topic << PARTITION_BITS) | np.arange(partitions[topic]) for topic in topics.tolist()] or [named]
    )
    rows = PartitionSlices(
        every * 0, every >> PARTITION_BITS, every & ((1 << PARTITION_BITS) - 1), every * 0 + 1, every * 0 + 1
    )
    rows = rows.take(_map_order(hashes.partition_hashes(rows), 0))
    return np.append(named, rows.partition_keys[~np.isin(rows.partition_keys, named)])


def _topic_order(hashes: PartitionHashes) -> IntArray:
    """Topics as the map of partition counts has them, which is filled from the set of all subscribed topics."""
    ranks_of = np.arange(len(hashes.topic_hash))
    as_set = _map_order(hashes.topic_hash, hashes.num_topics_without_metadata, ranks_of)
    return as_set[_map_order(hashes.topic_hash[as_set], 0, ranks_of[as_set])]


def _map_order(hashes: IntArray, others: int, order: IntArray | None = None) -> IntArray:
    """The walk of a hash map that these keys and so many others were put into."""
    if not others:
        return table_order(hashes, order)
    capacity = 16
    while (len(hashes) + others) * 4 > capacity * 3:
        capacity *= 2
    walk: IntArray = np.argsort(spread_hashes(hashes) & (capacity - 1), kind="stable")
    return walk


def _sort_by_keys(rows: PartitionSlices, keys: IntArray) -> PartitionSlices:
    return rows.take(np.argsort(_positions_in(keys, rows.partition_keys), kind="stable"))


def _positions_in(keys: IntArray, wanted: IntArray) -> IntArray:
    """Where the wanted keys stand in the other ones; behind all for those that do not."""
    sorter = np.argsort(keys, kind="stable")
    at = np.searchsorted(keys[sorter], wanted)
    place = np.append(sorter, len(keys))[at]
    place[np.append(keys[sorter], -1)[at] != wanted] = len(keys)
    return place


_WORD = 1 << 32
_BY_31 = pow(31, -1, _WORD)


def plan_without_rebalance_2_4(
    groups: StickyGroups, owned: PartitionSlices, topic_hash: IntArray, topics: IntArray | None
) -> StickyAssignment | None:
    """Plan one group all of whose members subscribe to all topics; null where it is not as easy as that.

    Args:
        groups: the one group.
        owned: all claims of topics with metadata.
        topic_hash: of each topic its `String.hashCode`.
        topics: in the order in which they are walked over; null where partitions go by topic and number.
    """
    partitions = groups.partitions
    if len(find_overlapping_topics(owned)) or (owned.last >= partitions[owned.topic]).any():
        return None
    load = np.bincount(owned.member, owned.count, len(groups.member_group)).astype(np.int64)
    topic, partition = find_unowned(owned, partitions)
    every = np.arange(len(load))
    to_member = fill_up(np.zeros_like(load), load, every, np.array([len(topic)]))
    load += np.bincount(to_member, minlength=len(load))
    if load.max() > load.min() + 1:
        return None
    order: IntArray | None = np.lexsort((partition, topic))
    if topics is not None:
        differ = _hashes_differ(topic_hash, partitions)
        order = _partition_order(topic, partition, topic_hash, topics, partitions) if differ else None
    if order is None:
        return None
    nothing = np.zeros(len(to_member), np.int64)
    dealt, *_ = to_slices(to_member, topic[order], partition[order], nothing, nothing.astype(bool))
    runs = owned.concat(dealt)
    return StickyAssignment(runs, np.full(len(runs), KEPT), np.zeros(len(runs), bool), {})


def _hashes_differ(topic_hash: IntArray, partitions: IntArray) -> bool:
    """Whether no two partitions have one hash code: else a bucket of them may be one that cannot be known.

    That of a partition is 31 * (31 + partition) + that of its topic. Divided by 31, those of a topic follow each other.
    """
    begin = np.sort(topic_hash * _BY_31 % _WORD)
    order = np.argsort(topic_hash * _BY_31 % _WORD, kind="stable")
    end = begin + partitions[order]
    return bool((end <= np.append(begin[1:], begin[:1] + _WORD)).all())


def _partition_order(
    topic: IntArray, partition: IntArray, topic_hash: IntArray, topics: IntArray, partitions: IntArray
) -> IntArray | None:
    """In which order some partitions stand in a `HashMap` of all of them; null where its buckets are too full."""
    row = np.repeat(topics, partitions[topics])
    hashes = _partition_hashes(row, ranges_by_length(partitions[topics]), topic_hash)
    if len(treeified_groups(hashes, np.zeros(len(hashes), np.int64))):
        return None
    place = np.empty(len(topics), np.int64)
    place[topics] = np.arange(len(topics))
    bucket = spread_hashes(_partition_hashes(topic, partition, topic_hash)) & (capacities(np.array([len(hashes)])) - 1)
    return np.lexsort((partition, place[topic], bucket))


def _partition_hashes(topic: IntArray, partition: IntArray, topic_hash: IntArray) -> IntArray:
    hashes: IntArray = (31 * (31 + partition) + topic_hash[topic]) & (_WORD - 1)
    return hashes
