"""What a snapshot says of offsets, and when: the tables beside the fleet that rates between two snapshots are made of.

In a folder the time is that of `snapshot.json`, of each cluster its own; in a catalog that of the table `snapshots`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from spark_assign.sources.files.tables import Shape, read_tables
from spark_assign.stores.locations import is_path
from spark_assign.tables.errors import Fault, FleetError, SourceError
from spark_assign.tables.groups import LOADS, OFFSETS, SNAPSHOTS, TOPICS
from spark_assign.tables.schema_check import conform
from spark_assign.tables.schema_fields import nullable, required

_OFFSETS = Shape("A snapshot", {"offsets": OFFSETS, "topics": TOPICS}, ("offsets",))
_SUMMARY = StructType(
    [
        *required(cluster=StringType(), taken_at=StringType()),
        *nullable(source=StructType(nullable(kafka_cluster_id=StringType()))),
    ]
)
_TIMES = Shape("A snapshot", {"snapshot": _SUMMARY}, ("snapshot",))
_CATALOG_TIMES = Shape("A snapshot", {"snapshots": SNAPSHOTS}, ("snapshots",))


@dataclass(frozen=True)
class Offsets:
    """Offsets of one or more clusters, and when they were read, each a DataFrame.

    Args:
        offsets: as a snapshot writes them: cluster, group_id, topic, partition, committed_offset, end_offset, lag.
        snapshots: a row per cluster: cluster, taken_at (a timestamp), and, if known, kafka_cluster_id.
        topics: if known, with topic_id: a topic that was deleted and made again has another one.

    Raises:
        FleetError: a column is missing or has a wrong type.

    Examples:
        >>> from datetime import UTC, datetime
        >>> names = "cluster string, group_id string, topic string, partition int, "
        >>> names += "committed_offset long, end_offset long, lag long"
        >>> rows = spark.createDataFrame([("c", "payments-eu", "t", 0, 100, 130, 30)], names)
        >>> when = [("c", datetime(2026, 11, 23, 12, tzinfo=UTC))]
        >>> monday = Offsets(rows, spark.createDataFrame(when, "cluster string, taken_at timestamp"))
        >>> monday.offsets.select("topic", "lag").show()
        +-----+---+
        |topic|lag|
        +-----+---+
        |    t| 30|
        +-----+---+
    """

    offsets: DataFrame
    snapshots: DataFrame
    topics: DataFrame | None = None

    def __post_init__(self) -> None:
        faults: list[Fault] = []
        for name, schema in (("offsets", OFFSETS), ("snapshots", SNAPSHOTS), ("topics", TOPICS)):
            table = getattr(self, name)
            if table is not None:
                shaped, found = conform(name, table, schema)
                faults += found
                object.__setattr__(self, name, shaped)
        if faults:
            raise FleetError(faults)

    @classmethod
    def read(
        cls,
        spark: SparkSession,
        place: str,
        *,
        format: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Offsets:
        """The offsets of a snapshot: `Offsets.read(spark, "./monday")`, `Offsets.read(spark, "main.kafka")`.

        Args:
            spark: the session to read with, classic or Connect.
            place: a folder, a URI or a catalog prefix, of one cluster or of many.
            format, options: as `Fleet.read` has them.

        Raises:
            SourceError: there are no offsets, or it is not said when they were read.
        """
        found = read_tables(spark, _OFFSETS, place, format=format, options=options)
        if not is_path(place):
            return cls(snapshots=read_tables(spark, _CATALOG_TIMES, place)["snapshots"], **found)
        said = read_tables(spark, _TIMES, place, format="json", options={"multiLine": "true"})["snapshot"]
        times = said.select(
            "cluster",
            F.try_to_timestamp("taken_at").alias("taken_at"),
            F.col("source.kafka_cluster_id").alias("kafka_cluster_id"),
        )
        return cls(snapshots=times, **found)


_TOPIC = ["cluster", "topic"]
_PARTITION = [*_TOPIC, "partition"]
_OF_GROUP = [*_PARTITION, "group_id"]


def loads_between(before: Offsets, after: Offsets) -> DataFrame:
    """What goes through the partitions of a fleet, by two snapshots of it: the table `loads`.

    Every cluster by its own times. A partition has a row without `group_id`, which holds for all groups: `in_rate`,
    records a second that its end went on by. Of each group that has committed there is one with `out_rate`, records a
    second that its committed offset went on by, and `lag`, the records that it was behind at the later snapshot. Null
    is what two snapshots do not tell: an offset that went back (a topic made anew, a log that lost its end, a reset), a
    partition that the earlier one does not have, `in_rate_stddev` and `bytes`. Both have only partitions that some
    group has committed or owns, as a snapshot's `offsets` has.

    Args:
        before: the earlier one.
        after: the later one.

    Returns:
        cluster, topic, partition, group_id, in_rate, in_rate_stddev, out_rate, lag, bytes (`tables.groups.LOADS`).

    Raises:
        SourceError: a cluster is in one of them only, was not read later in the second, or is another Kafka cluster
            under the same name; names every such cluster.

    Examples:
        >>> from datetime import UTC, datetime
        >>> columns = "cluster string, group_id string, topic string, partition int, committed_offset long, "
        >>> columns += "end_offset long, lag long"
        >>> def at(minute, committed, end):
        ...     rows = [("c", "payments-eu", "t", 0, committed, end, end - committed)]
        ...     when = [("c", datetime(2026, 11, 23, 12, minute, tzinfo=UTC))]
        ...     times = spark.createDataFrame(when, "cluster string, taken_at timestamp")
        ...     return Offsets(spark.createDataFrame(rows, columns), times)
        >>> loads = loads_between(at(0, 100, 130), at(1, 400, 730))
        >>> loads.select("partition", "group_id", "in_rate", "out_rate", "lag").orderBy("group_id").show()
        +---------+-----------+-------+--------+----+
        |partition|   group_id|in_rate|out_rate| lag|
        +---------+-----------+-------+--------+----+
        |        0|       NULL|   10.0|    NULL|NULL|
        |        0|payments-eu|   NULL|     5.0| 330|
        +---------+-----------+-------+--------+----+
    """
    seconds = _seconds(before, after)
    joined = _joined(before, after).join(F.broadcast(seconds), "cluster")
    ends = joined.groupBy(*_PARTITION).agg(
        *(F.max(name).alias(name) for name in ("end_before", "end_after", "seconds")), F.bool_and("same").alias("same")
    )
    of_all = ends.withColumn("in_rate", _rate("end"))
    of_groups = joined.where(F.col("committed_before").isNotNull() | F.col("committed_after").isNotNull()).withColumn(
        "out_rate", _rate("committed")
    )
    rows = of_all.unionByName(of_groups, allowMissingColumns=True)
    return rows.select(
        *(
            F.col(field.name) if field.name in rows.columns else F.lit(None).cast(field.dataType).alias(field.name)
            for field in LOADS
        )
    )


def _joined(before: Offsets, after: Offsets) -> DataFrame:
    """A row per group and partition of the later snapshot, with both offsets of both times."""
    then = before.offsets.select(
        *_OF_GROUP,
        F.col("committed_offset").alias("committed_before"),
    )
    ends = before.offsets.groupBy(*_PARTITION).agg(F.max("end_offset").alias("end_before"))
    lag = F.when(F.col("lag") >= 0, F.col("lag"))
    now = after.offsets.select(
        *_OF_GROUP,
        F.col("committed_offset").alias("committed_after"),
        F.col("end_offset").alias("end_after"),
        lag.alias("lag"),
    )
    both = now.join(ends, _PARTITION, "left").join(then, _OF_GROUP, "left")
    if before.topics is None or after.topics is None:
        return both.withColumn("same", F.lit(True))
    ids = _ids(after, "id_after").join(_ids(before, "id_before"), _TOPIC, "left")
    known = both.join(ids, _TOPIC, "left")
    return known.withColumn("same", F.coalesce(F.col("id_after") == F.col("id_before"), F.lit(True)))


def _ids(of: Offsets, name: str) -> DataFrame:
    assert of.topics is not None
    return of.topics.select(*_TOPIC, F.col("topic_id").alias(name))


def _rate(name: str) -> Column:
    """Records a second by which an offset went on; null where it went back, or is that of another topic."""
    step = F.col(f"{name}_after") - F.col(f"{name}_before")
    return F.when(F.col("same") & (step >= 0), step / F.col("seconds"))


def _seconds(before: Offsets, after: Offsets) -> DataFrame:
    """The time between the two, of each cluster."""
    sides = [
        of.snapshots.select(
            "cluster", F.col("taken_at").alias(f"{side}_at"), F.col("kafka_cluster_id").alias(f"{side}_id")
        )
        for of, side in ((before, "before"), (after, "after"))
    ]
    times = (
        sides[0]
        .join(sides[1], "cluster", "full")
        .withColumn("seconds", (F.unix_micros("after_at") - F.unix_micros("before_at")) / 1_000_000)
    )
    rows = times.orderBy("cluster").collect()  # a row per cluster
    if faults := [said for row in rows for said in _wrong(row.asDict())]:
        raise SourceError("no rates between these snapshots:\n" + "\n".join(f"  - {said}" for said in faults))
    if not rows:
        raise SourceError("no rates between these snapshots: neither says when it was taken")
    return times.select("cluster", "seconds")


def _wrong(row: dict[str, Any]) -> list[str]:
    cluster, then, now = row["cluster"], row["before_at"], row["after_at"]
    if then is None or now is None:
        side = "earlier" if then is None else "later"
        return [f"cluster {cluster}: the {side} snapshot has none, or does not say when. Give two snapshots of it"]
    if row["seconds"] == 0:
        return [f"cluster {cluster}: both were taken at {_iso(then)}. Give two snapshots of different times"]
    if row["seconds"] < 0:
        return [
            f"cluster {cluster}: the earlier one was taken at {_iso(then)}, the later one at {_iso(now)}. Swap them"
        ]
    known = [row[f"{side}_id"] for side in ("before", "after")]
    if all(known) and known[0] != known[1]:
        return [f"cluster {cluster}: these are two Kafka clusters (ids {known[0]} and {known[1]}) of one name"]
    return []


def _iso(at: Any) -> str:
    return str(at.isoformat(sep=" ", timespec="seconds"))
