"""Many asks side by side, as columns: members, topics with metadata, and who subscribes to what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spark_assign.groups.assignors.sticky.plan_batch import ALL_MEMBERS
from spark_assign.numeric.array_types import IntArray
from spark_assign.simulation.kernel.assignment_request import AssignmentRequest, AssignmentResponse, JoinedMember


@dataclass(frozen=True, slots=True)
class RequestTable:
    """Asks 0, 1, …, each with at least one member.

    Attributes:
        asks: the asks.
        members: of all asks, ask by ask, as they are listed; the place in this list is the member's number.
        begin: of each ask its first member; the last entry is the number of members.
        topic_ask: of each topic with metadata its ask; topics are sorted by ask and name.
        topic: of each its index in the ask's `Topics`.
        partitions: of each its partition count.
        topic_class: of each the class of its subscribers: `ALL_MEMBERS`, or a number in `classes`.
        classes: members of each class of subscribers that are not all of their ask, ascending.
        without_metadata: ask and class of subscribed topics without metadata, each pair once.
    """

    asks: Sequence[AssignmentRequest]
    members: list[JoinedMember]
    begin: list[int]
    topic_ask: IntArray
    topic: IntArray
    partitions: IntArray
    topic_class: IntArray
    classes: list[list[int]]
    without_metadata: list[tuple[int, int]]

    @property
    def sizes(self) -> IntArray:
        """The number of members of each ask."""
        begin = np.array(self.begin, np.int64)
        return begin[1:] - begin[:-1]


def read_asks(asks: Sequence[AssignmentRequest]) -> RequestTable:
    """The columns of asks that have members."""
    members: list[JoinedMember] = []
    begin = [0]
    topics: list[tuple[int, int, int, int]] = []
    classes: list[list[int]] = []
    without: dict[tuple[int, int], None] = {}
    for number, ask in enumerate(asks):
        class_of = _classes(ask.members, begin[-1], classes)
        for topic in sorted(class_of):
            count = ask.partitions.get(topic, 0)
            if count > 0:
                topics.append((number, topic, count, class_of[topic]))
            else:
                without[number, class_of[topic]] = None
        members += ask.members
        begin.append(len(members))
    ask_of, index, counts, class_of_each = np.array(topics, np.int64).reshape(-1, 4).T.copy()
    return RequestTable(asks, members, begin, ask_of, index, counts, class_of_each, classes, list(without))


def _classes(members: Sequence[JoinedMember], begin: int, classes: list[list[int]]) -> dict[int, int]:
    """The class of each topic that these members subscribe to; new ones are added to `classes`."""
    subscriptions = {topics: number for number, topics in enumerate(dict.fromkeys(each.topics for each in members))}
    if len(subscriptions) == 1:
        return dict.fromkeys(members[0].topics, ALL_MEMBERS)
    asked_in: dict[int, list[int]] = {}
    for topics, number in subscriptions.items():
        for topic in topics:
            asked_in.setdefault(topic, []).append(number)
    subscription_of = [subscriptions[each.topics] for each in members]
    known = {tuple(range(len(subscriptions))): ALL_MEMBERS}
    class_of = {}
    for topic, numbers in asked_in.items():
        key = tuple(numbers)
        if key not in known:
            known[key] = len(classes)
            some = set(key)
            classes.append([begin + at for at, each in enumerate(subscription_of) if each in some])
        class_of[topic] = known[key]
    return class_of


def answer(
    table: RequestTable, member: IntArray, codes: IntArray, refused: Mapping[int, str]
) -> list[AssignmentResponse]:
    """Rows of members and codes, in any order, as an answer to each ask; `refused`: ask to error."""
    order = np.lexsort((codes, member))
    sorted_codes = codes[order].tolist()
    ends = np.cumsum(np.bincount(member, minlength=len(table.members))).tolist()
    shares = [sorted_codes[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    asks = zip(table.begin, table.begin[1:], strict=False)
    return [AssignmentResponse(shares[begin:end], refused.get(number)) for number, (begin, end) in enumerate(asks)]
