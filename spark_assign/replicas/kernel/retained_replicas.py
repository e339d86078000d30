"""The replicas that stay, with the fewest moves that the hard constraints allow, and the brokers of vacancies.

A partition of replication factor f in a cluster of R usable racks must span min(f, R) racks, so that f - min(f, R) of
its replicas can share a rack with another replica. Of its replicas on usable brokers it can therefore keep one per rack
that they span, plus f - min(f, R), and at most f. Partitions don't restrict each other here, so the number of replicas
that they can't keep is the exact minimum of moves. A vacancy goes to the broker that is furthest below its share.
"""

from __future__ import annotations

import numpy as np

from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.replicas.kernel.replica_cluster import (
    NO_BROKER,
    BrokerShares,
    ReplicaCluster,
    count_distinct,
    usable_replicas,
)


def most_kept(cluster: ReplicaCluster) -> IntArray:
    """Returns the maximum number of replicas that each partition can keep."""
    usable = usable_replicas(cluster)
    racks = count_distinct(cluster.rack[cluster.current], usable)
    may_share = cluster.replication_factor - cluster.racks_needed()
    kept: IntArray = np.minimum(cluster.replication_factor, racks + np.minimum(may_share, usable.sum(axis=1) - racks))
    return kept


def choose_kept(cluster: ReplicaCluster, kept: IntArray, shares: BrokerShares) -> BoolArray:
    """Returns a mask of the entries of `current` that stay, `kept` in each row; the most loaded brokers lose first."""
    staying = usable_replicas(cluster)
    weight = cluster.weight.tolist()
    rack = cluster.rack.tolist()
    share = shares.share.tolist()
    load = sum_load(cluster, staying).tolist()
    may_share = (cluster.replication_factor - cluster.racks_needed()).tolist()
    for partition in np.flatnonzero(staying.sum(axis=1) > kept).tolist():
        brokers = cluster.current[partition].tolist()
        slots = np.flatnonzero(staying[partition]).tolist()
        while len(slots) > kept[partition]:
            racks = [rack[brokers[slot]] for slot in slots]
            too_many = len(slots) - len(set(racks)) > may_share[partition]
            droppable = [slot for slot in slots if not too_many or racks.count(rack[brokers[slot]]) > 1]
            # The preferred leader stays if possible; of equally loaded brokers, the later replica goes.
            dropped = max(
                droppable, key=lambda slot: (slot > 0, load[brokers[slot]] / max(share[brokers[slot]], 1e-12), slot)
            )
            slots.remove(dropped)
            staying[partition, dropped] = False
            load[brokers[dropped]] -= weight[partition]
    return staying


def fill_vacancies(cluster: ReplicaCluster, staying: BoolArray, shares: BrokerShares) -> list[list[int]]:
    """Returns the replicas of each partition after the change; replicas that stay keep their position in the list.

    The vacancies of the heaviest partition are filled first, then by partition index.
    """
    kept = np.where(staying, cluster.current, NO_BROKER).tolist()
    assigned = [[broker for broker in row if broker != NO_BROKER] for row in kept]
    num_vacancies = cluster.replication_factor - staying.sum(axis=1)
    vacant = np.flatnonzero(num_vacancies > 0)
    vacant = vacant[np.argsort(-cluster.weight[vacant], kind="stable")]
    share = np.where(cluster.usable, np.maximum(shares.share, 1e-12), 1.0)
    relative_load = np.where(cluster.usable, sum_load(cluster, staying) / share, np.inf)
    rack_brokers = {rack: np.flatnonzero(cluster.rack == rack) for rack in np.unique(cluster.rack).tolist()}
    broker_rack = cluster.rack.tolist()
    needed = cluster.racks_needed().tolist()
    vacated_positions = _vacated_positions(cluster.current, staying)
    for partition in vacant.tolist():
        replicas = assigned[partition]
        racks = {broker_rack[broker] for broker in replicas}
        positions = vacated_positions.get(partition, [])
        for missing in range(int(num_vacancies[partition]), 0, -1):
            candidates = relative_load.copy()
            candidates[replicas] = np.inf
            if len(racks) + missing <= needed[partition]:
                for rack in racks:
                    candidates[rack_brokers[rack]] = np.inf
            broker = int(candidates.argmin())
            replicas.insert(positions.pop(0) if positions else len(replicas), broker)
            racks.add(broker_rack[broker])
            relative_load[broker] += cluster.weight[partition] / share[broker]
    return assigned


def _vacated_positions(current: IntArray, staying: BoolArray) -> dict[int, list[int]]:
    """Returns, for each partition that loses replicas, the positions of those in its list."""
    positions: dict[int, list[int]] = {}
    for partition, position in np.argwhere((current != NO_BROKER) & ~staying).tolist():
        positions.setdefault(partition, []).append(position)
    return positions


def sum_load(cluster: ReplicaCluster, counted: BoolArray) -> IntArray:
    """Returns the weight of the `counted` entries of `current` on each broker."""
    weights = np.broadcast_to(cluster.weight[:, None], cluster.current.shape)[counted]
    brokers = cluster.current[counted]
    if not cluster.weighed:
        return np.bincount(brokers, minlength=len(cluster.rack)).astype(np.int64)
    result = np.zeros(len(cluster.rack), np.int64)
    np.add.at(result, brokers, weights)
    return result
