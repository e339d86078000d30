"""Alerts on one screen: how many of which kind, and the groups."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.report.text.text_table import aligned

_SHOWN = 10


def summarize_alerts(alerts: DataFrame, top: int = _SHOWN) -> tuple[str, dict[str, int]]:
    """The text, and how many alerts there are of each kind. Reads a screenful of rows.

    Args:
        alerts: as `spark_assign.groups.alerts.alerts` returns them.
        top: how many groups to list: first those whose balance has become worst, then the rejected ones.
    """
    kinds = alerts.groupBy("alert").count().orderBy("alert").collect()  # a row per kind
    number = sum(row["count"] for row in kinds)
    if not number:
        return "No group is beyond a threshold", {}
    counts = ", ".join(f"{row['count']:,} {row['alert']}" for row in kinds)
    order = (F.desc_nulls_last("max_over_mean_after"), F.col("cluster"), F.col("group_id"))
    rows = alerts.orderBy(*order).limit(top).collect()
    table = [["group", "alert", "max/mean", "why"]]
    for row in rows:
        then, now = row["max_over_mean_before"], row["max_over_mean_after"]
        figures = "–" if now is None else f"{then:.2f} → {now:.2f}"
        table.append([f"{row['cluster']}/{row['group_id']}", row["alert"], figures, row["detail"]])
    more = [f"  … and {number - len(rows):,} more"] if number > len(rows) else []
    return "\n".join([f"Groups beyond a threshold: {counts}", *aligned(table, words=(0, 1, 3)), *more]), {
        row["alert"]: row["count"] for row in kinds
    }
