"""Plans reassignments of many clusters; returns tagged rows.

The `kind` of a row determines which columns it uses, beside cluster:

    placement  topic, partition, previous_replicas (null for a new partition), new_replicas, bytes; previous_log_dirs,
               log_dirs, log_dir_bytes (lists beside the replicas, or empty); and of each move its moved_from (null for
               an additional replica), moved_to, reason, and directories: parallel lists
    metrics    `tables.replicas.METRICS`
    balance    `tables.replicas.BALANCE`
    rejected   code, detail
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from spark_assign.groups.kernel.tagged_rows import tagged, tagged_rows
from spark_assign.replicas.kernel.balance_log_dirs import ANY, LOG_DIRS, LogDirPlan, plan_log_dirs
from spark_assign.replicas.kernel.load_goals import LoadGoals, plan_goals
from spark_assign.replicas.kernel.reassign import ReassignmentPlan, broker_loads, count_unbalanced, most_kept, reassign
from spark_assign.replicas.kernel.reassignment_facts import NamedCluster, RejectedError, read_cluster, split_by_cluster
from spark_assign.replicas.kernel.replica_cluster import ReplicaCluster, usable_replicas

PLACEMENT, METRICS, BALANCE, REJECTED = "placement", "metrics", "balance", "rejected"
"""Kinds of result rows."""


def reassign_clusters(
    facts: pa.Table, schema: pa.Schema, tolerance: float, voluntary: bool | None, goals: LoadGoals | None = None
) -> Iterator[pa.Table]:
    """Plans the clusters of a table of facts (`reassignment_facts`); yields tagged rows.

    Args:
        facts: Facts of complete clusters.
        schema: Schema of the tagged rows.
        tolerance: Maximum deviation of a broker from its even share, as a fraction of the share.
        voluntary: Whether replicas that could stay may move for balance; `None`: only if the change adds brokers.
        goals: Goals for loads, for which replicas move as well.
    """
    for name, cluster_facts in split_by_cluster(facts):
        try:
            named = read_cluster(cluster_facts)
            may_move = named.voluntary if voluntary is None else voluntary
            plan = reassign(
                named.cluster, tolerance, voluntary=may_move and goals is None, balanced_leaders=goals is None
            )
            loads: list[dict[str, Any]] = []
            log_dirs = LogDirPlan()
            if goals is not None:
                replicas, loads = plan_goals(named, plan.replicas, goals)
                plan = replace(plan, replicas=replicas)
                log_dirs = _plan_log_dirs(named, plan, goals)
        except RejectedError as error:
            yield tagged_rows(REJECTED, [{"cluster": name, "code": error.code, "detail": str(error)}], schema)
            continue
        metrics = _compute_metrics(named.cluster, plan) | (log_dirs.metrics() if log_dirs.balance else {})
        yield _partition_rows(name, named, plan, log_dirs, schema)
        yield tagged_rows(METRICS, [{"cluster": name} | metrics], schema)
        yield tagged_rows(BALANCE, [{"cluster": name} | row for row in (*loads, *log_dirs.balance)], schema)


def _plan_log_dirs(named: NamedCluster, plan: ReassignmentPlan, goals: LoadGoals) -> LogDirPlan:
    """Balances log directories, if that is a goal, with the moved bytes that the moves between brokers leave."""
    if not goals.needs_log_dirs:
        return LogDirPlan()
    budget = goals.max_moved_bytes
    if budget is not None:
        budget -= _compute_metrics(named.cluster, plan)["moved_bytes"] or 0
    tolerance, is_hard = goals.tolerances[LOG_DIRS], LOG_DIRS in goals.hard
    return plan_log_dirs(named, plan.replicas, tolerance, goals.capacity_threshold, budget, is_hard=is_hard)


def _partition_rows(
    name: str, named: NamedCluster, plan: ReassignmentPlan, log_dirs: LogDirPlan, schema: pa.Schema
) -> pa.Table:
    """Returns the rows of kind `PLACEMENT`."""
    cluster, ids = named.cluster, named.broker_id.tolist()
    before = cluster.previous()
    required_drops = (usable_replicas(cluster).sum(axis=1) - most_kept(cluster)).tolist()
    moves = [
        _moves(old, new, num_required, named.excluded) if old != new else []
        for old, new, num_required in zip(before, plan.replicas, required_drops, strict=True)
    ]
    for row, broker in sorted(log_dirs.moved):
        moves[row].append((broker, broker, LOG_DIRS))
    columns = {
        "cluster": [name] * len(before),
        "topic": named.topic,
        "partition": named.partition,
        "previous_replicas": [[ids[broker] for broker in row] or None for row in before],
        "new_replicas": [[ids[broker] for broker in row] for row in plan.replicas],
        "moved_from": [[None if move[0] is None else ids[move[0]] for move in each] for each in moves],
        "moved_to": [[ids[to_broker] for _, to_broker, _ in each] for each in moves],
        "reasons": [[reason for _, _, reason in each] for each in moves],
        **(_log_dir_columns(log_dirs, before, plan.replicas, moves) if log_dirs.balance else {}),
        **({"bytes": cluster.weight} if cluster.weighed else {}),
    }
    arrays = {column: pa.array(values, schema.field(column).type) for column, values in columns.items()}
    return tagged(PLACEMENT, arrays, len(before), schema)


def _log_dir_columns(
    plan: LogDirPlan, before: list[list[int]], after: list[list[int]], moves: list[list[tuple[int | None, int, str]]]
) -> dict[str, list[Any]]:
    """Returns the columns of log directories; the lists of a partition are empty if no directory is known to change."""

    def beside(brokers: list[list[int]], values: Mapping[Any, Any], default: Any) -> list[list[Any]]:
        rows = {row for row, _ in values}
        return [
            [values.get((row, broker), default) for broker in listed] if row in rows else []
            for row, listed in enumerate(brokers)
        ]

    return {
        "from_log_dirs": [[plan.sources.get((row, move[0])) for move in each] for row, each in enumerate(moves)],
        "to_log_dirs": [[plan.targets.get((row, move[1])) for move in each] for row, each in enumerate(moves)],
        "previous_log_dirs": beside(before, plan.sources, ANY),
        "log_dirs": beside(after, plan.targets, ANY),
        "log_dir_bytes": beside(after, plan.moved, 0),
    }


def _moves(
    old: list[int], new: list[int], num_required: int, excluded: dict[int, str]
) -> list[tuple[int | None, int, str]]:
    """Returns (from broker, to broker, reason) of every replica of a partition that moves to another broker."""
    if not old:
        return []
    lost = [broker for broker in old if broker not in new]
    lost.sort(key=lambda broker: broker not in excluded)
    moves: list[tuple[int | None, int, str]] = []
    for to_broker in (broker for broker in new if broker not in old):
        from_broker = lost.pop(0) if lost else None
        if from_broker is None:
            reason = "replication-factor"
        elif from_broker in excluded:
            reason = excluded[from_broker]
        else:
            reason = "rack" if num_required > 0 else "balance"
            num_required -= 1
        moves.append((from_broker, to_broker, reason))
    return moves


def _compute_metrics(cluster: ReplicaCluster, plan: ReassignmentPlan) -> dict[str, int | None]:
    """Returns the metrics of a cluster, by column of `tables.replicas.METRICS`."""
    before = cluster.previous()
    pairs = list(zip(before, plan.replicas, strict=True))
    moved = [len(set(new).difference(old)) if old else 0 for old, new in pairs]
    led = [(old[:1] not in ([], new[:1]), num) for (old, new), num in zip(pairs, moved, strict=True)]
    count, weight, leaders = broker_loads(cluster, plan.replicas)
    usable = cluster.usable
    return {
        "brokers": int(usable.sum()),
        "partitions": len(before),
        "replicas": int(count.sum()),
        "new_partitions": before.count([]),
        "moved": sum(moved),
        "required_moves": plan.required.moves,
        "lower_bound": plan.lower_bound.moves,
        "moves_above_bound": sum(moved) - plan.lower_bound.moves,
        "moved_bytes": int((cluster.weight * moved).sum()) if cluster.weighed else None,
        "lower_bound_bytes": plan.lower_bound.weight if cluster.weighed else None,
        "leaders_changed": sum(changed for changed, _ in led),
        "leaders_reordered": sum(changed and not num for changed, num in led),
        "min_replicas": int(count[usable].min()),
        "max_replicas": int(count[usable].max()),
        "brokers_out_of_tolerance": count_unbalanced(weight, plan.shares, usable),
        "min_leaders": int(leaders[usable].min()),
        "max_leaders": int(leaders[usable].max()),
        "leaders_out_of_tolerance": count_unbalanced(leaders, plan.leader_shares, usable),
    }
