"""Places the replicas of new topics and new partitions as Kafka's own classes do, for many clusters at once.

Algorithms
    adminutils  `AdminUtils.assignReplicasToBrokers`: ZooKeeper-based clusters, and tools that still use it
    striped     `StripedReplicaPlacer`: the KRaft controller

Requests are few: each is one row, which is checked and gets its random start. Then requests are split into chunks
(ranges of consecutive partitions), so that the partitions of one topic are spread over the executors. Without racks,
the replicas are arithmetic on the partition number; with racks, the kernel places a chunk at a time
(`replicas.kernel.admin_utils`). Striped depends on the preceding partitions and can't be split: a request is one chunk.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_assign.java.hash_map import LONGEST_CHAIN
from spark_assign.numeric.arrays import MAX_PARTITIONS
from spark_assign.replicas.fleet import CheckedTables, faulty_rows, raise_faults
from spark_assign.replicas.kernel import placement_requests as kernel
from spark_assign.replicas.kernel.placement_requests import ADMINUTILS, CHUNK_PARTITIONS, STRIPED
from spark_assign.spark.dataframes import map_arrow_batches, union
from spark_assign.stores.result import Result
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.replicas import BROKERS, PLACE_TABLES, PLACEMENTS, REJECTED, REQUESTS

ALGORITHMS = (ADMINUTILS, STRIPED)

PARTITIONS_PER_TASK = {ADMINUTILS: 2_000_000, STRIPED: 250_000}
"""Number of partitions per Spark task: about a second of work, because starting Python for a task takes
some tenths of a second."""

_CLOSED_FORM_CHUNK = 50_000
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
    sizes = _read_sizes(requests, brokers)
    brokers_by_cluster = _brokers_by_cluster(brokers)
    validated = _validated(requests, brokers_by_cluster, algorithm)
    rejected = validated.where(F.col("code").isNotNull()).select(*REJECTED.fieldNames())
    accepted = validated.where(F.col("code").isNull()).drop("code", "detail")
    tasks = max(1, -(-sizes.partitions // PARTITIONS_PER_TASK[algorithm]))
    if algorithm == STRIPED:
        # A request is one chunk; a request for 0 partitions, which Kafka's striped placer accepts, has no chunk.
        chunks = accepted.where("partitions > 0").withColumn("count", F.col("partitions"))
        return Placements(_by_kernel(chunks, brokers_by_cluster, tasks, algorithm, sizes), rejected)
    racked = _by_kernel(
        _chunks(accepted.where("racked > 0"), CHUNK_PARTITIONS), brokers_by_cluster, tasks, algorithm, sizes
    )
    plain = _in_closed_form(_chunks(accepted.where("racked = 0"), _CLOSED_FORM_CHUNK), brokers_by_cluster, tasks, sizes)
    if not sizes.racked:
        return Placements(plain, rejected)
    return Placements(racked if sizes.racked == sizes.brokers else racked.unionByName(plain), rejected)


@dataclass(frozen=True)
class _InputSizes:
    """Sizes of the input: requested partitions (without requests for too many), the largest replication factor, the
    replication factors to unroll (up to `_UNROLLED`), brokers, and brokers with a rack."""

    partitions: int
    most_replicas: int
    unrolled: list[int]
    brokers: int
    racked: int


def _read_sizes(requests: DataFrame, brokers: DataFrame) -> _InputSizes:
    """Reads the sizes and checks the keys of both tables, in one Spark job.

    Raises:
        FleetError: a null in a key, or a broker listed twice.
    """
    factor, partitions = F.col("replication_factor"), F.col("partitions").cast("long")
    request_sizes = requests.agg(
        F.concat(
            F.array(
                F.coalesce(F.sum(F.when(partitions.between(0, MAX_PARTITIONS), partitions)), F.lit(0)),
                F.coalesce(F.max(factor), F.lit(0)).cast("long"),
            ),
            F.array_sort(F.collect_set(F.when(factor.between(1, _UNROLLED), factor.cast("long")))),
        ).alias("sizes")
    ).withColumn("table", F.lit("requests"))
    broker_sizes = brokers.agg(F.array(F.count(F.lit(1)), F.count("rack_id")).alias("sizes"))
    tables = [
        faulty_rows("requests", requests, ["cluster", "topic"], unique=False),
        faulty_rows("brokers", brokers, ["cluster", "broker_id"], unique=True),
        request_sizes,
        broker_sizes.withColumn("table", F.lit("brokers")),
    ]
    rows = union(tables).collect()  # a row per table, and one per fault of a column
    raise_faults([row for row in rows if row["sizes"] is None])
    sizes = {row["table"]: row["sizes"] for row in rows}
    partitions, most_replicas, *unrolled = sizes["requests"]
    return _InputSizes(partitions, most_replicas, unrolled, *sizes["brokers"])


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


def _chunks(requests: DataFrame, size: int) -> DataFrame:
    """Splits requests into chunks of at most `size` partitions, `first` to `first + count - 1`."""
    end = F.col("request_first") + F.col("partitions").cast("long")
    firsts = F.explode(F.sequence(F.col("request_first").cast("long"), end - 1, F.lit(size).cast("long")))
    chunks = requests.withColumnRenamed("first", "request_first").select("*", firsts.alias("first"))
    count = F.least(end - F.col("first"), F.lit(size)).cast("int")
    return chunks.withColumn("count", count).withColumn("first", F.col("first").cast("int"))


# --- with racks, and striped: chunks to the kernel ----------------------------------------------------------------


def _by_kernel(
    chunks: DataFrame, brokers_by_cluster: DataFrame, tasks: int, algorithm: str, sizes: _InputSizes
) -> DataFrame:
    """Places chunks by the kernel, which gets the brokers of a cluster once for many chunks."""
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
    any_factor = F.slice("placed", F.col("at") + 1, F.col("replication_factor"))
    replicas = _replica_array(sizes, lambda index: F.get("placed", F.col("at") + index), any_factor)
    return _to_placements(partitions.withColumn("replicas", replicas))


# --- without racks: closed form -----------------------------------------------------------------------------------


def _in_closed_form(chunks: DataFrame, brokers_by_cluster: DataFrame, tasks: int, sizes: _InputSizes) -> DataFrame:
    """Places chunks by a column expression: the first replica goes around the brokers, the followers come after it."""
    ids = brokers_by_cluster.select("cluster", F.col("broker_list.broker_id").alias("ids"))
    partitions = (
        chunks.repartition(tasks, "cluster", "topic", "first")
        .join(F.broadcast(ids), "cluster")
        .select(
            *("cluster", "topic", "replication_factor", "start_index", "base", "brokers", "seed", "ids"),
            F.explode(F.sequence(F.col("first"), F.col("first") + F.col("count") - 1)).alias("partition"),
        )
        .withColumn("place", (F.col("partition") + F.col("start_index")) % F.col("brokers"))
        .withColumn("behind", F.col("base") + F.expr("partition div brokers").cast("int"))
    )
    followers = F.transform(F.sequence(F.lit(1), F.col("replication_factor") - 1), _closed_form_replica)
    any_factor = F.concat(F.array(_closed_form_replica(0)), followers)
    return _to_placements(partitions.withColumn("replicas", _replica_array(sizes, _closed_form_replica, any_factor)))


def _closed_form_replica(index: int | Column) -> Column:
    """Returns the replica of this index, from `ids`, `place` (the first replica's position in `ids`), `behind` (the
    shift), and `brokers`; the followers are those of `AdminUtils.replicaIndex`."""
    if isinstance(index, int) and index == 0:
        return F.get("ids", F.col("place"))
    distance = 1 + (F.col("behind") + index - 1) % (F.col("brokers") - 1)
    return F.get("ids", (F.col("place") + distance) % F.col("brokers"))


# --- both -------------------------------------------------------------------------------------------------------


def _replica_array(sizes: _InputSizes, replica: Callable[[int], Column], any_factor: Column) -> Column:
    """Returns the replicas of a partition as an array.

    Args:
        sizes: the result of `_read_sizes`. For its `unrolled` factors the array is spelled out, which Spark compiles.
        replica: returns the expression of the first replica (0), the second (1), and so on.
        any_factor: the array for any other replication factor.
    """
    chosen: Column | None = None
    for factor in sizes.unrolled:
        condition, replicas = F.col("replication_factor") == factor, F.array(*map(replica, range(factor)))
        chosen = F.when(condition, replicas) if chosen is None else chosen.when(condition, replicas)
    if chosen is None:
        return any_factor
    return chosen.otherwise(any_factor) if sizes.most_replicas > _UNROLLED else chosen


def _to_placements(placed: DataFrame) -> DataFrame:
    """Adds the leader and the shift; returns `tables.replicas.PLACEMENTS`."""
    shift = F.col("base") + F.expr("partition div brokers").cast("int")
    placements = placed.withColumn("leader", F.col("replicas")[0]).withColumn("shift", shift)
    return placements.select(*PLACEMENTS.fieldNames())
