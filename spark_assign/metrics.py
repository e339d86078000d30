"""Figures per group, from runs and topic-level rows: balance, churn, and what is odd about the fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.claims import Claims
from spark_assign.runs import expand
from spark_assign.schemas import GROUP_KEY, MEMBER_KEY, METRICS
from spark_assign.subscribers import CLASS_KEY

if TYPE_CHECKING:
    from spark_assign.fleet import Fleet
    from spark_assign.plan import Plan


def measure(plan: Plan) -> DataFrame:
    """A row per planned group; columns and units: `schemas.METRICS`."""
    parts = [_topics(plan), _subscribed_members(plan), Claims(plan).figures(), _rack_matches(plan)]
    metrics = plan.groups.join(_balance(plan), GROUP_KEY)
    for part in parts:
        if part is not None:
            metrics = metrics.join(part, GROUP_KEY, "left")
    columns = []
    derived = {
        "unassigned": F.coalesce("subscribed_partitions", F.lit(0)) - F.col("partitions"),
        "members_without_subscription": F.col("members") - F.coalesce("subscribed_members", F.lit(0)),
    }
    for field in METRICS.fields:
        if field.name in derived:
            value = derived[field.name]
        elif field.name not in metrics.columns:
            value = F.lit(None) if field.nullable else F.lit(0)
        else:
            value = F.col(field.name) if field.nullable else F.coalesce(field.name, F.lit(_zero(field.name)))
        columns.append(value.cast(field.dataType).alias(field.name))
    return metrics.select(*columns)


def _zero(name: str) -> str | int:
    return "" if name in (*GROUP_KEY, "assignor") else 0


def _balance(plan: Plan) -> DataFrame:
    """Partitions per member, members without any included."""
    given = plan.runs.groupBy(*MEMBER_KEY).agg(F.sum("count").alias("given"))
    members = plan.fleet.members.select(*MEMBER_KEY).join(given, MEMBER_KEY, "left")
    each = F.coalesce("given", F.lit(0))
    mean = F.avg(each)
    return members.groupBy(*GROUP_KEY).agg(
        F.count(F.lit(1)).alias("members"),
        F.sum(each).alias("partitions"),
        F.min(each).alias("min_per_member"),
        F.max(each).alias("max_per_member"),
        mean.alias("mean_per_member"),
        F.stddev_pop(each).alias("stddev_per_member"),
        F.when(F.sum(each) > 0, F.max(each) / mean).alias("max_over_mean"),
    )


def _topics(plan: Plan) -> DataFrame:
    """Partitions that the group's members subscribe to, and subscribed topics without metadata."""
    return plan.fleet.census.topics.groupBy(*GROUP_KEY).agg(
        F.sum("partitions").alias("subscribed_partitions"),
        F.count(F.when(F.col("partitions").isNull(), 1)).alias("unknown_topics"),
    )


def _subscribed_members(plan: Plan) -> DataFrame:
    """Members that subscribe to anything at all, read off the classes of subscribers."""
    census = plan.fleet.census
    subscribers = census.members.join(census.topics.select(*CLASS_KEY).distinct(), CLASS_KEY, "left_semi")
    return subscribers.select(*MEMBER_KEY).distinct().groupBy(*GROUP_KEY).agg(
        F.count(F.lit(1)).alias("subscribed_members")
    )


def _rack_matches(plan: Plan) -> DataFrame | None:
    """Partitions that went to a member with a replica in its rack, in groups where members have racks."""
    fleet = plan.fleet
    if not fleet.racks_known or not fleet.census.racked_members:
        return None
    racked = fleet.members.where(F.col("rack_id") != "").select(*MEMBER_KEY, "rack_id")
    near = expand(plan.runs.join(racked, MEMBER_KEY)).join(
        _racks_of_replicas(fleet), ["cluster", "topic", "partition", "rack_id"], "left_semi"
    )
    matched = near.groupBy(*GROUP_KEY).agg(F.count(F.lit(1)).alias("matched"))
    return (
        racked.select(*GROUP_KEY)
        .distinct()
        .join(matched, GROUP_KEY, "left")
        .select(*GROUP_KEY, F.coalesce("matched", F.lit(0)).alias("rack_matched"))
    )


def _racks_of_replicas(fleet: Fleet) -> DataFrame:
    assert fleet.replicas is not None
    assert fleet.brokers is not None
    return (
        fleet.replicas.select("cluster", "topic", "partition", F.explode("replicas").alias("broker_id"))
        .join(fleet.brokers.select("cluster", "broker_id", "rack_id"), ["cluster", "broker_id"])
        .select("cluster", "topic", "partition", "rack_id")
    )
