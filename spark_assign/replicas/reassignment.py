"""Reassigns replicas when brokers, replication factors, or partitions change, with as few moves as possible.

`replicas.kernel.reassign` documents the order of priority (hard constraints, fewest moves, balance within a tolerance,
balanced leaders) and which steps are exact. This module collects the facts of each cluster, one row per fact. One Spark
task plans a cluster; many tasks plan many clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType

from spark_assign.fleet import Fleet
from spark_assign.replicas.fleet import Change, ReplicaFleet, replica_fleet
from spark_assign.replicas.kernel import reassignment_facts as kinds
from spark_assign.replicas.kernel.reassign_table import FIGURE_NAMES, FIGURES, PLANNED, REJECTED, reassign_clusters
from spark_assign.spark.caching import cached, uncached
from spark_assign.tables.replicas import CLUSTER_REJECTED, DECIDED, METRICS, PLACEMENT

ROWS_PER_TASK = 250_000
"""Number of facts per Spark task; a cluster is never split."""

TOLERANCE = 0.1
"""Default deviation of a broker from its even share, as a fraction of the share."""

_COLUMNS = {
    "topic": StringType(),
    "partition": IntegerType(),
    "broker_id": IntegerType(),
    "rack_id": StringType(),
    "replicas": ArrayType(IntegerType()),
    "amount": LongType(),
}


@dataclass(frozen=True)
class Reassignment:
    """The result of `reassign`.

    Args:
        placement: every partition of the planned clusters, with its previous and its new replicas
            (`tables.replicas.PLACEMENT`).
        moves: one row per replica that goes to another broker, with the reason (`tables.replicas.MOVES`).
        metrics: one row per planned cluster: moves, their lower bound, balance (`tables.replicas.METRICS`).
        rejected: cluster, code, detail.
        after: the planned clusters after the reassignment.
    """

    placement: DataFrame
    moves: DataFrame
    metrics: DataFrame
    rejected: DataFrame
    after: ReplicaFleet
    _decided: DataFrame

    @property
    def changes(self) -> DataFrame:
        """Returns the partitions of `placement` that change: moved, reordered, or new."""
        return self.placement.where(~F.col("previous").eqNullSafe(F.col("replicas")))

    def unpersist(self) -> None:
        """Releases the table that is cached in the executors."""
        uncached(self._decided)


def reassign(
    fleet: Fleet | ReplicaFleet,
    change: Change | None = None,
    *,
    tolerance: float = TOLERANCE,
    voluntary: bool | None = None,
) -> Reassignment:
    """Plans a reassignment of replicas.

    Args:
        fleet: replicas and brokers. If a `ReplicaFleet` has sizes, bytes are balanced instead of counts.
        change: the changes of clusters; by default none, so that only violated constraints are repaired.
        tolerance: the largest deviation of a broker from its even share, as a fraction of the share.
        voluntary: whether replicas that could stay can move to bring brokers within the tolerance. By default, only in
            clusters to which the change adds brokers. Otherwise only the moves that the hard constraints require.

    Raises:
        FleetError: a missing table or column, a wrong type, a null in a key.
        ValueError: a tolerance below 0.
    """
    if tolerance < 0:
        raise ValueError(f"tolerance is {tolerance}; give 0 or more, for example 0.1 for 10 %")
    tables, change = replica_fleet(fleet), change or Change()
    tables.check_keys()
    change.check_values()
    facts = _facts(tables, change)
    rows = facts.count()
    tasks = max(1, -(-rows // ROWS_PER_TASK))
    decided = cached(facts.repartition(tasks, "cluster").mapInArrow(_planner(tolerance, voluntary), DECIDED))
    placement = _placement(decided)
    return Reassignment(
        placement=placement,
        moves=_moves(decided),
        metrics=_metrics(decided),
        rejected=decided.where(F.col("kind") == REJECTED).select(*CLUSTER_REJECTED.fieldNames()),
        after=ReplicaFleet(
            placement.select("cluster", "topic", "partition", "replicas"), _brokers_after(tables, change), tables.sizes
        ),
        _decided=decided,
    )


def _planner(
    tolerance: float, voluntary: bool | None
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def plan(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        received = list(batches)
        if received:
            yield from reassign_clusters(pa.Table.from_batches(received), tolerance, voluntary)

    return plan


# --- facts; replicas.kernel.reassignment_facts documents their columns -----------------------------------------------


def _facts(fleet: ReplicaFleet, change: Change) -> DataFrame:
    """Returns the facts of the clusters that change, or of all clusters without changes."""
    fenced = F.coalesce("fenced", F.lit(False)).cast("long")
    changes = change.tables()
    tables = [
        _fact(fleet.brokers, kinds.BROKER, **_columns("broker_id", "rack_id"), amount=fenced),
        _fact(fleet.replicas, kinds.PARTITION, **_columns("topic", "partition", "replicas")),
    ]
    if fleet.sizes is not None:
        tables.append(_fact(fleet.sizes, kinds.SIZE, **_columns("topic", "partition"), amount=F.col("bytes")))
    facts = reduce(DataFrame.unionByName, tables)
    if not changes:
        return facts
    broker_changes = {
        "removed": (kinds.REMOVED, ["broker_id"]),
        "added": (kinds.ADDED, ["broker_id", "rack_id"]),
        "racks": (kinds.RACK, ["broker_id", "rack_id"]),
    }
    changed = [
        _fact(changes[name], kind, **_columns(*columns))
        for name, (kind, columns) in broker_changes.items()
        if name in changes
    ]
    amounts = {"replication_factors": (kinds.FACTOR, "replication_factor"), "partitions": (kinds.COUNT, "partitions")}
    changed += [
        _fact(changes[name], kind, topic=F.col("topic"), amount=F.col(amount).cast("long"))
        for name, (kind, amount) in amounts.items()
        if name in changes
    ]
    all_changes = reduce(DataFrame.unionByName, changed)
    clusters = F.broadcast(all_changes.select("cluster").distinct())
    return facts.join(clusters, "cluster", "left_semi").unionByName(all_changes)


def _columns(*columns: str) -> dict[str, Column]:
    return {name: F.col(name) for name in columns}


def _fact(rows: DataFrame, kind: int, **columns: Column) -> DataFrame:
    values = (columns.get(name, F.lit(None)).cast(type).alias(name) for name, type in _COLUMNS.items())
    return rows.select("cluster", F.lit(kind).cast("byte").alias("kind"), *values)


def _brokers_after(fleet: ReplicaFleet, change: Change) -> DataFrame:
    brokers = fleet.brokers.select("cluster", "broker_id", "rack_id", "fenced")
    if change.removed is not None:
        brokers = brokers.join(change.removed, ["cluster", "broker_id"], "left_anti")
    if change.racks is not None:
        racks = change.racks.select("cluster", "broker_id", F.struct("rack_id").alias("new"))
        rack = F.when(F.col("new").isNull(), F.col("rack_id")).otherwise(F.col("new.rack_id"))
        brokers = brokers.join(racks, ["cluster", "broker_id"], "left").withColumn("rack_id", rack).drop("new")
    if change.added is not None:
        brokers = brokers.unionByName(
            change.added.select("cluster", "broker_id", "rack_id", F.lit(False).alias("fenced"))
        )
    return brokers


# --- result tables ------------------------------------------------------------------------------------------------


def _placement(decided: DataFrame) -> DataFrame:
    return (
        decided.where(F.col("kind") == PLANNED)
        .withColumn("leader", F.col("replicas")[0])
        .withColumn("moved", F.size("moved_to"))
        .withColumn("leader_changed", F.coalesce(F.col("previous")[0] != F.col("replicas")[0], F.lit(False)))
        .select(*PLACEMENT.fieldNames())
    )


def _moves(decided: DataFrame) -> DataFrame:
    moves = F.arrays_zip("moved_from", "moved_to", "reasons")
    return (
        decided.where((F.col("kind") == PLANNED) & (F.size("moved_to") > 0))
        .select("cluster", "topic", "partition", "bytes", F.explode(moves).alias("move"))
        .select(
            *("cluster", "topic", "partition"),
            F.col("move.moved_from").alias("from_broker_id"),
            F.col("move.moved_to").alias("to_broker_id"),
            F.col("move.reasons").alias("reason"),
            "bytes",
        )
    )


def _metrics(decided: DataFrame) -> DataFrame:
    figure = {name: F.col("figures")[index] for index, name in enumerate(FIGURE_NAMES)}
    for name in ("moved_bytes", "lower_bound_bytes"):
        figure[name] = F.when(figure[name] >= 0, figure[name])
    figure["distance"] = figure["moved"] - figure["lower_bound"]
    return decided.where(F.col("kind") == FIGURES).select(
        *(F.col(name) if name == "cluster" else figure[name].alias(name) for name in METRICS.fieldNames())
    )
