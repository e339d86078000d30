"""What changes in clusters before their replicas are reassigned."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.fleet import Fleet
from spark_assign.replicas.fleet import ReplicaFleet, replica_fleet
from spark_assign.replicas.table_faults import faulty_rows, raise_faults, shaped, together
from spark_assign.tables.replicas import ADDED, FACTORS, PARTITIONS, RACKS, REMOVED

_SCHEMAS = {
    "removed": REMOVED,
    "added": ADDED,
    "racks": RACKS,
    "replication_factors": FACTORS,
    "partitions": PARTITIONS,
}


@dataclass(frozen=True)
class Change:
    """What changes; every table may be left out.

    Args:
        removed: cluster, broker_id: brokers whose replicas have to go.
        added: cluster, broker_id, rack_id?: new brokers.
        racks: cluster, broker_id, rack_id?: brokers that get another rack.
        replication_factors: cluster, topic, replication_factor: of topics that get another one.
        partitions: cluster, topic, partitions: of topics that grow, the new number.

    Clusters without a row in any of them are left alone; a change without tables repairs all clusters.

    Raises:
        FleetError: a missing column or a wrong type.
    """

    removed: DataFrame | None = None
    added: DataFrame | None = None
    racks: DataFrame | None = None
    replication_factors: DataFrame | None = None
    partitions: DataFrame | None = None

    def __post_init__(self) -> None:
        given = {name: (table, _SCHEMAS[name]) for name, table in self.tables().items()}
        for name, table in zip(given, shaped(given), strict=True):
            object.__setattr__(self, name, table)

    def tables(self) -> dict[str, DataFrame]:
        """Those that are given."""
        return {name: getattr(self, name) for name in _SCHEMAS if getattr(self, name) is not None}

    def check_values(self) -> None:
        """Look for nulls.

        Raises:
            FleetError: rows that do not say what changes.
        """
        keys = {name: [field.name for field in _SCHEMAS[name].fields if not field.nullable] for name in self.tables()}
        if keys:
            found = [faulty_rows(name, table, keys[name], unique=False) for name, table in self.tables().items()]
            raise_faults(together(found).collect(), keys)  # a row per table and column

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
        """The same in plain values.

        Args:
            fleet: what it is about.
            cluster: shell pattern; every cluster that matches changes.
            removed: broker ids.
            added, racks: rack by broker id.
            replication_factors, partitions: by shell patterns of topics; the first that matches counts.
        """
        known = replica_fleet(fleet)
        clusters = known.brokers.where(_like("cluster", cluster)).select("cluster").distinct()
        topics = known.replicas.where(_like("cluster", cluster)).select("cluster", "topic").distinct()
        brokers = {"added": added, "racks": racks}
        of_topics = {
            "replication_factors": ("replication_factor", replication_factors),
            "partitions": ("partitions", partitions),
        }
        return Change(
            removed=_spread(clusters, [_row(broker_id=F.lit(each)) for each in removed]) if removed else None,
            **{name: _spread(clusters, _racked(values)) for name, values in brokers.items() if values},
            **{name: _matched(topics, column, values) for name, (column, values) in of_topics.items() if values},
        )


def _racked(racks: Mapping[int, str | None]) -> list[Column]:
    return [_row(broker_id=F.lit(broker), rack_id=F.lit(rack).cast("string")) for broker, rack in racks.items()]


def _row(**values: Column) -> Column:
    return F.struct(*(value.alias(name) for name, value in values.items()))


def _spread(clusters: DataFrame, rows: list[Column]) -> DataFrame:
    """The same rows for every cluster."""
    return clusters.select("cluster", F.inline(F.array(*rows)))


def _matched(topics: DataFrame, column: str, values: Mapping[str, int]) -> DataFrame:
    """The value of the first pattern that a topic matches; topics that match none are left out."""
    value = F.coalesce(*(F.when(_like("topic", pattern), F.lit(number)) for pattern, number in values.items()))
    return topics.withColumn(column, value).where(F.col(column).isNotNull())


def _like(name: str, pattern: str) -> Column:
    return F.lit(True) if pattern == "*" else F.col(name).rlike(fnmatch.translate(pattern))
