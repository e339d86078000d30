"""In which order a broker answers for the topics that a librdkafka leader asks it for.

The leader asks for the topics of its members, members as they are listed, each with its topics by name. A broker makes
an immutable `Set` of Scala 2.13 of them (held live against 4.4; those of Scala 2.12 were not looked at), which keeps
up to four in their order. More are in a trie: by five bits of the hash a level, at each node first the topics that are
alone there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import numpy as np

from spark_assign.groups.assignors.librdkafka.balancer_input import LibrdkafkaMember
from spark_assign.java.hash_map import string_hash
from spark_assign.numeric.array_types import IntArray

_KEPT = 4
_BITS, _WORD = 5, 32
_MASK = 0xFFFFFFFF
Code = TypeVar("Code", int, IntArray)


def answered(members: Iterable[LibrdkafkaMember]) -> list[str]:
    """The topics of these members, in the order of the broker's answer.

    Examples:
        >>> answered([Member("m", None, "", -1, frozenset("cab"), ())])
        ['a', 'b', 'c']
    """
    topics = list(dict.fromkeys(topic for member in members for topic in sorted(member.topics)))
    return topics if len(topics) <= _KEPT else _walk([(_improved(string_hash(topic)), topic) for topic in topics], 0)


def _walk(topics: list[tuple[int, str]], shift: int) -> list[str]:
    if shift >= _WORD:
        return [topic for _, topic in topics]
    nodes: dict[int, list[tuple[int, str]]] = {}
    for each in topics:
        nodes.setdefault(each[0] >> shift & (1 << _BITS) - 1, []).append(each)
    ordered = [nodes[at] for at in sorted(nodes)]
    alone = [node[0][1] for node in ordered if len(node) == 1]
    return alone + [topic for node in ordered if len(node) > 1 for topic in _walk(node, shift + _BITS)]


def answered_places(group: IntArray, name: IntArray, hashes: IntArray) -> IntArray:
    """Of the topics of many groups, all members of which ask for the same, the places in which they are answered.

    Args:
        group: of each topic.
        name: of each topic its place by name.
        hashes: of each topic its `String.hashCode`.

    Returns:
        numbers that ascend in a group as its topics are answered.
    """
    codes = _improved(hashes)
    keys: list[IntArray] = []
    node = group
    deeper = np.bincount(group)[group] > _KEPT
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


def _improved(code: Code) -> Code:
    """`scala.collection.Hashing.improve`."""
    code = code + (~(code << 9) & _MASK) & _MASK
    code = code ^ code >> 14
    code = code + (code << 4) & _MASK
    return code ^ code >> 10
