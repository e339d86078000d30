"""Plans the migration of every classic group to the consumer protocol (KIP-848): whether, how, and at what cost.

One pass over complete groups (`migration.kernel.migrate`) plans with the broker's assignor, simulates each restart of
the rolling migration, and judges the result.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.assignors.server import KAFKA_SERVER_ASSIGNORS, RACK_SERVER_ASSIGNORS
from spark_assign.fleet import FleetTables
from spark_assign.groups import facts
from spark_assign.groups.kernel.client_libraries import LIBRARIES
from spark_assign.groups.planning import find_assignor
from spark_assign.migration.kernel import migrate as kernel
from spark_assign.migration.kernel.migration_metrics import MigrationParams, MigrationPassParams
from spark_assign.migration.kernel.migration_verdict import BLOCKED, READY, READY_WITH_WARNINGS, Policy
from spark_assign.simulation.settings import Settings
from spark_assign.spark.dataframes import map_arrow_batches, to_arrow_schema
from spark_assign.stores.result import LazyResult
from spark_assign.tables.comparison import MIGRATION_ROWS, MIGRATION_TABLES
from spark_assign.tables.errors import ConfigError


@dataclass(frozen=True)
class Migration(LazyResult):
    """The migration of a fleet's groups, as lazy DataFrames (columns: `tables.comparison.MIGRATION_TABLES`).

    Each table is one pass over the fleet, unless its rows are stored (`with_tagged_rows`).

    Attributes:
        rows: the tagged rows of the pass, computed or read back.

    Examples:
        >>> m = plan_migration(fleet, MigrationParams(library="Java"))
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

    schemas: ClassVar = MIGRATION_TABLES

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


def plan_migration(
    fleet: FleetTables, params: MigrationParams | None = None, settings: Settings | None = None
) -> Migration:
    """Simulates a rolling restart to `group.protocol=consumer` of every classic group of a fleet.

    The rules are those of Kafka's coordinator (`GroupMetadataManager.validateOnlineUpgrade`,
    `ConsumerGroup.fromClassicGroup`); see `migration.kernel.migration_verdict` for the verdicts.

    Args:
        fleet: clusters, topics, groups, and members.
        params: the target, the settings of the brokers, and what is assumed; `None`: the defaults of `MigrationParams`.
        settings: the times to estimate pauses from; by default, those of the simulation. Settings with tables are
            rejected.

    Returns:
        the migration. Its tables are lazy, except for one look at the fleet's sizes and values. Every group of the
        fleet is in `migrations` or in `rejected`; the latter has the groups of Connect, share groups, and streams
        groups.

    Raises:
        FleetError: the fleet has values that no plan can be computed from.
        ConfigError: an argument is invalid: an unknown assignor, policy, or library; `max_size`; `broker_release`;
            settings with tables.

    Examples:
        >>> m = plan_migration(fleet, MigrationParams(library="Java")).migrations.orderBy("rank")
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
    pass_params = _pass_params(params or MigrationParams(), settings, fleet)
    _ = fleet.sizes
    work = partial(kernel.plan_migrations, params=pass_params, schema=to_arrow_schema(MIGRATION_ROWS))
    tagged_facts = facts.facts_by_group(fleet, clients=True, topic_ids=True)
    return Migration(tagged_facts.mapInArrow(map_arrow_batches(work), MIGRATION_ROWS))


def _pass_params(params: MigrationParams, settings: Settings, fleet: FleetTables) -> MigrationPassParams:
    """Returns the parameters of the pass. Errors: those of `plan_migration`."""
    server_assignor, policy, max_size, hypothetical = (
        getattr(params, name) for name in ("server_assignor", "policy", "max_size", "hypothetical_assignors")
    )
    find_assignor(server_assignor)
    if server_assignor not in KAFKA_SERVER_ASSIGNORS:
        raise ConfigError(
            f"The broker has no assignor {server_assignor}. Use {' or '.join(KAFKA_SERVER_ASSIGNORS)}; for other "
            "assignors, use hypothetical_assignors."
        )
    if hypothetical is None:
        rack_aware = dict(zip(KAFKA_SERVER_ASSIGNORS, RACK_SERVER_ASSIGNORS, strict=True))
        hypothetical = [rack_aware[server_assignor]]
    for name in hypothetical:
        find_assignor(name)
    if policy not in list(Policy):
        raise ConfigError(f"The migration policy {policy} is unknown. Use one of {', '.join(Policy)}.")
    if max_size is not None and max_size < 1:
        raise ConfigError(f"max_size {max_size} is out of range. group.consumer.max.size is at least 1.")
    by_glob = {"*": params.library} if isinstance(params.library, str) else params.library or {}
    return MigrationPassParams(
        server_assignor=server_assignor,
        policy=Policy(policy),
        max_size=max_size,
        library={glob: find_library(name) for glob, name in by_glob.items()},
        hypothetical_assignors=tuple(hypothetical),
        broker_release=_check_release(params.broker_release),
        timing=settings.timing,
        racks_known=fleet.racks_known,
    )


def _check_release(release: str | None) -> str | None:
    """Returns the release of the brokers. Raises ConfigError if it isn't two or three numbers."""
    if release is not None and not re.fullmatch(r"\d{1,3}(\.\d{1,3}){1,2}", release, re.ASCII):
        raise ConfigError(f"The broker release {release} is invalid. Use two or three numbers, for example 4.2.1.")
    return release


def find_library(name: str) -> str:
    """Returns the known spelling of a library's name. Raises ConfigError if it is unknown."""
    libraries = {library.casefold(): library for library in LIBRARIES}
    if name.casefold() not in libraries:
        raise ConfigError(f"The client library {name} is unknown. Use one of {', '.join(LIBRARIES)}.")
    return libraries[name.casefold()]
