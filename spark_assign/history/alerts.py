"""Finds alerts in a history: groups that rebalanced more often, or paused for longer, than thresholds allow."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.groups.alerts import cluster_times
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import ALERTS, GROUP_KEY

_DAY_SECONDS = 86_400


def history_alerts(
    tables: Mapping[str, DataFrame],
    *,
    max_rebalances_per_day: int | None = None,
    max_pause_ms: int | None = None,
    max_unreadable: int | None = None,
    lookback_ms: int | None = None,
    read_at: datetime | None = None,
) -> DataFrame:
    """Returns a row per group and exceeded threshold (columns: `tables.groups.ALERTS`), lazily.

    Args:
        tables: groups, rebalances, and unreadable of `tables.history.HISTORY_TABLES`.
        max_rebalances_per_day: maximum number of rebalances of a group within any 24 hours, without tombstones and
            idle epochs.
        max_pause_ms: maximum pause of a partition around a rebalance, in milliseconds.
        max_unreadable: maximum number of unreadable records. If there are more, all groups with unreadable records are
            alerts. `group_id` is empty if a record doesn't even name its group.
        lookback_ms: length of the time range before the last record of each cluster that is considered, in
            milliseconds; None for all time.
        read_at: when the records were read (default: now).

    Raises:
        ConfigError: no threshold is given, or one is negative.
    """
    limits = {
        "max_rebalances_per_day": max_rebalances_per_day,
        "max_pause_ms": max_pause_ms,
        "max_unreadable": max_unreadable,
    }
    if all(limit is None for limit in limits.values()):
        raise ConfigError(f"No threshold given. Give at least one of {', '.join(limits)}.")
    for name, limit in limits.items():
        if limit is not None and limit < 0:
            raise ConfigError(f"{name} {limit}: expected 0 or more")
    rebalances, unreadable = tables["rebalances"].where("state <> 'Dead' AND NOT idle"), tables["unreadable"]
    if lookback_ms is not None:
        ends = F.broadcast(cluster_times(tables["groups"], read_at).drop("start"))
        rebalances = _filter_lookback(rebalances, "time", ends, lookback_ms)
        unreadable = _filter_lookback(unreadable, "timestamp", ends, lookback_ms)
    finders = (
        (_frequent_rebalances, rebalances, max_rebalances_per_day),
        (_long_pauses, rebalances, max_pause_ms),
        (_unreadable_records, unreadable, max_unreadable),
    )
    alerts = [find(rows, limit) for find, rows, limit in finders if limit is not None]
    balance = dict.fromkeys(("max_over_mean_before", "max_over_mean_after"), F.lit(None).cast("double"))
    return reduce(DataFrame.unionByName, alerts).withColumns(balance).select(*ALERTS.fieldNames())


def _filter_lookback(rows: DataFrame, time_column: str, ends: DataFrame, lookback_ms: int) -> DataFrame:
    """Returns the rows of the last `lookback_ms` milliseconds before the end of the records of their cluster, and those
    of clusters without an end."""
    in_last = F.unix_millis(time_column) >= F.unix_millis("end") - lookback_ms
    return rows.join(ends, "cluster", "left").where(F.coalesce(in_last, F.isnull("end"))).drop("end")


def _frequent_rebalances(rebalances: DataFrame, max_rebalances: int) -> DataFrame:
    """Returns groups with too many rebalances within 24 hours, with the largest number."""
    # A window counts its rows again for each row, so there is one for each second.
    by_second = rebalances.groupBy(*GROUP_KEY, F.unix_seconds("time").alias("second"))
    seconds = by_second.agg(F.max("time").alias("time"), F.count(F.lit(1)).alias("rebalances"))
    day = Window.partitionBy(*GROUP_KEY).orderBy("second").rangeBetween(-_DAY_SECONDS, 0)
    counts = seconds.select(*GROUP_KEY, "time", F.sum("rebalances").over(day).alias("count"))
    worst = counts.groupBy(*GROUP_KEY).agg(F.max(F.struct("count", "time")).alias("worst"))
    detail = F.format_string(
        "%d rebalances in the 24 hours before %s UTC; the limit is %d",
        F.col("worst.count"),
        _format_utc("worst.time"),
        F.lit(max_rebalances),
    )
    return worst.where(F.col("worst.count") > max_rebalances).select(*_alert("rebalances"), detail.alias("detail"))


def _long_pauses(rebalances: DataFrame, max_pause_ms: int) -> DataFrame:
    """Returns groups with a pause that is too long, with the longest pause around a rebalance."""
    pause = F.struct("longest_pause_ms", "time", "generation_id")
    worst = (
        rebalances.where(F.col("longest_pause_ms") > max_pause_ms).groupBy(*GROUP_KEY).agg(F.max(pause).alias("worst"))
    )
    detail = F.format_string(
        "a partition paused for %.0f s at %s UTC (generation %d); the limit is %.0f s",
        F.col("worst.longest_pause_ms") / 1000,
        _format_utc("worst.time"),
        F.col("worst.generation_id"),
        F.lit(max_pause_ms / 1000),
    )
    return worst.select(*_alert("pause"), detail.alias("detail"))


def _unreadable_records(unreadable: DataFrame, max_unreadable: int) -> DataFrame:
    """Returns the number of unreadable records by group and code, if there are too many in total."""
    too_many = unreadable.limit(max_unreadable + 1).agg((F.count(F.lit(1)) > max_unreadable).alias("too_many"))
    group = F.coalesce("group_id", F.lit("")).alias("group_id")
    codes = unreadable.groupBy("cluster", group, "code").count()
    counts = F.concat_ws(", ", F.array_sort(F.collect_list(F.format_string("%d %s", "count", "code"))))
    detail = F.concat(F.lit("unreadable records: "), counts).alias("detail")
    alerts = codes.groupBy(*GROUP_KEY).agg(detail)
    return alerts.crossJoin(F.broadcast(too_many)).where("too_many").select(*_alert("unreadable"), "detail")


def _alert(alert_type: str) -> list[Column]:
    return [*(F.col(name) for name in GROUP_KEY), F.lit(alert_type).alias("alert")]


def _format_utc(time_column: str) -> Column:
    return F.date_format(F.to_utc_timestamp(time_column, F.current_timezone()), "yyyy-MM-dd HH:mm:ss")
