"""Caches tables that several queries use, if the session supports it."""

from __future__ import annotations

from contextlib import suppress

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from spark_assign.spark.engine import is_embedded, stored_copy


def cached(table: DataFrame) -> DataFrame:
    """Returns the table, persisted if the session supports it (Databricks serverless computes it per query).

    The embedded engine computes the table at once, into a temporary file, because it caches nothing.
    """
    if is_embedded(table.sparkSession):
        return stored_copy(table)
    try:
        return table.persist()
    except PySparkException:
        return table


def uncached(table: DataFrame) -> None:
    """Unpersists a table; does nothing if the session could not persist it."""
    with suppress(PySparkException):
        table.unpersist()


def is_cached(table: DataFrame) -> bool:
    """Checks whether the rows of a table are persisted already."""
    try:
        level = table.storageLevel
    except PySparkException:
        return False
    return level.useMemory or level.useDisk
