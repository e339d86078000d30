"""Streams groups on one screen: what a plan has them do, and what that costs."""

from __future__ import annotations

from pyspark.sql import functions as F

from spark_assign.report.formatting import REJECTED_SHOWN, rejected_lines
from spark_assign.report.text.connect import aligned
from spark_assign.spark.progress import progress
from spark_assign.streams.plan import StreamsPlan

_SHOWN = 10
_SUMS = ("members", "tasks", "moved_active", "moved_without_state", "moved_standby", "unassigned_standby")
_HEADER = [
    "group",
    "members",
    "processes",
    "tasks",
    "active",
    "standby",
    "moved",
    "no state",
    "copies",
    "lacking",
]


@progress("planning streams groups", 1)
def summarize_streams(plan: StreamsPlan, top: int = _SHOWN) -> tuple[str, int]:
    """The text, and how many streams groups were rejected. Reads at most a screenful of rows.

    Args:
        plan: what was planned.
        top: how many groups to list, those first that have to restore most tasks.
    """
    sums = (F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in _SUMS)
    totals = plan.metrics.agg(F.count(F.lit(1)).alias("groups"), *sums).collect()[0]  # one row of sums
    refused = plan.rejected.count()
    lines = [
        f"{totals['groups']:,} streams groups planned, {refused:,} rejected: {totals['members']:,} members, "
        f"{totals['tasks']:,} tasks; {totals['moved_active']:,} moved, "
        f"{totals['moved_without_state']:,} of them without state; {totals['moved_standby']:,} standbys moved, "
        f"{totals['unassigned_standby']:,} without a process"
    ]
    if top and totals["groups"]:
        order = [F.desc("moved_without_state"), F.desc("moved_active"), F.asc("cluster"), F.asc("group_id")]
        rows = [
            [
                f"{row['cluster']}/{row['group_id']}",
                f"{row['members']:,}",
                f"{row['processes']:,}",
                f"{row['tasks']:,}",
                f"{row['min_active']:,}–{row['max_active']:,}",
                f"{row['min_standby']:,}–{row['max_standby']:,}",
                f"{row['moved_active']:,}",
                f"{row['moved_without_state']:,}",
                f"{row['moved_standby']:,}",
                f"{row['unassigned_standby']:,}",
            ]
            for row in plan.metrics.orderBy(*order).limit(top).collect()
        ]
        lines += ["", "Those that restore most (active and standby tasks of one member):", *aligned([_HEADER, *rows])]
    if refused:
        first = plan.rejected.orderBy("cluster", "group_id").limit(REJECTED_SHOWN).collect()
        lines += rejected_lines([row.asDict() for row in first], refused)
    return "\n".join(lines), refused
