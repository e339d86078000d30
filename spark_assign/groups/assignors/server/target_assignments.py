"""What members had before, as the broker's assignors walk it, and what they have after."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.groups.assignors.sticky.constrained import find_unowned
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, PARTITION_BITS, PartitionSlices, compress_sorted


@dataclass(frozen=True)
class TargetAssignments:
    """The target assignment.

    Attributes:
        slices: who gets what.
        reason: of each run why it was taken from the member that could have kept it
            (`groups.assignors.sticky.sticky_groups`).
        first_new_slice: the number of the first run that was dealt; those before it their members had.
        unassigned: what nobody had, as `find_unassigned` lists it.
    """

    slices: PartitionSlices
    reason: IntArray
    first_new_slice: int = 0
    unassigned: PartitionSlices = EMPTY_SLICES

    @property
    def is_new(self) -> BoolArray:
        """Whether each run was dealt."""
        return np.arange(len(self.slices)) >= self.first_new_slice


def split_slices(runs: PartitionSlices, kept: IntArray) -> tuple[PartitionSlices, PartitionSlices]:
    """Of each run its first partitions, so many as `kept` says, and its others; no run is empty."""
    head = PartitionSlices(runs.member, runs.topic, runs.first, runs.step, kept)
    tail = PartitionSlices(runs.member, runs.topic, runs.first + runs.step * kept, runs.step, runs.count - kept)
    return head.take(kept > 0), tail.take(tail.count > 0)


def find_unassigned(previous: PartitionSlices, partitions: IntArray) -> PartitionSlices:
    """The partitions that nobody had: topics in their order, partitions ascending; `member` says nothing.

    Args:
        previous: what members had; no partition twice, none beyond its topic's count.
        partitions: of each topic.
    """
    whole = (np.bincount(previous.topic, minlength=len(partitions)) == 0) & (partitions > 0)
    rows = find_unowned(previous, np.where(whole, 0, partitions))
    key = np.sort(rows[0] << PARTITION_BITS | rows[1], kind="stable")
    columns = compress_sorted(key >> PARTITION_BITS, key & ((1 << PARTITION_BITS) - 1))
    topic = np.flatnonzero(whole)
    zero = np.zeros(len(topic), np.int64)
    parts = zip(columns, (topic, zero, zero + 1, partitions[topic]), strict=True)
    topic, *run = (np.append(one, other) for one, other in parts)
    runs = PartitionSlices(np.full(len(topic), -1), topic, *run)
    return runs.take(np.argsort(topic, kind="stable"))
