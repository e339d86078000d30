"""The history of groups as tables, all built in one pass over their records (`history.records.group_facts`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.history.kernel.build_history import build_history
from spark_assign.history.kernel.timeline import HistoryThresholds
from spark_assign.history.records import group_facts, select_schema
from spark_assign.history.schemas import HISTORY_ROWS
from spark_assign.spark.dataframes import map_arrow_batches, to_arrow_schema
from spark_assign.stores.result import LazyResult
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.history import END_OFFSETS, HISTORY_TABLES, REPLAY_TABLES, TOPIC_IDS
from spark_assign.tables.parameters import find_fault


@dataclass(frozen=True)
class History(LazyResult):
    """The history of groups as lazy DataFrames (columns: `tables.history.HISTORY_TABLES`).

    Each table is one pass over the records, unless the rows are stored (`with_tagged_rows`).

    Attributes:
        rows: the tagged rows of the pass over the records, computed or stored.
        topics: names of topic ids, if known.
        end_offsets: end offsets of partitions, if known.

    Examples:
        >>> past = read_history(records, HistoryThresholds(commit_gap_ms=3_000))
        >>> rebalances = past.rebalances.where("group_id = 'fraud-detection'").orderBy("generation_id")
        >>> rebalances.select("generation_id", "state", "members", "crashed", "moved").show()
        +-------------+------+-------+-------+-----+
        |generation_id| state|members|crashed|moved|
        +-------------+------+-------+-------+-----+
        |            1|Stable|      3|      0|    0|
        |            2|Stable|      2|      1|    2|
        |            3|Stable|      3|      0|    2|
        +-------------+------+-------+-------+-----+
    """

    schemas: ClassVar = HISTORY_TABLES
    stored_with: ClassVar = REPLAY_TABLES

    topics: DataFrame | None = None
    end_offsets: DataFrame | None = None

    @cached_property
    def groups(self) -> DataFrame:
        """A row per group: its type, its rebalances, how long they paused partitions, and whether it is flapping."""
        return self._table("groups")

    @cached_property
    def rebalances(self) -> DataFrame:
        """A row per generation: time, leader, members that joined and left, partitions that moved, and the cause."""
        return self._table("rebalances")

    @cached_property
    def memberships(self) -> DataFrame:
        """A row per membership: start, end, and how the member left."""
        return self._table("memberships")

    @cached_property
    def subscriptions_over_time(self) -> DataFrame:
        """A row per topic and time for which a member was subscribed to it."""
        return self._table("subscriptions_over_time")

    @cached_property
    def ownership(self) -> DataFrame:
        """A row per slice of partitions and time for which a member owned it."""
        rows = self._rows("ownership")
        if self.topics is not None:
            names = self.topics.select("cluster", F.col("topic_id").alias("topic"), F.col("topic").alias("name"))
            rows = rows.join(F.broadcast(names), ["cluster", "topic"], "left")
            rows = rows.withColumn("topic", F.coalesce("name", "topic"))
        return rows.select(*HISTORY_TABLES["ownership"].names)

    @cached_property
    def streams_members(self) -> DataFrame:
        """A row per member and generation of a classic Streams application, with the bytes that it sent and got."""
        return self._table("streams_members")

    @cached_property
    def commits(self) -> DataFrame:
        """A row per partition that a group committed: number of commits, rate, and gaps."""
        once = F.inline_outer("once").alias("number", "at_ms", "offset")
        rows = self._rows("commits").select("cluster", "group_id", "topic", "again", once)
        rows = rows.select("*", F.inline_outer("again"))
        single: dict[str, Column | str] = {"partition": "number", "commits": F.lit(1)}
        single |= {"start_ms": "at_ms", "end_ms": "at_ms", "first_offset": "offset", "last_offset": "offset"}
        single |= dict.fromkeys(("gaps", "longest_gap_ms", "deleted"), F.lit(0))
        rows = rows.withColumns({name: F.coalesce(name, value) for name, value in single.items()})
        rows = rows.withColumns({f"{name}_time": F.timestamp_millis(f"{name}_ms") for name in ("start", "end")})
        if self.end_offsets is None:
            rows = rows.withColumn("lag", F.lit(None).cast("long"))
        else:
            rows = rows.join(self.end_offsets, ["cluster", "topic", "partition"], "left")
            # A member can commit any offset: a lag beyond a long is unknown.
            rows = rows.withColumn("lag", F.try_subtract("end_offset", "last_offset"))
        return rows.select(*HISTORY_TABLES["commits"].names)

    @cached_property
    def pauses(self) -> DataFrame:
        """A row per pause, a time in which partitions weren't committed, around a rebalance or without one."""
        return self._table("pauses")

    @cached_property
    def deploys(self) -> DataFrame:
        """A row per burst of rebalances: restarts, crashes, scaling, flapping."""
        return self._table("deploys")

    @cached_property
    def unreadable(self) -> DataFrame:
        """A row per record that can't be decoded, unchanged, with the reason."""
        return self._table("unreadable")

    def _table(self, name: str) -> DataFrame:
        return self._rows(name, HISTORY_TABLES[name])


def read_history(
    records: DataFrame,
    thresholds: HistoryThresholds | None = None,
    *,
    topics: DataFrame | None = None,
    end_offsets: DataFrame | None = None,
) -> History:
    """Returns the history of groups from records of `__consumer_offsets`.

    Every record is used or in `unreadable`, with its position and the reason; no record fails a task. The order and
    the partitioning of the records don't matter.

    Args:
        records: cluster, partition, offset, timestamp, key, and value, as the brokers wrote them; a null value is a
            tombstone. All records of each group.
        thresholds: when a time counts as a pause, and so on; None: the defaults of `HistoryThresholds`.
        topics: cluster, topic, and topic_id. Records of the broker's protocols (KIP-848) have topic ids instead of
            names. From Kafka 4.2 on, the names of topics that the group commits are known; other topics appear with
            their id.
        end_offsets: cluster, topic, partition, and end_offset, for `commits.lag`.

    Returns:
        the history; its tables are lazy.

    Raises:
        FleetError: a column of a table is missing, or has another type.
        ConfigError: a threshold is less than 1.

    Examples:
        >>> read_history(records).unreadable.count()
        0
    """
    thresholds = thresholds or HistoryThresholds()
    if fault := find_fault(thresholds):
        raise ConfigError(fault)
    names = None if topics is None else select_schema("topics", topics, TOPIC_IDS)
    ends = None if end_offsets is None else select_schema("end_offsets", end_offsets, END_OFFSETS)
    work = partial(build_history, thresholds=thresholds, schema=to_arrow_schema(HISTORY_ROWS))
    rows = group_facts(records, thresholds.commit_gap_ms).mapInArrow(map_arrow_batches(work), HISTORY_ROWS)
    return History(rows, names, ends)
