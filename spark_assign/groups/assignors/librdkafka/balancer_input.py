"""A group as librdkafka's leader sees it: members, their assignment order, and the topic order of the Metadata
response.

The leader requests the metadata of its members' topics: members in the order of the member list, the topics of each by
name. The broker converts them to an immutable `Set` of Scala 2.13 (verified with Kafka 4.4; Scala 2.12 wasn't checked),
which keeps up to four topics in insertion order. More topics are in a trie with five bits of the hash code per level;
each node has its single topics first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cmp_to_key
from typing import TypeVar

import numpy as np

from spark_assign.java.hash_map import string_hash
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.partition_slices import invert

TopicPartition = tuple[str, int]
Assignment = dict[str, list[TopicPartition]]
"""Member id to the partitions that it gets."""


@dataclass(frozen=True)
class LibrdkafkaMember:
    """A member with a subscription. The leader ignores all others.

    Attributes:
        member_id, instance: its id, and its group.instance.id, None if it isn't static.
        rack: its client.rack. A librdkafka client without one sends an empty rack, which range treats as unknown, and
            cooperative-sticky as a rack without replicas.
        generation: generation of its subscription; -1 if unknown.
        topics: topics that it subscribes to.
        owned: partitions that it owns, in the reported order.
    """

    member_id: str
    instance: str | None
    rack: str
    generation: int
    topics: frozenset[str]
    owned: tuple[TopicPartition, ...]


@dataclass(frozen=True)
class LibrdkafkaGroup:
    """The members in the order of the coordinator's member list, and their topics in the order of the Metadata
    response.

    Attributes:
        members: members with a subscription.
        partitions: number of partitions of each topic with metadata, in the order of the Metadata response.
        racks: racks with a replica of each partition, for topics with known racks.
    """

    members: tuple[LibrdkafkaMember, ...]
    partitions: dict[str, int]
    racks: dict[str, list[frozenset[str]]]

    def racks_of(self, partition: TopicPartition) -> frozenset[str]:
        """Returns the racks with a replica of a partition."""
        known = self.racks.get(partition[0], ())
        return known[partition[1]] if partition[1] < len(known) else frozenset()


def merge_sort(members: list[LibrdkafkaMember]) -> list[LibrdkafkaMember]:
    """Sorts members into the order in which range and roundrobin assign to them.

    Two static members are compared by instance id, any other two by member id. If a group has both kinds, this isn't a
    total order, and the result depends on the input order and on the sort of the C library. This is glibc's merge sort;
    those of musl, macOS, and Windows might differ.
    """
    if len(members) < 2:
        return members
    half = len(members) // 2
    left, right = merge_sort(members[:half]), merge_sort(members[half:])
    return list(heapq.merge(left, right, key=cmp_to_key(_compare)))


def _compare(left: LibrdkafkaMember, right: LibrdkafkaMember) -> int:
    """Returns a number above zero if the left member sorts after the right one, and one below zero if before."""
    if left.instance is not None and right.instance is not None:
        return (left.instance > right.instance) - (left.instance < right.instance)
    return (left.member_id > right.member_id) - (left.member_id < right.member_id)


_MAX_SMALL_SET = 4
_DIGIT_BITS, _HASH_BITS = 5, 32
_MASK = 0xFFFFFFFF
HashCode = TypeVar("HashCode", int, IntArray)


def metadata_response_order(members: Iterable[LibrdkafkaMember]) -> list[str]:
    """Returns the topics of these members in the order of the Metadata response.

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
    """Returns the topics below one node of the trie in iteration order."""
    if shift >= _HASH_BITS:
        return [topic for _, topic in topics]
    nodes: dict[int, list[tuple[int, str]]] = {}
    for item in topics:
        nodes.setdefault(item[0] >> shift & (1 << _DIGIT_BITS) - 1, []).append(item)
    ordered = [nodes[digit] for digit in sorted(nodes)]
    single = [node[0][1] for node in ordered if len(node) == 1]
    return single + [topic for node in ordered if len(node) > 1 for topic in _trie_order(node, shift + _DIGIT_BITS)]


def metadata_positions(group: IntArray, name: IntArray, hashes: IntArray) -> IntArray:
    """Returns the position of each topic in the Metadata response, for many homogeneous groups.

    Args:
        group: group of each topic.
        name: integer for each topic that sorts like its name.
        hashes: `String.hashCode` of each topic's name.

    Returns:
        integers that ascend within a group in the order of the response.
    """
    codes = _improve_hash(hashes)
    keys: list[IntArray] = []
    node = group
    is_deeper = np.bincount(group)[group] > _MAX_SMALL_SET
    for shift in range(0, _HASH_BITS, _DIGIT_BITS):
        if not is_deeper.any():
            break
        bits = codes >> shift & (1 << _DIGIT_BITS) - 1
        _, node, sizes = np.unique(node << _DIGIT_BITS | bits, return_inverse=True, return_counts=True)
        is_split = is_deeper & (sizes[node] > 1)
        keys += [is_split, np.where(is_deeper, bits, 0)]
        is_deeper = is_split
    return invert(np.lexsort((name, *reversed(keys), group)), len(group))


def _improve_hash(code: HashCode) -> HashCode:
    """Mixes a hash code (`scala.collection.Hashing.improve`)."""
    code = code + (~(code << 9) & _MASK) & _MASK
    code = code ^ code >> 14
    code = code + (code << 4) & _MASK
    return code ^ code >> 10
