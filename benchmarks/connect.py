"""One round of many Connect clusters, against Kafka's own assignor in a warm JVM on one thread.

The round is the one in which a worker joins: all others have their share, and give up some of it. Ours is measured
twice: the kernel alone, on one thread from an Arrow table to an Arrow table; and the whole Spark job, which reads
Parquet tables, plans, and computes every row of assigned, revoked, delays and state.
"""

from __future__ import annotations

import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from benchmarks.bench import Bench, Result, first_of, to_noop
from spark_assign.connect import ConnectFleet, plan_connect
from spark_assign.connect.kernel.plan_clusters import plan_clusters
from spark_assign.connect.plan import PLAN_ROWS, gather_facts
from spark_assign.tables.connect import INPUT_TABLES
from tests.kafka import java_programs, maven

TASKS = 10


def connect(bench: Bench) -> None:
    """A worker joins each of 1,000 Connect clusters: our time as a multiple of theirs."""
    clusters, workers, connectors = bench.size(1_000, 10), bench.size(100, 10), bench.size(90, 9)
    fleet = f"{clusters:,} x {workers} x {connectors} x {TASKS}"
    path = bench.folder / "connect"
    write_fleet(bench.spark, path, clusters, workers, connectors)
    facts = gather_facts(read_fleet(bench.spark, path)).toArrow()
    theirs = seconds_of_kafka(workers, connectors, clusters)
    seconds = bench.in_turns(kernel=partial(_plan_alone, facts), job=partial(_plan_and_write, bench, path))
    _check_same(bench, path, theirs)
    for work, what in (("kernel", "connect, kernel alone"), ("job", "connect, Spark job")):
        detail = f"ours {seconds[work]:.3f} s, theirs {theirs['seconds']:.3f} s"
        goal = bench.goal("<= 1.5") if work == "job" else None
        ratio = seconds[work] / theirs["seconds"]
        bench.report(Result(f"{what}, against Kafka's", fleet, ratio, "x their time", goal, detail))


def _plan_alone(facts: pa.Table) -> list[pa.Table]:
    return list(plan_clusters(facts, to_arrow_schema(PLAN_ROWS)))


def write_fleet(spark: SparkSession, path: Path, clusters: int, workers: int, connectors: int) -> None:
    """Clusters whose leader has given everything to all workers but the last, which joins now."""
    cluster = spark.range(clusters).select(F.format_string("connect-%04d", "id").alias("connect_cluster"))
    first = cluster.selectExpr(
        "*",
        "'sessioned' as protocol",
        "1700000000000L as now_ms",
        "1 as generation_id",
        "-1 as last_completed_generation_id",
        "300000L as max_delay_ms",
    )
    connector = cluster.crossJoin(
        spark.range(1, connectors + 1).select(F.format_string("connector-%02d", "id").alias("n"))
    )
    connector = connector.select("connect_cluster", F.concat_ws("-", "connect_cluster", "n").alias("connector"))
    every = cluster.crossJoin(
        spark.range(1, workers + 1).select(F.format_string("worker-%03d", "id").alias("worker_id"))
    )
    nothing = every.selectExpr("*", "'task' as kind", "'' as connector", "0 as task").limit(0)
    before = ConnectFleet(
        clusters=first,
        connectors=connector,
        tasks=connector.crossJoin(spark.range(TASKS).selectExpr("int(id) as task")),
        workers=every.where(F.col("worker_id") < f"worker-{workers:03d}"),
        reported=nothing,
    )
    planned = plan_connect(before)
    now = replace(
        before,
        clusters=first.selectExpr("* except (generation_id, last_completed_generation_id)", *_SECOND),
        workers=every,
        reported=planned.assigned,
        state=planned.state,
    )
    for name in INPUT_TABLES:
        getattr(now, name).write.parquet(str(path / name))
    planned.unpersist()


_SECOND = ("2 as generation_id", "1 as last_completed_generation_id")


def read_fleet(spark: SparkSession, path: Path) -> ConnectFleet:
    """The fleet as it was written."""
    return ConnectFleet(
        **{name: spark.read.schema(columns).parquet(str(path / name)) for name, columns in INPUT_TABLES.items()}
    )


def seconds_of_kafka(workers: int, connectors: int, clusters: int) -> dict[str, float]:
    """What the Java program answers."""
    # One core does the work; the collector may use the other, as it may in a worker.
    sizes = (workers, connectors, TASKS, clusters)
    command = java_programs.command("ConnectBenchmark", maven.applications_classpath(), *sizes, options=["-Xmx4g"])
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    *_, answer = first_of(done.stdout)
    return answer


def _plan_and_write(bench: Bench, path: Path) -> None:
    planned = plan_connect(read_fleet(bench.spark, path))
    for table in (planned.assigned, planned.revoked, planned.delays, planned.state):
        to_noop(table)
    planned.unpersist()


def _check_same(bench: Bench, path: Path, theirs: dict[str, float]) -> None:
    """As many items are assigned and revoked as by Kafka's class, and no cluster is left out."""
    planned = plan_connect(read_fleet(bench.spark, path))
    ours = {"assigned": planned.assigned.count(), "revoked": planned.revoked.count()}
    rejected = planned.rejected.count()
    planned.unpersist()
    wanted = {name: theirs[name] for name in ours}
    if ours != wanted or rejected:
        raise AssertionError(f"ours {ours}, theirs {wanted}, {rejected} clusters rejected")
