"""What members had before, as the broker's assignors walk it, and what they have after."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.kernels.arrays import Ints
from spark_assign.kernels.runs import Runs, compress_sorted
from spark_assign.kernels.segments import counted


@dataclass(frozen=True)
class Targets:
    """The target assignment.

    Attributes:
        runs: who gets what.
        reason: of each run why it was taken from the member that could have kept it (`kernels.sticky.groups`).
    """

    runs: Runs
    reason: Ints


def exclusive_sum(counts: Ints, first: Ints) -> Ints:
    """Of each row the sum of the counts before it, since the row `first` of its stretch."""
    before = np.cumsum(counts) - counts
    return before - before[first] if len(counts) else before


def split(runs: Runs, kept: Ints) -> tuple[Runs, Runs]:
    """Of each run its first partitions, so many as `kept` says, and its others; no run is empty."""
    head = Runs(runs.member, runs.topic, runs.first, runs.step, kept)
    tail = Runs(runs.member, runs.topic, runs.first + runs.step * kept, runs.step, runs.count - kept)
    return head.where(kept > 0), tail.where(tail.count > 0)


def unassigned(previous: Runs, partitions: Ints) -> tuple[Ints, Ints]:
    """Topic and number of the partitions that nobody had: topics in their order, partitions ascending.

    Args:
        previous: what members had; no partition twice, none beyond its topic's count.
        partitions: of each topic.
    """
    had = np.bincount(previous.topic, previous.count, len(partitions)).astype(np.int64)
    lacking = np.flatnonzero(had < partitions)
    if not len(lacking):
        return lacking, lacking
    sizes = partitions[lacking]
    begins = np.cumsum(sizes) - sizes
    free = np.ones(int(sizes.sum()), bool)
    place = np.full(len(partitions), -1, np.int64)
    place[lacking] = begins
    some = previous.where(place[previous.topic] >= 0).rows()
    free[place[some.topic] + some.first] = False
    return np.repeat(lacking, sizes)[free], counted(sizes)[free]


def as_runs(member: Ints, topic: Ints, partition: Ints) -> Runs:
    """Single partitions as few runs."""
    if not len(member):
        return Runs(member, topic, partition, partition, partition)
    order = np.lexsort((partition, topic, member))
    topics = int(topic.max()) + 1
    key, first, step, count = compress_sorted((member * topics + topic)[order], partition[order])
    return Runs(*np.divmod(key, topics), first, step, count)
