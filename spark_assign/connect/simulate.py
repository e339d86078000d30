"""Simulates events of Connect clusters: the rebalances that follow, and their costs, by protocol.

`simulate_connect` simulates the clusters of a fleet with Spark. `simulate_scenario` simulates a scenario that comes
with the package in this process, without a Spark session. `90x10` is the comparison published with KIP-415 (incremental
cooperative rebalancing in Kafka Connect).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame

from spark_assign.assignors.connect.release_rules import PROTOCOLS
from spark_assign.connect.fleet import ConnectFleet
from spark_assign.connect.kernel import simulate_clusters as kernel
from spark_assign.connect.kernel.indexed_facts import KEY, to_facts
from spark_assign.connect.kernel.simulated_cluster import ConnectTiming as ConnectTiming
from spark_assign.connect.plan import gather_facts, num_spark_tasks
from spark_assign.spark.dataframes import run_pass, to_arrow_schema
from spark_assign.stores.result import LazyResult
from spark_assign.tables.connect import EVENTS, SIMULATION_TABLES
from spark_assign.tables.errors import ConfigError, Fault, FleetError
from spark_assign.tables.schema_check import check_schema
from spark_assign.tables.schema_fields import tagged_schema

EVENTS_PER_SPARK_TASK = 500
"""Number of events that one Spark task simulates, which takes several seconds."""

MAX_SPARK_TASKS = 1_000

SIMULATION_ROWS = tagged_schema(SIMULATION_TABLES)
"""Schema of the tagged rows (`connect.kernel.simulate_clusters`)."""

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class ConnectSimulation(LazyResult):
    """The result of a simulation as lazy DataFrames (columns: `tables.connect.SIMULATION_TABLES`)."""

    schemas: ClassVar = SIMULATION_TABLES

    @cached_property
    def rebalances(self) -> DataFrame:
        """One row per rebalance (`tables.connect.REBALANCES`)."""
        return self._rows(kernel.REBALANCES, SIMULATION_TABLES["rebalances"])

    @cached_property
    def costs(self) -> DataFrame:
        """One row per Connect cluster and protocol (`tables.connect.COSTS`)."""
        return self._rows(kernel.COSTS, SIMULATION_TABLES["costs"])


def simulate_connect(
    fleet: ConnectFleet,
    events: DataFrame,
    *,
    start_ms: int,
    stop_ms: int,
    rebalance_ms: int,
    protocols: Sequence[str] | None = None,
) -> ConnectSimulation:
    """Simulates events of Connect clusters, and every rebalance that follows.

    Each cluster starts as in the fleet, at its `now_ms`, and doesn't rebalance before its first event; it may start
    without workers. Events of one time are applied together; then the workers rebalance until no worker must rejoin and
    there is no delay. `connect.kernel.simulated_cluster` defines the order and the costs.

    Args:
        fleet: Connect clusters. The leader is `clusters.leader`, or else the worker with the lowest id. When it leaves,
            the next leader starts with an empty state.
        events: connect_cluster, at_ms bigint, event, subject, tasks int?. The events:
            worker-joined, worker-left  subject is the worker; it joins without connectors and tasks. A worker that
                                        restarts leaves and joins, possibly at one time.
            connector-added             subject is the connector; tasks is its number of tasks (null: none yet)
            connector-removed           subject is the connector, which is removed with its tasks
            tasks-changed               subject is the connector; tasks is its new number of tasks
        start_ms: Time that a task takes to start.
        stop_ms: Time that a worker takes to stop revoked connectors and tasks, which stop concurrently.
        rebalance_ms: Time from the start of a rebalance to the arrival of its result.
        protocols: Protocols to simulate, also with a release as `sessioned@3.5.1` (without one, `clusters.version`
            counts); `None`: each cluster's own (`clusters.protocol`).

    Returns:
        The rebalances and the costs, from one pass over the fleet.

    Raises:
        FleetError: The fleet is empty, or a column of events is missing or has a wrong type.
        ConfigError: A protocol is unknown, or a time is negative.
    """
    if unknown := sorted(name for name in protocols or () if name.partition("@")[0] not in PROTOCOLS):
        names = ", ".join(unknown)
        raise ConfigError(f"{names}: no such protocol. Use one of {', '.join(PROTOCOLS)}")
    timing = ConnectTiming(start_ms, stop_ms, rebalance_ms)
    events, faults = check_schema("events", events, EVENTS)
    if protocols is not None and not protocols:
        faults.append(Fault("protocols", "*", "the list is empty", "Give at least one protocol, or None"))
    if faults:
        raise FleetError(faults)
    tasks = num_spark_tasks(fleet) + min(events.count() // EVENTS_PER_SPARK_TASK, MAX_SPARK_TASKS)
    simulate = partial(kernel.simulate_clusters, protocols=tuple(protocols or ()) or None, timing=timing)
    facts = gather_facts(fleet, events)
    return ConnectSimulation(run_pass(facts, KEY, tasks, simulate, SIMULATION_ROWS))


# --- scenarios ----------------------------------------------------------------------------------------------------

CALM_MS = 600_000
"""Time between two changes, longer than the delay, so that each change is complete when the next one starts."""

RESTART_MS = 60_000
"""Time that a bouncing worker is away, shorter than the delay."""


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

    @cached_property
    def cluster(self) -> dict[str, Any]:
        """The initially empty cluster, a row of `tables.connect.CLUSTERS`."""
        clock = {"protocol": "sessioned", "now_ms": 0, "generation_id": 1, "last_completed_generation_id": -1}
        return {"connect_cluster": self.name, "max_delay_ms": self.max_delay_ms} | clock


def ninety_by_ten(connectors: int = 90, tasks: int = 10) -> ConnectScenario:
    """Returns the comparison published with KIP-415, optionally in another size.

    3 workers; 90 connectors with 10 tasks each, added one at a time; a worker joins, one restarts within the delay,
    one leaves for good; all connectors are removed one at a time.
    """
    names = [f"c{number:0{len(str(connectors))}d}" for number in range(1, connectors + 1)]
    steps_by_phase: list[tuple[str, list[tuple[int, str, str, int | None]]]] = [
        ("start", [(0, "worker-joined", worker, None) for worker in ("w1", "w2", "w3")]),
        ("add", [(CALM_MS, "connector-added", name, tasks) for name in names]),
        ("join", [(CALM_MS, "worker-joined", "w4", None)]),
        ("restart", [(CALM_MS, "worker-left", "w2", None), (RESTART_MS, "worker-joined", "w2", None)]),
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


def simulate_scenario(scenario: ConnectScenario, *, start_ms: int, stop_ms: int, rebalance_ms: int) -> dict[str, Rows]:
    """Simulates a scenario with each of its protocols in this process, without a Spark session.

    Returns the rows of `simulate_connect`, by table (`tables.connect.SIMULATION_TABLES`).

    Args:
        scenario: The scenario.
        start_ms: Time that a task takes to start.
        stop_ms: Time that a worker takes to stop revoked connectors and tasks.
        rebalance_ms: Time from the start of a rebalance to the arrival of its result.

    Raises:
        ConfigError: A time is negative.
    """
    timing = ConnectTiming(start_ms, stop_ms, rebalance_ms)
    facts = to_facts({"clusters": [scenario.cluster], "events": scenario.events})
    tables = kernel.simulate_clusters(facts, to_arrow_schema(SIMULATION_ROWS), scenario.protocols, timing)
    rows = pa.concat_tables(tables).to_pylist()
    return {
        name: [{column: row[column] for column in schema.names} for row in rows if row["kind"] == name]
        for name, schema in SIMULATION_TABLES.items()
    }
