"""Text of migrations to the consumer protocol and of client upgrades: a summary, and the steps of selected groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.migration.kernel.migration_steps import SETTINGS
from spark_assign.migration.kernel.upgrade_verdict import DONE, GO, NOT_KNOWN, STAY, WARN
from spark_assign.report.formatting import (
    DASH,
    aligned,
    change,
    first_rejected_lines,
    group_name,
    more_lines,
    number,
    ratio,
    without_uuids,
)
from spark_assign.spark.progress import progress
from spark_assign.tables.groups import GROUP_KEY

_DEFAULT_LIMIT = 10
_MIGRATION_TITLES = {GO: "Go now", WARN: "Go with a warning", STAY: "Stay"}
_MIGRATION_COUNTS = ("moved", "moved_on_the_way", "stopped_on_the_way")
_UPGRADE_TITLES = {WARN: "Go with a warning", GO: "Go", STAY: "Stay", NOT_KNOWN: "Not known"}
_UPGRADE_COUNTS = ("restarts", "leader_changes", "moved", "moved_by_rules", "stopped")

Row = Mapping[str, Any]


@progress("looking for the way over", 1)
def summarize_migration(migrations: DataFrame, rejected: DataFrame, limit: int = _DEFAULT_LIMIT) -> str:
    """Returns the totals, and the first groups of each verdict with their costs. Reads a screenful of rows.

    Args:
        migrations: `Migration.migrations`, computed or read back.
        rejected: `Migration.rejected`, computed or read back.
        limit: Maximum number of groups listed per verdict.
    """
    counts = {row["verdict"]: row["count"] for row in migrations.groupBy("verdict").count().collect()}  # four
    best_first = Window.partitionBy("verdict").orderBy("rank", *GROUP_KEY)
    with_title = migrations.where(F.col("verdict").isin(*_MIGRATION_TITLES))
    first = with_title.withColumn("nth", F.row_number().over(best_first)).where(F.col("nth") <= limit).orderBy("rank")
    displayed = [row.asDict() for row in first.collect()]  # `limit` of each verdict
    rejected_rows = [row.asDict() for row in rejected.orderBy(*GROUP_KEY).limit(limit + 1).collect()]
    lines = [
        f"Groups: {counts.get(GO, 0):,} go, {counts.get(WARN, 0):,} go with a warning, "
        f"{counts.get(STAY, 0):,} stay, {counts.get(DONE, 0):,} are there already"
    ]
    for verdict, title in _MIGRATION_TITLES.items():
        rows = [row for row in displayed if row["verdict"] == verdict]
        if rows:
            more = more_lines(counts[verdict] - len(rows), "migrations")
            lines += ["", f"{title}:", *_migration_table(rows), *more]
    return "\n".join([*lines, *first_rejected_lines(rejected_rows, limit)])


def _migration_table(rows: Sequence[Row]) -> list[str]:
    """Returns one line per group, with the codes of its obstacles."""
    table = [["rank", "group", "now", "to", "moved", "on the way", "stopped", "max/mean", "across racks", "why"]]
    for row in rows:
        cells = [f"{row['rank']:,}", group_name(row), row["assignor"] or DASH, row["server_assignor"]]
        cells += [number(row[name]) for name in _MIGRATION_COUNTS]
        balance = change(ratio(row["max_over_mean_before"]), ratio(row["max_over_mean_after"]))
        cross_rack = change(number(row["cross_rack_before"]), number(row["cross_rack_after"]))
        table.append([*cells, balance, cross_rack + _rack_aware_count(row), row["codes"] or DASH])
    return aligned(table, words=(1, 2, 3, 9))


def _rack_aware_count(row: Row) -> str:
    """Returns the cross-rack count under the rack-aware assignor, in parentheses, if it differs."""
    what_if = row["cross_rack_what_if"]
    return "" if what_if is None or what_if == row["cross_rack_after"] else f" ({what_if:,} with {row['what_if']})"


def format_migration_steps(groups: Sequence[Row], steps: Sequence[Row]) -> str:
    """Returns the verdict and its reasons for each group, and its steps with their costs.

    Args:
        groups: Rows of `migrations`.
        steps: Rows of `steps` of these groups, in order.
    """
    lines: list[str] = []
    for group in groups:
        online = {True: ", online", False: ", offline", None: ""}[group["online"]]
        lines += [*([""] if lines else []), f"{group_name(group)}: {group['verdict']}{online}. {group['reasons']}"]
        for step in steps:
            if group_name(step) == group_name(group):
                lines += [f"  {step['step']}. {step['what']}{_step_costs(step)}", f"     {step['action']}"]
    if any(group["online"] is not None for group in groups):
        lines += ["", "Settings that fall away, and what takes their place:"]
        lines += [f"  {name}: {replacement}" for name, replacement in SETTINGS.items()]
    return "\n".join(lines)


def _step_costs(step: Row) -> str:
    costs = [f"{step[name]:,} {name}" for name in ("moved", "revoked", "stopped") if step[name] is not None]
    if step["restarts"] and step["played"] is not None:
        plural = "member" if step["restarts"] == 1 else "members"
        simulated = "" if step["played"] == step["restarts"] else f", {step['played']:,} of them played"
        costs.insert(0, f"{step['restarts']:,} {plural}{simulated}")
    return f" ({', '.join(costs)})" if costs else ""


@progress("playing the restarts", 1)
def summarize_upgrade(upgrades: DataFrame, rejected: DataFrame, limit: int) -> str:
    """Returns the totals, and the first groups of each verdict with their costs. Reads a screenful of rows.

    Args:
        upgrades: `Upgrade.upgrades`, computed or read back.
        rejected: `Upgrade.rejected`, computed or read back.
        limit: Maximum number of groups listed per verdict.
    """
    counts = {row["verdict"]: row["count"] for row in upgrades.groupBy("verdict").count().collect()}  # five
    worst_first = Window.partitionBy("verdict").orderBy(F.desc_nulls_last("moved_by_rules"), *GROUP_KEY)
    ranked = upgrades.withColumn("nth", F.row_number().over(worst_first)).where(F.col("nth") <= limit)
    displayed = [row.asDict() for row in ranked.orderBy("nth").collect()]  # `limit` of each verdict
    rejected_rows = [row.asDict() for row in rejected.orderBy(*GROUP_KEY).limit(limit + 1).collect()]
    lines = [
        f"Groups: {counts.get(GO, 0):,} go, {counts.get(WARN, 0):,} go with a warning, "
        f"{counts.get(STAY, 0):,} stay, {counts.get(DONE, 0):,} are there already, "
        f"{counts.get(NOT_KNOWN, 0):,} not known"
    ]
    for verdict, title in _UPGRADE_TITLES.items():
        rows = [row for row in displayed if row["verdict"] == verdict]
        if rows:
            without_costs = verdict in (STAY, NOT_KNOWN)
            table = [f"  {group_name(row)}: {row['note']}" for row in rows] if without_costs else _upgrade_table(rows)
            lines += ["", f"{title}:", *table, *more_lines(counts[verdict] - len(rows), "upgrades")]
    return "\n".join([*lines, *first_rejected_lines(rejected_rows, limit)])


def _upgrade_table(rows: Sequence[Row]) -> list[str]:
    """Returns one line per group."""
    table = [["group", "assignor", "rules", "restarts", "leaders", "moved", "by rules", "stopped", "old, new rules"]]
    for row in rows:
        cells = [
            group_name(row),
            _transition(row, "assignor", "to_assignor"),
            _transition(row, "from_rules", "to_rules"),
        ]
        moved_by_rules = ", ".join(number(row[f"moved_by_{rules}_rules"]) for rules in ("old", "new"))
        table.append([*cells, *(number(row[name]) for name in _UPGRADE_COUNTS), moved_by_rules])
    return aligned(table, words=(0, 1, 2))


def format_restarts(groups: Sequence[Row], steps: Sequence[Row]) -> str:
    """Returns the verdict and its note for each group, and one line per restart.

    Args:
        groups: Rows of `upgrades`.
        steps: Rows of `steps` of these groups, in order.
    """
    lines: list[str] = []
    for group in groups:
        lines += [*([""] if lines else []), f"{group_name(group)}: {group['verdict']}. {group['note']}"]
        group_steps = [step for step in steps if group_name(step) == group_name(group)]
        full_stops = [step for step in group_steps if step["leader"] is None]
        lines += [f"  {step['step']}. {step['what']}: {step['action']}{_restart_costs(step)}" for step in full_stops]
        restarts = [step for step in group_steps if step["leader"] is not None]
        if restarts:
            lines += _restarts_table(restarts)
    return "\n".join(lines)


def _restarts_table(steps: Sequence[Row]) -> list[str]:
    """Returns one line per restart, and below the table each distinct action with the steps that it belongs to."""
    table = [["step", "what", "member", "then leads", "of", "assignor", "rules", "moved", "by rules", "stopped"]]
    for step in steps:
        leads = f"{without_uuids(step['leader'])}{' (new)' if step['leader_changed'] else ''}"
        member = without_uuids(step["member_id"]) if step["member_id"] else DASH
        cells = [f"{step['step']:,}", step["what"], member, leads, step["leader_release"]]
        costs = [number(step[name]) for name in ("moved", "moved_by_rules", "stopped")]
        table.append([*cells, step["assignor"], step["rules"], *costs])
    steps_by_action: dict[str, list[int]] = {}
    for step in steps:
        steps_by_action.setdefault(step["action"], []).append(step["step"])
    actions = [f"  {_step_range(ordinals)}: {action}" for action, ordinals in steps_by_action.items()]
    return [*aligned(table, words=(1, 2, 3, 5)), *actions]


def _step_range(ordinals: Sequence[int]) -> str:
    return f"Step {ordinals[0]}" if len(ordinals) == 1 else f"Steps {ordinals[0]} to {ordinals[-1]}"


def _restart_costs(step: Row) -> str:
    costs = [f"{step[name]:,} {name}" for name in ("moved", "stopped") if step[name] is not None]
    return f" ({', '.join(costs)})" if costs else ""


def _transition(row: Row, before: str, after: str) -> str:
    """Returns the value of column `before`, and that of column `after` if it is known and differs."""
    if row[before] is None:
        return DASH
    return str(row[before]) if row[after] is None else change(row[before], row[after])
