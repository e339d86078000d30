"""What a snapshot says of offsets, and when: the tables beside the fleet that rates between two snapshots are made of.

In a folder the time is that of `snapshot.json`, of each cluster its own; in a catalog that of the table `snapshots`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from spark_assign.sources.files.tables import Shape, read_tables
from spark_assign.stores.locations import is_path
from spark_assign.tables.errors import Fault, FleetError
from spark_assign.tables.groups import OFFSETS, SNAPSHOTS, TOPICS
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
