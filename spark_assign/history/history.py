"""The history of groups: what their records tell, as tables.

All of it is one pass over the records (`history.record_facts`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Self

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.history import record_facts
from spark_assign.history.kernel import history_rows as kinds
from spark_assign.history.kernel.timeline import HistoryThresholds
from spark_assign.history.record_facts import conformed
from spark_assign.spark.lazy_result import LazyResult
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.history import END_OFFSETS, HISTORY_TABLES, TOPIC_IDS


@dataclass(frozen=True)
class History(LazyResult):
    """What became of groups, as lazy DataFrames (columns: `tables.history.HISTORY_TABLES`).

    Each table is one pass over the records, unless `decided` is stored (`with_tagged_rows`).

    Attributes:
        told: what the pass over the records says, or, read back, what one has said.
        topics: the names of topics that are told by their id, if they are known.
        end_offsets: where partitions end, if that is known.

    Examples:
        >>> past = History.read(records, gap_ms=3_000)
        >>> rebalances = past.rebalances.where("group_id = 'fraud-detection'").orderBy("generation")
        >>> rebalances.select("generation", "state", "members", "crashed", "moved").show()
        +----------+------+-------+-------+-----+
        |generation| state|members|crashed|moved|
        +----------+------+-------+-------+-----+
        |         1|Stable|      3|      0|    0|
        |         2|Stable|      2|      1|    2|
        |         3|Stable|      3|      0|    2|
        +----------+------+-------+-------+-----+
    """

    topics: DataFrame | None = None
    end_offsets: DataFrame | None = None

    @classmethod
    def read(
        cls,
        records: DataFrame,
        *,
        topics: DataFrame | None = None,
        end_offsets: DataFrame | None = None,
        gap_ms: int = HistoryThresholds.gap_ms,
        together_ms: int = HistoryThresholds.together_ms,
        flapping_a_day: int = HistoryThresholds.flapping_a_day,
        session_ms: int = HistoryThresholds.session_ms,
    ) -> Self:
        """The history that records of `__consumer_offsets` tell.

        Every record is used or in `unread`, with its place and why; none makes a task fail. The order and the
        partitioning of the records do not matter.

        Args:
            records: cluster, partition, offset, timestamp, key and value, as the brokers wrote them; a null value is a
                tombstone. Of each group all that there are.
            topics: cluster, topic and topic_id: records of the broker's protocols (KIP-848) name topics by id. Ids of
                topics that the group committed are known from Kafka 4.2 on; others are told by their id.
            end_offsets: cluster, topic, partition and end_offset, for `commits.lag`.
            gap_ms: a partition for which nothing is committed for longer is silent.
            together_ms: rebalances of a group that are no further apart are one deploy.
            flapping_a_day: so many rebalances in 24 hours that belong to no deploy make a group a flapping one.
            session_ms: the session timeout of members whose record has none: those of the broker's protocols.

        Returns:
            the history; its tables are lazy.

        Raises:
            FleetError: a column of a table is missing, or of another type.
            ConfigError: a threshold that cannot be.
        """
        asked = HistoryThresholds(gap_ms, together_ms, flapping_a_day, session_ms)
        for name, value in asdict(asked).items():
            if value < 1:
                raise ConfigError(f"{name} {value}: expected 1 or more")
        names = None if topics is None else conformed("topics", topics, TOPIC_IDS)
        ends = None if end_offsets is None else conformed("end_offsets", end_offsets, END_OFFSETS)
        return cls(record_facts.told(records, asked), names, ends)

    @cached_property
    def groups(self) -> DataFrame:
        """A row per group: what kind it is, how often it rebalanced, what that stopped, and whether it flaps."""
        return self._rows(kinds.GROUP, HISTORY_TABLES["groups"])

    @cached_property
    def rebalances(self) -> DataFrame:
        """A row per generation: when, who led, who came and went, what moved and why."""
        return self._rows(kinds.REBALANCE, HISTORY_TABLES["rebalances"])

    @cached_property
    def memberships(self) -> DataFrame:
        """Who was a member from when to when, and how it went."""
        return self._rows(kinds.MEMBERSHIP, HISTORY_TABLES["memberships"])

    @cached_property
    def subscribed(self) -> DataFrame:
        """What members subscribed to, from when to when."""
        return self._rows(kinds.SUBSCRIBED, HISTORY_TABLES["subscribed"])

    @cached_property
    def ownership(self) -> DataFrame:
        """Who owned what from when to when, as runs of partitions."""
        rows = self._rows(kinds.OWNED)
        if self.topics is not None:
            known = self.topics.select("cluster", F.col("topic_id").alias("topic"), F.col("topic").alias("name"))
            rows = rows.join(F.broadcast(known), ["cluster", "topic"], "left")
            rows = rows.withColumn("topic", F.coalesce("name", "topic"))
        return rows.select(*HISTORY_TABLES["ownership"].names)

    @cached_property
    def commits(self) -> DataFrame:
        """A row per partition that a group committed: how often, how fast, and when it did not."""
        once = F.inline_outer("once").alias("number", "at_ms", "offset")
        rows = self._rows(kinds.COMMITS).select("cluster", "group_id", "topic", "again", once)
        rows = rows.select("*", F.inline_outer("again"))
        of_one: dict[str, Column | str] = {"partition": "number", "commits": F.lit(1)}
        of_one |= {"since_ms": "at_ms", "until_ms": "at_ms", "first_offset": "offset", "last_offset": "offset"}
        of_one |= dict.fromkeys(("gaps", "longest_gap_ms", "deleted"), F.lit(0))
        rows = rows.withColumns({name: F.coalesce(name, usual) for name, usual in of_one.items()})
        rows = rows.withColumns({name: F.timestamp_millis(f"{name}_ms") for name in ("since", "until")})
        if self.end_offsets is None:
            known = rows.withColumn("lag", F.lit(None).cast("long"))
        else:
            known = rows.join(self.end_offsets, ["cluster", "topic", "partition"], "left")
            known = known.withColumn("lag", F.col("end_offset") - F.col("last_offset"))
        return known.select(*HISTORY_TABLES["commits"].names)

    @cached_property
    def pauses(self) -> DataFrame:
        """Stretches in which partitions were not committed, around rebalances and without one."""
        return self._rows(kinds.PAUSE, HISTORY_TABLES["pauses"])

    @cached_property
    def deploys(self) -> DataFrame:
        """Bursts of rebalances told as one: restarts, crashes, scaling, flapping."""
        return self._rows(kinds.DEPLOY, HISTORY_TABLES["deploys"])

    @cached_property
    def unread(self) -> DataFrame:
        """Records that nothing could be made of, as they are, and why."""
        return self._rows(kinds.UNREAD, HISTORY_TABLES["unread"])

    @cached_property
    def rejected(self) -> DataFrame:
        """Groups of which nothing can be said."""
        return self._rows(kinds.REJECTED, HISTORY_TABLES["rejected"])
