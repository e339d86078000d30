"""Plans the reassignment of one cluster: hard constraints first, then as few moves as possible, then balance.

Order of priority
    1. Every partition has its replication factor, on distinct brokers that aren't removed, fenced, or cordoned, in as
       many racks as possible.
    2. As few replicas move as 1 allows (`choose_kept`: exact).
    3. Replicas are balanced over brokers and racks, within a tolerance: vacancies go to brokers below their shares
       (`fill_vacancies`), and if voluntary moves are allowed, more replicas move (`balance_replicas`: heuristic).
    4. Preferred leaders are balanced, within the same tolerance, by the order of replicas alone (`choose_leaders`:
       exact for the chosen replicas).

The fewest moves: a partition of replication factor f in a cluster of R usable racks must span min(f, R) racks, so that
f - min(f, R) of its replicas can share a rack with another replica. Of its replicas on usable brokers it can therefore
keep one per rack that they span, plus f - min(f, R), and at most f. Partitions don't restrict each other here, so that
the number of replicas that they can't keep is the exact minimum of moves.

Example: brokers 0 1 | 2 3 in two racks, t-0 [0, 2], t-1 [1, 3]; broker 3 is removed. t-0 keeps both replicas. t-1
keeps 1 and needs a replica in the other rack: [1, 2]. That is one move, the lower bound.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from spark_assign.numeric.arrays import BoolArray, FloatArray, IntArray, values_by_key
from spark_assign.replicas.kernel.preferred_leaders import choose_leaders
from spark_assign.replicas.kernel.rebalance_replicas import balance_replicas
from spark_assign.replicas.kernel.replica_cluster import (
    NO_BROKER,
    BrokerShares,
    ReplicaCluster,
    count_distinct,
    fair_shares,
    leader_shares,
    rows_of,
    usable_replicas,
)

_ANY_TOLERANCE = 1e9
"""A tolerance that no broker exceeds."""


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


def reassign(
    cluster: ReplicaCluster, tolerance: float, *, voluntary: bool, balanced_leaders: bool = True
) -> ReassignmentPlan:
    """Plans a cluster; each replication factor must be from 1 to the number of usable brokers.

    Without `balanced_leaders`, only leaders that lose their replica change.
    """
    shares = fair_shares(cluster, tolerance)
    kept = most_kept(cluster)
    staying = choose_kept(cluster, kept, shares)
    assigned = fill_vacancies(cluster, staying, shares)
    balance_replicas(cluster, assigned, shares, voluntary=voluntary)
    shares_of_leaders = leader_shares(cluster, tolerance)
    bounds = leader_shares(cluster, _ANY_TOLERANCE)
    if balanced_leaders:  # a new broker leads at least one partition, if it can
        is_new = cluster.usable & ~np.isin(np.arange(len(cluster.rack)), cluster.current)
        least = np.where(is_new & (shares_of_leaders.share > 0), 1, 0)
        bounds = replace(shares_of_leaders, least=np.maximum(shares_of_leaders.least, least))
    leader = choose_leaders(cluster, assigned, bounds)
    replicas = [
        [first, *(broker for broker in brokers if broker != first)]
        for first, brokers in zip(leader, assigned, strict=True)
    ]
    required = _required_moves(cluster, kept)
    lower_bound = _add_balance(cluster, kept, required, shares) if voluntary else required
    return ReassignmentPlan(replicas, required, lower_bound, shares, shares_of_leaders)


# --- steps 2 and 3: kept replicas, and vacancies --------------------------------------------------------------------


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
        # The preferred leader stays if possible; of equally loaded brokers, the later replica goes.
        slots.sort(key=lambda slot: (slot == 0, -load[brokers[slot]] / max(share[brokers[slot]], 1e-12), -slot))
        racks = Counter(rack[brokers[slot]] for slot in slots)
        first: list[int] = []
        too_many = len(slots) - len(racks) - may_share[partition]  # as long as they are, one that shares a rack goes
        for slot in slots:
            if len(first) < too_many and racks[rack[brokers[slot]]] > 1:
                racks[rack[brokers[slot]]] -= 1
                first.append(slot)
        staying[partition, first] = False
        rest = [slot for slot in slots if staying[partition, slot]]
        for slot in (*first, *rest)[: len(slots) - int(kept[partition])]:
            staying[partition, slot] = False
            load[brokers[slot]] -= weight[partition]
    return staying


def fill_vacancies(cluster: ReplicaCluster, staying: BoolArray, shares: BrokerShares) -> list[list[int]]:
    """Returns the replicas of each partition after the change; replicas that stay keep their position in the list.

    The vacancies of the heaviest partition are filled first, then by partition index.
    """
    assigned = rows_of(cluster.current, staying)
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
    partitions, positions = np.nonzero((current != NO_BROKER) & ~staying)
    return values_by_key(zip(partitions.tolist(), positions.tolist(), strict=True))


def sum_load(cluster: ReplicaCluster, counted: BoolArray) -> IntArray:
    """Returns the weight of the `counted` entries of `current` on each broker."""
    weights = np.broadcast_to(cluster.weight[:, None], cluster.current.shape)[counted]
    brokers = cluster.current[counted]
    if not cluster.weighed:
        return np.bincount(brokers, minlength=len(cluster.rack)).astype(np.int64)
    result = np.zeros(len(cluster.rack), np.int64)
    np.add.at(result, brokers, weights)
    return result


# --- lower bounds, and loads --------------------------------------------------------------------------------------


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
