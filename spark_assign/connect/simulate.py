"""Play events through Connect clusters: the rebalances that follow, and what they cost, eager against incremental."""

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
from spark_assign.connect.plan import EVENT_NUMBERS, fact, gather_facts, listed, tasks_for
from spark_assign.spark.arrow_batches import map_arrow_batches
from spark_assign.spark.caching import cached, uncached
from spark_assign.tables.connect import EVENTS, PLAYED
from spark_assign.tables.errors import Fault, FleetError, UnknownAssignorError
from spark_assign.tables.schema_check import conform

EVENTS_PER_TASK = 500
"""Plays of so many events take a task some seconds."""

MOST_TASKS = 1_000


@dataclass(frozen=True)
class ConnectSimulation:
    """What happened, as lazy DataFrames (columns: `tables.connect.SIMULATION_TABLES`).

    Attributes:
        played: a row per Connect cluster and protocol with everything; cached where the session can.
    """

    played: DataFrame

    @property
    def rounds(self) -> DataFrame:
        """A row per rebalance; see `tables.connect.ROUNDS`."""
        rows = self._fine.select("connect_cluster", "protocol", F.explode("rounds").alias("played"))
        return rows.select("connect_cluster", "protocol", "played.*")

    @property
    def costs(self) -> DataFrame:
        """A row per Connect cluster and protocol; see `tables.connect.COSTS`."""
        return self._fine.select("connect_cluster", "protocol", "costs.*")

    @property
    def rejected(self) -> DataFrame:
        """Connect clusters that could not be played: connect_cluster, code, detail."""
        return self.played.where(F.col("code").isNotNull()).select("connect_cluster", "code", "detail")

    def release(self) -> None:
        """Give back what is cached in the executors; it is computed anew if needed."""
        uncached(self.played)

    @property
    def _fine(self) -> DataFrame:
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
    """Let things happen to Connect clusters, and play every rebalance that follows.

    Each cluster begins as the fleet has it, at its `now_ms`, and rests until its first event; it may begin without
    workers. Events of one instant happen together; then the workers rebalance until nobody has to join again and no
    delay runs. `connect.kernel.simulation` defines the order and the costs.

    Args:
        fleet: Connect clusters. The leader is `clusters.leader`, else the worker with the lowest id; when it leaves,
            the next one begins with an empty memory.
        events: connect_cluster, at_ms bigint, event, subject, tasks int?. The events:
            worker-joined, worker-left     subject is the worker; it joins with nothing to report. One that bounces
                                           leaves and joins, also at one time.
            connector-added                subject is the connector, with so many tasks (null: none as yet)
            connector-removed              subject is the connector; its tasks go with it
            tasks-changed                  subject is the connector, which has so many tasks from now on
        start_ms: how long a task takes to start.
        stop_ms: how long a worker takes to stop what it has to; connectors and tasks stop side by side.
        rebalance_ms: how long a rebalance takes, from joining to the result.
        protocols: play every cluster with each of these; null: each with its own (`clusters.protocol`).

    Returns:
        the rounds and the costs, from one pass over the fleet.

    Raises:
        FleetError: an empty fleet, a missing column or a wrong type in events.
        UnknownAssignorError: no such protocol.
        ValueError: a negative time.
    """
    if strange := sorted(set(protocols or ()) - set(PROTOCOLS)):
        raise UnknownAssignorError(f"no protocol is called {', '.join(strange)}; there are {', '.join(PROTOCOLS)}")
    timing = make_timing(start_ms, stop_ms, rebalance_ms)
    shaped, faults = conform("events", events, EVENTS)
    if faults:
        raise FleetError(faults)
    if protocols is not None and not protocols:
        raise FleetError([Fault("protocols", "*", "no protocol is given", "Name at least one, or leave it out")])
    tasks = tasks_for(fleet) + min(shaped.count() // EVENTS_PER_TASK, MOST_TASKS)
    facts = gather_facts(fleet).unionByName(_facts_of_events(shaped)).repartition(tasks, "connect_cluster")
    work = partial(_play, protocols=tuple(protocols or ()), timing=timing)
    return ConnectSimulation(cached(facts.mapInArrow(map_arrow_batches(work, 100), PLAYED)))


def make_timing(start_ms: int, stop_ms: int, rebalance_ms: int) -> ConnectTiming:
    """What starts, stops and rebalances take, in milliseconds.

    Raises:
        ValueError: a negative time.
    """
    for name, value in (("start_ms", start_ms), ("stop_ms", stop_ms), ("rebalance_ms", rebalance_ms)):
        if value < 0:
            raise ValueError(f"{name} is {value}, expected 0 or more milliseconds")
    return ConnectTiming(start_ms, stop_ms, rebalance_ms)


def _play(facts: pa.Table, protocols: tuple[str, ...], timing: ConnectTiming) -> list[pa.Table]:
    """The work of one task."""
    return [simulate_clusters(facts, protocols or None, timing)]


def _facts_of_events(events: DataFrame) -> DataFrame:
    of_worker = F.col("event").startswith("worker-")
    return fact(
        events,
        kinds.EVENT,
        name=F.when(of_worker, F.col("subject")),
        connector=F.when(~of_worker, F.col("subject")),
        names=F.col("event"),
        numbers=listed(*EVENT_NUMBERS),
    )
