"""Runs: partitions first, first + step, … of one topic, `count` of them, as one row.

Every assignment is made of few runs (a range is one with step 1, a round robin one with step n), so that plans are
computed on runs and expanded to partitions last, if at all.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.java.key_index import index_rows, to_int_array
from spark_assign.numeric.ownership_bitmaps import (
    BITMAP_INDEX_BITS,
    WORDS_PER_BITMAP,
    read_bitmaps,
    slices_from_bitmaps,
)
from spark_assign.spark.arrow_batches import map_arrow_batches
from spark_assign.tables.groups import GROUP_KEY, MEMBER_KEY, RUNS


def expand(runs: DataFrame) -> DataFrame:
    """Runs to one row per partition: `first, step, count` become `partition`; other columns are carried along.

    A run of no partitions gives no row.
    """
    last = F.col("first") + F.col("step") * (F.col("count") - 1)
    partitions = F.explode(F.sequence("first", last, "step")).alias("partition")
    others = [name for name in runs.columns if name not in ("first", "step", "count")]
    return runs.where(F.col("count") > 0).select(*others, partitions)


def contains_partition(partition: Column, first: Column, step: Column, count: Column) -> Column:
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
    blocks = to_bitmaps(partitions).repartition(*GROUP_KEY, "topic")  # adaptive execution decides in how many tasks
    return blocks.mapInArrow(map_arrow_batches(_merged), RUNS)


def to_bitmaps(owned: DataFrame) -> DataFrame:
    """Rows of single partitions as blocks of bits: cluster, group_id, member_id, topic, block, bits, twice, count.

    An aggregation that needs neither a sort nor Python and leaves little to shuffle; see
    `numeric.ownership_bitmaps`.
    """
    word = F.shiftright("partition", 6).bitwiseAND(WORDS_PER_BITMAP - 1)
    bit = F.expr("shiftleft(1L, partition & 63)")
    each = [F.when(word == number, bit).otherwise(F.lit(0).cast("long")) for number in range(WORDS_PER_BITMAP)]
    bits = [F.bit_or(value).alias(f"or_{number}") for number, value in enumerate(each)]
    twice = [F.bit_xor(value).alias(f"xor_{number}") for number, value in enumerate(each)]
    blocks = owned.groupBy(*MEMBER_KEY, "topic", F.shiftright("partition", BITMAP_INDEX_BITS).alias("block")).agg(
        *bits, *twice, F.count(F.lit(1)).cast("int").alias("count")
    )
    together = {
        "bits": F.array(*(F.col(f"or_{number}") for number in range(WORDS_PER_BITMAP))),
        "twice": F.array(*(F.col(f"xor_{number}") for number in range(WORDS_PER_BITMAP))),
    }
    return blocks.withColumns(together).select(*MEMBER_KEY, "topic", "block", "bits", "twice", "count")


def _merged(blocks: pa.Table) -> Iterator[pa.Table]:
    key = ["cluster", "group_id", "member_id", "topic"]
    number, example = index_rows(blocks, key)
    owner, *run = slices_from_bitmaps(
        number, to_int_array(blocks["block"], 0), read_bitmaps(blocks["bits"].combine_chunks())
    )
    columns = blocks.select(key).take(pa.array(example[owner], pa.int64())).columns
    yield pa.table([*columns, *(pa.array(each, pa.int32()) for each in run)], names=[*key, "first", "step", "count"])
