"""Builds the section of the report on Streams groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.report.formatting import Row, Rows, count, duration, format_bytes, group_name, number
from spark_assign.report.html import section_parts as parts
from spark_assign.report.html.report_data import MOST_ROWS, StreamsRows
from spark_assign.report.listed_groups import STEP_SUMS, collected, total_columns
from spark_assign.tables.groups import GROUP_KEY

_SUMS = ("tasks", "moved_active", "moved_without_state", "moved_standby")
_GROUP = ("Group", False, group_name)
_TIMES = (
    ("Caught up after", "caught_up_seconds", duration),
    ("Restored", "restored_bytes", format_bytes),
    ("Stopped task-seconds", "stopped_task_seconds", lambda value: number(None if value is None else round(value))),
)
"""Columns that only classic applications with a restore rate have."""


def build_streams_section(rows: StreamsRows) -> parts.Section:
    """Returns the section on Streams groups: their plan, a comparison with and without standbys, and simulations."""
    tables = [_plan_table(rows), _comparison_table(rows.comparison), _simulated_table(rows.simulated)]
    return parts.Section(_sentences(rows.totals), [*tables, parts.rejected_table(rows.rejected)])


def _sentences(totals: Row) -> list[str]:
    if not totals:
        return []
    moved = (
        f"{number(totals['moved_active'])} of them move, {number(totals['moved_without_state'])} without their state"
    )
    return [
        f"{count(totals['groups'], 'Streams group')} with {count(totals['tasks'], 'task')}: {moved}. "
        f"{count(totals['moved_standby'], 'standby task')} get another owner."
    ]


def _plan_table(rows: StreamsRows) -> parts.Table:
    """Returns one line per planned group, with bars for the tasks that move."""
    scale = ("moved_active", "moved_without_state")
    num_groups = rows.totals.get("groups", 0)
    more = f"Shown are {len(rows.metrics):,} of {num_groups:,}. " if num_groups > len(rows.metrics) else ""
    return parts.table_of(
        "Streams groups in their next rebalance, those that restore most first",
        rows.metrics,
        [
            _GROUP,
            parts.words("Assignor", "assignor"),
            *parts.figures("members", "processes", "tasks", "standby_replicas"),
            ("Active tasks per member", True, lambda row: _range(row, "active")),
            ("Standbys per member", True, lambda row: _range(row, "standby")),
            parts.bars("Moved", "moved_active", "flow", rows.metrics, scale),
            parts.bars("Without state", "moved_without_state", "bad", rows.metrics, scale),
            parts.figure("Standbys moved", "moved_standby"),
            *_followed_columns(rows.metrics),
        ],
        f"{more}A task that moves without its state stops until its new owner has restored it.",
    )


def _range(row: Row, role: str) -> str:
    low, high = (number(row[f"{end}_{role}"]) for end in ("min", "max"))
    return low if low == high else f"{low} to {high}"


def _followed_columns(rows: Rows) -> list[parts.TableColumn]:
    """Returns columns of times and bytes, if a restore rate was given for one of the rows."""
    if not any(row["probing_rebalances"] is not None for row in rows):
        return []
    probing = [parts.figure("Probing rebalances", "probing_rebalances")]
    return [*probing, *(parts.figure(title, name, text) for title, name, text in _TIMES)]


def _comparison_table(rows: Rows) -> parts.Table:
    """Returns one line per group and what-if change, with what would happen without standbys."""
    suffix = "_without_standbys"
    bare = [(f"{title}, no standbys", f"{name}{suffix}", text) for title, name, text in _TIMES[1:]]
    is_followed = any(row["probing_rebalances"] is not None for row in rows)
    return parts.table_of(
        "Streams groups after what-if changes, with and without their standbys",
        rows,
        [
            _GROUP,
            parts.words("What if", "what_if"),
            *parts.figures("members", "tasks", "standby_replicas"),
            parts.figure("Moved", "moved_active"),
            parts.figure("Without state", "moved_without_state"),
            parts.figure("Without state, no standbys", f"moved{suffix}"),
            *_followed_columns(rows),
            *(parts.figure(*column) for column in bare if is_followed),
        ],
        "The columns with no standbys are of the same change if no other member had state on disk.",
    )


def _simulated_table(rows: Rows) -> parts.Table:
    """Returns one line per application and simulation."""
    return parts.table_of(
        "Classic Streams applications over all simulated events, those that stop longest first",
        rows,
        [
            *(_GROUP, parts.words("Simulation", "variant"), parts.figure("Events", "steps")),
            *(parts.figure("Rebalances", "rebalances"), parts.figure("Moved", "moved_active")),
            parts.figure("Without state", "moved_without_state"),
            *(parts.figure(*column) for column in _TIMES[1:]),
            parts.figure("Never caught up", "never_caught_up"),
        ],
        "Stopped task-seconds: time for which no member runs a task, summed over tasks.",
    )


def streams_rows(tables: Mapping[str, DataFrame]) -> StreamsRows:
    """Returns the displayed rows of a `StreamsPlan`, a `StreamsComparison`, and simulations, from their tables by name.

    `steps` has the column `variant`, the name of the simulation, in addition to those of `tables.streams.STEPS`.
    """
    order = [F.desc(name) for name in ("moved_without_state", "moved_active")]
    found: dict[str, Any] = {}
    if "metrics" in tables:
        (found["totals"],) = collected(tables["metrics"].agg(*total_columns("groups", _SUMS)))
        found["metrics"] = collected(tables["metrics"].orderBy(*order, *GROUP_KEY).limit(MOST_ROWS))
    if "comparison" in tables:
        compared = tables["comparison"].orderBy(F.desc("moved_without_standbys"), *order, *GROUP_KEY, "what_if")
        found["comparison"] = collected(compared.limit(MOST_ROWS))
    if "steps" in tables:
        costs = tables["steps"].groupBy(*GROUP_KEY, "variant").agg(*total_columns("steps", STEP_SUMS))
        longest = costs.orderBy(F.desc("stopped_task_seconds"), *GROUP_KEY, "variant")
        found["simulated"] = collected(longest.limit(MOST_ROWS))
    if "rejected" in tables:
        found["rejected"] = collected(tables["rejected"].orderBy(*GROUP_KEY, "code").limit(MOST_ROWS))
    return StreamsRows(**found)
