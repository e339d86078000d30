"""One cluster before a reassignment, with brokers and partitions as indexes, and the even share of each broker.

All brokers have the same share as far as racks allow. A rack of few brokers holds more than its share if every
partition needs a replica in every rack; a rack of many brokers can't hold more than the partitions can put there.
`fair_shares` finds the level at which racks hold (brokers x level), clipped to the minimum and the maximum that the
partitions allow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.numeric.arrays import BoolArray, FloatArray, IntArray

NO_BROKER = -1
"""Fills up the rows of `ReplicaCluster.current`."""

_BISECTIONS = 100
_EPSILON = 1e-9


@dataclass(frozen=True)
class ReplicaCluster:
    """The brokers and partitions of one cluster. A broker is an index into `rack`, a partition one into `current`.

    Args:
        rack: the rack index of each broker; all brokers without a rack form one rack.
        usable: whether a broker can have replicas after the change, that is, whether it's not
            removed, fenced, or cordoned.
        current: the replicas of each partition in order, as broker indexes, padded with `NO_BROKER`. The row of a new
            partition has no replicas. Shape: (num_partitions, largest replication factor).
        replication_factor: the replication factor of each partition after the change.
        weight: the weight of one replica of each partition: 1, or its bytes.
        weighed: whether weights are bytes.
    """

    rack: IntArray
    usable: BoolArray
    current: IntArray
    replication_factor: IntArray
    weight: IntArray
    weighed: bool = False

    @property
    def usable_racks(self) -> int:
        """The number of racks that have a usable broker."""
        return len(np.unique(self.rack[self.usable]))

    def previous(self) -> list[list[int]]:
        """Returns the replicas of each partition, without `NO_BROKER`."""
        return rows_of(self.current, self.current != NO_BROKER)

    def racks_needed(self) -> IntArray:
        """Returns the number of racks that the replicas of each partition must span: as many as possible."""
        return np.minimum(self.replication_factor, self.usable_racks)


def usable_replicas(cluster: ReplicaCluster) -> BoolArray:
    """Returns a mask of the entries of `current` that are on usable brokers."""
    usable: BoolArray = (cluster.current != NO_BROKER) & cluster.usable[cluster.current]
    return usable


def rows_of(values: IntArray, counted: BoolArray) -> list[list[int]]:
    """Returns the `counted` entries of each row: one long row doesn't make the others long."""
    flat, ends = values[counted].tolist(), np.cumsum(counted.sum(axis=1)).tolist()
    return [flat[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)] if ends else []


def count_distinct(values: IntArray, counted: BoolArray) -> IntArray:
    """Returns the number of distinct values among the `counted` entries of each row."""
    ordered = np.sort(np.where(counted, values, -1), axis=1)
    is_new = np.diff(ordered, axis=1, prepend=-1) != 0
    return np.asarray(is_new.sum(axis=1), np.int64)


@dataclass(frozen=True)
class BrokerShares:
    """The even share of each broker and the bounds around it, in units of weight; all 0 for unusable brokers."""

    share: FloatArray
    least: FloatArray
    most: FloatArray


def fair_shares(cluster: ReplicaCluster, tolerance: float) -> BrokerShares:
    """Returns each broker's share of the replicas.

    Args:
        cluster: the cluster.
        tolerance: the largest deviation of a broker from its share, as a fraction of the share. Counts are whole
            numbers: those within the tolerance, and in any case the two next to the share. A share of 3.25 replicas
            with tolerance 0.1 allows 3 or 4.
    """
    share = np.zeros(len(cluster.rack))
    total = float((cluster.weight * cluster.replication_factor).sum())
    racks, sizes = np.unique(cluster.rack[cluster.usable], return_counts=True)
    low, high = _rack_bounds(cluster, sizes)
    level = _level(sizes.astype(float), low, high, total)
    for rack, size, weight in zip(racks, sizes, np.clip(sizes * level, low, high), strict=True):
        share[cluster.usable & (cluster.rack == rack)] = weight / size
    return _bounds(share, tolerance, cluster.weighed)


def leader_shares(cluster: ReplicaCluster, tolerance: float) -> BrokerShares:
    """Returns each broker's share of the preferred leaders: the same count for all usable brokers."""
    share = np.where(cluster.usable, len(cluster.current) / max(cluster.usable.sum(), 1), 0.0)
    return _bounds(share, tolerance, weighed=False)


def _bounds(share: FloatArray, tolerance: float, weighed: bool) -> BrokerShares:
    least, most = share * (1 - tolerance), share * (1 + tolerance)
    if weighed:
        return BrokerShares(share, np.maximum(least, 0), most)
    return BrokerShares(share, *whole_bounds(share, np.maximum(least, 0), most))


def whole_bounds(share: FloatArray, least: FloatArray, most: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Returns the bounds of a count: the whole numbers from `least` to `most`, and those next to the share."""
    least = np.minimum(np.ceil(least - _EPSILON), np.floor(share + _EPSILON))
    return least, np.maximum(np.floor(most + _EPSILON), np.ceil(share - _EPSILON))


def _rack_bounds(cluster: ReplicaCluster, sizes: IntArray) -> tuple[FloatArray, FloatArray]:
    """Returns the minimum and the maximum weight that valid placements can put in each usable rack."""
    most, least = np.zeros(len(sizes)), np.zeros(len(sizes))
    for replication_factor in np.unique(cluster.replication_factor).tolist():
        weight = float(cluster.weight[cluster.replication_factor == replication_factor].sum())
        racks_needed = min(replication_factor, len(sizes))
        extra = replication_factor - racks_needed
        # The maximum number of replicas of a partition outside each rack.
        elsewhere = np.minimum(min(racks_needed, len(sizes) - 1) + extra, sizes.sum() - sizes)
        most += weight * np.minimum(sizes, 1 + extra)
        least += weight * np.maximum(replication_factor - elsewhere, 0)
    return least, most


def _level(sizes: FloatArray, low: FloatArray, high: FloatArray, total: float) -> float:
    """Returns the level at which racks of these sizes, clipped to their bounds, hold the total."""
    below, above = 0.0, max(total, 1.0)
    for _ in range(_BISECTIONS):
        level = (below + above) / 2
        if float(np.clip(sizes * level, low, high).sum()) < total:
            below = level
        else:
            above = level
    return above
