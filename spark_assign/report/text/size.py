"""How many consumers groups need, on one screen; the curve of some groups; and numbers to paste for an autoscaler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.advice.kernel.size import CANNOT, ENOUGH, TOO_FEW, TOO_MANY, UNKNOWN
from spark_assign.report.formatting import NONE, duration, number, ratio, rejected_lines
from spark_assign.report.text.text_table import aligned
from spark_assign.spark.progress import progress
from spark_assign.tables.groups import GROUP_KEY

_TITLES = {
    CANNOT: "No number keeps up",
    TOO_FEW: "Too few",
    TOO_MANY: "More than needed",
    UNKNOWN: "What a member can handle is not known",
    ENOUGH: "As many as needed",
}
LAG_SECONDS = 30
"""So far behind, in time, a member may be before an autoscaler starts another one."""

Row = Mapping[str, Any]


@progress("sizing the groups", 1)
def summarize_sizes(sizes: DataFrame, rejected: DataFrame, top: int) -> str:
    """Totals, and of each verdict the first groups with their figures. Reads a screenful of rows.

    Args:
        sizes: `Size.sizes`, or read back.
        rejected: `Size.rejected`, likewise.
        top: how many groups of each verdict to list.
    """
    counted = {row["verdict"]: row["count"] for row in sizes.groupBy("verdict").count().collect()}  # five
    farthest = F.desc(F.abs(F.coalesce("needed", F.lit(0)) - F.col("members")))
    first = Window.partitionBy("verdict").orderBy(farthest, *GROUP_KEY, "assignor")
    ranked = sizes.withColumn("nth", F.row_number().over(first)).where(F.col("nth") <= top)
    shown = [row.asDict() for row in ranked.orderBy("nth").collect()]  # `top` of each verdict
    refused = [row.asDict() for row in rejected.orderBy(*GROUP_KEY).limit(top).collect()]  # `top`
    lines = [f"Groups: {', '.join(f'{counted.get(name, 0):,} {name}' for name in _TITLES)}"]
    for verdict, title in _TITLES.items():
        rows = [row for row in shown if row["verdict"] == verdict]
        if rows:
            lines += ["", f"{title}:", *_groups(rows), *_more(counted[verdict] - len(rows))]
    return "\n".join([*lines, *rejected_lines(refused, rejected.count() if len(refused) == top else len(refused))])


def _groups(rows: Sequence[Row]) -> list[str]:
    """A line per group."""
    table = [
        ["group", "assignor", "members", "needed", "knee", "no more use", "load/s", "max/s", "capacity/s", "drain"]
    ]
    for row in rows:
        loads = [number(round(row[name])) for name in ("load", "max_load")]
        capacity = NONE if row["capacity"] is None else f"{row['capacity']:,.0f} ({row['capacity_is']})"
        counts = [number(row[name]) for name in ("members", "needed", "knee", "no_more_use")]
        table.append([_name(row), row["assignor"], *counts, *loads, capacity, duration(row["drain_seconds"])])
    return aligned(table, words=(0, 1))


def curves_in_words(sizes: Sequence[Row], curves: Sequence[Row]) -> str:
    """Of each group the verdict and why, and a line per number of members.

    Args:
        sizes: rows of `sizes`.
        curves: rows of `curves` of these groups, in order.
    """
    lines: list[str] = []
    for row in sizes:
        lines += [*([""] if lines else []), f"{_name(row)}, {row['assignor']}: {row['verdict']}. {row['reason']}"]
        table = [
            ["members", "max/s", "at its peak", "max/mean", "idle", "unread", "drain", "moved", "paused s", "keeps up"]
        ]
        for each in curves:
            if (_name(each), each["assignor"]) != (_name(row), row["assignor"]):
                continue
            fits = {True: "yes", False: "no", None: NONE}[each["keeps_up"]]
            loads = [number(round(each[name])) for name in ("max_load", "max_load_high")]
            costs = [number(each["moved"]), f"{each['partition_seconds_paused']:,.1f}"]
            counts = [ratio(each["load_max_over_mean"]), number(each["idle"]), number(each["unassigned"])]
            told = [*loads, *counts, duration(each["drain_seconds"]), *costs, fits]
            table.append([f"{each['members']:,}{' (now)' if each['now'] else ''}", *told])
        lines += aligned(table, words=())
    return "\n".join(lines)


def autoscaler(row: Row) -> str:
    """The numbers of a group for KEDA, as YAML; it scales by lag, between the fewest that keep up and those of use.

    The least is what is needed at the peak, so that lag only grows where rates do. One more starts when a member is
    `LAG_SECONDS` of its own reading behind.

    Args:
        row: of `sizes`, with a known `needed` and `capacity`.
    """
    most = max(row["needed"], row["no_more_use"])
    lag = max(1, round(row["capacity"] * LAG_SECONDS))
    return "\n".join(
        [
            f"# {_name(row)}: {row['reason']}",
            "apiVersion: keda.sh/v1alpha1",
            "kind: ScaledObject",
            "metadata:",
            f"  name: {row['group_id']}",
            "spec:",
            "  scaleTargetRef:",
            f"    name: {row['group_id']}  # your Deployment or StatefulSet",
            f"  minReplicaCount: {row['needed']}",
            f"  maxReplicaCount: {most}  # more carry no less each",
            "  triggers:",
            "    - type: kafka",
            "      metadata:",
            "        bootstrapServers: <your brokers>",
            f"        consumerGroup: {row['group_id']}",
            f'        lagThreshold: "{lag}"  # {LAG_SECONDS} s of what a member can handle',
        ]
    )


def _name(row: Row) -> str:
    return f"{row['cluster']}/{row['group_id']}"


def _more(number_: int) -> list[str]:
    return [f"  … and {number_:,} more, in the table sizes"] if number_ > 0 else []
