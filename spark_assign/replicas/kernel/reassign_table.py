"""Plans reassignments of many clusters; returns tagged rows.

The `kind` of a row determines which columns it uses, beside cluster:

    placement  topic, partition, previous_replicas (null for a new partition), new_replicas, bytes; and of each move its
               moved_from (null for an additional replica), moved_to, and reason: parallel lists
    metrics    `tables.replicas.METRICS`
    balance    `tables.replicas.BALANCE`
    rejected   code, detail
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from spark_assign.groups.kernel.tagged_rows import tagged, tagged_rows
from spark_assign.replicas.kernel.load_goals import LoadGoals, plan_goals
from spark_assign.replicas.kernel.reassign import ReassignmentPlan, broker_loads, count_unbalanced, most_kept, reassign
from spark_assign.replicas.kernel.reassignment_facts import NamedCluster, RejectedError, read_cluster, split_by_cluster
from spark_assign.replicas.kernel.replica_cluster import NO_BROKER, ReplicaCluster, usable_replicas

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
            if goals is not None:
                replicas, loads = plan_goals(named, plan.replicas, goals)
                plan = replace(plan, replicas=replicas)
        except RejectedError as error:
            yield tagged_rows(REJECTED, [{"cluster": name, "code": error.code, "detail": str(error)}], schema)
            continue
        yield _partition_rows(name, named, plan, schema)
        yield tagged_rows(METRICS, [{"cluster": name} | _compute_metrics(named.cluster, plan)], schema)
        yield tagged_rows(BALANCE, [{"cluster": name} | row for row in loads], schema)


def _partition_rows(name: str, named: NamedCluster, plan: ReassignmentPlan, schema: pa.Schema) -> pa.Table:
    """Returns the rows of kind `PLACEMENT`."""
    cluster, ids = named.cluster, named.broker_id.tolist()
    before = [[broker for broker in row if broker != NO_BROKER] for row in cluster.current.tolist()]
    required_drops = (usable_replicas(cluster).sum(axis=1) - most_kept(cluster)).tolist()
    moves = [
        _moves(old, new, num_required, named.excluded) if old != new else []
        for old, new, num_required in zip(before, plan.replicas, required_drops, strict=True)
    ]
    columns = {
        "cluster": [name] * len(before),
        "topic": named.topic,
        "partition": named.partition,
        "previous_replicas": [[ids[broker] for broker in row] or None for row in before],
        "new_replicas": [[ids[broker] for broker in row] for row in plan.replicas],
        "moved_from": [[None if move[0] is None else ids[move[0]] for move in each] for each in moves],
        "moved_to": [[ids[to_broker] for _, to_broker, _ in each] for each in moves],
        "reasons": [[reason for _, _, reason in each] for each in moves],
        **({"bytes": cluster.weight} if cluster.weighed else {}),
    }
    arrays = {column: pa.array(values, schema.field(column).type) for column, values in columns.items()}
    return tagged(PLACEMENT, arrays, len(before), schema)


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
    before = cluster.current.tolist()
    pairs = list(zip(before, plan.replicas, strict=True))
    moved = [sum(broker not in old for broker in new) if old[0] != NO_BROKER else 0 for old, new in pairs]
    led = [(old[0] not in (new[0], NO_BROKER), num) for (old, new), num in zip(pairs, moved, strict=True)]
    count, weight, leaders = broker_loads(cluster, plan.replicas)
    usable = cluster.usable
    return {
        "brokers": int(usable.sum()),
        "partitions": len(before),
        "replicas": int(count.sum()),
        "new_partitions": sum(old[0] == NO_BROKER for old in before),
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
