"""Simulates events in the classic Streams applications of a fleet: rebalances, tasks that stop, and restored state."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from math import inf
from typing import ClassVar

from pyspark.sql import DataFrame

from spark_assign.fleet import FleetTables
from spark_assign.simulation.settings import Settings
from spark_assign.simulation.simulate_groups import events_by_group
from spark_assign.spark.dataframes import run_pass
from spark_assign.stores.result import LazyResult
from spark_assign.streams.kernel import simulate_applications as kernel
from spark_assign.streams.plan import gather_facts
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.schema_fields import tagged_schema
from spark_assign.tables.stored_plan import STORED_SIMULATION_TABLES, STREAMS
from spark_assign.tables.streams import SIMULATION_TABLES

VARIANTS = ("configured", "static")
"""How an application runs: with the instance IDs that its members have, or with static members only."""
MEMBERS_PER_TASK, MAX_TASKS = 100, 1_000

_ROWS = tagged_schema(SIMULATION_TABLES)


@dataclass(frozen=True)
class StreamsSimulation(LazyResult):
    """Results of a simulation, as lazy DataFrames (columns: `tables.streams.SIMULATION_TABLES`).

    Every Streams group of the fleet is either simulated or in `rejected`.
    """

    schemas: ClassVar = SIMULATION_TABLES
    prefix: ClassVar = STREAMS
    stored_with: ClassVar = STORED_SIMULATION_TABLES

    @cached_property
    def steps(self) -> DataFrame:
        """What each event costs: rebalances, moved and stopped tasks, restored bytes (`tables.streams.STEPS`)."""
        return self._rows(kernel.STEP, SIMULATION_TABLES["steps"])

    @cached_property
    def rebalances(self) -> DataFrame:
        """One row per application and generation; see `tables.simulation.REBALANCES`."""
        return self._rows(kernel.REBALANCE, SIMULATION_TABLES["rebalances"])


def simulate_streams(
    fleet: FleetTables,
    events: DataFrame,
    variant: str = "configured",
    settings: Settings | None = None,
    *,
    restore_bytes_per_second: float,
    leaves_on_close: bool | None = None,
) -> StreamsSimulation:
    """Simulates every rebalance that events cause in the classic Streams applications of a fleet.

    The protocol is simulated message by message, as by `simulate`; `streams.kernel.simulate_applications` has the
    differences. The leader's assignments are those of `plan_streams`.

    Args:
        fleet: as for `plan_streams`; `changelogs.bytes` must be known. Members with a `group_instance_id` are static.
        events: `tables.simulation.EVENTS`. An event of a member happens to all members of its process, except
            `slow-member`. A member that starts is a process of its own. Topics and subscriptions can't change.
        variant: `configured`, or `static`: every member is static.
        settings: times, and instance IDs of single members. None: Kafka's defaults. Partitions aren't used.
        restore_bytes_per_second: what a process restores from changelogs per second.
        leaves_on_close: whether members leave the group when their instance closes. None:
            `internal.leave.group.on.close` in `groups.streams_config`, else false, Kafka's default.

    Returns:
        the results. Other Streams groups are in `rejected`.

    Raises:
        FleetError: a column is missing or has a wrong type, the table `subtopologies` is missing, or an event has no
            cluster.
        ConfigError: the variant is unknown, or the rate is below 1.
    """
    if variant not in VARIANTS:
        raise ConfigError(f"variant {variant!r}: Streams applications are simulated as {' or '.join(VARIANTS)}")
    if not 1 <= restore_bytes_per_second < inf:
        raise ConfigError(f"restore_bytes_per_second is {restore_bytes_per_second}, expected a number of at least 1")
    settings = settings or Settings()
    params = kernel.ApplicationSimulationParams(
        restore_bytes_per_second, settings.timing, variant == "static", leaves_on_close
    )
    simulate = partial(kernel.simulate_applications, params=params)
    more = {"events": events_by_group(events, fleet), "group_times": settings.groups}
    facts = gather_facts(fleet, loads=True, **more, member_settings=settings.members)
    tasks = min(1 + fleet.sizes.members // MEMBERS_PER_TASK, MAX_TASKS)
    return StreamsSimulation(run_pass(facts, GROUP_KEY, tasks, simulate, _ROWS))
