"""What the past would have cost otherwise: every rebalance on record, by other assignors and protocols.

All of it is one pass over the records, in which each group's past is replayed in whole (`history.kernel.replay`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from pyspark.sql import DataFrame

from spark_assign.history import record_facts
from spark_assign.history.kernel.replay import replay as kernel
from spark_assign.history.kernel.replay.read_history import replay_parts
from spark_assign.history.kernel.replay.replay_variants import ASSIGNORS
from spark_assign.history.kernel.timeline import HistoryThresholds
from spark_assign.history.schemas import REPLAY
from spark_assign.simulation.settings import Settings
from spark_assign.spark.arrow_batches import map_arrow_batches
from spark_assign.spark.lazy_result import LazyResult
from spark_assign.tables.errors import ConfigError, UnknownAssignorError
from spark_assign.tables.history import REPLAY_TABLES


@dataclass(frozen=True)
class Replay(LazyResult):
    """The past of groups in several ways, as lazy DataFrames (columns: `tables.history.REPLAY_TABLES`).

    Each table is one pass over the records, unless `decided` is stored (`with_tagged_rows`).

    Attributes:
        told: what the pass over the records says, or, read back, what one has said.

    Examples:
        >>> otherwise = replay(records, assignors=["cooperative-sticky"], static=True).replayed
        >>> spared = otherwise.where("group_id = 'orders-service' and not recorded")
        >>> spared.select("assignor", "static", "rebalances", "moved").show()
        +------------------+------+----------+-----+
        |          assignor|static|rebalances|moved|
        +------------------+------+----------+-----+
        |cooperative-sticky|  true|         0|    0|
        +------------------+------+----------+-----+
    """

    @cached_property
    def replayed(self) -> DataFrame:
        """A row per group and way: how many rebalances, and what they stopped or would have stopped."""
        return self._rows(kernel.OF_GROUP, REPLAY_TABLES["replayed"])

    @cached_property
    def replays(self) -> DataFrame:
        """A row per past rebalance and way."""
        return self._rows(kernel.OF_REBALANCE, REPLAY_TABLES["replays"])

    @cached_property
    def rejected(self) -> DataFrame:
        """Groups that nothing can be said of, and ways in which Kafka's assignor throws."""
        return self._rows(kernel.REJECTED, REPLAY_TABLES["rejected"])


def replay(
    records: DataFrame,
    *,
    assignors: Sequence[str] | None = None,
    static: bool | None = None,
    settings: Settings | None = None,
    gap_ms: int = HistoryThresholds.gap_ms,
) -> Replay:
    """What every past rebalance would have cost with other assignors and protocols, with static members or without.

    The way that was in use is told as it was recorded. Every other way begins with the first generation on record, and
    each of its rebalances with what it had left itself after the one before. Members come, go and subscribe as they
    did. Eager and cooperative groups decide as Kafka's Java clients of today do, the broker's assignors as Kafka's.

    With static members (KIP-345) who went and was back before its session was over is not missed: there is no
    rebalance, and what it has waits for it. Who left for good is waited for until its session is over.

    Where commits show the pause of a rebalance, a partition that stops in another way stops as long as one did then:
    all of them by the eager protocol, what is given up for each round by the cooperative one, what moves by the
    broker's. Where they do not, it is what `settings` let expect (`simulation.kernel.pause_estimates`). What waits for
    a crashed member's session is in every way.

    Args:
        records: as for `History.read`: of each group all that there are.
        assignors: any of `range`, `roundrobin`, `sticky`, `cooperative-sticky`, and the broker's `uniform` and
            `server-range` (KIP-848); by default all of them. The one that was in use is always told.
        static: whether all members are static, or none; by default both ways.
        settings: times by which pauses are counted that are not on record; by default those of the simulation. Its
            tables are not for this.
        gap_ms: a partition for which nothing is committed for longer is silent.

    Returns:
        the replay. Its tables are lazy. Every group of consumers with two generations on record is in `replayed`;
        `replayed.replayed` says of how many rebalances the assignor in use, asked again by the rules of its leader's
        library, says what was recorded, and `note` what differs. All others are in `rejected`.

    Raises:
        FleetError: a column of the records is missing, or of another type.
        UnknownAssignorError: no such assignor.
        ConfigError: a threshold that cannot be.
        ValueError: settings with tables.

    Examples:
        >>> told = replay(records, assignors=["sticky"]).replayed.where("group_id = 'orders-service'")
        >>> told.select("assignor", "static", "recorded", "rebalances", "moved").orderBy("assignor", "static").show()
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
            raise UnknownAssignorError(f"no assignor of Kafka is called {name!r}. There are: {', '.join(ASSIGNORS)}")
    if gap_ms < 1:
        raise ConfigError(f"gap_ms {gap_ms}: expected 1 or more")
    settings = settings or Settings()
    if any(table is not None for table in (settings.groups, settings.members, settings.partitions)):
        raise ValueError("settings: replay takes times that hold for all groups, and no tables; simulate takes those")
    ways = (False, True) if static is None else (static,)
    asked = kernel.ReplayParams(names, ways, settings.timing, HistoryThresholds(gap_ms=gap_ms))
    rows = record_facts.in_whole_groups(records, gap_ms)
    return Replay(rows.mapInArrow(map_arrow_batches(partial(replay_parts, asked=asked)), REPLAY))
