"""The least that a plan of the sample can cost: read its files, bring each group together once, through Python, and
write six tables. Run by `./spark-submit.sh benchmarks/floor_job.py FOLDER`."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

SAMPLE = Path(__file__).parents[1] / "conf" / "sample-fleet"
TABLES = ("topics", "members", "subscriptions", "owned_slices", "replicas", "brokers", "groups")
WRITTEN = ("assignments", "assignment_slices", "moves", "revocations", "metrics", "rejected")
ROW = StructType([StructField(name, StringType()) for name in ("cluster", "group_id", "table", "row")])


def unchanged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Through Python and back."""
    yield from batches


def main(folder: str) -> None:
    """Read, gather, write."""
    spark = SparkSession.builder.appName("floor").getOrCreate()
    rows = []
    for name in TABLES:
        with (SAMPLE / f"{name}.csv").open(encoding="utf-8", newline="") as lines:
            header = next(csv.reader(lines))
        schema = StructType([StructField(column, StringType()) for column in header])
        table = spark.read.schema(schema).csv(str(SAMPLE / f"{name}.csv"), header=True)
        group = F.col("group_id") if "group_id" in header else F.lit(None).cast("string")
        cells = F.concat_ws(",", *header).alias("row")
        rows.append(table.select("cluster", group.alias("group_id"), F.lit(name).alias("table"), cells))
    together = reduce(DataFrame.unionByName, rows).repartition(1, "cluster", "group_id")
    together.mapInArrow(unchanged, ROW).write.mode("overwrite").parquet(f"{folder}/plan_rows")
    decided = spark.read.schema(ROW).parquet(f"{folder}/plan_rows")
    for name in WRITTEN:
        decided.where(F.col("table") != name).write.mode("overwrite").parquet(f"{folder}/{name}")


if __name__ == "__main__":
    main(sys.argv[1])
