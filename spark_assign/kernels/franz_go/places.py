"""At which places a partition may be dealt, if the topics come in any order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spark_assign.kernels.arrays import Ints
from spark_assign.kernels.franz_go.alike import Alike
from spark_assign.kernels.franz_go.group import Group

_MOST = 20_000
"""Beyond so many partitions all places from the first to the last count as possible."""


def hanging(group: Group, planned: Alike) -> Iterator[int]:
    """The partitions that nobody had and that may go to somebody else in another order of the topics.

    Before a topic come any of the others, each with all that it has: so a partition has those places that are a sum of
    some of their numbers away from its own in its topic.
    """
    topic = np.array([group.topic[partition] for partition in planned.free], np.int64)
    topics, counts = np.unique(topic, return_counts=True)
    taker = np.array(planned.dealt, np.int64)
    if len(topics) < 2 or (taker == taker[0]).all():
        return
    # Up to where the same member gets everything.
    turns = np.append(np.flatnonzero(taker[1:] != taker[:-1]), len(taker) - 1)
    same = turns[np.searchsorted(turns, np.arange(len(taker)))]
    before: dict[int, Ints] = {}
    for at, count in zip(topics.tolist(), counts.tolist(), strict=True):
        if count not in before:
            before[count] = _sums(counts.tolist(), count)
        surely = same[:count] >= np.arange(count) + len(taker) - count
        steady = np.ones(count, bool)
        for offset in before[count].tolist():
            steady &= taker[offset : offset + count] == taker[:count]
            if (steady == surely).all():
                break
        mine = [partition for partition in planned.free if group.topic[partition] == at]
        yield from (partition for partition, sure in zip(mine, steady.tolist(), strict=True) if not sure)


def _sums(counts: list[int], without: int) -> Ints:
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
