"""The way over to the broker's protocol (KIP-848): of every classic group whether to go, how, and what it costs.

All of it is one pass over whole groups (`migration.kernel`): the broker's assignor is asked, each restart of a rolling
upgrade is played, and what is found is judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.fleet import Fleet
from spark_assign.groups import facts
from spark_assign.groups.assignors.server import KAFKA_SERVER_ASSIGNORS, RACK_SERVER_ASSIGNORS, UNIFORM
from spark_assign.groups.kernel.client_libraries import LIBRARIES
from spark_assign.groups.registry import find_assignor
from spark_assign.migration.kernel import migrate as kernel
from spark_assign.migration.kernel.migration_verdict import GO, STAY, WARN, Policy
from spark_assign.migration.schemas import MIGRATED
from spark_assign.simulation.settings import Settings
from spark_assign.spark.arrow_batches import map_arrow_batches
from spark_assign.spark.lazy_result import LazyResult
from spark_assign.tables.comparison import MIGRATION_TABLES
from spark_assign.tables.errors import ConfigError


@dataclass(frozen=True)
class Migration(LazyResult):
    """What becomes of a fleet's groups, as lazy DataFrames (columns: `tables.comparison.MIGRATION_TABLES`).

    Each table is one pass over the fleet, unless `decided` is stored (`with_tagged_rows`).

    Attributes:
        told: what the pass over the fleet says, or, read back, what one has said.

    Examples:
        >>> m = migrate(fleet, library="Java")
        >>> m.steps.where("group_id = 'payments-eu'").select("step", "what", "moved", "stopped").orderBy("step").show()
        +----+------------+-----+-------+
        |step|        what|moved|stopped|
        +----+------------+-----+-------+
        |   1|     prepare| NULL|   NULL|
        |   2|first-member|    4|      6|
        |   3| last-member|    3|      3|
        |   4|    way-back|    0|   NULL|
        +----+------------+-----+-------+
    """

    @cached_property
    def migrations(self) -> DataFrame:
        """A row per group of consumers: whether to go, why, what it costs, and the way back."""
        rows = self._rows(kernel.OF_GROUP)
        order = F.array_position(F.array(*(F.lit(verdict) for verdict in (GO, WARN, STAY))), F.col("verdict"))
        several = F.when(F.col("codes") == "", F.lit(0)).otherwise(F.size(F.split("codes", ", ")))
        lost = F.coalesce(F.col("cross_rack_after") - F.col("cross_rack_before"), F.lit(0))
        share = F.coalesce(F.col("moved") / F.greatest("partitions", F.lit(1)), F.lit(0.0))
        best_first = Window.orderBy(order, several, F.greatest(lost, F.lit(0)), share, "cluster", "group_id")
        placed = rows.where(order > 0).withColumn("rank", F.row_number().over(best_first))
        rest = rows.where(order == 0).withColumn("rank", F.lit(None).cast("int"))
        return placed.unionByName(rest).select(*MIGRATION_TABLES["migrations"].names)

    @cached_property
    def steps(self) -> DataFrame:
        """A row per step of each group that is not there yet."""
        return self._rows(kernel.OF_STEP, MIGRATION_TABLES["steps"])

    @cached_property
    def rejected(self) -> DataFrame:
        """Groups that nothing can be said of, and those that are no groups of consumers."""
        return self._rows(kernel.REJECTED, MIGRATION_TABLES["rejected"])


def migrate(
    fleet: Fleet,
    to: str = UNIFORM,
    *,
    policy: str = Policy.BIDIRECTIONAL,
    max_size: int | None = None,
    library: str | None = None,
    what_if: Sequence[str] | None = None,
    settings: Settings | None = None,
) -> Migration:
    """What a rolling upgrade to `group.protocol=consumer` does to every classic group of a fleet.

    The rules are those of Kafka's coordinator (`GroupMetadataManager.validateOnlineUpgrade`,
    `ConsumerGroup.fromClassicGroup`); `migration.kernel` has them, and what speaks for and against.

    Args:
        fleet: clusters, topics, groups and members.
        to: the broker's assignor: `uniform`, which it takes by itself, or `server-range`.
        policy: `group.consumer.migration.policy` of the brokers: `bidirectional` (Kafka's default), `upgrade`,
            `downgrade` or `disabled`.
        max_size: `group.consumer.max.size` of the brokers; null: no limit.
        library: that of members whose client ids do not tell (`groups.kernel.client_libraries.LIBRARIES`); null: not
            known, which is a warning.
        what_if: assignors that the broker does not have, asked how many partitions would be read across racks in the
            end; by default the one of ours that is `to` with racks (`rack-uniform`, `rack-server-range`).
        settings: times by which pauses are counted; by default those of the simulation. Its tables are not for this.

    Returns:
        the migration. Its tables are lazy, but for one look over the fleet's sizes and values. Every group of the fleet
        is in `migrations` or in `rejected`, where groups of Connect, share groups and streams groups are, by name.

    Raises:
        UnknownAssignorError: no such assignor.
        FleetError: values that no plan can be made from.
        ConfigError: `to`, `policy`, `max_size` or `library` is none that there is.
        ValueError: settings with tables.

    Examples:
        >>> m = migrate(fleet, library="Java").migrations.orderBy("rank")
        >>> m.select("rank", "group_id", "verdict", "online", "server_assignor", "moved").show()
        +----+-----------+---------------+------+---------------+-----+
        |rank|   group_id|        verdict|online|server_assignor|moved|
        +----+-----------+---------------+------+---------------+-----+
        |   1|  encoder-a|             go|  true|        uniform|    0|
        |   2|payments-eu|go-with-warning|  true|        uniform|    1|
        +----+-----------+---------------+------+---------------+-----+
    """
    settings = settings or Settings()
    if any(table is not None for table in (settings.groups, settings.members, settings.partitions)):
        raise ValueError("settings: migrate takes times that hold for all groups, and no tables; simulate takes those")
    find_assignor(to)
    if to not in KAFKA_SERVER_ASSIGNORS:
        raise ConfigError(
            f"to {to}: the broker has {' and '.join(KAFKA_SERVER_ASSIGNORS)}; others can be asked by what_if"
        )
    if max_size is not None and max_size < 1:
        raise ConfigError(f"max_size {max_size}: group.consumer.max.size is 1 or more")
    asked = kernel.MigrationParams(
        to=to,
        policy=_policy(policy),
        most=max_size,
        clients=_library(library),
        what_if=(dict(zip(KAFKA_SERVER_ASSIGNORS, RACK_SERVER_ASSIGNORS, strict=True))[to],)
        if what_if is None
        else _known(what_if),
        timing=settings.timing,
        racks_known=fleet.racks_known,
    )
    _ = fleet.sizes
    told = facts.facts_by_group(fleet, clients=True, topic_ids=True)
    return Migration(told.mapInArrow(map_arrow_batches(partial(kernel.migrate, asked=asked)), MIGRATED))


def _policy(policy: str) -> Policy:
    try:
        return Policy(policy)
    except ValueError:
        raise ConfigError(f"policy {policy}: expected one of {', '.join(Policy)}") from None


def _library(name: str | None) -> str | None:
    if name is None:
        return None
    known = {name.casefold(): name for name in LIBRARIES}
    if name.casefold() not in known:
        raise ConfigError(f"library {name}: expected one of {', '.join(LIBRARIES)}")
    return known[name.casefold()]


def _known(asked: Sequence[str]) -> tuple[str, ...]:
    for name in asked:
        find_assignor(name)
    return tuple(asked)
