"""A job of a user's own: says from which file each executor imports spark_assign."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession


def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One row per task: the package's file and the executor's folder."""
    import spark_assign

    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"file": [spark_assign.__file__], "folder": [os.getcwd()]})


if __name__ == "__main__":
    spark = SparkSession.builder.getOrCreate()
    rows = spark.range(0, 8, 1, 4).mapInArrow(look, "file string, folder string").collect()
    print(json.dumps([row.asDict() for row in rows]))
