"""The input tables of replica placement and reassignment, their checks, and the changes of clusters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StructType

from spark_assign.fleet import FleetTables, is_no_list_of_replicas
from spark_assign.spark.dataframes import union
from spark_assign.spark.shell_patterns import matches
from spark_assign.tables.errors import ROW_REMEDY, Fault, FleetError, count
from spark_assign.tables.groups import LOADS, LOG_DIR_REPLICAS, LOG_DIRS, REPLICAS
from spark_assign.tables.replicas import ADDED, BROKERS, CAPACITIES, FACTORS, PARTITIONS, RACKS, REMOVED, SIZES
from spark_assign.tables.schema_check import check_schemas


class CheckedTables:
    """Tables whose columns and types the constructor checks."""

    schemas: ClassVar[Mapping[str, StructType]]
    required: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if faults := check_schemas(self, self.schemas, self.required):
            raise FleetError(faults)

    def tables(self) -> dict[str, DataFrame]:
        """Returns the tables that are set, by name."""
        return {name: table for name in self.schemas if (table := getattr(self, name)) is not None}

    def check_keys(self, unique: Collection[str] = ()) -> None:
        """Checks the required columns for nulls.

        Args:
            unique: Tables in which the same key twice, `is_no_list_of_replicas`, and a negative partition are errors,
                too.

        Raises:
            FleetError: A null, an integer out of range, or a key that occurs twice.
        """
        faults = []
        for name, table in self.tables().items():
            required = [field for field in self.schemas[name].fields if not field.nullable]
            lists = [field.name for field in required if isinstance(field.dataType, ArrayType)]
            key = [field.name for field in required if field.name not in lists]
            faults.append(faulty_rows(name, table, key, lists, unique=name in unique))
        if faults:
            raise_faults(union(faults).collect())  # a row per table and column


@dataclass(frozen=True)
class ReplicaFleet(CheckedTables):
    """The replicas of partitions, and brokers.

    Args:
        replicas: cluster, topic, partition, replicas (array of broker ids, preferred leader first).
        brokers: cluster, broker_id, rack_id?, fenced?, cordoned?, offline_log_dirs?.
        sizes: cluster, topic, partition, bytes (of one replica); optional.
        loads: cluster, topic, partition, group_id?, in_bytes_per_second? (`tables.groups.LOADS`); for goals only.
        capacities: cluster, broker_id, disk_bytes?, in_bytes_per_second?, out_bytes_per_second?; for goals only.
        log_dirs, log_dir_replicas: log directories and the logs in them (`tables.groups.LOG_DIRS`,
            `LOG_DIR_REPLICAS`); for the goal log-dirs, and for sizes.

    Raises:
        FleetError: A column is missing or has a wrong type; lists all faults.
    """

    schemas: ClassVar = {
        "replicas": REPLICAS,
        "brokers": BROKERS,
        "sizes": SIZES,
        "loads": LOADS,
        "capacities": CAPACITIES,
        "log_dirs": LOG_DIRS,
        "log_dir_replicas": LOG_DIR_REPLICAS,
    }
    required = ("replicas", "brokers")

    replicas: DataFrame
    brokers: DataFrame
    sizes: DataFrame | None = None
    loads: DataFrame | None = None
    capacities: DataFrame | None = None
    log_dirs: DataFrame | None = None
    log_dir_replicas: DataFrame | None = None


def replica_fleet(fleet: FleetTables | ReplicaFleet) -> ReplicaFleet:
    """Returns the replicas and brokers of a fleet.

    Raises:
        FleetError: The fleet has no replicas or no brokers.
    """
    return fleet if isinstance(fleet, ReplicaFleet) else ReplicaFleet(fleet.replicas, fleet.brokers)  # type: ignore[arg-type]


def without_removed(replicas: DataFrame) -> DataFrame:
    """Returns the replicas that partitions have once the reassignments in progress are complete.

    While a partition is being reassigned, its replicas are the target, followed by the ones to be removed
    (`PartitionReassignmentReplicas`).
    """
    if "removing_replicas" not in replicas.columns:
        return replicas
    removing = F.coalesce("removing_replicas", F.array().cast("array<int>"))
    target = F.filter("replicas", lambda broker: ~F.array_contains(removing, broker))
    return replicas.withColumn("replicas", target)


@dataclass(frozen=True)
class ClusterChange(CheckedTables):
    """Changes of clusters for a reassignment; every table is optional.

    Args:
        removed: cluster, broker_id: brokers that must lose all replicas.
        added: cluster, broker_id, rack_id?: new brokers.
        racks: cluster, broker_id, rack_id?: new racks of brokers.
        replication_factors: cluster, topic, replication_factor: new replication factors of topics.
        partitions: cluster, topic, partitions: new numbers of partitions of topics that grow.

    Clusters without a row in any table don't change; a change without tables repairs all clusters.

    Raises:
        FleetError: A column is missing or has a wrong type; lists all faults.
    """

    schemas: ClassVar = {
        "removed": REMOVED,
        "added": ADDED,
        "racks": RACKS,
        "replication_factors": FACTORS,
        "partitions": PARTITIONS,
    }

    removed: DataFrame | None = None
    added: DataFrame | None = None
    racks: DataFrame | None = None
    replication_factors: DataFrame | None = None
    partitions: DataFrame | None = None

    @staticmethod
    def from_values(
        fleet: FleetTables | ReplicaFleet,
        *,
        cluster: str = "*",
        removed: Collection[int] = (),
        added: Mapping[int, str | None] | None = None,
        racks: Mapping[int, str | None] | None = None,
        replication_factors: Mapping[str, int] | None = None,
        partitions: Mapping[str, int] | None = None,
    ) -> ClusterChange:
        """Builds a change from plain values.

        Args:
            fleet: The fleet that changes.
            cluster: Shell pattern of cluster names. The same change applies to every cluster that matches.
            removed: Broker ids.
            added, racks: Rack by broker id.
            replication_factors, partitions: New value by shell pattern of topics. The first match applies.
        """
        tables = replica_fleet(fleet)
        clusters = tables.brokers.where(matches(cluster=cluster)).select("cluster").distinct()
        topics = tables.replicas.where(matches(cluster=cluster)).select("cluster", "topic").distinct()
        racked = {name: _broker_rows(values) for name, values in (("added", added), ("racks", racks)) if values}
        brokers = {"removed": [_row(broker_id=F.lit(broker)) for broker in removed]} if removed else {}
        counts = {
            "replication_factors": ("replication_factor", replication_factors),
            "partitions": ("partitions", partitions),
        }
        return ClusterChange(
            **{name: clusters.select("cluster", F.inline(F.array(*rows))) for name, rows in (brokers | racked).items()},
            **{name: _match_topics(topics, column, values) for name, (column, values) in counts.items() if values},
        )


def _broker_rows(racks: Mapping[int, str | None]) -> list[Column]:
    return [_row(broker_id=F.lit(broker), rack_id=F.lit(rack).cast("string")) for broker, rack in racks.items()]


def _row(**values: Column) -> Column:
    return F.struct(*(value.alias(name) for name, value in values.items()))


def _match_topics(topics: DataFrame, column: str, values: Mapping[str, int]) -> DataFrame:
    """Returns topics with the value of the first pattern that they match, without topics that match none."""
    value = F.coalesce(*(F.when(matches(topic=pattern), F.lit(number)) for pattern, number in values.items()))
    return topics.withColumn(column, value).where(F.col(column).isNotNull())


# --- faulty rows --------------------------------------------------------------------------------------------------


def faulty_rows(
    table: str, rows: DataFrame, key: Sequence[str], lists: Sequence[str] = (), *, unique: bool
) -> DataFrame:
    """Returns the rows with a null in their key and, if keys must be `unique`, the duplicate keys, and the rows with a
    list that `is_no_list_of_replicas`, or a negative partition.

    Returns:
        table, column (of a null), rows (their number), example, key; one row per column with a null, and one with a
        null in `column` for duplicate keys.
    """
    checks = {name: F.col(name).isNull() for name in key}
    if unique:
        checks |= {name: is_no_list_of_replicas(F.col(name)) for name in lists}
    if unique and "partition" in key:
        checks["partition"] |= F.col("partition") < 0
    null = F.coalesce(*(F.when(is_faulty, name) for name, is_faulty in checks.items()))
    texts = (F.concat(F.lit(f"{name}="), F.coalesce(F.col(name).cast("string"), F.lit("null"))) for name in key)
    keyed = rows.select(F.concat_ws(", ", *texts).alias("example"), null.alias("column"), F.lit(1).alias("rows"))
    if unique:
        keyed = keyed.groupBy("example", "column").agg(F.sum("rows").alias("rows"))
    faulty = keyed.where(F.col("column").isNotNull() | (F.col("rows") > 1)).groupBy("column")
    counts = faulty.agg(F.sum("rows").alias("rows"), F.min("example").alias("example"))
    return counts.select(F.lit(table).alias("table"), "column", "rows", "example", F.lit([*key]).alias("key"))


def raise_faults(rows: Sequence[Row]) -> None:
    """Raises an error if `faulty_rows` returned any rows.

    Raises:
        FleetError: Lists every kind of fault with its number of rows and an example.
    """
    faults = []
    for row in rows:
        key, column, examples = row["key"], row["column"], f"{count(row['rows'], 'row')}, e.g. {row['example']}"
        if column is None:
            problem, remedy = f"the same key twice: {examples}", f"Keep one row per {' and '.join(key)}"
        else:
            where = " in a key" if column in row["key"] else ""
            problem, remedy = f"null or out of range{where}: {examples}", ROW_REMEDY
        faults.append(Fault(row["table"], column or key[-1], problem, remedy))
    if faults:
        raise FleetError(sorted(faults, key=str))
