"""The history of groups on one screen: who rebalances most and stops longest; and the story of single groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import reduce
from operator import and_, or_
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.report.formatting import NONE, REJECTED_SHOWN, count, duration, number, rejected_lines, without_uuids
from spark_assign.report.text.selected_groups import first_rows
from spark_assign.report.text.text_table import aligned
from spark_assign.spark.progress import progress
from spark_assign.tables.groups import GROUP_KEY

Row = Mapping[str, Any]
Tables = Mapping[str, DataFrame]

MOST_LINES = 200
"""So many rebalances of a group are told, the newest ones; and so many deploys and pauses."""


_LONG = 110
"""So many letters of what happened are told."""


def worst_first() -> list[Column]:
    """The order of groups: flapping ones, then those that stopped longest, then those with most rebalances."""
    return [
        F.desc("flapping"),
        F.desc_nulls_last("stopped_ms"),
        F.desc("rebalances"),
        *(F.col(name) for name in GROUP_KEY),
    ]


def totals(groups: DataFrame) -> DataFrame:
    """All groups in one row: groups, flapping, rebalances, missing, crashes, stopped_ms, since, until."""
    sums = ("rebalances", "missing", "crashes", "stopped_ms")
    return groups.agg(
        F.count(F.lit(1)).alias("groups"),
        F.coalesce(F.sum(F.col("flapping").cast("long")), F.lit(0)).alias("flapping"),
        *(F.sum(name).alias(name) for name in sums),
        F.min("since").alias("since"),
        F.max("until").alias("until"),
    )


@progress("telling the history", 1)
def summarize_history(tables: Tables, top: int) -> str:
    """Totals, the groups that flap, those that stopped longest, and what could not be read. Reads a screenful of rows.

    Args:
        tables: `tables.history.HISTORY_TABLES`, by name: groups, deploys, unread and rejected are read.
        top: how many groups to list.
    """
    groups = tables["groups"]
    (row,) = totals(groups).collect()
    deploys = _counted(tables["deploys"], "what")
    unread = _counted(tables["unread"], "code")
    lines = [*summary_lines(row.asDict(), deploys)]
    worst = [each.asDict() for each in groups.orderBy(*worst_first()).limit(top).collect()]
    for title, flapping in (("Flapping groups", True), ("Groups that stopped longest", False)):
        listed = [each for each in worst if each["flapping"] == flapping]
        if listed:
            lines += ["", f"{title}:", *group_lines(listed)]
    if row["groups"] > len(worst):
        lines.append(f"  … and {row['groups'] - len(worst):,} more, in the table groups")
    if unread:
        told = ", ".join(f"{many:,} {code}" for code, many in unread.items())
        lines += ["", f"Records that could not be read: {told}; they are in the table unread, as they are"]
    refused = [each.asDict() for each in tables["rejected"].orderBy(*GROUP_KEY).limit(REJECTED_SHOWN).collect()]
    if refused:
        lines += rejected_lines(refused, tables["rejected"].count())
    return "\n".join(lines)


def _counted(table: DataFrame, name: str) -> dict[str, int]:
    """How many rows there are of each kind, most first; there are few kinds."""
    rows = table.groupBy(name).count().orderBy(F.desc("count"), name).collect()
    return {row[name]: row["count"] for row in rows}


def summary_lines(row: Row, deploys: Mapping[str, int]) -> Iterator[str]:
    """The whole history in a few lines: a row of `totals`, and how many deploys there are of each kind."""
    if not row["groups"]:
        yield "No group is on record"
        return
    stopped = "" if row["stopped_ms"] is None else f", which stopped {partition_time(row['stopped_ms'])}"
    yield f"{count(row['groups'], 'group')} from {moment(row['since'])} to {moment(row['until'])} UTC"
    missing = f"; {count(row['missing'], 'generation')} more are no longer on record" if row["missing"] else ""
    yield f"{count(row['rebalances'], 'rebalance')}{stopped}{missing}"
    if deploys:
        yield "Deploys and the like: " + ", ".join(f"{many:,} {what}" for what, many in deploys.items())
    flap, crash = ("flaps" if row["flapping"] == 1 else "flap"), ("crash" if row["crashes"] == 1 else "crashes")
    yield f"{count(row['flapping'], 'group')} {flap}; {row['crashes']:,} {crash}"


def group_lines(rows: Sequence[Row]) -> list[str]:
    """A line per group."""
    titles = ["rebalances", "worst day", "deploys", "crashes", "members", "partitions", "stopped", "longest"]
    table = [["group", "type", "assignor", *titles]]
    for row in rows:
        cells = [name_of(row), type_of(row), row["assignor"] or NONE]
        figures = ("rebalances", "most_in_a_day", "deploys", "crashes", "members", "partitions")
        table.append([*cells, *(number(row[name]) for name in figures), *(_time(row, name) for name in _STOPPED)])
    return aligned(table, words=(0, 1, 2))


_STOPPED = ("stopped_ms", "longest_ms")


def type_of(row: Row) -> str:
    """`classic`, and what it is of, where that is no consumer: `classic connect`."""
    protocol = row["protocol_type"]
    return str(row["group_type"]) if protocol in (None, "", "consumer") else f"{row['group_type']} {protocol}"


def stories(tables: Tables, patterns: Sequence[str], top: int) -> str | None:
    """The story of every group that matches, as many groups as `top` says; null where none does.

    Args:
        tables: groups, rebalances, pauses and deploys of `tables.history.HISTORY_TABLES`.
        patterns: over group_id.
        top: so many groups.
    """
    groups = first_rows(tables["groups"], patterns, top)
    if not groups:
        return None
    these = reduce(or_, [reduce(and_, [F.col(name) == row[name] for name in GROUP_KEY]) for row in groups])
    rebalances = _newest(tables["rebalances"].where(these), "at", "generation")
    deploys = _newest(tables["deploys"].where(these), "since", "first_generation")
    pauses = _newest(tables["pauses"].where(these).where("generation is null"), "since", "until")
    found = []
    for group in sorted(groups, key=name_of):
        mine = [[row for row in rows if name_of(row) == name_of(group)] for rows in (rebalances, deploys, pauses)]
        found.append("\n".join(story(group, *mine)))
    return "\n\n".join(found)


def _newest(rows: DataFrame, *by: str) -> list[dict[str, Any]]:
    """The newest rows of each group, in order; a screenful or two of each."""
    order = [F.desc(name) for name in by]
    nth = F.row_number().over(Window.partitionBy(*GROUP_KEY).orderBy(*order))
    found = rows.withColumn("nth", nth).where(F.col("nth") <= MOST_LINES).orderBy(*GROUP_KEY, F.desc("nth")).collect()
    return [row.asDict() for row in found]


def story(group: Row, rebalances: Sequence[Row], deploys: Sequence[Row], pauses: Sequence[Row]) -> list[str]:
    """What happened to a group, line by line: deploys, and under each its rebalances; pauses that no rebalance made.

    A deploy that is one rebalance, and nobody came back, has no line of its own.

    Args:
        group: a row of `groups`.
        rebalances: the newest of it, in order.
        deploys: likewise.
        pauses: those without a generation, likewise.
    """
    lines = [f"{name_of(group)}: {_told(group)}"]
    rows: list[tuple[datetime, int, list[str]]] = []
    first = rebalances[0]["at"] if rebalances else group["since"]
    deploys = [row for row in deploys if row["until"] >= first and (row["rebalances"] > 1 or row["restarted"])]
    rows += [(row["since"], 0, _deploy(row)) for row in deploys]
    in_deploys = {each for row in deploys for each in range(row["first_generation"], row["last_generation"] + 1)}
    for row in rebalances:
        rows.append((row["at"], 1, _rebalance(row, "  " if row["generation"] in in_deploys else "")))
    for row in pauses:
        if row["since"] >= first:
            rows.append((row["since"], 2, _pause(row)))
    rows.sort(key=lambda each: each[:2])
    head = ["at (UTC)", "generation", "members", "what", "moved", "stopped", "longest"]
    if rows:
        lines += aligned([head, *(cells for _, _, cells in rows)], words=(0, 3))
    cut = group["rebalances"] - len(rebalances)
    return lines + ([f"  … and {cut:,} earlier rebalances, in the table rebalances"] if cut > 0 else [])


def _told(group: Row) -> str:
    """A group in a sentence or two."""
    kind = f"{type_of(group)} group" + (f", {group['assignor']}" if group["assignor"] else "")
    at_the_end = f"{count(group['members'], 'member')} with {count(group['partitions'], 'partition')} at the end"
    state = f" ({group['state']})" if group["state"] else ""
    said = [f"{kind}, {at_the_end}{state}."]
    if group["rebalances"]:
        said.append(
            f"{count(group['rebalances'], 'rebalance')} from {moment(group['since'])} to {moment(group['until'])}, "
            f"{group['most_in_a_day']:,} in the worst 24 hours."
        )
    if group["stopped_ms"]:
        said.append(f"They stopped {partition_time(group['stopped_ms'])}, one for {_time(group, 'longest_ms')}.")
    if group["missing"]:
        said.append(f"{count(group['missing'], 'generation')} between them are no longer on record.")
    return " ".join([*said, *(["It is flapping."] if group["flapping"] else [])])


def _deploy(row: Row) -> list[str]:
    before, after = row["members_before"], row["members_after"]
    spans = "–".join(dict.fromkeys(number(row[f"{which}_generation"]) for which in ("first", "last")))
    until = moment(row["until"]).removeprefix(moment(row["since"])[:11])
    what = _cut(f"{row['what']} until {until}: {row['detail']}")
    return [moment(row["since"]), spans, f"{before:,} → {after:,}", what, "", _time(row, "stopped_ms"), ""]


def _rebalance(row: Row, indent: str) -> list[str]:
    state = "" if row["state"] == "Stable" else f" ({row['state']})"
    cells = [moment(row["at"]), number(row["generation"]), number(row["members"]), f"{indent}{_cut(row['why'])}{state}"]
    return [*cells, number(row["moved"]), *(_time(row, name) for name in _STOPPED)]


def _cut(text: str) -> str:
    """Without most of the UUIDs, and no longer than a line; the table has all of it."""
    text = " ".join(without_uuids(text).split())
    return text if len(text) <= _LONG else f"{text[: _LONG - 1]}…"


def _pause(row: Row) -> list[str]:
    what = f"nothing committed of {count(row['partitions'], 'partition')}, without a rebalance"
    whole = duration((row["until"] - row["since"]).total_seconds())
    return [moment(row["since"]), NONE, NONE, what, "", _time(row, "stopped_ms"), whole]


def partition_time(ms: int) -> str:
    """Milliseconds added up over partitions: `36 partition-seconds`, `3.4 partition-hours`."""
    if ms < 120_000:
        return f"{ms / 1000:,.0f} partition-seconds"
    return f"{ms / 60_000:,.0f} partition-minutes" if ms < 7_200_000 else f"{ms / 3_600_000:,.1f} partition-hours"


def _time(row: Row, name: str) -> str:
    return NONE if row[name] is None else duration(row[name] / 1000)


def moment(at: datetime) -> str:
    """In UTC, to the second."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def name_of(row: Row) -> str:
    """`cluster/group`."""
    return f"{row['cluster']}/{row['group_id']}"
