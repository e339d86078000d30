"""A migration on one screen: how many groups may go, which of them first, what speaks against the others; and the steps
of some groups in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.migration.kernel.migration_steps import SETTINGS
from spark_assign.migration.kernel.migration_verdict import DONE, GO, STAY, WARN
from spark_assign.report.text.text_table import aligned
from spark_assign.spark.progress import progress
from spark_assign.tables.groups import GROUP_KEY

_SHOWN = 10
_TITLES = {GO: "Go now", WARN: "Go with a warning", STAY: "Stay"}
_FIGURES = ("moved", "moved_on_the_way", "stopped_on_the_way")

Row = Mapping[str, Any]


@progress("looking for the way over", 1)
def summarize_migration(migrations: DataFrame, rejected: DataFrame, top: int = _SHOWN) -> str:
    """Totals, and of each verdict the first groups with what it costs them. Reads a screenful of rows.

    Args:
        migrations: `Migration.migrations`, or read back.
        rejected: `Migration.rejected`, likewise.
        top: how many groups of each verdict to list.
    """
    counted = {row["verdict"]: row["count"] for row in migrations.groupBy("verdict").count().collect()}  # four
    best_first = Window.partitionBy("verdict").orderBy("rank", *GROUP_KEY)
    ranked = migrations.where(F.col("verdict").isin(*_TITLES)).withColumn("nth", F.row_number().over(best_first))
    first = ranked.where(F.col("nth") <= top).orderBy("rank")
    shown = [row.asDict() for row in first.collect()]  # `top` of each verdict
    refused = [row.asDict() for row in rejected.orderBy(*GROUP_KEY).limit(top + 1).collect()]
    lines = [
        f"Groups: {counted.get(GO, 0):,} go, {counted.get(WARN, 0):,} go with a warning, "
        f"{counted.get(STAY, 0):,} stay, {counted.get(DONE, 0):,} are there already"
    ]
    for verdict, title in _TITLES.items():
        rows = [row for row in shown if row["verdict"] == verdict]
        if rows:
            lines += ["", f"{title}:", *_groups(rows), *_more(counted[verdict] - len(rows))]
    if refused:
        lines += ["", "Rejected:"]
        lines += [f"  {_name(row)}: {row['code']}: {' '.join(row['detail'].split())[:300]}" for row in refused[:top]]
        lines += ["  … and more, in the table rejected"] if len(refused) > top else []
    return "\n".join(lines)


def _groups(rows: Sequence[Row]) -> list[str]:
    """A line per group, and what speaks against it."""
    table = [["rank", "group", "now", "to", "moved", "on the way", "stopped", "max/mean", "across racks", "why"]]
    for row in rows:
        cells = [f"{row['rank']:,}", _name(row), row["assignor"] or "–", row["server_assignor"]]
        cells += [_number(row[name]) for name in _FIGURES]
        balance = _both(row, "max_over_mean", "{:.2f}")
        table.append([*cells, balance, _both(row, "cross_rack", "{:,}") + _what_if(row), row["codes"] or "–"])
    return aligned(table, words=(1, 2, 3, 9))


def _what_if(row: Row) -> str:
    """What it would be by the assignor with racks, where that is another number."""
    what_if = row["cross_rack_what_if"]
    return "" if what_if is None or what_if == row["cross_rack_after"] else f" ({what_if:,} with {row['what_if']})"


def steps_in_words(groups: Sequence[Row], steps: Sequence[Row]) -> str:
    """Of each group the verdict and why, and its steps with what they cost.

    Args:
        groups: rows of `migrations`.
        steps: rows of `steps` of these groups, in order.
    """
    lines: list[str] = []
    for group in groups:
        online = {True: ", online", False: ", offline", None: ""}[group["online"]]
        lines += [*([""] if lines else []), f"{_name(group)}: {group['verdict']}{online}. {group['reasons']}"]
        mine = [step for step in steps if _name(step) == _name(group)]
        for step in mine:
            lines += [f"  {step['step']}. {step['what']}{_costs(step)}", f"     {step['action']}"]
    if any(group["online"] is not None for group in groups):
        lines += ["", "Settings that fall away, and what takes their place:"]
        lines += [f"  {name}: {instead}" for name, instead in SETTINGS.items()]
    return "\n".join(lines)


def _costs(step: Row) -> str:
    told = [f"{step[name]:,} {name}" for name in ("moved", "revoked", "stopped") if step[name] is not None]
    if step["restarts"] and step["played"] is not None:
        plural = "member" if step["restarts"] == 1 else "members"
        part = "" if step["played"] == step["restarts"] else f", {step['played']:,} of them played"
        told.insert(0, f"{step['restarts']:,} {plural}{part}")
    return f" ({', '.join(told)})" if told else ""


def _name(row: Row) -> str:
    return f"{row['cluster']}/{row['group_id']}"


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _both(row: Row, name: str, form: str) -> str:
    """Before and after, or one number where they are equal."""
    then, now = (_formed(row[f"{name}_{when}"], form) for when in ("before", "after"))
    return then if then == now else f"{then} → {now}"


def _formed(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


def _more(number: int) -> list[str]:
    return [f"  … and {number:,} more, in the table migrations"] if number > 0 else []
