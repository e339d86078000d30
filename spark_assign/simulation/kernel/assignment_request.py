"""What the leader of a group is asked, and what it answers.

The coordinator's answer to the leader's JoinGroup lists all members with their subscriptions; the leader knows the
topics' partition counts from its own metadata (`ConsumerCoordinator.onLeaderElected`). Names are numbers here: a topic
is its index in `Topics.names`, a partition is `code(topic, partition)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from spark_assign.groups.assignors.sticky.plan_batch import ALL_MEMBERS
from spark_assign.java.hash_map import java_key, string_hashes
from spark_assign.numeric.array_types import IntArray

CODE_BITS = 32
"""A partition's number fits in so many bits."""


def code(topic: int, partition: int) -> int:
    """A partition as one number, which sorts by topic and partition."""
    return topic << CODE_BITS | partition


@dataclass(frozen=True, slots=True, eq=False)
class Topics:
    """All topics that a group may ever ask for; one object per group, shared by all of its asks.

    Attributes:
        names: in the order of `String.compareTo`.
        hashes: of each name its `String.hashCode`, as unsigned 32 bits.
        racks: of topics with known racks, of each partition the racks of its replicas (without null and ""). Partitions
            behind the end of a list have none.
    """

    names: tuple[str, ...]
    hashes: IntArray
    racks: Mapping[int, Sequence[frozenset[str]]] = field(default_factory=dict)

    @staticmethod
    def of(names: Iterable[str], racks: Mapping[str, Sequence[frozenset[str]]] | None = None) -> Topics:
        """Topics of these names, each once, in any order; `racks` by name."""
        texts = sorted(set(names), key=java_key)
        known = racks or {}
        of_number = {number: known[name] for number, name in enumerate(texts) if name in known}
        return Topics(tuple(texts), string_hashes(texts), of_number)


@dataclass(slots=True)
class JoinedMember:
    """A member as the leader sees it (`ConsumerPartitionAssignor.Subscription`).

    Attributes:
        rack_id: null or "": none.
        hash: `String.hashCode` of `member_id`, as unsigned 32 bits.
        topics: indexes into `Topics.names`; best one object for all members with the same subscription.
        owned: codes, ascending, each once; of topics that are gone or not subscribed, too.
        generation_id: of the subscription; -1 for none.
        user_data_generation_id: inside the sticky assignor's user data; null: the same as `generation_id`.
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
    """One assignment that a leader has to find.

    Attributes:
        assignor: the protocol that the coordinator has chosen.
        members: as the coordinator lists them.
        topics: the group's.
        partitions: topic index to partition count; a topic that is missing or has 0 has no metadata.
    """

    assignor: str
    members: Sequence[JoinedMember]
    topics: Topics
    partitions: Mapping[int, int]


@dataclass(slots=True)
class AssignmentResponse:
    """The leader's assignment.

    Attributes:
        assigned: of each member, in the order of `AssignmentRequest.members`, codes, ascending. What the cooperative
        protocol
            withholds until its owner has given it up is in nobody's list.
        error: what Kafka's class throws; nobody is assigned anything then.
    """

    assigned: list[list[int]]
    error: str | None = None


def java_order(texts: Sequence[str]) -> list[int]:
    """The indexes of the texts in the order of `String.compareTo`."""
    # Python compares code points; where all are ASCII that is the same.
    keys: Sequence[str] | Sequence[bytes] = texts if "".join(texts).isascii() else [java_key(text) for text in texts]
    return sorted(range(len(texts)), key=keys.__getitem__)


def layout(ask: AssignmentRequest, topic: int) -> list[frozenset[str]]:
    """The racks that each partition of a topic with metadata has replicas in."""
    count = ask.partitions[topic]
    known = list(ask.topics.racks.get(topic, ())[:count])
    return known + [frozenset()] * (count - len(known))


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
