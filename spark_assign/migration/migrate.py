"""Plans the migration of every classic group to the consumer protocol (KIP-848): whether, how, and at what cost.

One pass over complete groups (`migration.kernel.migrate`) plans with the broker's assignor, simulates each restart of
the rolling migration, and judges the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from spark_assign.fleet import Fleet
from spark_assign.groups import facts
from spark_assign.groups.assignors.server import KAFKA_SERVER_ASSIGNORS, RACK_SERVER_ASSIGNORS, UNIFORM
from spark_assign.groups.kernel.client_libraries import LIBRARIES
from spark_assign.groups.registry import find_assignor
from spark_assign.migration.kernel import migrate as kernel
from spark_assign.migration.kernel.migration_metrics import MigrationParams
from spark_assign.migration.kernel.migration_verdict import BLOCKED, READY, READY_WITH_WARNINGS, Policy
from spark_assign.simulation.settings import Settings
from spark_assign.spark.arrow_batches import map_arrow_batches
from spark_assign.spark.tagged_pass import LazyResult
from spark_assign.tables.comparison import MIGRATION_ROWS, MIGRATION_TABLES
from spark_assign.tables.errors import ConfigError


@dataclass(frozen=True)
class Migration(LazyResult):
    """The migration of a fleet's groups, as lazy DataFrames (columns: `tables.comparison.MIGRATION_TABLES`).

    Each table is one pass over the fleet, unless its rows are stored (`with_tagged_rows`).

    Attributes:
        rows: the tagged rows of the pass, computed or read back.

    Examples:
        >>> m = plan_migration(fleet, library="Java")
        >>> steps = m.steps.where("group_id = 'payments-eu'").orderBy("step")
        >>> steps.select("step", "step_type", "moved", "paused_partitions").show()
        +----+------------+-----+-----------------+
        |step|   step_type|moved|paused_partitions|
        +----+------------+-----+-----------------+
        |   1|     prepare| NULL|             NULL|
        |   2|first-member|    4|                6|
        |   3| last-member|    3|                3|
        |   4|    rollback|    0|             NULL|
        +----+------------+-----+-----------------+
    """

    @cached_property
    def migrations(self) -> DataFrame:
        """One row per consumer group: whether to migrate, why, what it costs, and how to roll back."""
        rows = self._rows(kernel.OF_GROUP)
        verdict_order = F.array_position(
            F.array(*(F.lit(verdict) for verdict in (READY, READY_WITH_WARNINGS, BLOCKED))), F.col("verdict")
        )
        num_codes = F.when(F.col("codes") == "", F.lit(0)).otherwise(F.size(F.split("codes", ", ")))
        added_cross_rack = F.coalesce(F.col("cross_rack_after") - F.col("cross_rack_before"), F.lit(0))
        moved_share = F.coalesce(F.col("moved") / F.greatest("partitions", F.lit(1)), F.lit(0.0))
        ranking = Window.orderBy(
            verdict_order, num_codes, F.greatest(added_cross_rack, F.lit(0)), moved_share, "cluster", "group_id"
        )
        ranked = rows.where(verdict_order > 0).withColumn("rank", F.row_number().over(ranking))
        unranked = rows.where(verdict_order == 0).withColumn("rank", F.lit(None).cast("int"))
        return ranked.unionByName(unranked).select(*MIGRATION_TABLES["migrations"].names)

    @cached_property
    def steps(self) -> DataFrame:
        """One row per step of each group that doesn't use the consumer protocol yet."""
        return self._rows(kernel.OF_STEP, MIGRATION_TABLES["steps"])

    @cached_property
    def rejected(self) -> DataFrame:
        """Groups that can't be analyzed, and groups that aren't consumer groups."""
        return self._rows(kernel.REJECTED, MIGRATION_TABLES["rejected"])


def plan_migration(
    fleet: Fleet,
    server_assignor: str = UNIFORM,
    *,
    policy: str = Policy.BIDIRECTIONAL,
    max_size: int | None = None,
    library: str | None = None,
    hypothetical_assignors: Sequence[str] | None = None,
    settings: Settings | None = None,
) -> Migration:
    """Simulates a rolling restart to `group.protocol=consumer` of every classic group of a fleet.

    The rules are those of Kafka's coordinator (`GroupMetadataManager.validateOnlineUpgrade`,
    `ConsumerGroup.fromClassicGroup`); see `migration.kernel.migration_verdict` for the verdicts.

    Args:
        fleet: clusters, topics, groups, and members.
        server_assignor: the broker's assignor: `uniform` (the broker's default) or `server-range`.
        policy: `group.consumer.migration.policy` of the brokers: `bidirectional` (Kafka's default), `upgrade`,
            `downgrade`, or `disabled`.
        max_size: `group.consumer.max.size` of the brokers; `None` for no limit.
        library: the library of members with unrecognized client ids (`groups.kernel.client_libraries.LIBRARIES`);
            `None` if unknown, which is a warning.
        hypothetical_assignors: assignors that the broker doesn't have, to count the partitions that they would read
            across racks; by default, the rack-aware variant of `server_assignor` (`rack-uniform` or
            `rack-server-range`).
        settings: the times to estimate pauses from; by default, those of the simulation. Settings with tables are
            rejected.

    Returns:
        the migration. Its tables are lazy, except for one look at the fleet's sizes and values. Every group of the
        fleet is in `migrations` or in `rejected`; the latter has the groups of Connect, share groups, and streams
        groups.

    Raises:
        UnknownAssignorError: there is no such assignor.
        FleetError: the fleet has values that no plan can be computed from.
        ConfigError: `server_assignor`, `policy`, `max_size`, or `library` is invalid.
        ValueError: the settings have tables.

    Examples:
        >>> m = plan_migration(fleet, library="Java").migrations.orderBy("rank")
        >>> m.select("rank", "group_id", "verdict", "online", "server_assignor", "moved").show()
        +----+-----------+-------------------+------+---------------+-----+
        |rank|   group_id|            verdict|online|server_assignor|moved|
        +----+-----------+-------------------+------+---------------+-----+
        |   1|  encoder-a|              ready|  true|        uniform|    0|
        |   2|payments-eu|ready-with-warnings|  true|        uniform|    1|
        +----+-----------+-------------------+------+---------------+-----+
    """
    settings = settings or Settings()
    settings.require_no_tables("plan_migration")
    find_assignor(server_assignor)
    if server_assignor not in KAFKA_SERVER_ASSIGNORS:
        raise ConfigError(
            f"The broker has no assignor {server_assignor}. Use {' or '.join(KAFKA_SERVER_ASSIGNORS)}; for other "
            "assignors, use hypothetical_assignors."
        )
    if hypothetical_assignors is None:
        rack_aware = dict(zip(KAFKA_SERVER_ASSIGNORS, RACK_SERVER_ASSIGNORS, strict=True))
        hypothetical_assignors = [rack_aware[server_assignor]]
    for name in hypothetical_assignors:
        find_assignor(name)
    if policy not in list(Policy):
        raise ConfigError(f"The migration policy {policy} is unknown. Use one of {', '.join(Policy)}.")
    if max_size is not None and max_size < 1:
        raise ConfigError(f"max_size {max_size} is out of range. group.consumer.max.size is at least 1.")
    params = MigrationParams(
        server_assignor=server_assignor,
        policy=Policy(policy),
        max_size=max_size,
        library=_find_library(library),
        hypothetical_assignors=tuple(hypothetical_assignors),
        timing=settings.timing,
        racks_known=fleet.racks_known,
    )
    _ = fleet.sizes
    work = partial(kernel.plan_migrations, params=params, schema=to_arrow_schema(MIGRATION_ROWS))
    tagged_facts = facts.facts_by_group(fleet, clients=True, topic_ids=True)
    return Migration(tagged_facts.mapInArrow(map_arrow_batches(work), MIGRATION_ROWS))


def _find_library(name: str | None) -> str | None:
    """Returns the known spelling of a library's name."""
    libraries = {library.casefold(): library for library in LIBRARIES}
    if name is not None and name.casefold() not in libraries:
        raise ConfigError(f"The client library {name} is unknown. Use one of {', '.join(LIBRARIES)}.")
    return None if name is None else libraries[name.casefold()]
