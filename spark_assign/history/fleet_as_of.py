"""The Fleet of any moment that records tell of: who was there, what they subscribed to and what they owned."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.fleet import Fleet
from spark_assign.history.history import History
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import GROUP_KEY, MEMBERS, RUNS, SUBSCRIPTIONS

_CONSUMERS = ("classic", "consumer", "share")


def fleet_at(history: History, timestamp: datetime | str, *, topics: DataFrame | None = None) -> Fleet:
    """The fleet of a moment, as `Fleet.at` has it.

    The tables are lazy: each is one pass over the records, unless `history` reads what has been stored. That there are
    records of the moment is asked of Spark at once, in one query over the groups.
    """
    micros = _micros(timestamp)
    clusters = _clusters(history.groups, micros)
    moment = F.timestamp_micros(F.lit(micros))
    here = F.col("cluster").isin(clusters)
    then = _last_rebalance(history.rebalances.where(here & (F.col("at") <= moment)))
    # Which connectors and which tasks of Kafka Streams somebody has is no matter of partitions.
    kind = F.col("group_type").isin(*_CONSUMERS) & F.coalesce(F.col("protocol_type"), F.lit("consumer")).eqNullSafe(
        "consumer"
    )
    # A row per group is little beside what they have: it goes to every task.
    known = F.broadcast(history.groups.where(here & kind).select(*GROUP_KEY, "group_type").join(then, GROUP_KEY))
    there = history.memberships.where(here & _lasts(moment))
    groups = _groups(known, there)
    owned = history.ownership.where(here & _lasts(moment) & (F.col("role") == "partition"))
    return Fleet(
        topics=_topics(history, here, moment) if topics is None else topics,
        members=_members(there.join(known.select(*GROUP_KEY, "generation"), GROUP_KEY)),
        subscriptions=_of(history.subscribed.where(here & _lasts(moment)), known).select(*SUBSCRIPTIONS.names),
        owned_runs=_of(owned, known).select(*RUNS.names),
        groups=groups,
    )


def _micros(timestamp: datetime | str) -> int:
    """A moment in microseconds since 1970. Raises ConfigError."""
    given = timestamp
    if isinstance(timestamp, str):
        try:
            timestamp = datetime.fromisoformat(timestamp)
        except ValueError as error:
            expected = "expected a moment such as 2026-11-23T08:00:00Z"
            raise ConfigError(f"timestamp {given!r}: {expected}") from error
    if timestamp.utcoffset() is None:
        where = "expected a time zone as well: a moment such as 2026-11-23T08:00:00Z, or a datetime with tzinfo=UTC"
        raise ConfigError(f"timestamp {given!s}: {where}")
    since = timestamp - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _clusters(groups: DataFrame, micros: int) -> list[str]:
    """The clusters whose records reach over a moment. Raises ConfigError where there are none."""
    reach = groups.groupBy("cluster").agg(
        F.unix_micros(F.min("since")).alias("since"), F.unix_micros(F.max("until")).alias("until")
    )
    rows = reach.orderBy("cluster").collect()  # a row per cluster
    if not rows:
        raise ConfigError(f"timestamp {_text(micros)}: there are no records of groups")
    found = [row.cluster for row in rows if row.since <= micros <= row.until]
    if not found:
        of = "; ".join(f"{row.cluster}: {_text(row.since)} to {_text(row.until)}" for row in rows[:5])
        more = f"; and {len(rows) - 5} more clusters" if len(rows) > 5 else ""
        raise ConfigError(f"timestamp {_text(micros)}: no records reach so far, expected a moment within {of}{more}")
    return found


def _text(micros: int) -> str:
    moment = datetime.fromtimestamp(micros // 1_000_000, UTC).replace(microsecond=micros % 1_000_000)
    return moment.isoformat().replace("+00:00", "Z")


def _lasts(moment: Column) -> Column:
    """Whether something that began then, and ended before `until`, is there at a moment."""
    return (F.col("since") <= moment) & (F.col("until").isNull() | (F.col("until") > moment))


def _last_rebalance(rebalances: DataFrame) -> DataFrame:
    """Of each group its generation, and what else the record of that says; groups that are gone are left out."""
    said = F.struct("at", "partition", "offset", "generation", "assignor", "state")
    last = rebalances.groupBy(*GROUP_KEY).agg(F.max(said).alias("last")).where("last.state <> 'Dead'")
    return last.select(*GROUP_KEY, "last.generation", "last.assignor", "last.state")


def _of(rows: DataFrame, groups: DataFrame) -> DataFrame:
    """Rows of these groups."""
    return rows.join(groups.select(*GROUP_KEY), GROUP_KEY, "left_semi")


def _members(there: DataFrame) -> DataFrame:
    """Members as the fleet has them; all are in the generation of their group."""
    names = [name for name in MEMBERS.names if name in there.columns]
    return there.select(*names, F.col("generation").alias("generation_id"))


def _groups(known: DataFrame, there: DataFrame) -> DataFrame:
    """What is known of the groups.

    What type a group was is not on record for each moment, but follows from its members: one of the consumer protocol
    has no session timeout of its own, and with the first of them a group is one of KIP-848, with the last it was.
    """
    by_broker = there.groupBy(*GROUP_KEY).agg(F.bool_or(F.col("session_timeout_ms").isNull()).alias("by_broker"))
    told = F.when(F.col("by_broker"), "consumer").otherwise("classic")
    change = F.col("group_type").isin("classic", "consumer") & F.col("by_broker").isNotNull()
    rows = known.join(by_broker, GROUP_KEY, "left")
    group_type = F.when(change, told).otherwise(F.col("group_type")).alias("group_type")
    return rows.select(*GROUP_KEY, "assignor", group_type, "state")


def _topics(history: History, here: Column, moment: Column) -> DataFrame:
    """Topics with so many partitions as somebody had owned or committed until then."""
    begun = here & (F.col("since") <= moment)
    last = F.col("first") + F.col("step") * (F.col("count") - 1)
    owned = history.ownership.where(begun & (F.col("role") == "partition") & (F.col("count") > 0))
    seen = owned.select("cluster", "topic", last.alias("partition")).unionByName(
        history.commits.where(begun).select("cluster", "topic", "partition")
    )
    return seen.groupBy("cluster", "topic").agg((F.max("partition") + 1).cast("int").alias("partitions"))
