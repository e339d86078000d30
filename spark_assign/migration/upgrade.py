"""The way to another release of Kafka's clients: of every classic group who leads meanwhile, and what moves.

All of it is one pass over whole groups (`migration.kernel.upgrade`), in which each restart of a rolling upgrade is
played.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

from pyspark.sql import DataFrame

from spark_assign.fleet import Fleet
from spark_assign.groups import facts
from spark_assign.groups.assignors.release_rules import CLIENT_ASSIGNORS, format_release_lines, parse_release_assignor
from spark_assign.migration.kernel.upgrade import upgrade as kernel
from spark_assign.migration.schemas import UPGRADED
from spark_assign.spark.arrow_batches import map_arrow_batches
from spark_assign.spark.lazy_result import LazyResult
from spark_assign.tables.comparison import UPGRADE_TABLES
from spark_assign.tables.errors import ConfigError


@dataclass(frozen=True)
class Upgrade(LazyResult):
    """What becomes of a fleet's groups, as lazy DataFrames (columns: `tables.comparison.UPGRADE_TABLES`).

    Each table is one pass over the fleet, unless `decided` is stored (`with_tagged_rows`).

    Attributes:
        told: what the pass over the fleet says, or, read back, what one has said.

    Examples:
        >>> up = upgrade(fleet.with_clients("Java", "2.8"), "3.9")
        >>> steps = up.steps.where("group_id = 'payments-eu'").orderBy("step")
        >>> steps.select("step", "what", "leader_release", "leader_changed", "rules", "moved", "stopped").show()
        +----+-------+--------------+--------------+-----+-----+-------+
        |step|   what|leader_release|leader_changed|rules|moved|stopped|
        +----+-------+--------------+--------------+-----+-----+-------+
        |   1|restart|           2.8|          true|  2.8|    5|      6|
        |   2|restart|           3.9|          true|  3.9|    2|      6|
        +----+-------+--------------+--------------+-----+-----+-------+
    """

    @cached_property
    def upgrades(self) -> DataFrame:
        """A row per group of consumers: whether it may go, and what that moves."""
        return self._rows(kernel.OF_GROUP, UPGRADE_TABLES["upgrades"])

    @cached_property
    def steps(self) -> DataFrame:
        """A row per restart of each group: who leads then, by whose rules, and what moves."""
        return self._rows(kernel.OF_STEP, UPGRADE_TABLES["steps"])

    @cached_property
    def rejected(self) -> DataFrame:
        """Groups that nothing can be said of, and those that are no groups of consumers."""
        return self._rows(kernel.REJECTED, UPGRADE_TABLES["rejected"])


def upgrade(fleet: Fleet, to: str, *, assignor: str | None = None) -> Upgrade:
    """What a rolling upgrade of Kafka's Java clients does to every classic group of a fleet.

    Args:
        fleet: clusters, topics, groups and members. Who leads is in `groups`, or said by `Fleet.with_clients`; of
            groups whose leader's release nobody knows nothing is said.
        to: the release that all members come back with, such as `3.9`.
        assignor: that they come back with: `cooperative-sticky`, …; null: each group keeps its own.

    Returns:
        the upgrade. Its tables are lazy, but for one look over the fleet's sizes and values. Every group of the fleet
        is in `upgrades` or in `rejected`, where groups of Connect, share groups and streams groups are, by name.

    Raises:
        FleetError: values that no plan can be made from.
        ConfigError: the release or the assignor is none that there is.

    Examples:
        >>> up = upgrade(fleet.with_clients("Java", "2.8", group_id="payments-*"), "3.9").upgrades.orderBy("group_id")
        >>> up.select("group_id", "verdict", "from_release", "to_release", "moved", "moved_by_rules").show()
        +-----------+-------+------------+----------+-----+--------------+
        |   group_id|verdict|from_release|to_release|moved|moved_by_rules|
        +-----------+-------+------------+----------+-----+--------------+
        |  encoder-a|unknown|        NULL|       3.9| NULL|          NULL|
        |payments-eu|     go|         2.8|       3.9|    7|             0|
        +-----------+-------+------------+----------+-----+--------------+
    """
    if parse_release_assignor(f"{CLIENT_ASSIGNORS[0]}@{to}") is None:
        raise ConfigError(
            f"to {to}: no such release of Kafka's clients is known. These answer alike: {format_release_lines()}"
        )
    if assignor is not None and assignor not in CLIENT_ASSIGNORS:
        raise ConfigError(f"assignor {assignor}: expected one of {', '.join(CLIENT_ASSIGNORS)}")
    _ = fleet.sizes
    told = facts.facts_by_group(fleet, clients=True, in_order=True)
    return Upgrade(
        told.mapInArrow(map_arrow_batches(partial(kernel.upgrade, asked=kernel.UpgradeParams(to, assignor))), UPGRADED)
    )
