"""The input tables of replica placement and reassignment, their checks, and the changes of clusters."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_assign.fleet import Fleet
from spark_assign.tables.errors import Fault, FleetError
from spark_assign.tables.groups import REPLICAS
from spark_assign.tables.replicas import ADDED, BROKERS, FACTORS, PARTITIONS, RACKS, REMOVED, SIZES
from spark_assign.tables.schema_check import check_schema

_KEYS = {
    "replicas": ["cluster", "topic", "partition"],
    "brokers": ["cluster", "broker_id"],
    "sizes": ["cluster", "topic", "partition"],
}

_SCHEMAS = {
    "removed": REMOVED,
    "added": ADDED,
    "racks": RACKS,
    "replication_factors": FACTORS,
    "partitions": PARTITIONS,
}

_TWICE = "twice"


@dataclass(frozen=True)
class ReplicaFleet:
    """The replicas of partitions, and brokers.

    Args:
        replicas: cluster, topic, partition, replicas (array of broker ids, preferred leader first).
        brokers: cluster, broker_id, rack_id?, fenced?.
        sizes: cluster, topic, partition, bytes (of one replica); optional.

    Raises:
        FleetError: a missing column or a wrong type; lists all faults.
    """

    replicas: DataFrame
    brokers: DataFrame
    sizes: DataFrame | None = None

    def __post_init__(self) -> None:
        tables = {"replicas": (self.replicas, REPLICAS), "brokers": (self.brokers, BROKERS)}
        if self.sizes is not None:
            tables["sizes"] = (self.sizes, SIZES)
        for name, table in zip(tables, conform_tables(tables), strict=True):
            object.__setattr__(self, name, table)

    def check_keys(self) -> None:
        """Checks keys for nulls.

        Raises:
            FleetError: rows without a cluster, partition, or broker.
        """
        tables = {"replicas": self.replicas, "brokers": self.brokers, "sizes": self.sizes}
        faults = union_faults(
            [faulty_rows(name, rows, _KEYS[name], unique=False) for name, rows in tables.items() if rows is not None]
        )
        raise_faults(faults.collect(), _KEYS)  # a row per table and column


def replica_fleet(fleet: Fleet | ReplicaFleet) -> ReplicaFleet:
    """Returns the replicas and brokers of a fleet.

    Raises:
        FleetError: the fleet has no replicas or no brokers.
    """
    if isinstance(fleet, ReplicaFleet):
        return fleet
    missing = [name for name in ("replicas", "brokers") if getattr(fleet, name) is None]
    if missing:
        raise FleetError([Fault(name, "*", "the table is missing", "Give it as a DataFrame") for name in missing])
    assert fleet.replicas is not None
    assert fleet.brokers is not None
    return ReplicaFleet(fleet.replicas, fleet.brokers)


@dataclass(frozen=True)
class Change:
    """Changes of clusters for a reassignment; every table is optional.

    Args:
        removed: cluster, broker_id: brokers that must lose all replicas.
        added: cluster, broker_id, rack_id?: new brokers.
        racks: cluster, broker_id, rack_id?: new racks of brokers.
        replication_factors: cluster, topic, replication_factor: new replication factors of topics.
        partitions: cluster, topic, partitions: new numbers of partitions of topics that grow.

    Clusters without a row in any table don't change; a change without tables repairs all clusters.

    Raises:
        FleetError: a missing column or a wrong type.
    """

    removed: DataFrame | None = None
    added: DataFrame | None = None
    racks: DataFrame | None = None
    replication_factors: DataFrame | None = None
    partitions: DataFrame | None = None

    def __post_init__(self) -> None:
        tables = {name: (table, _SCHEMAS[name]) for name, table in self.tables().items()}
        for name, table in zip(tables, conform_tables(tables), strict=True):
            object.__setattr__(self, name, table)

    def tables(self) -> dict[str, DataFrame]:
        """Returns the tables that are set, by name."""
        return {name: getattr(self, name) for name in _SCHEMAS if getattr(self, name) is not None}

    def check_values(self) -> None:
        """Checks keys and new values for nulls.

        Raises:
            FleetError: rows that don't specify the change.
        """
        keys = {name: [field.name for field in _SCHEMAS[name].fields if not field.nullable] for name in self.tables()}
        if keys:
            faults = [faulty_rows(name, table, keys[name], unique=False) for name, table in self.tables().items()]
            raise_faults(union_faults(faults).collect(), keys)  # a row per table and column

    @staticmethod
    def of(
        fleet: Fleet | ReplicaFleet,
        *,
        cluster: str = "*",
        removed: Collection[int] = (),
        added: Mapping[int, str | None] | None = None,
        racks: Mapping[int, str | None] | None = None,
        replication_factors: Mapping[str, int] | None = None,
        partitions: Mapping[str, int] | None = None,
    ) -> Change:
        """Builds a change from plain values.

        Args:
            fleet: the fleet that changes.
            cluster: shell pattern of cluster names; the same change applies to every cluster that matches.
            removed: broker ids.
            added, racks: the rack by broker id.
            replication_factors, partitions: the new value by shell pattern of topics; the first match applies.
        """
        tables = replica_fleet(fleet)
        clusters = tables.brokers.where(_matches("cluster", cluster)).select("cluster").distinct()
        topics = tables.replicas.where(_matches("cluster", cluster)).select("cluster", "topic").distinct()
        broker_racks = {"added": added, "racks": racks}
        topic_values = {
            "replication_factors": ("replication_factor", replication_factors),
            "partitions": ("partitions", partitions),
        }
        return Change(
            removed=_per_cluster(clusters, [_row(broker_id=F.lit(broker)) for broker in removed]) if removed else None,
            **{name: _per_cluster(clusters, _broker_rows(values)) for name, values in broker_racks.items() if values},
            **{
                name: _match_topics(topics, column, values) for name, (column, values) in topic_values.items() if values
            },
        )


def _broker_rows(racks: Mapping[int, str | None]) -> list[Column]:
    return [_row(broker_id=F.lit(broker), rack_id=F.lit(rack).cast("string")) for broker, rack in racks.items()]


def _row(**values: Column) -> Column:
    return F.struct(*(value.alias(name) for name, value in values.items()))


def _per_cluster(clusters: DataFrame, rows: list[Column]) -> DataFrame:
    """Returns the rows once per cluster."""
    return clusters.select("cluster", F.inline(F.array(*rows)))


def _match_topics(topics: DataFrame, column: str, values: Mapping[str, int]) -> DataFrame:
    """Returns topics with the value of the first pattern that they match, without topics that match none."""
    value = F.coalesce(*(F.when(_matches("topic", pattern), F.lit(number)) for pattern, number in values.items()))
    return topics.withColumn(column, value).where(F.col(column).isNotNull())


def _matches(name: str, pattern: str) -> Column:
    return F.lit(True) if pattern == "*" else F.col(name).rlike(fnmatch.translate(pattern))


# --- faults of tables ---------------------------------------------------------------------------------------------


def conform_tables(tables: Mapping[str, tuple[DataFrame, StructType]]) -> list[DataFrame]:
    """Returns the tables with the declared columns and types.

    Raises:
        FleetError: a missing column or a wrong type; lists all faults.
    """
    results = [check_schema(name, table, schema) for name, (table, schema) in tables.items()]
    if faults := [fault for _, table_faults in results for fault in table_faults]:
        raise FleetError(faults)
    return [table for table, _ in results]


def faulty_rows(table: str, rows: DataFrame, key: Sequence[str], *, unique: bool) -> DataFrame:
    """Returns the rows with a null in their key and, if keys must be `unique`, the duplicate keys.

    Returns:
        table, problem (the column, or `twice`), rows (their number), example; one row per problem.
    """
    null = F.coalesce(*(F.when(F.col(name).isNull(), name) for name in key))
    keyed = rows.select(*key, null.alias("problem"))
    if unique:
        counted = keyed.groupBy(*key, "problem").agg(F.count(F.lit(1)).alias("rows"))
        counted = counted.withColumn("problem", F.coalesce("problem", F.when(F.col("rows") > 1, _TWICE)))
    else:
        counted = keyed.withColumn("rows", F.lit(1).cast("long"))
    return (
        counted.where(F.col("problem").isNotNull())
        .groupBy("problem")
        .agg(F.sum("rows").alias("rows"), F.min(_key_text(key)).alias("example"))
        .select(F.lit(table).alias("table"), "problem", "rows", "example")
    )


def union_faults(faults: Sequence[DataFrame]) -> DataFrame:
    """Unites the `faulty_rows` of several tables."""
    return reduce(DataFrame.unionByName, faults)


def raise_faults(rows: Sequence[Row], keys: Mapping[str, Sequence[str]]) -> None:
    """Raises an error if `faulty_rows` returned any rows.

    Args:
        rows: the collected rows of `faulty_rows`.
        keys: the key columns of each table.

    Raises:
        FleetError: lists every kind of fault with its number of rows and an example.
    """
    faults = []
    for row in rows:
        examples = f"{row['rows']} row(s), e.g. {row['example']}"
        key = keys[row["table"]]
        if row["problem"] == _TWICE:
            remedy = f"Keep one row per {' and '.join(key)}"
            faults.append(Fault(row["table"], key[-1], f"the same key twice: {examples}", remedy))
        else:
            remedy = "Fill it in or leave the row out"
            faults.append(Fault(row["table"], row["problem"], f"null or beyond int in a key: {examples}", remedy))
    if faults:
        raise FleetError(sorted(faults, key=str))


def _key_text(columns: Sequence[str]) -> Column:
    """Returns a key as text: `cluster=c1, topic=orders`."""
    values = [F.coalesce(F.col(name).cast("string"), F.lit("null")) for name in columns]
    return F.concat_ws(", ", *(F.concat(F.lit(f"{name}="), value) for name, value in zip(columns, values, strict=True)))
