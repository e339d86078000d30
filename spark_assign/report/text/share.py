"""Share groups on one screen: what a plan gives and takes."""

from __future__ import annotations

from pyspark.sql import functions as F

from spark_assign.report.formatting import REJECTED_SHOWN, count, rejected_lines
from spark_assign.report.text.text_table import aligned
from spark_assign.share.plan import SharePlan
from spark_assign.spark.progress import progress

_SHOWN = 10
_SUMMED = ("members", "partitions", "assignments", "given", "taken", "unassigned")


@progress("planning share groups", 1)
def summarize_plan(plan: SharePlan, top: int = _SHOWN) -> tuple[str, int]:
    """The text, and how many share groups were rejected. Reads at most a screenful of rows.

    Args:
        plan: what was planned.
        top: how many groups to list, those that change most first.
    """
    sums = (F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in _SUMMED)
    totals = plan.metrics.agg(F.count(F.lit(1)).alias("groups"), *sums).collect()[0]  # one row of sums
    refused = plan.rejected.count()
    lines = [
        f"{count(totals['groups'], 'share group')} planned, {refused:,} rejected: "
        f"{', '.join(count(totals[f'{noun}s'], noun) for noun in ('member', 'partition', 'assignment'))}; "
        f"{totals['given']:,} given, {totals['taken']:,} taken, "
        f"{count(totals['unassigned'], 'partition')} without a member"
    ]
    if top and totals["groups"]:
        order = [F.desc(F.col("given") + F.col("taken")), F.asc("cluster"), F.asc("group_id")]
        header = ["cluster", "group", "members", "partitions", "given", "taken", "per member", "per partition"]
        rows = [
            [
                row["cluster"],
                row["group_id"],
                *(f"{row[name]:,}" for name in ("members", "partitions", "given", "taken")),
                *(f"{row[f'min_per_{each}']}–{row[f'max_per_{each}']}" for each in ("member", "partition")),
            ]
            for row in plan.metrics.orderBy(*order).limit(top).collect()
        ]
        lines += ["", "Those that change most:", *aligned([header, *rows], (0, 1))]
    if refused:
        first = plan.rejected.orderBy("cluster", "group_id").limit(REJECTED_SHOWN).collect()
        lines += rejected_lines([row.asDict() for row in first], refused)
    return "\n".join(lines), refused
