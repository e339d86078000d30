"""Three clusters' snapshots at once into Delta tables, in a session of its own: Delta's jars are needed to start one.

`python -m tests.spark.delta JARS WAREHOUSE classic|connect` prints `done`, or ends with what is wrong.
"""

from __future__ import annotations

import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from spark_assign.sources.files.snapshot_catalog import write_tables
from spark_assign.sources.files.tables import read_fleet
from spark_assign.tables.errors import SourceError
from tests import snapshots
from tests.snapshots import of_required_tables

NAMES = ("eu", "us 100%", 'it\'s/"ap"')
SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.sources.default": "delta",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def session(jars: str, warehouse: str, kind: str) -> SparkSession:
    """One that knows Delta."""
    builder = SparkSession.builder.remote("local[2]") if kind == "connect" else SparkSession.builder.master("local[2]")
    for key, value in {**SETTINGS, "spark.jars": jars, "spark.sql.warehouse.dir": warehouse}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def members(spark: SparkSession, schema: str) -> dict[str, int]:
    """How many each cluster has."""
    return dict(Counter(row.cluster for row in read_fleet(spark, schema).members.collect()))


def at_once(spark: SparkSession, schema: str, sizes: dict[str, int]) -> None:
    """The snapshots of these clusters, each in a thread."""
    with ThreadPoolExecutor(len(sizes)) as pool:
        taken = [of_required_tables(name, size) for name, size in sizes.items()]
        for done in [pool.submit(write_tables, each, spark, schema) for each in taken]:
            done.result()


def check(spark: SparkSession) -> None:
    """Tables that are made by the first snapshot, and one that was there and has no partitions."""
    for schema in ("fresh", "flat"):
        spark.sql(f"CREATE SCHEMA {schema}")
    spark.createDataFrame(snapshots.of_kafka("old").tables["members"]).write.saveAsTable("flat.members")
    at_once(spark, "fresh", dict.fromkeys(NAMES, 2))
    assert members(spark, "fresh") == dict.fromkeys(NAMES, 2)
    details = spark.sql("DESCRIBE DETAIL fresh.members").collect()[0]
    assert (details.format, list(details.partitionColumns)) == ("delta", ["cluster"]), details
    write_tables(of_required_tables(NAMES[1], 5), spark, "fresh")
    expected = dict.fromkeys(NAMES, 2) | {NAMES[1]: 5}
    assert members(spark, "fresh") == expected
    bad = of_required_tables(NAMES[0], 7)
    bad = replace(bad, tables=bad.tables | {"members": bad.tables["members"].drop_columns(["client_id"])})
    with pytest.raises(SourceError, match=r"fresh\.members is there with other columns"):
        write_tables(bad, spark, "fresh")
    assert members(spark, "fresh") == expected
    at_once(spark, "flat", dict.fromkeys(NAMES[:2], 3))
    assert members(spark, "flat") == {"old": 2, NAMES[0]: 3, NAMES[1]: 3}


if __name__ == "__main__":
    started = session(*sys.argv[1:])
    check(started)
    started.stop()
    print("done")
