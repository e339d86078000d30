"""Runs: partitions first, first + step, … of one topic, `count` of them, as one row.

Every assignment is made of few runs (a range is one with step 1, a round robin one with step n), so that plans are
computed on runs and expanded to partitions last, if at all.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.arrow_batches import in_arrow
from spark_assign.facts import as_blocks
from spark_assign.kernels.group.key_index import number_rows, numbers
from spark_assign.kernels.group.ownership_bitmaps import runs_of_blocks, words
from spark_assign.schemas import GROUP_KEY, RUNS


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
        partitions: cluster, group_id, member_id, topic, partition, none of them null. The same row twice counts once.

    Returns:
        cluster, group_id, member_id, topic, first, step, count.
    """
    blocks = as_blocks(partitions).repartition(*GROUP_KEY, "topic")  # adaptive execution decides in how many tasks
    return blocks.mapInArrow(in_arrow(_merged), RUNS)


def _merged(blocks: pa.Table) -> Iterator[pa.Table]:
    key = ["cluster", "group_id", "member_id", "topic"]
    number, example = number_rows(blocks, key)
    owner, *run = runs_of_blocks(number, numbers(blocks["block"], 0), words(blocks["bits"].combine_chunks()))
    columns = blocks.select(key).take(pa.array(example[owner], pa.int64())).columns
    yield pa.table([*columns, *(pa.array(each, pa.int32()) for each in run)], names=[*key, "first", "step", "count"])
