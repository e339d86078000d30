"""What is even: the share of each broker, and how far from it a broker may be.

Brokers share alike as far as racks allow. A rack of few brokers must hold more than its share where every partition
needs a replica in every rack; a rack of many cannot hold more than the partitions can put there. So one level is
sought, at which racks hold (brokers x level), each kept between the least and the most that the partitions allow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_assign.numeric.array_types import FloatArray
from spark_assign.replicas.kernel.cluster import ReplicaCluster

_HALVINGS = 100
_EXACT = 1e-9


@dataclass(frozen=True)
class BrokerShares:
    """Of each broker the even share and the bounds around it, in units of weight; all 0 for unusable brokers."""

    share: FloatArray
    least: FloatArray
    most: FloatArray


def fair_shares(cluster: ReplicaCluster, tolerance: float) -> BrokerShares:
    """The shares of replicas.

    Args:
        cluster: the cluster.
        tolerance: how far from its share a broker may be, as a part of the share. Bounds of counts are rounded away
            from the share: 1.05 replicas with tolerance 0 may be 1 or 2.
    """
    share = np.zeros(len(cluster.rack))
    total = float((cluster.weight * cluster.replication_factor).sum())
    racks, sizes = np.unique(cluster.rack[cluster.usable], return_counts=True)
    low, high = _rack_bounds(cluster, sizes)
    level = _level(sizes.astype(float), low, high, total)
    held = np.clip(sizes * level, low, high)
    for rack, size, weight in zip(racks, sizes, held, strict=True):
        share[cluster.usable & (cluster.rack == rack)] = weight / size
    return _bounds(share, tolerance, cluster.weighed)


def leader_shares(cluster: ReplicaCluster, tolerance: float) -> BrokerShares:
    """The shares of preferred leaders, counted: all usable brokers alike."""
    share = np.where(cluster.usable, len(cluster.current) / max(cluster.usable.sum(), 1), 0.0)
    return _bounds(share, tolerance, weighed=False)


def _bounds(share: FloatArray, tolerance: float, weighed: bool) -> BrokerShares:
    least, most = share * (1 - tolerance), share * (1 + tolerance)
    if weighed:
        return BrokerShares(share, np.maximum(least, 0), most)
    return BrokerShares(share, np.floor(np.maximum(least, 0) + _EXACT), np.ceil(most - _EXACT))


def _rack_bounds(cluster: ReplicaCluster, sizes: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
    """Of each usable rack the least and the most weight that valid placements can put there."""
    most, least = np.zeros(len(sizes)), np.zeros(len(sizes))
    kinds, of_kind = np.unique(cluster.replication_factor, return_inverse=True)
    for kind, replication_factor in enumerate(kinds.tolist()):
        weight = float(cluster.weight[of_kind == kind].sum())
        racks_needed = min(replication_factor, len(sizes))
        extra = replication_factor - racks_needed
        in_rack = np.minimum(sizes, 1 + extra)
        elsewhere = np.array([_most_elsewhere(sizes, at, racks_needed, extra) for at in range(len(sizes))])
        most += weight * in_rack
        least += weight * np.maximum(replication_factor - elsewhere, 0)
    return least, most


def _most_elsewhere(sizes: NDArray[np.int64], rack: int, racks_needed: int, extra: int) -> int:
    """How many replicas of a partition can be outside this rack."""
    others = np.delete(sizes, rack)
    must_be_here = racks_needed > len(others)
    one_each = racks_needed - (1 if must_be_here else 0)
    return int(min(one_each + extra, others.sum()))


def _level(sizes: FloatArray, low: FloatArray, high: FloatArray, total: float) -> float:
    """The level at which racks of these sizes, kept in their bounds, hold the total."""
    below, above = 0.0, max(total, 1.0)
    for _ in range(_HALVINGS):
        level = (below + above) / 2
        if float(np.clip(sizes * level, low, high).sum()) < total:
            below = level
        else:
            above = level
    return above
