"""From the history of groups to the rows of a report (bounds: `rows`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.report.html.bounded_collect import any_of, collected
from spark_assign.report.html.report_data import DRAWN_GROUPS, MAPPED_GROUPS, MAX_INTERVALS, MOST_ROWS, HistoryRows
from spark_assign.report.text.history import totals, worst_first
from spark_assign.tables.groups import GROUP_KEY

LISTED = 60
"""Rows of groups, of deploys, and of what would have saved."""

_HOUR, _DAY = 3_600, 86_400
_WIDTHS = (10, 60, 300, _HOUR, 6 * _HOUR, _DAY, 7 * _DAY, 28 * _DAY)


def history_rows(tables: Mapping[str, DataFrame]) -> HistoryRows:
    """What the page shows of a history.

    Args:
        tables: `tables.history.HISTORY_TABLES` by name, and `replayed` where it was asked for.
    """
    found = collected(totals(tables["groups"]))[0]
    groups = collected(tables["groups"].orderBy(*worst_first()).limit(LISTED))
    rows = HistoryRows(
        totals=found,
        groups=groups,
        deploys=collected(
            tables["deploys"].orderBy(F.desc_nulls_last("stopped_ms"), *GROUP_KEY, "since").limit(LISTED)
        ),
        whats=collected(_counted(tables["deploys"], "what")),
        unread=collected(_counted(tables["unread"], "code")),
        replayed=collected(_saving(tables["replayed"])) if "replayed" in tables else (),
        rejected=collected(tables["rejected"].orderBy(*GROUP_KEY, "code").limit(MOST_ROWS)),
    )
    rebalanced = [row for row in groups if row["rebalances"]]
    if not rebalanced:
        return rows
    wide = width(found["since"], found["until"])
    drawn = any_of(rebalanced[:DRAWN_GROUPS])
    return replace(
        rows,
        wide_s=wide,
        time_buckets=collected(_time_buckets(tables["rebalances"].where(any_of(rebalanced[:MAPPED_GROUPS])), wide)),
        rebalances=collected(_newest(tables["rebalances"].where(drawn), "at", "generation")),
        pauses=collected(_newest(tables["pauses"].where(drawn), "since", "until")),
    )


def width(since: datetime, until: datetime) -> int:
    """How wide a time bucket of a heat map is, in seconds, so that there are few."""
    whole = (until - since).total_seconds()
    return next((wide for wide in _WIDTHS if whole <= wide * (MAX_INTERVALS - 1)), _in_years(whole))


def _in_years(whole: float) -> int:
    return int(whole // (MAX_INTERVALS - 1) // _DAY + 1) * _DAY


def _counted(table: DataFrame, name: str) -> DataFrame:
    return table.groupBy(name).agg(F.count(F.lit(1)).alias("number")).orderBy(F.desc("number"), name)


def _time_buckets(rebalances: DataFrame, wide: int) -> DataFrame:
    """A row per group and time bucket in which it rebalanced; all of them are few."""
    time_bucket = F.floor(F.unix_seconds("at") / wide).alias("time_bucket")
    added = rebalances.groupBy(*GROUP_KEY, time_bucket).agg(
        F.count(F.lit(1)).alias("rebalances"), F.sum("stopped_ms").alias("stopped_ms")
    )
    return added.limit(MAPPED_GROUPS * MAX_INTERVALS)


def _newest(table: DataFrame, *by: str) -> DataFrame:
    """The newest of each group, in order."""
    newest = Window.partitionBy(*GROUP_KEY).orderBy(*(F.desc(name) for name in by))
    kept = table.withColumn("nth", F.row_number().over(newest)).where(F.col("nth") <= MOST_ROWS)
    return kept.orderBy(*GROUP_KEY, F.desc("nth")).drop("nth")


def _saving(replayed: DataFrame) -> DataFrame:
    """Of each group the way that would have saved most, and the one it went."""
    saves = Window.partitionBy(*GROUP_KEY, "recorded").orderBy(
        F.desc_nulls_last("saved_ms"), "stopped_ms", "assignor", "protocol", "static"
    )
    best = replayed.withColumn("nth", F.row_number().over(saves)).where(F.col("nth") == 1).drop("nth")
    of_group = F.max("saved_ms").over(Window.partitionBy(*GROUP_KEY))
    ordered = best.withColumn("most", of_group).orderBy(F.desc_nulls_last("most"), *GROUP_KEY, F.desc("recorded"))
    return ordered.limit(LISTED).drop("most")
