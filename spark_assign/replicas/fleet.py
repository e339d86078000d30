"""What is known of replicas and brokers: enough to check them and to reassign them."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from spark_assign.fleet import Fleet
from spark_assign.replicas.table_faults import faulty_rows, raise_faults, shaped, together
from spark_assign.tables.errors import Fault, FleetError
from spark_assign.tables.groups import REPLICAS
from spark_assign.tables.replicas import BROKERS, SIZES

KEYS = {
    "replicas": ["cluster", "topic", "partition"],
    "brokers": ["cluster", "broker_id"],
    "sizes": ["cluster", "topic", "partition"],
}


@dataclass(frozen=True)
class ReplicaFleet:
    """Partitions with their replicas, and brokers.

    Args:
        replicas: cluster, topic, partition, replicas (array of broker ids, preferred leader first).
        brokers: cluster, broker_id, rack_id?, fenced?.
        sizes: cluster, topic, partition, bytes (of one replica); optional.

    Raises:
        FleetError: a missing column or a wrong type; lists everything found.
    """

    replicas: DataFrame
    brokers: DataFrame
    sizes: DataFrame | None = None

    def __post_init__(self) -> None:
        tables = {"replicas": (self.replicas, REPLICAS), "brokers": (self.brokers, BROKERS)}
        if self.sizes is not None:
            tables["sizes"] = (self.sizes, SIZES)
        for name, table in zip(tables, shaped(tables), strict=True):
            object.__setattr__(self, name, table)

    def check_keys(self) -> None:
        """Look for nulls in keys.

        Raises:
            FleetError: rows that belong to no cluster, partition or broker.
        """
        tables = {"replicas": self.replicas, "brokers": self.brokers, "sizes": self.sizes}
        found = together(
            [faulty_rows(name, rows, KEYS[name], unique=False) for name, rows in tables.items() if rows is not None]
        )
        raise_faults(found.collect(), KEYS)  # a row per table and column


def replica_fleet(fleet: Fleet | ReplicaFleet) -> ReplicaFleet:
    """The replicas and brokers of a fleet.

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
