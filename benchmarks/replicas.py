"""(e) Placement against Kafka's class in a warm JVM, and reassignments of large clusters.

For placement, ours reads its tables from Parquet, checks them and computes every row; theirs drops what it has
computed. Kafka 4.1 no longer has `AdminUtils`: the class is that of 3.9. It places a million partitions at a time,
which is what its maps of boxed numbers let fit into memory; its rate is compared with ours of one million and of fifty.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import Column
from pyspark.sql import functions as F

from benchmarks.bench import Bench, Result, to_noop
from benchmarks.kafka_process import rate_of
from benchmarks.processes import run_process
from spark_assign.replicas import place
from tests.kafka import fetched, maven
from tests.runner import tools

ADMIN_UTILS = "org.apache.kafka:kafka-server-common:3.9.1"
BROKERS, RACKS, FACTOR, START = 100, 10, 3, 5
REASSIGN_HEAP = "1g"


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
    num_topics = -(-partitions // 1_000_000)
    rows = [("c", f"t{topic}", partitions // num_topics, FACTOR, START) for topic in range(num_topics)]
    schema = "cluster string, topic string, partitions int, replication_factor int, start_index int"
    brokers.write.mode("overwrite").parquet(str(folder / "brokers"))
    spark.createDataFrame(rows, schema).write.mode("overwrite").parquet(str(folder / "requests"))
    seconds = bench.in_turns(place=partial(_place, bench, folder))
    return partitions / seconds["place"]


def _place(bench: Bench, folder: Path) -> None:
    requests, brokers = (bench.spark.read.parquet(str(folder / name)) for name in ("requests", "brokers"))
    to_noop(place(requests, brokers, "adminutils").placements)


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


@dataclass(frozen=True)
class Cluster:
    """A cluster to reassign; its topics have sizes by Zipf's law, and 3 replicas."""

    brokers: int
    partitions: int
    topics: int = 2_000

    def __str__(self) -> str:
        return f"{self.brokers} brokers, {self.partitions * FACTOR / 1e6:,.1f}M replicas"


LOADS_BALANCED = "loads of a skewed cluster balanced"
CHANGES = {
    "5 brokers removed": ["--remove", "0,1,2,3,4"],
    "5 brokers added": ["--add", "1000=rack0,1001=rack1,1002=rack2,1003=rack3,1004=rack4"],
    "a skewed cluster balanced": ["--voluntary", "yes"],
    LOADS_BALANCED: ["--balance", "disk,in,out,leader-in,count,leaders", "--hard", "disk,in,out"],
}
"""Options of the job by what changes."""
DISKS = 10
GROWN, DISKS_BALANCED = "5 brokers become 8", f"{DISKS} log directories per broker balanced"
EMBEDDED = {
    GROWN: ["--add", "5=rack5,6=rack6,7=rack7"],
    DISKS_BALANCED: ["--balance", "log-dirs", "--hard", "log-dirs"],
}
"""Options on the embedded engine, at the sizes that Confluent (5 brokers) and Cruise Control (disks) have published."""


def reassignment(bench: Bench) -> None:
    """Seconds, memory, and moves of the job `replicas reassign`, at the sizes that Cruise Control has published."""
    if bench.quick:
        for change in ("5 brokers removed", LOADS_BALANCED):
            _measure_reassignment(bench, Cluster(20, 2_000, 20), change)
        _measure_reassignment(bench, Cluster(8, 2_000, 20), DISKS_BALANCED)
        return
    _measure_reassignment(bench, Cluster(5, 30_000), GROWN)
    _measure_reassignment(bench, Cluster(80, 106_667), DISKS_BALANCED)
    for cluster in (Cluster(200, 333_334), Cluster(270, 433_334), Cluster(215, 933_334)):
        for change in CHANGES:
            _measure_reassignment(bench, cluster, change)


def _measure_reassignment(bench: Bench, cluster: Cluster, change: str) -> None:
    """Runs the job as a process of its own, which writes all tables and the files for Kafka's tools."""
    loaded, disks = change == LOADS_BALANCED, change == DISKS_BALANCED
    folder, output = _written(bench, cluster, "skewed" in change, loaded, disks), bench.folder / "reassigned"
    command = ["./spark-submit.sh", "--conf", f"spark.driver.memory={REASSIGN_HEAP}", "replicas", "reassign"]
    command = ["./spark-assign", "replicas", "reassign"] if change in EMBEDDED else command
    command += ["--fleet", str(folder), "--output", str(output), *(CHANGES | EMBEDDED)[change]]
    spent = run_process(command)
    [row] = _stored(output, "metrics").to_pylist()  # there is none if a hard goal isn't met
    loads = _stored(output, "balance").to_pylist() if loaded else []
    unmet = Counter(load["goal"] for load in loads if not load["min_load"] <= load["load_after"] <= load["max_load"])
    shutil.rmtree(output)
    if not loaded and not disks and (row["brokers_out_of_tolerance"] or row["leaders_out_of_tolerance"]):
        raise AssertionError(f"{change}: not balanced: {row}")
    name, size = f"reassign, {change}", f"{cluster}"
    bench.report(
        Result(
            name,
            size,
            spent.wall,
            "s",
            bench.goal("<= 10" if disks else "<= 120"),
            f"processor {spent.processor:.1f} s",
        )
    )
    if disks:
        ratio, moves = row["log_dir_moved_bytes"] / row["log_dir_lower_bound_bytes"], f"{row['log_dir_moves']:,} moves"
        bench.report(Result("of that, moved bytes", size, ratio, "x lower bound", bench.goal("<= 1.05"), moves))
        return
    jvm, python = spent.peaks["jvm"], spent.peaks["python"]
    memory = f"JVM {jvm:.0f} (heap {REASSIGN_HEAP}), Python {python:.0f}"
    bench.report(Result("of that, peak memory", size, jvm + python, "MiB", bench.goal("<= 4096"), memory))
    if loaded:
        share = 100 * row["moved_bytes"] / (FACTOR * pc.sum(_stored(folder, "sizes")["bytes"]).as_py())
        detail = f"{row['moved']:,} moves, brokers out of bounds by goal: {dict(unmet)}"
        bench.report(Result("of that, moved bytes", size, share, "% of all bytes", None, detail))
        return
    ratio, moves = row["moved"] / row["lower_bound"], f"{row['moved']:,} moves"
    bench.report(Result("of that, moves", size, ratio, "x lower bound", bench.goal("<= 1"), moves))


def _stored(folder: Path, table: str) -> pa.Table:
    return ds.dataset(folder / table, format="parquet", partitioning="hive").to_table()


def _written(bench: Bench, cluster: Cluster, skewed: bool, loaded: bool, disks: bool) -> Path:
    """The tables of a cluster as Parquet, placed by Kafka's rules; written once. Sizes and rates are log-normal."""
    suffix = ("-skewed" if skewed else "") + ("-loaded" if loaded else "") + ("-disks" if disks else "")
    folder = bench.folder / f"reassign-{cluster.brokers}-{cluster.partitions}{suffix}"
    if folder.exists():
        return folder
    shares = [1 / (at + 1) for at in range(cluster.topics)]
    sizes = [max(1, round(cluster.partitions * share / sum(shares))) for share in shares]
    topics = [("c", f"topic-{at:05}", size, FACTOR, at) for at, size in enumerate(sizes)]
    schema = "cluster string, topic string, partitions int, replication_factor int, start_index int"
    rack = F.concat(F.lit("rack"), F.col("id") % RACKS).alias("rack_id")
    broker = F.col("id").cast("int").alias("broker_id")
    brokers = bench.spark.range(cluster.brokers).select(F.lit("c").alias("cluster"), broker, rack)
    placed = place(bench.spark.createDataFrame(topics, schema), brokers, "adminutils").placements
    replicas = placed.select("cluster", "topic", "partition", "replicas")
    if skewed:
        replicas = replicas.withColumn("replicas", F.transform("replicas", _skew))
    if loaded:
        key = ("cluster", "topic", "partition")
        drawn = replicas.select(*key, F.randn(1).alias("size"), F.randn(2).alias("rate"))
        sizes_drawn = drawn.select(*key, (1e7 * F.exp("size")).cast("long").alias("bytes"))
        rates_drawn = drawn.select(*key, (1e4 * F.exp("rate")).alias("in_bytes_per_second"))
        sizes_drawn.write.parquet(str(folder / "sizes"))
        rates_drawn.write.parquet(str(folder / "loads"))
    if disks:  # the last directory has most of the logs, the first the fewest
        logs = replicas.select("cluster", "topic", "partition", F.explode("replicas").alias("broker_id"))
        path = F.concat(F.lit("/data/"), F.floor(DISKS * F.sqrt(F.rand(1))))
        sizes_of_logs = (1e7 * F.exp(F.randn(2))).cast("long")
        drawn = logs.select("*", path.alias("log_dir"), sizes_of_logs.alias("bytes"), F.lit(False).alias("is_future"))
        drawn.write.parquet(str(folder / "log_dir_replicas"))
        each = F.explode(F.sequence(F.lit(0), F.lit(DISKS - 1))).alias("disk")
        listed = brokers.select("cluster", "broker_id", each).withColumn("log_dir", F.concat(F.lit("/data/"), "disk"))
        listed.drop("disk").write.parquet(str(folder / "log_dirs"))
    brokers.write.parquet(str(folder / "brokers"))
    replicas.write.parquet(str(folder / "replicas"))
    return folder


def _skew(broker: Column, position: Column) -> Column:
    """One replica in ten is on the first broker of its rack instead of another one."""
    moves = F.pmod(F.xxhash64("topic", "partition", position), F.lit(10)) == 0
    return F.when(moves, broker % RACKS).otherwise(broker)
