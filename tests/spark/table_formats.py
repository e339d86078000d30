"""Snapshots, plans, and a history in Delta and Iceberg tables, in a session of its own: it starts with their jars.

`python -m tests.spark.table_formats JARS WAREHOUSE delta|iceberg classic|connect` prints `done`, or fails.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_assign import Fleet, plan
from spark_assign.sources.files.snapshot_catalog import write_tables
from spark_assign.stores.retention import expired, remove, stored_attempts
from spark_assign.stores.run_store import previous_run, read_run, write_run
from spark_assign.tables.errors import SourceError
from spark_assign.tables.groups import PLAN_TABLES
from spark_assign.tables.history import HISTORY_TABLES
from tests import snapshots
from tests.snapshots import of_required_tables

NAMES = ("eu", "us 100%", 'it\'s/"ap"')
HISTORY = {name: HISTORY_TABLES[name] for name in ("rebalances", "memberships")}
"""Two of the tables: each takes seconds, and all are stored by the same function."""
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.sources.default": "delta",
    "spark.databricks.delta.snapshotPartitions": "1",
}
ICEBERG = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
}
"""A separate catalog with its tables in a folder."""


def session(jars: str, warehouse: str, table_format: str, kind: str) -> SparkSession:
    """Returns a session with the catalog of the format: `spark_catalog` (Delta) or `lake` (Iceberg)."""
    builder = SparkSession.builder.remote("local[2]") if kind == "connect" else SparkSession.builder.master("local[2]")
    place = {"spark.jars": jars, "spark.sql.warehouse.dir": warehouse, "spark.sql.catalog.lake.warehouse": warehouse}
    if table_format == "delta":
        del place["spark.sql.catalog.lake.warehouse"]
    for key, value in {**SETTINGS, **(DELTA if table_format == "delta" else ICEBERG), **place}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def members(spark: SparkSession, schema: str) -> dict[str, int]:
    """Returns the number of members of each cluster."""
    return dict(Counter(row.cluster for row in Fleet.read(spark, schema).members.collect()))


def at_once(calls: Iterable[Callable[[], object]]) -> None:
    """Calls functions at the same time, each in a thread."""
    calls = list(calls)
    with ThreadPoolExecutor(len(calls)) as pool:
        for done in [pool.submit(call) for call in calls]:
            done.result()


def take(spark: SparkSession, schema: str, sizes: dict[str, int]) -> None:
    """Writes snapshots of these clusters, each in a thread; `sizes` is the number of members of each."""
    taken = [of_required_tables(name, size) for name, size in sizes.items()]
    at_once(lambda each=each: write_tables(each, spark, schema) for each in taken)  # type: ignore[misc]


def rows(frame: DataFrame) -> list[str]:
    """Returns the rows of a small table, sorted."""
    return sorted(str(row.asDict()) for row in frame.collect())


def check_snapshots(spark: SparkSession, catalog: str, table_format: str, warehouse: str) -> None:
    """The first snapshot creates tables; a table without partitions exists before it."""
    fresh, flat = f"{catalog}.fresh", f"{catalog}.flat"
    for schema in (fresh, flat):
        spark.sql(f"CREATE SCHEMA {schema}")
    spark.createDataFrame(snapshots.of_kafka("old").tables["members"]).write.saveAsTable(f"{flat}.members")
    take(spark, fresh, dict.fromkeys(NAMES, 2))
    assert members(spark, fresh) == dict.fromkeys(NAMES, 2)
    described = {row.col_name: row.data_type for row in spark.sql(f"DESCRIBE EXTENDED {fresh}.members").collect()}
    assert described["Provider"] == table_format, described
    partitioned = {path.name for path in Path(warehouse).glob("fresh*/members/**/cluster=*")}
    assert len(partitioned) == len(NAMES), partitioned  # each format escapes names in its own way
    write_tables(of_required_tables(NAMES[1], 5), spark, fresh)
    expected = dict.fromkeys(NAMES, 2) | {NAMES[1]: 5}
    assert members(spark, fresh) == expected
    bad = of_required_tables(NAMES[0], 7)
    bad = replace(bad, tables=bad.tables | {"members": bad.tables["members"].drop_columns(["client_id"])})
    with pytest.raises(SourceError, match=r"fresh\.members is there with other columns"):
        write_tables(bad, spark, fresh)
    assert members(spark, fresh) == expected
    take(spark, flat, dict.fromkeys(NAMES[:2], 3))
    assert members(spark, flat) == {"old": 2, NAMES[0]: 3, NAMES[1]: 3}


def check_plans(spark: SparkSession, fleet: str, plans: str) -> None:
    """Three writers create the tables at the same time; one run is replaced; a reader sees complete runs."""
    spark.sql(f"CREATE SCHEMA {plans}")
    planned = plan(Fleet.read(spark, fleet), "range")
    names = ["assignments"]
    at_once(
        lambda run=run: planned.write(plans, run_id=run, tables=names)  # type: ignore[misc]
        for run in ("20260101", "20260102", "20260103")
    )
    expected = rows(planned.assignments)
    assert len(expected) == 12 * len(NAMES)
    for run in ("20260101", "20260102", "20260103"):
        stored = read_run(spark, plans, run)
        assert rows(stored.tables["assignments"]) == expected
        assert stored.manifest.rows == {"assignments": len(expected), "metrics": len(NAMES), "rejected": 0}
    before = read_run(spark, plans, "20260102").manifest
    after = planned.write(plans, run_id="20260102", tables=names)
    assert after.attempt != before.attempt
    assert rows(read_run(spark, plans, "20260102").tables["assignments"]) == expected
    for table in ("plan_rows", *after.rows):
        attempts = {row.attempt for row in spark.table(f"{plans}.{table}").where("run_id = '20260102'").collect()}
        assert attempts <= {after.attempt}, f"{table} has replaced rows"
    assert previous_run(spark, plans, "20260102") == "20260101"
    assert read_run(spark, plans).manifest == after


def check_history(spark: SparkSession, histories: str) -> None:
    """Tables with times and lists are read as they were written."""
    spark.sql(f"CREATE SCHEMA {histories}")

    def table(name: str) -> DataFrame:
        samples = {"string": "x", "timestamp": "2026-01-01T00:00:00Z", "int": "1", "bigint": "2", "boolean": "true"}
        fields = [(each, samples.get(each.dataType.simpleString())) for each in HISTORY[name]]
        return spark.range(3).select(*(F.lit(text).cast(each.dataType).alias(each.name) for each, text in fields))

    write_run({name: table(name) for name in HISTORY}, histories, run_id="h", schemas=HISTORY)
    stored = read_run(spark, histories, "h", schemas=HISTORY)
    for name, schema in HISTORY.items():
        assert stored.tables[name].columns == schema.names
        assert rows(stored.tables[name]) == rows(table(name))


def check_added_columns(spark: SparkSession, fleet: str, plans: str) -> None:
    """Readers ignore an added column; a writer refuses the table and changes nothing."""
    for table in (f"{fleet}.members", f"{plans}.metrics"):
        spark.sql(f"ALTER TABLE {table} ADD COLUMNS (remark string)")
        spark.catalog.refreshTable(table)
    expected = members(spark, fleet)
    planned = plan(Fleet.read(spark, fleet), "range")
    assert rows(planned.assignments) == rows(read_run(spark, plans).tables["assignments"])
    assert read_run(spark, plans).tables["metrics"].columns == PLAN_TABLES["metrics"].names
    with pytest.raises(SourceError, match=r"members is there with other columns: .*remark; expected "):
        write_tables(of_required_tables(NAMES[0], 9), spark, fleet)
    assert members(spark, fleet) == expected
    before = read_run(spark, plans).manifest
    with pytest.raises(SourceError, match=r"metrics is there with other columns: .*remark"):
        planned.write(plans, run_id="late", tables=["assignments"])
    assert read_run(spark, plans).manifest == before


def check_retention(spark: SparkSession, plans: str) -> None:
    """What a killed writer left and all runs but the one that finished last are removed."""
    planned = [each for each in stored_attempts(spark, plans) if each.finished_at]
    killed = spark.table(f"{plans}.assignments").limit(1).withColumn("attempt", F.lit("20200101T000000000000Z-abcdef"))
    killed.write.insertInto(f"{plans}.assignments")
    found = stored_attempts(spark, plans)
    assert [each for each in found if each.finished_at] == planned
    assert len(found) == len(planned) + 1
    newest = max(planned, key=lambda each: each.last_used_at)
    remove(spark, expired(found, timedelta(0), datetime.now(UTC) + timedelta(minutes=1)))
    assert stored_attempts(spark, plans) == [newest]
    for table in ("manifest", "plan_rows", "assignments", "metrics"):
        assert {row.attempt for row in spark.table(f"{plans}.{table}").collect()} == {newest.attempt}, table


if __name__ == "__main__":
    _, _, location, chosen, _ = sys.argv
    started = session(*sys.argv[1:])
    place = "spark_catalog" if chosen == "delta" else "lake"
    check_snapshots(started, place, chosen, location)
    check_plans(started, f"{place}.fresh", f"{place}.plans")
    check_history(started, f"{place}.histories")
    check_retention(started, f"{place}.plans")
    check_added_columns(started, f"{place}.fresh", f"{place}.plans")
    started.stop()
    print("done")
