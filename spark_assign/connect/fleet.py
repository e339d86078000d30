"""The ConnectFleet: what is known of Connect clusters, their workers, connectors and tasks, as DataFrames."""

from __future__ import annotations

from dataclasses import dataclass, fields

from pyspark.sql import DataFrame

from spark_assign.tables.connect import INPUT_TABLES, REQUIRED_TABLES
from spark_assign.tables.errors import Fault, FleetError
from spark_assign.tables.schema_check import conform


@dataclass(frozen=True)
class ConnectFleet:
    """Connect clusters, each a DataFrame per subject (columns: `tables.connect.INPUT_TABLES`).

    Constructing a fleet checks columns and types and reads no row. What is wrong with the values of a Connect cluster
    is a row of `ConnectPlan.rejected`.

    Args:
        clusters: one row per Connect cluster: its protocol, its clock, its generations, its maximal delay.
        connectors: one row per configured connector.
        tasks: one row per configured task.
        workers: one row per worker that takes part in the rebalance.
        reported: one row per connector or task that a worker runs now.
        state: one row per Connect cluster whose leader remembers something; null if none does.

    Raises:
        FleetError: a missing table or column, or a wrong type; lists everything found.
    """

    clusters: DataFrame
    connectors: DataFrame
    tasks: DataFrame
    workers: DataFrame
    reported: DataFrame
    state: DataFrame | None = None

    def __post_init__(self) -> None:
        faults: list[Fault] = []
        for field in fields(self):
            table = getattr(self, field.name)
            if table is None:
                if field.name in REQUIRED_TABLES:
                    faults.append(Fault(field.name, "*", "the table is missing", "Give it as a DataFrame"))
                continue
            shaped, found = conform(field.name, table, INPUT_TABLES[field.name])
            faults += found
            object.__setattr__(self, field.name, shaped)
        if faults:
            raise FleetError(faults)
