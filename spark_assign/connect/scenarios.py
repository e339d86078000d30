"""Scenarios of Kafka Connect that come with the package, and their simulation without Spark.

`90x10` is the comparison published with KIP-415 (incremental cooperative rebalancing in Kafka Connect): 3 workers; 90
connectors with 10 tasks each, added one at a time; a worker joins, one bounces within the delay, one leaves for good;
all connectors are removed one at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from spark_assign.connect.fleet import ConnectFleet
from spark_assign.connect.kernel.simulate_clusters import simulate_clusters
from spark_assign.connect.plan import facts_of_rows
from spark_assign.connect.simulate import build_timing
from spark_assign.tables.connect import EVENTS, INPUT_TABLES, REQUIRED_TABLES

CALM_MS = 600_000
"""Time between two changes, longer than the delay, so that each change is complete when the next one starts."""

BOUNCE_MS = 60_000
"""Time that a bouncing worker is away, shorter than the delay."""

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class ConnectScenario:
    """Events of one Connect cluster.

    Attributes:
        name: Name of the scenario and of its Connect cluster.
        events: Rows of `tables.connect.EVENTS`.
        phases: Start (at_ms) and name of each phase, in order.
        max_delay_ms: `scheduled.rebalance.max.delay.ms`.
        protocols: Protocols to compare.
    """

    name: str
    events: Rows
    phases: list[tuple[int, str]]
    max_delay_ms: int = 300_000
    protocols: tuple[str, ...] = ("eager", "sessioned", "compatible-2.6")

    @property
    def cluster(self) -> dict[str, Any]:
        """The initially empty cluster, a row of `tables.connect.CLUSTERS`."""
        clock = {"protocol": "sessioned", "now_ms": 0, "generation_id": 1, "last_completed_generation_id": -1}
        return {"connect_cluster": self.name, "max_delay_ms": self.max_delay_ms} | clock

    def tables(self, spark: SparkSession) -> tuple[ConnectFleet, DataFrame]:
        """Returns the initially empty cluster and the events."""
        tables: dict[str, Rows] = {name: [] for name in REQUIRED_TABLES}
        tables["clusters"] = [self.cluster]
        fleet = ConnectFleet(**{name: _dataframe(spark, rows, INPUT_TABLES[name]) for name, rows in tables.items()})
        return fleet, _dataframe(spark, self.events, EVENTS)


def ninety_by_ten(connectors: int = 90, tasks: int = 10) -> ConnectScenario:
    """Returns the published comparison, optionally in another size."""
    names = [f"c{number:0{len(str(connectors))}d}" for number in range(1, connectors + 1)]
    steps_by_phase: list[tuple[str, list[tuple[int, str, str, int | None]]]] = [
        ("start", [(0, "worker-joined", worker, None) for worker in ("w1", "w2", "w3")]),
        ("add", [(CALM_MS, "connector-added", name, tasks) for name in names]),
        ("join", [(CALM_MS, "worker-joined", "w4", None)]),
        ("bounce", [(CALM_MS, "worker-left", "w2", None), (BOUNCE_MS, "worker-joined", "w2", None)]),
        ("leave", [(CALM_MS, "worker-left", "w3", None)]),
        ("delete", [(CALM_MS, "connector-removed", name, None) for name in names]),
    ]
    scenario_name = "90x10" if (connectors, tasks) == (90, 10) else f"{connectors}x{tasks}"
    events: Rows = []
    phases: list[tuple[int, str]] = []
    now = 0
    for phase, steps in steps_by_phase:
        phases += [(now + delay, phase) for delay, *_ in steps[:1]]
        for delay, event, subject, count in steps:
            now += delay
            row = {"at_ms": now, "event": event, "subject": subject, "tasks": count}
            events.append(row | {"connect_cluster": scenario_name})
    return ConnectScenario(scenario_name, events, phases)


SCENARIOS = {"90x10": ninety_by_ten}


def _dataframe(spark: SparkSession, rows: Rows, schema: StructType) -> DataFrame:
    nullable = StructType([StructField(field.name, field.dataType) for field in schema.fields])
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=to_arrow_schema(nullable)), nullable)


@dataclass(frozen=True)
class LocalConnectSimulation:
    """The result of a simulation, as rows of `tables.connect.SIMULATION_TABLES`.

    Attributes:
        rounds: One row per rebalance.
        costs: One row per protocol.
        rejected: The cluster, if it can't be simulated.
    """

    rounds: Rows
    costs: Rows
    rejected: Rows


def simulate_scenario(
    scenario: ConnectScenario, *, start_ms: int, stop_ms: int, rebalance_ms: int
) -> LocalConnectSimulation:
    """Simulates a scenario with each of its protocols in this process, without a Spark session.

    The result is that of `simulate_connect`.

    Args:
        scenario: The scenario.
        start_ms: Time that a task takes to start.
        stop_ms: Time that a worker takes to stop revoked connectors and tasks.
        rebalance_ms: Time from the start of a rebalance to the arrival of its result.

    Raises:
        ValueError: A time is negative.
    """
    timing = build_timing(start_ms, stop_ms, rebalance_ms)
    facts = facts_of_rows([scenario.cluster], scenario.events)
    rows = simulate_clusters(facts, scenario.protocols, timing).to_pylist()
    simulated = [(_select(row, "connect_cluster", "protocol"), row) for row in rows if row["code"] is None]
    return LocalConnectSimulation(
        rounds=[key | round for key, row in simulated for round in row["rounds"]],
        costs=[key | row["costs"] for key, row in simulated],
        rejected=[_select(row, "connect_cluster", "code", "detail") for row in rows if row["code"] is not None],
    )


def _select(row: dict[str, Any], *columns: str) -> dict[str, Any]:
    return {name: row[name] for name in columns}
