"""Reassign replicas when brokers, replication factors or partitions change, moving as few as possible.

Hard constraints, the fewest moves, balance within a tolerance, even leaders: `replicas.kernel.reassign` tells the
order of priority and what is exact. Here the facts of each cluster are brought together, a row each; a cluster is
planned in one task, many clusters in many.
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
"""So many facts are handed to the kernel at once; a cluster is never parted."""

TOLERANCE = 0.1

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
    """What `reassign` gives.

    Args:
        placement: every partition of the planned clusters, with its replicas before and after
            (`tables.replicas.PLACEMENT`).
        moves: a row per replica that goes to another broker, with the reason (`tables.replicas.MOVES`).
        metrics: a row per planned cluster: moves, their lower bound, balance (`tables.replicas.METRICS`).
        rejected: cluster, code, detail.
        after: the planned clusters as they are then.
    """

    placement: DataFrame
    moves: DataFrame
    metrics: DataFrame
    rejected: DataFrame
    after: ReplicaFleet
    _decided: DataFrame

    @property
    def changes(self) -> DataFrame:
        """The partitions of `placement` that are not as they were: moved, reordered or new."""
        return self.placement.where(~F.col("previous").eqNullSafe(F.col("replicas")))

    def release(self) -> None:
        """Give back what is kept cached in the executors."""
        uncached(self._decided)


def reassign(
    fleet: Fleet | ReplicaFleet,
    change: Change | None = None,
    *,
    tolerance: float = TOLERANCE,
    voluntary: bool | None = None,
) -> Reassignment:
    """Plan where replicas go after a change.

    Args:
        fleet: replicas and brokers; a `ReplicaFleet` may have sizes, which are then evened out in place of counts.
        change: what changes; by default nothing, so that only what is wrong is repaired.
        tolerance: how far from its even share a broker may be, as a part of the share.
        voluntary: whether replicas that could stay may move to get brokers within the tolerance. By default that is
            so in clusters to which the change adds brokers; elsewhere exactly the moves are made that the hard
            constraints force.

    Raises:
        FleetError: a missing table or column, a wrong type, a null in a key.
        ValueError: a tolerance below 0.
    """
    if tolerance < 0:
        raise ValueError(f"tolerance is {tolerance}; give 0 or more, for example 0.1 for 10 %")
    known, change = replica_fleet(fleet), change or Change()
    known.check_keys()
    change.check_values()
    facts = _facts(known, change)
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
            placement.select("cluster", "topic", "partition", "replicas"), _brokers_after(known, change), known.sizes
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


# --- the facts; their columns are described in replicas.kernel.reassignment_facts ------------------------------------


def _facts(fleet: ReplicaFleet, change: Change) -> DataFrame:
    """All that the kernel is told, of the clusters that the change is about."""
    fenced = F.coalesce("fenced", F.lit(False)).cast("long")
    changes = change.tables()
    known = [
        _fact(fleet.brokers, kinds.BROKER, **_named("broker_id", "rack_id"), amount=fenced),
        _fact(fleet.replicas, kinds.PARTITION, **_named("topic", "partition", "replicas")),
    ]
    if fleet.sizes is not None:
        known.append(_fact(fleet.sizes, kinds.SIZE, **_named("topic", "partition"), amount=F.col("bytes")))
    facts = reduce(DataFrame.unionByName, known)
    if not changes:
        return facts
    of_brokers = {
        "removed": (kinds.REMOVED, ["broker_id"]),
        "added": (kinds.ADDED, ["broker_id", "rack_id"]),
        "racks": (kinds.RACK, ["broker_id", "rack_id"]),
    }
    asked = [
        _fact(changes[name], kind, **_named(*columns))
        for name, (kind, columns) in of_brokers.items()
        if name in changes
    ]
    amounts = {"replication_factors": (kinds.FACTOR, "replication_factor"), "partitions": (kinds.COUNT, "partitions")}
    asked += [
        _fact(changes[name], kind, topic=F.col("topic"), amount=F.col(amount).cast("long"))
        for name, (kind, amount) in amounts.items()
        if name in changes
    ]
    every = reduce(DataFrame.unionByName, asked)
    concerned = F.broadcast(every.select("cluster").distinct())
    return facts.join(concerned, "cluster", "left_semi").unionByName(every)


def _named(*columns: str) -> dict[str, Column]:
    return {name: F.col(name) for name in columns}


def _fact(rows: DataFrame, kind: int, **columns: Column) -> DataFrame:
    given = (columns.get(name, F.lit(None)).cast(type).alias(name) for name, type in _COLUMNS.items())
    return rows.select("cluster", F.lit(kind).cast("byte").alias("kind"), *given)


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


# --- what was decided ---------------------------------------------------------------------------------------------


def _placement(decided: DataFrame) -> DataFrame:
    return (
        decided.where(F.col("kind") == PLANNED)
        .withColumn("leader", F.col("replicas")[0])
        .withColumn("moved", F.size("moved_to"))
        .withColumn("leader_changed", F.coalesce(F.col("previous")[0] != F.col("replicas")[0], F.lit(False)))
        .select(*PLACEMENT.fieldNames())
    )


def _moves(decided: DataFrame) -> DataFrame:
    each = F.arrays_zip("moved_from", "moved_to", "reasons")
    return (
        decided.where((F.col("kind") == PLANNED) & (F.size("moved_to") > 0))
        .select("cluster", "topic", "partition", "bytes", F.explode(each).alias("move"))
        .select(
            *("cluster", "topic", "partition"),
            F.col("move.moved_from").alias("from_broker_id"),
            F.col("move.moved_to").alias("to_broker_id"),
            F.col("move.reasons").alias("reason"),
            "bytes",
        )
    )


def _metrics(decided: DataFrame) -> DataFrame:
    figure = {name: F.col("figures")[at] for at, name in enumerate(FIGURE_NAMES)}
    for name in ("moved_bytes", "lower_bound_bytes"):
        figure[name] = F.when(figure[name] >= 0, figure[name])
    figure["distance"] = figure["moved"] - figure["lower_bound"]
    return decided.where(F.col("kind") == FIGURES).select(
        *(F.col(name) if name == "cluster" else figure[name].alias(name) for name in METRICS.fieldNames())
    )
