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


def settled(table: DataFrame) -> DataFrame:
    """The table, computed now and once for all, without its history: queries over it are planned as over a file.

    Spark plans a query over a cached table from the tables it once came from, which takes longer than to run it where
    that was a long way. What is computed here is lost with an executor that holds it, so that it is only `cached` where
    executors come and go (dynamic allocation), or where the session cannot do otherwise. It is given back when nobody
    refers to it any more.
    """
    come_and_go = table.sparkSession.conf.get("spark.dynamicAllocation.enabled", "false") == "true"
    if come_and_go:
        return cached(table)
    try:
        return table.localCheckpoint()
    except PySparkException:
        return cached(table)
