"""Checks replicas: unbalanced brokers, unbalanced leaders, shared racks, missing replicas.

The brokers of a cluster are broadcast to its replicas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.fleet import FleetTables
from spark_assign.replicas.fleet import ReplicaFleet, replica_fleet, without_removed
from spark_assign.spark.dataframes import with_brokers
from spark_assign.spark.engine import divide
from spark_assign.stores.result import Result
from spark_assign.tables.replicas import BROKER_CHECK, CHECK_TABLES, CLUSTER_CHECK, PROBLEMS, RACK_CHECK

SHARED_RACK, FENCED_BROKER, UNKNOWN_BROKER, DUPLICATE_REPLICA, TOO_FEW_REPLICAS, UNEVEN_FACTOR = (
    *("shared-rack", "fenced-broker", "unknown-broker", "duplicate-replica", "too-few-replicas"),
    "uneven-replication-factor",
)
BEING_REASSIGNED, PLAN_OUTDATED = "being-reassigned", "plan-outdated"
CODES = (
    *(SHARED_RACK, FENCED_BROKER, UNKNOWN_BROKER, DUPLICATE_REPLICA, TOO_FEW_REPLICAS, UNEVEN_FACTOR),
    *(BEING_REASSIGNED, PLAN_OUTDATED),
)
"""Codes of problems."""

_KEY = ["cluster", "topic", "partition"]


@dataclass(frozen=True)
class ReplicaCheck(Result):
    """The result of `check` (schemas: `tables.replicas`).

    Args:
        brokers: one row per broker: replicas, preferred leaders, and both divided by the mean of the cluster.
        racks: one row per rack: brokers, replicas, preferred leaders.
        problems: one row per partition and problem, with a code.
        clusters: one row per cluster: skew, and the number of partitions with each problem.
    """

    schemas: ClassVar = CHECK_TABLES

    brokers: DataFrame
    racks: DataFrame
    problems: DataFrame
    clusters: DataFrame


def check(
    fleet: FleetTables | ReplicaFleet,
    *,
    min_replicas: int = 1,
    placement: DataFrame | None = None,
    after: ReplicaFleet | None = None,
) -> ReplicaCheck:
    """Checks the replicas of a fleet.

    Codes of `problems`
        shared-rack                replicas share a rack although more racks have unfenced brokers
        fenced-broker              a replica is on a fenced broker
        unknown-broker             a replica is on a broker that `brokers` doesn't list
        duplicate-replica          a broker is listed twice
        too-few-replicas           fewer than `min_replicas`
        uneven-replication-factor  fewer than another partition of the topic
        being-reassigned           the fleet has `adding_replicas` or `removing_replicas` of the partition; or with a
                                   plan: it has its previous and its new replicas
        plan-outdated              with a plan: the partition has neither its previous nor its new replicas

    Args:
        fleet: replicas and brokers.
        min_replicas: the minimum replication factor of a partition.
        placement: `placement` of a `Reassignment` from an earlier snapshot; it may be executed only if it isn't
            outdated.
        after: the fleet after a reassignment, which is checked instead; `fleet` is compared with `placement` only.

    Raises:
        FleetError: a missing table or column, a wrong type, a null, a negative partition, a broker or a
            partition with two rows.
    """
    tables = replica_fleet(fleet)
    tables.check_keys(unique=["brokers", "replicas"])
    checked = tables if after is None else after
    brokers = _broker_rows(checked)
    problems = _problems(checked, min_replicas)
    if placement is not None:
        problems = problems.unionByName(_plan_problems(tables.replicas, placement, _changing(checked.replicas)))
    return ReplicaCheck(brokers, _rack_rows(brokers), problems, _cluster_rows(brokers, problems))


def _broker_rows(fleet: ReplicaFleet) -> DataFrame:
    """Returns `tables.replicas.BROKER_CHECK`; a broker that only `replicas` lists has a null rack."""
    replicas = fleet.replicas.select("cluster", F.posexplode("replicas").alias("place", "broker_id"))
    counts = replicas.groupBy("cluster", "broker_id").agg(
        F.count(F.lit(1)).alias("replicas"), F.count(F.when(F.col("place") == 0, 1)).alias("leaders")
    )
    listed = fleet.brokers.withColumn("fenced", F.coalesce("fenced", F.lit(False))).drop("position")
    brokers = listed.join(counts, ["cluster", "broker_id"], "full").fillna(0, ["replicas", "leaders"])
    unfenced = F.count(F.when(~F.coalesce("fenced", F.lit(True)), 1))
    means = brokers.groupBy("cluster").agg(
        *(divide(F.sum(name), unfenced).alias(f"mean_{name}") for name in ("replicas", "leaders"))
    )
    over = (divide(F.col(name), F.col(f"mean_{name}")).alias(f"{name}_over_mean") for name in ("replicas", "leaders"))
    rows = brokers.join(F.broadcast(means), "cluster").select("*", *over)
    return rows.select(*BROKER_CHECK.fieldNames())


def _rack_rows(brokers: DataFrame) -> DataFrame:
    """Returns `tables.replicas.RACK_CHECK`, from the rows of brokers."""
    sums = (F.sum(name).alias(name) for name in ("replicas", "leaders"))
    racks = brokers.groupBy("cluster", "rack_id").agg(F.count(F.lit(1)).alias("brokers"), *sums)
    return racks.select(*RACK_CHECK.fieldNames())


def _problems(fleet: ReplicaFleet, min_replicas: int) -> DataFrame:
    """Returns `tables.replicas.PROBLEMS`."""
    fenced = F.when(F.col("fenced"), True).otherwise(False)
    # All brokers without a rack form one rack, as in `StripedReplicaPlacer`.
    rack = F.coalesce(F.concat(F.lit("rack "), "rack_id"), F.lit("no rack"))
    brokers = fleet.brokers.select("cluster", "broker_id", rack.alias("rack"), fenced.alias("fenced"))
    racks = brokers.groupBy("cluster").agg(F.count_distinct(F.when(~F.col("fenced"), F.col("rack"))).alias("racks"))
    targets = without_removed(fleet.replicas).withColumn("changing", _changing(fleet.replicas))
    targets = targets.select(*_KEY, "replicas", "changing")
    factors = targets.groupBy("cluster", "topic").agg(F.max(F.size("replicas")).alias("factor"))
    rows = (
        with_brokers(targets, "known", "replicas", brokers)
        .join(F.broadcast(racks), "cluster", "left")
        .join(factors, ["cluster", "topic"])
        .withColumn("in_racks", F.array_compact(F.transform("known", lambda broker: broker["rack"])))
        .withColumn("spanned", F.size(F.array_distinct("in_racks")))
    )
    needed = F.least(F.size("in_racks"), F.coalesce("racks", F.lit(0)))
    unknown, on_fenced = (
        F.transform(F.filter("known", is_found), lambda broker: broker["broker_id"])
        for is_found in (lambda broker: broker["rack"].isNull(), lambda broker: broker["fenced"])
    )
    replicas = _ids(F.col("replicas"))
    size, factor = F.size("replicas"), F.col("factor")
    conditions = [
        _problem(
            SHARED_RACK, F.col("spanned") < needed, "replicas %s are in %s of %s racks", replicas, "spanned", "racks"
        ),
        _problem(FENCED_BROKER, F.size(on_fenced) > 0, "on fenced broker %s", _ids(on_fenced)),
        _problem(UNKNOWN_BROKER, F.size(unknown) > 0, "brokers has no broker %s", _ids(unknown)),
        _problem(DUPLICATE_REPLICA, F.size(F.array_distinct("replicas")) < size, "duplicate broker in %s", replicas),
        _problem(TOO_FEW_REPLICAS, size < min_replicas, f"%s replica(s), expected at least {min_replicas}", size),
        _problem(BEING_REASSIGNED, F.col("changing") != "", "%s", "changing"),
        _problem(UNEVEN_FACTOR, size < factor, "%s replica(s), another partition of the topic has %s", size, factor),
    ]
    return _problem_rows(rows, conditions)


def _changing(replicas: DataFrame) -> Column:
    """Returns a text about the replicas that partitions get and lose while they are being reassigned; else empty."""
    columns = [name for name in ("adding_replicas", "removing_replicas") if name in replicas.columns]
    texts = (
        F.when(F.size(name) > 0, F.concat(F.lit(name.replace("_", " ") + " "), _ids(F.col(name)))) for name in columns
    )
    return F.concat_ws("; ", F.array_compact(F.array(*texts))) if columns else F.lit("")


def _plan_problems(replicas: DataFrame, placement: DataFrame, changing: Column) -> DataFrame:
    """Returns `tables.replicas.PROBLEMS` of the partitions that a plan changes, and that have changed since.

    Args:
        replicas: the current replicas.
        placement: see `check`.
        changing: result of `_changing` for the replicas that `_problems` checks, where being-reassigned is found, too.
    """
    old, new, now = F.col("previous_replicas"), F.col("replicas"), F.col("now")
    changed = placement.where(old.isNotNull() & (old != new)).select(*_KEY, "previous_replicas", "replicas")
    present = replicas.select(*_KEY, F.col("replicas").alias("now"), changing.alias("changing"))
    rows = changed.join(present, _KEY, "left")
    rows = rows.where(~(now.eqNullSafe(old) | now.eqNullSafe(new)))
    is_found = F.coalesce("changing", F.lit("")) != ""
    is_moving = F.coalesce(F.sort_array(now) == F.sort_array(F.array_union(old, new)), F.lit(False))
    from_old = "replicas are %s; the plan moves them from %s to %s"
    values = F.when(now.isNull(), F.lit("missing")).otherwise(_ids(now)), _ids(old), _ids(new)
    conditions = [
        _problem(BEING_REASSIGNED, is_moving & ~is_found, from_old, *values),
        _problem(PLAN_OUTDATED, ~is_moving, from_old, *values),
    ]
    return _problem_rows(rows, conditions)


def _problem_rows(rows: DataFrame, conditions: Sequence[Column]) -> DataFrame:
    problems = rows.select(*_KEY, F.explode(F.array_compact(F.array(*conditions))).alias("problem"))
    return problems.select(*_KEY, "problem.*").select(*PROBLEMS.fieldNames())


def _problem(code: str, condition: Column, text: str, *values: Column | str) -> Column:
    return F.when(condition, F.struct(F.lit(code).alias("code"), F.format_string(text, *values).alias("detail")))


def _ids(brokers: Column) -> Column:
    return F.concat_ws(",", brokers.cast("array<string>"))


def _cluster_rows(brokers: DataFrame, problems: DataFrame) -> DataFrame:
    """Returns `tables.replicas.CLUSTER_CHECK`."""
    unfenced = F.coalesce(~F.col("fenced"), F.lit(False))
    sizes = brokers.groupBy("cluster").agg(
        F.count(F.when(unfenced, 1)).alias("brokers"),
        F.count(F.when(F.col("cordoned"), 1)).alias("cordoned_brokers"),
        F.coalesce(F.sum("offline_log_dirs"), F.lit(0)).alias("offline_log_dirs"),
        F.sum("replicas").alias("replicas"),
        F.sum("leaders").alias("partitions"),
        *(
            aggregate(F.when(unfenced, F.col(f"{name}_over_mean"))).alias(f"{prefix}_{name}_over_mean")
            for name in ("replicas", "leaders")
            for prefix, aggregate in (("min", F.min), ("max", F.max))
        ),
    )
    columns = {code.replace("-", "_"): F.count(F.when(F.col("code") == code, 1)) for code in CODES}
    counted = problems.groupBy("cluster").agg(*(count.alias(name) for name, count in columns.items()))
    rows = sizes.join(counted, "cluster", "left").fillna(0, list(columns))
    return rows.select(*CLUSTER_CHECK.fieldNames())
