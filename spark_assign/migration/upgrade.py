"""Simulates the upgrade of every classic group to another release of Kafka's clients: who leads, and what moves.

One pass over complete groups (`migration.kernel.upgrade`) simulates each restart of the rolling upgrade.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

from pyspark.sql import DataFrame

from spark_assign.assignors.release_rules import CLIENT_ASSIGNORS, format_release_lines, parse_release_assignor
from spark_assign.fleet import FleetTables
from spark_assign.groups import facts
from spark_assign.migration.kernel import upgrade as kernel
from spark_assign.spark.dataframes import map_arrow_batches, to_arrow_schema
from spark_assign.stores.result import LazyResult
from spark_assign.tables.comparison import UPGRADE_ROWS, UPGRADE_TABLES
from spark_assign.tables.errors import ConfigError


@dataclass(frozen=True)
class Upgrade(LazyResult):
    """The upgrade of a fleet's groups, as lazy DataFrames (columns: `tables.comparison.UPGRADE_TABLES`).

    Each table is one pass over the fleet, unless its rows are stored (`with_tagged_rows`).

    Attributes:
        rows: the tagged rows of the pass, computed or read back.

    Examples:
        >>> up = plan_upgrade(fleet.with_leader_client("Java", "2.8"), "3.9")
        >>> steps = up.steps.where("group_id = 'payments-eu'").orderBy("step")
        >>> steps.select("step", "leader_release", "leader_changed", "rules", "moved", "paused_partitions").show()
        +----+--------------+--------------+-----+-----+-----------------+
        |step|leader_release|leader_changed|rules|moved|paused_partitions|
        +----+--------------+--------------+-----+-----+-----------------+
        |   1|           2.8|          true|  2.8|    5|                6|
        |   2|           3.9|          true|  3.9|    2|                6|
        +----+--------------+--------------+-----+-----+-----------------+
    """

    schemas: ClassVar = UPGRADE_TABLES

    @cached_property
    def upgrades(self) -> DataFrame:
        """One row per consumer group: whether it can be upgraded, and what moves."""
        return self._rows(kernel.OF_GROUP, UPGRADE_TABLES["upgrades"])

    @cached_property
    def steps(self) -> DataFrame:
        """One row per restart of each group: who leads afterward, with which rules, and what moves."""
        return self._rows(kernel.OF_STEP, UPGRADE_TABLES["steps"])


def check_upgrade(to_release: str, assignor: str | None) -> None:
    """Raises `ConfigError` if Kafka's clients have no such release, or no such assignor."""
    if parse_release_assignor(f"{CLIENT_ASSIGNORS[0]}@{to_release}") is None:
        raise ConfigError(
            f"The release {to_release} of Kafka's clients is unknown. Releases with equal rules: "
            f"{format_release_lines()}."
        )
    if assignor is not None and assignor not in CLIENT_ASSIGNORS:
        raise ConfigError(f"Kafka's clients have no assignor {assignor}. Use one of {', '.join(CLIENT_ASSIGNORS)}.")


def plan_upgrade(fleet: FleetTables, to_release: str, *, assignor: str | None = None) -> Upgrade:
    """Simulates a rolling upgrade of Kafka's Java clients in every classic group of a fleet.

    Args:
        fleet: clusters, topics, groups, and members. The leader is in `groups`, or set by `Fleet.with_leader_client`;
            groups whose leader has an unknown release get the verdict `unknown`.
        to_release: the release of all members afterward, for example `3.9`.
        assignor: the assignor of all members afterward, for example `cooperative-sticky`; `None` if each group keeps
            its own.

    Returns:
        the upgrade. Its tables are lazy, except for one look at the fleet's sizes and values. Every group of the fleet
        is in `upgrades` or in `rejected`; the latter has the groups of Connect, share groups, and streams groups.

    Raises:
        FleetError: the fleet has values that no plan can be computed from.
        ConfigError: there is no such release or assignor.

    Examples:
        >>> old = fleet.with_leader_client("Java", "2.8", group_id="payments-*")
        >>> up = plan_upgrade(old, "3.9").upgrades.orderBy("group_id")
        >>> up.select("group_id", "verdict", "from_release", "to_release", "moved", "moved_by_rules").show()
        +-----------+-------+------------+----------+-----+--------------+
        |   group_id|verdict|from_release|to_release|moved|moved_by_rules|
        +-----------+-------+------------+----------+-----+--------------+
        |  encoder-a|unknown|        NULL|       3.9| NULL|          NULL|
        |payments-eu|  ready|         2.8|       3.9|    7|             0|
        +-----------+-------+------------+----------+-----+--------------+
    """
    check_upgrade(to_release, assignor)
    _ = fleet.sizes
    schema = to_arrow_schema(UPGRADE_ROWS)
    work = partial(kernel.plan_upgrades, to_release=to_release, assignor=assignor, schema=schema)
    tagged_facts = facts.facts_by_group(fleet, clients=True, owned_order=True)
    return Upgrade(tagged_facts.mapInArrow(map_arrow_batches(work), UPGRADE_ROWS))
