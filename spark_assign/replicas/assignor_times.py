"""Estimates how long the assignor of each group takes, and compares it with the timeout that it must meet.

In a classic group, the leader assigns while the others wait. A Java client sends heartbeats meanwhile, in a thread of
its own, so `max.poll.interval.ms` is its limit (`AbstractCoordinator.HeartbeatThread`). librdkafka sends none between
JoinGroup and SyncGroup (`rd_kafka_cgrp_join_state_serve`), so its limit is `session.timeout.ms`. In a consumer group,
the assignor of the broker runs within a heartbeat, in the thread of the coordinator's partition: it delays the other
groups of that partition. Since 4.3, `consumer.assignment.interval.ms` bounds how often it runs (KIP-1263).

The times were measured on a busy machine (docs/replicas.md), and are upper bounds for a faster one.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.fleet import FleetTables
from spark_assign.replicas.coordinators import group_rates
from spark_assign.spark.subscription_lists import count_subscribers
from spark_assign.tables.replicas import ASSIGNOR_TIMES

NEAR = 0.5
"""Share of the timeout from which a group has a finding."""
LINEAR_MS = (20e-3, 4e-3)
"""Milliseconds per partition, and per member and topic, of assignors that take one partition after the other."""
HETEROGENEOUS_MS = 15e-3
"""Milliseconds per member and partition of Java's sticky assignors if subscriptions differ."""
LIBRDKAFKA_MS, LIBRDKAFKA_POWER = 46.0, 1.4
"""Milliseconds of librdkafka's cooperative-sticky for 10,000 pairs of a member and a partition, and the power by which
this grows with them."""
BROKER_MS = 3e-3
"""Milliseconds per partition of the broker's assignors."""
BUSY = 0.1
"""Share of the time of a coordinator's thread that the assignor of one group may take."""
DEFAULT_INTERVAL_MS, MAX_INTERVAL_MS = 1_000, 15_000
"""Default of `consumer.assignment.interval.ms`, and the highest value that brokers allow by default
(`group.consumer.max.assignment.interval.ms`)."""
_GROUP = ["cluster", "group_id"]
_POLL, _SESSION = "max.poll.interval.ms", "session.timeout.ms"
_TIMEOUTS_MS = {_SESSION: 45_000, _POLL: 300_000}
"""The timeouts with their defaults, for clients without timeouts on record."""


def assignor_times(
    fleet: FleetTables, groups: DataFrame, history: Mapping[str, DataFrame] | None, broker_release: str
) -> DataFrame:
    """Returns `tables.replicas.ASSIGNOR_TIMES`.

    Args:
        fleet: the fleet, for subscriptions.
        groups: cluster, group_id, group_type, assignor, leader_library, members, partitions.
        history: tables `groups`, `commits`, and `memberships` of `tables.history.HISTORY_TABLES`, for rates and
            timeouts; None if unknown.
        broker_release: release of the brokers.
    """
    by_topic = count_subscribers(fleet.subscriptions, fleet.subscription_lists)
    subscribed = by_topic.groupBy(*_GROUP).agg(
        F.sum("subscribers").alias("subscriptions"), F.count(F.lit(1)).alias("topics")
    )
    rows = groups.join(subscribed, _GROUP, "left").fillna(0, ["subscriptions", "topics"])
    if history is None:
        unknown = F.lit(None).cast("double")
        rows = rows.withColumns(dict.fromkeys(("rebalances_per_second", "session", "rebalance"), unknown))
    else:
        members = history["memberships"].where(F.col("end_time").isNull()).groupBy(*_GROUP)
        timeouts = members.agg(
            F.min("session_timeout_ms").alias("session"), F.min("rebalance_timeout_ms").alias("rebalance")
        )
        rates = group_rates(history).drop("commits_per_second")
        rows = rows.join(rates, _GROUP, "left").join(timeouts, _GROUP, "left")
    is_classic = F.coalesce("group_type", F.lit("classic")) == "classic"
    is_java = F.coalesce("leader_library", F.lit("Java")) == "Java"
    default = F.when(is_java, _TIMEOUTS_MS[_POLL]).otherwise(_TIMEOUTS_MS[_SESSION])
    recorded = F.when(is_java, F.col("rebalance")).otherwise(F.col("session"))
    has_interval = (F.col("group_type") == "consumer") & F.lit(broker_release >= "4.3")
    rows = (
        rows.withColumn("heterogeneous", F.col("subscriptions") != F.col("members") * F.col("topics"))
        .withColumn("max_assignor_ms", F.round(_assignor_ms(is_classic), 1))
        .withColumn("timeout", F.when(is_classic, F.when(is_java, _POLL).otherwise(_SESSION)))
        .withColumn("timeout_ms", F.when(is_classic, F.coalesce(recorded, default)).cast("long"))
        .withColumn("timeout_share", F.round(F.col("max_assignor_ms") / F.col("timeout_ms"), 3))
        .withColumn("assignment_interval_ms", F.when(has_interval, _interval_ms()))
    )
    return rows.withColumn("finding", _finding()).select(*ASSIGNOR_TIMES.names)


def _assignor_ms(is_classic: Column) -> Column:
    """Returns the estimated time of the assignor; null if it wasn't measured."""
    partitions, pairs = F.col("partitions"), F.col("members").cast("double") * F.col("partitions")
    library, assignor = F.coalesce("leader_library", F.lit("Java")), F.col("assignor")
    is_sticky = assignor.isin("sticky", "cooperative-sticky")
    linear = LINEAR_MS[0] * partitions + LINEAR_MS[1] * F.col("subscriptions")
    return (
        F.when(~is_classic, F.when(F.col("group_type") == "consumer", BROKER_MS * partitions))
        .when(is_sticky & (library == "librdkafka"), LIBRDKAFKA_MS * F.pow(pairs / 10_000, F.lit(LIBRDKAFKA_POWER)))
        .when(is_sticky & (library == "Java") & F.col("heterogeneous"), HETEROGENEOUS_MS * pairs)
        .when((is_sticky & (library == "Java")) | assignor.isin("range", "roundrobin"), linear)
    )


def _interval_ms() -> Column:
    """Returns the interval with which the assignor takes at most `BUSY` of the time of a thread of the coordinator."""
    seconds = F.col("max_assignor_ms") / 1000
    is_rare = F.coalesce(F.col("rebalances_per_second") * seconds <= BUSY, F.lit(False))
    bounded = F.least(
        F.greatest(F.ceil(F.col("max_assignor_ms") / BUSY), F.lit(DEFAULT_INTERVAL_MS)), F.lit(MAX_INTERVAL_MS)
    )
    return F.when(is_rare, DEFAULT_INTERVAL_MS).otherwise(bounded).cast("long")


def _finding() -> Column:
    """Returns what to change if an assignor takes long, else null."""
    seconds = F.format_number(F.col("max_assignor_ms") / 1000, 1)
    share = F.round(100 * F.col("timeout_share")).cast("long")
    late = F.format_string(
        "%s takes up to %s s, %s %% of %s: raise it, lower members or partitions, or use group.protocol=consumer.",
        *(F.col("assignor"), seconds, share, F.col("timeout")),
    )
    long = F.format_string(
        "%s takes up to %s s in the coordinator: consumer.assignment.interval.ms=%s leaves time for other groups.",
        *(F.coalesce("assignor", F.lit("the assignor")), seconds, F.col("assignment_interval_ms")),
    )
    return F.when(F.col("timeout_share") > NEAR, late).when(F.col("assignment_interval_ms") > DEFAULT_INTERVAL_MS, long)
