"""Loads on one screen: the hottest partitions, and the groups that are furthest behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.report.text.text_table import aligned
from spark_assign.spark.progress import progress
from spark_assign.tables.groups import GROUP_KEY

_PARTITION = ["cluster", "topic", "partition"]
_NEVER = float("inf")
_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))

Row = Mapping[str, Any]


@progress("adding up loads", 1)
def summarize_loads(loads: DataFrame, top: int) -> str:
    """Totals, the partitions that most is written to, and the groups with most lag. Reads a screenful of rows.

    Args:
        loads: the table (`tables.groups.LOADS`).
        top: how many partitions and how many groups to list.
    """
    of_all, of_groups = loads.where("group_id is null"), by_group(loads)
    totals = of_all.agg(
        F.count(F.lit(1)).alias("partitions"), F.count("in_rate").alias("rated"), F.sum("in_rate").alias("in_rate")
    ).collect()[0]  # one row
    groups = of_groups.agg(F.count(F.lit(1)).alias("groups"), F.sum("lag").alias("lag")).collect()[0]  # one row
    hottest = of_all.where("in_rate is not null").orderBy(F.desc("in_rate"), *_PARTITION).limit(top).collect()  # `top`
    behind = of_groups.where("lag > 0").orderBy(F.desc("lag"), *GROUP_KEY).limit(top).collect()  # `top`
    lines = [
        f"Partitions: {totals['partitions']:,}, of {totals['rated']:,} the rate is known: "
        f"{_rate(totals['in_rate'])} messages/s in",
        f"Groups: {groups['groups']:,}, {groups['lag'] or 0:,} messages behind",
    ]
    if hottest:
        table = [_hot(row.asDict()) for row in hottest]
        header = ["partition", "in/s", "stddev", "bytes/s"]
        lines += ["", "Hottest partitions:", *aligned([header, *table])]
    if behind:
        header = ["group", "partitions", "lag", "in/s", "out/s", "drained in"]
        lines += ["", "Groups with most lag:", *aligned([header, *(_group(row.asDict()) for row in behind)])]
    return "\n".join(lines)


def by_group(loads: DataFrame) -> DataFrame:
    """A row per group: cluster, group_id, partitions, lag, in_rate, out_rate, drain_s.

    `drain_s`: seconds until its slowest partition has caught up, infinite where one is behind and no faster than what
    comes in; null where that is not known of one that is behind.
    """
    of_all = loads.where("group_id is null").select(*_PARTITION, F.col("in_rate").alias("of_all"))
    rows = loads.where("group_id is not null").join(of_all, _PARTITION, "left")
    rows = rows.withColumn("in_rate", F.coalesce("in_rate", "of_all"))
    faster = F.col("out_rate") - F.col("in_rate")
    drain = (
        F.when(F.col("lag") == 0, 0.0)
        .when(faster > 0, F.col("lag") / faster)
        .when(faster <= 0, F.lit(_NEVER))
        .alias("drain_s")
    )
    sums = (F.sum(name).alias(name) for name in ("lag", "in_rate", "out_rate"))
    unknown = F.count(F.when(F.col("drain_s").isNull() & (F.col("lag") > 0), 1))
    slowest = F.max("drain_s")
    told = F.when((unknown == 0) | (slowest == _NEVER), slowest).alias("drain_s")
    return rows.select("*", drain).groupBy(*GROUP_KEY).agg(F.count(F.lit(1)).alias("partitions"), *sums, told)


def _hot(row: Row) -> Sequence[str]:
    name = f"{row['cluster']}/{row['topic']}-{row['partition']}"
    return [name, *(_rate(row[each]) for each in ("in_rate", "in_rate_stddev", "bytes"))]


def _group(row: Row) -> Sequence[str]:
    rates = [_rate(row[each]) for each in ("in_rate", "out_rate")]
    name = f"{row['cluster']}/{row['group_id']}"
    return [name, f"{row['partitions']:,}", f"{row['lag']:,}", *rates, _time(row["drain_s"])]


def _rate(value: float | None) -> str:
    """With a decimal where that says something."""
    return "–" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:,.2f}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    if seconds == _NEVER:
        return "never"
    unit, size = next((each for each in _UNITS if seconds >= each[1]), _UNITS[-1])
    return f"{seconds / size:,.1f} {unit}"
