"""The report's section of history: tables of groups, deploys, and replays, heat maps, and timelines of groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.report import views as parts
from spark_assign.report.formatting import Row, Rows, count, group_key, group_name, number, without_uuids
from spark_assign.report.html.report_data import DRAWN_GROUPS, MAPPED_GROUPS, MAX_INTERVALS, MOST_ROWS, HistoryRows
from spark_assign.report.html.section_charts import Cell, MemberTimeline, draw_heat_map, draw_member_timeline
from spark_assign.report.listed_groups import (
    any_of,
    collected,
    count_by,
    long_sum,
    num_rows,
    possible_variants,
    variant_preference,
)
from spark_assign.report.text.history import (
    STOPPED,
    newest_rows,
    pause_text,
    summary_lines,
    totals,
    type_of,
    worst_first,
)
from spark_assign.tables.groups import GROUP_KEY

_DAY = 86_400


def build_history_section(rows: HistoryRows) -> dict[str, Any]:
    """Returns what the template shows; `maps` come before the tables."""
    tables = [
        _groups_table(rows),
        parts.table_of("Deploys, crashes, and flapping with the longest pauses", rows.deploys, DEPLOY_COLUMNS),
        _replay_table(rows.replay_summary),
        _unreadable_table(rows.unreadable),
        parts.REJECTED.table(rows.rejected),
    ]
    sentences = [f"{line}." for line in summary_lines(rows.totals, rows.deploy_types)]
    return {"sentences": sentences, "tables": tables, "drawings": _timelines(rows), "maps": heat_maps(rows)}


# --- tables -------------------------------------------------------------------------------------------------------


_PAUSED = parts.figure("Paused", "paused_partition_ms", pause_text)


def _groups_table(rows: HistoryRows) -> parts.Table:
    """Returns the table of groups."""
    total = rows.totals.get("groups", 0)
    return parts.table_of(
        "Groups: flapping groups, then those with the longest pauses in total",
        rows.groups,
        [
            *(parts.GROUP, parts.Column("Type", type_of), parts.words("Assignor", "assignor")),
            *(*parts.figures("rebalances"), parts.figure("Max per day", "max_rebalances_per_day")),
            *(*parts.figures("deploys", "crashes", "members", "partitions"), _PAUSED),
            parts.figure("Longest pause", "longest_pause_ms", pause_text),
            parts.words("Flapping", "flapping"),
        ],
        f"{len(rows.groups):,} of {total:,} groups; the table groups has all." if len(rows.groups) < total else "",
    )


DEPLOY_COLUMNS: parts.Columns = (
    *(parts.GROUP, parts.words("Type", "deploy_type")),
    "start=start_time end=end_time",
    *(*parts.figures("rebalances", "members_before", "members_after"), _PAUSED),
    parts.words("Detail", "detail", without_uuids),
)
"""Columns of `tables.history.DEPLOYS` on a page."""


def _replay_table(rows: Rows) -> parts.Table:
    """Returns the table of replays, with what each would have saved."""
    return parts.table_of(
        "Recorded rebalances with other assignors and protocols",
        rows,
        [
            *(parts.GROUP, parts.words("Assignor", "assignor"), parts.words("Protocol", "protocol")),
            parts.words("Members", "static", lambda static: "static" if static else "dynamic"),
            *(*parts.figures("rebalances", "moved"), _PAUSED),
            parts.Column("Saved", lambda row: "recorded" if row["recorded"] else pause_text(row["saved_ms"]), True),
            parts.words("Note", "note"),
        ],
    )


def _unreadable_table(rows: Mapping[str, int]) -> parts.Table:
    cells = [[code, number(num_records)] for code, num_records in rows.items()]
    note = "The table unreadable has the records."
    return parts.Table("Unreadable records", [("Code", False), ("Records", True)], cells, note)


# --- charts -------------------------------------------------------------------------------------------------------


def heat_maps(rows: HistoryRows) -> list[parts.Drawing]:
    """Returns the heat maps of rebalances and pauses over time."""
    if not rows.time_buckets:
        return []
    keys = [group_key(row) for row in rows.groups if row["rebalances"]][:MAPPED_GROUPS]
    index_by_key = {key: index for index, key in enumerate(keys)}
    buckets = [row["time_bucket"] for row in rows.time_buckets]
    first = min(buckets)
    labels = [_bucket_label(bucket * rows.width_s, rows.width_s) for bucket in range(first, max(buckets) + 1)]
    names = ["/".join(key) for key in keys]
    maps = []
    for ordinal, (title, column, unit) in enumerate(
        (("Rebalances", "rebalances", "rebalances"), ("Paused partition-time", "paused_partition_ms", "paused")), 1
    ):
        cells = [
            Cell(
                index_by_key[group_key(row)],
                row["time_bucket"] - first,
                row[column],
                number(row[column]) if column == "rebalances" else _short_duration(row[column] / 1000),
            )
            for row in rows.time_buckets
            if (row[column] or 0) > 0 and group_key(row) in index_by_key
        ]
        if cells:
            cells.sort(key=lambda each: (each.row, each.column))
            heading = f"{title}: each column is {_bucket_width_text(rows.width_s)}, times in UTC"
            chart = draw_heat_map(names, labels, cells, f"heat{ordinal}", f"{title} by group", unit)
            maps.append(parts.Drawing(heading, chart))
    return maps


def _bucket_label(start_s: int, width_s: int) -> str:
    start = datetime.fromtimestamp(start_s, UTC)
    return f"{start:%H:%M:%S}" if width_s < 60 else f"{start:%d %b %H:%M}" if width_s < _DAY else f"{start:%d %b}"


def _bucket_width_text(seconds: int) -> str:
    units = ((_DAY, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
    unit_seconds, noun = next(unit for unit in units if seconds % unit[0] == 0)
    return count(seconds // unit_seconds, noun)


def _short_duration(seconds: float) -> str:
    """Returns a duration that fits in a cell: 45s, 12m, 3h, 41d."""
    for unit_seconds, unit in ((_DAY, "d"), (3_600, "h"), (60, "m")):
        if seconds >= 2 * unit_seconds:
            return f"{seconds / unit_seconds:.0f}{unit}"
    return f"{seconds:.0f}s" if seconds >= 1 else "<1s"


def _timelines(rows: HistoryRows) -> list[parts.Drawing]:
    rebalances, pauses = parts.by_group(rows.rebalances), parts.by_group(rows.pauses)
    drawn = [(group_key(row), row) for row in rows.groups if group_key(row) in rebalances][:DRAWN_GROUPS]
    return [_timeline(ordinal, row, rebalances[key], pauses[key]) for ordinal, (key, row) in enumerate(drawn, start=1)]


def _timeline(ordinal: int, group: Row, rebalances: Rows, pauses: Rows) -> parts.Drawing:
    """Draws the rebalances and pauses of a group over time."""
    first, last = rebalances[0], rebalances[-1]
    pauses = [row for row in pauses if row["end_time"] >= first["time"]]
    generations = f"generation {first['generation_id']:,}"
    if len(rebalances) > 1:
        generations = f"generations {first['generation_id']:,} to {last['generation_id']:,}"
    summary = f"{count(len(rebalances), 'rebalance')}, {generations}"
    paused = pause_text(group["paused_partition_ms"])
    timeline = MemberTimeline(
        [(_to_ms(row["time"]), row["generation_id"], row["members"]) for row in rebalances],
        [(_to_ms(row["start_time"]), _to_ms(row["end_time"]), row["partitions"]) for row in pauses],
        f"{summary}; {count(len(pauses), 'pause')}; rebalances paused partitions for {paused} in total.",
    )
    name = group_name(group)
    heading = f"{name}{', flapping' if group['flapping'] else ''}: {summary}"
    return parts.Drawing(heading, draw_member_timeline(timeline, f"past{ordinal}", f"{name} over time"))


def _to_ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)


# --- queries ------------------------------------------------------------------------------------------------------

MAX_LISTED = 60
"""Maximum number of rows in the tables of groups, deploys, and replays."""

_HOUR = 3_600
_BUCKET_SECONDS = (10, 60, 300, _HOUR, 6 * _HOUR, _DAY, 7 * _DAY, 28 * _DAY)


def history_rows(tables: Mapping[str, DataFrame]) -> HistoryRows:
    """Returns the rows that the page shows of a history.

    Args:
        tables: `tables.history.HISTORY_TABLES` by name, and optionally `replay_summary`.
    """
    (total,) = collected(totals(tables["groups"]))
    groups = collected(tables["groups"].orderBy(*worst_first()).limit(MAX_LISTED))
    deploys = tables["deploys"].orderBy(F.desc_nulls_last("paused_partition_ms"), *GROUP_KEY, "start_time")
    rows = HistoryRows(
        totals=total,
        groups=groups,
        deploys=collected(deploys.limit(MAX_LISTED)),
        deploy_types=count_by(tables["deploys"], "deploy_type"),
        unreadable=count_by(tables["unreadable"], "code"),
        replay_summary=collected(_best_variants(tables["replay_summary"])) if "replay_summary" in tables else (),
        rejected=collected(tables["rejected"].orderBy(*GROUP_KEY, "code").limit(MOST_ROWS)),
    )
    rebalanced = [row for row in groups if row["rebalances"]]
    if not rebalanced:
        return rows
    width_s = bucket_seconds(total["start_time"], total["end_time"])
    mapped, drawn = any_of(rebalanced[:MAPPED_GROUPS]), any_of(rebalanced[:DRAWN_GROUPS])
    return replace(
        rows,
        width_s=width_s,
        time_buckets=collected(time_buckets(tables["rebalances"].where(mapped), width_s)),
        rebalances=newest_rows(tables["rebalances"].where(drawn), ("time", "generation_id"), MOST_ROWS),
        pauses=newest_rows(tables["pauses"].where(drawn).where(STOPPED), ("start_time", "end_time"), MOST_ROWS),
    )


def bucket_seconds(start: datetime, end: datetime) -> int:
    """Returns the width of the columns of a heat map, in seconds: there are at most MAX_INTERVALS columns."""
    length = (end - start).total_seconds()
    days = int(length // (MAX_INTERVALS - 1) // _DAY + 1) * _DAY
    return next((width for width in _BUCKET_SECONDS if length <= width * (MAX_INTERVALS - 1)), days)


def time_buckets(rebalances: DataFrame, width_s: int) -> DataFrame:
    """Returns one row per group and time bucket in which it rebalanced; they are few."""
    time_bucket = F.floor(F.unix_seconds("time") / width_s).alias("time_bucket")
    sums = rebalances.groupBy(*GROUP_KEY, time_bucket).agg(num_rows("rebalances"), long_sum("paused_partition_ms"))
    return sums.limit(MAPPED_GROUPS * MAX_INTERVALS)


def _best_variants(summary: DataFrame) -> DataFrame:
    """Returns the recorded variant and the one with the largest saving of each group, largest savings first."""
    largest_saving = (F.desc_nulls_last("saved_ms"), variant_preference(), "static")
    nth = F.row_number().over(Window.partitionBy(*GROUP_KEY, "recorded").orderBy(*largest_saving))
    best = possible_variants(summary).withColumn("nth", nth).where("nth = 1").drop("nth")
    saved = F.max("saved_ms").over(Window.partitionBy(*GROUP_KEY))
    ordered = best.withColumn("saved", saved).orderBy(F.desc_nulls_last("saved"), *GROUP_KEY, F.desc("recorded"))
    return ordered.limit(MAX_LISTED).drop("saved")
