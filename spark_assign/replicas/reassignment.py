"""Reassigns replicas when brokers, replication factors, or partitions change, with as few moves as possible.

`replicas.kernel.reassign` documents the order of priority (hard constraints, fewest moves, balance within a tolerance,
balanced leaders) and which steps are exact. This module collects the facts of each cluster, one row per fact. One Spark
task plans a cluster; many tasks plan many clusters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.fleet import FleetTables
from spark_assign.replicas.fleet import ClusterChange, ReplicaFleet, replica_fleet, without_removed
from spark_assign.replicas.kernel import reassign_table as kernel
from spark_assign.replicas.kernel import reassignment_facts as kinds
from spark_assign.replicas.kernel.balance_log_dirs import LOG_DIRS
from spark_assign.replicas.kernel.load_goals import LoadGoals
from spark_assign.spark.dataframes import gather_tables, run_pass, union
from spark_assign.stores.result import LazyResult
from spark_assign.tables.errors import ConfigError, Fault, FleetError
from spark_assign.tables.replicas import BALANCE, CLUSTER_REJECTED, METRICS, MOVES, PLACEMENT, REASSIGN_TABLES
from spark_assign.tables.schema_fields import schema, tagged_schema

ROWS_PER_TASK = 250_000
"""Number of facts per Spark task; a cluster is never split."""

TOLERANCE = 0.1
"""Default deviation of a broker from its even share, as a fraction of the share."""

LOG_DIR_LISTS = ("previous_log_dirs", "log_dirs", "log_dir_bytes")
"""Columns of `placement` with a list beside the replicas; empty if there is nothing to say."""

_MOVED_PATHS = ("from_log_dirs", "to_log_dirs")
_PARTITIONS = schema(
    "topic string, partition int, previous_replicas array<int>, new_replicas array<int>, moved_from array<int>",
    "moved_to array<int>, reasons array<string>, from_log_dirs array<string>, to_log_dirs array<string>",
    "previous_log_dirs array<string>, log_dirs array<string>, log_dir_bytes array<long>, bytes long",
)
REASSIGNMENT_ROWS = tagged_schema(
    {kernel.METRICS: METRICS, kernel.BALANCE: BALANCE, kernel.REJECTED: CLUSTER_REJECTED, kernel.PLACEMENT: _PARTITIONS}
)
"""Schema of the tagged rows (`replicas.kernel.reassign_table`)."""


@dataclass(frozen=True)
class Reassignment(LazyResult):
    """The result of `reassign`, as lazy DataFrames.

    Attributes:
        fleet: The replicas and brokers before the reassignment.
        change: The changes of clusters.
    """

    schemas: ClassVar = REASSIGN_TABLES

    fleet: ReplicaFleet
    change: ClusterChange

    @cached_property
    def placement(self) -> DataFrame:
        """Every partition of the planned clusters with its previous and its new replicas
        (`tables.replicas.PLACEMENT`)."""
        old_leader, leader = (F.get(name, F.lit(0)) for name in ("previous_replicas", "new_replicas"))
        columns = {
            "replicas": F.col("new_replicas"),
            "leader": leader,
            "moved": F.size(F.filter("reasons", lambda reason: reason != LOG_DIRS)),
            "leader_changed": F.coalesce(old_leader != leader, F.lit(False)),
        }
        columns |= {name: F.coalesce(name, F.array().cast(PLACEMENT[name].dataType)) for name in LOG_DIR_LISTS}
        return self._rows(kernel.PLACEMENT).withColumns(columns).select(*PLACEMENT.names)

    @cached_property
    def changes(self) -> DataFrame:
        """The partitions of `placement` that change: moved, reordered, or new, or moved to another log directory."""
        return self.placement.where(is_changed())

    @cached_property
    def moves(self) -> DataFrame:
        """One row per replica that moves to another broker or log directory, with the reason
        (`tables.replicas.MOVES`)."""
        paths = {name: F.coalesce(name, F.array().cast("array<string>")) for name in _MOVED_PATHS}
        listed = ("moved_from", "moved_to", "reasons", *_MOVED_PATHS)
        moves = F.explode(F.arrays_zip(*listed)).alias("move")
        rows = self._rows(kernel.PLACEMENT).withColumns(paths).select("*", moves)
        names = ("from_broker_id", "to_broker_id", "reason", "from_log_dir", "to_log_dir")
        fields = {name: F.col(f"move.{field}") for name, field in zip(names, listed, strict=True)}
        place = F.array_position("new_replicas", fields["to_broker_id"]).cast("int")
        within = fields["reason"] == LOG_DIRS
        fields["bytes"] = F.when(within, F.get("log_dir_bytes", place - 1)).otherwise(F.col("bytes"))
        return rows.withColumns(fields).select(*MOVES.names)

    @cached_property
    def metrics(self) -> DataFrame:
        """One row per planned cluster: moves, their lower bound, balance (`tables.replicas.METRICS`)."""
        return self._rows(kernel.METRICS, METRICS)

    @cached_property
    def balance(self) -> DataFrame:
        """One row per broker and goal: its load before and after, and the bounds (`tables.replicas.BALANCE`)."""
        return self._rows(kernel.BALANCE, BALANCE)

    @cached_property
    def after(self) -> ReplicaFleet:
        """The planned clusters after the reassignment. Their log directories aren't known."""
        replicas = self.placement.select("cluster", "topic", "partition", "replicas")
        brokers = _brokers_after(self.fleet, self.change)
        return replace(self.fleet, replicas=replicas, brokers=brokers, log_dirs=None, log_dir_replicas=None)


def is_changed() -> Column:
    """Returns the condition that a row of `placement` changes."""
    return ~F.col("previous_replicas").eqNullSafe(F.col("replicas")) | (F.size("log_dirs") > 0)


def reassign(
    fleet: FleetTables | ReplicaFleet,
    change: ClusterChange | None = None,
    *,
    tolerance: float = TOLERANCE,
    voluntary: bool | None = None,
    goals: LoadGoals | None = None,
) -> Reassignment:
    """Plans a reassignment of replicas.

    Args:
        fleet: Replicas and brokers. If a `ReplicaFleet` has sizes, bytes are balanced instead of counts; without
            sizes, those of `log_dir_replicas` count. A partition that is being reassigned counts with its target.
        change: Changes of clusters; by default none, so that only violated constraints are repaired.
        tolerance: Maximum deviation of a broker from its even share, as a fraction of the share.
        voluntary: Whether replicas that could stay may move to bring brokers within the tolerance. By default, only in
            clusters to which the change adds brokers. Otherwise only the moves that the hard constraints require.
        goals: Goals for the loads of brokers, for which replicas and leaders move beside the required moves. The
            `tolerance` then only counts brokers out of tolerance in `metrics`.

    Raises:
        FleetError: A table or column is missing, has a wrong type, or has a null in a key.
        ConfigError: The tolerance is below 0, or `voluntary` is given beside goals.
    """
    if tolerance < 0:
        raise ConfigError(f"tolerance is {tolerance}, expected 0 or more, for example 0.1 for 10 %")
    if goals is not None and voluntary is not None:
        raise ConfigError("expected either goals or voluntary: goals have their own moves")
    given, change = replica_fleet(fleet), change or ClusterChange()
    original = replace(given, replicas=without_removed(given.replicas), sizes=_sizes(given))
    tables = _tables_for_goals(original, goals)
    tables.check_keys()
    change.check_keys()
    facts = _gather_facts(tables, change)
    tasks = max(1, -(-facts.count() // ROWS_PER_TASK))
    work = partial(kernel.reassign_clusters, tolerance=tolerance, voluntary=voluntary, goals=goals)
    return Reassignment(run_pass(facts, ["cluster"], tasks, work, REASSIGNMENT_ROWS, 50_000), original, change)


def _sizes(fleet: ReplicaFleet) -> DataFrame | None:
    """Returns the sizes of partitions: those given, or the largest log of a replica."""
    if fleet.sizes is not None or fleet.log_dir_replicas is None:
        return fleet.sizes
    logs = fleet.log_dir_replicas.where(~F.col("is_future") & (F.col("bytes") >= 0))
    return logs.groupBy("cluster", "topic", "partition").agg(F.max("bytes").alias("bytes"))


def _tables_for_goals(fleet: ReplicaFleet, goals: LoadGoals | None) -> ReplicaFleet:
    """Returns the tables that the goals need.

    Raises:
        FleetError: A table is missing.
    """
    needs_rates = goals is not None and goals.needs_rates
    faults = []
    if goals is not None and goals.needs_sizes and fleet.sizes is None:
        remedy = (
            "Take a snapshot with --log-dirs, give cluster, topic, partition, bytes with --table sizes=LOCATION, or "
            "leave out disk"
        )
        faults.append(Fault("sizes", "bytes", "the table is missing, so the bytes of replicas are unknown", remedy))
    if needs_rates and fleet.loads is None:
        remedy = "Take them from two snapshots (diff --loads), or leave out in, out, and leader-in"
        faults.append(Fault("loads", "in_bytes_per_second", "the table is missing, so rates are unknown", remedy))
    needs_log_dirs = goals is not None and goals.needs_log_dirs
    for name in ("log_dirs", "log_dir_replicas") if needs_log_dirs else ():
        if getattr(fleet, name) is None:
            remedy = "Take a snapshot with --log-dirs, or leave out log-dirs"
            faults.append(Fault(name, "*", "the table is missing, so the log directories are unknown", remedy))
    if faults:
        raise FleetError(faults)
    return replace(
        fleet,
        loads=fleet.loads if needs_rates else None,
        capacities=None if goals is None else fleet.capacities,
        log_dirs=fleet.log_dirs if needs_log_dirs else None,
        log_dir_replicas=fleet.log_dir_replicas if needs_log_dirs else None,
    )


# --- input tables (`replicas.kernel.reassignment_facts`) --------------------------------------------------------------


def _gather_facts(fleet: ReplicaFleet, change: ClusterChange) -> DataFrame:
    """Returns the tables of the clusters that change, or of all clusters without changes."""
    tables = fleet.tables()
    if (loads := tables.pop("loads", None)) is not None:
        tables["rates"] = _rates(loads)
    changes = change.tables()
    facts = gather_tables(tables | changes, ["cluster"], kinds.TABLES)
    changed = [rows.select("cluster") for rows in changes.values()]
    return facts.join(F.broadcast(reduce(DataFrame.union, changed).distinct()), "cluster") if changed else facts


def _rates(loads: DataFrame) -> DataFrame:
    """Returns what is written to each partition, and the number of groups that read it."""
    rates = loads.groupBy("cluster", "topic", "partition").agg(
        F.max("in_bytes_per_second").alias("rate"), F.count_distinct("group_id").alias("groups")
    )
    # A rate that no broker has is -1, which the kernel rejects: beyond long, it couldn't be cast.
    usable = F.col("rate").between(0.0, kinds.MAX_RATE)
    written = F.when(~usable, F.lit(-1.0)).otherwise(F.round("rate")).cast("long")
    return rates.withColumn("in_rate", written)


def _brokers_after(fleet: ReplicaFleet, change: ClusterChange) -> DataFrame:
    """Returns the brokers after a change."""
    brokers = fleet.brokers.select("cluster", "broker_id", "rack_id", "fenced", "cordoned", "offline_log_dirs")
    if change.removed is not None:
        brokers = brokers.join(change.removed, ["cluster", "broker_id"], "left_anti")
    if change.racks is not None:
        racks = change.racks.select("cluster", "broker_id", F.struct("rack_id").alias("new"))
        rack = F.when(F.col("new").isNull(), F.col("rack_id")).otherwise(F.col("new.rack_id"))
        brokers = brokers.join(racks, ["cluster", "broker_id"], "left").withColumn("rack_id", rack).drop("new")
    if change.added is not None:
        added = change.added.select("cluster", "broker_id", "rack_id", F.lit(False).alias("fenced"))
        brokers = union([brokers, added])
    return brokers
