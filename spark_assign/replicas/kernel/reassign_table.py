"""Reassignments of many clusters as one Arrow table: partitions, figures, and clusters that cannot be planned."""

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
"""By `kind`: a partition (`previous` is null where it is new; `moved_from`, `moved_to` and `reasons` go together, a
null in `moved_from` is an additional replica); the `FIGURE_NAMES` of a cluster; or why a cluster is not planned."""

FIGURE_NAMES = (
    *("brokers", "partitions", "replicas", "new_partitions", "moved", "forced", "lower_bound"),
    *("moved_bytes", "lower_bound_bytes", "leaders_changed", "leaders_reordered"),
    *("min_replicas", "max_replicas", "brokers_outside", "min_leaders", "max_leaders", "leaders_outside"),
)
"""In bytes: -1 where sizes are unknown."""


def reassign_clusters(facts: pa.Table, tolerance: float, voluntary: bool | None) -> Iterator[pa.RecordBatch]:
    """Plan the clusters of some facts (`facts`); null `voluntary`: where the change adds brokers."""
    for name, rows in split_by_cluster(facts):
        try:
            named = read_cluster(rows)
        except RejectedError as error:
            yield from _table(name, REJECTED, 1, code=[error.code], detail=[str(error)]).to_batches()
            continue
        planned = reassign(named.cluster, tolerance, voluntary=named.voluntary if voluntary is None else voluntary)
        yield from _write(name, named, planned).to_batches(max_chunksize=50_000)
        yield from _table(name, FIGURES, 1, figures=[_figures(named.cluster, planned)]).to_batches()


def _table(cluster: str, kind: int, rows: int, **columns: object) -> pa.Table:
    """A table of `DECIDED`, null where no column is given."""
    given = {"cluster": pa.repeat(pa.scalar(cluster), rows), "kind": np.full(rows, kind, np.int8)} | columns
    return pa.table(
        {
            field.name: pa.array(given[field.name], field.type)
            if field.name in given and not isinstance(given[field.name], pa.Array)
            else given.get(field.name, pa.nulls(rows, field.type))
            for field in DECIDED
        },
        schema=DECIDED,
    )


def _write(name: str, named: NamedCluster, planned: ReassignmentPlan) -> pa.Table:
    cluster, ids = named.cluster, named.broker_id.tolist()
    before = [[broker for broker in row if broker != NO_BROKER] for row in cluster.current.tolist()]
    to_drop = (usable_replicas(cluster).sum(axis=1) - most_kept(cluster)).tolist()
    moved_from: list[list[int | None]] = []
    moved_to: list[list[int]] = []
    reasons: list[list[str]] = []
    for old, new, forced in zip(before, planned.replicas, to_drop, strict=True):
        moves = _moves(old, new, forced, named.excluded) if old != new else []
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
        replicas=[[ids[broker] for broker in row] for row in planned.replicas],
        moved_from=moved_from,
        moved_to=moved_to,
        reasons=reasons,
        bytes=weight,
    )


def _moves(old: list[int], new: list[int], forced: int, gone: dict[int, str]) -> list[tuple[int | None, int, str]]:
    """From, to and why, for every replica of a partition that is on another broker."""
    if not old:
        return []
    lost = [broker for broker in old if broker not in new]
    lost.sort(key=lambda broker: broker not in gone)
    moves: list[tuple[int | None, int, str]] = []
    for to_broker in (broker for broker in new if broker not in old):
        from_broker = lost.pop(0) if lost else None
        if from_broker is None:
            reason = "replication-factor"
        elif from_broker in gone:
            reason = gone[from_broker]
        else:
            reason = "rack" if forced > 0 else "balance"
            forced -= 1
        moves.append((from_broker, to_broker, reason))
    return moves


def _figures(cluster: ReplicaCluster, planned: ReassignmentPlan) -> list[int]:
    """The `FIGURE_NAMES` of a cluster."""
    before = cluster.current.tolist()
    pairs = list(zip(before, planned.replicas, cluster.weight.tolist(), strict=True))
    moved = [sum(broker not in old for broker in new) if old[0] != NO_BROKER else 0 for old, new, _ in pairs]
    led = [(old[0] not in (new[0], NO_BROKER), each) for (old, new, _), each in zip(pairs, moved, strict=True)]
    count, weight, leaders = broker_loads(cluster, planned.replicas)
    usable = cluster.usable
    moved_bytes = sum(each * size for each, (_, _, size) in zip(moved, pairs, strict=True))
    return [
        int(usable.sum()),
        len(before),
        int(count.sum()),
        sum(old[0] == NO_BROKER for old in before),
        sum(moved),
        planned.required.moves,
        planned.lower_bound.moves,
        moved_bytes if cluster.weighed else -1,
        planned.lower_bound.weight if cluster.weighed else -1,
        sum(changed for changed, _ in led),
        sum(changed and not each for changed, each in led),
        int(count[usable].min()),
        int(count[usable].max()),
        count_unbalanced(weight, planned.shares, usable),
        int(leaders[usable].min()),
        int(leaders[usable].max()),
        count_unbalanced(leaders, planned.leader_shares, usable),
    ]
