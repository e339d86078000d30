"""The previous and the new target assignment of the broker's assignors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.groups.assignors.sticky.constrained import find_unowned
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import (
    EMPTY_SLICES,
    PARTITION_BITS,
    PartitionSlices,
    compress_sorted,
    split_keys,
)


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
    num_owned = np.bincount(previous.topic, previous.count, len(partitions))
    is_unowned = (num_owned == 0) & (partitions > 0)
    is_partial = (num_owned > 0) & (num_owned < partitions)
    rows = find_unowned(previous.take(is_partial[previous.topic]), np.where(is_partial, partitions, 0))
    key = np.sort(rows[0] << PARTITION_BITS | rows[1], kind="stable")
    columns = compress_sorted(*split_keys(key))
    topic = np.flatnonzero(is_unowned)
    zero = np.zeros(len(topic), np.int64)
    column_pairs = zip(columns, (topic, zero, zero + 1, partitions[topic]), strict=True)
    topic, *bounds = (np.append(first, second) for first, second in column_pairs)
    slices = PartitionSlices(np.full(len(topic), -1), topic, *bounds)
    return slices.take(np.argsort(topic, kind="stable"))
