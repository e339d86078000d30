"""Alerts of the past: groups that rebalanced more often, or stopped for longer, than somebody allows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import ALERTS, GROUP_KEY

_DAY_S = 86_400


def history_alerts(
    tables: Mapping[str, DataFrame],
    *,
    max_rebalances_a_day: int | None = None,
    max_pause_ms: int | None = None,
    max_unread: int | None = None,
    last_ms: int | None = None,
) -> DataFrame:
    """The groups beyond a threshold, a row for each and each threshold (columns: `tables.groups.ALERTS`), lazily.

    Args:
        tables: groups, rebalances and unread of `tables.history.HISTORY_TABLES`.
        max_rebalances_a_day: so many rebalances of a group are allowed in any 24 hours; a tombstone is none.
        max_pause_ms: so long a partition may stand still around a rebalance.
        max_unread: so many records may be unreadable; one more, and all groups that have any are alerts. `group_id` is
            empty where a record does not even say whose it is.
        last_ms: look only at so much time before the last record of all; null: at everything on record.

    Raises:
        ConfigError: no threshold is given, or one that makes no sense.
    """
    limits = {
        "max_rebalances_a_day": max_rebalances_a_day,
        "max_pause": max_pause_ms,
        "max_unread": max_unread,
    }
    if all(limit is None for limit in limits.values()):
        raise ConfigError("a history needs a threshold: max_rebalances_a_day, max_pause or max_unread")
    for name, limit in limits.items():
        if limit is not None and limit < 0:
            raise ConfigError(f"{name} {limit}: expected 0 or more")
    rebalances, unread = tables["rebalances"].where("state <> 'Dead'"), tables["unread"]
    if last_ms is not None:
        ends = F.broadcast(tables["groups"].agg(F.max("until").alias("ends")))
        rebalances = _since(rebalances, "at", ends, last_ms)
        unread = _since(unread, "timestamp", ends, last_ms)
    found = []
    if max_rebalances_a_day is not None:
        found.append(_too_often(rebalances, max_rebalances_a_day))
    if max_pause_ms is not None:
        found.append(_too_long(rebalances, max_pause_ms))
    if max_unread is not None:
        found.append(_unread(unread, max_unread))
    nothing = {name: F.lit(None).cast("double") for name in ("max_over_mean_before", "max_over_mean_after")}
    return reduce(DataFrame.unionByName, found).withColumns(nothing).select(*ALERTS.fieldNames())


def _since(rows: DataFrame, at: str, ends: DataFrame, last_ms: int) -> DataFrame:
    return rows.crossJoin(ends).where(F.unix_millis(at) >= F.unix_millis("ends") - last_ms).drop("ends")


def _too_often(rebalances: DataFrame, most: int) -> DataFrame:
    """More than so many in some 24 hours: the worst of them."""
    day = Window.partitionBy(*GROUP_KEY).orderBy("at_s").rangeBetween(-_DAY_S, 0)
    many = rebalances.withColumn("at_s", F.unix_seconds("at")).withColumn("many", F.count(F.lit(1)).over(day))
    worst = many.groupBy(*GROUP_KEY).agg(
        F.max("many").alias("many"), F.max_by("at", F.struct("many", "at")).alias("at")
    )
    told = F.format_string(
        "%d rebalances in the 24 hours until %s UTC, %d are allowed", "many", _told("at"), F.lit(most)
    )
    return worst.where(F.col("many") > most).select(*_alert("rebalances"), told.alias("detail"))


def _too_long(rebalances: DataFrame, most_ms: int) -> DataFrame:
    """The longest stop around a rebalance."""
    longest = F.struct("longest_ms", "at", "generation")
    worst = rebalances.where(F.col("longest_ms") > most_ms).groupBy(*GROUP_KEY).agg(F.max(longest).alias("worst"))
    told = F.format_string(
        "a partition stood still for %.0f s at %s UTC (generation %d), %.0f s are allowed",
        F.col("worst.longest_ms") / 1000,
        _told("worst.at"),
        F.col("worst.generation"),
        F.lit(most_ms / 1000),
    )
    return worst.select(*_alert("pause"), told.alias("detail"))


def _unread(unread: DataFrame, most: int) -> DataFrame:
    """What could not be read, by group and code."""
    too_many = unread.limit(most + 1).agg((F.count(F.lit(1)) > most).alias("too_many"))
    group = F.coalesce("group_id", F.lit("")).alias("group_id")
    codes = unread.groupBy("cluster", group, "code").count()
    each = F.format_string("%d %s", "count", "code")
    told = F.concat_ws(", ", F.array_sort(F.collect_list(each)))
    found = codes.groupBy(*GROUP_KEY).agg(F.concat(F.lit("records that could not be read: "), told).alias("detail"))
    return found.crossJoin(F.broadcast(too_many)).where("too_many").select(*_alert("unread"), "detail")


def _alert(kind: str) -> list[Column]:
    return [*(F.col(name) for name in GROUP_KEY), F.lit(kind).alias("alert")]


def _told(at: str) -> Column:
    return F.date_format(F.to_utc_timestamp(at, F.current_timezone()), "yyyy-MM-dd HH:mm:ss")
