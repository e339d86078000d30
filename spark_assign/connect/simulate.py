"""Simulates events of Connect clusters: the rebalances that follow, and their costs, by protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.connect.fleet import ConnectFleet
from spark_assign.connect.kernel import indexed_facts as kinds
from spark_assign.connect.kernel.faults import PROTOCOLS
from spark_assign.connect.kernel.simulate_clusters import simulate_clusters
from spark_assign.connect.kernel.simulation import ConnectTiming
from spark_assign.connect.plan import EVENT_NUMBERS, gather_facts, join_numbers, num_spark_tasks, to_facts
from spark_assign.spark.arrow_batches import map_arrow_batches
from spark_assign.spark.caching import cached, uncached
from spark_assign.tables.connect import EVENTS, PLAYED
from spark_assign.tables.errors import Fault, FleetError, UnknownAssignorError
from spark_assign.tables.schema_check import check_schema

EVENTS_PER_SPARK_TASK = 500
"""Number of events that one Spark task simulates, which takes several seconds."""

MAX_SPARK_TASKS = 1_000


@dataclass(frozen=True)
class ConnectSimulation:
    """The result of a simulation as lazy DataFrames (columns: `tables.connect.SIMULATION_TABLES`).

    Attributes:
        played: One row per Connect cluster and protocol with all results; cached if the session can.
    """

    played: DataFrame

    @property
    def rounds(self) -> DataFrame:
        """One row per rebalance (`tables.connect.ROUNDS`)."""
        rows = self._simulated.select("connect_cluster", "protocol", F.explode("rounds").alias("played"))
        return rows.select("connect_cluster", "protocol", "played.*")

    @property
    def costs(self) -> DataFrame:
        """One row per Connect cluster and protocol (`tables.connect.COSTS`)."""
        return self._simulated.select("connect_cluster", "protocol", "costs.*")

    @property
    def rejected(self) -> DataFrame:
        """Connect clusters that can't be simulated: connect_cluster, code, detail."""
        return self.played.where(F.col("code").isNotNull()).select("connect_cluster", "code", "detail")

    def unpersist(self) -> None:
        """Frees the cached rows in the executors; Spark recomputes them if needed."""
        uncached(self.played)

    @property
    def _simulated(self) -> DataFrame:
        return self.played.where(F.col("code").isNull())


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
    there is no delay. `connect.kernel.simulation` defines the order and the costs.

    Args:
        fleet: Connect clusters. The leader is `clusters.leader`, or else the worker with the lowest id. When it leaves,
            the next leader starts with an empty state.
        events: connect_cluster, at_ms bigint, event, subject, tasks int?. The events:
            worker-joined, worker-left     subject is the worker; it joins without connectors and tasks. A worker that
                                           bounces leaves and joins, possibly at one time.
            connector-added                subject is the connector; tasks is its number of tasks (null: none yet)
            connector-removed              subject is the connector, which is removed with its tasks
            tasks-changed                  subject is the connector; tasks is its new number of tasks
        start_ms: Time that a task takes to start.
        stop_ms: Time that a worker takes to stop revoked connectors and tasks, which stop concurrently.
        rebalance_ms: Time from the start of a rebalance to the arrival of its result.
        protocols: Protocols to simulate; `None`: each cluster's own (`clusters.protocol`).

    Returns:
        The rebalances and the costs, from one pass over the fleet.

    Raises:
        FleetError: The fleet is empty, or a column of events is missing or has a wrong type.
        UnknownAssignorError: A protocol is unknown.
        ValueError: A time is negative.
    """
    if unknown := sorted(set(protocols or ()) - set(PROTOCOLS)):
        raise UnknownAssignorError(f"no protocol is called {', '.join(unknown)}; there are {', '.join(PROTOCOLS)}")
    timing = build_timing(start_ms, stop_ms, rebalance_ms)
    events, faults = check_schema("events", events, EVENTS)
    if faults:
        raise FleetError(faults)
    if protocols is not None and not protocols:
        raise FleetError([Fault("protocols", "*", "no protocol is given", "Name at least one, or leave it out")])
    tasks = num_spark_tasks(fleet) + min(events.count() // EVENTS_PER_SPARK_TASK, MAX_SPARK_TASKS)
    facts = gather_facts(fleet).unionByName(_facts_of_events(events)).repartition(tasks, "connect_cluster")
    work = partial(_simulate, protocols=tuple(protocols or ()), timing=timing)
    return ConnectSimulation(cached(facts.mapInArrow(map_arrow_batches(work, 100), PLAYED)))


def build_timing(start_ms: int, stop_ms: int, rebalance_ms: int) -> ConnectTiming:
    """Returns the durations of starts, stops, and rebalances, in milliseconds.

    Raises:
        ValueError: A time is negative.
    """
    for name, value in (("start_ms", start_ms), ("stop_ms", stop_ms), ("rebalance_ms", rebalance_ms)):
        if value < 0:
            raise ValueError(f"{name} is {value}, expected 0 or more milliseconds")
    return ConnectTiming(start_ms, stop_ms, rebalance_ms)


def _simulate(facts: pa.Table, protocols: tuple[str, ...], timing: ConnectTiming) -> list[pa.Table]:
    """Simulates the clusters of one Spark task."""
    return [simulate_clusters(facts, protocols or None, timing)]


def _facts_of_events(events: DataFrame) -> DataFrame:
    is_worker = F.col("event").startswith("worker-")
    return to_facts(
        events,
        kinds.EVENT,
        name=F.when(is_worker, F.col("subject")),
        connector=F.when(~is_worker, F.col("subject")),
        names=F.col("event"),
        numbers=join_numbers(*EVENT_NUMBERS),
    )
