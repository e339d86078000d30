"""What the leader of a group needs to compute an assignment, and the assignment that it returns.

The coordinator's response to the leader's JoinGroup lists all members with their subscriptions. The leader knows the
partition counts from its own metadata (`ConsumerCoordinator.onLeaderElected`). Names are integers here: a topic is its
index in `Topics.names`, a partition is `code(topic, partition)`. `RequestTable` has many requests as columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from spark_assign.groups.assignors.sticky.plan_batch import ALL_MEMBERS
from spark_assign.java.hash_map import java_key, string_hashes
from spark_assign.numeric.array_types import IntArray

CODE_BITS = 32
"""Number of bits for the partition in a partition key."""


def code(topic: int, partition: int) -> int:
    """Returns the partition as one integer, which sorts by topic and partition."""
    return topic << CODE_BITS | partition


@dataclass(frozen=True, slots=True, eq=False)
class Topics:
    """All topics that a group may ever subscribe to. One object per group, shared by all its requests.

    Attributes:
        names: topic names, sorted by `String.compareTo`.
        hashes: `String.hashCode` of each name, as unsigned 32 bits.
        racks: racks of the replicas of each partition (without null and ""), by topic index, if known. Partitions
            beyond the end of a list have none.
    """

    names: tuple[str, ...]
    hashes: IntArray
    racks: Mapping[int, Sequence[frozenset[str]]] = field(default_factory=dict)

    @staticmethod
    def of(names: Iterable[str], racks: Mapping[str, Sequence[frozenset[str]]] | None = None) -> Topics:
        """Builds the topics from names in any order, with or without duplicates, and from racks by name."""
        texts = sorted(set(names), key=java_key)
        known = racks or {}
        of_number = {number: known[name] for number, name in enumerate(texts) if name in known}
        return Topics(tuple(texts), string_hashes(texts), of_number)


@dataclass(slots=True)
class JoinedMember:
    """A member as the leader sees it (`ConsumerPartitionAssignor.Subscription`).

    Attributes:
        rack_id: rack of the member. None or "": unknown.
        hash: `String.hashCode` of `member_id`, as unsigned 32 bits.
        topics: indexes into `Topics.names`. Members with equal subscriptions should share one object.
        owned: partition keys, ascending and unique. May contain topics that don't exist or aren't subscribed.
        generation_id: generation in the subscription; -1 if none.
        user_data_generation_id: generation in the sticky assignor's user data. None: the same as `generation_id`.
    """

    member_id: str
    group_instance_id: str | None
    rack_id: str | None
    hash: int
    topics: frozenset[int]
    owned: Sequence[int] = ()
    generation_id: int = -1
    user_data_generation_id: int | None = None


@dataclass(slots=True)
class AssignmentRequest:
    """An assignment that a leader must compute.

    Attributes:
        assignor: the protocol that the coordinator selected.
        members: the members in the coordinator's order.
        topics: the topics of the group.
        partitions: partition count by topic index. A topic that is missing or has 0 partitions has no metadata.
    """

    assignor: str
    members: Sequence[JoinedMember]
    topics: Topics
    partitions: Mapping[int, int]


@dataclass(slots=True)
class AssignmentResponse:
    """The leader's assignment.

    Attributes:
        assigned: partition keys of each member, ascending, in the order of `AssignmentRequest.members`. Partitions that
            the cooperative protocol withholds until their owner revokes them are in no list.
        error: message of the exception that Kafka's class throws. No member is assigned anything then.
    """

    assigned: list[list[int]]
    error: str | None = None


def java_order(texts: Sequence[str]) -> list[int]:
    """Returns the indexes that sort texts by `String.compareTo`."""
    # Python compares code points; where all are ASCII that is the same.
    keys: Sequence[str] | Sequence[bytes] = texts if "".join(texts).isascii() else [java_key(text) for text in texts]
    return sorted(range(len(texts)), key=keys.__getitem__)


def layout(request: AssignmentRequest, topic: int) -> list[frozenset[str]]:
    """Returns the racks of the replicas of each partition of a topic that has metadata."""
    count = request.partitions[topic]
    known = list(request.topics.racks.get(topic, ())[:count])
    return known + [frozenset()] * (count - len(known))


@dataclass(frozen=True, slots=True)
class RequestTable:
    """Columns of many requests, each with at least one member.

    Attributes:
        requests: the requests.
        members: members of all requests, request by request, in the coordinator's order.
        begin: index of the first member of each request, then the number of members.
        topic_ask: request index of each topic with metadata. Topics are sorted by request and name.
        topic: index of each topic in the `Topics` of its request.
        partitions: partition count of each topic.
        topic_class: subscriber class of each topic: `ALL_MEMBERS`, or an index into `classes`.
        classes: member indexes of each class that doesn't contain all members of its request, ascending.
        without_metadata: request index and class of subscribed topics without metadata, without duplicates.
    """

    requests: Sequence[AssignmentRequest]
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
        """The number of members of each request."""
        begin = np.array(self.begin, np.int64)
        return begin[1:] - begin[:-1]


def read_requests(requests: Sequence[AssignmentRequest]) -> RequestTable:
    """Builds the columns of requests that have members."""
    members: list[JoinedMember] = []
    begin = [0]
    topics: list[tuple[int, int, int, int]] = []
    classes: list[list[int]] = []
    without: dict[tuple[int, int], None] = {}
    for number, request in enumerate(requests):
        class_of = _classes(request.members, begin[-1], classes)
        for topic in sorted(class_of):
            count = request.partitions.get(topic, 0)
            if count > 0:
                topics.append((number, topic, count, class_of[topic]))
            else:
                without[number, class_of[topic]] = None
        members += request.members
        begin.append(len(members))
    ask_of, index, counts, class_of_each = np.array(topics, np.int64).reshape(-1, 4).T.copy()
    return RequestTable(requests, members, begin, ask_of, index, counts, class_of_each, classes, list(without))


def _classes(members: Sequence[JoinedMember], begin: int, classes: list[list[int]]) -> dict[int, int]:
    """Returns the class of each topic that these members subscribe to, and appends new classes to `classes`."""
    subscriptions = {topics: number for number, topics in enumerate(dict.fromkeys(each.topics for each in members))}
    if len(subscriptions) == 1:
        return dict.fromkeys(members[0].topics, ALL_MEMBERS)
    requests_by_topic: dict[int, list[int]] = {}
    for topics, number in subscriptions.items():
        for topic in topics:
            requests_by_topic.setdefault(topic, []).append(number)
    subscription_of = [subscriptions[each.topics] for each in members]
    known = {tuple(range(len(subscriptions))): ALL_MEMBERS}
    class_of = {}
    for topic, numbers in requests_by_topic.items():
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
    """Groups member and partition key columns, in any order, into one response per request.

    Args:
        refused: error by request index.
    """
    order = np.lexsort((codes, member))
    sorted_codes = codes[order].tolist()
    ends = np.cumsum(np.bincount(member, minlength=len(table.members))).tolist()
    shares = [sorted_codes[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    bounds = zip(table.begin, table.begin[1:], strict=False)
    return [AssignmentResponse(shares[begin:end], refused.get(number)) for number, (begin, end) in enumerate(bounds)]
