"""What members keep of what they own, where it is too much: the first partitions by (partition, topic).

Up to 3.7.0 they keep the first ones in the order in which they tell them (before KAFKA-16277). Cooperative-sticky tells
what it owns by (topic, partition), up to 2.8.0 with the topics as a `HashMap` has them; sticky as its user data has it:
topic after topic, the partitions of one in the order in which they were assigned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.groups.assignors.release_rules import ReleaseRules
from spark_assign.java.hash_map import spread_hashes
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PARTITION_BITS, PartitionSlices
from spark_assign.numeric.segmented_arrays import exclusive_sum, row_numbers, starts_new_key


@dataclass(frozen=True)
class TopicOrder:
    """Pairs of member and topic in the order in which members tell them; of one topic partitions are told ascending.

    Members that are not among them tell their topics by name.
    """

    member: IntArray
    topic: IntArray

    def take(self, chosen: BoolArray | IntArray) -> TopicOrder:
        """Some of the pairs."""
        return TopicOrder(self.member[chosen], self.topic[chosen])

    def sort_keys(self, member: IntArray, topic: IntArray) -> IntArray:
        """Of each pair of member and topic a number that ascends as the member tells them."""
        if not len(self.member):
            return topic
        keys = (self.member << PARTITION_BITS) | self.topic
        order = np.argsort(keys)
        wanted = (member << PARTITION_BITS) | topic
        at = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
        places: IntArray = np.where(keys[order][at] == wanted, order[at], topic)
        return places


def keep_owned(
    owned: PartitionSlices, number: IntArray, keeps: IntArray, told: PartitionSlices | TopicOrder, rules: ReleaseRules
) -> tuple[PartitionSlices, PartitionSlices]:
    """What members keep, and what they give up.

    Args:
        owned: runs of all members.
        number: of each member, how many partitions it owns.
        keeps: of each member, how many of them it keeps.
        told: single partitions in the order in which members tell them, or their topics; who tells none here tells
            all that it owns by (topic, partition).
        rules: of which release.
    """
    return (
        keep_in_owned_order(owned, number, keeps, told)
        if rules.keeps_in_owned_order
        else keep_by_partition(owned, number, keeps)
    )


def keep_by_partition(
    owned: PartitionSlices, number: IntArray, keeps: IntArray
) -> tuple[PartitionSlices, PartitionSlices]:
    """Cut each member's runs after the first partitions by (partition, topic).

    Args:
        owned: runs of all members.
        number: of each member, how many partitions it owns.
        keeps: of each member, how many of them it keeps.

    Returns:
        what is kept, and what is given up.
    """
    too_many = (number > keeps)[owned.member]
    if not too_many.any():
        return owned, owned.take(too_many)
    runs = owned.take(too_many)
    bound = _last_kept_partition(runs, keeps)[runs.member]
    below = np.clip((bound - runs.first + runs.step - 1) // runs.step, 0, runs.count)
    # Of the partitions at the bound itself, those of the first topics are kept.
    at_bound = (bound >= runs.first) & (bound <= runs.last) & ((bound - runs.first) % runs.step == 0)
    still = keeps - np.bincount(runs.member, below, len(keeps)).astype(np.int64)
    candidates = np.flatnonzero(at_bound)
    candidates = candidates[np.lexsort((runs.topic[candidates], runs.member[candidates]))]
    members = runs.member[candidates]
    below[candidates] += row_numbers(members) < still[members]
    first_part = PartitionSlices(runs.member, runs.topic, runs.first, runs.step, below)
    rest = PartitionSlices(runs.member, runs.topic, runs.first + runs.step * below, runs.step, runs.count - below)
    kept = owned.take(~too_many).concat(first_part.take(below > 0))
    return kept, rest.take(rest.count > 0)


def _last_kept_partition(runs: PartitionSlices, keeps: IntArray) -> IntArray:
    """Of each member the least partition up to which it owns as many partitions as it keeps; -1 where it keeps none."""
    low = np.full(len(keeps), -1, np.int64)
    high = np.zeros(len(keeps), np.int64)
    np.maximum.at(high, runs.member, runs.last)
    high[keeps == 0] = -1
    while (low < high).any():
        middle = (low + high) >> 1
        reached = np.clip((middle[runs.member] - runs.first) // runs.step + 1, 0, runs.count)
        enough = np.bincount(runs.member, reached, len(keeps)) >= keeps
        high = np.where(enough, middle, high)
        low = np.where(enough | (low >= high), low, middle + 1)
        low = np.minimum(low, high)
    return high


# --- as told ------------------------------------------------------------------------------------------------


def keep_in_owned_order(
    owned: PartitionSlices, number: IntArray, keeps: IntArray, told: PartitionSlices | TopicOrder
) -> tuple[PartitionSlices, PartitionSlices]:
    """Cut each member's partitions after the first in the order in which it tells them; arguments: `keep_owned`."""
    too_many = (number > keeps)[owned.member]
    if not too_many.any():
        return owned, owned.take(too_many)
    listed = _has_partition_order(owned, told)
    first, rest = _keep_by_topic(owned.take(too_many & ~listed), keeps, told)
    kept, given_up = owned.take(~too_many).concat(first), rest
    if isinstance(told, PartitionSlices) and listed.any():
        first, rest = _keep_by_partition_order(owned.take(too_many & listed), keeps, told)
        kept, given_up = kept.concat(first), given_up.concat(rest)
    return kept, given_up


def _has_partition_order(owned: PartitionSlices, told: PartitionSlices | TopicOrder) -> BoolArray:
    """Of which runs it is told in which order single partitions are."""
    return np.isin(owned.member, told.member) if isinstance(told, PartitionSlices) else np.zeros(len(owned), bool)


def _keep_by_topic(
    runs: PartitionSlices, keeps: IntArray, told: PartitionSlices | TopicOrder
) -> tuple[PartitionSlices, PartitionSlices]:
    """After the first by (topic, partition): of each topic it is known how many partitions are kept."""
    pairs, pair = np.unique((runs.member << PARTITION_BITS) | runs.topic, return_inverse=True)
    member = pairs >> PARTITION_BITS
    number = np.bincount(pair, runs.count, len(pairs)).astype(np.int64)
    order = np.arange(len(pairs))
    if isinstance(told, TopicOrder):
        order = np.lexsort((told.sort_keys(member, pairs & ((1 << PARTITION_BITS) - 1)), member))
    before = np.empty_like(number)
    before[order] = exclusive_sum(number[order], np.searchsorted(member, member))
    of_pair = np.clip(keeps[member] - before, 0, number)
    parts = keep_by_partition(PartitionSlices(pair, *runs.columns[1:]), number, of_pair)
    kept, rest = (PartitionSlices(member[part.member], *part.columns[1:]) for part in parts)
    return kept, rest


def _keep_by_partition_order(
    runs: PartitionSlices, keeps: IntArray, told: PartitionSlices
) -> tuple[PartitionSlices, PartitionSlices]:
    rows = sort_by_owned_order(runs.expand(), told)
    first: BoolArray = row_numbers(rows.member) < keeps[rows.member]
    return rows.take(first), rows.take(~first)


def sort_by_owned_order(rows: PartitionSlices, told: PartitionSlices | TopicOrder) -> PartitionSlices:
    """Single partitions by member, and of each member in the order in which it tells them."""
    if isinstance(told, TopicOrder):
        return rows.take(np.lexsort((rows.first, told.sort_keys(rows.member, rows.topic), rows.member)))
    both = told.concat(rows)
    _, key = np.unique(both.partition_keys, return_inverse=True)
    code = both.member * (len(both) + 1) + key
    sorter = np.argsort(code[: len(told)], kind="stable")
    at = np.searchsorted(code[: len(told)][sorter], code[len(told) :])
    place = np.append(sorter, len(told))[at]
    place[np.append(code[: len(told)][sorter], -1)[at] != code[len(told) :]] = len(told)
    return rows.take(np.lexsort((rows.partition_keys, place, rows.member)))


def first_in_owned_order(kept: PartitionSlices, told: PartitionSlices | TopicOrder) -> PartitionSlices:
    """Of each member the first of the partitions that it keeps, in the order in which it tells them."""
    listed = _has_partition_order(kept, told)
    begins = kept.take(~listed)
    one = np.ones(len(begins), np.int64)
    rows = sort_by_owned_order(PartitionSlices(*begins.columns[:3], one, one).concat(kept.take(listed).expand()), told)
    return rows.take(starts_new_key(rows.member))


def hash_owned_order(claims: PartitionSlices, gone: PartitionSlices, topic_hash: IntArray, members: int) -> TopicOrder:
    """What members tell that own several topics, these as a `HashMap` has them (`groupPartitionsByTopic`).

    It is filled by `computeIfAbsent`, which puts a key before those that its bucket has, and lets the table grow only
    when it is called again.

    Args:
        claims: what members own.
        gone: the same of topics that are not among these; their hash codes do not matter, only that they are there.
        topic_hash: of each topic its `String.hashCode`.
        members: how many.
    """
    runs = claims.concat(PartitionSlices(gone.member, gone.topic + len(topic_hash), *gone.columns[2:]))
    pairs, pair = np.unique((runs.member << PARTITION_BITS) | runs.topic, return_inverse=True)
    member, topic = pairs >> PARTITION_BITS, pairs & ((1 << PARTITION_BITS) - 1)
    number = np.bincount(pair, runs.count, len(pairs)).astype(np.int64)
    several = np.bincount(member, minlength=members)[member]
    last = np.append(starts_new_key(member)[1:], True)[: len(member)]
    filled = np.zeros(members, np.int64)
    filled[member[last]] = several[last] - (number[last] == 1)
    capacity = np.full(members, 16, np.int64)
    while (tight := filled * 4 > capacity * 3).any():
        capacity[tight] *= 2
    hashes = spread_hashes(np.append(topic_hash, 0)[np.minimum(topic, len(topic_hash))])
    order = np.lexsort((-row_numbers(member), hashes & (capacity[member] - 1), member))
    order = order[(several[order] > 1) & (topic[order] < len(topic_hash))]
    return TopicOrder(member[order], topic[order])
