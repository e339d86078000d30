"""Builds the Fleet of a moment in the past: members, subscriptions, and ownership at that time."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.fleet import Fleet
from spark_assign.history.history import History
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import ASSIGNMENT_SLICES, GROUP_KEY, MEMBERS, SUBSCRIPTIONS

_CONSUMER_GROUP_TYPES = ("classic", "consumer", "share")


def fleet_at(history: History, timestamp: datetime | str, *, topics: DataFrame | None = None) -> Fleet:
    """Returns the fleet at a moment, as `Fleet.as_of` does.

    The tables are lazy: each is one pass over the records, unless `history` reads stored rows. One query over the
    groups checks at once that the records cover the moment.
    """
    micros = _parse_timestamp(timestamp)
    clusters = _find_clusters(history.groups, micros)
    moment = F.timestamp_micros(F.lit(micros))
    is_covered = F.col("cluster").isin(clusters)
    last_rebalances = _last_rebalance(history.rebalances.where(is_covered & (F.col("at") <= moment)))
    # Connectors and the tasks of Kafka Streams are no partitions.
    protocol_type = F.coalesce(F.col("protocol_type"), F.lit("consumer"))
    is_consumer_group = F.col("group_type").isin(*_CONSUMER_GROUP_TYPES) & protocol_type.eqNullSafe("consumer")
    # There are few groups compared with their members: they are broadcast.
    group_types = history.groups.where(is_covered & is_consumer_group).select(*GROUP_KEY, "group_type")
    live_groups = F.broadcast(group_types.join(last_rebalances, GROUP_KEY))
    memberships = history.memberships.where(is_covered & _is_valid_at(moment))
    subscriptions = history.subscribed.where(is_covered & _is_valid_at(moment))
    ownership = history.ownership.where(is_covered & _is_valid_at(moment) & (F.col("role") == "partition"))
    return Fleet(
        topics=_topics(history, is_covered, moment) if topics is None else topics,
        members=_members(memberships.join(live_groups.select(*GROUP_KEY, "generation"), GROUP_KEY)),
        subscriptions=_rows_of_groups(subscriptions, live_groups).select(*SUBSCRIPTIONS.names),
        owned_slices=_rows_of_groups(ownership, live_groups).select(*ASSIGNMENT_SLICES.names),
        groups=_groups(live_groups, memberships),
    )


def _parse_timestamp(timestamp: datetime | str) -> int:
    """Returns a moment in microseconds since 1970. Raises ConfigError."""
    original = timestamp
    if isinstance(timestamp, str):
        try:
            timestamp = datetime.fromisoformat(timestamp)
        except ValueError as error:
            expected = "expected a moment such as 2026-11-23T08:00:00Z"
            raise ConfigError(f"timestamp {original!r}: {expected}") from error
    if timestamp.utcoffset() is None:
        expected = "expected a time zone as well: a moment such as 2026-11-23T08:00:00Z, or a datetime with tzinfo=UTC"
        raise ConfigError(f"timestamp {original!s}: {expected}")
    elapsed = timestamp - datetime(1970, 1, 1, tzinfo=UTC)
    return (elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds


def _find_clusters(groups: DataFrame, micros: int) -> list[str]:
    """Returns the clusters whose records cover a moment. Raises ConfigError if there is none."""
    ranges = groups.groupBy("cluster").agg(
        F.unix_micros(F.min("since")).alias("since"), F.unix_micros(F.max("until")).alias("until")
    )
    rows = ranges.orderBy("cluster").collect()  # a row per cluster
    if not rows:
        raise ConfigError(f"timestamp {_format_timestamp(micros)}: there are no records of groups")
    clusters = [row.cluster for row in rows if row.since <= micros <= row.until]
    if not clusters:
        covered = "; ".join(
            f"{row.cluster}: {_format_timestamp(row.since)} to {_format_timestamp(row.until)}" for row in rows[:5]
        )
        more = f"; and {len(rows) - 5} more clusters" if len(rows) > 5 else ""
        problem = f"no records reach so far, expected a moment within {covered}{more}"
        raise ConfigError(f"timestamp {_format_timestamp(micros)}: {problem}")
    return clusters


def _format_timestamp(micros: int) -> str:
    moment = datetime.fromtimestamp(micros // 1_000_000, UTC).replace(microsecond=micros % 1_000_000)
    return moment.isoformat().replace("+00:00", "Z")


def _is_valid_at(moment: Column) -> Column:
    """Returns whether the interval from `since` up to, but without, `until` contains a moment."""
    return (F.col("since") <= moment) & (F.col("until").isNull() | (F.col("until") > moment))


def _last_rebalance(rebalances: DataFrame) -> DataFrame:
    """Returns generation, assignor, and state of each group's last rebalance, without groups that were deleted."""
    columns = F.struct("at", "partition", "offset", "generation", "assignor", "state")
    last = rebalances.groupBy(*GROUP_KEY).agg(F.max(columns).alias("last")).where("last.state <> 'Dead'")
    return last.select(*GROUP_KEY, "last.generation", "last.assignor", "last.state")


def _rows_of_groups(rows: DataFrame, groups: DataFrame) -> DataFrame:
    return rows.join(groups.select(*GROUP_KEY), GROUP_KEY, "left_semi")


def _members(memberships: DataFrame) -> DataFrame:
    """Returns the members with the columns of a fleet. All of them are in the generation of their group."""
    names = [name for name in MEMBERS.names if name in memberships.columns]
    return memberships.select(*names, F.col("generation").alias("generation_id"))


def _groups(live_groups: DataFrame, memberships: DataFrame) -> DataFrame:
    """Returns the groups with the columns of a fleet.

    The type of a group at a moment isn't on record, but follows from its members: a member of the consumer protocol has
    no session timeout of its own, and a group is a KIP-848 group from the first such member to the last.
    """
    has_consumer = F.bool_or(F.col("session_timeout_ms").isNull()).alias("has_consumer_protocol")
    protocols = memberships.groupBy(*GROUP_KEY).agg(has_consumer)
    current_type = F.when(F.col("has_consumer_protocol"), "consumer").otherwise("classic")
    can_change = F.col("group_type").isin("classic", "consumer") & F.col("has_consumer_protocol").isNotNull()
    rows = live_groups.join(protocols, GROUP_KEY, "left")
    group_type = F.when(can_change, current_type).otherwise(F.col("group_type")).alias("group_type")
    return rows.select(*GROUP_KEY, "assignor", group_type, "state")


def _topics(history: History, is_covered: Column, moment: Column) -> DataFrame:
    """Returns topics with as many partitions as members had owned or committed up to the moment."""
    has_started = is_covered & (F.col("since") <= moment)
    last = F.col("first") + F.col("step") * (F.col("count") - 1)
    owned = history.ownership.where(has_started & (F.col("role") == "partition") & (F.col("count") > 0))
    committed = history.commits.where(has_started).select("cluster", "topic", "partition")
    partitions = owned.select("cluster", "topic", last.alias("partition")).unionByName(committed)
    return partitions.groupBy("cluster", "topic").agg((F.max("partition") + 1).cast("int").alias("partitions"))
