"""Splits a reassignment into batches that copy as much at a time as the brokers can.

Batches run one after the other, and the busiest port of a batch (a broker that sends, or one that receives) determines
its time. So the sum of these maxima should be small; the busiest port of the whole reassignment is a lower bound.

The partitions are taken by descending size. Each goes to the batch in which the busiest port grows least; among
equals, to the one in which the ports of the partition are used least.

Example: two partitions move from broker 1 to 3, and two from 2 to 4, all of the same size, in batches of two
partitions. Each batch gets one of each, and takes as long as one partition. With both from 1 to 3 in one batch, each
batch would take twice as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from typing import Any

import numpy as np

Row = dict[str, Any]


class _Batches:
    """The batches so far; `loads` has the bytes that each batch sends (even columns) and receives, by broker."""

    def __init__(self, num_batches: int, brokers: Sequence[int], partitions: int, limit: int | None) -> None:
        self.index = {broker: index for index, broker in enumerate(brokers)}
        self.partitions, self.limit = partitions, limit
        self.rows: list[list[Row]] = [[] for _ in range(num_batches)]
        self.loads = np.zeros((num_batches, 2 * len(brokers)))
        self.busiest, self.counts, self.moved = np.zeros((3, num_batches))

    def add(self, row: Row, size: float) -> None:
        """Adds a partition to the best batch with room, or to a new one."""
        moving = 0 if row["bytes"] is None else row["bytes"] * row["moved"]
        is_full = self.counts >= self.partitions
        if self.limit is not None and moving:
            is_full |= (self.counts > 0) & (self.moved + moving > self.limit)
        if is_full.all():
            self._open()
            is_full = np.append(is_full, False)
        added = [self.index[broker] for broker in row["replicas"] if broker not in row["previous_replicas"]]
        ports = [2 * self.index[row["previous_replicas"][0]], *(2 * broker + 1 for broker in added)]
        loads = self.loads[:, ports] + np.array([size * len(added), *[size] * len(added)])
        highest = loads.max(axis=1)
        growth = np.where(is_full, np.inf, np.maximum(highest - self.busiest, 0))
        best = np.lexsort((highest, growth))[0]
        self.rows[best].append(row)
        self.loads[best, ports] = loads[best]
        self.busiest[best] = max(self.busiest[best], highest[best])
        self.counts[best] += 1
        self.moved[best] += moving

    def _open(self) -> None:
        """Adds an empty batch."""
        self.rows.append([])
        self.loads = np.vstack([self.loads, np.zeros(self.loads.shape[1])])
        self.busiest, self.counts, self.moved = np.append([self.busiest, self.counts, self.moved], [[0]] * 3, axis=1)


def split_batches(rows: Sequence[Row], partitions: int, limit: int | None) -> Iterator[tuple[list[Row], int | None]]:
    """Yields rows that are reassigned together, and the bytes that this moves (`None` if sizes are unknown).

    Args:
        rows: the changed partitions of a cluster: topic, partition, previous_replicas, replicas, moved, and bytes; None
            counts as the mean.
        partitions: maximum number of partitions in a batch.
        limit: maximum number of bytes that a batch moves; `None`: no limit. A partition that moves more is a batch of
            its own, except for partitions that move nothing.
    """
    known = [row["bytes"] for row in rows if row["bytes"] is not None]
    mean = sum(known) / len(known) if known else 1.0
    sizes = [mean if row["bytes"] is None else row["bytes"] for row in rows]
    num_batches = ceil(len(rows) / partitions)
    if limit is not None:
        moved = sum(min(row["bytes"] * row["moved"], limit) for row in rows if row["bytes"] is not None)
        num_batches = max(num_batches, ceil(moved / limit))
    brokers = sorted({broker for row in rows for broker in (*row["replicas"], *row["previous_replicas"])})
    batches = _Batches(max(num_batches, 1), brokers, partitions, limit)
    order = sorted(range(len(rows)), key=lambda each: (-sizes[each], rows[each]["topic"], rows[each]["partition"]))
    for each in order:
        batches.add(rows[each], sizes[each])
    for batch in filter(None, batches.rows):
        batch.sort(key=lambda row: (row["topic"], row["partition"]))
        moving = [row["bytes"] * row["moved"] for row in batch if row["bytes"] is not None]
        yield batch, sum(moving) if moving else None
