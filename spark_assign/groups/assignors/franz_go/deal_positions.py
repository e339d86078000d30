"""At which places a partition may be dealt, if the topics come in any order."""

from __future__ import annotations

import numpy as np

from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.segmented_arrays import starts_new_key

_MOST = 20_000
"""Beyond so many partitions all places from the first to the last count as possible."""


def hanging(topic: IntArray, to_member: IntArray) -> BoolArray:
    """Of partitions that nobody had, which may go to somebody else in another order of the topics.

    Before a topic come any of the others, each with all that it has: so a partition has those places that are a sum of
    some of their numbers away from its own in its topic.

    Args:
        topic: of each partition, in the order in which they were dealt, topic after topic.
        to_member: of each, the member that it went to.
    """
    hangs = np.zeros(len(topic), bool)
    begins = np.flatnonzero(starts_new_key(topic))
    counts = np.diff(np.append(begins, len(topic)))
    if len(begins) < 2 or (to_member == to_member[0]).all():
        return hangs
    # Up to where the same member gets everything.
    turns = np.append(np.flatnonzero(to_member[1:] != to_member[:-1]), len(to_member) - 1)
    same = turns[np.searchsorted(turns, np.arange(len(to_member)))]
    steady: dict[int, BoolArray] = {}
    for begin, count in zip(begins.tolist(), counts.tolist(), strict=True):
        if count not in steady:
            steady[count] = _steady(to_member, same, count, _sums(counts.tolist(), count))
        hangs[begin : begin + count] = ~steady[count]
    return hangs


def _steady(to_member: IntArray, same: IntArray, count: int, offsets: IntArray) -> BoolArray:
    """Of the partitions of a topic of so many, which go to the same member wherever they may be dealt."""
    surely = same[:count] >= np.arange(count) + len(to_member) - count
    steady = np.ones(count, bool)
    for offset in offsets.tolist():
        steady &= to_member[offset : offset + count] == to_member[:count]
        if (steady == surely).all():
            break
    return steady


def _sums(counts: list[int], without: int) -> IntArray:
    """What some of the counts may add up to, one of them left out."""
    total = sum(counts) - without
    if total > _MOST:
        return np.arange(total + 1)  # more than there may be; who is not surely unmoved falls out early or late
    others = list(counts)
    others.remove(without)
    sums = 1
    for count in others:
        sums |= sums << count
    bits = np.frombuffer(sums.to_bytes(total // 8 + 1, "little"), np.uint8)
    return np.flatnonzero(np.unpackbits(bits, bitorder="little"))
