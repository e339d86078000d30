"""What members own now, read once: as runs, and what is wrong with it.

Rows become runs in two steps. First every 512 neighbouring partitions of a member's topic become a row of bits, an
aggregation that needs neither a sort nor Python and leaves little to shuffle; then runs are made of those in NumPy
(`kernels.ownership`), many at once. No group ever has to be in one task.

Runs that the fleet gives are used as they are; they are only looked over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from spark_assign.caching import cached
from spark_assign.kernels.ownership import (
    BAD_PARTITION,
    BLOCK_BITS,
    DUPLICATE,
    KEY,
    NULL_KEY,
    RUN,
    WORDS,
    crossing,
    merge,
)
from spark_assign.runs import expand
from spark_assign.schemas import GROUP_KEY, MEMBER_KEY

if TYPE_CHECKING:
    from spark_assign.fleet import Fleet


EXPANDED = 1_000_000
"""Up to so many partitions are compared one by one in place of their runs, which takes no Python worker."""


@dataclass(frozen=True)
class Ownership:
    """What living members own.

    Attributes:
        table: the fleet's table that says so, `owned` or `owned_runs`.
        runs: cluster, group_id, member_id, topic, first, step, count. Sound in every group without a fault.
        faults: the same columns, code, and rows, how many have the fault. A fault of `owned` has its partition in
            `first`. Rows without cluster or group_id are among them.
        named: cluster, group_id, member_id of whoever owns anything, faulty rows included; not once each.
        repeated: pair, the hash of a member's topic (KEY) of which some partition may be owned twice: a row says so, or
            it has several runs; and partitions, how many these are of.
        kept: what can be kept over several queries, null if that is nothing.
    """

    table: str
    runs: DataFrame
    faults: DataFrame
    named: DataFrame
    repeated: DataFrame
    kept: DataFrame | None = None

    def with_repeated(self, fleet: Fleet, partitions: int) -> Ownership:
        """The same with a fault for every partition that a member owns twice, after another look at `repeated`.

        Args:
            fleet: the fleet.
            partitions: those of `repeated`, added up.
        """
        if fleet.owned is not None:
            suspects = _of_pairs(fleet.owned, self.repeated)
        else:
            several = _of_pairs(self.runs.where(_is_sound()), self.repeated)
            if partitions > EXPANDED:
                pairs = several.select(_pair().alias("pair"), *RUN).repartition("pair")  # names stay where they are
                several = _of_pairs(several, pairs.mapInArrow(_pass(crossing), "pair long"))
            suspects = expand(several)
        twice = suspects.groupBy(*KEY, "partition").count().where(F.col("count") > 1)
        one = F.lit(1)
        numbers = {"first": F.col("partition"), "step": one, "count": one, "rows": one.cast("long")}
        named = (value.alias(name) for name, value in numbers.items())
        return replace(self, faults=self.faults.unionByName(twice.select(*KEY, *named, F.lit(DUPLICATE).alias("code"))))


def _of_pairs(rows: DataFrame, pairs: DataFrame) -> DataFrame:
    return rows.withColumn("pair", _pair()).join(pairs.select("pair"), "pair", "left_semi").drop("pair")


def read_ownership(fleet: Fleet) -> Ownership | None:
    """What the fleet says of ownership; null if it says nothing."""
    if fleet.owned is not None:
        return _of_rows(cached(_judged_rows(fleet.owned)))
    return None if fleet.owned_runs is None else _of_runs(fleet.owned_runs.select(*KEY, *RUN))


def _of_rows(judged: DataFrame) -> Ownership:
    repeated = F.col("code") == DUPLICATE
    return Ownership(
        "owned",
        runs=judged.where(F.col("code").isNull()).select(*KEY, *RUN),
        faults=judged.where(~repeated),
        named=judged.select(*MEMBER_KEY),
        repeated=judged.where(repeated).select(_pair().alias("pair"), F.col("rows").alias("partitions")),
        kept=judged,
    )


def _of_runs(given: DataFrame) -> Ownership:
    judged = given.withColumn("rows", F.lit(1).cast("long")).withColumn("code", _run_fault())
    several = F.count(F.lit(1)).alias("runs"), F.sum(F.col("count").cast("long")).alias("partitions")
    runs_of_pair = given.where(_is_sound()).groupBy(_pair().alias("pair")).agg(*several)
    return Ownership(
        "owned_runs",
        runs=given,
        faults=judged.where(F.col("code").isNotNull()),
        named=given.select(*MEMBER_KEY),
        repeated=runs_of_pair.where(F.col("runs") > 1).select("pair", "partitions"),
    )


def _pair() -> Column:
    return F.xxhash64(*KEY)


def _is_sound() -> Column:
    return _run_fault().isNull() & (F.col("count") > 0)


def _run_fault() -> Column:
    """The code of a run's fault, null if it has none. (A missing member is a fault of the member.)"""
    null = reduce(Column.__or__, (F.col(name).isNull() for name in (*GROUP_KEY, "topic", *RUN)))
    bad = (F.col("first") < 0) | (F.col("step") < 1) | (F.col("count") < 0)
    return F.when(null, NULL_KEY).when(bad, BAD_PARTITION)


def compress(partitions: DataFrame) -> DataFrame:
    """One row per partition to runs, losslessly: evenly spaced neighbours of a member's topic become one run.

    Args:
        partitions: cluster, group_id, member_id, topic, partition. The same row twice counts once.

    Returns:
        cluster, group_id, member_id, topic, first, step, count. A faulty row becomes a run that is as faulty.
    """
    judged = _judged_rows(partitions)
    return judged.where(~F.col("code").eqNullSafe(F.lit(DUPLICATE))).select(*KEY, *RUN)


_JUDGED = StructType(
    [
        *(StructField(name, StringType()) for name in KEY),
        *(StructField(name, IntegerType()) for name in RUN),
        StructField("rows", LongType()),
        StructField("code", StringType()),
    ]
)


def _judged_rows(owned: DataFrame) -> DataFrame:
    """Rows as runs (their code is null) and faults."""
    whole = _blocks(owned).repartition(*GROUP_KEY, "topic")  # adaptive execution decides in how many tasks
    return whole.mapInArrow(_pass(merge), _JUDGED)


def _blocks(owned: DataFrame) -> DataFrame:
    """Rows as blocks of bits: KEY, block, WORDS, rows; see `kernels.ownership`."""
    word = F.shiftright("partition", 6).bitwiseAND(len(WORDS) - 1)
    bit = F.expr("shiftleft(1L, partition & 63)")
    words = (F.bit_or(F.when(word == number, bit).otherwise(F.lit(0))) for number in range(len(WORDS)))
    return owned.groupBy(*KEY, F.shiftright("partition", BLOCK_BITS).alias("block")).agg(
        *(value.alias(name) for name, value in zip(WORDS, words, strict=True)), F.count(F.lit(1)).alias("rows")
    )


def _pass(work: Callable[[pa.Table], pa.Table]) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """A pass over the rows of a task; a closure of plain values, as it is sent to the executors."""

    def done(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        received = list(batches)
        if received:
            rows = pa.Table.from_batches(received)
            received.clear()
            yield from work(rows).to_batches(max_chunksize=100_000)

    return done
