"""Runs: partitions first, first + step, … of one topic, `count` of them, as one row.

Every assignment is made of few runs (a range is one with step 1, a round robin one with step n), so that plans are
computed on runs and expanded to partitions last, if at all.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


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
