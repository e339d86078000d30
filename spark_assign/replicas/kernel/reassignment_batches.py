"""Splits a reassignment into batches that copy as much at a time as the brokers can.

Batches run one after the other, and the busiest port of a batch (a broker that sends, one that receives, or one that
copies between its log directories) determines its time. So the sum of these maxima should be small; the busiest port of
the whole reassignment is a lower bound.

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
    """The batches so far; `loads` has the bytes that each batch sends, receives, and copies between log directories:
    three columns per broker."""

    def __init__(self, num_batches: int, brokers: Sequence[int], partitions: int, limit: int | None) -> None:
        self.index = {broker: index for index, broker in enumerate(brokers)}
        self.partitions, self.limit = partitions, limit
        self.rows: list[list[Row]] = [[] for _ in range(num_batches)]
        self.loads = np.zeros((num_batches, 3 * len(brokers)))
        self.busiest, self.counts, self.moved = np.zeros((3, num_batches))

    def add(self, row: Row, size: float) -> None:
        """Adds a partition to the best batch with room, or to a new one."""
        moving = moved_bytes(row)
        is_full = self.counts >= self.partitions
        if self.limit is not None and moving:
            is_full |= (self.counts > 0) & (self.moved + moving > self.limit)
        if is_full.all():
            self._open()
            is_full = np.append(is_full, False)
        added = [self.index[broker] for broker in row["replicas"] if broker not in row["previous_replicas"]]
        within = [(self.index[broker], copied) for broker, copied in moved_within(row)]
        ports = [3 * self.index[row["previous_replicas"][0]], *(3 * broker + 1 for broker in added)]
        ports += [3 * broker + 2 for broker, _ in within]
        copied = [size * len(added), *[size] * len(added), *(copied for _, copied in within)]
        loads = self.loads[:, ports] + np.array(copied)
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


def moved_bytes(row: Row) -> int:
    """Returns the bytes that a partition moves between brokers and between log directories; 0 if unknown."""
    return int(row["bytes"] or 0) * int(row["moved"]) + sum(copied for _, copied in moved_within(row))


def moved_within(row: Row) -> Iterator[tuple[int, int]]:
    """Yields the brokers that move a partition between log directories, and the bytes."""
    pairs = zip(row["replicas"], row.get("log_dir_bytes") or (), strict=False)
    return ((broker, copied) for broker, copied in pairs if copied)


def split_batches(rows: Sequence[Row], partitions: int, limit: int | None) -> Iterator[tuple[list[Row], int | None]]:
    """Yields rows that are reassigned together, and the bytes that this moves (`None` if sizes are unknown).

    Args:
        rows: the changed partitions of a cluster: topic, partition, previous_replicas, replicas, moved, log_dir_bytes,
            and bytes; None counts as the mean.
        partitions: maximum number of partitions in a batch.
        limit: maximum number of bytes that a batch moves; `None`: no limit. A partition that moves more is a batch of
            its own, except for partitions that move nothing.
    """
    known = [row["bytes"] for row in rows if row["bytes"] is not None]
    mean = sum(known) / len(known) if known else 1.0
    sizes = [mean if row["bytes"] is None else row["bytes"] for row in rows]
    num_batches = ceil(len(rows) / partitions)
    if limit is not None:
        moved = sum(min(moved_bytes(row), limit) for row in rows)
        num_batches = max(num_batches, ceil(moved / limit))
    brokers = sorted({broker for row in rows for broker in (*row["replicas"], *row["previous_replicas"])})
    batches = _Batches(max(num_batches, 1), brokers, partitions, limit)
    order = sorted(range(len(rows)), key=lambda each: (-sizes[each], rows[each]["topic"], rows[each]["partition"]))
    for each in order:
        batches.add(rows[each], sizes[each])
    for batch in filter(None, batches.rows):
        batch.sort(key=lambda row: (row["topic"], row["partition"]))
        is_known = any(row["bytes"] is not None or row.get("log_dir_bytes") for row in batch)
        yield batch, min(sum(map(moved_bytes, batch)), 2**63 - 1) if is_known else None
