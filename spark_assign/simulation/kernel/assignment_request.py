"""What the leader of a group is asked, and what it answers.

The coordinator's answer to the leader's JoinGroup lists all members with their subscriptions; the leader knows the
topics' partition counts from its own metadata (`ConsumerCoordinator.onLeaderElected`). Names are numbers here: a topic
is its index in `Topics.names`, a partition is `code(topic, partition)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

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
