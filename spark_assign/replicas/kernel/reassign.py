"""A reassignment of one cluster: hard constraints first, then as few moves as possible, then balance.

Order of priority
    1. Every partition has its replication factor, on different brokers, in as many racks as possible, none of them
       removed or fenced.
    2. The fewest replicas move that 1 allows (`retained_replicas`: exact).
    3. Replicas are even over brokers and racks, within a tolerance: vacancies are filled for it (`fill`), and where
       voluntary moves are allowed, more replicas move until it holds (`even_out`: heuristic).
    4. Preferred leaders are even, within the same tolerance, by the order of replicas alone (`leaders`: exact, given
       where the replicas are).

Example: brokers 0 1 | 2 3 in two racks, t-0 [0, 2], t-1 [1, 3]; broker 3 goes. t-0 keeps both, t-1 keeps 1 and needs
a replica in the other rack: [1, 2]. One move, which is the lower bound.
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
    """A number of moves that no plan can go below, and the same in weight."""

    moves: int
    weight: int


@dataclass(frozen=True)
class ReassignmentPlan:
    """A plan for one cluster.

    Args:
        replicas: of each partition its brokers, the preferred leader first.
        required: the bound of the hard constraints alone.
        lower_bound: the bound of the hard constraints and, where voluntary moves are allowed, of balance.
        shares: even shares of replicas and their bounds; `leader_shares` the same of preferred leaders.
    """

    replicas: list[list[int]]
    required: LowerBound
    lower_bound: LowerBound
    shares: BrokerShares
    leader_shares: BrokerShares


def reassign(cluster: ReplicaCluster, tolerance: float, *, voluntary: bool) -> ReassignmentPlan:
    """Plan a cluster; each replication factor must be 1 or more, and no more than there are usable brokers."""
    shares = fair_shares(cluster, tolerance)
    kept = most_kept(cluster)
    staying = choose_kept(cluster, kept, shares)
    assigned = fill_vacancies(cluster, staying, shares)
    balance_replicas(cluster, assigned, shares, voluntary=voluntary)
    leading = leader_shares(cluster, tolerance)
    leader = choose_leaders(cluster, assigned, leading)
    replicas = [
        [first, *(broker for broker in each if broker != first)] for first, each in zip(leader, assigned, strict=True)
    ]
    forced = _forced(cluster, kept)
    bound = _with_balance(cluster, kept, forced, shares) if voluntary else forced
    return ReassignmentPlan(replicas, forced, bound, shares, leading)


def _existing(cluster: ReplicaCluster) -> BoolArray:
    """Partitions that are there already: the replicas of new ones are placed, not moved."""
    existing: BoolArray = (cluster.current != NO_BROKER).any(axis=1)
    return existing


def _forced(cluster: ReplicaCluster, kept: IntArray) -> LowerBound:
    moved = np.where(_existing(cluster), cluster.replication_factor - kept, 0)
    return LowerBound(int(moved.sum()), int((moved * cluster.weight).sum()))


def _with_balance(cluster: ReplicaCluster, kept: IntArray, forced: LowerBound, shares: BrokerShares) -> LowerBound:
    """Brokers above their bounds have to give what is above; brokers below have to get what is missing.

    Only replicas of partitions that could keep all of theirs are sure to cost a move where they leave.
    """
    usable = usable_replicas(cluster)
    sure = sum_load(cluster, usable & (usable.sum(axis=1) == kept)[:, None])
    surplus = float(np.maximum(sure - shares.most, 0)[cluster.usable].sum())
    heaviest = int(cluster.weight.max(initial=1))
    arriving = _arrivals(cluster, shares)
    moves = max(forced.moves + _at_least(surplus / heaviest), _at_least(arriving / heaviest))
    return LowerBound(moves, max(forced.weight + _at_least(surplus), _at_least(arriving)))


def _arrivals(cluster: ReplicaCluster, shares: BrokerShares) -> float:
    """Weight that has to arrive in the racks, of partitions that are there.

    In a rack arrives what its brokers are short of, less what new partitions may bring there (to each broker one
    replica), and a replica of every partition that must be in all racks and is not in this one: at least the larger.
    """
    usable, existing = usable_replicas(cluster), _existing(cluster)
    short = np.maximum(shares.least - sum_load(cluster, usable), 0)
    new_weight, new_factor = cluster.weight[~existing], cluster.replication_factor[~existing]
    everywhere = existing & (cluster.racks_needed() == cluster.usable_racks)
    total = 0.0
    for rack in np.unique(cluster.rack[cluster.usable]):
        members = cluster.usable & (cluster.rack == rack)
        absent = everywhere & ~(usable & members[cluster.current]).any(axis=1)
        most_here = np.minimum(new_factor - np.minimum(new_factor, cluster.usable_racks) + 1, members.sum())
        one_each = float(np.maximum(short[members] - new_weight.sum(), 0).sum())
        all_together = float(short[members].sum() - (most_here * new_weight).sum())
        total += max(float(cluster.weight[absent].sum()), one_each, all_together)
    return total


def _at_least(amount: float) -> int:
    return max(0, math.ceil(amount - 1e-6))


def broker_loads(cluster: ReplicaCluster, replicas: list[list[int]]) -> tuple[IntArray, IntArray, IntArray]:
    """Of each broker its replicas, their weight, and the partitions that it leads, all counted afterwards."""
    flat = np.fromiter((broker for each in replicas for broker in each), np.int64)
    sizes = np.fromiter((len(each) for each in replicas), np.int64, len(replicas))
    weight = np.zeros(len(cluster.rack), np.int64)
    np.add.at(weight, flat, np.repeat(cluster.weight, sizes))
    first = np.fromiter((each[0] for each in replicas), np.int64, len(replicas))
    brokers = len(cluster.rack)
    return np.bincount(flat, minlength=brokers), weight, np.bincount(first, minlength=brokers)


def count_unbalanced(load: IntArray | FloatArray, shares: BrokerShares, usable: BoolArray) -> int:
    """How many usable brokers are not within their bounds."""
    slack = 1e-6 * (1 + shares.share)
    wrong = (load > shares.most + slack) | (load < shares.least - slack)
    return int((wrong & usable).sum())
