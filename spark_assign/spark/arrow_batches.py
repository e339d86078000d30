"""Adapters between Arrow tables and Spark: batches of `mapInArrow`, and DataFrames of a few rows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from zipimport import zipimporter

import pyarrow as pa
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from spark_assign.spark.arrow_schemas import to_arrow_schema
from spark_assign.spark.engine import dataframe_of


def dataframe_of_rows(spark: SparkSession, rows: Iterable[Mapping[str, Any]], schema: StructType) -> DataFrame:
    """Returns rows of the driver as a DataFrame with the columns of a schema; missing columns are null."""
    nullable = StructType([StructField(field.name, field.dataType) for field in schema])
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=to_arrow_schema(nullable))
    return dataframe_of(spark, table, nullable)


def map_arrow_batches(
    work: Callable[[pa.Table], Iterable[pa.Table]], batch_rows: int = 100_000
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Adapts a function over all rows of a Spark task to `mapInArrow`.

    Args:
        work: function from the rows of a task to result tables. It must be picklable, because Spark sends it to
            executors.
        batch_rows: maximum number of rows per result batch.
    """

    def done(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        forget_zipped_pyspark()
        received = list(batches)
        if received:
            rows = pa.Table.from_batches(received)
            received.clear()
            for table in work(rows):
                yield from _with_rows(table.to_batches(max_chunksize=batch_rows))

    return done


def map_arrow_chunks(
    work: Callable[[Iterator[pa.Table]], Iterable[pa.Table]], chunk_rows: int = 300_000
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Adapts a function over a stream of chunks to `mapInArrow`, for tasks with any number of rows.

    Args:
        work: function from chunks to result tables.
        chunk_rows: minimum number of rows per chunk; 256 bytes count as at least one.
    """

    def done(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        forget_zipped_pyspark()
        for table in work(batches_to_chunks(batches, chunk_rows)):
            yield from _with_rows(table.to_batches())

    return done


def _with_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (batch for batch in batches if batch.num_rows)


Row = dict[str, Any]


def map_sorted_rows(
    table: DataFrame, key: Sequence[str], work: Callable[[Iterator[Row]], Iterable[Row]], schema: StructType
) -> DataFrame:
    """Returns the rows that a function makes of the rows of a table.

    Args:
        table: the table.
        key: columns by which the function gets the rows of a task, sorted; all of one value of the first column are in
            one task. Sail doesn't keep the order of `sortWithinPartitions`.
        work: the function, from rows to rows of any size. It must be picklable.
        schema: schema of the result.
    """
    arrow_schema = to_arrow_schema(schema)

    def done(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if received := list(batches):
            rows = pa.Table.from_batches(received).sort_by([(name, "ascending") for name in key])
            pieces = rows.to_batches(max_chunksize=10_000)
            for row in work(row for piece in pieces for row in piece.to_pylist()):
                yield pa.RecordBatch.from_pylist([row], arrow_schema)

    return table.repartition(key[0]).mapInArrow(done, schema)


def batches_to_chunks(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Combines batches into tables of at least `rows` rows, except for the last one. 256 bytes count as a row."""
    received: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        received.append(batch)
        size += max(batch.num_rows, batch.nbytes >> 8)
        if size >= rows:
            yield pa.Table.from_batches(received)
            received, size = [], 0
    if received:
        yield pa.Table.from_batches(received)


def forget_zipped_pyspark() -> None:
    """Removes the importers of PySpark's archive from Python's cache; the next import creates one from cached data.

    Spark's worker invalidates all import caches before every task. Up to Python 3.12, each importer of an archive then
    reads the archive's directory again. `pyspark.zip` has 16 importers, which took 0.1 s per task.
    """
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter) and str(pyspark.__file__).startswith(importer.archive):
            del sys.path_importer_cache[path]
