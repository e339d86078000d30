"""Checks whether this release reads the snapshots of a fleet, by the `snapshot.json` of each."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_assign.tables.schema_check import check_version


def check_versions(spark: SparkSession, summaries: Mapping[str, str | None]) -> None:
    """Raises SourceError if a snapshot with one of these files `snapshot.json` has another schema version.

    `summaries` has the local path of each location, or None if Spark must read it.
    """
    remote = []
    for summary, path in summaries.items():
        if path is None or not os.path.isfile(path):
            remote.append(summary)
            continue
        with contextlib.suppress(ValueError, RecursionError):
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            check_version(summary, content.get("schema_version") if isinstance(content, dict) else None)
    if remote:
        files = spark.read.text(remote, wholetext=True)
        check_contents(files.select(F.col("_metadata.file_path").alias("name"), F.col("value").alias("content")))


def check_contents(summaries: DataFrame) -> None:
    """Raises SourceError if a row has the content of a `snapshot.json` (columns: name, content) of another version."""
    version = F.get_json_object("content", "$.schema_version").cast("int").alias("version")
    for row in summaries.groupBy(version).agg(F.min("name").alias("name")).limit(10).collect():  # one row per version
        check_version(unquote(row["name"]), row["version"])
