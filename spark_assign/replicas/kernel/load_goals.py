"""Goals for the loads of brokers: what a replica loads, the bounds of brokers, and the result by broker.

The loads are those of Cruise Control. Every replica of a partition has its bytes on disk, and receives the bytes that
are written (`in`): the leader from producers, a follower from the leader. Only the leader sends (`out`): to each
follower, and to each consumer. `leader-in` is what producers write to leaders, and `leaders` the number of leaders.

The share of a broker is proportional to its capacity if capacities are known. The capacity, less a reserve, is a hard
goal that comes before all others; then come the hard goals, and then the soft goals, both in their order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from spark_assign.numeric.arrays import FloatArray, IntArray
from spark_assign.replicas.kernel.balance_loads import balance_loads
from spark_assign.replicas.kernel.balance_log_dirs import LOG_DIRS
from spark_assign.replicas.kernel.load_placement import BoundedLoad, sum_by_broker
from spark_assign.replicas.kernel.reassignment_facts import NamedCluster, RejectedError
from spark_assign.replicas.kernel.replica_cluster import NO_BROKER, fair_shares, whole_bounds
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.parameters import Param, find_fault

GOALS = ("disk", "in", "out", "leader-in", "count", "leaders", LOG_DIRS)
"""Names of the goals."""

RATE_GOALS = frozenset({"in", "out", "leader-in"})
"""Goals that need the rates of partitions."""

LEADER_GOALS = frozenset({"out", "leader-in", "leaders"})
"""Goals that count the leader of a partition only."""

CAPACITY_COLUMNS = {
    "disk": "disk_bytes",
    "in": "in_bytes_per_second",
    "leader-in": "in_bytes_per_second",
    "out": "out_bytes_per_second",
}
"""Column of `tables.replicas.CAPACITIES` by goal."""

_MOST_NAMED = 3
"""Largest number of brokers that a message names."""


@dataclass(frozen=True)
class LoadGoals:
    """Goals for the balance of loads over brokers.

    Attributes:
        tolerances: Maximum deviation of a broker from its share, as a fraction of the share, by goal: `disk`, `in`,
            `out`, `leader-in`, `count`, or `leaders`; in the order of their priority. `log-dirs` balances the log
            directories within brokers, after all others.
        hard: Goals that must be met: if one can't be, the cluster is rejected. The others are improved in order.
        capacity_threshold: fraction of its capacity, from the table capacities, that a broker may use, or of its
            volume a log directory.
        max_moved_bytes: maximum number of bytes that move in a cluster. Requires sizes (default: no limit).

    Raises:
        ConfigError: A goal is unknown, or a number is out of range.

    Examples:
        >>> LoadGoals({"disk": 0.1, "leader-in": 0.2}, hard=["disk"]).max_moved_bytes is None
        True
    """

    tolerances: Mapping[str, float]
    hard: Collection[str] = ()
    capacity_threshold: Annotated[float, Param(above=0, most=1)] = 0.8
    max_moved_bytes: Annotated[int | None, Param(least=0)] = None

    def __post_init__(self) -> None:
        if unknown := [goal for goal in self.tolerances if goal not in GOALS]:
            raise ConfigError(f"unknown goal {unknown[0]!r}. The goals are {', '.join(GOALS)}")
        if missing := [goal for goal in self.hard if goal not in self.tolerances]:
            raise ConfigError(f"the hard goal {missing[0]!r} isn't among the goals: {', '.join(self.tolerances)}")
        if not self.tolerances or any(not 0 <= tolerance < 1 for tolerance in self.tolerances.values()):
            raise ConfigError("expected at least one goal, each with a tolerance from 0 to below 1, for example 0.1")
        if fault := find_fault(self):
            raise ConfigError(fault)

    @property
    def needs_sizes(self) -> bool:
        """Whether sizes of partitions are required."""
        return "disk" in self.tolerances or self.max_moved_bytes is not None

    @property
    def needs_log_dirs(self) -> bool:
        """Whether log directories of brokers are required."""
        return LOG_DIRS in self.tolerances

    @property
    def needs_rates(self) -> bool:
        """Whether rates of partitions are required."""
        return not RATE_GOALS.isdisjoint(self.tolerances)


def plan_goals(
    named: NamedCluster, replicas: list[list[int]], goals: LoadGoals
) -> tuple[list[list[int]], list[dict[str, Any]]]:
    """Balances the loads of a cluster.

    Returns:
        The replicas of each partition, and one row per goal and broker (`tables.replicas.BALANCE` without the cluster).

    Raises:
        RejectedError: Sizes, rates, or capacities are missing, a hard goal can't be met, or required moves exceed the
            limit of moved bytes.
    """
    cluster = named.cluster
    if goals.needs_sizes and not cluster.weighed:
        raise RejectedError(
            "no-sizes", "sizes: no bytes of this cluster. Add cluster, topic, partition, bytes to sizes"
        )
    if goals.needs_rates and not named.in_rate.any():
        remedy = "Take them from two snapshots (diff --loads), or leave out the goals in, out, and leader-in"
        raise RejectedError("no-rates", f"loads: no in_bytes_per_second of this cluster. {remedy}")
    required = sum(
        size * sum(broker not in old for broker in new)
        for new, old, size in zip(replicas, cluster.current.tolist(), cluster.weight.tolist(), strict=True)
        if old[0] != NO_BROKER
    )
    if goals.max_moved_bytes is not None and required > goals.max_moved_bytes:
        problem = f"{required:,} bytes must move, {goals.max_moved_bytes:,} may move"
        raise RejectedError("too-many-moved-bytes", f"{problem}. Raise --max-moved-bytes, or change fewer brokers")
    loads = {goal: bounded_load(named, goal, goals) for goal in goals.tolerances if goal != LOG_DIRS}
    capacities = {goal: _limit_by_capacity(named, goal, goals, load) for goal, load in loads.items()}
    levels = [limit for limit in capacities.values() if limit is not None]
    levels += [loads[goal] for goal in sorted(loads, key=lambda goal: goal not in goals.hard)]
    balanced = balance_loads(cluster, replicas, levels, goals.max_moved_bytes)
    _check_hard_goals(named, balanced, loads, capacities, goals)
    return balanced, _balance_rows(named, balanced, loads, goals)


def bounded_load(named: NamedCluster, goal: str, goals: LoadGoals) -> BoundedLoad:
    """Returns the load of a goal, and its bounds."""
    cluster, tolerance = named.cluster, goals.tolerances[goal]
    ones = np.ones(len(cluster.current), np.int64)
    weight = {
        "disk": cluster.weight,
        "in": named.in_rate,
        "out": named.in_rate * (cluster.replication_factor - 1) + named.read_rate,
        "leader-in": named.in_rate,
    }.get(goal, ones)
    leaders_only = goal in LEADER_GOALS
    capacity = _capacity(named, goal)
    if capacity is None and not leaders_only:
        share = fair_shares(replace(cluster, weight=weight), 0).share
    else:
        scale = np.where(cluster.usable, 1.0 if capacity is None else capacity, 0.0)
        total = float((weight * (1 if leaders_only else cluster.replication_factor)).sum())
        share = total * scale / scale.sum()
    most = share * (1 + tolerance)
    if capacity is not None:
        most = np.minimum(most, capacity * goals.capacity_threshold)
    least = np.minimum(share * (1 - tolerance), most)
    if goal in ("count", "leaders"):
        least, most = whole_bounds(np.minimum(share, most), least, most)
    return BoundedLoad(leaders_only, weight, share, least, most)


def _capacity(named: NamedCluster, goal: str) -> FloatArray | None:
    """Returns the capacity of each broker for a goal; None if the cluster has none.

    Raises:
        RejectedError: A usable broker has no capacity, while others have one.
    """
    column = CAPACITY_COLUMNS.get(goal)
    by_broker = named.capacities.get(column or "", {})
    if not by_broker:
        return None
    usable = named.cluster.usable.tolist()
    for broker, is_usable in zip(named.broker_id.tolist(), usable, strict=True):
        if is_usable and by_broker.get(broker, 0) <= 0:
            detail = f"capacities: broker {broker} has no {column} above 0, others have one. Add it"
            raise RejectedError("no-capacity", detail)
    return np.array([float(by_broker.get(broker, 0)) for broker in named.broker_id.tolist()])


def _limit_by_capacity(named: NamedCluster, goal: str, goals: LoadGoals, load: BoundedLoad) -> BoundedLoad | None:
    capacity = _capacity(named, goal)
    if capacity is None or goal == "leader-in":
        return None
    return replace(load, least=np.zeros(len(capacity)), most=capacity * goals.capacity_threshold)


def _check_hard_goals(
    named: NamedCluster,
    replicas: list[list[int]],
    loads: Mapping[str, BoundedLoad],
    capacities: Mapping[str, BoundedLoad | None],
    goals: LoadGoals,
) -> None:
    checked = [(f"capacity of {goal}", limit) for goal, limit in capacities.items() if limit is not None]
    checked += [(f"hard goal {goal}", load) for goal, load in loads.items() if goal in goals.hard]
    for name, bounded in checked:
        load, missed = sum_by_broker(bounded, replicas, len(named.broker_id)), []
        for index in np.flatnonzero(bounded.is_outside(load) & named.cluster.usable).tolist():
            is_over = load[index] > bounded.most[index]
            bound = bounded.most[index] if is_over else bounded.least[index]
            words = ("above", "maximum") if is_over else ("below", "minimum")
            missed.append(
                f"broker {named.broker_id[index]} has {load[index]:,}, {abs(load[index] - bound):,.0f} {words[0]} the "
                f"{words[1]} of {bound:,.0f}"
            )
        if missed:
            more = f", and {len(missed) - _MOST_NAMED} more" if len(missed) > _MOST_NAMED else ""
            remedy = "Add brokers, raise the tolerance or the capacity threshold, or make the goal soft"
            raise RejectedError("unmet-goal", f"{name}: {'; '.join(missed[:_MOST_NAMED])}{more}. {remedy}")


def _balance_rows(
    named: NamedCluster, replicas: list[list[int]], loads: Mapping[str, BoundedLoad], goals: LoadGoals
) -> list[dict[str, Any]]:
    previous = [[broker for broker in row if broker != NO_BROKER] for row in named.cluster.current.tolist()]
    rows = []
    for goal, bounded in loads.items():
        capacity = _capacity(named, goal)
        before: IntArray = sum_by_broker(bounded, previous, len(named.broker_id))
        after: IntArray = sum_by_broker(bounded, replicas, len(named.broker_id))
        rows += [
            {
                "broker_id": broker,
                "goal": goal,
                "is_hard": goal in goals.hard,
                "load_before": float(before[index]),
                "load_after": float(after[index]),
                "share": float(bounded.share[index]),
                "min_load": float(bounded.least[index]),
                "max_load": float(bounded.most[index]),
                "capacity": None if capacity is None else float(capacity[index]),
            }
            for index, broker in enumerate(named.broker_id.tolist())
        ]
    return rows
