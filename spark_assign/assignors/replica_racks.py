"""Where the replicas of a fleet's partitions are."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.assignors.groups import Groups


def replica_racks(groups: Groups) -> DataFrame:
    """Per cluster and topic the racks of its partitions' replicas: `at` (partitions) and `racks`, side by side.

    Partitions without any known rack are left out.
    """
    fleet = groups.fleet
    assert fleet.replicas is not None
    assert fleet.brokers is not None
    broker_racks = fleet.brokers.where(F.col("rack_id") != "").select("cluster", "broker_id", "rack_id")
    return (
        fleet.replicas.select("cluster", "topic", "partition", F.explode("replicas").alias("broker_id"))
        .join(broker_racks, ["cluster", "broker_id"])
        .groupBy("cluster", "topic", "partition")
        .agg(F.collect_set("rack_id").alias("racks"))
        .join(fleet.topics.select("cluster", "topic", "partitions"), ["cluster", "topic"])
        .where(F.col("partition") < F.col("partitions"))
        .groupBy("cluster", "topic")
        .agg(F.collect_list(F.struct("partition", "racks")).alias("layout"))
        .select("cluster", "topic", F.col("layout.partition").alias("at"), F.col("layout.racks").alias("racks"))
    )
