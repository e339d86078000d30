"""The report's section of history: what groups have been through, in tables, as heat maps, and group by group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from spark_assign.report.formatting import NONE, cell, count, duration, number, without_uuids
from spark_assign.report.html import history_charts
from spark_assign.report.html.history_charts import Cell, MemberTimeline
from spark_assign.report.html.plan_section import by_group, rejected_table
from spark_assign.report.html.report_data import DRAWN_GROUPS, MAPPED_GROUPS, HistoryRows, Row, Rows
from spark_assign.report.html.simulation_section import Drawing
from spark_assign.report.html.table import Table
from spark_assign.report.text.history import moment, name_of, summary_lines, type_of

_DAY = 86_400


@dataclass(frozen=True)
class HistorySection:
    """What groups have been through."""

    said: Sequence[str]
    tables: Sequence[Table]
    maps: Sequence[Drawing]
    drawings: Sequence[Drawing]


def of_history(rows: HistoryRows) -> HistorySection:
    """What groups have been through; see `HistoryRows`."""
    whats = {row["what"]: row["number"] for row in rows.whats}
    tables = [_groups(rows), _deploys(rows.deploys), _replayed(rows.replayed), _unread(rows.unread)]
    if rows.rejected:
        tables.append(rejected_table(rows.rejected))
    said = [f"{line}." for line in summary_lines(rows.totals, whats)]
    return HistorySection(said, [table for table in tables if table.rows], _maps(rows), _drawings(rows))


# --- tables ---------------------------------------------------------------------------------------------------


def _groups(rows: HistoryRows) -> Table:
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
                *(name_of(row), type_of(row), cell(row["assignor"])),
                *(number(row[name]) for name in figures),
                *(_time(row[name]) for name in ("stopped_ms", "longest_ms")),
                cell(row["flapping"]),
            ]
            for row in rows.groups
        ],
        f"Shown are {len(rows.groups):,} of {total:,}; the table groups has all." if len(rows.groups) < total else "",
    )


def _deploys(rows: Rows) -> Table:
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
                *(name_of(row), row["what"], moment(row["since"]), moment(row["until"])),
                *(number(row[name]) for name in ("rebalances", "members_before", "members_after")),
                *(_time(row["stopped_ms"]), without_uuids(row["detail"])),
            ]
            for row in rows
        ],
    )


def _replayed(rows: Rows) -> Table:
    return Table(
        "What the same past would have cost otherwise",
        [
            *((title, False) for title in ("Group", "Assignor", "Protocol", "Members")),
            *((title, True) for title in ("Rebalances", "Moved", "Stopped", "Saved")),
            ("Note", False),
        ],
        [
            [
                *(name_of(row), row["assignor"], row["protocol"], "static" if row["static"] else "dynamic"),
                *(number(row["rebalances"]), number(row["moved"]), _time(row["stopped_ms"])),
                "as it was" if row["recorded"] else _time(row["saved_ms"]),
                row["note"],
            ]
            for row in rows
        ],
    )


def _unread(rows: Rows) -> Table:
    return Table(
        "Records that could not be read",
        [("Why", False), ("Records", True)],
        [[row["code"], number(row["number"])] for row in rows],
        "The table unread has them, as they are.",
    )


def _time(ms: int | None) -> str:
    return NONE if ms is None else duration(ms / 1000)


# --- pictures -------------------------------------------------------------------------------------------------


def _maps(rows: HistoryRows) -> list[Drawing]:
    if not rows.time_buckets:
        return []
    keys = [(row["cluster"], row["group_id"]) for row in rows.groups if row["rebalances"]][:MAPPED_GROUPS]
    first = min(row["time_bucket"] for row in rows.time_buckets)
    columns = range(first, max(row["time_bucket"] for row in rows.time_buckets) + 1)
    labels = [_begins(time_bucket * rows.wide_s, rows.wide_s) for time_bucket in columns]
    names = ["/".join(key) for key in keys]

    def cells(value: Callable[[Row], int | None], words: Callable[[int], str]) -> list[Cell]:
        found = []
        for row in rows.time_buckets:
            key, told = (row["cluster"], row["group_id"]), value(row)
            if told and key in keys:
                found.append(Cell(keys.index(key), row["time_bucket"] - first, told, words(told)))
        return sorted(found, key=lambda each: (each.row, each.column))

    wide = f"each column is {_wide(rows.wide_s)}, times in UTC"
    counted = cells(lambda row: row["rebalances"], number)
    stopped = cells(lambda row: row["stopped_ms"], lambda ms: _short(ms / 1000))
    maps = [("Rebalances", counted, "rebalances"), ("Partition-time stopped", stopped, "stopped")]
    return [
        Drawing(
            f"{title}: {wide}", history_charts.heat_map(names, labels, each, f"heat{at}", f"{title} by group", unit)
        )
        for at, (title, each, unit) in enumerate(maps, start=1)
        if each
    ]


def _begins(at: int, wide: int) -> str:
    begin = datetime.fromtimestamp(at, UTC)
    return f"{begin:%H:%M:%S}" if wide < 60 else f"{begin:%d %b %H:%M}" if wide < _DAY else f"{begin:%d %b}"


def _wide(seconds: int) -> str:
    units = ((_DAY, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
    one, noun = next(each for each in units if seconds % each[0] == 0)
    return count(seconds // one, noun)


def _short(seconds: float) -> str:
    """A time in a cell: 45s, 12m, 3h, 41d."""
    for one, unit in ((_DAY, "d"), (3_600, "h"), (60, "m")):
        if seconds >= 2 * one:
            return f"{seconds / one:.0f}{unit}"
    return f"{seconds:.0f}s" if seconds >= 1 else "<1s"


def _drawings(rows: HistoryRows) -> list[Drawing]:
    rebalances, pauses = by_group(rows.rebalances), by_group(rows.pauses)
    drawn = [row for row in rows.groups if (row["cluster"], row["group_id"]) in rebalances][:DRAWN_GROUPS]
    return [_drawing(at, row, rebalances, pauses) for at, row in enumerate(drawn, start=1)]


def _drawing(
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
    said = f"{count(len(mine), 'rebalance')}, {generations}; {count(len(still), 'pause')}, {_time(group['stopped_ms'])}"
    past = MemberTimeline(
        [(_ms(row["at"]), row["generation"], row["members"]) for row in mine],
        [(_ms(row["since"]), _ms(row["until"]), row["partitions"]) for row in still],
        f"{said} of partition-time stopped by rebalances.",
    )
    flaps = ", flapping" if group["flapping"] else ""
    heading = f"{'/'.join(key)}{flaps}: {count(len(mine), 'rebalance')}, {generations}"
    return Drawing(heading, history_charts.over_time(past, f"past{at}", f"{'/'.join(key)} over time"))


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
