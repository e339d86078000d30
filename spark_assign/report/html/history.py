"""The report's section of history: what groups have been through, in tables, as heat maps, and group by group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.report.formatting import DASH, cell, count, duration, group_name, number, without_uuids
from spark_assign.report.html.report_data import (
    DRAWN_GROUPS,
    MAPPED_GROUPS,
    MAX_INTERVALS,
    MOST_ROWS,
    HistoryRows,
    Row,
    Rows,
    any_of,
    collected,
)
from spark_assign.report.html.section_charts import Cell, MemberTimeline, draw_heat_map, draw_member_timeline
from spark_assign.report.html.section_parts import Drawing, Table, by_group, rejected_table
from spark_assign.report.text.history import format_time, summary_lines, totals, type_of, worst_first
from spark_assign.tables.groups import GROUP_KEY

_DAY = 86_400


@dataclass(frozen=True)
class HistorySection:
    """What groups have been through."""

    said: Sequence[str]
    tables: Sequence[Table]
    maps: Sequence[Drawing]
    drawings: Sequence[Drawing]


def build_history_section(rows: HistoryRows) -> HistorySection:
    """What groups have been through; see `HistoryRows`."""
    whats = {row["what"]: row["number"] for row in rows.whats}
    tables = [
        _groups_table(rows),
        _deploys_table(rows.deploys),
        _replayed_table(rows.replayed),
        _unreadable_table(rows.unreadable),
    ]
    if rows.rejected:
        tables.append(rejected_table(rows.rejected))
    said = [f"{line}." for line in summary_lines(rows.totals, whats)]
    return HistorySection(said, [table for table in tables if table.rows], _heat_maps(rows), _timelines(rows))


# --- tables ---------------------------------------------------------------------------------------------------


def _groups_table(rows: HistoryRows) -> Table:
    titles = ("Rebalances", "Worst day", "Deploys", "Crashes", "Members", "Partitions", "Stopped", "Longest stop")
    figures = ("rebalances", "most_in_a_day", "deploys", "crashes", "members", "partitions")
    total = rows.totals.get("groups", 0)
    return Table(
        "Groups: those that flap, then those that stopped longest",
        [
            ("Group", False),
            ("Type", False),
            ("Assignor", False),
            *((title, True) for title in titles),
            ("Flapping", False),
        ],
        [
            [
                *(group_name(row), type_of(row), cell(row["assignor"])),
                *(number(row[name]) for name in figures),
                *(_duration_ms(row[name]) for name in ("stopped_ms", "longest_ms")),
                cell(row["flapping"]),
            ]
            for row in rows.groups
        ],
        f"Shown are {len(rows.groups):,} of {total:,}; the table groups has all." if len(rows.groups) < total else "",
    )


def _deploys_table(rows: Rows) -> Table:
    titles = ("Rebalances", "Members before", "after", "Stopped")
    return Table(
        "Deploys, crashes and the like that stopped longest",
        [
            *((title, False) for title in ("Group", "What", "Since", "Until")),
            *((title, True) for title in titles),
            ("Detail", False),
        ],
        [
            [
                *(group_name(row), row["what"], format_time(row["since"]), format_time(row["until"])),
                *(number(row[name]) for name in ("rebalances", "members_before", "members_after")),
                *(_duration_ms(row["stopped_ms"]), without_uuids(row["detail"])),
            ]
            for row in rows
        ],
    )


def _replayed_table(rows: Rows) -> Table:
    return Table(
        "What the same past would have cost otherwise",
        [
            *((title, False) for title in ("Group", "Assignor", "Protocol", "Members")),
            *((title, True) for title in ("Rebalances", "Moved", "Stopped", "Saved")),
            ("Note", False),
        ],
        [
            [
                *(group_name(row), row["assignor"], row["protocol"], "static" if row["static"] else "dynamic"),
                *(number(row["rebalances"]), number(row["moved"]), _duration_ms(row["stopped_ms"])),
                "as it was" if row["recorded"] else _duration_ms(row["saved_ms"]),
                row["note"],
            ]
            for row in rows
        ],
    )


def _unreadable_table(rows: Rows) -> Table:
    return Table(
        "Records that could not be read",
        [("Why", False), ("Records", True)],
        [[row["code"], number(row["number"])] for row in rows],
        "The table unreadable has them, as they are.",
    )


def _duration_ms(ms: int | None) -> str:
    return DASH if ms is None else duration(ms / 1000)


# --- pictures -------------------------------------------------------------------------------------------------


def _heat_maps(rows: HistoryRows) -> list[Drawing]:
    if not rows.time_buckets:
        return []
    keys = [(row["cluster"], row["group_id"]) for row in rows.groups if row["rebalances"]][:MAPPED_GROUPS]
    first = min(row["time_bucket"] for row in rows.time_buckets)
    columns = range(first, max(row["time_bucket"] for row in rows.time_buckets) + 1)
    labels = [_bucket_label(time_bucket * rows.wide_s, rows.wide_s) for time_bucket in columns]
    names = ["/".join(key) for key in keys]

    def cells(value: Callable[[Row], int | None], words: Callable[[int], str]) -> list[Cell]:
        found = []
        for row in rows.time_buckets:
            key, cell_value = (row["cluster"], row["group_id"]), value(row)
            if cell_value and key in keys:
                found.append(Cell(keys.index(key), row["time_bucket"] - first, cell_value, words(cell_value)))
        return sorted(found, key=lambda each: (each.row, each.column))

    wide = f"each column is {_bucket_width_text(rows.wide_s)}, times in UTC"
    counted = cells(lambda row: row["rebalances"], number)
    stopped = cells(lambda row: row["stopped_ms"], lambda ms: _short_duration(ms / 1000))
    maps = [("Rebalances", counted, "rebalances"), ("Partition-time stopped", stopped, "stopped")]
    return [
        Drawing(f"{title}: {wide}", draw_heat_map(names, labels, each, f"heat{at}", f"{title} by group", unit))
        for at, (title, each, unit) in enumerate(maps, start=1)
        if each
    ]


def _bucket_label(at: int, wide: int) -> str:
    begin = datetime.fromtimestamp(at, UTC)
    return f"{begin:%H:%M:%S}" if wide < 60 else f"{begin:%d %b %H:%M}" if wide < _DAY else f"{begin:%d %b}"


def _bucket_width_text(seconds: int) -> str:
    units = ((_DAY, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
    one, noun = next(each for each in units if seconds % each[0] == 0)
    return count(seconds // one, noun)


def _short_duration(seconds: float) -> str:
    """A time in a cell: 45s, 12m, 3h, 41d."""
    for one, unit in ((_DAY, "d"), (3_600, "h"), (60, "m")):
        if seconds >= 2 * one:
            return f"{seconds / one:.0f}{unit}"
    return f"{seconds:.0f}s" if seconds >= 1 else "<1s"


def _timelines(rows: HistoryRows) -> list[Drawing]:
    rebalances, pauses = by_group(rows.rebalances), by_group(rows.pauses)
    drawn = [row for row in rows.groups if (row["cluster"], row["group_id"]) in rebalances][:DRAWN_GROUPS]
    return [_timeline(at, row, rebalances, pauses) for at, row in enumerate(drawn, start=1)]


def _timeline(
    at: int, group: Row, rebalances: Mapping[tuple[str, str], Rows], pauses: Mapping[tuple[str, str], Rows]
) -> Drawing:
    key = (group["cluster"], group["group_id"])
    mine = rebalances[key]
    begin = mine[0]["at"]
    still = [row for row in pauses.get(key, ()) if row["until"] >= begin]
    generations = (
        f"generation {mine[0]['generation']:,}"
        if len(mine) == 1
        else f"generations {mine[0]['generation']:,} to {mine[-1]['generation']:,}"
    )
    stopped = _duration_ms(group["stopped_ms"])
    said = f"{count(len(mine), 'rebalance')}, {generations}; {count(len(still), 'pause')}, {stopped}"
    past = MemberTimeline(
        [(_to_ms(row["at"]), row["generation"], row["members"]) for row in mine],
        [(_to_ms(row["since"]), _to_ms(row["until"]), row["partitions"]) for row in still],
        f"{said} of partition-time stopped by rebalances.",
    )
    flaps = ", flapping" if group["flapping"] else ""
    heading = f"{'/'.join(key)}{flaps}: {count(len(mine), 'rebalance')}, {generations}"
    return Drawing(heading, draw_member_timeline(past, f"past{at}", f"{'/'.join(key)} over time"))


def _to_ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


MAX_LISTED = 60
"""Rows of groups, of deploys, and of what would have saved."""

_HOUR, _DAY = 3_600, 86_400
_BUCKET_SECONDS = (10, 60, 300, _HOUR, 6 * _HOUR, _DAY, 7 * _DAY, 28 * _DAY)


def history_rows(tables: Mapping[str, DataFrame]) -> HistoryRows:
    """What the page shows of a history.

    Args:
        tables: `tables.history.HISTORY_TABLES` by name, and `replayed` where it was asked for.
    """
    found = collected(totals(tables["groups"]))[0]
    groups = collected(tables["groups"].orderBy(*worst_first()).limit(MAX_LISTED))
    rows = HistoryRows(
        totals=found,
        groups=groups,
        deploys=collected(
            tables["deploys"].orderBy(F.desc_nulls_last("stopped_ms"), *GROUP_KEY, "since").limit(MAX_LISTED)
        ),
        whats=collected(_count_by(tables["deploys"], "what")),
        unreadable=collected(_count_by(tables["unreadable"], "code")),
        replayed=collected(_best_replays(tables["replayed"])) if "replayed" in tables else (),
        rejected=collected(tables["rejected"].orderBy(*GROUP_KEY, "code").limit(MOST_ROWS)),
    )
    rebalanced = [row for row in groups if row["rebalances"]]
    if not rebalanced:
        return rows
    wide = bucket_seconds(found["since"], found["until"])
    drawn = any_of(rebalanced[:DRAWN_GROUPS])
    return replace(
        rows,
        wide_s=wide,
        time_buckets=collected(_time_buckets(tables["rebalances"].where(any_of(rebalanced[:MAPPED_GROUPS])), wide)),
        rebalances=collected(_newest_rows(tables["rebalances"].where(drawn), "at", "generation")),
        pauses=collected(_newest_rows(tables["pauses"].where(drawn), "since", "until")),
    )


def bucket_seconds(since: datetime, until: datetime) -> int:
    """How wide a time bucket of a heat map is, in seconds, so that there are few."""
    whole = (until - since).total_seconds()
    return next((wide for wide in _BUCKET_SECONDS if whole <= wide * (MAX_INTERVALS - 1)), _whole_days(whole))


def _whole_days(whole: float) -> int:
    return int(whole // (MAX_INTERVALS - 1) // _DAY + 1) * _DAY


def _count_by(table: DataFrame, name: str) -> DataFrame:
    return table.groupBy(name).agg(F.count(F.lit(1)).alias("number")).orderBy(F.desc("number"), name)


def _time_buckets(rebalances: DataFrame, wide: int) -> DataFrame:
    """A row per group and time bucket in which it rebalanced; all of them are few."""
    time_bucket = F.floor(F.unix_seconds("at") / wide).alias("time_bucket")
    added = rebalances.groupBy(*GROUP_KEY, time_bucket).agg(
        F.count(F.lit(1)).alias("rebalances"), F.sum("stopped_ms").alias("stopped_ms")
    )
    return added.limit(MAPPED_GROUPS * MAX_INTERVALS)


def _newest_rows(table: DataFrame, *by: str) -> DataFrame:
    """The newest of each group, in order."""
    newest = Window.partitionBy(*GROUP_KEY).orderBy(*(F.desc(name) for name in by))
    kept = table.withColumn("nth", F.row_number().over(newest)).where(F.col("nth") <= MOST_ROWS)
    return kept.orderBy(*GROUP_KEY, F.desc("nth")).drop("nth")


def _best_replays(replayed: DataFrame) -> DataFrame:
    """Of each group the way that would have saved most, and the one it went."""
    saves = Window.partitionBy(*GROUP_KEY, "recorded").orderBy(
        F.desc_nulls_last("saved_ms"), "stopped_ms", "assignor", "protocol", "static"
    )
    best = replayed.withColumn("nth", F.row_number().over(saves)).where(F.col("nth") == 1).drop("nth")
    of_group = F.max("saved_ms").over(Window.partitionBy(*GROUP_KEY))
    ordered = best.withColumn("most", of_group).orderBy(F.desc_nulls_last("most"), *GROUP_KEY, F.desc("recorded"))
    return ordered.limit(MAX_LISTED).drop("most")
