"""Play events through the groups of a fleet: who stops, for how long, in which rebalance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from spark_assign.fleet import Fleet
from spark_assign.simulation.facts import gather_facts
from spark_assign.simulation.kernel.settings import Timing
from spark_assign.simulation.kernel.simulate_groups import OWNERSHIP, PARTITIONS, PLAYED, TRACE, play_facts
from spark_assign.simulation.kernel.simulation_input import CONSUMER, COOPERATIVE, EAGER, PROTOCOLS, STATIC
from spark_assign.simulation.settings import Settings
from spark_assign.spark.arrow_batches import map_arrow_batches
from spark_assign.spark.caching import cached, uncached
from spark_assign.tables import simulation as schemas
from spark_assign.tables.errors import Fault, FleetError
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.schema_check import check_schema

EVENTS_PER_TASK = 500
"""A member's restart is a few rebalances; so many of them take a task some seconds."""

MEMBERS_PER_TASK = 20_000
MOST_TASKS = 1_000


@dataclass(frozen=True)
class Simulation:
    """What happened, as lazy DataFrames (columns: `tables.simulation.SIMULATION_TABLES`).

    Rounds, availability and rejected groups come from one pass over the fleet; the trace, partitions and ownership play
    everything once more, as they are long: a row per message, per partition, per change of its state.

    Attributes:
        facts: what the groups are played from; cached where the session can.
        protocols: with which every group is played; the tables have a column `protocol` if there are several.
        timing: what groups are set to where nothing else is said.
        until_ms: when plays are broken off; null: when the group is at rest.
        refused: groups of the fleet that have a fault: cluster, group_id, code, detail.
    """

    facts: DataFrame
    protocols: tuple[str, ...]
    timing: Timing
    until_ms: int | None
    refused: DataFrame

    @property
    def rounds(self) -> DataFrame:
        """A row per group and generation; see `tables.simulation.ROUNDS`."""
        rows = self._fine.select(*self._key, F.explode("rounds").alias("round"))
        return rows.select(*self._key, "round.*")

    @property
    def availability(self) -> DataFrame:
        """A row per group; see `tables.simulation.AVAILABILITY`."""
        return self._fine.select(*self._key, "availability.*")

    @property
    def rejected(self) -> DataFrame:
        """Groups that cannot be played: cluster, group_id, code, detail."""
        played = self.played.where(F.col("code").isNotNull()).select(*GROUP_KEY, "code", "detail")
        return self.refused.unionByName(played.dropDuplicates([*GROUP_KEY]))

    @property
    def trace(self) -> DataFrame:
        """A row per message; see `tables.simulation.TRACE`."""
        return self._played(TRACE, schemas.TRACE)

    @property
    def partitions(self) -> DataFrame:
        """A row per group and partition; see `tables.simulation.PARTITIONS`."""
        return self._played(PARTITIONS, schemas.PARTITIONS)

    @property
    def ownership(self) -> DataFrame:
        """A row per group, partition and state it was in; see `tables.simulation.OWNERSHIP`."""
        return self._played(OWNERSHIP, schemas.OWNERSHIP)

    @cached_property
    def played(self) -> DataFrame:
        """A row per group and protocol with its rounds and availability; cached where the session can."""
        return cached(self._play(PLAYED, _PLAYED))

    def tables(self) -> dict[str, DataFrame]:
        """The short tables by name: rounds, availability, rejected."""
        return {name: getattr(self, name) for name in ("rounds", "availability", "rejected")}

    def unpersist(self) -> None:
        """Give back what is cached in the executors; it is computed anew if needed."""
        for table in (self.facts, self.__dict__.get("played")):
            if table is not None:
                uncached(table)

    @property
    def _key(self) -> list[str]:
        return [*GROUP_KEY, "protocol"] if len(self.protocols) > 1 else [*GROUP_KEY]

    @property
    def _fine(self) -> DataFrame:
        return self.played.where(F.col("code").isNull())

    def _played(self, write: str, schema: StructType) -> DataFrame:
        key = [StructField("protocol", StringType(), nullable=False)]
        table = self._play(write, StructType([*schema.fields[:2], *key, *schema.fields[2:]]))
        return table if len(self.protocols) > 1 else table.drop("protocol")

    def _play(self, write: str, schema: StructType) -> DataFrame:
        options = {"defaults": self.timing, "until": self.until_ms, "write": write, "schema": to_arrow_schema(schema)}
        return self.facts.mapInArrow(
            map_arrow_batches(partial(play_facts, protocols=self.protocols, **options), 10_000), schema
        )


def simulate(
    fleet: Fleet,
    events: DataFrame,
    protocol: str = "configured",
    settings: Settings | None = None,
    *,
    until_ms: int | None = None,
) -> Simulation:
    """Let things happen to consumer groups, and play every rebalance that follows, message by message.

    Each group begins at 0 as the fleet has it: its members are there and own what `owned` says, in the group's
    generation. Where no member owns anything, the group is empty and all its members start at 0. The rules of time are
    in `simulation.kernel.classic_consumers`, the coordinator's in `simulation.kernel.coordinator`; those of KIP-848 in
    `simulation.kernel.async_consumers` and `simulation.kernel.consumer_group`.

    Args:
        fleet: the groups. Members' instance ids make them static (KIP-345).
        events: `tables.simulation.EVENTS`; a row without group_id happens to every group of its cluster.
        protocol: `configured`: each group with its own assignors (`Settings.members`, else `groups.assignor` of the
            fleet, else Kafka's default); `eager`: with its own if that is an eager one of Kafka's, else Kafka's
            default, which is `range`; `cooperative`: with `cooperative-sticky`; `static`: the same, and every member is
            static; `consumer`: with KIP-848's protocol and the broker's assignor. `configured` plays groups with
            that protocol whose `groups.group_type` is `consumer`.
        settings: times, strategies; null: Kafka's defaults.
        until_ms: break off then; null: a heartbeat after the group has come to rest behind its last event.

    Returns:
        what happened. Every group of fleet and events is in `availability` or in `rejected`.

    Raises:
        FleetError: a missing column or a wrong type; an event without cluster.
        ValueError: there is no such protocol, or a time is negative.
    """
    return play_fleet(fleet, events, (protocol,), settings or Settings(), until_ms)


def play_fleet(
    fleet: Fleet, events: DataFrame, protocols: Sequence[str], settings: Settings, until_ms: int | None
) -> Simulation:
    """The same with several protocols at once."""
    for protocol in protocols:
        if protocol not in PROTOCOLS:
            raise ValueError(f"no protocol is called {protocol!r}; there are {', '.join(PROTOCOLS)}")
    if until_ms is not None and until_ms < 0:
        raise ValueError(f"until_ms is {until_ms}, expected 0 or more milliseconds")
    shaped = _of_groups(_checked(events), fleet)
    facts = gather_facts(fleet, shaped, settings).repartition(_tasks(fleet, shaped, protocols), *GROUP_KEY)
    return Simulation(cached(facts), tuple(protocols), settings.timing, until_ms, fleet.rejected)


def _checked(events: DataFrame) -> DataFrame:
    shaped, faults = check_schema("events", events, schemas.EVENTS)
    if not faults and not shaped.where(F.col("cluster").isNull()).isEmpty():
        faults = [Fault("events", "cluster", "rows have no cluster", "Name the cluster of every event")]
    if faults:
        raise FleetError(faults)
    return shaped


def _of_groups(events: DataFrame, fleet: Fleet) -> DataFrame:
    """Events of a whole cluster as events of each of its groups."""
    groups = fleet.members.select(*GROUP_KEY).distinct()
    everywhere = events.where(F.col("group_id").isNull()).drop("group_id").join(groups, "cluster")
    return events.where(F.col("group_id").isNotNull()).unionByName(everywhere)


def _tasks(fleet: Fleet, events: DataFrame, protocols: Sequence[str]) -> int:
    """In how many tasks the groups are played; a rolling restart is an event for every member."""
    rolling = events.where(F.col("event") == "rolling-restart").isEmpty()
    work = events.count() // EVENTS_PER_TASK + fleet.sizes.members // MEMBERS_PER_TASK
    if not rolling:
        work += fleet.sizes.members // EVENTS_PER_TASK
    return min(1 + work * len(protocols), MOST_TASKS)


_PLAYED = StructType(
    [
        *schemas.ROUNDS.fields[:2],
        StructField("protocol", StringType(), nullable=False),
        StructField("rounds", ArrayType(StructType(schemas.ROUNDS.fields[2:]), containsNull=False)),
        StructField("availability", StructType(schemas.AVAILABILITY.fields[2:])),
        StructField("code", StringType()),
        StructField("detail", StringType()),
    ]
)


COMPARED = (EAGER, COOPERATIVE, STATIC, CONSUMER)
COSTS = ("partition_ms_not_consumed", "longest_pause_ms", "rebalances")


def simulate_protocols(fleet: Fleet, events: DataFrame, settings: Settings | None = None) -> Simulation:
    """Play every group four times: eager, cooperative, cooperative with static members, and KIP-848's (`simulate`).

    Returns:
        what happened; all tables have a column `protocol`.
    """
    return play_fleet(fleet, events, COMPARED, settings or Settings(), None)


def compare_protocols(fleet: Fleet, events: DataFrame, settings: Settings | None = None) -> DataFrame:
    """What the same events cost under the eager and the cooperative protocol, with static members, and under KIP-848's.

    Args:
        fleet: the groups; see `simulate`.
        events: what happens to them.
        settings: times; strategies of members are those of the protocol.

    Returns:
        a row per group that can be played: cluster, group_id; for each of eager, cooperative, static and consumer
        `…_partition_ms_not_consumed` (partition-milliseconds), `…_longest_pause_ms`, `…_rebalances` (a number); and
        `cooperative_ratio`, `static_ratio`, `consumer_ratio`: their partition_ms_not_consumed by that of eager (null
        where that is 0).
        Rejected groups are in `simulate_protocols(…).rejected`.

    Raises:
        FleetError, ValueError: as `simulate`.
    """
    return side_by_side(simulate_protocols(fleet, events, settings))


def side_by_side(simulation: Simulation) -> DataFrame:
    """The costs of `simulate_protocols`, a row per group; columns as in `compare_protocols`."""
    each = {protocol: F.col("protocol") == protocol for protocol in COMPARED}
    costs = [
        F.max(F.when(mine, F.col(cost))).alias(f"{protocol}_{cost}")
        for protocol, mine in each.items()
        for cost in COSTS
    ]
    rows = simulation.availability.groupBy(*GROUP_KEY).agg(*costs)
    return reduce(_with_ratio, COMPARED[1:], rows)


def _with_ratio(rows: DataFrame, protocol: str) -> DataFrame:
    return rows.withColumn(f"{protocol}_ratio", _ratio(F.col(f"{protocol}_{COSTS[0]}"), F.col(f"{EAGER}_{COSTS[0]}")))


def _ratio(cost: Column, eager: Column) -> Column:
    return F.when(eager > 0, cost / eager)
