"""A drift on one screen: totals, and the groups in which most has changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.report.text.text_table import aligned
from spark_assign.spark.progress import progress

_SHOWN = 10
_MEMBERS = ("came", "went", "restarted")
_PARTITIONS = ("moved", "newly_owned", "no_longer_owned")


@progress("looking for drift", 1)
def summarize_drift(groups: DataFrame, topics: DataFrame, top: int = _SHOWN) -> str:
    """Totals, the groups with most partitions that changed hands, and topics that changed. Reads a screenful of rows.

    Args:
        groups: `Drift.groups`, or read back.
        topics: `Drift.topics`, likewise.
        top: how many groups and how many topics to list.
    """
    sums = (F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in (*_MEMBERS, *_PARTITIONS))
    totals = groups.agg(
        *(F.count(F.when(F.col("change") == change, 1)).alias(f"groups_{change}") for change in _CHANGES), *sums
    ).collect()[0]  # one row
    counts = ", ".join(f"{totals[f'groups_{change}']:,} {change}" for change in _CHANGES)
    lines = [
        f"Groups: {counts}",
        f"Members: {totals['came']:,} came, {totals['went']:,} went, {totals['restarted']:,} restarted",
        f"Partitions: {totals['moved']:,} moved, {totals['newly_owned']:,} newly owned, "
        f"{totals['no_longer_owned']:,} no longer owned",
    ]
    changed = F.col("moved") + F.col("newly_owned") + F.col("no_longer_owned")
    order: list[Column] = [F.desc(changed), F.desc(F.col("came") + F.col("went")), F.col("cluster"), F.col("group_id")]
    rows = groups.where(F.col("change") != "same").orderBy(*order).limit(top).collect()
    if rows:
        header = ["group", "change", "members", "came/went/restarted", "partitions", "moved", "max/mean"]
        lines += ["", "Groups in which most has changed:"]
        lines += aligned([header, *(_group(row.asDict()) for row in rows)], words=(0, 1))
    grown = topics.orderBy("cluster", "topic").limit(top + 1).collect() if top else []
    if grown:
        table = [
            [f"{row['cluster']}/{row['topic']}", row["change"], _both(row.asDict(), "partitions")]
            for row in grown[:top]
        ]
        lines += ["", "Topics:", *aligned(table, words=(0, 1))]
        lines += ["  … and more, in the table topics"] if len(grown) > top else []
    return "\n".join(lines)


_CHANGES = ("came", "went", "changed", "same")


def _group(row: Mapping[str, Any]) -> list[str]:
    rejected = row["rejected_after"] or row["rejected_before"]
    change = f"{row['change']} ({rejected})" if rejected else row["change"]
    return [
        f"{row['cluster']}/{row['group_id']}",
        change,
        _both(row, "members"),
        "/".join(f"{row[name]:,}" for name in _MEMBERS),
        _both(row, "partitions"),
        f"{row['moved']:,}",
        _both(row, "max_over_mean"),
    ]


def _both(row: Mapping[str, Any], name: str) -> str:
    """Before and after: `4 → 5`, or one number where they are equal."""
    then, now = (_cell(row[f"{name}_{when}"]) for when in ("before", "after"))
    return then if then == now else f"{then} → {now}"


def _cell(value: float | int | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"
