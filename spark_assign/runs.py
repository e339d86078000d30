"""Runs: partitions first, first + step, … of one topic, `count` of them, as one row.

Every assignment is made of few runs (a range is one with step 1, a round robin one with step n), so that plans are
computed on runs and expanded to partitions last, if at all.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.schemas import MEMBER_KEY

_PER_TOPIC = [*MEMBER_KEY, "topic"]


def expand(runs: DataFrame) -> DataFrame:
    """Runs to one row per partition: `first, step, count` become `partition`; other columns are carried along.

    A run of no partitions gives no row.
    """
    last = F.col("first") + F.col("step") * (F.col("count") - 1)
    numbers = F.explode(F.sequence("first", last, "step")).alias("partition")
    others = [name for name in runs.columns if name not in ("first", "step", "count")]
    return runs.where(F.col("count") > 0).select(*others, numbers)


def holds(partition: Column, first: Column, step: Column, count: Column) -> Column:
    """Whether a run holds a partition."""
    offset = partition - first
    return (offset >= 0) & (offset < step * count) & (offset % step == 0)


def compress(partitions: DataFrame) -> DataFrame:
    """One row per partition to runs, losslessly: evenly spaced neighbours of a member's topic become one run.

    Args:
        partitions: cluster, group_id, member_id, topic, partition. The same row twice counts once.

    Returns:
        cluster, group_id, member_id, topic, first, step, count.
    """
    ordered = Window.partitionBy(*_PER_TOPIC).orderBy("partition")
    gap = F.col("partition") - F.lag("partition").over(ordered)
    # A partition turns where its gap differs from the gap before it. The first turn of a stretch of turns starts a
    # run, the second is that run's second partition (its gap is the new step), the third starts another, and so on.
    turns = F.coalesce(F.col("gap") != F.lag("gap").over(ordered), F.lit(True))
    stretch = F.sum((~F.col("turns")).cast("int")).over(ordered)
    in_stretch = F.row_number().over(Window.partitionBy(*_PER_TOPIC, "stretch").orderBy("partition"))
    after_straight = F.col("stretch") > 0
    # Rows of a stretch are one straight row (none in the first stretch) followed by its turns.
    turn_number = in_stretch - after_straight.cast("int")
    starts = F.col("turns") & (F.col("turn_number") % 2 == 1)
    run = F.sum(F.col("starts").cast("int")).over(ordered)
    return (
        partitions.select(*_PER_TOPIC, "partition")
        .distinct()
        .withColumn("gap", gap)
        .withColumn("turns", turns)
        .withColumn("stretch", stretch)
        .withColumn("turn_number", turn_number)
        .withColumn("starts", starts)
        .withColumn("run", run)
        .groupBy(*_PER_TOPIC, "run")
        .agg(
            F.min("partition").alias("first"),
            F.max("partition").alias("last"),
            F.count(F.lit(1)).cast("int").alias("count"),
        )
        .select(
            *_PER_TOPIC,
            "first",
            F.when(F.col("count") > 1, (F.col("last") - F.col("first")) / (F.col("count") - 1))
            .otherwise(1)
            .cast("int")
            .alias("step"),
            "count",
        )
    )
