"""What the leader of a group needs to compute an assignment, and the assignment that it returns.

The coordinator's response to the leader's JoinGroup lists all members with their subscriptions. The leader knows the
partition counts from its own metadata (`ConsumerCoordinator.onLeaderElected`). Names are integers here: a topic is its
index in `Topics.names`, a partition is `code(topic, partition)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from spark_assign.java.hash_map import java_key, string_hashes
from spark_assign.numeric.arrays import IntArray

CODE_BITS = 32
"""Number of bits for the partition in a partition key."""

PARTITION_MASK = (1 << CODE_BITS) - 1


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
        owned: partition keys, ascending and unique. May contain topics that don't exist or aren't subscribed. The list
            isn't changed in place.
        generation_id: generation in the subscription; -1 if none.
        user_data_generation_id: generation in the sticky assignor's user data. None: the same as `generation_id`.
    """

    member_id: str
    group_instance_id: str | None
    rack_id: str | None
    hash: int
    topics: frozenset[int]
    owned: list[int] = field(default_factory=list)
    generation_id: int = -1
    user_data_generation_id: int | None = None


@dataclass(slots=True)
class AssignmentRequest:
    """An assignment that a leader must compute.

    Attributes:
        assignor: the protocol that the coordinator selected.
        members: the members in the coordinator's order. After the response, they can change.
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


@dataclass(frozen=True, slots=True)
class CodeLists:
    """The ascending partition keys of several members.

    Attributes:
        lists: the keys of each member.
        lengths: number of keys of each member.
        codes: all keys, member by member.
    """

    lists: Sequence[list[int]]
    lengths: IntArray
    codes: IntArray

    @staticmethod
    def of(lists: Sequence[list[int]]) -> CodeLists:
        """Builds the columns from the lists."""
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        return CodeLists(lists, lengths, np.fromiter(chain.from_iterable(lists), np.int64, int(lengths.sum())))


def codes_by_member(member: IntArray, codes: IntArray, owned: CodeLists) -> list[list[int]]:
    """Returns the ascending partition keys of each member, from columns in any order.

    If they are what the member owns, the list is that in `owned`: in a stable group, most members keep their lists.
    """
    order = np.lexsort((codes, member))
    member, codes = member[order], codes[order]
    counts = np.bincount(member, minlength=len(owned.lengths))
    is_owned = counts == owned.lengths
    row = np.flatnonzero(is_owned[member])
    owned_row = row + (np.cumsum(owned.lengths) - np.cumsum(counts))[member[row]]
    is_owned[member[row[codes[row] != owned.codes[owned_row]]]] = False
    assigned, other_codes = list(owned.lists), codes[~is_owned[member]].tolist()
    others = np.flatnonzero(~is_owned)
    ends = np.cumsum(counts[others]).tolist()
    for index, start, end in zip(others.tolist(), [0, *ends], ends, strict=False):
        assigned[index] = other_codes[start:end]
    return assigned
