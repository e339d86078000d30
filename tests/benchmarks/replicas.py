"""(e) Placement against Kafka's class in a warm JVM, and a large cluster that loses five brokers.

Ours reads its tables from Parquet, checks them and computes every row; theirs drops what it has computed. Kafka 4.1 no
longer has `AdminUtils`: the class is that of 3.9. It places a million partitions at a time, which is what its maps of
boxed numbers let fit into memory; the rate of that is held against ours of one million and of fifty.
"""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path

from pyspark.sql import functions as F

from spark_assign.replicas import ClusterChange, ReplicaFleet, place, reassign
from tests.benchmarks.bench import Bench, Result, to_noop
from tests.benchmarks.kafka_process import rate_of
from tests.kafka import fetched, maven
from tests.runner import tools

ADMIN_UTILS = "org.apache.kafka:kafka-server-common:3.9.1"
BROKERS, RACKS, FACTOR, START = 100, 10, 3, 5


def placement(bench: Bench) -> None:
    """Partitions per second, as a multiple of theirs."""
    at_once = bench.size(1_000_000, 20_000)
    for racks in (RACKS, 0):
        theirs = _their_rate(bench, racks, at_once)
        for partitions in (at_once, bench.size(50_000_000, 50_000)):
            ours = _our_rate(bench, racks, partitions)
            name = "adminutils with racks" if racks else "adminutils without racks"
            detail = f"ours {ours / 1e6:.2f} M/s, theirs {theirs / 1e6:.2f} M/s"
            shape = f"{partitions:,} partitions, {BROKERS} brokers"
            bench.report(Result(name, shape, ours / theirs, "x their rate", bench.goal(">= 2"), detail))


def _our_rate(bench: Bench, racks: int, partitions: int) -> float:
    spark, folder = bench.spark, bench.folder / f"place-{racks}-{partitions}"
    rack = F.concat(F.lit("rack"), F.col("id") % racks) if racks else F.lit(None).cast("string")
    brokers = spark.range(BROKERS).select(
        F.lit("c").alias("cluster"), F.col("id").cast("int").alias("broker_id"), rack.alias("rack_id")
    )
    row = [("c", "t", partitions, FACTOR, START)]
    schema = "cluster string, topic string, partitions int, replication_factor int, start_index int"
    brokers.write.mode("overwrite").parquet(str(folder / "brokers"))
    spark.createDataFrame(row, schema).write.mode("overwrite").parquet(str(folder / "requests"))
    seconds = bench.in_turns(place=partial(_place, bench, folder))
    return partitions / seconds["place"]


def _place(bench: Bench, folder: Path) -> None:
    requests, brokers = (bench.spark.read.parquet(str(folder / name)) for name in ("requests", "brokers"))
    to_noop(place(requests, brokers).placements)


def _their_rate(bench: Bench, racks: int, partitions: int) -> float:
    class_path, heap = f"{_admin_utils()}:{maven.kafka_classpath()}", "1g" if bench.quick else "6g"
    return rate_of("AdminUtilsBenchmark", class_path, heap, BROKERS, racks, FACTOR, partitions, bench.repeats)


def _admin_utils() -> Path:
    """The jar of the last release that has the class."""
    _, artifact, version = ADMIN_UTILS.split(":")
    folder = fetched.cache()
    jar = folder / f"{artifact}-{version}.jar"
    if not jar.exists():
        found = fetched.need(tools.MAVEN)
        copy = ["dependency:copy", f"-Dartifact={ADMIN_UTILS}", f"-DoutputDirectory={folder}"]
        subprocess.run([found, "-B", "-q", *copy], check=True, capture_output=True)
    return jar


def reassignment(bench: Bench) -> None:
    """Seconds to plan a cluster of a million replicas on 200 brokers of which five go, all rows computed."""
    spark, folder = bench.spark, bench.folder / "reassign"
    brokers, partitions = 200, bench.size(333_334, 2_000)
    schema = "cluster string, topic string, partitions int, replication_factor int, start_index int"
    topics = [("c", f"topic-{at:04}", max(1, partitions // 200), FACTOR, at) for at in range(200)]
    rack = F.concat(F.lit("rack"), F.col("id") % RACKS).alias("rack_id")
    listed = spark.range(brokers).select(F.lit("c").alias("cluster"), F.col("id").cast("int").alias("broker_id"), rack)
    listed.write.mode("overwrite").parquet(str(folder / "brokers"))
    placed = place(spark.createDataFrame(topics, schema), listed).placements
    placed.select("cluster", "topic", "partition", "replicas").write.mode("overwrite").parquet(str(folder / "replicas"))
    figures: list[tuple[int, int]] = []
    seconds = bench.in_turns(reassign=partial(_reassign, bench, folder, figures))
    moved, distance = figures[-1]
    bench.report(
        Result(
            "reassign after removing 5 brokers",
            f"{3 * max(1, partitions // 200) * 200:,} replicas, {brokers} brokers",
            seconds["reassign"],
            "seconds",
            bench.goal("<= 120"),
            f"{moved:,} moved, {distance:,} above the lower bound",
        )
    )


def _reassign(bench: Bench, folder: Path, figures: list[tuple[int, int]]) -> None:
    tables = (bench.spark.read.parquet(str(folder / name)) for name in ("replicas", "brokers"))
    fleet = ReplicaFleet(*tables)
    plan = reassign(fleet, ClusterChange.from_values(fleet, removed=range(5)))
    to_noop(plan.placement)
    [row] = plan.metrics.collect()
    figures.append((row["moved"], row["moves_above_bound"]))
    plan.unpersist()
