"""What of uniform's answer is sure where an order is not known (all members of a group subscribe to the same topics).

Three orders may have ties, stretches whose inner order nobody can tell: that of the members, that of the topics of the
free list, and that in which a member's partitions are walked. Whatever comes out of a tie, the stretch begins and ends
at the same place. So each thing has a first and a last place that it may have, and
    - a partition is kept for sure if its last place in its member's walk is below what that member surely keeps;
    - it changes hands for sure if its first place is not below what the member may keep at most (or nobody had it);
    - it goes to a member for sure if all the places that it may have in the free list are surely that member's.
Everything else hangs on an order. That says too much now and then (places are looked at one by one, though they depend
on each other), and never too little.

Nor do ties of members change how many extras a stretch of them gets, or what it gives and takes all in all: extras go
to those of the stretch that have more than the quota, before any other one, and who has more never takes.


What of uniform's answer is sure where an order is not known and members subscribe to different topics.

Each partition that is dealt or moved changes loads, on which everything after it hangs. So the answer is asked for in
all orders that there may be, and what comes out alike is sure. Where there are more than a few orders, nothing is but
what has one subscriber only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, permutations, product
from math import factorial, prod

import numpy as np

from spark_assign.groups.assignors.server.heterogeneous import assign_heterogeneous
from spark_assign.groups.assignors.server.target_assignments import TargetAssignments
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, PartitionSlices
from spark_assign.numeric.segmented_arrays import exclusive_sum, row_numbers, starts_new_key


@dataclass(frozen=True)
class UnknownOrder:
    """Of each thing a number; neighbours that share one come in an unknown order.

    Attributes:
        topic: of topics, in their order.
        revocable: of what may be lost the tie of its topic among its member's, and its own among those of its topic.
    """

    topic: IntArray
    revocable: tuple[IntArray, IntArray]


def order_dependent_partitions(
    members: MemberQuotas, topic_group: IntArray, unowned: PartitionSlices, losing: PartitionSlices, ties: UnknownOrder
) -> PartitionSlices:
    """The partitions that may have another owner in another order, one by one; `member` says nothing.

    Args:
        members: what they had, and shall have.
        topic_group: of each topic, ascending.
        unowned: what nobody had, topics in their order, partitions ascending.
        losing: what those members had that may lose something, a run for each partition, in the same order.
        ties: of the other orders.
    """
    group, had, target = members.group, members.had, members.target
    number = len(np.bincount(group))
    free = np.bincount(unowned.topic, unowned.count, len(topic_group)).astype(np.int64)
    dealt = np.bincount(group, np.maximum(target - had, 0), number).astype(np.int64)
    some = (dealt > 0) & _find_tied_groups(members, topic_group, free, losing, ties, number)
    if not some.any():
        return EMPTY_SLICES
    groups_free = np.bincount(topic_group, free, number).astype(np.int64)
    begin = np.cumsum(dealt) - dealt
    slots = members.fixed_slots(begin)
    # What nobody had.
    rows = unowned.take(some[topic_group[unowned.topic]]).expand()
    topic, partition = rows.topic, rows.first
    low, high = _start_positions(free, ties.topic, np.searchsorted(topic_group, topic_group))
    at = begin[topic_group[topic]] + row_numbers(topic)
    open_free = ~slots.has_single_owner(at + low[topic], at + high[topic])
    # What members give up.
    lost = losing.take(some[group[losing.member]])
    low, high = _positions_in_members(lost, *(tie[some[group[losing.member]]] for tie in ties.revocable))
    kept = high < members.least[lost.member]
    taken = low >= members.most[lost.member]
    at = (begin + groups_free)[group[lost.member]]
    first, last = members.revoked_positions(lost.member, low, high)
    open_lost = ~kept & ~(taken & slots.has_single_owner(at + first, at + last))
    topic = np.append(topic[open_free], lost.topic[open_lost])
    partition = np.append(partition[open_free], lost.first[open_lost])
    one = np.ones(len(topic), np.int64)
    return PartitionSlices(np.zeros(len(topic), np.int64), topic, partition, one, one)


def _find_tied_groups(
    members: MemberQuotas,
    topic_group: IntArray,
    free: IntArray,
    losing: PartitionSlices,
    ties: UnknownOrder,
    number: int,
) -> BoolArray:
    """Groups in which a tie may matter."""
    found, group = np.zeros(number, bool), members.group
    found[group[np.bincount(members.tie)[members.tie] > 1]] = True
    shared = np.flatnonzero(free > 0)
    found[topic_group[shared[np.bincount(ties.topic[shared])[ties.topic[shared]] > 1]]] = True
    of_topic, of_partition = ties.revocable
    new_member, new_topic = starts_new_key(losing.member), starts_new_key(losing.topic)
    loose = ~new_member & np.where(new_topic, ~starts_new_key(of_topic), ~starts_new_key(of_partition))
    found[group[losing.member[loose]]] = True
    return found


class MemberQuotas:
    """What members had and shall have, give and take.

    Attributes:
        group, had, target, tie: of each, as given.
        least, most: what each shall have, in whatever order.
    """

    def __init__(self, group: IntArray, had: IntArray, target: IntArray, tie: IntArray) -> None:
        """Of members in their order.

        Args:
            group: of each, ascending.
            had: of each, how much.
            target: what it shall have in this order.
            tie: of each a number, ascending; neighbours that share one come in an unknown order.
        """
        number = len(np.bincount(group))
        size = np.bincount(group, minlength=number)
        quota = (np.bincount(group, target, number).astype(np.int64) // np.maximum(size, 1))[group]
        more = had > quota
        extras = np.bincount(tie, target - quota).astype(np.int64)[tie]
        with_more = np.bincount(tie, more).astype(np.int64)[tie]
        others = np.bincount(tie)[tie] - with_more
        open_ = np.where(
            more, (extras > 0) & (extras < with_more), (extras > with_more) & (extras - with_more < others)
        )
        self.least, self.most = np.where(open_, quota, target), np.where(open_, quota + 1, target)
        self.group, self.had, self.target, self.tie = group, had, target, tie
        self._gives, self._takes = np.maximum(had - target, 0), np.maximum(target - had, 0)

    def revoked_positions(self, member: IntArray, low: IntArray, high: IntArray) -> tuple[IntArray, IntArray]:
        """First and last place, after what nobody had, of what members give up from these places of their walks."""
        before, all_of_them = self._of_ties(self._gives)
        begin, length = before[member], all_of_them[member]
        gives_least = np.maximum(self.had - self.most, 0)[member]
        first = begin + np.maximum(low - self.most[member], 0)
        last = begin + length - gives_least + high - self.least[member]
        return first, np.minimum(last, begin + length - 1)

    def fixed_slots(self, begin: IntArray) -> _FixedSlots:
        """Which stretches of the free list are surely whose; `begin` is where that of each group begins."""
        before, length = self._of_ties(self._takes)
        takes_least = np.maximum(self.least - self.had, 0)
        first = begin[self.group] + before
        sure = length < 2 * takes_least
        return _FixedSlots((first + length - takes_least)[sure], (first + takes_least)[sure])

    def _of_ties(self, each: IntArray) -> tuple[IntArray, IntArray]:
        """Of each member what the members before its tie have in its group, and what those of its tie have."""
        of_tie = np.bincount(self.tie, each).astype(np.int64)
        first_member = np.searchsorted(self.tie, self.tie)
        first_of_group = np.searchsorted(self.group, self.group)
        return exclusive_sum(each, first_of_group)[first_member], of_tie[self.tie]


class _FixedSlots:
    """Stretches of the free list that are surely one member's each, ascending."""

    def __init__(self, begin: IntArray, end: IntArray) -> None:
        self._begin, self._end = begin, end

    def has_single_owner(self, first: IntArray, last: IntArray) -> BoolArray:
        """Whether all places from first to last are in one stretch."""
        at = np.searchsorted(self._begin, first, "right") - 1
        end = np.append(self._end, -1)[at]
        found: BoolArray = last < end
        return found


def _start_positions(length: IntArray, tie: IntArray, begin: IntArray) -> tuple[IntArray, IntArray]:
    """Of stretches of these lengths the first and the last place at which each may begin.

    Args:
        length: of each.
        tie: of each, ascending.
        begin: of each the number of the first one that counts.
    """
    before = exclusive_sum(length, begin)
    first = before[np.searchsorted(tie, tie)]
    return first, first + np.bincount(tie, length).astype(np.int64)[tie] - length


def _positions_in_members(rows: PartitionSlices, topic_tie: IntArray, tie: IntArray) -> tuple[IntArray, IntArray]:
    """Of each partition of a member the first and the last place that it may have in the walk over what that had."""
    if not len(rows):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    new_member = starts_new_key(rows.member)
    new_topic = new_member | starts_new_key(rows.topic)
    new_stretch = new_topic | starts_new_key(tie)
    of_topic = np.cumsum(new_topic) - 1
    length = np.bincount(of_topic)
    member = (np.cumsum(new_member) - 1)[new_topic]
    same = np.cumsum(starts_new_key(member) | starts_new_key(topic_tie[new_topic])) - 1
    low, high = _start_positions(length, same, np.searchsorted(member, member))
    stretch = np.cumsum(new_stretch) - 1
    first = np.flatnonzero(new_stretch)[stretch] - np.flatnonzero(new_topic)[of_topic]
    return low[of_topic] + first, high[of_topic] + first + np.bincount(stretch)[stretch] - 1


MAX_ORDERS = 24
"""So many orders are tried."""


@dataclass(frozen=True)
class HeterogeneousTies:
    """What `assign_heterogeneous` takes."""

    members: int
    subscribers: Sequence[Sequence[int]]
    partitions: Sequence[int]
    ranks: Sequence[int]
    previous: PartitionSlices

    def assign(self) -> TargetAssignments:
        """Its answer, in these orders."""
        return assign_heterogeneous(self.members, self.subscribers, self.partitions, self.ranks, self.previous)

    def order_dependent_partitions(self, member_tie: Sequence[int], *, ranks_known: bool) -> tuple[IntArray, IntArray]:
        """Topic and number of the partitions that may have another owner in another order.

        Args:
            member_tie: of each member a number, ascending; neighbours that share one come in an unknown order.
            ranks_known: whether the order of the topics' ids is known.
        """
        of_members = _tied_spans(list(range(self.members)), member_tie)
        of_topics = [] if ranks_known else self._like_topics()
        number = prod(factorial(len(each)) for each in (*of_members, *of_topics))
        if number == 1 or self._at_rest():
            return np.empty(0, np.int64), np.empty(0, np.int64)
        loose = [np.full(count, len(who) > 1) for count, who in zip(self.partitions, self.subscribers, strict=True)]
        if number <= MAX_ORDERS:
            answers = list(self._answers(of_members, of_topics))
            loose = [np.any([each[at] != answers[0][at] for each in answers], axis=0) for at in range(len(loose))]
        at = [np.flatnonzero(each) for each in loose]
        nothing = np.empty(0, np.int64)
        topic = np.repeat(np.arange(len(at)), [len(each) for each in at])
        return topic, np.concatenate([nothing, *at])

    def _like_topics(self) -> list[list[int]]:
        """Topics between which their ids decide."""

        def first(topic: int) -> tuple[float, int]:
            return -self.partitions[topic] / len(self.subscribers[topic]), len(self.subscribers[topic])

        order = sorted(range(len(self.partitions)), key=first)
        return _tied_spans(order, [first(topic) for topic in order])

    def _at_rest(self) -> bool:
        """Whether nothing is to be dealt and no topic to be balanced, in whatever order."""
        loads = np.bincount(self.previous.member, self.previous.count, self.members)
        if loads.sum() < sum(self.partitions):
            return False
        return all(max(loads[each] for each in who) - min(loads[each] for each in who) <= 1 for who in self.subscribers)

    def _answers(self, of_members: list[list[int]], of_topics: list[list[int]]) -> Iterator[list[IntArray]]:
        """Of each order the owners of each topic's partitions."""
        for members in _orders(list(range(self.members)), of_members):
            place = np.argsort(members)
            asking = [sorted(int(place[each]) for each in who) for who in self.subscribers]
            previous = PartitionSlices(place[self.previous.member], *self.previous.columns[1:])
            for ranks in _orders(list(self.ranks), of_topics):
                rows = assign_heterogeneous(self.members, asking, self.partitions, ranks, previous).slices.expand()
                owners = [np.full(count, -1, np.int64) for count in self.partitions]
                for topic, owner in enumerate(owners):
                    mine = rows.take(rows.topic == topic)
                    owner[mine.first] = np.array(members, np.int64)[mine.member]
                yield owners


def _tied_spans(things: list[int], ties: Sequence[object]) -> list[list[int]]:
    """Neighbours that share a tie, where there are two or more."""
    told = groupby(zip(things, ties, strict=True), key=lambda pair: pair[1])
    found = [[thing for thing, _ in pairs] for _, pairs in told]
    return [each for each in found if len(each) > 1]


def _orders(values: list[int], ties: list[list[int]]) -> Iterator[list[int]]:
    """The values with those at the places of each stretch in every order."""
    for chosen in product(*(permutations(each) for each in ties)):
        order = values.copy()
        for places, taken in zip(ties, chosen, strict=True):
            for place, other in zip(places, taken, strict=True):
                order[place] = values[other]
        yield order
