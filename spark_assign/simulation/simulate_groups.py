"""Simulates events in the consumer groups of a fleet: rebalances, and partitions that nobody consumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from spark_assign.fleet import FleetTables
from spark_assign.groups.facts import faulty_groups
from spark_assign.simulation.facts import gather_facts
from spark_assign.simulation.kernel.settings import TimingConfig
from spark_assign.simulation.kernel.simulate_groups import OWNERSHIP, PARTITIONS, RESULTS, TRACE, simulate_facts
from spark_assign.simulation.kernel.simulation_input import VARIANTS
from spark_assign.simulation.settings import Settings
from spark_assign.spark.dataframes import map_arrow_batches, to_arrow_schema
from spark_assign.spark.engine import cached, uncached
from spark_assign.stores.result import Result
from spark_assign.tables import simulation as schemas
from spark_assign.tables.errors import ConfigError, Fault, FleetError
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.schema_check import check_schema
from spark_assign.tables.simulation import (
    COMPARED_VARIANTS,
    COST_COLUMNS,
    SIMULATION_SUMMARY_TABLES,
    SIMULATION_TABLES,
    VARIANT_TABLES,
    with_variant,
)
from spark_assign.tables.stored_plan import STORED_SIMULATION_TABLES

EVENTS_PER_TASK, MEMBERS_PER_TASK, MAX_TASKS = 5_000, 20_000, 1_000
"""Sizes of a task of some seconds. The restart of a member takes a few rebalances."""

RESULT_ROWS = with_variant(
    StructType(
        [
            *schemas.REBALANCES.fields[:2],
            StructField("rebalances", ArrayType(StructType(schemas.REBALANCES.fields[2:]), containsNull=False)),
            StructField("availability", StructType(schemas.AVAILABILITY.fields[2:])),
            StructField("code", StringType()),
            StructField("detail", StringType()),
        ]
    )
)
"""Rows of the first pass: one per group and variant."""


@dataclass(frozen=True)
class Simulation(Result):
    """Results of a simulation, as lazy DataFrames (columns: `tables.simulation.SIMULATION_TABLES`).

    Rebalances, availability, and rejected groups come from one pass over the fleet. The trace, partitions, and
    ownership are large, and each repeats the simulation.

    Attributes:
        facts: the input rows, cached if the session can.
        variants: the simulated variants. If there are several, the tables have a column `variant`.
        timing: times of groups without exceptions.
        until_ms: time at which the simulation stops. None: when the group is stable.
        faulty: groups of the fleet with a fault: cluster, group_id, code, detail.
    """

    schemas: ClassVar = SIMULATION_SUMMARY_TABLES
    stored_with: ClassVar = STORED_SIMULATION_TABLES

    facts: DataFrame
    variants: tuple[str, ...]
    timing: TimingConfig
    until_ms: int | None
    faulty: DataFrame

    @cached_property
    def rebalances(self) -> DataFrame:
        """One row per group and generation; see `tables.simulation.REBALANCES`."""
        rows = self._simulated.select(*self._key, F.explode("rebalances").alias("rebalance"))
        return rows.select(*self._key, "rebalance.*")

    @cached_property
    def availability(self) -> DataFrame:
        """One row per group; see `tables.simulation.AVAILABILITY`."""
        return self._simulated.select(*self._key, "availability.*")

    @cached_property
    def rejected(self) -> DataFrame:
        """One row per group that can't be simulated: cluster, group_id, code, detail."""
        rejected = self.results.where(F.col("code").isNotNull()).select(*GROUP_KEY, "code", "detail")
        return self.faulty.unionByName(rejected.dropDuplicates([*GROUP_KEY]))

    @cached_property
    def trace(self) -> DataFrame:
        """One row per message; see `tables.simulation.TRACE`."""
        return self._table(TRACE, schemas.TRACE)

    @cached_property
    def partitions(self) -> DataFrame:
        """One row per group and partition; see `tables.simulation.PARTITIONS`."""
        return self._table(PARTITIONS, schemas.PARTITIONS)

    @cached_property
    def ownership(self) -> DataFrame:
        """One row per group, partition, and interval; see `tables.simulation.OWNERSHIP`."""
        return self._table(OWNERSHIP, schemas.OWNERSHIP)

    @cached_property
    def results(self) -> DataFrame:
        """One row per group and variant, with its rebalances and availability; cached if the session can."""
        return cached(self._simulate(RESULTS, RESULT_ROWS))

    def unpersist(self) -> None:
        """Removes cached tables from the executors. They are computed again if needed."""
        for table in (self.facts, self.__dict__.get("results")):
            if table is not None:
                uncached(table)

    @property
    def _key(self) -> list[str]:
        return [*GROUP_KEY, "variant"] if len(self.variants) > 1 else [*GROUP_KEY]

    @property
    def _simulated(self) -> DataFrame:
        return self.results.where(F.col("code").isNull())

    def _stored_schemas(self) -> Mapping[str, StructType]:
        if self._is_read or len(self.variants) == 1 or "comparison" in self.schemas:
            return self.schemas
        return {**self.schemas, **{name: with_variant(self.schemas[name]) for name in ("rebalances", "availability")}}

    def _table(self, table: str, schema: StructType) -> DataFrame:
        rows = self._simulate(table, with_variant(schema))
        return rows if len(self.variants) > 1 else rows.drop("variant")

    def _simulate(self, table: str, schema: StructType) -> DataFrame:
        kernel = partial(
            simulate_facts,
            variants=self.variants,
            defaults=self.timing,
            until=self.until_ms,
            table=table,
            schema=to_arrow_schema(schema),
        )
        return self._computed_from(self.facts).mapInArrow(map_arrow_batches(kernel, 10_000), schema)


@dataclass(frozen=True)
class VariantSimulation(Simulation):
    """Results of a simulation of the variants `eager`, `cooperative`, `static`, and `consumer`, with their comparison.

    The other tables have a column `variant`.
    """

    schemas: ClassVar = VARIANT_TABLES
    stored_with: ClassVar = {
        name: with_variant(SIMULATION_TABLES[name]) for name in ("trace", "partitions", "ownership")
    }

    @cached_property
    def comparison(self) -> DataFrame:
        """One row per group that can be simulated, with the costs of each variant; see `tables.simulation.COMPARISON`.

        The columns `…_ratio` are `paused_partition_ms` divided by that of eager, null if that is 0, or if partitions
        have no owner at the end, so that a cost is open.
        """
        costs = self.availability.groupBy(*GROUP_KEY).agg(
            *(
                F.max(F.when(F.col("variant") == variant, F.col(cost))).alias(f"{variant}_{cost}")
                for variant in COMPARED_VARIANTS
                for cost in COST_COLUMNS
            )
        )
        paused = {
            variant: F.when(
                F.coalesce(f"{variant}_unowned_at_end", F.lit(0)) == 0, F.col(f"{variant}_{COST_COLUMNS[0]}")
            )
            for variant in COMPARED_VARIANTS
        }
        baseline = paused.pop(COMPARED_VARIANTS[0])
        return costs.select(
            "*", *(F.when(baseline > 0, ms / baseline).alias(f"{name}_ratio") for name, ms in paused.items())
        )


def simulate(
    fleet: FleetTables,
    events: DataFrame,
    variant: str = "configured",
    settings: Settings | None = None,
    *,
    until_ms: int | None = None,
) -> Simulation:
    """Simulates every rebalance that events cause in consumer groups, message by message.

    Each group is stable at time 0: its members own what the fleet says, in the group's generation. If no member owns
    anything, the group is empty, and all its members start at time 0. The modules `kernel.classic_consumers` and
    `kernel.coordinator` have the rules of the classic protocol; `kernel.async_consumers` and `kernel.consumer_group`
    have those of KIP-848.

    Args:
        fleet: the groups. Members with an instance ID are static (KIP-345).
        events: `tables.simulation.EVENTS`. A row without group_id happens to every group of its cluster.
        variant: how the groups run.
            `configured`: with their own assignors (`Settings.members`, else `groups.assignor` of the fleet, else
            Kafka's default), or with KIP-848 if `groups.group_type` is `consumer`.
            `eager`: with their own assignors if these are eager assignors of Kafka, else with Kafka's default: `range`.
            `cooperative`: with `cooperative-sticky`.
            `static`: as `cooperative`, and every member is static.
            `consumer`: with KIP-848 and the broker's assignor.
        settings: times and assignors. None: Kafka's defaults.
        until_ms: time at which the simulation stops. None: one heartbeat interval after the group is stable again after
            the last event.

    Returns:
        the results. `availability` or `rejected` contains each group of the fleet and the events.

    Raises:
        FleetError: a column is missing or has a wrong type, or an event has no cluster.
        ConfigError: the variant is unknown, or a time is negative.
    """
    return simulate_fleet(fleet, events, (variant,), settings or Settings(), until_ms)


def simulate_fleet(
    fleet: FleetTables, events: DataFrame, variants: Sequence[str], settings: Settings, until_ms: int | None = None
) -> Simulation:
    """Simulates several variants at once; see `simulate`."""
    for variant in variants:
        if variant not in VARIANTS:
            raise ConfigError(f"unknown variant {variant!r}. Use one of {', '.join(VARIANTS)}")
    if until_ms is not None and until_ms < 0:
        raise ConfigError(f"until_ms is {until_ms}, expected 0 or more milliseconds")
    group_events = events_by_group(events, fleet)
    tasks = _count_tasks(fleet, group_events, len(variants))
    facts = gather_facts(fleet, group_events, settings).repartition(tasks, *GROUP_KEY)
    of_variants = VariantSimulation if tuple(variants) == COMPARED_VARIANTS else Simulation
    return of_variants(cached(facts), tuple(variants), settings.timing, until_ms, faulty_groups(fleet))


def simulate_variants(fleet: FleetTables, events: DataFrame, settings: Settings | None = None) -> VariantSimulation:
    """Simulates every group four times: as `eager`, `cooperative`, `static`, and `consumer` (see `simulate`).

    Args:
        fleet, events: see `simulate`.
        settings: times. The variant determines the assignors.

    Returns:
        the results. `comparison` has the costs of each group by variant; the other tables have a column `variant`.

    Raises:
        FleetError, ConfigError: see `simulate`.
    """
    simulation = simulate_fleet(fleet, events, COMPARED_VARIANTS, settings or Settings())
    assert isinstance(simulation, VariantSimulation)
    return simulation


def events_by_group(events: DataFrame, fleet: FleetTables) -> DataFrame:
    """Returns the events with those of a whole cluster repeated for each of its groups.

    Raises:
        FleetError: a column is missing or has a wrong type, or an event has no cluster.
    """
    checked, faults = check_schema("events", events, schemas.EVENTS)
    if not faults and not checked.where(F.col("cluster").isNull()).isEmpty():
        faults = [Fault("events", "cluster", "rows have no cluster", "Name the cluster of every event")]
    if faults:
        raise FleetError(faults)
    groups = fleet.members.select(*GROUP_KEY).distinct()
    of_cluster = checked.where(F.col("group_id").isNull()).drop("group_id").join(groups, "cluster")
    return checked.where(F.col("group_id").isNotNull()).unionByName(of_cluster)


def _count_tasks(fleet: FleetTables, events: DataFrame, num_variants: int) -> int:
    """Returns the number of Spark tasks. A rolling restart counts as one event per member."""
    work = events.count() // EVENTS_PER_TASK + fleet.sizes.members // MEMBERS_PER_TASK
    if not events.where(F.col("event") == "rolling-restart").isEmpty():
        work += fleet.sizes.members // EVENTS_PER_TASK
    return min(1 + work * num_variants, MAX_TASKS)
