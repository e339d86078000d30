"""A group as librdkafka's leader has it before it, and the order in which its members are served.

In which order a broker answers for the topics that a librdkafka leader asks it for.

The leader asks for the topics of its members, members as they are listed, each with its topics by name. A broker makes
an immutable `Set` of Scala 2.13 of them (held live against 4.4; those of Scala 2.12 were not looked at), which keeps
up to four in their order. More are in a trie: by five bits of the hash a level, at each node first the topics that are
alone there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from spark_assign.java.hash_map import string_hash
from spark_assign.numeric.array_types import IntArray

TopicPartition = tuple[str, int]
Assignment = dict[str, list[TopicPartition]]
"""By member id, what it gets."""


@dataclass(frozen=True)
class LibrdkafkaMember:
    """A member that subscribes to something; the leader leaves out all others.

    Attributes:
        member_id, instance: its id and its group.instance.id, null for none.
        rack: its client.rack. A librdkafka client without one writes an empty rack, which is none to range, and a rack
            without any replica to cooperative-sticky.
        generation: of its subscription, -1 for none.
        topics: that it subscribes to.
        owned: what it says it owns, in that order.
    """

    member_id: str
    instance: str | None
    rack: str
    generation: int
    topics: frozenset[str]
    owned: tuple[TopicPartition, ...]


@dataclass(frozen=True)
class LibrdkafkaGroup:
    """Members as the coordinator lists them, and their topics as the broker answers for them.

    Attributes:
        members: those that subscribe to something.
        partitions: of each topic with metadata its count, in the order of the broker's answer.
        racks: of topics with known racks, of each partition those that have a replica.
    """

    members: tuple[LibrdkafkaMember, ...]
    partitions: dict[str, int]
    racks: dict[str, list[frozenset[str]]]

    def racks_of(self, partition: TopicPartition) -> frozenset[str]:
        """The racks that have a replica."""
        known = self.racks.get(partition[0], ())
        return known[partition[1]] if partition[1] < len(known) else frozenset()


def assignment_order(members: list[LibrdkafkaMember]) -> list[LibrdkafkaMember]:
    """In which order range and roundrobin serve members.

    Two static members go by instance id, any other two by member id. Where a group has both kinds that is no order:
    what comes out hangs on the order that goes in, and on how the C library sorts. This is glibc's merge sort; musl's
    and those of macOS and Windows may end otherwise.
    """
    if len(members) < 2:
        return members
    half = len(members) // 2
    one, other = assignment_order(members[:half]), assignment_order(members[half:])
    merged, at, to = [], 0, 0
    while at < len(one) and to < len(other):
        if _sorts_after(one[at], other[to]):
            merged.append(other[to])
            to += 1
        else:
            merged.append(one[at])
            at += 1
    return merged + one[at:] + other[to:]


def _sorts_after(one: LibrdkafkaMember, other: LibrdkafkaMember) -> bool:
    if one.instance is not None and other.instance is not None:
        return one.instance > other.instance
    return one.member_id > other.member_id


def needs_racks(group: LibrdkafkaGroup, topics: list[str], members: list[LibrdkafkaMember]) -> bool:
    """Whether racks matter to these topics and their subscribers (KIP-881).

    Some member's rack has a replica, and some partition has none in one of the racks that have any.
    """
    per_partition = [
        group.racks_of((topic, partition)) for topic in topics for partition in range(group.partitions[topic])
    ]
    all_racks = frozenset().union(*per_partition)
    if not any(member.rack and member.rack in all_racks for member in members):
        return False
    return any(len(racks) != len(all_racks) for racks in per_partition)


_MAX_SMALL_SET = 4
_BITS, _WORD = 5, 32
_MASK = 0xFFFFFFFF
HashCode = TypeVar("HashCode", int, IntArray)


def metadata_response_order(members: Iterable[LibrdkafkaMember]) -> list[str]:
    """The topics of these members, in the order of the broker's answer.

    Examples:
        >>> metadata_response_order([Member("m", None, "", -1, frozenset("cab"), ())])
        ['a', 'b', 'c']
    """
    topics = list(dict.fromkeys(topic for member in members for topic in sorted(member.topics)))
    return (
        topics
        if len(topics) <= _MAX_SMALL_SET
        else _trie_order([(_improve_hash(string_hash(topic)), topic) for topic in topics], 0)
    )


def _trie_order(topics: list[tuple[int, str]], shift: int) -> list[str]:
    if shift >= _WORD:
        return [topic for _, topic in topics]
    nodes: dict[int, list[tuple[int, str]]] = {}
    for each in topics:
        nodes.setdefault(each[0] >> shift & (1 << _BITS) - 1, []).append(each)
    ordered = [nodes[at] for at in sorted(nodes)]
    alone = [node[0][1] for node in ordered if len(node) == 1]
    return alone + [topic for node in ordered if len(node) > 1 for topic in _trie_order(node, shift + _BITS)]


def metadata_positions(group: IntArray, name: IntArray, hashes: IntArray) -> IntArray:
    """Of the topics of many groups, all members of which ask for the same, the places in which they are answered.

    Args:
        group: of each topic.
        name: of each topic its place by name.
        hashes: of each topic its `String.hashCode`.

    Returns:
        numbers that ascend in a group as its topics are answered.
    """
    codes = _improve_hash(hashes)
    keys: list[IntArray] = []
    node = group
    deeper = np.bincount(group)[group] > _MAX_SMALL_SET
    for shift in range(0, _WORD, _BITS):
        if not deeper.any():
            break
        bits = codes >> shift & (1 << _BITS) - 1
        _, node, sizes = np.unique(node << _BITS | bits, return_inverse=True, return_counts=True)
        treeified = deeper & (sizes[node] > 1)
        keys += [treeified, np.where(deeper, bits, 0)]
        deeper = treeified
    places = np.empty(len(group), np.int64)
    places[np.lexsort((name, *reversed(keys), group))] = np.arange(len(group))
    return places


def _improve_hash(code: HashCode) -> HashCode:
    """`scala.collection.Hashing.improve`."""
    code = code + (~(code << 9) & _MASK) & _MASK
    code = code ^ code >> 14
    code = code + (code << 4) & _MASK
    return code ^ code >> 10
