"""Places the replicas of new topics and new partitions as Kafka's own classes do, for many clusters at once.

Algorithms
    adminutils  `AdminUtils.assignReplicasToBrokers`: ZooKeeper-based clusters, and tools that still use it
    striped     `StripedReplicaPlacer`: the KRaft controller

Requests are few: each is one row, which is checked and gets its random start. Then requests are split into chunks
(ranges of consecutive partitions), so that the partitions of one topic are spread over the executors. The kernel places
a chunk at a time. Striped depends on the preceding partitions and can't be split: a request is one chunk.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_assign.java.hash_map import LONGEST_CHAIN
from spark_assign.numeric.partition_slices import MAX_PARTITIONS
from spark_assign.replicas.fleet import CheckedTables, faulty_rows, raise_faults
from spark_assign.replicas.kernel import placement_requests as kernel
from spark_assign.replicas.kernel.placement_requests import ADMINUTILS, CHUNK_PARTITIONS, STRIPED
from spark_assign.spark.arrow_batches import map_arrow_batches
from spark_assign.spark.tagged_pass import union
from spark_assign.stores.result import Result
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.replicas import BROKERS, PLACE_TABLES, PLACEMENTS, REJECTED, REQUESTS

ALGORITHMS = (ADMINUTILS, STRIPED)

PARTITIONS_PER_TASK = {ADMINUTILS: 2_000_000, STRIPED: 250_000}
"""Number of partitions per Spark task: about a second of work, because starting Python for a task takes
some tenths of a second."""

_UNROLLED = 12
"""Up to this replication factor, the array expression is unrolled; above it, Spark builds the array by element."""


@dataclass(frozen=True)
class _PlacementInput(CheckedTables):
    schemas: ClassVar = {"requests": REQUESTS, "brokers": BROKERS}

    requests: DataFrame
    brokers: DataFrame


@dataclass(frozen=True)
class Placements(Result):
    """The result of `place`.

    Args:
        placements: cluster, topic, partition, replicas, leader, start_index, shift, seed
            (`tables.replicas.PLACEMENTS`).
        rejected: cluster, topic, code, detail: the requests that Kafka rejects, with Kafka's message, and those that
            are incomplete or depend on Java's identity hash codes.
    """

    schemas: ClassVar = PLACE_TABLES

    placements: DataFrame
    rejected: DataFrame


def place(requests: DataFrame, brokers: DataFrame, algorithm: str = STRIPED) -> Placements:
    """Places the replicas of all requests.

    Args:
        requests: cluster, topic, partitions, replication_factor, start_index?, start_partition?, seed?
            (`tables.replicas.REQUESTS`). A topic can have several requests that don't overlap.
        brokers: cluster, broker_id, rack_id?, fenced?, cordoned?, position? (`tables.replicas.BROKERS`). striped
            doesn't see cordoned brokers. adminutils uses every broker, and racks if all brokers of a cluster have one.
        algorithm: `striped`, the placer of KRaft controllers (Kafka 4), or `adminutils` (up to 3.9).

    A call with the seeds (or start indexes) in `placements` returns the same result. As Kafka's class does, striped
    counts the partitions of a request from 0, whatever its `start_partition`.

    Raises:
        FleetError: a missing column, a wrong type, a null in a key, a broker listed twice.
        ConfigError: no such algorithm.
    """
    if algorithm not in ALGORITHMS:
        raise ConfigError(f"{algorithm!r}: no such algorithm. Use one of {', '.join(ALGORITHMS)}")
    tables = _PlacementInput(requests, brokers)
    requests, brokers = tables.requests, tables.brokers
    if algorithm == STRIPED:
        brokers = brokers.where(~F.coalesce("cordoned", F.lit(False)))
    partitions, factors = _read_sizes(requests, brokers)
    brokers_by_cluster = _brokers_by_cluster(brokers)
    validated = _validated(requests, brokers_by_cluster, algorithm)
    rejected = validated.where(F.col("code").isNotNull()).select(*REJECTED.fieldNames())
    accepted = validated.where(F.col("code").isNull()).drop("code", "detail")
    tasks = max(1, -(-partitions // PARTITIONS_PER_TASK[algorithm]))
    if algorithm == STRIPED:
        # A request is one chunk; a request for 0 partitions, which Kafka's striped placer accepts, has no chunk.
        chunks = accepted.where("partitions > 0").withColumn("count", F.col("partitions"))
    else:
        chunks = _chunks(accepted)
    return Placements(_by_kernel(chunks, brokers_by_cluster, tasks, algorithm, factors), rejected)


def _read_sizes(requests: DataFrame, brokers: DataFrame) -> tuple[int, list[int]]:
    """Returns the number of requested partitions (without requests for too many) and the replication factors up to
    `_UNROLLED`, and checks the keys of both tables, in one Spark job.

    Raises:
        FleetError: a null in a key, or a broker listed twice.
    """
    factor, partitions = F.col("replication_factor"), F.col("partitions").cast("long")
    request_sizes = requests.agg(
        F.concat(
            F.array(F.coalesce(F.sum(F.when(partitions.between(0, MAX_PARTITIONS), partitions)), F.lit(0))),
            F.array_sort(F.collect_set(F.when(factor.between(1, _UNROLLED), factor.cast("long")))),
        ).alias("sizes")
    )
    tables = [
        faulty_rows("requests", requests, ["cluster", "topic"], unique=False),
        faulty_rows("brokers", brokers, ["cluster", "broker_id"], unique=True),
        request_sizes,
    ]
    rows = union(tables).collect()  # a row of sizes, and one per fault of a column
    raise_faults([row for row in rows if row["sizes"] is None])
    ((num_partitions, *factors),) = (row["sizes"] for row in rows)
    return num_partitions, factors


def _brokers_by_cluster(brokers: DataFrame) -> DataFrame:
    """Returns cluster, broker_list (brokers in Kafka's order), and the numbers racked and unfenced."""
    position = F.coalesce("position", F.lit(2**31 - 1)).alias("at")
    fenced = F.coalesce("fenced", F.lit(False))
    broker_list = F.array_sort(F.collect_list(F.struct(position, "broker_id", "rack_id", fenced.alias("fenced"))))
    return brokers.groupBy("cluster").agg(
        broker_list.alias("broker_list"),
        F.count("rack_id").cast("int").alias("racked"),
        F.sum((~fenced).cast("int")).cast("int").alias("unfenced"),
    )


def _validated(requests: DataFrame, brokers_by_cluster: DataFrame, algorithm: str) -> DataFrame:
    """Checks requests and draws missing start positions; returns one row per request (`kernel.VALIDATED_REQUESTS`)."""
    start = F.lit(0) if algorithm == STRIPED else F.coalesce("start_partition", F.lit(0))
    first = F.greatest(start, F.lit(0)).cast("long")
    by_topic = Window.partitionBy("cluster", "topic").orderBy("first", "end")
    before = F.max("end").over(by_topic.rowsBetween(Window.unboundedPreceding, -1))
    after = F.lead("first").over(by_topic)
    overlaps = (F.col("first") < F.coalesce(before, F.lit(0))) | (F.coalesce(after, F.col("end")) < F.col("end"))
    # Drawn once per call and request, so that Spark gets the same value if it recomputes the row.
    drawn = F.xxhash64("cluster", "topic", "start_partition", F.lit(secrets.randbits(62)))
    racks = F.array_distinct("broker_list.rack_id")
    many_racks = F.when(F.size(racks) > LONGEST_CHAIN, racks).alias("many_racks")
    counts = brokers_by_cluster.select(
        "cluster", F.size("broker_list").alias("brokers"), "racked", "unfenced", many_racks
    )
    rows = (
        requests.withColumn("first", first)
        .withColumn("end", F.col("first") + F.greatest(F.coalesce("partitions", F.lit(0)), F.lit(0)))
        .withColumn("overlaps", overlaps)
        .join(F.broadcast(counts), "cluster", "left")
        .select(
            *("cluster", "topic", "partitions", "replication_factor", "start_index", "start_partition"),
            F.coalesce("seed", drawn).alias("seed"),
            *(F.coalesce(name, F.lit(0)).alias(name) for name in ("brokers", "racked", "unfenced")),
            "overlaps",
            "many_racks",
        )
    )
    work = map_arrow_batches(lambda rows: [kernel.validate_requests(rows, algorithm)])
    return rows.mapInArrow(work, from_arrow_schema(kernel.VALIDATED_REQUESTS))


def _chunks(requests: DataFrame) -> DataFrame:
    """Splits requests into chunks of at most `CHUNK_PARTITIONS` partitions, `first` to `first + count - 1`."""
    size = F.lit(CHUNK_PARTITIONS)
    end = F.col("request_first") + F.col("partitions").cast("long")
    firsts = F.explode(F.sequence(F.col("request_first").cast("long"), end - 1, size.cast("long")))
    chunks = requests.withColumnRenamed("first", "request_first").select("*", firsts.alias("first"))
    count = F.least(end - F.col("first"), size).cast("int")
    return chunks.withColumn("count", count).withColumn("first", F.col("first").cast("int"))


def _by_kernel(
    chunks: DataFrame, brokers_by_cluster: DataFrame, tasks: int, algorithm: str, factors: Sequence[int]
) -> DataFrame:
    """Places chunks by the kernel, which gets the brokers of a cluster once for many chunks.

    For these replication factors, the array of replicas is spelled out, which Spark compiles.
    """
    work = F.pmod(F.xxhash64("topic", "first"), F.lit(4 * tasks))
    chunk = F.struct("topic", "first", "count", "replication_factor", "start_index", "base", "seed")
    work_rows = (
        chunks.withColumn("work", work)
        .repartition(tasks, "cluster", "work")
        .groupBy("cluster", "work")
        .agg(F.collect_list(chunk).alias("chunks"))
        .join(F.broadcast(brokers_by_cluster.select("cluster", "broker_list")), "cluster")
        .select("cluster", "broker_list", "chunks")
    )
    placed = work_rows.mapInArrow(
        lambda batches: kernel.place_all_chunks(batches, algorithm), from_arrow_schema(kernel.PLACED_CHUNKS)
    )
    partitions = placed.select("*", F.explode(F.sequence(F.lit(0), F.col("count") - 1)).alias("pos"))
    columns = {"at": F.col("pos") * F.col("replication_factor"), "partition": F.col("first") + F.col("pos")}
    partitions = partitions.withColumns(columns)
    replicas = F.slice("placed", F.col("at") + 1, F.col("replication_factor"))
    for factor in factors:
        spelled_out = F.array(*(F.get("placed", F.col("at") + index) for index in range(factor)))
        replicas = F.when(F.col("replication_factor") == factor, spelled_out).otherwise(replicas)
    shift = F.col("base") + F.expr("partition div brokers").cast("int")
    placements = partitions.withColumn("replicas", replicas).withColumn("leader", F.col("replicas")[0])
    return placements.withColumn("shift", shift).select(*PLACEMENTS.fieldNames())
