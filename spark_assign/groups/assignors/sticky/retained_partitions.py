"""Selects the partitions that members keep if they own too many: the first ones by (partition, topic).

Up to 3.7.0 (before KAFKA-16277), members keep the first partitions in the order in which they report them.
Cooperative-sticky reports owned partitions by (topic, partition), up to 2.8.0 with the topics in hash order. Sticky
reports them as in its user data: topic after topic, the partitions of a topic in the order of their assignment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from spark_assign.groups.assignors.release_rules import ReleaseRules
from spark_assign.java.hash_map import capacities, spread_hashes
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import (
    PARTITION_BITS,
    PartitionSlices,
    member_partition_keys,
    positions_in,
    split_keys,
)
from spark_assign.numeric.segmented_arrays import exclusive_sum, row_numbers, starts_new_key


@dataclass(frozen=True)
class TopicOrder:
    """(member, topic) pairs in the order in which members report their topics, each with ascending partitions.

    Members without a pair report their topics by name.
    """

    member: IntArray
    topic: IntArray

    def take(self, rows: BoolArray | IntArray) -> TopicOrder:
        """Returns the selected pairs."""
        return TopicOrder(self.member[rows], self.topic[rows])

    def shift(self, member: int, topic: int) -> TopicOrder:
        """Returns the same pairs with these numbers added to the indexes."""
        return TopicOrder(self.member + member, self.topic + topic)

    def sort_keys(self, member: IntArray, topic: IntArray) -> IntArray:
        """Returns an integer for each (member, topic) pair that ascends in the order in which the member reports its
        topics."""
        keys = (self.member << PARTITION_BITS) | self.topic
        position = positions_in(keys, (member << PARTITION_BITS) | topic)
        return np.where(position < len(keys), position, topic)


OwnedOrder = PartitionSlices | TopicOrder
"""The order in which members report single partitions, or topics."""


def keep_owned(
    owned: PartitionSlices, num_owned: IntArray, num_kept: IntArray, owned_order: OwnedOrder, rules: ReleaseRules
) -> tuple[PartitionSlices, PartitionSlices]:
    """Returns the partitions that members keep, and those that they give up.

    Args:
        owned: slices of all members.
        num_owned: number of partitions that each member owns.
        num_kept: number of partitions that each member keeps.
        owned_order: single partitions in the order in which members report them, or their topics. A member without an
            entry reports its partitions by (topic, partition).
        rules: rules of a release.
    """
    return (
        keep_in_owned_order(owned, num_owned, num_kept, owned_order)
        if rules.keeps_in_owned_order
        else keep_by_partition(owned, num_owned, num_kept)
    )


def keep_by_partition(
    owned: PartitionSlices, num_owned: IntArray, num_kept: IntArray
) -> tuple[PartitionSlices, PartitionSlices]:
    """Splits the slices of each member after its first partitions by (partition, topic).

    Args:
        owned: slices of all members.
        num_owned: number of partitions that each member owns.
        num_kept: number of partitions that each member keeps.

    Returns:
        the partitions that members keep, and those that they give up.
    """
    is_over = (num_owned > num_kept)[owned.member]
    if not is_over.any():
        return owned, owned.take(is_over)
    slices = owned.take(is_over)
    bound = _last_kept_partition(slices, num_kept)[slices.member]
    below = np.clip((bound - slices.first + slices.step - 1) // slices.step, 0, slices.count)
    # Of the partitions at the bound itself, those of the first topics are kept.
    at_bound = (bound >= slices.first) & (bound <= slices.last) & ((bound - slices.first) % slices.step == 0)
    num_at_bound = num_kept - np.bincount(slices.member, below, len(num_kept)).astype(np.int64)
    candidates = np.flatnonzero(at_bound)
    candidates = candidates[np.lexsort((slices.topic[candidates], slices.member[candidates]))]
    members = slices.member[candidates]
    below[candidates] += row_numbers(members) < num_at_bound[members]
    kept, released = split_slices(slices, below)
    return owned.take(~is_over).concat(kept), released


def split_slices(slices: PartitionSlices, num_kept: IntArray) -> tuple[PartitionSlices, PartitionSlices]:
    """Splits each slice after its first `num_kept` partitions. Returns the heads and the tails that aren't empty."""
    head = replace(slices, count=num_kept)
    tail = replace(slices, first=slices.first + slices.step * num_kept, count=slices.count - num_kept)
    return head.take(num_kept > 0), tail.take(tail.count > 0)


def _last_kept_partition(slices: PartitionSlices, num_kept: IntArray) -> IntArray:
    """Returns, for each member, the lowest partition up to which it owns as many partitions as it keeps; -1 for
    none."""
    low = np.full(len(num_kept), -1, np.int64)
    high = np.zeros(len(num_kept), np.int64)
    np.maximum.at(high, slices.member, slices.last)
    high[num_kept == 0] = -1
    while (low < high).any():
        middle = (low + high) >> 1
        reached = np.clip((middle[slices.member] - slices.first) // slices.step + 1, 0, slices.count)
        enough = np.bincount(slices.member, reached, len(num_kept)) >= num_kept
        high = np.where(enough, middle, high)
        low = np.where(enough | (low >= high), low, middle + 1)
        low = np.minimum(low, high)
    return high


# --- In the order in which members report what they own -----------------------------------------------------


def keep_in_owned_order(
    owned: PartitionSlices, num_owned: IntArray, num_kept: IntArray, owned_order: OwnedOrder
) -> tuple[PartitionSlices, PartitionSlices]:
    """Splits each member's partitions after the first ones in the order in which it reports them (see `keep_owned`)."""
    is_over = (num_owned > num_kept)[owned.member]
    if not is_over.any():
        return owned, owned.take(is_over)
    is_listed = _has_partition_order(owned, owned_order)
    head, tail = _keep_by_topic(owned.take(is_over & ~is_listed), num_kept, owned_order)
    kept, released = owned.take(~is_over).concat(head), tail
    if isinstance(owned_order, PartitionSlices) and is_listed.any():
        head, tail = _keep_by_partition_order(owned.take(is_over & is_listed), num_kept, owned_order)
        kept, released = kept.concat(head), released.concat(tail)
    return kept, released


def _has_partition_order(owned: PartitionSlices, owned_order: OwnedOrder) -> BoolArray:
    """Returns a mask of the slices whose member reports the order of single partitions."""
    return (
        np.isin(owned.member, owned_order.member)
        if isinstance(owned_order, PartitionSlices)
        else np.zeros(len(owned), bool)
    )


def _keep_by_topic(
    slices: PartitionSlices, num_kept: IntArray, owned_order: OwnedOrder
) -> tuple[PartitionSlices, PartitionSlices]:
    """Splits slices by (topic, partition), which fixes the number of partitions that a member keeps of each topic."""
    pairs, pair = np.unique((slices.member << PARTITION_BITS) | slices.topic, return_inverse=True)
    member, topic = split_keys(pairs)
    num_owned = np.bincount(pair, slices.count, len(pairs)).astype(np.int64)
    order = np.arange(len(pairs))
    if isinstance(owned_order, TopicOrder):
        order = np.lexsort((owned_order.sort_keys(member, topic), member))
    num_before = np.empty_like(num_owned)
    num_before[order] = exclusive_sum(num_owned[order], np.searchsorted(member, member))
    pair_kept = np.clip(num_kept[member] - num_before, 0, num_owned)
    split = keep_by_partition(PartitionSlices(pair, *slices.columns[1:]), num_owned, pair_kept)
    kept, released = (PartitionSlices(member[slices.member], *slices.columns[1:]) for slices in split)
    return kept, released


def _keep_by_partition_order(
    slices: PartitionSlices, num_kept: IntArray, owned_order: PartitionSlices
) -> tuple[PartitionSlices, PartitionSlices]:
    """Splits slices in the reported order of single partitions."""
    rows = sort_by_owned_order(slices.expand(), owned_order)
    is_kept: BoolArray = row_numbers(rows.member) < num_kept[rows.member]
    return rows.take(is_kept), rows.take(~is_kept)


def sort_by_owned_order(rows: PartitionSlices, owned_order: OwnedOrder) -> PartitionSlices:
    """Sorts single partitions by member and by the order in which the member reports them."""
    if isinstance(owned_order, TopicOrder):
        return rows.take(np.lexsort((rows.first, owned_order.sort_keys(rows.member, rows.topic), rows.member)))
    position = positions_in(*member_partition_keys(owned_order, rows))
    return rows.take(np.lexsort((rows.partition_keys, position, rows.member)))


def first_in_owned_order(kept: PartitionSlices, owned_order: OwnedOrder) -> PartitionSlices:
    """Returns the first of the partitions that each member keeps, in the order in which it reports them."""
    is_listed = _has_partition_order(kept, owned_order)
    heads = kept.take(~is_listed)
    one = np.ones(len(heads), np.int64)
    rows = sort_by_owned_order(
        PartitionSlices(*heads.columns[:3], one, one).concat(kept.take(is_listed).expand()), owned_order
    )
    return rows.take(starts_new_key(rows.member))


def hash_owned_order(
    owned: PartitionSlices, others: PartitionSlices, topic_hash: IntArray, num_members: int
) -> TopicOrder:
    """Returns the topic order of members that own several topics and report them in hash order
    (`groupPartitionsByTopic`).

    The map is filled by `computeIfAbsent`, which inserts a key before those of its bucket, and resizes the table only
    in the next call.

    Args:
        owned: owned partitions of topics with metadata.
        others: owned partitions of other topics. Only their number matters.
        topic_hash: `String.hashCode` of each topic's name.
        num_members: number of members.
    """
    slices = owned.concat(others)
    pairs, pair = np.unique((slices.member << PARTITION_BITS) | slices.topic, return_inverse=True)
    member, topic = split_keys(pairs)
    num_partitions = np.bincount(pair, slices.count, len(pairs)).astype(np.int64)
    num_topics = np.bincount(member, minlength=num_members)[member]
    is_last = np.append(starts_new_key(member)[1:], True)[: len(member)]
    size = np.zeros(num_members, np.int64)
    size[member[is_last]] = num_topics[is_last] - (num_partitions[is_last] == 1)
    bucket = spread_hashes(topic_hash[topic]) & (capacities(size)[member] - 1)
    order = np.lexsort((-row_numbers(member), bucket, member))
    order = order[(num_topics > 1)[order] & np.isin(topic, owned.topic)[order]]
    return TopicOrder(member[order], topic[order])
