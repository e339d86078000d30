"""What of uniform's answer is sure where an order is not known and members subscribe to different topics.

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
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.partition_slices import PartitionSlices

FEW = 24
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

    def hanging(self, member_tie: Sequence[int], *, ranks_known: bool) -> tuple[IntArray, IntArray]:
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
        if number <= FEW:
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
                rows = assign_heterogeneous(self.members, asking, self.partitions, ranks, previous).runs.expand()
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
