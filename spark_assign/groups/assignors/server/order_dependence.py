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
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, PartitionSlices
from spark_assign.numeric.segmented_arrays import exclusive_sum, row_numbers, starts_new_key


@dataclass(frozen=True)
class UnknownOrder:
    """Of each thing a number; neighbours that share one come in an unknown order.

    Attributes:
        topic: of topics, in their order.
        lost: of what may be lost the tie of its topic among its member's, and its own among those of its topic.
    """

    topic: IntArray
    lost: tuple[IntArray, IntArray]


def hanging(
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
    some = (dealt > 0) & _tied(members, topic_group, free, losing, ties, number)
    if not some.any():
        return EMPTY_SLICES
    groups_free = np.bincount(topic_group, free, number).astype(np.int64)
    begin = np.cumsum(dealt) - dealt
    slots = members.slots(begin)
    # What nobody had.
    rows = unowned.take(some[topic_group[unowned.topic]]).expand()
    topic, partition = rows.topic, rows.first
    low, high = _places(free, ties.topic, np.searchsorted(topic_group, topic_group))
    at = begin[topic_group[topic]] + row_numbers(topic)
    open_free = ~slots.one_takes(at + low[topic], at + high[topic])
    # What members give up.
    lost = losing.take(some[group[losing.member]])
    low, high = _places_in_walks(lost, *(tie[some[group[losing.member]]] for tie in ties.lost))
    kept = high < members.least[lost.member]
    taken = low >= members.most[lost.member]
    at = (begin + groups_free)[group[lost.member]]
    first, last = members.places_of_taken(lost.member, low, high)
    open_lost = ~kept & ~(taken & slots.one_takes(at + first, at + last))
    topic = np.append(topic[open_free], lost.topic[open_lost])
    partition = np.append(partition[open_free], lost.first[open_lost])
    one = np.ones(len(topic), np.int64)
    return PartitionSlices(np.zeros(len(topic), np.int64), topic, partition, one, one)


def _tied(
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
    of_topic, of_partition = ties.lost
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

    def places_of_taken(self, member: IntArray, low: IntArray, high: IntArray) -> tuple[IntArray, IntArray]:
        """First and last place, after what nobody had, of what members give up from these places of their walks."""
        before, all_of_them = self._of_ties(self._gives)
        begin, length = before[member], all_of_them[member]
        gives_least = np.maximum(self.had - self.most, 0)[member]
        first = begin + np.maximum(low - self.most[member], 0)
        last = begin + length - gives_least + high - self.least[member]
        return first, np.minimum(last, begin + length - 1)

    def slots(self, begin: IntArray) -> _FreeListSlots:
        """Which stretches of the free list are surely whose; `begin` is where that of each group begins."""
        before, length = self._of_ties(self._takes)
        takes_least = np.maximum(self.least - self.had, 0)
        first = begin[self.group] + before
        sure = length < 2 * takes_least
        return _FreeListSlots((first + length - takes_least)[sure], (first + takes_least)[sure])

    def _of_ties(self, each: IntArray) -> tuple[IntArray, IntArray]:
        """Of each member what the members before its tie have in its group, and what those of its tie have."""
        of_tie = np.bincount(self.tie, each).astype(np.int64)
        first_member = np.searchsorted(self.tie, self.tie)
        first_of_group = np.searchsorted(self.group, self.group)
        return exclusive_sum(each, first_of_group)[first_member], of_tie[self.tie]


class _FreeListSlots:
    """Stretches of the free list that are surely one member's each, ascending."""

    def __init__(self, begin: IntArray, end: IntArray) -> None:
        self._begin, self._end = begin, end

    def one_takes(self, first: IntArray, last: IntArray) -> BoolArray:
        """Whether all places from first to last are in one stretch."""
        at = np.searchsorted(self._begin, first, "right") - 1
        end = np.append(self._end, -1)[at]
        found: BoolArray = last < end
        return found


def _places(length: IntArray, tie: IntArray, begin: IntArray) -> tuple[IntArray, IntArray]:
    """Of stretches of these lengths the first and the last place at which each may begin.

    Args:
        length: of each.
        tie: of each, ascending.
        begin: of each the number of the first one that counts.
    """
    before = exclusive_sum(length, begin)
    first = before[np.searchsorted(tie, tie)]
    return first, first + np.bincount(tie, length).astype(np.int64)[tie] - length


def _places_in_walks(rows: PartitionSlices, topic_tie: IntArray, tie: IntArray) -> tuple[IntArray, IntArray]:
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
    low, high = _places(length, same, np.searchsorted(member, member))
    stretch = np.cumsum(new_stretch) - 1
    first = np.flatnonzero(new_stretch)[stretch] - np.flatnonzero(new_topic)[of_topic]
    return low[of_topic] + first, high[of_topic] + first + np.bincount(stretch)[stretch] - 1
