"""Slices as DataFrames: partitions first, first + step, … (`count` of them) of one topic, as one row.

An assignment consists of few slices (a range has step 1, a round robin of n members step n), so plans are computed on
slices and expanded to partitions last.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.java.key_index import index_rows, to_int_array
from spark_assign.numeric.partition_slices import BITMAP_INDEX_BITS, WORDS_PER_BITMAP, read_bitmaps, slices_from_bitmaps
from spark_assign.spark.arrow_batches import map_arrow_batches
from spark_assign.tables.groups import ASSIGNMENT_SLICES, GROUP_KEY, MEMBER_KEY

_PIECE = 100_000
"""Maximum number of partitions that are expanded as one array."""


def expand(slices: DataFrame) -> DataFrame:
    """Expands slices to one row per partition: `first, step, count` become `partition`; other columns are kept.

    A slice without partitions yields no row. A long slice is expanded in pieces, because an array holds a piece.
    """
    columns = [name for name in slices.columns if name not in ("first", "step", "count")]
    starts = F.explode(F.sequence(F.lit(0), F.col("count") - 1, F.lit(_PIECE))).alias("piece_start")
    pieces = slices.where(F.col("count") > 0).select("*", starts)
    # The last piece ends with the slice: written so that no number exceeds int.
    last = F.col("piece_start") + F.least(F.lit(_PIECE), F.col("count") - F.col("piece_start")) - 1
    first, last = (F.col("first") + F.col("step") * each for each in (F.col("piece_start"), last))
    return pieces.select(*columns, F.explode(F.sequence(first, last, "step")).alias("partition"))


def from_lists(lists: DataFrame) -> DataFrame:
    """Returns the slices of `owned_lists`, one row per slice, with the columns of `owned_slices`."""
    names = {"topics": "topic", "firsts": "first", "steps": "step", "counts": "count", "positions": "position"}
    given = lists.withColumn("positions", F.coalesce("positions", F.array().cast("array<int>")))
    return given.select(*MEMBER_KEY, F.inline(F.arrays_zip(*names))).toDF(*MEMBER_KEY, *names.values())


def contains_partition(partition: Column, first: Column, step: Column, count: Column) -> Column:
    """Returns whether a slice contains a partition."""
    offset = partition - first
    return (offset >= 0) & (offset < step * count) & (offset % step == 0)


def compress(partitions: DataFrame) -> DataFrame:
    """Compresses one row per partition to slices, losslessly; duplicates count once.

    Args:
        partitions: cluster, group_id, member_id, topic, partition; none of them null.

    Returns:
        cluster, group_id, member_id, topic, first, step, count.
    """
    blocks = to_bitmaps(partitions).repartition(*GROUP_KEY, "topic")  # adaptive execution decides in how many tasks
    return blocks.mapInArrow(map_arrow_batches(_merged), ASSIGNMENT_SLICES)


def to_bitmaps(owned: DataFrame) -> DataFrame:
    """Returns bitmaps of single partitions: cluster, group_id, member_id, topic, block, bits, twice, count.

    The aggregation needs neither a sort nor Python, and reduces the shuffle (`numeric.partition_slices`).
    """
    word = F.shiftright("partition", 6).bitwiseAND(WORDS_PER_BITMAP - 1)
    bit = F.expr("shiftleft(1L, partition & 63)")
    bit_words = [F.when(word == index, bit).otherwise(F.lit(0).cast("long")) for index in range(WORDS_PER_BITMAP)]
    return owned.groupBy(*MEMBER_KEY, "topic", F.shiftright("partition", BITMAP_INDEX_BITS).alias("block")).agg(
        F.array(*map(F.bit_or, bit_words)).alias("bits"),
        F.array(*map(F.bit_xor, bit_words)).alias("twice"),
        F.count(F.lit(1)).cast("int").alias("count"),
    )


def _merged(blocks: pa.Table) -> Iterator[pa.Table]:
    key = [*MEMBER_KEY, "topic"]
    key_index, row = index_rows(blocks, key)
    owner, *slices = slices_from_bitmaps(
        key_index, to_int_array(blocks["block"], 0), read_bitmaps(blocks["bits"].combine_chunks())
    )
    columns = blocks.select(key).take(pa.array(row[owner], pa.int64())).columns
    yield pa.table([*columns, *(pa.array(each, pa.int32()) for each in slices)], names=[*key, "first", "step", "count"])
