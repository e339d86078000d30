"""Text summaries of comparisons of assignors, of drifts, and of alerts."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.comparison.kernel.compare import KAFKA_DEFAULT
from spark_assign.report.formatting import DASH, Row, Rows, aligned, change, group_name, one_line, ratio
from spark_assign.report.listed_groups import collected, count_by, note_lines, total_columns
from spark_assign.spark.progress import progress
from spark_assign.tables.counted_nouns import count
from spark_assign.tables.groups import GROUP_KEY

_DEFAULT_LIMIT = 10
_CHANGES = ("added", "removed", "changed", "unchanged")
_MEMBER_CHANGES = ("joined", "left", "restarted")
_PARTITION_CHANGES = ("moved", "newly_owned", "no_longer_owned")


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


@progress("looking for drift", 1)
def summarize_drift(groups: DataFrame, topics: DataFrame, limit: int = _DEFAULT_LIMIT) -> str:
    """Returns the totals, the groups with most partitions that changed owners, and the topics that changed.

    Reads a screenful of rows.

    Args:
        groups: `Drift.groups`, computed or read back.
        topics: `Drift.topics`, computed or read back.
        limit: Maximum number of groups, and of topics, listed.
    """
    by_change = [F.count_if(F.col("change") == name).alias(name) for name in _CHANGES]
    (totals,) = collected(
        groups.agg(*by_change, *total_columns("groups", (*_MEMBER_CHANGES, *_PARTITION_CHANGES))), "totals"
    )
    lines = []
    for what, names in (("Groups", _CHANGES), ("Members", _MEMBER_CHANGES), ("Partitions", _PARTITION_CHANGES)):
        counts = ", ".join(f"{totals[name]:,} {name.replace('_', ' ')}" for name in names)
        lines.append(f"{what}: {counts}")
    changed = F.col("moved") + F.col("newly_owned") + F.col("no_longer_owned")
    order = [F.desc(changed), F.desc(F.col("joined") + F.col("left")), *map(F.col, GROUP_KEY)]
    rows = collected(groups.where(F.col("change") != "unchanged").orderBy(*order).limit(limit), "groups")
    if rows:
        header = ["group", "change", "members", "joined/left/restarted", "partitions", "moved", "max/mean"]
        lines += ["", "Groups in which most has changed:", *aligned([header, *map(_drift_cells, rows)], words=(0, 1))]
    topic_rows = collected(topics.orderBy("cluster", "topic").limit(limit + 1), "topics", limit) if limit else []
    if topic_rows:
        table = [
            [f"{row['cluster']}/{row['topic']}", row["change"], _before_after(row, "partitions")]
            for row in topic_rows[:limit]
        ]
        lines += ["", "Topics:", *aligned(table, words=(0, 1))]
        lines += ["  … and more, in the table topics"] if len(topic_rows) > limit else []
    return "\n".join(lines)


def _drift_cells(row: Row) -> list[str]:
    code = row["rejected_after"] or row["rejected_before"]
    return [
        group_name(row),
        f"{row['change']} ({code})" if code else row["change"],
        _before_after(row, "members"),
        "/".join(f"{row[name]:,}" for name in _MEMBER_CHANGES),
        _before_after(row, "partitions"),
        f"{row['moved']:,}",
        _before_after(row, "max_over_mean"),
    ]


def _before_after(row: Row, name: str) -> str:
    """Returns `4 → 5`, or the value once if both are equal."""
    return change(_number(row[f"{name}_before"]), _number(row[f"{name}_after"]))


def _number(value: float | int | None) -> str:
    return f"{value:,}" if isinstance(value, int) else ratio(value)


def summarize_alerts(alerts: DataFrame, limit: int = _DEFAULT_LIMIT) -> tuple[str, dict[str, int]]:
    """Returns the summary, and the number of alerts of each kind. Reads a screenful of rows.

    Args:
        alerts: Result of `spark_assign.groups.alerts.alerts`.
        limit: Maximum number of groups listed: groups with the worst balance first, rejected ones last.
    """
    counts = dict(sorted(count_by(alerts, "alert").items()))
    total = sum(counts.values())
    if not total:
        return "No group is beyond a threshold", {}
    rows = collected(alerts.orderBy(F.desc_nulls_last("max_over_mean_after"), *GROUP_KEY).limit(limit), "alerts")
    table = [["group", "alert", "max/mean", "why"]]
    for row in rows:
        before, after = row["max_over_mean_before"], row["max_over_mean_after"]
        balance = DASH if after is None else f"{before:.2f} → {after:.2f}"
        table.append([group_name(row), row["alert"], balance, row["detail"]])
    more = [f"  … and {total - len(rows):,} more"] if total > len(rows) else []
    by_kind = ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
    text = "\n".join([f"Groups beyond a threshold: {by_kind}", *aligned(table, words=(0, 1, 3)), *more])
    return text, counts
