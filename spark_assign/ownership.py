"""What members own now, read once: as runs, and what is wrong with it.

Rows become runs in two passes, each over many rows at once in NumPy (`kernels.ownership`). The first works where the
rows are read and leaves one row for all that it finds of a member's topic, so that only those are shuffled; the
second makes runs of them. No group ever has to be in one task.

Runs that the fleet gives are used as they are; they are only looked over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField, StructType

from spark_assign.kernels.ownership import DUPLICATE, KEY, RUN, gather, judge, merge
from spark_assign.schemas import GROUP_KEY, MEMBER_KEY

if TYPE_CHECKING:
    from spark_assign.fleet import Fleet

ROWS_AT_ONCE = 1_000_000
"""So many rows of what is owned become runs at once, which bounds what a worker holds."""


@dataclass(frozen=True)
class Ownership:
    """What living members own.

    Attributes:
        table: the fleet's table that says so, `owned` or `owned_runs`.
        runs: cluster, group_id, member_id, topic, first, step, count. Sound in every group without a fault.
        faults: the same columns and code; a row per faulty row, and per partition that a member owns twice. A faulty
            row of `owned` has its partition in `first`.
        named: cluster, group_id, member_id of whoever owns anything, faulty rows included, in no order and not once
            each. Every row without cluster or group_id is one of them.
        kept: what can be kept over several queries, null if that is nothing.
    """

    table: str
    runs: DataFrame
    faults: DataFrame
    named: DataFrame
    kept: DataFrame | None = None


def read_ownership(fleet: Fleet, keep: Callable[[DataFrame], DataFrame]) -> Ownership | None:
    """What the fleet says of ownership; null if it says nothing.

    Args:
        fleet: the fleet.
        keep: caches a table where the session can.
    """
    runs = [*MEMBER_KEY, "topic", *RUN]
    if fleet.owned is not None:
        judged = keep(_judged_rows(fleet.owned))
        return Ownership(
            "owned",
            runs=judged.where(F.col("code").isNull()).select(*runs),
            faults=judged.where(F.col("code").isNotNull()),
            named=judged.select(*MEMBER_KEY),
            kept=judged,
        )
    if fleet.owned_runs is not None:
        given = fleet.owned_runs.select(*runs)
        faults = _whole_topics(given).mapInArrow(_all_at_once(judge), _JUDGED)
        return Ownership("owned_runs", runs=given, faults=faults, named=given.select(*MEMBER_KEY))
    return None


def compress(partitions: DataFrame) -> DataFrame:
    """One row per partition to runs, losslessly: evenly spaced neighbours of a member's topic become one run.

    Args:
        partitions: cluster, group_id, member_id, topic, partition. The same row twice counts once.

    Returns:
        cluster, group_id, member_id, topic, first, step, count. A faulty row becomes a run that is as faulty.
    """
    judged = _judged_rows(partitions)
    return judged.where(~F.col("code").eqNullSafe(F.lit(DUPLICATE))).drop("code")


_KEY = [StructField(name, StringType()) for name in KEY]
_CODE = StructField("code", StringType())
_PIECES = StructType([*_KEY, StructField("partitions", ArrayType(IntegerType())), _CODE])
_JUDGED = StructType([*_KEY, *(StructField(name, IntegerType()) for name in RUN), _CODE])


def _judged_rows(owned: DataFrame) -> DataFrame:
    """Rows as runs (code is null) and faults."""
    pieces = owned.select(*KEY, "partition").mapInArrow(_some_at_once(gather), _PIECES)
    return _whole_topics(pieces).mapInArrow(_all_at_once(merge), _JUDGED)


def _whole_topics(rows: DataFrame) -> DataFrame:
    """The same with all rows of a group's topic in one task; adaptive execution decides on the number of tasks."""
    return rows.repartition(*GROUP_KEY, "topic")


_Pass = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]


def _all_at_once(work: Callable[[pa.Table], pa.Table]) -> _Pass:
    """A pass over a whole task; a closure of plain values, as it is sent to the executors."""

    def done(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        received = list(batches)
        if received:
            rows = pa.Table.from_batches(received)
            received.clear()
            yield from work(rows).to_batches(max_chunksize=100_000)

    return done


def _some_at_once(work: Callable[[pa.Table], pa.Table]) -> _Pass:
    """A pass over `ROWS_AT_ONCE` at a time; a closure of plain values."""
    most, whole = ROWS_AT_ONCE, _all_at_once(work)

    def done(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        received: list[pa.RecordBatch] = []
        for batch in batches:
            received.append(batch)
            if sum(map(len, received)) >= most:
                yield from whole(received)
                received.clear()
        yield from whole(received)

    return done
