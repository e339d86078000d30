"""The input tables of Kafka Connect planning as DataFrames."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from spark_assign.tables.connect import INPUT_TABLES, REQUIRED_TABLES
from spark_assign.tables.errors import FleetError
from spark_assign.tables.schema_check import check_schemas


@dataclass(frozen=True)
class ConnectFleet:
    """Connect clusters, with their workers, connectors, and tasks (columns: `tables.connect.INPUT_TABLES`).

    The constructor checks columns and types, and reads no rows. Invalid values reject their Connect cluster
    (`ConnectPlan.rejected`).

    Args:
        clusters: One row per Connect cluster: protocol, clock, generations, and maximum delay.
        connectors: One row per configured connector.
        tasks: One row per configured task.
        workers: One row per worker that takes part in the rebalance.
        reported: One row per connector or task that a worker runs.
        state: One row per Connect cluster whose leader has a state; `None` if none has.

    Raises:
        FleetError: A table or column is missing, or has a wrong type; lists all faults.
    """

    clusters: DataFrame
    connectors: DataFrame
    tasks: DataFrame
    workers: DataFrame
    reported: DataFrame
    state: DataFrame | None = None

    def __post_init__(self) -> None:
        if faults := check_schemas(self, INPUT_TABLES, REQUIRED_TABLES):
            raise FleetError(faults)
