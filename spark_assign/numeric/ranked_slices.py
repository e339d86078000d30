"""Ranks partitions of slices: the position of each partition among all, sorted by topic and partition.

The ranks of the partitions of a slice are a progression, too, as long as the same slices of a topic alternate. So
interleaved slices are cut where another slice starts or ends. A topic in which interleaved slices have different steps
is expanded to partitions.

Example: of topic t, one slice is t1, t4, t7, t10, and another is t2, t5.

    slice              first rank    difference of ranks
    t1, t4             0             2
    t2, t5             1             2
    t7, t10            4             1
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.partition_slices import PARTITION_BITS, PartitionSlices, find_interleaved
from spark_assign.numeric.segmented_arrays import expand_slices, row_numbers, starts_new_key


@dataclass(frozen=True)
class RankedSlices:
    """Slices, sorted by topic and first partition, with the ranks of their partitions.

    Attributes:
        slices: the slices.
        row: index of the input slice that each slice is a part of.
        rank, rank_step: the ranks are rank, rank + rank_step, and so on.
    """

    slices: PartitionSlices
    row: IntArray
    rank: IntArray
    rank_step: IntArray


def rank_partitions(slices: PartitionSlices) -> RankedSlices:
    """Returns the ranks of all partitions. No partition may occur twice; members are ignored."""
    row = np.argsort(slices.partition_keys)
    slices = slices.take(row)
    is_interleaved = find_interleaved(slices.topic, slices)
    window = slices.partition_keys
    if is_interleaved.any():
        simple, others = np.flatnonzero(~is_interleaved), np.flatnonzero(is_interleaved)
        parts, part, part_window = _cut(slices.take(others))
        row, slices = row[np.append(simple, others[part])], slices.take(simple).concat(parts)
        window = np.append(window[simple], part_window)
        order = np.lexsort((slices.first, window))
        row, slices, window = row[order], slices.take(order), window[order]
    starts = np.flatnonzero(starts_new_key(window))
    size = np.diff(np.append(starts, len(window)))
    first_rank = (np.cumsum(slices.count) - slices.count)[starts]
    return RankedSlices(slices, row, np.repeat(first_rank, size) + row_numbers(window), np.repeat(size, size))


def _cut(slices: PartitionSlices) -> tuple[PartitionSlices, IntArray, IntArray]:
    """Cuts interleaved slices, sorted by topic, where another slice of the topic starts or ends.

    Returns:
        the parts; the index of the input slice of each; and an integer that is equal for parts that alternate, and
        sorts like their partitions.
    """
    starts = np.flatnonzero(starts_new_key(slices.topic))
    size = np.diff(np.append(starts, len(slices)))
    max_step = np.repeat(np.maximum.reduceat(np.where(slices.count > 1, slices.step, 1), starts), size)
    has_other_step = (slices.count > 1) & (slices.step != max_step)
    is_scattered = np.repeat(np.logical_or.reduceat(has_other_step, starts), size)
    # A slice is a range of periods of length `step`, in each of which it has one partition.
    step = np.where(is_scattered, 1, max_step)
    row, first = expand_slices(slices.first, slices.step, np.where(is_scattered, slices.count, 1))
    count = np.where(is_scattered, 1, slices.count)[row]
    topic, step = slices.topic[row], step[row]
    period = (topic << PARTITION_BITS) | (first // step)
    bounds = np.unique(np.append(period, period + count))
    start = np.searchsorted(bounds, period)
    part, bound = expand_slices(start, np.ones_like(start), np.searchsorted(bounds, period + count) - start)
    first = first[part] + (bounds[bound] - period[part]) * step[part]
    window = bounds[bound] + (step - 1)[part] * (bounds[bound] & ((1 << PARTITION_BITS) - 1))
    parts = PartitionSlices(slices.member[row[part]], topic[part], first, step[part], bounds[bound + 1] - bounds[bound])
    return parts, row[part], window
