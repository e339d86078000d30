"""Membership on one screen: what groups are advised to do, what that saves and costs, and the options of some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.advice.kernel.membership_text import time
from spark_assign.report.text.selected_groups import with_steps
from spark_assign.report.text.text_table import aligned
from spark_assign.spark.progress import progress
from spark_assign.tables.groups import GROUP_KEY

Row = Mapping[str, Any]


@progress("playing restarts and crashes", 1)
def summarize_membership(memberships: DataFrame, rejected: DataFrame, top: int) -> str:
    """Totals, and of each kind of advice the first groups with what it saves. Reads a screenful of rows.

    Args:
        memberships: `Membership.memberships`, or read back.
        rejected: `Membership.rejected`, likewise.
        top: how many groups of each kind to list.
    """
    totals = memberships.groupBy("recommendation").agg(
        F.count(F.lit(1)).alias("groups"), F.sum("saved_seconds").alias("saved")
    )
    counted = {row["recommendation"]: row for row in totals.collect()}  # as many as there are kinds of advice
    most_first = Window.partitionBy("recommendation").orderBy(F.desc("saved_seconds"), *GROUP_KEY)
    ranked = memberships.withColumn("nth", F.row_number().over(most_first)).where(F.col("nth") <= top)
    shown = [row.asDict() for row in ranked.orderBy("nth").collect()]  # `top` of each
    refused = [row.asDict() for row in rejected.orderBy(*GROUP_KEY).limit(top + 1).collect()]
    changes = sorted((each for each in counted if each != "keep"), key=lambda each: (-counted[each]["saved"], each))
    saved = sum(counted[each]["saved"] for each in changes)
    number, kept = (sum(counted[each]["groups"] for each in names if each in counted) for names in (changes, ["keep"]))
    lines = [
        f"Groups: {number:,} to change, which saves {_seconds(saved)} partition-seconds per deploy; {kept:,} to keep"
    ]
    for advice in [*changes, *(["keep"] if "keep" in counted else [])]:
        rows = [row for row in shown if row["recommendation"] == advice]
        if rows:
            more = counted[advice]["groups"] - len(rows)
            lines += ["", f"{_title(advice)}:", *_groups(rows, changes=advice != "keep"), *_more(more)]
    if refused:
        lines += ["", "Rejected:"]
        lines += [f"  {_name(row)}: {row['code']}: {' '.join(row['detail'].split())[:300]}" for row in refused[:top]]
        lines += ["  … and more, in the table rejected"] if len(refused) > top else []
    return "\n".join(lines)


def _groups(rows: Sequence[Row], *, changes: bool) -> list[str]:
    """A line per group."""
    head = ["group", "membership", "protocol", "session", "restart", "longest", "crash"]
    table = [[*head, "saves", "warnings"] if changes else [*head, "warnings"]]
    for row in rows:
        session = _then(*(time(row[f"{to}session_timeout_ms"]) for to in ("", "to_")))
        cells = [_name(row), *(_then(row[name], row[f"to_{name}"]) for name in ("membership", "protocol")), session]
        for name in ("restart_pause", "restart_longest", "crash_pause"):
            cells.append(_then(*(_seconds(row[f"{to}{name}_seconds"]) for to in ("", "to_"))))
        saves = [_seconds(row["saved_seconds"])] if changes else []
        table.append([*cells, *saves, row["warnings"] or "–"])
    return aligned(table, words=(0, 1, 2, len(table[0]) - 1))


def groups_with_options(
    memberships: DataFrame, options: DataFrame, patterns: Sequence[str], top: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The first groups whose id matches a shell pattern, and their options at the restart time that is asked for."""
    asked = memberships.select(*GROUP_KEY, "restart_ms")
    at_that = options.join(asked, [*GROUP_KEY, "restart_ms"], "left_semi")
    order = ("expected_pause_seconds", "membership", "protocol", "session_timeout_ms")
    return with_steps(memberships, at_that, patterns, GROUP_KEY, top, order)


def group_in_words(groups: Sequence[Row], options: Sequence[Row]) -> str:
    """Of each group what to do, the settings for it, warnings, and a line per option.

    Args:
        groups: rows of `memberships`.
        options: rows of `options` of these groups, in order.
    """
    lines: list[str] = []
    for group in groups:
        lines += [*([""] if lines else []), f"{_name(group)}: {group['sentence']}"]
        lines += [f"    {line}" for line in (group["settings"] or "").splitlines()]
        lines += [f"  Mind: {group['warning']}"] if group["warning"] else []
        table = [
            ["membership", "protocol", "session", "restart", "longest", "rebalances", "crash", "longest", "expected"]
        ]
        for row in options:
            if _name(row) == _name(group):
                table.append(_option(row))
        lines += aligned(table, words=(0, 1, 9))
    return "\n".join(lines)


def _option(row: Row) -> list[str]:
    names = ("restart_pause", "restart_longest", "crash_pause", "crash_longest", "expected_pause")
    restart, longest, crash, of_crash, expected = (_seconds(row[f"{name}_seconds"]) for name in names)
    session = f"{'now ' if row['now'] else ''}{time(row['session_timeout_ms'])}"
    rebalances = f"{row['restart_rebalances']:,}"
    return [row["membership"], row["protocol"], session, restart, longest, rebalances, crash, of_crash, expected]


def _title(advice: str) -> str:
    return "Keep" if advice == "keep" else f"Another {advice}" if advice == "session" else f"Make {advice}"


def _then(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"


def _name(row: Row) -> str:
    return f"{row['cluster']}/{row['group_id']}"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}" if value >= 10 else f"{value:,.1f}"


def _more(number: int) -> list[str]:
    return [f"  … and {number:,} more, in the table memberships"] if number > 0 else []
