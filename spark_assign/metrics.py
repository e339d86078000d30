"""Figures per group, from runs and topic-level rows: balance, churn, and what is odd about the fleet."""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.claims import ODDITIES, Claims
from spark_assign.runs import expand
from spark_assign.schemas import GROUP_KEY, MEMBER_KEY, METRICS
from spark_assign.subscribers import CLASS_KEY

if TYPE_CHECKING:
    from spark_assign.fleet import Fleet
    from spark_assign.plan import Plan


def measure(plan: Plan) -> DataFrame:
    """A row per planned group; columns and units: `schemas.METRICS`.

    Everything there is to count about a group is brought together as rows and summed up once.
    """
    counts = [_members(plan), _topics(plan), *Claims(plan).counts(), *_rack_matches(plan)]
    if plan.withheld is not None:
        counts.append(plan.withheld.select(*GROUP_KEY, F.col("count").alias("withheld")))
    every = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), counts)
    given, total = F.col("given"), F.sum("given")
    mean = F.avg(given)
    figures = {
        "members": F.count(given),
        "partitions": total,
        "min_per_member": F.min(given),
        "max_per_member": F.max(given),
        "mean_per_member": mean,
        "stddev_per_member": F.stddev_pop(given),
        "max_over_mean": F.when(total > 0, F.max(given) / mean),
        "moved": _sum(every, "still_there") - _sum(every, "kept") - _sum(every, "back"),
        "revoked": _sum(every, "claimed") - _sum(every, "kept"),
        "unassigned": _sum(every, "subscribed_partitions") - total,
        "withheld": _sum(every, "withheld"),
        "members_without_subscription": F.count(given) - _sum(every, "subscribed"),
        **{name: _sum(every, name) for name in ("unknown_topics", *ODDITIES)},
        "rack_matched": F.sum("rack_matched") if "rack_matched" in every.columns else F.lit(None),
    }
    summed = every.groupBy(*GROUP_KEY).agg(*(figure.alias(name) for name, figure in figures.items()))
    measured = plan.groups.join(summed, GROUP_KEY, "left")
    filled = (
        F.col(field.name) if field.nullable or field.name in plan.groups.columns else F.coalesce(field.name, F.lit(0))
        for field in METRICS.fields
    )
    return measured.select(
        *(value.cast(field.dataType).alias(field.name) for value, field in zip(filled, METRICS.fields, strict=True))
    )


def _sum(rows: DataFrame, name: str) -> Column:
    return F.coalesce(F.sum(name), F.lit(0)) if name in rows.columns else F.lit(0)


def _members(plan: Plan) -> DataFrame:
    """Per member of the fleet: `given` partitions, and whether it has `subscribed` to anything (0 or 1)."""
    census = plan.fleet.census
    classes = census.topics.select(*CLASS_KEY).distinct()
    listed = census.members.join(classes.withColumn("subscribed", F.lit(1)), CLASS_KEY, "left")
    listed = listed.select(*MEMBER_KEY, F.lit(0).alias("given"), "subscribed")
    given = plan.runs.select(*MEMBER_KEY, F.col("count").alias("given"), F.lit(None).cast("int").alias("subscribed"))
    return (
        listed.unionByName(given)
        .groupBy(*MEMBER_KEY)
        .agg(F.sum("given").alias("given"), F.coalesce(F.max("subscribed"), F.lit(0)).alias("subscribed"))
        .drop("member_id")
    )


def _topics(plan: Plan) -> DataFrame:
    """Per topic: `subscribed_partitions`, and whether it is one of the `unknown_topics` (0 or 1)."""
    return plan.fleet.census.topics.select(
        *GROUP_KEY,
        F.col("partitions").alias("subscribed_partitions"),
        F.col("partitions").isNull().cast("int").alias("unknown_topics"),
    )


def _rack_matches(plan: Plan) -> list[DataFrame]:
    """Partitions that went to a member with a replica in its rack, in groups where members have racks."""
    fleet = plan.fleet
    if not fleet.racks_known or not fleet.census.racked_members:
        return []
    racked = fleet.members.where(F.col("rack_id") != "").select(*MEMBER_KEY, "rack_id")
    near = expand(plan.runs.join(racked, MEMBER_KEY)).join(
        racks_of_replicas(fleet), ["cluster", "topic", "partition", "rack_id"], "left_semi"
    )
    return [
        racked.select(*GROUP_KEY, F.lit(0).alias("rack_matched")),
        near.select(*GROUP_KEY, F.lit(1).alias("rack_matched")),
    ]


def racks_of_replicas(fleet: Fleet) -> DataFrame:
    """A row per partition and rack that holds a replica of it: cluster, topic, partition, rack_id."""
    assert fleet.replicas is not None
    assert fleet.brokers is not None
    return (
        fleet.replicas.select("cluster", "topic", "partition", F.explode("replicas").alias("broker_id"))
        .join(fleet.brokers.select("cluster", "broker_id", "rack_id"), ["cluster", "broker_id"])
        .select("cluster", "topic", "partition", "rack_id")
    )
