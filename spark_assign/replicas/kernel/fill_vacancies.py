"""Vacancies get a broker: the one furthest below its share, of those that the racks allow."""

from __future__ import annotations

import numpy as np

from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.replicas.kernel.broker_shares import BrokerShares
from spark_assign.replicas.kernel.cluster import NO_BROKER, ReplicaCluster
from spark_assign.replicas.kernel.retained_replicas import loads


def fill(cluster: ReplicaCluster, staying: BoolArray, shares: BrokerShares) -> list[list[int]]:
    """Of each partition its replicas afterwards; those that stay keep their place in the list.

    Vacancies are filled the heaviest first, then by partition number.
    """
    kept = np.where(staying, cluster.current, NO_BROKER).tolist()
    assigned = [[broker for broker in row if broker != NO_BROKER] for row in kept]
    open_places = cluster.replication_factor - staying.sum(axis=1)
    vacant = np.flatnonzero(open_places > 0)
    vacant = vacant[np.argsort(-cluster.weight[vacant], kind="stable")]
    share = np.where(cluster.usable, np.maximum(shares.share, 1e-12), 1.0)
    relative = np.where(cluster.usable, loads(cluster, staying) / share, np.inf)
    members = {rack: np.flatnonzero(cluster.rack == rack) for rack in np.unique(cluster.rack).tolist()}
    rack = cluster.rack.tolist()
    needed = cluster.racks_needed().tolist()
    order = _positions(cluster.current, staying)
    for partition in vacant.tolist():
        replicas = assigned[partition]
        racks = {rack[broker] for broker in replicas}
        places = order.get(partition, [])
        for missing in range(int(open_places[partition]), 0, -1):
            candidates = relative.copy()
            candidates[replicas] = np.inf
            if len(racks) + missing <= needed[partition]:
                for taken in racks:
                    candidates[members[taken]] = np.inf
            broker = int(candidates.argmin())
            replicas.insert(places.pop(0) if places else len(replicas), broker)
            racks.add(rack[broker])
            relative[broker] += cluster.weight[partition] / share[broker]
    return assigned


def _positions(current: IntArray, staying: BoolArray) -> dict[int, list[int]]:
    """Of each partition that loses replicas the places which those had in its list."""
    partitions, places = np.nonzero((current != NO_BROKER) & ~staying)
    result: dict[int, list[int]] = {}
    for partition, place in zip(partitions.tolist(), places.tolist(), strict=True):
        result.setdefault(partition, []).append(place)
    return result
