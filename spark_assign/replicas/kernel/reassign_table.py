"""Plans reassignments of many clusters as one Arrow table: partitions, metrics, and rejected clusters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from spark_assign.replicas.kernel.reassign import ReassignmentPlan, broker_loads, count_unbalanced, reassign
from spark_assign.replicas.kernel.reassignment_facts import NamedCluster, RejectedError, read_cluster, split_by_cluster
from spark_assign.replicas.kernel.replica_cluster import NO_BROKER, ReplicaCluster, usable_replicas
from spark_assign.replicas.kernel.retained_replicas import most_kept

PLANNED, FIGURES, REJECTED = range(3)

_IDS = pa.list_(pa.int32())
DECIDED = pa.schema(
    [
        ("cluster", pa.string()),
        ("kind", pa.int8()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("previous", _IDS),
        ("replicas", _IDS),
        ("moved_from", _IDS),
        ("moved_to", _IDS),
        ("reasons", pa.list_(pa.string())),
        ("bytes", pa.int64()),
        ("figures", pa.list_(pa.int64())),
        ("code", pa.string()),
        ("detail", pa.string()),
    ]
)
"""By `kind`: a partition (`previous` is null if it's new; `moved_from`, `moved_to`, and `reasons` are parallel lists,
and a null in `moved_from` is an additional replica); the `FIGURE_NAMES` of a cluster; or why a cluster is rejected."""

FIGURE_NAMES = (
    *("brokers", "partitions", "replicas", "new_partitions", "moved", "forced", "lower_bound"),
    *("moved_bytes", "lower_bound_bytes", "leaders_changed", "leaders_reordered"),
    *("min_replicas", "max_replicas", "brokers_outside", "min_leaders", "max_leaders", "leaders_outside"),
)
"""Names of the values in `figures`, in order. Values in bytes are -1 if sizes are unknown."""


def reassign_clusters(facts: pa.Table, tolerance: float, voluntary: bool | None) -> Iterator[pa.RecordBatch]:
    """Plans clusters from `reassignment_facts`. Voluntary moves by default (None): if the change adds brokers."""
    for name, cluster_facts in split_by_cluster(facts):
        try:
            named = read_cluster(cluster_facts)
        except RejectedError as error:
            yield from _table(name, REJECTED, 1, code=[error.code], detail=[str(error)]).to_batches()
            continue
        plan = reassign(named.cluster, tolerance, voluntary=named.voluntary if voluntary is None else voluntary)
        yield from _partition_rows(name, named, plan).to_batches(max_chunksize=50_000)
        yield from _table(name, FIGURES, 1, figures=[_figures(named.cluster, plan)]).to_batches()


def _table(cluster: str, kind: int, rows: int, **columns: object) -> pa.Table:
    """Builds a table with the schema `DECIDED`; columns that aren't passed are null."""
    values = {"cluster": pa.repeat(pa.scalar(cluster), rows), "kind": np.full(rows, kind, np.int8)} | columns
    return pa.table(
        {
            field.name: pa.array(values[field.name], field.type)
            if field.name in values and not isinstance(values[field.name], pa.Array)
            else values.get(field.name, pa.nulls(rows, field.type))
            for field in DECIDED
        },
        schema=DECIDED,
    )


def _partition_rows(name: str, named: NamedCluster, plan: ReassignmentPlan) -> pa.Table:
    """Builds the rows of kind `PLANNED`."""
    cluster, ids = named.cluster, named.broker_id.tolist()
    before = [[broker for broker in row if broker != NO_BROKER] for row in cluster.current.tolist()]
    required_drops = (usable_replicas(cluster).sum(axis=1) - most_kept(cluster)).tolist()
    moved_from: list[list[int | None]] = []
    moved_to: list[list[int]] = []
    reasons: list[list[str]] = []
    for old, new, num_required in zip(before, plan.replicas, required_drops, strict=True):
        moves = _moves(old, new, num_required, named.excluded) if old != new else []
        moved_from.append([None if from_broker is None else ids[from_broker] for from_broker, _, _ in moves])
        moved_to.append([ids[to_broker] for _, to_broker, _ in moves])
        reasons.append([reason for _, _, reason in moves])
    weight = pa.array(cluster.weight) if cluster.weighed else pa.nulls(len(before), pa.int64())
    return _table(
        name,
        PLANNED,
        len(before),
        topic=named.topic,
        partition=named.partition.astype(np.int32),
        previous=[[ids[broker] for broker in row] or None for row in before],
        replicas=[[ids[broker] for broker in row] for row in plan.replicas],
        moved_from=moved_from,
        moved_to=moved_to,
        reasons=reasons,
        bytes=weight,
    )


def _moves(
    old: list[int], new: list[int], num_required: int, excluded: dict[int, str]
) -> list[tuple[int | None, int, str]]:
    """Returns (from broker, to broker, reason) of every replica of a partition that goes to another broker."""
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


def _figures(cluster: ReplicaCluster, plan: ReassignmentPlan) -> list[int]:
    """Returns the values of `FIGURE_NAMES` for a cluster."""
    before = cluster.current.tolist()
    pairs = list(zip(before, plan.replicas, cluster.weight.tolist(), strict=True))
    moved = [sum(broker not in old for broker in new) if old[0] != NO_BROKER else 0 for old, new, _ in pairs]
    led = [(old[0] not in (new[0], NO_BROKER), num) for (old, new, _), num in zip(pairs, moved, strict=True)]
    count, weight, leaders = broker_loads(cluster, plan.replicas)
    usable = cluster.usable
    moved_bytes = sum(num * size for num, (_, _, size) in zip(moved, pairs, strict=True))
    return [
        int(usable.sum()),
        len(before),
        int(count.sum()),
        sum(old[0] == NO_BROKER for old in before),
        sum(moved),
        plan.required.moves,
        plan.lower_bound.moves,
        moved_bytes if cluster.weighed else -1,
        plan.lower_bound.weight if cluster.weighed else -1,
        sum(changed for changed, _ in led),
        sum(changed and not num for changed, num in led),
        int(count[usable].min()),
        int(count[usable].max()),
        count_unbalanced(weight, plan.shares, usable),
        int(leaders[usable].min()),
        int(leaders[usable].max()),
        count_unbalanced(leaders, plan.leader_shares, usable),
    ]
