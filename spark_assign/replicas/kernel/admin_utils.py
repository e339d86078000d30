"""Kafka's `AdminUtils.assignReplicasToBrokers`: the placement of ZooKeeper-based clusters and of their tools.

Principles
    1. The first replica goes around the list of brokers, partition by partition.
    2. The followers are at a distance behind it that grows by one (the shift) with every round over the list.
    3. If brokers have racks, the list takes one broker of each rack in turn, and a follower skips the racks that
       already have a replica until every rack has one.

Example: racks rack1 {0, 5}, rack2 {3, 4}, rack3 {1, 2} give the list 0 3 1 5 4 2. From start index 0, three replicas:
    p0: 0 3 1   p1: 3 1 5   p2: 1 5 4   p3: 5 4 2   p4: 4 2 0   p5: 2 0 3   p6: 0 4 2 (the second round, shift 1)

Given its shift, every partition is independent of the other partitions. All brokers have a rack, or none has.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from spark_assign.numeric.arrays import IntArray, values_by_key
from spark_assign.replicas.kernel.cluster_brokers import (
    ADMIN_OPERATION,
    INVALID_PARTITIONS,
    INVALID_REPLICATION_FACTOR,
    ClusterBrokers,
    PlacementError,
    java_order,
)

_MAX_CACHED_REPLICAS = 1_000_000
"""Largest table of all placements to cache, in replicas: 100 brokers and 3 replicas need 29,700."""


def find_error(partitions: int, replication_factor: int, num_brokers: int, num_racked: int) -> PlacementError | None:
    """Returns the exception that Kafka throws for a request, in Kafka's order of checks, or None.

    Args:
        partitions, replication_factor: the request.
        num_brokers, num_racked: the number of brokers in the cluster, and of those that have a rack.
    """
    if partitions <= 0:
        return PlacementError(INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        return PlacementError(INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if replication_factor > num_brokers:
        message = f"Replication factor: {replication_factor} larger than available brokers: {num_brokers}."
        return PlacementError(INVALID_REPLICATION_FACTOR, message)
    if 0 < num_racked < num_brokers:
        message = "Not all brokers have rack information for replica rack aware assignment."
        return PlacementError(ADMIN_OPERATION, message)
    return None


def rack_alternated_brokers(brokers: ClusterBrokers) -> list[int]:
    """Returns indexes into `brokers.ids`: one broker of each rack in turn (`getRackAlternatedBrokerList`).

    Racks are sorted as strings, and the brokers of a rack by id.
    """
    by_id = sorted(range(len(brokers.ids)), key=lambda index: brokers.ids[index])
    rack_brokers = values_by_key((brokers.racks[index], index) for index in by_id)
    turns = [
        (turn, *java_order(rack), index) for rack, indexes in rack_brokers.items() for turn, index in enumerate(indexes)
    ]
    return [index for *_, index in sorted(turns)]


def shift_base(shift: int, start_partition: int, num_brokers: int) -> int:
    """Returns `base`, for which the shift of partition p is `base + p // num_brokers`; `shift` is a call's first one.

    The shift grows at every partition above 0 that is a multiple of the number of brokers, also at a call's first.
    """
    return shift - (max(start_partition, 1) - 1) // num_brokers


def assign_replicas_to_brokers(
    brokers: ClusterBrokers, replication_factor: int, start_index: int, base: int, first: int, count: int
) -> IntArray:
    """Returns the broker ids of partitions `first`, `first` + 1, …, shape (count, replication_factor).

    Args:
        brokers: a cluster for which `find_error` returns None.
        replication_factor: the number of replicas of each partition.
        start_index: the index of partition 0's first replica in the list of brokers.
        base: see `shift_base`.
        first, count: the first partition, and the number of partitions.
    """
    partition = np.arange(first, first + count)
    num_brokers = len(brokers.ids)
    leader = (partition + start_index) % num_brokers
    shift = base + partition // num_brokers
    if not brokers.num_racked:
        return _assign_rack_unaware(np.array(brokers.ids), replication_factor, leader, shift)
    num_racks = len(set(brokers.racks))
    distance = shift * num_racks % max(num_brokers - 1, 1)
    num_placements = num_brokers * max(num_brokers - 1, 1)
    if count * 4 >= num_placements and num_placements * replication_factor <= _MAX_CACHED_REPLICAS:
        placements: IntArray = _all_placements(brokers, replication_factor)[distance, leader]
        return placements
    return _assign_rack_aware(brokers, replication_factor, leader, distance)


def _assign_rack_unaware(ids: IntArray, replication_factor: int, leader: IntArray, shift: IntArray) -> IntArray:
    """Computes every follower in closed form (`assignReplicasToBrokersRackUnaware`)."""
    num_brokers = len(ids)
    column = np.arange(replication_factor - 1)
    followers = 1 + (shift[:, None] + column) % max(num_brokers - 1, 1)
    replicas: IntArray = ids[np.concatenate([leader[:, None], (leader[:, None] + followers) % num_brokers], axis=1)]
    return replicas


@lru_cache(maxsize=16)
def _all_placements(brokers: ClusterBrokers, replication_factor: int) -> IntArray:
    """Returns all possible placements, indexed by the followers' distance and by the position of the first replica."""
    num_brokers = len(brokers.ids)
    distance, leader = np.divmod(np.arange(max(num_brokers - 1, 1) * num_brokers), num_brokers)
    return _assign_rack_aware(brokers, replication_factor, leader, distance).reshape(
        -1, num_brokers, replication_factor
    )


def _assign_rack_aware(
    brokers: ClusterBrokers, replication_factor: int, leader: IntArray, distance: IntArray
) -> IntArray:
    """Tries candidate by candidate, for all partitions at once, until all replicas are placed.

    This is `assignReplicasToBrokersRackAware`, vectorized.
    """
    broker_order = rack_alternated_brokers(brokers)
    num_brokers = len(broker_order)
    rack_index = {rack: index for index, rack in enumerate(dict.fromkeys(brokers.racks))}
    broker_rack = np.array([rack_index[brokers.racks[index]] for index in broker_order])
    num_racks = len(rack_index)
    chosen = np.empty((len(leader), replication_factor), np.int64)
    chosen[:, 0] = leader
    has_broker = np.zeros((len(leader), num_brokers), bool)
    has_rack = np.zeros((len(leader), num_racks), bool)
    all_partitions = np.arange(len(leader))
    has_broker[all_partitions, leader] = True
    has_rack[all_partitions, broker_rack[leader]] = True
    num_placed = np.ones(len(leader), np.int64)
    incomplete = all_partitions if replication_factor > 1 else all_partitions[:0]
    candidate_index = 0
    while len(incomplete):
        candidate = (
            leader[incomplete] + 1 + (distance[incomplete] + candidate_index) % (num_brokers - 1)
        ) % num_brokers
        rack = broker_rack[candidate]
        has_all_racks = np.minimum(num_placed[incomplete], num_racks) == num_racks
        fits = (~has_rack[incomplete, rack] | has_all_racks) & ~has_broker[incomplete, candidate]
        fitting, candidate, rack = incomplete[fits], candidate[fits], rack[fits]
        chosen[fitting, num_placed[fitting]] = candidate
        has_broker[fitting, candidate] = True
        has_rack[fitting, rack] = True
        num_placed[fitting] += 1
        incomplete = incomplete[num_placed[incomplete] < replication_factor]
        candidate_index += 1
    ids: IntArray = np.array(brokers.ids)[np.array(broker_order)][chosen]
    return ids
