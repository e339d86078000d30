"""Replays past rebalances: what each one on record would have cost with other assignors and protocols.

A replay is one pass over the records, in which the complete past of each group is replayed (`history.kernel.replay`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

from pyspark.sql import DataFrame

from spark_assign.history.kernel.replay import replay as kernel
from spark_assign.history.kernel.replay.recorded_history import ASSIGNORS
from spark_assign.history.kernel.timeline import HistoryThresholds
from spark_assign.history.records import group_facts
from spark_assign.history.schemas import REPLAY_ROWS
from spark_assign.simulation.settings import Settings
from spark_assign.spark.dataframes import map_arrow_batches, to_arrow_schema
from spark_assign.stores.result import LazyResult
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.history import HISTORY_TABLES, REPLAY_TABLES
from spark_assign.tables.parameters import find_fault


@dataclass(frozen=True)
class Replay(LazyResult):
    """The past of groups in several variants, as lazy DataFrames (columns: `tables.history.REPLAY_TABLES`).

    Each table is one pass over the records, unless the rows are stored (`with_tagged_rows`).

    Attributes:
        rows: the tagged rows of the pass over the records, computed or stored.

    Examples:
        >>> summary = replay(records, assignors=["cooperative-sticky"], static=True).replay_summary
        >>> static = summary.where("group_id = 'orders-service' and not recorded")
        >>> static.select("assignor", "static", "rebalances", "moved").show()
        +------------------+------+----------+-----+
        |          assignor|static|rebalances|moved|
        +------------------+------+----------+-----+
        |cooperative-sticky|  true|         0|    0|
        +------------------+------+----------+-----+
    """

    schemas: ClassVar = REPLAY_TABLES
    stored_with: ClassVar = HISTORY_TABLES

    @cached_property
    def replay_summary(self) -> DataFrame:
        """A row per group and variant: number of rebalances, and how long they paused or would have paused
        partitions."""
        return self._table("replay_summary")

    @cached_property
    def replay_rebalances(self) -> DataFrame:
        """A row per recorded rebalance and variant."""
        return self._table("replay_rebalances")

    @cached_property
    def replay_rejected(self) -> DataFrame:
        """A row per group that can't be replayed, and per variant in which Kafka's assignor throws."""
        return self.rejected

    def _table(self, name: str) -> DataFrame:
        return self._rows(name, REPLAY_TABLES[name])


def replay(
    records: DataFrame,
    *,
    assignors: Sequence[str] | None = None,
    static: bool | None = None,
    settings: Settings | None = None,
    thresholds: HistoryThresholds | None = None,
) -> Replay:
    """Returns what every past rebalance would have cost with other assignors and protocols, static members or dynamic.

    The configuration that was in use has its costs as recorded. Every other variant starts with the first generation on
    record, and each of its rebalances with what the variant itself left after the one before. Members join, leave, and
    subscribe as recorded. Classic groups are assigned as by Kafka's current Java clients, and groups of the broker's
    protocol as by Kafka's broker.

    With static members (KIP-345), the group doesn't notice a member that returns before its session times out: there is
    no rebalance, and its partitions wait for it. If a member leaves for good, they wait until its session times out.

    If commits show the pause of a rebalance, a partition that pauses in another variant does so for as long as one did
    then: all partitions with the eager protocol, those revoked in each round with the cooperative one, those that move
    with the broker's. If commits show nothing, the pause is estimated from `settings`
    (`simulation.kernel.pause_estimates`). The wait for a crashed member's session is part of every variant.

    Args:
        records: as for `read_history`: all records of each group.
        assignors: any of `range`, `roundrobin`, `sticky`, `cooperative-sticky`, and the broker's `uniform` and
            `server-range` (KIP-848). The default is all of them. The one that was in use is always included.
        static: whether all members are static (True) or dynamic (False). The default is both variants.
        settings: times for pauses that are not on record. The default is that of the simulation. Settings with tables
            aren't supported.
        thresholds: when a time without commits counts as a pause (`commit_gap_ms`), as for `read_history`.

    Returns:
        the replay; its tables are lazy. Every group of consumers with two generations on record is in
        `replay_summary`. There, `num_replayed` is the number of rebalances for which the assignor that was in use, run
        with the rules of its leader's library, reproduces the record, and `note` describes the first difference. All
        other groups are in `replay_rejected`.

    Raises:
        FleetError: a column of the records is missing, or has another type.
        ConfigError: an assignor is unknown, a threshold is less than 1, or the settings have tables.

    Examples:
        >>> summary = replay(records, assignors=["sticky"]).replay_summary.where("group_id = 'orders-service'")
        >>> columns = "assignor", "static", "recorded", "rebalances", "moved"
        >>> summary.select(*columns).orderBy("assignor", "static").show()
        +--------+------+--------+----------+-----+
        |assignor|static|recorded|rebalances|moved|
        +--------+------+--------+----------+-----+
        |   range| false|    true|         7|   20|
        |  sticky| false|   false|         7|   20|
        |  sticky|  true|   false|         0|    0|
        +--------+------+--------+----------+-----+
    """
    names = ASSIGNORS if assignors is None else tuple(dict.fromkeys(assignors))
    for name in names:
        if name not in ASSIGNORS:
            raise ConfigError(f"Unknown assignor {name!r}. Use one of {', '.join(ASSIGNORS)}.")
    thresholds = thresholds or HistoryThresholds()
    if fault := find_fault(thresholds):
        raise ConfigError(fault)
    settings = settings or Settings()
    if any(table is not None for table in (settings.groups, settings.members, settings.partitions)):
        raise ConfigError("settings: replay supports only settings for all groups, without tables.")
    variants = (False, True) if static is None else (static,)
    params = kernel.ReplayParams(names, variants, settings.timing, HistoryThresholds(thresholds.commit_gap_ms))
    work = partial(kernel.replay_buckets, params=params, schema=to_arrow_schema(REPLAY_ROWS))
    return Replay(group_facts(records, thresholds.commit_gap_ms).mapInArrow(map_arrow_batches(work), REPLAY_ROWS))
