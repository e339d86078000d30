"""Place the replicas of new topics and new partitions as Kafka's own classes do, for many clusters at once.

Algorithms
    adminutils  `AdminUtils.assignReplicasToBrokers`: ZooKeeper's time, and the tools that still use it
    striped     `StripedReplicaPlacer`: KRaft's controller

Requests are few; they are checked, and what they leave to chance is drawn, on one row each. Then they are cut into
tiles, stretches of partitions, so that the partitions of one topic are spread over the executors. Without racks a
partition is arithmetic on its number; with racks the kernel places a whole tile (`replicas.kernel.admin_utils`).
Striped goes from partition to partition and cannot be cut: a request is one tile.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.java.hash_map import LONGEST_CHAIN
from spark_assign.replicas.fleet import conform_tables, faulty_rows, raise_faults
from spark_assign.replicas.kernel.placement_requests import ADMINUTILS, STRIPED, TILE, admit, place_tiles
from spark_assign.tables.errors import SparkAssignError
from spark_assign.tables.replicas import ADMITTED, BROKERS, PLACED, PLACEMENTS, REJECTED, REQUESTS

ALGORITHMS = (ADMINUTILS, STRIPED)

PARTITIONS_PER_TASK = {ADMINUTILS: 2_000_000, STRIPED: 250_000}
"""So many partitions are placed in one task: about a second's work, as a task of Python costs
some tenths of one before it begins."""

_CLOSED_FORM_TILE = 50_000
_UNROLLED = 12
"""Replication factors up to this are written out; beyond, an array is built element by element."""

_KEYS = {"requests": ["cluster", "topic"], "brokers": ["cluster", "broker_id"]}


class UnknownAlgorithmError(SparkAssignError):
    """No placer has the name that the caller asked for."""


@dataclass(frozen=True)
class Placements:
    """What `place` gives.

    Args:
        placements: cluster, topic, partition, replicas, leader, start_index, shift, seed
            (`tables.replicas.PLACEMENTS`).
        rejected: cluster, topic, code, detail: the requests that Kafka refuses, with Kafka's message, and those that
            say too little or hang on Java's identity hash codes.
    """

    placements: DataFrame
    rejected: DataFrame


def place(requests: DataFrame, brokers: DataFrame, algorithm: str = ADMINUTILS) -> Placements:
    """Place the replicas of all requests.

    Args:
        requests: cluster, topic, partitions, replication_factor, start_index?, start_partition?, seed?
            (`tables.replicas.REQUESTS`). A topic may have several requests as long as they do not overlap.
        brokers: cluster, broker_id, rack_id?, fenced?, position? (`tables.replicas.BROKERS`). adminutils takes every
            row, fenced or not, and uses racks where all brokers of the cluster have one.
        algorithm: `adminutils` or `striped`.

    A call with the seeds (or start indexes) that `placements` shows gives the same again. Striped counts the
    partitions of a request from 0, whatever its `start_partition`, as Kafka's class does.

    Raises:
        FleetError: a missing column, a wrong type, a null in a key, a broker listed twice.
        UnknownAlgorithmError: no such algorithm.
    """
    if algorithm not in ALGORITHMS:
        raise UnknownAlgorithmError(f"no algorithm is called {algorithm!r}; there are {', '.join(ALGORITHMS)}")
    requests, brokers = conform_tables({"requests": (requests, REQUESTS), "brokers": (brokers, BROKERS)})
    found = _survey(requests, brokers)
    lines = _lines(brokers)
    admitted = _admitted(requests, lines, algorithm)
    rejected = admitted.where(F.col("code").isNotNull()).select(*REJECTED.fieldNames())
    good = admitted.where(F.col("code").isNull()).drop("code", "detail")
    tasks = max(1, -(-found.partitions // PARTITIONS_PER_TASK[algorithm]))
    if algorithm == STRIPED:
        return Placements(_by_kernel(_whole(good), lines, tasks, algorithm, found), rejected)
    racked = _by_kernel(_tiles(good.where("racked > 0"), TILE), lines, tasks, algorithm, found)
    plain = _in_closed_form(_tiles(good.where("racked = 0"), _CLOSED_FORM_TILE), lines, tasks, found)
    if not found.racked:
        return Placements(plain, rejected)
    return Placements(racked if found.racked == found.brokers else racked.unionByName(plain), rejected)


@dataclass(frozen=True)
class _Survey:
    """Sizes of the tables: partitions asked for, replication factors to write out (up to `_UNROLLED`), the largest
    one, brokers, and those with a rack."""

    partitions: int
    most_replicas: int
    unrolled: list[int]
    brokers: int
    racked: int


def _survey(requests: DataFrame, brokers: DataFrame) -> _Survey:
    """Sizes and faults of both tables, in one go.

    Raises:
        FleetError: rows that cannot be worked around.
    """
    factor = F.col("replication_factor")
    asked = requests.agg(
        F.concat(
            F.array(
                F.coalesce(F.sum(F.greatest(F.col("partitions"), F.lit(0)).cast("long")), F.lit(0)),
                F.coalesce(F.max(factor), F.lit(0)).cast("long"),
            ),
            F.array_sort(F.collect_set(F.when(factor.between(1, _UNROLLED), factor.cast("long")))),
        ).alias("sizes")
    ).withColumn("table", F.lit("requests"))
    there = brokers.agg(F.array(F.count(F.lit(1)), F.count("rack_id")).alias("sizes"))
    faults = [
        faulty_rows("requests", requests, _KEYS["requests"], unique=False),
        faulty_rows("brokers", brokers, _KEYS["brokers"], unique=True),
        asked,
        there.withColumn("table", F.lit("brokers")),
    ]
    every = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), faults)
    rows = every.collect()  # a row per table, and one per fault of a column
    raise_faults([row for row in rows if row["problem"] is not None], _KEYS)
    sizes = {row["table"]: row["sizes"] for row in rows}
    partitions, most_replicas, *unrolled = sizes["requests"]
    return _Survey(partitions, most_replicas, unrolled, *sizes["brokers"])


def _lines(brokers: DataFrame) -> DataFrame:
    """A row per cluster: cluster, line (its brokers in Kafka's order), racked, unfenced (how many)."""
    at = F.coalesce("position", F.lit(2**31 - 1)).alias("at")
    fenced = F.coalesce("fenced", F.lit(False))
    line = F.array_sort(F.collect_list(F.struct(at, "broker_id", "rack_id", fenced.alias("fenced"))))
    return brokers.groupBy("cluster").agg(
        line.alias("line"),
        F.count("rack_id").cast("int").alias("racked"),
        F.sum((~fenced).cast("int")).cast("int").alias("unfenced"),
    )


def _admitted(requests: DataFrame, lines: DataFrame, algorithm: str) -> DataFrame:
    """A row per request (`tables.replicas.ADMITTED`), checked, with its start drawn where it has none."""
    start = F.lit(0) if algorithm == STRIPED else F.coalesce("start_partition", F.lit(0))
    first = F.greatest(start, F.lit(0)).cast("long")
    of_topic = Window.partitionBy("cluster", "topic").orderBy("first", "end")
    before, after = (
        F.max("end").over(of_topic.rowsBetween(Window.unboundedPreceding, -1)),
        F.lead("first").over(of_topic),
    )
    overlaps = (F.col("first") < F.coalesce(before, F.lit(0))) | (F.coalesce(after, F.col("end")) < F.col("end"))
    # Drawn once per call and request, so that the answer is the same however often Spark computes it.
    drawn = F.xxhash64("cluster", "topic", "start_partition", F.lit(secrets.randbits(62)))
    racks = F.array_distinct("line.rack_id")
    many_racks = F.when(F.size(racks) > LONGEST_CHAIN, racks).alias("many_racks")
    counts = lines.select("cluster", F.size("line").alias("brokers"), "racked", "unfenced", many_racks)
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
    return rows.mapInArrow(_admitter(algorithm), ADMITTED)


def _admitter(algorithm: str) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for batch in batches:
            yield from admit(pa.Table.from_batches([batch]), algorithm).to_batches()

    return work


def _tiles(requests: DataFrame, size: int) -> DataFrame:
    """Requests cut into stretches: `first` and `count` of each in place of the request's own."""
    end = F.col("request_first") + F.col("partitions").cast("long")
    firsts = F.explode(F.sequence(F.col("request_first").cast("long"), end - 1, F.lit(size).cast("long")))
    cut = requests.withColumnRenamed("first", "request_first").select("*", firsts.alias("first"))
    count = F.least(end - F.col("first"), F.lit(size)).cast("int")
    return cut.withColumn("count", count).withColumn("first", F.col("first").cast("int"))


def _whole(requests: DataFrame) -> DataFrame:
    """Every request as one tile; one of no partitions, which Kafka's striped placer accepts, has none."""
    return requests.where("partitions > 0").withColumn("count", F.col("partitions"))


# --- with racks, and striped: tiles to the kernel ----------------------------------------------------------------


def _by_kernel(tiles: DataFrame, lines: DataFrame, tasks: int, algorithm: str, found: _Survey) -> DataFrame:
    """Placements of tiles; the brokers of a cluster go to the kernel once for many tiles."""
    work = F.pmod(F.xxhash64("topic", "first"), F.lit(4 * tasks))
    tile = F.struct("topic", "first", "count", "replication_factor", "start_index", "base", "seed")
    gathered = (
        tiles.withColumn("work", work)
        .repartition(tasks, "cluster", "work")
        .groupBy("cluster", "work")
        .agg(F.collect_list(tile).alias("tiles"))
        .join(F.broadcast(lines.select("cluster", "line")), "cluster")
        .select("cluster", "line", "tiles")
    )
    placed = gathered.mapInArrow(_placer(algorithm), PLACED)
    each = placed.select("*", F.explode(F.sequence(F.lit(0), F.col("count") - 1)).alias("pos"))
    each = each.withColumn("at", F.col("pos") * F.col("replication_factor")).withColumn(
        "partition", F.col("first") + F.col("pos")
    )
    any_number = F.slice("placed", F.col("at") + 1, F.col("replication_factor"))
    return _shown(each.withColumn("replicas", _line_up(found, _placed_at, any_number)))


def _placed_at(number: int) -> Column:
    return F.get("placed", F.col("at") + number)


def _placer(algorithm: str) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        return place_tiles(batches, algorithm)

    return work


# --- without racks: closed form -----------------------------------------------------------------------------------


def _in_closed_form(tiles: DataFrame, lines: DataFrame, tasks: int, found: _Survey) -> DataFrame:
    """Placements of tiles as a column expression: the first replica goes round, the followers stand behind it."""
    ids = lines.select("cluster", F.col("line.broker_id").alias("ids"))
    partitions = (
        tiles.repartition(tasks, "cluster", "topic", "first")
        .join(F.broadcast(ids), "cluster")
        .select(
            *("cluster", "topic", "replication_factor", "start_index", "base", "brokers", "seed", "ids"),
            F.explode(F.sequence(F.col("first"), F.col("first") + F.col("count") - 1)).alias("partition"),
        )
        .withColumn("place", (F.col("partition") + F.col("start_index")) % F.col("brokers"))
        .withColumn("behind", F.col("base") + F.expr("partition div brokers").cast("int"))
    )
    followers = F.transform(F.sequence(F.lit(1), F.col("replication_factor") - 1), _in_line)
    any_number = F.concat(F.array(_in_line(0)), followers)
    return _shown(partitions.withColumn("replicas", _line_up(found, _in_line, any_number)))


def _in_line(number: int | Column) -> Column:
    """A replica of `AdminUtils` by its number from `ids`, `place` (of the first in `ids`), `behind` (the shift) and
    `brokers`; the followers are those of `AdminUtils.replicaIndex`."""
    if isinstance(number, int) and number == 0:
        return F.get("ids", F.col("place"))
    distance = 1 + (F.col("behind") + number - 1) % (F.col("brokers") - 1)
    return F.get("ids", (F.col("place") + distance) % F.col("brokers"))


# --- both -------------------------------------------------------------------------------------------------------


def _line_up(found: _Survey, replica: Callable[[int], Column], any_number: Column) -> Column:
    """The replicas of a partition as an array.

    Args:
        found: of `_survey`. For every replication factor that it knows the array is written out: Spark compiles that.
        replica: the expression of the first replica (0), the second (1), …
        any_number: the array of whatever replication factor.
    """
    chosen: Column | None = None
    for known in found.unrolled:
        condition, line = F.col("replication_factor") == known, F.array(*(replica(at) for at in range(known)))
        chosen = F.when(condition, line) if chosen is None else chosen.when(condition, line)
    if chosen is None:
        return any_number
    return chosen.otherwise(any_number) if found.most_replicas > _UNROLLED else chosen


def _shown(placed: DataFrame) -> DataFrame:
    """The columns of `tables.replicas.PLACEMENTS`."""
    shift = F.col("base") + F.expr("partition div brokers").cast("int")
    shown = placed.withColumn("leader", F.col("replicas")[0]).withColumn("shift", shift)
    return shown.select(*PLACEMENTS.fieldNames())
