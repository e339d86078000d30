"""Tables that several queries need are kept in the executors, where the session can."""

from __future__ import annotations

from contextlib import suppress

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame


def cached(table: DataFrame) -> DataFrame:
    """The table, computed once until it is unpersisted; elsewhere (Databricks serverless) anew for every query."""
    try:
        return table.persist()
    except PySparkException:
        return table


def uncached(table: DataFrame) -> None:
    """Give back what `cached` keeps; nothing where the session could not keep it."""
    with suppress(PySparkException):
        table.unpersist()
