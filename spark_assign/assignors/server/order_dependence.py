"""Finds the partitions whose owner under uniform depends on an order that isn't known.

Homogeneous groups. Three orders can have ties, that is, consecutive items in an unknown order: that of the members,
that of the topics in the list of unassigned partitions, and that of a member's partitions. However a tie is resolved,
its items occupy the same positions together. So each item has a lowest and a highest possible position, and
    - a partition is kept if its highest position among its member's partitions is below the member's minimum quota;
    - a partition moves if its lowest position isn't below the member's maximum quota, or if it had no owner;
    - a partition goes to a member if all its possible positions in the list of unassigned partitions are that member's.
All other partitions are order-dependent. This never misses one, but can report too many, because positions are examined
one by one although they depend on each other.

Ties of members don't change the number of extras that their members get, or what they give and take together: extras go
first to members of the tie that exceed the quota, and these never take. In Kafka 4.0.0, extras go to the first members,
whatever they own: if a tie has members with and without an extra, nothing that its group assigns or moves is certain.

Heterogeneous groups. Each partition that is assigned or moved changes loads, on which all later steps depend. So the
assignment is computed for all possible orders, and partitions with different owners are order-dependent. If there are
too many orders, this is assumed for all partitions of topics with several subscribers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, permutations, product
from math import factorial, prod

import numpy as np

from spark_assign.assignors.server.uniform import assign_group
from spark_assign.numeric.arrays import (
    EMPTY_SLICES,
    BoolArray,
    IntArray,
    PartitionSlices,
    exclusive_sum,
    number_lists,
    ranges_by_length,
    row_numbers,
    starts_new_key,
)


def order_dependent_partitions(
    quotas: MemberQuotas,
    topic_group: IntArray,
    unowned: PartitionSlices,
    revocable: PartitionSlices,
    topic_tie: IntArray,
    revocable_ties: tuple[IntArray, IntArray],
) -> PartitionSlices:
    """Returns the partitions that might have another owner in another order, one by one; `member` is undefined.

    Args:
        quotas: previous and new numbers of partitions of the members.
        topic_group: group of each topic, ascending.
        unowned: partitions without a previous owner, sorted by topic and partition.
        revocable: previous partitions of the members that might lose some, one slice per partition, in the same order.
        topic_tie: tie of each topic: consecutive topics with the same number are in an unknown order.
        revocable_ties: for each revocable partition, the tie of its topic within its member, and its own within its
            topic.
    """
    group, num_owned, quota = quotas.group, quotas.num_owned, quotas.quota
    num_groups = len(np.bincount(group))
    num_unowned = np.bincount(unowned.topic, unowned.count, len(topic_group)).astype(np.int64)
    num_assigned = np.bincount(group, np.maximum(quota - num_owned, 0), num_groups).astype(np.int64)
    unowned_topics = np.flatnonzero(num_unowned > 0)
    is_tied = np.zeros(num_groups, bool)
    is_tied[group[np.bincount(quotas.tie)[quotas.tie] > 1]] = True
    is_tied[topic_group[unowned_topics[np.bincount(topic_tie[unowned_topics])[topic_tie[unowned_topics]] > 1]]] = True
    is_tied[group[revocable.member[_has_tied_predecessor(revocable, *revocable_ties)]]] = True
    is_open = np.bincount(group, quotas.is_open) > 0
    is_tied &= (num_assigned > 0) | is_open
    if not is_tied.any():
        return EMPTY_SLICES
    group_unowned = np.bincount(topic_group, num_unowned, num_groups).astype(np.int64)
    start = np.cumsum(num_assigned) - num_assigned
    slots = quotas.fixed_slots(start)
    # Partitions without a previous owner.
    rows = unowned.take(is_tied[topic_group[unowned.topic]]).expand()
    topic, partition = rows.topic, rows.first
    low, high = _start_positions(num_unowned, topic_tie, np.searchsorted(topic_group, topic_group))
    position = start[topic_group[topic]] + row_numbers(topic)
    is_open_unowned = ~_has_single_owner(slots, position + low[topic], position + high[topic])
    is_open_unowned |= is_open[topic_group[topic]]
    # Partitions that members give up.
    is_tied_row = is_tied[group[revocable.member]]
    revocable_rows = revocable.take(is_tied_row)
    low, high = _positions_in_members(revocable_rows, *(tie[is_tied_row] for tie in revocable_ties))
    is_kept = high < quotas.min_quota[revocable_rows.member]
    is_revoked = low >= quotas.max_quota[revocable_rows.member]
    position = (start + group_unowned)[group[revocable_rows.member]]
    first, last = quotas.revoked_positions(revocable_rows.member, low, high)
    is_open_revocable = ~is_kept & ~(is_revoked & _has_single_owner(slots, position + first, position + last))
    is_open_revocable |= is_open[group[revocable_rows.member]]
    topic = np.append(topic[is_open_unowned], revocable_rows.topic[is_open_revocable])
    partition = np.append(partition[is_open_unowned], revocable_rows.first[is_open_revocable])
    ones = np.ones(len(topic), np.int64)
    return PartitionSlices(np.zeros(len(topic), np.int64), topic, partition, ones, ones)


def _has_tied_predecessor(revocable: PartitionSlices, topic_tie: IntArray, partition_tie: IntArray) -> BoolArray:
    """Returns a mask of the revocable partitions that are tied with the partition before, of the same member."""
    new_topic = starts_new_key(revocable.topic)
    is_tied: BoolArray = np.where(new_topic, ~starts_new_key(topic_tie), ~starts_new_key(partition_tie))
    return ~starts_new_key(revocable.member) & is_tied


class MemberQuotas:
    """Numbers of partitions that members had and get.

    Attributes:
        group, num_owned, quota, tie: of each member, as passed.
        min_quota, max_quota: minimum and maximum quota of each member, over all orders.
        is_open: whether each member is in a tie of which any member can have an extra, whatever it owns (Kafka 4.0.0).
    """

    def __init__(
        self, group: IntArray, num_owned: IntArray, quota: IntArray, tie: IntArray, *, extras_to_first: bool = False
    ) -> None:
        """Computes the minimum and maximum quotas.

        Args:
            group: group of each member, ascending.
            num_owned: number of partitions that each member had.
            quota: number of partitions that it gets in this order.
            tie: ascending; consecutive members with the same number are in an unknown order.
            extras_to_first: whether extras go to the first members (`homogeneous.compute_quotas`).
        """
        num_groups = len(np.bincount(group))
        size = np.bincount(group, minlength=num_groups)
        base_quota = (np.bincount(group, quota, num_groups).astype(np.int64) // np.maximum(size, 1))[group]
        is_above = num_owned > base_quota
        num_extras = np.bincount(tie, quota - base_quota).astype(np.int64)[tie]
        num_above = np.bincount(tie, is_above).astype(np.int64)[tie]
        num_not_above = np.bincount(tie)[tie] - num_above
        is_open = np.where(
            is_above,
            (num_extras > 0) & (num_extras < num_above),
            (num_extras > num_above) & (num_extras - num_above < num_not_above),
        )
        self.is_open = extras_to_first & (num_extras > 0) & (num_extras < np.bincount(tie)[tie])
        is_open = np.where(extras_to_first, self.is_open, is_open)
        self.min_quota, self.max_quota = np.where(is_open, base_quota, quota), np.where(is_open, base_quota + 1, quota)
        self.group, self.num_owned, self.quota, self.tie = group, num_owned, quota, tie
        self._num_revoked, self._num_taken = np.maximum(num_owned - quota, 0), np.maximum(quota - num_owned, 0)

    def revoked_positions(self, member: IntArray, low: IntArray, high: IntArray) -> tuple[IntArray, IntArray]:
        """Returns the lowest and highest positions of revoked partitions, given their positions within their member.

        Position 0 is the first partition after those without a previous owner.
        """
        num_before, num_in_tie = self._of_ties(self._num_revoked)
        start, num_revoked = num_before[member], num_in_tie[member]
        min_revoked = np.maximum(self.num_owned - self.max_quota, 0)[member]
        first = start + np.maximum(low - self.max_quota[member], 0)
        last = start + num_revoked - min_revoked + high - self.min_quota[member]
        return first, np.minimum(last, start + num_revoked - 1)

    def fixed_slots(self, start: IntArray) -> tuple[IntArray, IntArray]:
        """Returns the start and end of the ranges of positions in the list of unassigned partitions that one member
        gets in any order, ascending; `start` is the first position of each group."""
        num_before, length = self._of_ties(self._num_taken)
        min_taken = np.maximum(self.min_quota - self.num_owned, 0)
        first = start[self.group] + num_before
        is_fixed = length < 2 * min_taken
        return (first + length - min_taken)[is_fixed], (first + min_taken)[is_fixed]

    def _of_ties(self, values: IntArray) -> tuple[IntArray, IntArray]:
        """Returns, for each member, the sum of `values` over the members before its tie in its group, and over its
        tie."""
        tie_sum = np.bincount(self.tie, values).astype(np.int64)
        first_member = np.searchsorted(self.tie, self.tie)
        first_of_group = np.searchsorted(self.group, self.group)
        return exclusive_sum(values, first_of_group)[first_member], tie_sum[self.tie]


def _has_single_owner(slots: tuple[IntArray, IntArray], first: IntArray, last: IntArray) -> BoolArray:
    """Checks whether all positions from `first` to `last` are in one of the `MemberQuotas.fixed_slots`."""
    start, end = slots
    return last < np.append(end, -1)[np.searchsorted(start, first, "right") - 1]


def _start_positions(length: IntArray, tie: IntArray, first: IntArray) -> tuple[IntArray, IntArray]:
    """Returns the lowest and highest possible start of each item.

    Args:
        length: length of each item.
        tie: tie of each item, ascending.
        first: index of the item that is at position 0, for each item.
    """
    preceding = exclusive_sum(length, first)
    lowest = preceding[np.searchsorted(tie, tie)]
    return lowest, lowest + np.bincount(tie, length).astype(np.int64)[tie] - length


def _positions_in_members(rows: PartitionSlices, topic_tie: IntArray, tie: IntArray) -> tuple[IntArray, IntArray]:
    """Returns the lowest and highest possible position of each partition within its member's partitions."""
    if not len(rows):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    new_member = starts_new_key(rows.member)
    new_topic = new_member | starts_new_key(rows.topic)
    new_tie = new_topic | starts_new_key(tie)
    topic_index = np.cumsum(new_topic) - 1
    length = np.bincount(topic_index)
    member = (np.cumsum(new_member) - 1)[new_topic]
    topic_tie_index = np.cumsum(starts_new_key(member, topic_tie[new_topic])) - 1
    low, high = _start_positions(length, topic_tie_index, np.searchsorted(member, member))
    tie_index = np.cumsum(new_tie) - 1
    first = np.flatnonzero(new_tie)[tie_index] - np.flatnonzero(new_topic)[topic_index]
    return low[topic_index] + first, high[topic_index] + first + np.bincount(tie_index)[tie_index] - 1


MAX_ORDERS = 24
"""Maximum number of orders that are tried."""


@dataclass(frozen=True)
class HeterogeneousTies:
    """The arguments of `assign_group`."""

    members: int
    subscribers: Sequence[Sequence[int]]
    partitions: Sequence[int]
    ranks: Sequence[int]
    previous: PartitionSlices

    def order_dependent_partitions(self, member_tie: Sequence[int], *, ranks_known: bool) -> tuple[IntArray, IntArray]:
        """Returns the topics and numbers of the partitions that might have another owner in another order.

        Args:
            member_tie: ascending; consecutive members with the same number are in an unknown order.
            ranks_known: whether the order of the topic ids is known.
        """
        member_spans = _tied_spans(list(range(self.members)), member_tie)
        topic_spans = [] if ranks_known else self._tied_topics()
        num_orders = prod(factorial(min(len(span), 9)) for span in (*member_spans, *topic_spans))
        if num_orders == 1 or self._is_balanced():
            return np.empty(0, np.int64), np.empty(0, np.int64)
        counts = np.array(self.partitions, np.int64)
        topic = np.repeat(np.arange(len(counts)), counts)
        is_open = np.array([len(topic_subscribers) > 1 for topic_subscribers in self.subscribers], bool)[topic]
        if num_orders <= MAX_ORDERS:
            owners = np.array(list(self._owners(member_spans, topic_spans)))
            is_open = (owners != owners[0]).any(axis=0)
        return topic[is_open], ranges_by_length(counts)[is_open]

    def _tied_topics(self) -> list[list[int]]:
        """Returns the topics whose ids break ties."""

        def sort_key(topic: int) -> tuple[float, int]:
            return -self.partitions[topic] / len(self.subscribers[topic]), len(self.subscribers[topic])

        order = sorted(range(len(self.partitions)), key=sort_key)
        return _tied_spans(order, [sort_key(topic) for topic in order])

    def _is_balanced(self) -> bool:
        """Checks whether there is nothing to assign or to balance, in any order."""
        loads = np.bincount(self.previous.member, self.previous.count, self.members)
        if loads.sum() < sum(self.partitions):
            return False
        return all(np.ptp(loads[list(members)]) <= 1 for members in number_lists(self.subscribers)[1])

    def _owners(self, member_spans: list[list[int]], topic_spans: list[list[int]]) -> Iterator[IntArray]:
        """Yields the owner of each partition, topic by topic, for each order."""
        counts = np.array(self.partitions, np.int64)
        numbers, sets = number_lists(self.subscribers)
        for members in _orders(list(range(self.members)), member_spans):
            position = np.argsort(members)
            lists = [sorted(position[list(each)].tolist()) for each in sets]
            subscribers = [lists[number] for number in numbers]
            previous = PartitionSlices(position[self.previous.member], *self.previous.columns[1:])
            for ranks in _orders(list(self.ranks), topic_spans):
                slices = assign_group(self.members, subscribers, self.partitions, ranks, previous).slices
                yield np.array(members)[slices.owners(np.cumsum(counts) - counts, int(counts.sum()))]


def _tied_spans(items: list[int], ties: Sequence[object]) -> list[list[int]]:
    """Returns the spans of two or more consecutive items with the same tie."""
    groups = groupby(zip(items, ties, strict=True), key=lambda pair: pair[1])
    spans = [[item for item, _ in pairs] for _, pairs in groups]
    return [span for span in spans if len(span) > 1]


def _orders(values: list[int], ties: list[list[int]]) -> Iterator[list[int]]:
    """Yields the values with the items of each tie in every order."""
    for permuted in product(*(permutations(positions) for positions in ties)):
        order = values.copy()
        for positions, sources in zip(ties, permuted, strict=True):
            for position, source in zip(positions, sources, strict=True):
                order[position] = values[source]
        yield order
