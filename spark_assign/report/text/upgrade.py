"""An upgrade of clients on one screen: which groups may go, what the new rules move, and the steps of some groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.migration.kernel.upgrade_verdict import DONE, GO, NOT_KNOWN, STAY, WARN
from spark_assign.report.formatting import without_uuids
from spark_assign.report.text.text_table import aligned
from spark_assign.spark.progress import progress
from spark_assign.tables.groups import GROUP_KEY

_TITLES = {WARN: "Go with a warning", GO: "Go", STAY: "Stay", NOT_KNOWN: "Not known"}
_FIGURES = ("restarts", "leader_changes", "moved", "moved_by_rules", "stopped")

Row = Mapping[str, Any]


@progress("playing the restarts", 1)
def summarize_upgrade(upgrades: DataFrame, rejected: DataFrame, top: int) -> str:
    """Totals, and of each verdict the first groups with what it costs them. Reads a screenful of rows.

    Args:
        upgrades: `Upgrade.upgrades`, or read back.
        rejected: `Upgrade.rejected`, likewise.
        top: how many groups of each verdict to list.
    """
    counted = {row["verdict"]: row["count"] for row in upgrades.groupBy("verdict").count().collect()}  # five
    worst_first = Window.partitionBy("verdict").orderBy(F.desc_nulls_last("moved_by_rules"), *GROUP_KEY)
    ranked = upgrades.withColumn("nth", F.row_number().over(worst_first)).where(F.col("nth") <= top)
    shown = [row.asDict() for row in ranked.orderBy("nth").collect()]  # `top` of each verdict
    refused = [row.asDict() for row in rejected.orderBy(*GROUP_KEY).limit(top + 1).collect()]
    lines = [
        f"Groups: {counted.get(GO, 0):,} go, {counted.get(WARN, 0):,} go with a warning, "
        f"{counted.get(STAY, 0):,} stay, {counted.get(DONE, 0):,} are there already, "
        f"{counted.get(NOT_KNOWN, 0):,} not known"
    ]
    for verdict, title in _TITLES.items():
        rows = [row for row in shown if row["verdict"] == verdict]
        if rows:
            table = _plain(rows) if verdict in (STAY, NOT_KNOWN) else _groups(rows)
            lines += ["", f"{title}:", *table, *_more(counted[verdict] - len(rows))]
    if refused:
        lines += ["", "Rejected:"]
        lines += [f"  {_name(row)}: {row['code']}: {' '.join(row['detail'].split())[:300]}" for row in refused[:top]]
        lines += ["  … and more, in the table rejected"] if len(refused) > top else []
    return "\n".join(lines)


def _groups(rows: Sequence[Row]) -> list[str]:
    """A line per group."""
    table = [["group", "assignor", "rules", "restarts", "leaders", "moved", "by rules", "stopped", "old, new rules"]]
    for row in rows:
        cells = [_name(row), _then(row, "assignor", "to_assignor"), _then(row, "from_rules", "to_rules")]
        alone = [_number(row[f"moved_by_{which}_rules"]) for which in ("old", "new")]
        table.append([*cells, *(_number(row[name]) for name in _FIGURES), ", ".join(alone)])
    return aligned(table, words=(0, 1, 2))


def _plain(rows: Sequence[Row]) -> list[str]:
    return [f"  {_name(row)}: {row['note']}" for row in rows]


def restarts_in_words(groups: Sequence[Row], steps: Sequence[Row]) -> str:
    """Of each group the verdict and why, and a line per restart.

    Args:
        groups: rows of `upgrades`.
        steps: rows of `steps` of these groups, in order.
    """
    lines: list[str] = []
    for group in groups:
        lines += [*([""] if lines else []), f"{_name(group)}: {group['verdict']}. {group['note']}"]
        mine = [step for step in steps if _name(step) == _name(group)]
        stops = [step for step in mine if step["leader"] is None]
        lines += [f"  {step['step']}. {step['what']}: {step['action']}{_costs(step)}" for step in stops]
        rest = [step for step in mine if step["leader"] is not None]
        if rest:
            lines += _restarts(rest)
    return "\n".join(lines)


def _restarts(steps: Sequence[Row]) -> list[str]:
    """A table, and each thing that is done in words, once."""
    table = [["step", "what", "member", "then leads", "of", "assignor", "rules", "moved", "by rules", "stopped"]]
    for step in steps:
        leads = f"{without_uuids(step['leader'])}{' (new)' if step['leader_changed'] else ''}"
        member = without_uuids(step["member_id"]) if step["member_id"] else "–"
        cells = [f"{step['step']:,}", step["what"], member, leads, step["leader_release"]]
        figures = [_number(step[name]) for name in ("moved", "moved_by_rules", "stopped")]
        table.append([*cells, step["assignor"], step["rules"], *figures])
    said: dict[str, list[int]] = {}
    for step in steps:
        said.setdefault(step["action"], []).append(step["step"])
    spans = [f"  {_span(numbers)}: {action}" for action, numbers in said.items()]
    return [*aligned(table, words=(1, 2, 3, 5)), *spans]


def _span(numbers: Sequence[int]) -> str:
    return f"Step {numbers[0]}" if len(numbers) == 1 else f"Steps {numbers[0]} to {numbers[-1]}"


def _costs(step: Row) -> str:
    told = [f"{step[name]:,} {name}" for name in ("moved", "stopped") if step[name] is not None]
    return f" ({', '.join(told)})" if told else ""


def _then(row: Row, before: str, after: str) -> str:
    then, now = row[before], row[after]
    return "–" if then is None else then if now in (then, None) else f"{then} → {now}"


def _name(row: Row) -> str:
    return f"{row['cluster']}/{row['group_id']}"


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _more(number: int) -> list[str]:
    return [f"  … and {number:,} more, in the table upgrades"] if number > 0 else []
