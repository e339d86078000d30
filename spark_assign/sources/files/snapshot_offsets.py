"""Reads the offsets of snapshots and their times, and computes rates between two snapshots.

In a folder, the time of each cluster is in its `snapshot.json`. In a catalog, it is in the table `snapshots`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from spark_assign.sources.files.tables import Shape, read_tables
from spark_assign.spark.dataframes import union
from spark_assign.stores.locations import is_path
from spark_assign.tables.errors import FleetError, SourceError, in_one_line
from spark_assign.tables.groups import LOADS, OFFSETS, SNAPSHOTS, TOPICS
from spark_assign.tables.schema_check import check_schema, check_schemas, complete_groups
from spark_assign.tables.schema_fields import columns, schema

_OFFSETS = Shape("A snapshot", {"offsets": OFFSETS, "topics": TOPICS}, ("offsets",))
_SUMMARY = StructType(
    [
        *columns("cluster string, taken_at string"),
        StructField("source", schema("kafka_cluster_id string?, kind string?, groups array<string>?, unseen string?")),
    ]
)

SHOWN_MICROS = (-62_135_510_400_000_000, 253_402_214_400_000_000)
"""Times that Python's `datetime` has in every time zone, in microseconds since 1970."""


@dataclass(frozen=True)
class Offsets:
    """Offsets of one or more clusters, and the times at which they were read. Each is a DataFrame.

    Args:
        offsets: the table of a snapshot: cluster, group_id, topic, partition, committed_offset, end_offset, lag.
        snapshots: one row per cluster: cluster, taken_at (a timestamp), and, if known, kafka_cluster_id.
        topics: if known, with topic_id, which changes if a topic is deleted and created again.

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
        if faults := check_schemas(self, {"offsets": OFFSETS, "snapshots": SNAPSHOTS, "topics": TOPICS}):
            raise FleetError(faults)

    @classmethod
    def read(
        cls,
        spark: SparkSession,
        location: str,
        *,
        format: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Offsets:
        """Reads the offsets of a snapshot: `Offsets.read(spark, "./monday")`, `Offsets.read(spark, "main.kafka")`.

        Args:
            spark: the session to read with, classic or Connect.
            location: a folder, a URI, or a catalog prefix, of one or more clusters.
            format, options: as in `Fleet.read`.

        Raises:
            SourceError: the offsets or their time are missing.
        """
        offsets = read_tables(spark, _OFFSETS, location, format=format, options=options)
        snapshots = read_summaries(spark, location, required=True)
        assert snapshots is not None
        return cls(snapshots=snapshots, **offsets)


def read_summaries(spark: SparkSession, location: str, *, required: bool = False) -> DataFrame | None:
    """Returns cluster, taken_at, kafka_cluster_id, and gap of the snapshots at a location; None if it has no summaries.

    `gap`: why the snapshot doesn't have all groups of the cluster; null if it has all that its user may see.

    Raises:
        SourceError: a summary can't be read, or, if they are required, there is none.
    """
    if not is_path(location):
        names = ["snapshots"]
        found = read_tables(spark, Shape("A snapshot", {"snapshots": SNAPSHOTS}, names[: int(required)]), location)
        if not found:
            return None
        of_content = {name: F.get_json_object("content", f"$.source.{name}") for name in ("kind", "groups", "unseen")}
        return found["snapshots"].withColumn("gap", _gap(**of_content))
    names = ["snapshot"]
    shape = Shape("A snapshot", {"snapshot": _SUMMARY}, names[: int(required)])
    found = read_tables(spark, shape, location, format="json", options={"multiLine": "true"})
    if not found:
        return None
    return found["snapshot"].select(
        "cluster",
        F.try_to_timestamp("taken_at").alias("taken_at"),
        F.col("source.kafka_cluster_id").alias("kafka_cluster_id"),
        _gap(*(F.col(f"source.{name}") for name in ("kind", "groups", "unseen"))).alias("gap"),
    )


def _gap(kind: Column, groups: Column, unseen: Column) -> Column:
    """Returns why a snapshot doesn't have all groups, from its source; null if it has."""
    return (
        F.when(kind.isNull() | (kind != "kafka"), "all groups: the snapshot isn't read from the cluster itself")
        .when(groups.isNotNull(), "all groups: the snapshot was taken with --group")
        .when(unseen.isNotNull(), F.concat(F.lit("all groups: "), unseen))
    )


_TOPIC = ["cluster", "topic"]
_PARTITION = [*_TOPIC, "partition"]
_GROUP_PARTITION = [*_PARTITION, "group_id"]


def loads_between(before: Offsets, after: Offsets) -> DataFrame:
    """Computes the load of the partitions of a fleet from two snapshots: the table `loads`.

    Each cluster has its own times. Each partition has a row without `group_id`, for all groups, with
    `in_messages_per_second`: the increase of its end offset, in records per second. Each group with a committed offset
    has a row with `out_messages_per_second`, the increase of its committed offset in records per second, and `lag`, in
    records at the later snapshot. Unknown values are null: for an offset that decreased (a recreated topic, a truncated
    log, a reset), for a partition that the earlier snapshot lacks, and always for `in_messages_per_second_stddev` and
    `in_bytes_per_second`. As in the `offsets` of a snapshot, only partitions that a group has committed or owns are
    included. If a group has a row without a topic or a partition, its offsets of that snapshot are unknown, and a
    warning names it; a row without a group fails the query.

    Args:
        before: the earlier snapshot.
        after: the later snapshot.

    Returns:
        cluster, topic, partition, group_id, in_messages_per_second, in_messages_per_second_stddev,
        out_messages_per_second, lag, in_bytes_per_second (`tables.groups.LOADS`).

    Raises:
        SourceError: a cluster is missing in one snapshot, isn't later in the second, or is another Kafka cluster with
            the same name. The message lists every such cluster.

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
        >>> rates = loads.drop("cluster", "topic", "in_messages_per_second_stddev", "in_bytes_per_second")
        >>> rates.orderBy("group_id").show()
        +---------+-----------+----------------------+-----------------------+----+
        |partition|   group_id|in_messages_per_second|out_messages_per_second| lag|
        +---------+-----------+----------------------+-----------------------+----+
        |        0|       NULL|                  10.0|                   NULL|NULL|
        |        0|payments-eu|                  NULL|                    5.0| 330|
        +---------+-----------+----------------------+-----------------------+----+
    """
    seconds = seconds_between(before, after)
    joined = _joined(before, after).join(F.broadcast(seconds), "cluster")
    ends = joined.groupBy(*_PARTITION).agg(
        *(F.max(name).alias(name) for name in ("end_before", "end_after", "seconds")), F.bool_and("same").alias("same")
    )
    partition_rates = ends.withColumn("in_messages_per_second", _rate("end"))
    group_rates = joined.where(F.col("committed_before").isNotNull() | F.col("committed_after").isNotNull()).withColumn(
        "out_messages_per_second", _rate("committed")
    )
    rows = union([partition_rates, group_rates])
    return check_schema("loads", rows, LOADS)[0].select(*LOADS.names)


def _joined(before: Offsets, after: Offsets) -> DataFrame:
    """Returns one row per group and partition of the later snapshot, with both offsets of both snapshots."""
    offsets_before, offsets_after = (complete_groups("offsets", each.offsets, OFFSETS) for each in (before, after))
    earlier = offsets_before.select(
        *_GROUP_PARTITION,
        F.col("committed_offset").alias("committed_before"),
    )
    ends = offsets_before.groupBy(*_PARTITION).agg(F.max("end_offset").alias("end_before"))
    lag = F.when(F.col("lag") >= 0, F.col("lag"))
    later = offsets_after.select(
        *_GROUP_PARTITION,
        F.col("committed_offset").alias("committed_after"),
        F.col("end_offset").alias("end_after"),
        lag.alias("lag"),
    )
    both = later.join(ends, _PARTITION, "left").join(earlier, _GROUP_PARTITION, "left")
    if before.topics is None or after.topics is None:
        return both.withColumn("same", F.lit(True))
    ids = _ids(after, "id_after").join(_ids(before, "id_before"), _TOPIC, "left")
    with_ids = both.join(ids, _TOPIC, "left")
    return with_ids.withColumn("same", F.coalesce(F.col("id_after") == F.col("id_before"), F.lit(True)))


def _ids(offsets: Offsets, name: str) -> DataFrame:
    """Returns the ID of each topic, in a column of this name."""
    assert offsets.topics is not None
    return offsets.topics.select(*_TOPIC, F.col("topic_id").alias(name))


def _rate(name: str) -> Column:
    """Returns the increase of an offset in records per second. Null if it decreased, if the increase is beyond a long,
    or if the topic was recreated."""
    step = F.try_subtract(f"{name}_after", f"{name}_before")
    return F.when(F.col("same") & (step >= 0), step / F.col("seconds"))


def seconds_between(before: Offsets, after: Offsets) -> DataFrame:
    """Returns the seconds between the snapshots of each cluster: cluster, seconds. Raises SourceError."""
    shown = F.max(F.when(F.unix_micros("taken_at").between(*SHOWN_MICROS), F.col("taken_at")))
    taken_at = F.when(F.count(F.lit(1)) == 1, shown)  # of several snapshots of one cluster, none says when
    cluster_id = F.max("kafka_cluster_id")
    sides = [
        offsets.snapshots.groupBy("cluster").agg(taken_at.alias(f"{side}_at"), cluster_id.alias(f"{side}_id"))
        for offsets, side in ((before, "before"), (after, "after"))
    ]
    times = (
        sides[0]
        .join(sides[1], "cluster", "full")
        .withColumn("seconds", (F.unix_micros("after_at") - F.unix_micros("before_at")) / 1_000_000)
    )
    rows = times.orderBy("cluster").collect()  # a row per cluster
    if faults := [fault for row in rows for fault in _faults(row.asDict())]:
        raise SourceError(
            "these snapshots can't be compared:\n" + "\n".join(f"  - {in_one_line(fault)}" for fault in faults)
        )
    if not rows:
        raise SourceError("these snapshots can't be compared: neither says when it was taken")
    return times.select("cluster", "seconds")


def _faults(row: dict[str, Any]) -> list[str]:
    """Returns the fault of a cluster's times, if any."""
    cluster, before, after = row["cluster"], row["before_at"], row["after_at"]
    if before is None or after is None:
        side = "earlier" if before is None else "later"
        return [f"cluster {cluster}: the {side} snapshot has none, or does not say when. Give two snapshots of it"]
    if row["seconds"] == 0:
        return [f"cluster {cluster}: both were taken at {_iso(before)}. Give two snapshots of different times"]
    if row["seconds"] < 0:
        return [
            f"cluster {cluster}: the earlier one was taken at {_iso(before)}, the later one at {_iso(after)}. Swap them"
        ]
    ids = [row[f"{side}_id"] for side in ("before", "after")]
    if all(ids) and ids[0] != ids[1]:
        return [f"cluster {cluster}: these are two Kafka clusters (ids {ids[0]} and {ids[1]}) of one name"]
    return []


def _iso(time: Any) -> str:
    return str(time.isoformat(sep=" ", timespec="seconds"))
