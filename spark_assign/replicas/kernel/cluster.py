"""One cluster before a reassignment: its brokers, its partitions as numbers, and what has to hold afterwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_assign.numeric.array_types import BoolArray, IntArray

NO_BROKER = -1


@dataclass(frozen=True)
class ReplicaCluster:
    """Brokers and partitions, both by number.

    Args:
        rack: of each broker; all brokers without a rack are one rack.
        usable: which brokers may have replicas afterwards: neither removed nor fenced.
        current: of each partition (a row) its replicas in order, as broker numbers, filled up with `NO_BROKER`; a
            partition that is to be added has none.
        replication_factor: of each partition, afterwards.
        weight: of each partition's replica: 1, or its bytes.
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
        """Racks that have a usable broker."""
        return len(np.unique(self.rack[self.usable]))

    def racks_needed(self) -> IntArray:
        """Of each partition how many racks its replicas have to be in: as many as possible."""
        return np.minimum(self.replication_factor, self.usable_racks)


def usable_replicas(cluster: ReplicaCluster) -> BoolArray:
    """Which entries of `current` are on usable brokers."""
    usable: BoolArray = (cluster.current != NO_BROKER) & cluster.usable[cluster.current]
    return usable


def count_distinct(values: IntArray, counted: BoolArray) -> IntArray:
    """Of each row how many different values its counted entries have."""
    if not values.shape[1]:
        return np.zeros(len(values), np.int64)
    missing = np.int64(-1)
    ordered = np.sort(np.where(counted, values, missing), axis=1)
    new = np.ones(ordered.shape, bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    distinct: IntArray = (new & (ordered != missing)).sum(axis=1)
    return distinct
