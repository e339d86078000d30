"""Text of migrations to the consumer protocol and of client upgrades: a summary, and the steps of selected groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.groups.kernel.client_settings import FORBIDDEN
from spark_assign.migration.kernel.migration_verdict import BLOCKED, DONE, READY, READY_WITH_WARNINGS
from spark_assign.migration.kernel.upgrade_verdict import UNKNOWN_VERDICT
from spark_assign.report.formatting import (
    DASH,
    Row,
    Rows,
    aligned,
    by_group,
    change,
    count,
    group_key,
    group_name,
    more_lines,
    number,
    ratio,
    without_uuids,
)
from spark_assign.report.listed_groups import count_by, first_of_each, first_rejected_lines
from spark_assign.spark.progress import progress

Lines = Callable[[Rows], list[str]]


@progress("planning the migration", 1)
def summarize_migration(migrations: DataFrame, rejected: DataFrame, limit: int) -> str:
    """Returns the totals, and the first groups of each verdict with their costs. Reads a screenful of rows.

    Args:
        migrations: `Migration.migrations`, computed or read back.
        rejected: `Migration.rejected`, computed or read back.
        limit: Maximum number of groups listed per verdict.
    """
    sections = dict.fromkeys((READY, READY_WITH_WARNINGS, BLOCKED), _migration_table)
    return _summarize("migrations", migrations, rejected, F.col("rank"), sections, limit)


@progress("simulating the restarts", 1)
def summarize_upgrade(upgrades: DataFrame, rejected: DataFrame, limit: int) -> str:
    """Returns the totals, and the first groups of each verdict with their costs. Reads a screenful of rows.

    Args:
        upgrades: `Upgrade.upgrades`, computed or read back.
        rejected: `Upgrade.rejected`, computed or read back.
        limit: Maximum number of groups listed per verdict.
    """
    sections = {
        READY_WITH_WARNINGS: _upgrade_table,
        READY: _upgrade_table,
        BLOCKED: _note_lines,
        UNKNOWN_VERDICT: _note_lines,
    }
    return _summarize("upgrades", upgrades, rejected, F.desc_nulls_last("moved_by_rules"), sections, limit)


def _summarize(
    table: str, groups: DataFrame, rejected: DataFrame, order: Column, sections: Mapping[str, Lines], limit: int
) -> str:
    """Returns the number of groups by verdict, and the first groups of each verdict that has a section."""
    counts = count_by(groups, "verdict")
    displayed = first_of_each(groups.where(F.col("verdict").isin(*sections)), "verdict", [order], limit)
    totals = (f"{counts.get(verdict, 0):,} {_title(verdict)}" for verdict in (*sections, DONE))
    lines = [f"Groups: {', '.join(totals)}"]
    for verdict, section_lines in sections.items():
        if rows := [row for row in displayed if row["verdict"] == verdict]:
            more = more_lines(counts[verdict] - len(rows), table)
            lines += ["", f"{_title(verdict).capitalize()}:", *section_lines(rows), *more]
    return "\n".join([*lines, *first_rejected_lines(rejected, limit)])


def _title(verdict: str) -> str:
    return verdict.replace("-", " ")


def _note_lines(rows: Rows) -> list[str]:
    return [f"  {group_name(row)}: {row['note']}" for row in rows]


# --- migrations ---------------------------------------------------------------------------------------------------


def _migration_table(rows: Rows) -> list[str]:
    """Returns one line per group, with the codes of its findings."""
    header = ["rank", "group", "current", "target", "moved", "restart moves", "pauses", "max/mean", "cross-rack"]
    table = [[*header, "findings"]]
    for row in rows:
        cells = [f"{row['rank']:,}", group_name(row), row["assignor"] or DASH, row["server_assignor"]]
        cells += [number(row[name]) for name in ("moved", "moved_during_migration", "paused_during_migration")]
        balance = change(*(ratio(row[f"max_over_mean_{time}"]) for time in ("before", "after")))
        cross_rack = change(*(number(row[f"cross_rack_{time}"]) for time in ("before", "after")))
        table.append([*cells, balance, cross_rack + _hypothetical_count(row), row["codes"] or DASH])
    return aligned(table, words=(1, 2, 3, 9))


def _hypothetical_count(row: Row) -> str:
    """Returns the cross-rack count under the rack-aware assignor, in parentheses, if it differs."""
    hypothetical = row["cross_rack_hypothetical"]
    is_equal = hypothetical in (None, row["cross_rack_after"])
    return "" if is_equal else f" ({hypothetical:,} with {row['hypothetical_assignor']})"


def format_migration_steps(groups: Rows, steps: Rows) -> str:
    """Returns the verdict and its reasons for each group, and its steps with their costs.

    Args:
        groups: Rows of `migrations`.
        steps: Rows of `steps` of these groups, in order.
    """
    lines: list[str] = []
    steps_by_group = by_group(steps)
    for group in groups:
        online = {True: ", online", False: ", offline", None: ""}[group["online"]]
        lines += [*([""] if lines else []), f"{group_name(group)}: {group['verdict']}{online}. {group['reasons']}"]
        for step in steps_by_group[group_key(group)]:
            lines.append(f"  {step['step']}. {step['step_type']}{_migration_costs(step)}")
            lines.append(f"     {step['description']}")
    if any(all(name in step["description"] for name in FORBIDDEN) for step in steps):
        lines += ["", "Removed settings, and their replacements:"]
        lines += [f"  {name}: {replacement}" for name, replacement in FORBIDDEN.items()]
    return "\n".join(lines)


def _migration_costs(step: Row) -> str:
    """Returns the number of members that restart, and the costs, in parentheses."""
    restarts, simulated = step["restarts"], step["simulated_restarts"]
    if not restarts or simulated is None:
        return _costs(step)
    members = count(restarts, "member")
    return _costs(step, members if simulated == restarts else f"{members}, {simulated:,} of them simulated")


def _costs(step: Row, *counts: str) -> str:
    """Returns these counts and the known costs of a step, in parentheses."""
    names = ("moved", "revoked", "paused_partitions")
    costs = [f"{step[name]:,} {name.removesuffix('_partitions')}" for name in names if step[name] is not None]
    return f" ({', '.join([*counts, *costs])})" if counts or costs else ""


# --- upgrades -----------------------------------------------------------------------------------------------------


def _upgrade_table(rows: Rows) -> list[str]:
    """Returns one line per group."""
    header = ["group", "assignor", "rules", "restarts", "leader changes", "moved", "by rules", "pauses"]
    table = [[*header, "old, new rules"]]
    counts = ("restarts", "leader_changes", "moved", "moved_by_rules", "paused_partitions")
    for row in rows:
        changes = (_transition(row, "assignor", "to_assignor"), _transition(row, "from_rules", "to_rules"))
        moved_by_rules = ", ".join(number(row[f"moved_by_{rules}_rules"]) for rules in ("old", "new"))
        table.append([group_name(row), *changes, *(number(row[name]) for name in counts), moved_by_rules])
    return aligned(table, words=(0, 1, 2))


def _transition(row: Row, before: str, after: str) -> str:
    """Returns the value of column `before`, and that of column `after` if it is known and differs."""
    if row[before] is None:
        return DASH
    return str(row[before]) if row[after] is None else change(row[before], row[after])


def format_restarts(groups: Rows, steps: Rows) -> str:
    """Returns the verdict and its note for each group, and one line per restart.

    Args:
        groups: Rows of `upgrades`.
        steps: Rows of `steps` of these groups, in order.
    """
    lines: list[str] = []
    steps_by_group = by_group(steps)
    for group in groups:
        lines += [*([""] if lines else []), f"{group_name(group)}: {group['verdict']}. {group['note']}"]
        group_steps = steps_by_group[group_key(group)]
        full_stops = [step for step in group_steps if step["leader"] is None]
        lines += [f"  {step['step']}. {step['step_type']}: {step['description']}{_costs(step)}" for step in full_stops]
        if restarts := [step for step in group_steps if step["leader"] is not None]:
            lines += _restarts_table(restarts)
    return "\n".join(lines)


def _restarts_table(steps: Rows) -> list[str]:
    """Returns one line per restart, and below the table each distinct description with its steps."""
    table = [["step", "type", "member", "leader", "release", "assignor", "rules", "moved", "by rules", "pauses"]]
    ordinals: dict[str, list[int]] = {}
    for step in steps:
        leader = f"{without_uuids(step['leader'])}{' (new)' if step['leader_changed'] else ''}"
        member = without_uuids(step["member_id"]) if step["member_id"] else DASH
        cells = [f"{step['step']:,}", step["step_type"], member, leader, step["leader_release"]]
        costs = [number(step[name]) for name in ("moved", "moved_by_rules", "paused_partitions")]
        table.append([*cells, step["assignor"], step["rules"], *costs])
        ordinals.setdefault(step["description"], []).append(step["step"])
    descriptions = [f"  {_step_range(numbers)}: {description}" for description, numbers in ordinals.items()]
    return [*aligned(table, words=(1, 2, 3, 5)), *descriptions]


def _step_range(ordinals: Sequence[int]) -> str:
    return f"Step {ordinals[0]}" if len(ordinals) == 1 else f"Steps {ordinals[0]} to {ordinals[-1]}"
