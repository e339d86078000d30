"""What a person sees of share groups (KIP-932), and of Kafka Streams groups and applications (KIP-1071)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.report import views
from spark_assign.report.formatting import (
    Row,
    Rows,
    count,
    duration,
    format_bytes,
    group_name,
    note_lines,
    number,
    whole,
)
from spark_assign.report.listed_groups import any_of, collected, read_rejected_lines, sum_of, total_columns
from spark_assign.report.views import GROUP, Column, View, bars, before_and_after, figure, span
from spark_assign.share.plan import SharePlan
from spark_assign.spark.progress import progress
from spark_assign.streams import StreamsComparison, StreamsDrift, StreamsPlan, StreamsSimulation
from spark_assign.tables.groups import GROUP_KEY

_SHARE_SUMS = ("members", "partitions", "assignments", "assigned", "revoked", "unassigned")
_STREAMS_SUMS = ("members", "tasks", "moved_active", "moved_without_state", "moved_standby", "unassigned_standby")
_STEP_SUMS = (
    *("rebalances", "moved_active", "moved_without_state", "stopped_task_seconds", "restored_bytes"),
    "never_caught_up",
)
"""Columns of `tables.streams.STEPS` that are summed over the events of an application."""


def _caught_up(row: Row) -> str:
    return "never" if row.get("never_caught_up") else duration(row["caught_up_seconds"])


def _with_and_without(title: str, name: str, without: str, text: Callable[[Any], str], needs: str = "") -> Column:
    """Returns a column; the value without standbys is in parentheses if standbys change it."""

    def both(row: Row) -> str:
        value, bare = (
            None if each is None else round(each) for each in (row[name], row[f"{without}_without_standbys"])
        )
        return text(value) if value == bare else f"{text(value)} ({text(bare)})"

    return Column(title, both, True, needs=needs)


_MOVED = ("moved_active", "moved_without_state")
_FOLLOWED = "probing_rebalances"
"""Column that only classic applications with a restore rate have."""
_CAUGHT_UP = Column("caught up after", _caught_up, True, needs=_FOLLOWED)
_RESTORED = figure("restored", "restored_bytes", format_bytes)
_STOPPED = figure("stopped task-seconds", "stopped_task_seconds", whole)
_TIMES = (_CAUGHT_UP, _RESTORED, _STOPPED)
_COSTS = ("rebalances moved=moved_active without_state=moved_without_state", _STOPPED, _RESTORED, "never_caught_up")

SHARED = View(
    *("metrics", "groups with most changes"),
    [
        GROUP,
        "members partitions assigned revoked",
        span("per member", "per_member"),
        span("per partition", "per_partition"),
    ],
    "-assigned + revoked, cluster, group_id",
    listed="share_metrics",
)
PLANNED = View(
    *("metrics", "groups that restore most (active, standby: tasks per member)"),
    [
        *(GROUP, "+assignor members processes tasks +standby_replicas", span("active"), span("standby")),
        bars("moved", "moved_active", "flow", _MOVED),
        bars("without state", "moved_without_state", "bad", _MOVED),
        "standbys_moved=moved_standby unassigned_standbys=unassigned_standby",
        *(replace(column, needs=_FOLLOWED, on_page=True) for column in (figure("probing rebalances"), *_TIMES)),
    ],
    "-moved_without_state, -moved_active, cluster, group_id",
    note="A task that moves without its state stops until its new owner has restored it.",
    listed="streams_metrics",
)
FOLLOWED = View(
    *("metrics", "classic applications until every task is at its final owner"),
    [GROUP, "probing_rebalances", *_TIMES],
    "-caught_up_seconds IS NULL, -caught_up_seconds, -restored_bytes, cluster, group_id",
    "probing_rebalances IS NOT NULL",
    listed="streams_metrics",
)
COMPARED = View(
    *("comparison", "Streams groups after what-if changes"),
    [
        *(GROUP, "+what_if members tasks standby_replicas moved=moved_active"),
        _with_and_without("without state", "moved_without_state", "moved", number),
        _CAUGHT_UP,
        _with_and_without("restored", "restored_bytes", "restored_bytes", format_bytes, _FOLLOWED),
        _with_and_without("stopped task-seconds", "stopped_task_seconds", "stopped_task_seconds", number, _FOLLOWED),
    ],
    "-stopped_task_seconds, -moved_without_state, -moved_active, cluster, group_id, what_if",
    note="In parentheses: the same change if no other member had state on disk.",
    listed="streams_comparison",
)
SIMULATED = View(
    *("steps", "classic Streams applications over all events, those that stop longest first"),
    [GROUP, "+simulation=variant events=steps", *_COSTS],
    "-stopped_task_seconds, cluster, group_id",
    note="Stopped task-seconds: time for which no member runs a task, summed over tasks.",
    listed="totals",
)
EVENTS = View(
    *("steps", "events"),
    [Column("at", lambda row: f"{row['at_ms'] / 1000:,.0f} s", True), "event", *_COSTS, "members=member_ids"],
    "step",
    listed="streams_steps",
)
DRIFTED = View(
    *("streams_groups", "Streams groups that changed"),
    [
        *(GROUP, "change", before_and_after("members"), "joined left", before_and_after("tasks")),
        "moved=moved_active standbys_moved=moved_standby",
    ],
    "-moved_active, -moved_standby, cluster, group_id",
    "change <> 'unchanged'",
)
VIEWS = (PLANNED, COMPARED, SIMULATED, views.REJECTED)
"""The tables of the page, in order."""


@progress("planning share groups", 1)
def summarize_share_plan(plan: SharePlan, limit: int) -> str:
    """Returns the summary. Reads at most a screenful of rows.

    Args:
        plan: The plan.
        limit: Maximum number of groups listed, those with most changes first.
    """
    (totals,) = collected(plan.metrics.agg(*total_columns("groups", _SHARE_SUMS)))
    num_rejected = plan.rejected.count()
    heading = (
        f"{count(totals['groups'], 'share group')} planned, {num_rejected:,} rejected: "
        f"{', '.join(count(totals[f'{noun}s'], noun) for noun in ('member', 'partition', 'assignment'))}; "
        f"{totals['assigned']:,} assigned, {totals['revoked']:,} revoked, "
        f"{count(totals['unassigned'], 'partition')} without a member"
    )
    lines = SHARED.printed(plan.metrics, limit, totals["groups"]) if totals["groups"] else []
    rejected = read_rejected_lines(plan.rejected, num_rejected, name="share_rejected")
    return "\n".join([heading, *lines, *rejected])


@progress("planning streams groups", 1)
def summarize_streams_plan(plan: StreamsPlan, limit: int) -> str:
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
        f"{totals['moved_without_state']:,} of them without state; {count(totals['moved_standby'], 'standby')} moved, "
        f"{totals['unassigned_standby']:,} unassigned"
    ]
    if totals["groups"]:
        rows = PLANNED.first(plan.metrics, limit)
        lines += PLANNED.lines(rows, limit, totals["groups"])
        lines += note_lines([{**row, "note": idle_note(row)} for row in rows[:limit]])
    if totals["followed"] and limit:
        rows = FOLLOWED.first(plan.metrics, limit)
        lines += FOLLOWED.lines(rows, limit, totals["followed"])
        lines += [
            f"{group_name(row)}: {row['never_caught_up']:,} of its standbys and warmups never catch up. Changelogs "
            f"grow as fast as they are restored ({format_bytes(row['changelog_bytes_per_second'])}/s together)."
            for row in rows[:limit]
            if row["never_caught_up"]
        ]
    return "\n".join([*lines, *read_rejected_lines(plan.rejected, num_rejected, name="streams_rejected")])


def idle_note(row: Row) -> str | None:
    """Returns why members have no active task; None if there are enough tasks."""
    idle = row["members"] - row["tasks"]
    why = f"no active task: the application has {count(row['tasks'], 'task')}"
    return f"at least {count(idle, 'member', 'has', 'have')} {why}" if idle > 0 else None


@progress("simulating Streams applications", 1)
def summarize_streams_simulation(simulation: StreamsSimulation, limit: int) -> str:
    """Returns the costs of the applications over all events, and the events of the first one. Reads at most a screenful
    of rows.

    Args:
        simulation: The simulation.
        limit: Maximum number of applications listed, those with the longest stops first, and of events.
    """
    rows = SIMULATED.first(_costs_of_groups(simulation.steps, GROUP_KEY), limit)
    lines = SIMULATED.lines(rows, limit)
    if lines:
        view = replace(EVENTS, title=f"events of {group_name(rows[0])}")
        lines += view.printed(simulation.steps.where(any_of(rows[:1])), limit)
    return "\n".join([*lines, *read_rejected_lines(simulation.rejected, name="streams_rejected")]).lstrip("\n")


@progress("comparing streams groups", 1)
def summarize_streams_comparison(comparison: StreamsComparison, limit: int) -> str:
    """Returns a table per what-if change. Reads at most a screenful of rows of each.

    Args:
        comparison: The comparison.
        limit: Maximum number of groups listed for each change, those that must restore most first.
    """
    (row,) = collected(comparison.comparison.agg(F.sort_array(F.collect_set("what_if")).alias("what_ifs")))
    lines: list[str] = []
    for name in row["what_ifs"]:
        view = replace(COMPARED, title=f"Streams groups, what if {name} (in parentheses: without their standbys)")
        lines += view.printed(comparison.comparison.where(F.col("what_if") == name), limit)
    return "\n".join([*lines, *read_rejected_lines(comparison.rejected, name="streams_rejected")]).lstrip("\n")


@progress("looking for drift of streams groups", 1)
def summarize_streams_drift(drift: StreamsDrift, limit: int) -> str:
    """Returns the totals, and the groups with most tasks that changed owners. Reads at most a screenful of rows.

    Args:
        drift: The drift.
        limit: Maximum number of groups listed.
    """
    changed = drift.groups.where("change <> 'unchanged'")
    (totals,) = collected(changed.agg(*total_columns("groups", ("moved_active", "moved_standby"))))
    moved = f"{count(totals['moved_active'], 'task')} and {count(totals['moved_standby'], 'standby')} moved"
    heading = f"Streams groups: {totals['groups']:,} added, removed, or changed; {moved}"
    return "\n".join([heading, *DRIFTED.printed(drift.groups, limit)])


# --- page ---------------------------------------------------------------------------------------------------------


def build_streams_section(rows: Mapping[str, Rows]) -> views.Section:
    """Returns the section on Streams groups, from the rows of `VIEWS` and the row `totals` over all planned groups."""
    sentences, num_groups = [], 0
    for totals in rows.get("totals", ()):
        num_groups = totals["groups"]
        sentences = [
            f"{count(num_groups, 'Streams group')} with {count(totals['tasks'], 'task')}: "
            f"{number(totals['moved_active'])} of them move, {number(totals['moved_without_state'])} without their "
            f"state. {count(totals['moved_standby'], 'standby task', 'gets', 'get')} another owner."
        ]
    totals_of = {PLANNED.name: num_groups}
    return views.Section(
        sentences, [view.table(rows.get(view.name, ()), totals_of.get(view.name, 0)) for view in VIEWS]
    )


def streams_rows(tables: Mapping[str, DataFrame]) -> dict[str, Rows]:
    """Returns the displayed rows of a `StreamsPlan`, a `StreamsComparison`, and simulations, from their tables by name.

    `steps` has the column `variant`, the name of the simulation, in addition to those of `tables.streams.STEPS`.
    """
    if "steps" in tables:
        tables = {**tables, "steps": _costs_of_groups(tables["steps"], (*GROUP_KEY, "variant"))}
    found = views.read_views(VIEWS, tables)
    if "metrics" in tables:
        found["totals"] = collected(tables["metrics"].agg(*total_columns("groups", _STREAMS_SUMS)))
    return found


def _costs_of_groups(steps: DataFrame, key: Sequence[str]) -> DataFrame:
    """Returns the number of events and the sums of their costs. A cost that is unknown stays null."""
    events = F.count(F.when(F.col("step") > 0, True)).alias("steps")
    return steps.groupBy(*key).agg(events, *map(sum_of, _STEP_SUMS))
