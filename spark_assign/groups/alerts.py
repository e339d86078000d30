"""Alerts: the groups of a plan that exceed a threshold.

Covers groups that can't be planned, and groups whose largest member has grown relative to the mean since an earlier run
although the partitions could be spread more evenly; and Streams groups that restore too much, or for too long.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.spark.engine import divide
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import ALERTS
from spark_assign.tables.parameters import Param


@dataclass(frozen=True)
class AlertLimits:
    """Thresholds of alerts; None: no alert.

    Attributes:
        max_growth: alert if max/mean of a group that could be balanced better grows by this factor.
        max_rejected: alert if more groups and Connect clusters are rejected.
        max_moved_without_state: alert if more active tasks of a Streams group move to a process without their state.
        max_restore_ms: alert if a classic Streams application restores state for longer, for example 10m. The plan
            needs the option --restore-bytes-per-second.
        max_rebalances_per_day: alert if a group has more rebalances in 24 hours.
        max_pause_ms: alert if a rebalance pauses a partition longer, for example 30s.
        max_unreadable: alert if more records can't be decoded.
        lookback_ms: check only the last part of the history, for example 1d (default: all).
    """

    max_growth: Annotated[float, Param(least=1)] = 1.25
    max_rejected: Annotated[int, Param(least=0)] = 0
    max_moved_without_state: Annotated[int | None, Param(least=0)] = None
    max_restore_ms: Annotated[int | None, Param(least=0, flag="max_restore_time")] = None
    max_rebalances_per_day: Annotated[int | None, Param(least=0)] = None
    max_pause_ms: Annotated[int | None, Param(least=0)] = None
    max_unreadable: Annotated[int | None, Param(least=0)] = None
    lookback_ms: Annotated[int | None, Param(least=0)] = None


@dataclass(frozen=True)
class DailyLimits(AlertLimits):
    """Thresholds of the page of the day."""

    max_rebalances_per_day: Annotated[int | None, Param(least=0)] = 20
    max_pause_ms: Annotated[int | None, Param(least=0)] = 120_000


OF_PLANS = ("max_growth", "max_rejected")
OF_STREAMS = ("max_moved_without_state", "max_restore_ms")
OF_HISTORY = ("max_rebalances_per_day", "max_pause_ms", "max_unreadable")
"""Limits by what they are about."""

THRESHOLDS = {
    "imbalance": "max_growth",
    "rejected": "max_rejected",
    "rebalances": "max_rebalances_per_day",
    "pause": "max_pause",
    "unreadable": "max_unreadable",
    "without-state": "max_moved_without_state",
    "restore": "max_restore_time",
}
"""Alert types and the threshold of each; `rebalances`, `pause`, and `unreadable` concern history (`history.alerts`)."""

_SAME = 1e-9
"""Tolerance for quotients of equal counts, which can differ in the last bits."""


def alerts(
    rejected: DataFrame,
    drifted: DataFrame | None = None,
    *,
    max_growth: float = AlertLimits.max_growth,
    max_rejected: int = 0,
) -> DataFrame:
    """Returns one row per group that exceeds a threshold (columns: `tables.groups.ALERTS`), lazily.

    Args:
        rejected: the table `rejected` of a plan: cluster, group_id, code, detail.
        drifted: the table `groups` of the drift from an earlier run to this plan; None if there is no earlier run.
        max_growth: maximum allowed quotient of max over mean after and before. A distribution that can't be more even
            (5 partitions on 8 members have 1.60) raises no alert, however much it has grown; nor does a new group.
        max_rejected: maximum number of rejected groups; if exceeded, all of them are alerts.

    Raises:
        ConfigError: a threshold is out of range.
    """
    if not max_growth >= 1:
        raise ConfigError(f"max_growth {max_growth}: expected 1 or more, for example 1.25 for 25 % growth")
    if max_rejected < 0:
        raise ConfigError(f"max_rejected {max_rejected}: expected 0 or more")
    too_many = rejected.limit(max_rejected + 1).agg((F.count(F.lit(1)) > max_rejected).alias("too_many"))
    groups = rejected.crossJoin(F.broadcast(too_many)).where("too_many")
    groups = _without_balance(groups, "rejected", F.concat_ws(": ", "code", "detail"))
    if drifted is not None:
        groups = groups.unionByName(_grown(drifted, max_growth))
    return groups.select(*ALERTS.fieldNames())


def _grown(drifted: DataFrame, max_growth: float) -> DataFrame:
    """Returns an alert for each group that is less balanced than before, and less than it could be."""
    before, after = F.col("max_over_mean_before"), F.col("max_over_mean_after")
    mean = divide(F.col("partitions_after"), F.col("members_after"))
    most_even = divide(F.ceil(mean), mean)  # the most even distribution
    exceeds = (after > before * max_growth + _SAME) & (after > most_even + _SAME)
    names = ("members", "partitions")
    counts = (F.format_string(f"%d → %d {name}", f"{name}_before", f"{name}_after") for name in names)
    return drifted.where(exceeds).select(
        "cluster",
        "group_id",
        F.lit("imbalance").alias("alert"),
        "max_over_mean_before",
        "max_over_mean_after",
        F.concat_ws(", ", F.format_string("%.2f would be even", most_even), *counts).alias("detail"),
    )


def streams_alerts(
    metrics: DataFrame, *, max_moved_without_state: int | None = None, max_restore_ms: int | None = None
) -> DataFrame:
    """Returns one row per Streams group and exceeded threshold (columns: `tables.groups.ALERTS`), lazily.

    Args:
        metrics: the table `metrics` of a plan (`tables.streams.METRICS`).
        max_moved_without_state: maximum number of active tasks of a group that move to a process without their state.
        max_restore_ms: maximum time until every task of a classic application is at its final owner and all state is
            restored, in milliseconds. Applications that aren't followed (`rounds`) raise no alert.

    Raises:
        ConfigError: a threshold is negative.
    """
    for name, limit in (("max_moved_without_state", max_moved_without_state), ("max_restore_ms", max_restore_ms)):
        if limit is not None and limit < 0:
            raise ConfigError(f"{name} {limit}: expected 0 or more")
    moved, seconds = F.lit(max_moved_without_state), F.lit((max_restore_ms or 0) / 1000)
    detail = "%d of %d tasks move without their state; the limit is %d"
    without_state = F.format_string(detail, "moved_without_state", "tasks", moved)
    after = F.when(F.col("caught_up_seconds").isNotNull(), F.format_string("after %.0f s", "caught_up_seconds"))
    time = after.when(F.col("never_caught_up") > 0, "never").otherwise("after more rebalances than planned")
    late = F.concat(F.lit("caught up "), time, F.format_string("; the limit is %.0f s", seconds))
    never = F.col("probing_rebalances").isNotNull() & F.col("caught_up_seconds").isNull()
    exceeds = F.coalesce((F.col("caught_up_seconds") > seconds) | never, F.lit(False))
    groups = _without_balance(metrics.where(F.col("moved_without_state") > moved), "without-state", without_state)
    restoring = metrics.where(exceeds & F.lit(max_restore_ms is not None))
    return groups.unionByName(_without_balance(restoring, "restore", late))


def _without_balance(rows: DataFrame, alert: str, detail: Column) -> DataFrame:
    """Returns the rows as alerts that don't concern balance."""
    nulls = (F.lit(None).cast("double").alias(name) for name in ("max_over_mean_before", "max_over_mean_after"))
    return rows.select("cluster", "group_id", F.lit(alert).alias("alert"), *nulls, detail.alias("detail"))


def cluster_times(groups: DataFrame, read_at: datetime | None = None) -> DataFrame:
    """Returns cluster, `start`, and `end`: the times of its first and last record, but no `end` after `read_at`.

    Otherwise, one record from a clock that is ahead would end the time range of all groups of its cluster years later.
    If all records of a cluster are later, the clock of this machine is behind, and their times count.

    Args:
        groups: `groups` of a history.
        read_at: when the records were read (default: now).
    """
    read = F.timestamp_micros(F.lit(round((read_at or datetime.now(UTC)).timestamp() * 1e6)))
    first, last = F.min("start_time"), F.max("end_time")
    end = F.when(first > read, last).otherwise(F.least(last, read))
    return groups.groupBy("cluster").agg(first.alias("start"), end.alias("end"))
