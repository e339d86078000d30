"""Text summaries of plans for share groups (KIP-932) and for Kafka Streams groups (KIP-1071)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import functions as F

from spark_assign.report.formatting import Row, Rows, aligned, change, count, duration, format_bytes, group_name, number
from spark_assign.report.listed_groups import STEP_SUMS, any_of, collected, read_rejected_lines, sum_of, total_columns
from spark_assign.share.plan import SharePlan
from spark_assign.spark.progress import progress
from spark_assign.streams import StreamsComparison, StreamsDrift, StreamsPlan, StreamsSimulation
from spark_assign.tables.groups import GROUP_KEY

_DEFAULT_LIMIT = 10
_SHARE_SUMS = ("members", "partitions", "assignments", "assigned", "revoked", "unassigned")
_DRIFT_SUMS = ("moved_active", "moved_standby")
_STREAMS_SUMS = ("members", "tasks", "moved_active", "moved_without_state", "moved_standby", "unassigned_standby")
_COSTS = "rebalances", "moved", "without state", "stopped task-seconds", "restored", "never caught up"


@progress("planning share groups", 1)
def summarize_share_plan(plan: SharePlan, limit: int = _DEFAULT_LIMIT) -> str:
    """Returns the summary. Reads at most a screenful of rows.

    Args:
        plan: The plan.
        limit: Maximum number of groups listed, those with most changes first.
    """
    (totals,) = collected(plan.metrics.agg(*total_columns("groups", _SHARE_SUMS)))
    num_rejected = plan.rejected.count()
    lines = [
        f"{count(totals['groups'], 'share group')} planned, {num_rejected:,} rejected: "
        f"{', '.join(count(totals[f'{noun}s'], noun) for noun in ('member', 'partition', 'assignment'))}; "
        f"{totals['assigned']:,} assigned, {totals['revoked']:,} revoked, "
        f"{count(totals['unassigned'], 'partition')} without a member"
    ]
    if limit and totals["groups"]:
        order = [F.desc(F.col("assigned") + F.col("revoked")), *map(F.col, GROUP_KEY)]
        header = ["cluster", "group", "members", "partitions", "assigned", "revoked", "per member", "per partition"]
        rows = [
            [
                row["cluster"],
                row["group_id"],
                *(f"{row[name]:,}" for name in ("members", "partitions", "assigned", "revoked")),
                *(f"{row[f'min_per_{unit}']}–{row[f'max_per_{unit}']}" for unit in ("member", "partition")),
            ]
            for row in collected(plan.metrics.orderBy(*order).limit(limit), "groups")
        ]
        lines += ["", "Groups with most changes:", *aligned([header, *rows], (0, 1))]
    return "\n".join([*lines, *read_rejected_lines(plan.rejected, num_rejected)])


@progress("planning streams groups", 1)
def summarize_streams_plan(plan: StreamsPlan, limit: int = _DEFAULT_LIMIT) -> str:
    """Returns the summary. Reads at most a screenful of rows.

    Args:
        plan: The plan.
        limit: Maximum number of groups listed, those that must restore most tasks first.
    """
    followed = F.count("probing_rebalances").alias("followed")
    (totals,) = collected(plan.metrics.agg(*total_columns("groups", _STREAMS_SUMS), followed))
    num_rejected = plan.rejected.count()
    lines = [
        f"{count(totals['groups'], 'Streams group')} planned, {num_rejected:,} rejected: "
        f"{count(totals['members'], 'member')}, {count(totals['tasks'], 'task')}; {totals['moved_active']:,} moved, "
        f"{totals['moved_without_state']:,} of them without state; {totals['moved_standby']:,} standbys moved, "
        f"{totals['unassigned_standby']:,} unassigned"
    ]
    if limit and totals["groups"]:
        order = [F.desc("moved_without_state"), F.desc("moved_active"), *map(F.col, GROUP_KEY)]
        header = ["group", "members", "processes", "tasks", "active", "standby"]
        header += ["moved", "without state", "standbys moved", "unassigned standbys"]
        rows = [
            [
                group_name(row),
                *(f"{row[name]:,}" for name in ("members", "processes", "tasks")),
                *(f"{row[f'min_{role}']:,}–{row[f'max_{role}']:,}" for role in ("active", "standby")),
                *(f"{row[name]:,}" for name in _STREAMS_SUMS[2:]),
            ]
            for row in collected(plan.metrics.orderBy(*order).limit(limit), "groups")
        ]
        title = "Groups that restore most (active, standby: tasks per member):"
        lines += ["", title, *aligned([header, *rows])]
        if totals["followed"]:
            lines += ["", *_followed_lines(plan, limit)]
    return "\n".join([*lines, *read_rejected_lines(plan.rejected, num_rejected)])


def _followed_lines(plan: StreamsPlan, limit: int) -> list[str]:
    """Returns a table of the classic applications that were followed, those that take longest first."""
    order = [F.desc_nulls_first("caught_up_seconds"), F.desc("restored_bytes"), *map(F.col, GROUP_KEY)]
    followed = plan.metrics.where("probing_rebalances is not null").orderBy(*order).limit(limit)
    header = ["group", "probing rebalances", "caught up after", "restored", "stopped task-seconds"]
    found = collected(followed, "restoring_groups")
    rows = [
        [
            group_name(row),
            number(row["probing_rebalances"]),
            "never" if row["never_caught_up"] else duration(row["caught_up_seconds"]),
            format_bytes(row["restored_bytes"]),
            f"{row['stopped_task_seconds']:,.0f}",
        ]
        for row in found
    ]
    never = [
        f"{group_name(row)}: {row['never_caught_up']:,} of its standbys and warmups never catch up. Changelogs grow as "
        f"fast as they are restored ({format_bytes(row['changelog_bytes_per_second'])}/s together)."
        for row in found
        if row["never_caught_up"]
    ]
    return ["Classic applications until every task is at its final owner:", *aligned([header, *rows]), *never]


@progress("simulating Streams applications", 1)
def summarize_streams_simulation(simulation: StreamsSimulation, limit: int = _DEFAULT_LIMIT) -> str:
    """Returns the costs of the applications over all events, and the events of the first one. Reads at most a screenful
    of rows.

    Args:
        simulation: The simulation.
        limit: Maximum number of applications listed, those with the longest stops first, and of events.
    """
    sums = [sum_of(name) for name in STEP_SUMS]
    of_groups = simulation.steps.groupBy(*GROUP_KEY).agg(F.count("*").alias("steps"), *sums)
    largest = of_groups.orderBy(F.desc("stopped_task_seconds"), *GROUP_KEY).limit(limit)
    rows = collected(largest, "groups")
    lines = []
    if rows:
        table = [[group_name(row), number(row["steps"]), *_costs(row)] for row in rows]
        lines = ["Classic Streams applications, over all events:", *aligned([["group", "events", *_COSTS], *table])]
        of_first = simulation.steps.where(any_of(rows[:1])).orderBy("step").limit(limit)
        table = [
            [f"{row['at_ms'] / 1000:,.0f} s", row["event"], *_costs(row), ", ".join(row["member_ids"])]
            for row in collected(of_first, "steps")
        ]
        lines += ["", f"Events of {group_name(rows[0])}:"]
        lines += aligned([["at", "event", *_COSTS, "members"], *table], (1, len(_COSTS) + 2))
    return "\n".join([*lines, *read_rejected_lines(simulation.rejected)])


def _costs(row: Row) -> list[str]:
    return [
        *(number(row[name]) for name in STEP_SUMS[:3]),
        f"{row['stopped_task_seconds']:,.0f}",
        format_bytes(row["restored_bytes"]),
        number(row["never_caught_up"]),
    ]


@progress("comparing streams groups", 1)
def summarize_streams_comparison(comparison: StreamsComparison, limit: int = _DEFAULT_LIMIT) -> str:
    """Returns a table per what-if change. Reads at most a screenful of rows of each.

    Args:
        comparison: The comparison.
        limit: Maximum number of groups listed for each change, those that must restore most first.
    """
    (row,) = collected(comparison.comparison.agg(F.sort_array(F.collect_set("what_if")).alias("what_ifs")))
    order = [F.desc("stopped_task_seconds"), F.desc("moved_without_state"), F.desc("moved_active")]
    lines: list[str] = []
    for name in row["what_ifs"] if limit else ():
        rows = comparison.comparison.where(F.col("what_if") == name).orderBy(*order, *GROUP_KEY).limit(limit)
        lines += ["", *_compared_lines(name, collected(rows, "groups"))]
    return "\n".join([*lines[1:], *read_rejected_lines(comparison.rejected, comparison.rejected.count())])


def _compared_lines(what_if: str, rows: Rows) -> list[str]:
    """Returns the groups under a change; the value without standbys is in parentheses if standbys change it."""
    is_followed = any(row["probing_rebalances"] is not None for row in rows)
    table = [["group", "members", "tasks", "standby replicas", "moved", "without state"]]
    table[0] += ["caught up after", "restored", "stopped task-seconds"] if is_followed else []
    for row in rows:
        cells = [group_name(row), *(number(row[name]) for name in ("members", "tasks", "standby_replicas"))]
        cells += [number(row["moved_active"]), _with_and_without(row, "moved_without_state", "moved", number)]
        if is_followed:
            cells += [
                duration(row["caught_up_seconds"]),
                _with_and_without(row, "restored_bytes", "restored_bytes", format_bytes),
                _with_and_without(row, "stopped_task_seconds", "stopped_task_seconds", number),
            ]
        table.append(cells)
    title = f"Streams groups, what if {what_if} (in parentheses: without their standbys):"
    return [title, *aligned(table)]


def _with_and_without(row: Row, name: str, without: str, text: Callable[[Any], str]) -> str:
    value, bare = (None if each is None else round(each) for each in (row[name], row[f"{without}_without_standbys"]))
    return text(value) if value == bare else f"{text(value)} ({text(bare)})"


@progress("looking for drift of streams groups", 1)
def summarize_streams_drift(drift: StreamsDrift, limit: int = _DEFAULT_LIMIT) -> str:
    """Returns the totals, and the groups with most tasks that changed owners. Reads at most a screenful of rows.

    Args:
        drift: The drift.
        limit: Maximum number of groups listed.
    """
    changed = drift.groups.where("change <> 'unchanged'")
    (totals,) = collected(changed.agg(*total_columns("groups", _DRIFT_SUMS)))
    moved = f"{count(totals['moved_active'], 'task')} and {count(totals['moved_standby'], 'standby')} moved"
    lines = [f"Streams groups: {totals['groups']:,} added, removed, or changed; {moved}"]
    order = [F.desc(name) for name in ("moved_active", "moved_standby")]
    rows = collected(changed.orderBy(*order, *GROUP_KEY).limit(limit), "groups")
    if rows:
        header = ["group", "change", "members", "joined/left", "tasks", "moved", "standbys moved"]
        cells = [
            [
                group_name(row),
                row["change"],
                change(number(row["members_before"]), number(row["members_after"])),
                f"{row['joined']:,}/{row['left']:,}",
                change(number(row["tasks_before"]), number(row["tasks_after"])),
                *(number(row[name]) for name in _DRIFT_SUMS),
            ]
            for row in rows
        ]
        lines += ["", *aligned([header, *cells], words=(0, 1))]
    return "\n".join(lines)
