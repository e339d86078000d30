"""A fleet, plans, and outcomes in an object store, in a session of its own: it starts with the jars for `s3a://`.

`python -m tests.spark.object_store JARS ENDPOINT` prints `done`, or ends with what is wrong. The bucket `box` has the
fleet, and what a killed job left of a plan.
"""

from __future__ import annotations

import sys

import pytest
from pyarrow import fs
from pyspark.sql import SparkSession

from spark_assign import Fleet, plan
from spark_assign.cli.job import Outcome, write
from spark_assign.stores.locations import file_system
from spark_assign.stores.run_store import read_run
from spark_assign.tables.errors import SourceError

PLANS = "s3a://box/plans"


def settings(jars: str, endpoint: str) -> dict[str, str]:
    """The settings of Spark for this server. The jars are large: on the class path, Spark doesn't copy them."""
    return {
        "spark.driver.extraClassPath": jars,
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    }


def session(jars: str, endpoint: str) -> SparkSession:
    """One that knows `s3a://`."""
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings(jars, endpoint).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def attempts() -> dict[str, set[str]]:
    """The attempts of each table that have files."""
    files, base = file_system(PLANS)
    found: dict[str, set[str]] = {}
    for each in files.get_file_info(fs.FileSelector(base, recursive=True)):
        table, *folders = each.path.removeprefix(f"{base}/").split("/")[:-1] if each.is_file else [""]
        if folders and folders[-1].startswith("attempt="):
            found.setdefault(table, set()).add(folders[-1].removeprefix("attempt="))
    return found


def check(spark: SparkSession) -> None:
    """Half a plan isn't one; a complete one replaces it, and is replaced; an incomplete snapshot doesn't count."""
    killed = attempts()["plan_rows"]
    assert len(killed) == 1
    with pytest.raises(SourceError, match="no finished run"):
        read_run(spark, PLANS)
    planned = plan(Fleet.read(spark, "s3a://box/fleet"))
    expected = {("eu", "g", f"m{partition // 6}", "orders", partition) for partition in range(12)}
    for _ in range(2):
        manifest = planned.write(PLANS, run_id="r")
        stored = read_run(spark, PLANS, "r")
        assert stored.manifest == manifest
        assert {tuple(row) for row in stored.tables["assignments"].drop("topic_id").collect()} == expected
        found = attempts()
        assert found.keys() >= {"plan_rows", *manifest.rows}
        assert set().union(*found.values()) == {manifest.attempt}, "what was replaced is gone"
    outcome = Outcome("plan")
    outcome.wrote(manifest, PLANS)
    outcome.ended(0)
    write(outcome, "s3a://box/outcomes/plan.json")


if __name__ == "__main__":
    started = session(*sys.argv[1:])
    check(started)
    started.stop()
    print("done")
