"""Text summaries of comparisons of assignors."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.comparison.kernel.compare import KAFKA_DEFAULT
from spark_assign.report.formatting import Rows, aligned, group_name, one_line, ratio
from spark_assign.report.listed_groups import collected, note_lines
from spark_assign.spark.progress import progress
from spark_assign.tables.counted_nouns import count
from spark_assign.tables.groups import GROUP_KEY

_DEFAULT_LIMIT = 10


@progress("comparing assignors", 1)
def summarize_comparison(comparison: DataFrame, limit: int = _DEFAULT_LIMIT) -> str:
    """Returns one line per change and assignor, the groups that improve most, and rejected groups.

    Improvement is that of the recommended assignor over the group's current assignor, or over `range` if the current
    one is unknown or not compared: first in balance (max over mean, by tenths), then in partitions that don't move.
    Reads a screenful of rows.

    Args:
        comparison: Result of `compare`, computed or read back.
        limit: Maximum number of groups listed for each change.
    """
    is_planned = F.col("rejected").isNull() & (F.col("members") > 0)
    sums = comparison.groupBy("what_if", "assignor").agg(
        F.count_if(is_planned).alias("groups"),
        F.count_if("recommended").alias("recommended"),
        F.count("rejected").alias("rejected"),
        F.count_if(F.col("rejected").isNull() & (F.col("members") == 0)).alias("memberless"),
        *(F.avg(name).alias(name) for name in ("max_over_mean", "load_max_over_mean")),
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("moved", "revoked")),
        F.coalesce(F.sum("paused_partition_seconds"), F.lit(0.0)).alias("paused"),
    )
    totals = collected(sums.orderBy("what_if", "assignor"), "totals")  # one row per change and assignor
    lines: list[str] = []
    for name in dict.fromkeys(row["what_if"] for row in totals):
        rows = [row for row in totals if row["what_if"] == name]
        lines += [*([""] if lines else []), *totals_lines(name, rows)]
        if limit and any(row["recommended"] for row in rows):
            improvements = _improvements(comparison.where(F.col("what_if") == name), limit)
            displayed = collected(improvements, "groups")  # a screenful
            if displayed:
                lines += ["", *improvement_lines(displayed)]
            notes = collected(noted_rows(comparison.where(F.col("what_if") == name)).limit(limit), "notes")
            lines += note_lines(notes, lambda row: f"{group_name(row)}, {row['assignor']}")
    return "\n".join([*lines, *_rejected_lines(comparison)])


def totals_lines(change_name: str, rows: Rows) -> list[str]:
    """Returns the totals under one change: one line per assignor."""
    num_memberless = max(row["memberless"] for row in rows)
    memberless = f" ({count(num_memberless, 'group')} without members)" if num_memberless else ""
    by_load = any(row.get("load_max_over_mean") is not None for row in rows)
    balance = ["max/mean", *["of load"] * by_load]
    table = [["assignor", "groups", "recommended", "rejected", *balance, "moved", "revoked", "paused s"]]
    for row in sorted(rows, key=lambda row: (-row["recommended"], row["assignor"])):
        balance = [ratio(row["max_over_mean"]), *[ratio(row.get("load_max_over_mean"))] * by_load]
        counts = [f"{row[name]:,}" for name in ("groups", "recommended", "rejected")]
        costs = [*balance, f"{row['moved']:,}", f"{row['revoked']:,}", f"{row['paused']:,.1f}"]
        table.append([row["assignor"], *counts, *costs])
    return [f"What if {change_name}{memberless}:", *aligned(table)]


def improvement_lines(rows: Rows) -> list[str]:
    """Returns one line per group with the recommended assignor and the reason, and how to switch to it."""
    table = [["group", "recommended", "why"]]
    groups_by_switch: dict[tuple[str, str | None], list[str]] = {}
    for row in rows:
        reason = row["reason"].removeprefix(f"{row['assignor']}: ")
        table.append([group_name(row), row["assignor"], reason])
        if row.get("switch_steps"):
            groups_by_switch.setdefault((row["switch_steps"], row["settings"]), []).append(group_name(row))
    lines = ["Groups that gain most:", *("  " + line for line in aligned(table, words=(0, 1, 2)))]
    if groups_by_switch:
        lines += ["", "How to switch:"]
        for (switch, settings), groups in groups_by_switch.items():
            pasted = [f"      {line}" for line in (settings or "").splitlines()]
            lines += [f"    {', '.join(groups)}: {switch}", *pasted]
    return lines


def noted_rows(comparison: DataFrame) -> DataFrame:
    """Returns the rows with a note of each group's current and recommended assignor, most members without partitions
    first."""
    is_relevant = F.col("recommended") | F.coalesce("is_current", F.lit(False))
    order = [
        *map(F.desc, ("members_without_partitions", "topic_max_over_mean")),
        *map(F.col, (*GROUP_KEY, "what_if", "assignor")),
    ]
    columns = (*GROUP_KEY, "what_if", "assignor", "members_without_partitions", "topic_max_over_mean", "note")
    return comparison.where(is_relevant & F.col("note").isNotNull()).orderBy(*order).select(*columns)


def _improvements(rows: DataFrame, limit: int) -> DataFrame:
    """Returns the groups whose recommended assignor isn't the current one, largest improvement first."""
    planned = rows.where(F.col("rejected").isNull() & (F.col("members") > 0))
    rank = (
        F.when(F.coalesce("is_current", F.lit(False)), F.lit(2))
        .when(F.col("assignor") == KAFKA_DEFAULT, F.lit(1))
        .otherwise(F.lit(0))
    )
    switch = [  # runs of earlier releases have no such columns
        name if name in rows.columns else F.lit(None).cast("string").alias(name)
        for name in ("switch_steps", "settings")
    ]
    metrics = F.struct("assignor", "max_over_mean", "moved", "reason", *switch)
    pairs = planned.groupBy(*GROUP_KEY).agg(
        F.max_by(metrics, F.struct(rank, "moved", "assignor")).alias("now"),
        F.max_by(metrics, F.when(F.col("recommended"), 1)).alias("best"),
    )
    balance = F.coalesce(F.round(F.col("now.max_over_mean") - F.col("best.max_over_mean"), 1), F.lit(0))
    changed = pairs.where(F.col("now.assignor") != F.col("best.assignor"))
    order = [F.desc(balance), F.desc(F.col("now.moved") - F.col("best.moved")), *map(F.col, GROUP_KEY)]
    columns = [f"best.{name}" for name in ("assignor", "reason", "switch_steps", "settings")]
    return changed.orderBy(*order).limit(limit).select(*GROUP_KEY, *columns)


def _rejected_lines(comparison: DataFrame) -> list[str]:
    rejected = comparison.where(F.col("rejected").isNotNull())
    rows = collected(
        rejected.orderBy(*GROUP_KEY, "what_if", "assignor").limit(_DEFAULT_LIMIT + 1), "rejected", _DEFAULT_LIMIT
    )
    if not rows:
        return []
    lines = [f"  {group_name(row)}, {row['what_if']}: {one_line(row['reason'])}" for row in rows[:_DEFAULT_LIMIT]]
    more = ["  … and more, in the table rejected"] if len(rows) > _DEFAULT_LIMIT else []
    return ["", "Rejected:", *lines, *more]
