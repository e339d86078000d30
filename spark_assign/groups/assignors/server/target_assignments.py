"""The previous and the new target assignment of the broker's assignors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.groups.assignors.sticky.constrained import find_unowned
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, PartitionSlices, find_interleaved, merge_sorted


@dataclass(frozen=True)
class TargetAssignments:
    """The target assignment.

    Attributes:
        slices: which member gets which partitions.
        reason: why the partitions of each slice moved from a member that could have kept them (see `sticky_groups`).
        first_new_slice: index of the first newly assigned slice; earlier ones were kept.
        unassigned: partitions without a previous owner, as returned by `find_unassigned`.
    """

    slices: PartitionSlices
    reason: IntArray
    first_new_slice: int = 0
    unassigned: PartitionSlices = EMPTY_SLICES

    def take(self, mask: BoolArray) -> TargetAssignments:
        """Returns the slices that the mask selects, with their reasons."""
        return TargetAssignments(self.slices.take(mask), self.reason[mask])

    @property
    def is_new(self) -> BoolArray:
        """Returns a mask of the newly assigned slices."""
        return np.arange(len(self.slices)) >= self.first_new_slice


def find_unassigned(previous: PartitionSlices, partitions: IntArray) -> PartitionSlices:
    """Returns the partitions without a previous owner, sorted by topic and partition. `member` is -1.

    Args:
        previous: previous target. No partition occurs twice or doesn't exist.
        partitions: number of partitions of each topic.
    """
    has_unowned = np.bincount(previous.topic, previous.count, len(partitions)) < partitions
    unowned = find_unowned(previous.take(has_unowned[previous.topic]), np.where(has_unowned, partitions, 0))
    unowned = unowned.take(np.argsort(unowned.partition_keys))
    is_interleaved = find_interleaved(unowned.topic, unowned)
    unowned = unowned.take(~is_interleaved).concat(unowned.take(is_interleaved).expand())
    unowned = unowned.take(np.argsort(unowned.partition_keys))
    topic, *columns = merge_sorted(unowned.topic, unowned)
    return PartitionSlices(np.full(len(topic), -1), topic, *columns)
