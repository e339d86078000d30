"""Text of membership advice: a summary of the fleet, and all options of selected groups."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.advice.kernel.membership_text import time
from spark_assign.report.formatting import (
    DASH,
    Row,
    Rows,
    aligned,
    change,
    group_name,
    more_lines,
)
from spark_assign.report.listed_groups import (
    collected,
    first_groups_with_steps,
    first_of_each,
    first_rejected_lines,
    num_rows,
)
from spark_assign.spark.progress import progress
from spark_assign.tables.groups import GROUP_KEY

_PAUSES = (
    *("restart_paused_partition_seconds", "restart_longest_pause_seconds", "crash_paused_partition_seconds"),
    *("crash_longest_pause_seconds", "expected_paused_partition_seconds"),
)


@progress("simulating restarts and crashes", 1)
def summarize_membership(advice: DataFrame, rejected: DataFrame, limit: int) -> str:
    """Returns the totals, and the first groups of each recommendation with their savings. Reads a screenful of rows.

    Args:
        advice: `MembershipAdvice.membership_advice`, computed or read back.
        rejected: `MembershipAdvice.rejected`, computed or read back.
        limit: Maximum number of groups listed per recommendation.
    """
    totals = advice.groupBy("recommendation").agg(num_rows("groups"), F.sum("saved_seconds").alias("saved"))
    sums = {row["recommendation"]: row for row in collected(totals)}
    displayed = first_of_each(advice, "recommendation", [F.desc("saved_seconds")], limit)
    changes = sorted((name for name in sums if name != "keep"), key=lambda name: (-sums[name]["saved"], name))
    saved = sum(sums[name]["saved"] for name in changes)
    num_changes = sum(sums[name]["groups"] for name in changes)
    num_kept = sums["keep"]["groups"] if "keep" in sums else 0
    lines = [
        f"Groups: {num_changes:,} to change, which saves {_seconds(saved)} partition-seconds per deploy; "
        f"{num_kept:,} to keep"
    ]
    for recommendation in [*changes, *(["keep"] if "keep" in sums else [])]:
        rows = [row for row in displayed if row["recommendation"] == recommendation]
        if rows:
            table = _groups_table(rows, with_savings=recommendation != "keep")
            more = more_lines(sums[recommendation]["groups"] - len(rows), "membership_advice")
            lines += ["", f"{_title(recommendation)}:", *table, *more]
    return "\n".join([*lines, *first_rejected_lines(rejected, limit)])


def _groups_table(rows: Rows, *, with_savings: bool) -> list[str]:
    """Returns one line per group."""
    header = ["group", "membership", "protocol", "session", "restart", "longest", "crash"]
    table = [[*header, "saves", "warnings"] if with_savings else [*header, "warnings"]]
    for row in rows:
        modes = (change(row[name], row[f"recommended_{name}"]) for name in ("membership", "protocol"))
        cells = [group_name(row), *modes]
        cells.append(change(time(row["session_timeout_ms"]), time(row["recommended_session_timeout_ms"])))
        cells += [change(_seconds(row[name]), _seconds(row[f"recommended_{name}"])) for name in _PAUSES[:3]]
        savings = [_seconds(row["saved_seconds"])] if with_savings else []
        table.append([*cells, *savings, row["warning_codes"] or DASH])
    return aligned(table, words=(0, 1, 2, len(table[0]) - 1))


def groups_with_options(
    advice: DataFrame, options: DataFrame, patterns: Sequence[str], limit: int
) -> tuple[list[Row], list[Row]]:
    """Returns the first groups whose id matches a shell pattern, and their options at the group's restart time."""
    restart_times = advice.select(*GROUP_KEY, "restart_time_ms")
    at_restart_time = options.join(restart_times, [*GROUP_KEY, "restart_time_ms"], "left_semi")
    order = ("expected_paused_partition_seconds", "membership", "protocol", "session_timeout_ms")
    return first_groups_with_steps(advice, at_restart_time, patterns, GROUP_KEY, limit, order)


def format_membership(groups: Rows, options: Rows) -> str:
    """Returns the recommendation, its settings, and its warnings for each group, and one line per option.

    Args:
        groups: Rows of `membership_advice`.
        options: Rows of `options` of these groups, in order.
    """
    lines: list[str] = []
    for group in groups:
        lines += [*([""] if lines else []), f"{group_name(group)}: {group['summary']}"]
        lines += [f"    {line}" for line in (group["settings"] or "").splitlines()]
        lines += [f"  Warning: {group['warning_text']}"] if group["warning_text"] else []
        table = [
            ["membership", "protocol", "session", "restart", "longest", "rebalances", "crash", "longest", "expected"]
        ]
        table += [_option_cells(row) for row in options if group_name(row) == group_name(group)]
        lines += aligned(table, words=(0, 1, 9))
    return "\n".join(lines)


def _option_cells(row: Row) -> list[str]:
    restart, longest_restart, crash, longest_crash, expected = (_seconds(row[name]) for name in _PAUSES)
    session = f"{'current: ' if row['is_current'] else ''}{time(row['session_timeout_ms'])}"
    restarts = [restart, longest_restart, f"{row['restart_rebalances']:,}"]
    return [row["membership"], row["protocol"], session, *restarts, crash, longest_crash, expected]


def _title(recommendation: str) -> str:
    if recommendation == "keep":
        return "Keep"
    return "Change the session timeout" if recommendation == "session" else f"Change to {recommendation}"


def _seconds(value: float | None) -> str:
    return DASH if value is None else f"{value:,.0f}" if value >= 10 else f"{value:,.1f}"
