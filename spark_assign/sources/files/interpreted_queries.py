"""Small fleets of this machine: what Spark does for large ones costs them more than it saves."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_assign.stores.locations import local_path

_SMALL = 4 * 1024 * 1024
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@contextmanager
def interpreted(spark: SparkSession, places: Iterable[str | None]) -> Iterator[None]:
    """Let a local session interpret its queries for a while, where all that it is to read is small.

    Compiling the queries of a plan takes a JVM that has just begun seconds, in which a small fleet is long planned.

    Args:
        spark: whose settings are as they were afterwards.
        places: what is read; where a place is none of this machine, nothing is changed.
    """
    try:
        small = str(spark.conf.get("spark.master", "")).startswith("local") and _bytes(places) <= _SMALL
        before = {name: spark.conf.get(name, None) for name in _INTERPRETED} if small else {}
    except (OSError, PySparkException):
        before = {}
    for name in before:
        spark.conf.set(name, _INTERPRETED[name])
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value) if value is not None else spark.conf.unset(name)


def _bytes(places: Iterable[str | None]) -> int:
    """Of all files in these places together.

    Raises:
        OSError: a place is none of this machine.
    """
    size = 0
    for place in places:
        path = None if place is None else local_path(place)
        if path is None or not os.path.exists(path):
            raise FileNotFoundError(place)
        files = Path(path).rglob("*") if os.path.isdir(path) else [Path(path)]
        size += sum(file.stat().st_size for file in files if file.is_file())
    return size
