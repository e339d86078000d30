"""Lay a group's topics against their subscribers, with the work spread evenly whatever the shape of the fleet."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_assign.assignors.groups import Groups
from spark_assign.census import BROADCAST_ROWS
from spark_assign.schemas import GROUP_KEY
from spark_assign.subscribers import CLASS_KEY

PARTITIONS_PER_TASK = 1_000_000
TOPICS_PER_TASK = 32
"""With fewer topics than this for every task, tasks of whole topics would come out uneven."""
PAIRS_PER_TILE = 2_000_000


def lay_out(topics: DataFrame, groups: Groups) -> DataFrame:
    """Every topic with each of its subscribers.

    Args:
        topics: cluster, group_id, subscribers, topic, partitions and whatever else the assignor has found.
        groups: the groups being planned.

    Returns:
        the columns of `topics` but subscribers, and those of `Groups.members`. In as many Spark partitions as the work
        is worth.
    """
    census = groups.census
    tasks = _tasks(topics.sparkSession, census.partitions)
    by_topic = census.group_topics >= tasks * TOPICS_PER_TASK
    if census.all_members + census.partial_subscribers > BROADCAST_ROWS:
        pairs = _tiled(topics, groups.members)
    elif by_topic:
        spread = topics.repartition(tasks, *GROUP_KEY, "topic")
        return spread.join(F.broadcast(groups.members), CLASS_KEY).drop("subscribers")
    else:
        pairs = topics.join(F.broadcast(groups.members), CLASS_KEY)
    return pairs.drop("subscribers").repartition(tasks, *GROUP_KEY, "topic", "member_id")


def _tasks(spark: SparkSession, partitions: int) -> int:
    """A task for every million partitions, but no more than the session shuffles to."""
    asked = spark.conf.get("spark.sql.shuffle.partitions") or ""
    most = int(asked) if asked.isdigit() else 200  # on Databricks it may be "auto"
    return max(2, min(most, -(-partitions // PARTITIONS_PER_TASK)))


def _tiled(topics: DataFrame, members: DataFrame) -> DataFrame:
    """The join by shuffle: a class of many topics and many members is cut into tiles of its topics."""
    sizes = topics.groupBy(*CLASS_KEY).agg(
        F.ceil(F.count(F.lit(1)) * F.first("subscribers.number") / PAIRS_PER_TILE).cast("int").alias("tiles")
    )
    cut = topics.join(sizes, CLASS_KEY).withColumn("tile", F.pmod(F.xxhash64("topic"), F.col("tiles")).cast("int"))
    copied = members.join(sizes, CLASS_KEY).withColumn("tile", F.explode(F.sequence(F.lit(0), F.col("tiles") - 1)))
    return cut.drop("tiles").join(copied.drop("tiles"), [*CLASS_KEY, "tile"]).drop("tile")
