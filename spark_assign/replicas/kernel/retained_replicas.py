"""What can stay: the fewest moves that the hard constraints allow, and which replicas go where there is a choice.

A partition of replication factor f in a cluster of R usable racks must be in min(f, R) racks, so that f - min(f, R) of
its replicas may share a rack with another one. Of its replicas on usable brokers it can therefore keep one for each
rack that they are in, that many more, and f at most. Partitions do not hinder each other here, so the sum of what they
cannot keep is the exact minimum of moves.
"""

from __future__ import annotations

import numpy as np

from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.replicas.kernel.broker_shares import BrokerShares
from spark_assign.replicas.kernel.cluster import ReplicaCluster, count_distinct, usable_replicas


def most_kept(cluster: ReplicaCluster) -> IntArray:
    """Of each partition how many of its replicas can stay."""
    usable = usable_replicas(cluster)
    there = usable.sum(axis=1)
    racks = count_distinct(cluster.rack[cluster.current], usable)
    may_share = cluster.replication_factor - cluster.racks_needed()
    kept: IntArray = np.minimum(cluster.replication_factor, racks + np.minimum(may_share, there - racks))
    return kept


def choose_kept(cluster: ReplicaCluster, kept: IntArray, shares: BrokerShares) -> BoolArray:
    """Which entries of `current` stay, `kept` in each row; the most loaded brokers give up theirs first."""
    staying = usable_replicas(cluster)
    choosing = np.flatnonzero(staying.sum(axis=1) > kept)
    weight = cluster.weight.tolist()
    rack = cluster.rack.tolist()
    share = shares.share.tolist()
    load = loads(cluster, staying).tolist()
    may_share = (cluster.replication_factor - cluster.racks_needed()).tolist()
    for partition in choosing.tolist():
        brokers = cluster.current[partition].tolist()
        here = np.flatnonzero(staying[partition]).tolist()
        while len(here) > kept[partition]:
            racks = [rack[brokers[at]] for at in here]
            too_many = len(here) - len(set(racks)) > may_share[partition]
            droppable = [at for at, its in zip(here, racks, strict=True) if not too_many or racks.count(its) > 1]
            # The preferred leader stays where it can; of equally loaded brokers the later replica goes.
            gone = max(droppable, key=lambda at: (at > 0, load[brokers[at]] / max(share[brokers[at]], 1e-12), at))
            here.remove(gone)
            staying[partition, gone] = False
            load[brokers[gone]] -= weight[partition]
    return staying


def loads(cluster: ReplicaCluster, counted: BoolArray) -> IntArray:
    """Of each broker the weight of the counted entries of `current`."""
    weights = np.broadcast_to(cluster.weight[:, None], cluster.current.shape)[counted]
    brokers = cluster.current[counted]
    if not cluster.weighed:
        return np.bincount(brokers, minlength=len(cluster.rack)).astype(np.int64)
    result = np.zeros(len(cluster.rack), np.int64)
    np.add.at(result, brokers, weights)
    return result
