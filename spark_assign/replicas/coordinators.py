"""Measures the load of coordinators: what each broker coordinates, its hottest partition, and which leader moves would
spread the load.

A group's coordinator is the leader of a partition of `__consumer_offsets`; a share partition's state is in a partition
of `__share_group_state`, by the hash of `group:topicId:partition` (`SharePartitionKey`).
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.fleet import FleetTables
from spark_assign.groups.alerts import cluster_times
from spark_assign.numeric.arrays import MAX_PARTITIONS
from spark_assign.replicas.kernel.group_effects import MAX_SHARE_PARTITIONS, share_partition_counts
from spark_assign.replicas.kernel.spread_leaders import leader_moves
from spark_assign.spark.dataframes import bounded_sum, run_pass, union, with_leaders
from spark_assign.tables.replicas import COORDINATORS, LEADER_MOVES
from spark_assign.tables.schema_fields import schema

OFFSETS_TOPIC, SHARE_TOPIC = "__consumer_offsets", "__share_group_state"
_GROUP = ["cluster", "group_id"]
_PARTITION = ["cluster", "topic", "partition"]
_RATES = ("commits_per_second", "rebalances_per_second")
_SHARE_FACTS = (*_GROUP, "topic_id", "partitions", "state_partitions")
_SHARED = schema("cluster string, partition int?, groups long, keys long")
_LOADS = schema("cluster string, topic string, partition int, replicas array<int>, leader_id int, load double")


def partition_loads(
    fleet: FleetTables, groups: DataFrame, shared: DataFrame, history: Mapping[str, DataFrame] | None
) -> DataFrame:
    """Returns the load of each partition of the two internal topics, with their replicas; not of `__share_group_state`
    if its share partitions weren't counted.

    Args:
        fleet: the fleet, with replicas.
        groups: cluster, group_id, group_type, members, coordinator_partition.
        shared: `share_partitions`.
        history: tables `groups` and `commits` of `tables.history.HISTORY_TABLES`, for the rates; None if unknown.

    Returns:
        cluster, topic, partition, replicas, leader_id, groups, members, keys, commits_per_second?,
        rebalances_per_second?, load. `keys`: groups or share partitions. `load`: commits per second, or keys.
    """
    rates = group_rates(history) if history else groups.select(*_GROUP).distinct()
    unknown = [F.lit(None).cast("double").alias(name) for name in _RATES] if history is None else []
    offsets = (
        groups.join(rates, _GROUP, "left")
        .select("*", *unknown)
        .groupBy("cluster", F.col("coordinator_partition").alias("partition"))
        .agg(
            F.count(F.lit(1)).alias("groups"),
            F.sum("members").alias("members"),
            F.count(F.lit(1)).alias("keys"),
            *_summed_rates(),
        )
        .withColumn("topic", F.lit(OFFSETS_TOPIC))
    )
    is_counted, of_topic = F.col("partition").isNotNull(), F.lit(SHARE_TOPIC).alias("topic")
    counted = union([offsets, shared.where(is_counted).select("*", of_topic)])
    internal = fleet.replicas.where(F.col("topic").isin(OFFSETS_TOPIC, SHARE_TOPIC))  # type: ignore[union-attr]
    rows = with_leaders(internal.where(F.size("replicas") > 0))
    rows = rows.join(shared.where(~is_counted).select("cluster", of_topic), ["cluster", "topic"], "left_anti")
    rows = rows.join(counted, _PARTITION, "left").fillna(0, ["groups", "members", "keys"])
    load: Column = F.col("keys").cast("double")
    if history is not None:
        measured = F.col("topic") == OFFSETS_TOPIC
        rows = rows.withColumns({name: F.when(measured, F.coalesce(name, F.lit(0.0))) for name in _RATES})
        load = F.coalesce("commits_per_second", load)
    return rows.withColumn("load", load)


def group_rates(history: Mapping[str, DataFrame]) -> DataFrame:
    """Returns the rates of each group over the time between the first and the last record of its cluster."""
    groups, commits = history["groups"], history["commits"]
    seconds = (F.unix_millis("end") - F.unix_millis("start")) / 1000
    spans = cluster_times(groups).select("cluster", seconds.alias("seconds"))
    sums = commits.groupBy(*_GROUP).agg(bounded_sum(F.col("commits")).alias("commits"))
    rows = groups.select(*_GROUP, "rebalances").join(sums, _GROUP, "left").join(F.broadcast(spans), "cluster")
    per_second = {
        f"{name}_per_second": F.coalesce(name, F.lit(0)) / F.when(F.col("seconds") > 0, F.col("seconds"))
        for name in ("commits", "rebalances")
    }
    return rows.select(*_GROUP, *(rate.alias(name) for name, rate in per_second.items()))


def _summed_rates() -> list[Column]:
    """Returns the sums of the rates, rounded, because the last bits of a sum depend on the order of the rows."""
    return [F.round(F.sum(name), 9).alias(name) for name in _RATES]


def share_partitions(fleet: FleetTables, groups: DataFrame) -> DataFrame:
    """Returns cluster, partition, groups, keys: the number of share groups and of share partitions by partition of
    `__share_group_state`; a row without a partition for a cluster with too many (cached)."""
    share = groups.where("group_type = 'share'").select(*_GROUP)
    topics = fleet.topics.where(f"topic_id IS NOT NULL AND partitions BETWEEN 1 AND {MAX_PARTITIONS}")
    topics = topics.select("cluster", "topic", "topic_id", "partitions")
    subscribed = fleet.subscribed_topics.join(share, _GROUP, "left_semi").join(topics, ["cluster", "topic"])
    counts = fleet.topics.where((F.col("topic") == SHARE_TOPIC) & (F.col("partitions") > 0))
    counts = counts.select("cluster", F.col("partitions").alias("state_partitions"))
    facts = subscribed.join(F.broadcast(counts), "cluster").select(*_SHARE_FACTS)
    return run_pass(facts, ["cluster"], 4, share_partition_counts, _SHARED)


def uncounted_clusters(shared: DataFrame) -> DataFrame:
    """Returns `tables.replicas.CLUSTER_REJECTED`: the clusters with too many share partitions to count."""
    detail = (
        f"groups: share groups have more than {MAX_SHARE_PARTITIONS:,} partitions of topics together, or {SHARE_TOPIC} "
        f"more than {MAX_PARTITIONS:,}. The load of its coordinators is unknown; all else of the cluster is known"
    )
    code = F.lit("too-many-partitions").alias("code")
    return shared.where("partition IS NULL").select("cluster", code, F.lit(detail).alias("detail"))


def coordinator_rows(brokers: DataFrame, loads: DataFrame) -> DataFrame:
    """Returns `tables.replicas.COORDINATORS` of brokers (cluster, broker_id) from `partition_loads`."""
    hottest = F.max(F.struct("load", (-F.col("partition").cast("long")).alias("least"))).alias("hottest")
    sums = ("groups", "members", "keys")
    counted = loads.groupBy("cluster", "topic", F.col("leader_id").alias("broker_id")).agg(
        F.count(F.lit(1)).alias("partitions"), *(F.sum(name).alias(name) for name in sums), *_summed_rates(), hottest
    )
    rows = counted.join(brokers, ["cluster", "broker_id"], "left_semi").withColumns(
        {"hottest_partition": (-F.col("hottest.least")).cast("int"), "hottest_load": F.col("hottest.load")}
    )
    return rows.select(*COORDINATORS.names)


def leader_move_rows(loads: DataFrame) -> DataFrame:
    """Returns `tables.replicas.LEADER_MOVES` from `partition_loads` (cached)."""
    return run_pass(loads.select(*_LOADS.names), ["cluster"], 1, leader_moves, LEADER_MOVES)
