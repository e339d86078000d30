"""Plans the reassignment of one cluster: hard constraints first, then as few moves as possible, then balance.

Order of priority
    1. Every partition has its replication factor, on distinct brokers that are neither removed nor fenced, in as many
       racks as possible.
    2. As few replicas move as 1 allows (`choose_kept`: exact).
    3. Replicas are balanced over brokers and racks, within a tolerance: vacancies go to brokers below their shares
       (`fill_vacancies`), and if voluntary moves are allowed, more replicas move (`balance_replicas`: heuristic).
    4. Preferred leaders are balanced, within the same tolerance, by the order of replicas alone (`choose_leaders`:
       exact for the chosen replicas).

Example: brokers 0 1 | 2 3 in two racks, t-0 [0, 2], t-1 [1, 3]; broker 3 is removed. t-0 keeps both replicas. t-1
keeps 1 and needs a replica in the other rack: [1, 2]. That is one move, the lower bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from spark_assign.numeric.array_types import BoolArray, FloatArray, IntArray
from spark_assign.replicas.kernel.preferred_leaders import choose_leaders
from spark_assign.replicas.kernel.rebalance_replicas import balance_replicas
from spark_assign.replicas.kernel.replica_cluster import (
    NO_BROKER,
    BrokerShares,
    ReplicaCluster,
    fair_shares,
    leader_shares,
    usable_replicas,
)
from spark_assign.replicas.kernel.retained_replicas import choose_kept, fill_vacancies, most_kept, sum_load


@dataclass(frozen=True)
class LowerBound:
    """The minimum number of moves of any plan, and the minimum weight that moves."""

    moves: int
    weight: int


@dataclass(frozen=True)
class ReassignmentPlan:
    """The plan for one cluster.

    Args:
        replicas: the broker indexes of each partition, the preferred leader first.
        required: the lower bound of the hard constraints alone.
        lower_bound: the lower bound of the hard constraints and, if voluntary moves are allowed, of balance.
        shares: even shares of replicas and their bounds.
        leader_shares: even shares of preferred leaders and their bounds.
    """

    replicas: list[list[int]]
    required: LowerBound
    lower_bound: LowerBound
    shares: BrokerShares
    leader_shares: BrokerShares


def reassign(cluster: ReplicaCluster, tolerance: float, *, voluntary: bool) -> ReassignmentPlan:
    """Plans a cluster; each replication factor must be from 1 to the number of usable brokers."""
    shares = fair_shares(cluster, tolerance)
    kept = most_kept(cluster)
    staying = choose_kept(cluster, kept, shares)
    assigned = fill_vacancies(cluster, staying, shares)
    balance_replicas(cluster, assigned, shares, voluntary=voluntary)
    shares_of_leaders = leader_shares(cluster, tolerance)
    leader = choose_leaders(cluster, assigned, shares_of_leaders)
    replicas = [
        [first, *(broker for broker in brokers if broker != first)]
        for first, brokers in zip(leader, assigned, strict=True)
    ]
    required = _required_moves(cluster, kept)
    lower_bound = _add_balance(cluster, kept, required, shares) if voluntary else required
    return ReassignmentPlan(replicas, required, lower_bound, shares, shares_of_leaders)


def _existing(cluster: ReplicaCluster) -> BoolArray:
    """Returns a mask of the partitions that exist already: the replicas of new ones are placed, not moved."""
    existing: BoolArray = (cluster.current != NO_BROKER).any(axis=1)
    return existing


def _required_moves(cluster: ReplicaCluster, kept: IntArray) -> LowerBound:
    moved = np.where(_existing(cluster), cluster.replication_factor - kept, 0)
    return LowerBound(int(moved.sum()), int((moved * cluster.weight).sum()))


def _add_balance(cluster: ReplicaCluster, kept: IntArray, required: LowerBound, shares: BrokerShares) -> LowerBound:
    """Adds balance to a bound: the excess of brokers above their bounds moves, and the deficit of those below arrives.

    Only a replica of a partition that could keep all of its replicas adds a move when it leaves.
    """
    usable = usable_replicas(cluster)
    keepable = sum_load(cluster, usable & (usable.sum(axis=1) == kept)[:, None])
    excess = float(np.maximum(keepable - shares.most, 0)[cluster.usable].sum())
    heaviest = int(cluster.weight.max(initial=1))
    arriving = _arrivals(cluster, shares)
    moves = max(required.moves + _round_up(excess / heaviest), _round_up(arriving / heaviest))
    return LowerBound(moves, max(required.weight + _round_up(excess), _round_up(arriving)))


def _arrivals(cluster: ReplicaCluster, shares: BrokerShares) -> float:
    """Returns the minimum weight of existing partitions that must arrive in the racks, in total.

    For each rack this is the larger of two weights: the deficit of its brokers less what new partitions can bring (at
    most one replica per broker), and one replica of every partition that must span all racks and isn't in this one.
    """
    usable, existing = usable_replicas(cluster), _existing(cluster)
    deficit = np.maximum(shares.least - sum_load(cluster, usable), 0)
    new_weight, new_factor = cluster.weight[~existing], cluster.replication_factor[~existing]
    spans_all_racks = existing & (cluster.racks_needed() == cluster.usable_racks)
    total = 0.0
    for rack in np.unique(cluster.rack[cluster.usable]):
        members = cluster.usable & (cluster.rack == rack)
        absent = spans_all_racks & ~(usable & members[cluster.current]).any(axis=1)
        max_new = np.minimum(new_factor - np.minimum(new_factor, cluster.usable_racks) + 1, members.sum())
        per_broker = float(np.maximum(deficit[members] - new_weight.sum(), 0).sum())
        in_total = float(deficit[members].sum() - (max_new * new_weight).sum())
        total += max(float(cluster.weight[absent].sum()), per_broker, in_total)
    return total


def _round_up(amount: float) -> int:
    return max(0, math.ceil(amount - 1e-6))


def broker_loads(cluster: ReplicaCluster, replicas: list[list[int]]) -> tuple[IntArray, IntArray, IntArray]:
    """Returns each broker's number of replicas, their weight, and the number of partitions that it leads."""
    flat = np.fromiter((broker for brokers in replicas for broker in brokers), np.int64)
    sizes = np.fromiter((len(brokers) for brokers in replicas), np.int64, len(replicas))
    weight = np.zeros(len(cluster.rack), np.int64)
    np.add.at(weight, flat, np.repeat(cluster.weight, sizes))
    first = np.fromiter((brokers[0] for brokers in replicas), np.int64, len(replicas))
    num_brokers = len(cluster.rack)
    return np.bincount(flat, minlength=num_brokers), weight, np.bincount(first, minlength=num_brokers)


def count_unbalanced(load: IntArray | FloatArray, shares: BrokerShares, usable: BoolArray) -> int:
    """Returns the number of usable brokers outside their bounds."""
    slack = 1e-6 * (1 + shares.share)
    outside = (load > shares.most + slack) | (load < shares.least - slack)
    return int((outside & usable).sum())
