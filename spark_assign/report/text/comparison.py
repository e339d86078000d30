"""A comparison of assignors on one screen: what each costs under each change, and the groups that gain most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.comparison.kernel.recommend import KAFKA_DEFAULT
from spark_assign.report.formatting import ratio
from spark_assign.report.text.text_table import aligned
from spark_assign.spark.progress import progress
from spark_assign.tables.groups import GROUP_KEY

_SHOWN = 10
Row = Mapping[str, Any]


@progress("comparing assignors", 1)
def summarize_comparison(comparison: DataFrame, top: int = _SHOWN) -> str:
    """A line per change and assignor, the groups that gain most, and what was rejected. Reads a screenful of rows.

    A group gains by its recommended assignor against the one it runs with now, or against `range` where that is not
    known or not compared: first in balance (max over mean, by tenths), then in partitions that do not move.

    Args:
        comparison: as `compare` gives it, or read back.
        top: how many groups to list for each change.
    """
    planned = F.col("rejected").isNull() & (F.col("members") > 0)
    totals = (
        comparison.groupBy("change", "assignor")
        .agg(
            F.count(F.when(planned, 1)).alias("groups"),
            F.count(F.when(F.col("recommended"), 1)).alias("recommended"),
            F.count(F.when(F.col("rejected").isNotNull(), 1)).alias("rejected"),
            F.count(F.when(F.col("rejected").isNull() & (F.col("members") == 0), 1)).alias("memberless"),
            F.avg("max_over_mean").alias("max_over_mean"),
            F.avg("load_max_over_mean").alias("load_max_over_mean"),
            *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("partitions", "moved", "revoked")),
            F.coalesce(F.sum("partition_seconds_paused"), F.lit(0.0)).alias("paused"),
        )
        .orderBy("change", "assignor")
        .collect()
    )  # a row per change and assignor
    lines: list[str] = []
    for change in dict.fromkeys(row["change"] for row in totals):
        rows = [row.asDict() for row in totals if row["change"] == change]
        lines += [*([""] if lines else []), *totals_lines(change, rows)]
        if top and any(row["recommended"] for row in rows):
            gains = _gains(comparison.where(F.col("change") == change), top)
            shown = [row.asDict() for row in gains.collect()]  # a screenful
            if shown:
                lines += ["", *gains_lines(shown)]
    return "\n".join([*lines, *_rejected_lines(comparison)])


def totals_lines(change: str, rows: Sequence[Row]) -> list[str]:
    """A change in figures: a line per assignor."""
    memberless = max(row["memberless"] for row in rows)
    without = f" ({memberless:,} groups without members)" if memberless else ""
    by_load = any(row.get("load_max_over_mean") is not None for row in rows)
    balance = ["max/mean", *["of load"] * by_load]
    table = [["assignor", "groups", "recommended", "rejected", *balance, "moved", "revoked", "paused s"]]
    for row in sorted(rows, key=lambda row: (-row["recommended"], row["assignor"])):
        balance = [ratio(row["max_over_mean"]), *[ratio(row.get("load_max_over_mean"))] * by_load]
        counts = [f"{row[name]:,}" for name in ("groups", "recommended", "rejected")]
        costs = [*balance, f"{row['moved']:,}", f"{row['revoked']:,}", f"{row['paused']:,.1f}"]
        table.append([row["assignor"], *counts, *costs])
    return [f"Change {change}{without}:", *aligned(table)]


def gains_lines(rows: Sequence[Row]) -> list[str]:
    """A line per group: what it runs with or would get, what is recommended, and why; then how to switch."""
    table = [["group", "recommended", "why"]]
    for row in rows:
        reason = row["reason"].removeprefix(f"{row['assignor']}: ")
        table.append([f"{row['cluster']}/{row['group_id']}", row["assignor"], reason])
    lines = ["Groups that gain most:", *("  " + line for line in aligned(table, words=(0, 1, 2)))]
    ways: dict[str, list[str]] = {}
    for row in rows:
        if row.get("way"):
            ways.setdefault(row["way"], []).append(f"{row['cluster']}/{row['group_id']}")
    if ways:
        lines += ["", "How to switch:", *(f"    {', '.join(groups)}: {way}" for way, groups in ways.items())]
    return lines


def _gains(rows: DataFrame, top: int) -> DataFrame:
    """The groups whose recommended assignor is another than what they have, those that gain most first."""
    able = rows.where(F.col("rejected").isNull() & (F.col("members") > 0))
    rank = (
        F.when(F.coalesce("configured", F.lit(False)), F.lit(2))
        .when(F.col("assignor") == KAFKA_DEFAULT, F.lit(1))
        .otherwise(F.lit(0))
    )
    way = "way" if "way" in rows.columns else F.lit(None).cast("string").alias("way")
    figures = F.struct("assignor", "max_over_mean", "moved", "reason", way)
    both = able.groupBy(*GROUP_KEY).agg(
        F.max_by(figures, F.struct(rank, "moved", "assignor")).alias("now"),
        F.max_by(figures, "recommended").alias("best"),
    )
    balance = F.coalesce(F.round(F.col("now.max_over_mean") - F.col("best.max_over_mean"), 1), F.lit(0))
    gain = both.where(F.col("now.assignor") != F.col("best.assignor"))
    order = [F.desc(balance), F.desc(F.col("now.moved") - F.col("best.moved")), F.col("cluster"), F.col("group_id")]
    return gain.orderBy(*order).limit(top).select(*GROUP_KEY, "best.assignor", "best.reason", "best.way")


def _rejected_lines(comparison: DataFrame) -> list[str]:
    rejected = comparison.where(F.col("rejected").isNotNull())
    rows = rejected.orderBy("cluster", "group_id", "change", "assignor").limit(_SHOWN + 1).collect()
    if not rows:
        return []
    lines = ["", "Rejected:"]
    for row in rows[:_SHOWN]:
        reason = " ".join(row["reason"].split())[:300]
        lines.append(f"  {row['cluster']}/{row['group_id']}, {row['change']}: {reason}")
    if len(rows) > _SHOWN:
        lines.append("  … and more, in the table rejected")
    return lines
