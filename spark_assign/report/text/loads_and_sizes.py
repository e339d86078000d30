"""Text about loads of partitions and groups, and about the number of members that groups need for them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.advice.kernel.size import CANNOT_KEEP_UP, OVER_PROVISIONED, RIGHT_SIZED, UNDER_PROVISIONED, UNKNOWN
from spark_assign.report.formatting import (
    DASH,
    Row,
    Rows,
    aligned,
    by_group,
    duration,
    group_key,
    group_name,
    more_lines,
    number,
    partition_name,
    ratio,
)
from spark_assign.report.listed_groups import (
    collected,
    count_by,
    first_of_each,
    first_rejected_lines,
    long_sum,
    num_rows,
)
from spark_assign.spark.engine import divide
from spark_assign.spark.progress import progress
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.quoting import comment_text, string_literal

_PARTITION_KEY = ["cluster", "topic", "partition"]
_NEVER = float("inf")
_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
_TITLES = {
    CANNOT_KEEP_UP: "No number of members keeps up",
    UNDER_PROVISIONED: "Too few members",
    OVER_PROVISIONED: "More members than needed",
    UNKNOWN: "Unknown capacity of a member",
    RIGHT_SIZED: "Right-sized",
}
LAG_SECONDS = 30
"""Lag of a member at which an autoscaler starts another one, in seconds of the member's own consumption."""


@progress("adding up loads", 1)
def summarize_loads(loads: DataFrame, limit: int) -> str:
    """Returns the totals, the partitions with the highest rates, and the groups with most lag.

    Reads a screenful of rows.

    Args:
        loads: Table of loads (`tables.groups.LOADS`).
        limit: Maximum number of partitions, and of groups, listed.
    """
    partitions, groups = loads.where("group_id is null"), loads_by_group(loads)
    rate = F.col("in_messages_per_second")
    rates = (F.count(rate).alias("rated"), F.sum(rate).alias("in_messages_per_second"))
    (totals,) = collected(partitions.agg(num_rows("partitions"), *rates))
    (sums,) = collected(groups.agg(num_rows("groups"), long_sum("lag")))
    hottest = collected(
        partitions.where(rate.isNotNull()).orderBy(rate.desc(), *_PARTITION_KEY).limit(limit), "partitions"
    )
    lagging = collected(groups.where("lag > 0").orderBy(F.desc("lag"), *GROUP_KEY).limit(limit), "groups")
    lines = [
        f"Partitions: {totals['partitions']:,}, of {totals['rated']:,} the rate is known: "
        f"{_rate(totals['in_messages_per_second'])} messages/s in",
        f"Groups: {sums['groups']:,}, {sums['lag'] or 0:,} messages behind",
    ]
    if hottest:
        header = ["partition", "in/s", "stddev", "bytes/s"]
        lines += ["", "Hottest partitions:", *aligned([header, *map(_partition_cells, hottest)])]
    if lagging:
        header = ["group", "partitions", "lag", "in/s", "out/s", "drained in"]
        lines += ["", "Groups with most lag:", *aligned([header, *map(_lag_cells, lagging)])]
    return "\n".join(lines)


def loads_by_group(loads: DataFrame) -> DataFrame:
    """Returns one row per group: cluster, group_id, partitions, lag, in_messages_per_second, out_messages_per_second,
    drain_s.

    `drain_s` is the time until the slowest partition has caught up, in seconds: infinite if a partition has lag and is
    consumed no faster than it is produced to, null if that is unknown for a partition with lag.
    """
    topic_rates = loads.where("group_id is null").select(
        *_PARTITION_KEY, F.col("in_messages_per_second").alias("topic_rate")
    )
    rows = loads.where("group_id is not null").join(topic_rates, _PARTITION_KEY, "left")
    rows = rows.withColumn("in_messages_per_second", F.coalesce("in_messages_per_second", "topic_rate"))
    surplus = F.col("out_messages_per_second") - F.col("in_messages_per_second")
    drain = (
        F.when(F.col("lag") == 0, 0.0)
        .when(surplus > 0, divide(F.col("lag"), surplus))
        .when(surplus <= 0, F.lit(_NEVER))
        .alias("drain_s")
    )
    sums = (F.sum(name).alias(name) for name in ("in_messages_per_second", "out_messages_per_second"))
    num_unknown = F.count(F.when(F.col("drain_s").isNull() & (F.col("lag") > 0), 1))
    slowest = F.max("drain_s")
    group_drain = F.when((num_unknown == 0) | (slowest == _NEVER), slowest).alias("drain_s")
    with_drain = rows.select("*", drain)
    return with_drain.groupBy(*GROUP_KEY).agg(num_rows("partitions"), long_sum("lag"), *sums, group_drain)


def _partition_cells(row: Row) -> Sequence[str]:
    columns = ("in_messages_per_second", "in_messages_per_second_stddev", "in_bytes_per_second")
    return [partition_name(row), *(_rate(row[column]) for column in columns)]


def _lag_cells(row: Row) -> Sequence[str]:
    rates = [_rate(row[column]) for column in ("in_messages_per_second", "out_messages_per_second")]
    return [group_name(row), f"{row['partitions']:,}", f"{row['lag']:,}", *rates, _drain_time(row["drain_s"])]


def _rate(value: float | None) -> str:
    """Returns a rate, with decimals only below 100."""
    return DASH if value is None else f"{value:,.0f}" if value >= 100 else f"{value:,.2f}"


def _drain_time(seconds: float | None) -> str:
    if seconds is None:
        return DASH
    if seconds == _NEVER:
        return "never"
    unit, size = next((unit for unit in _UNITS if seconds >= unit[1]), _UNITS[-1])
    return f"{seconds / size:,.1f} {unit}"


@progress("sizing the groups", 1)
def summarize_sizes(sizes: DataFrame, rejected: DataFrame, limit: int) -> str:
    """Returns the totals, and the first groups of each verdict with their numbers. Reads a screenful of rows.

    Args:
        sizes: `Sizing.sizes`, computed or read back.
        rejected: `Sizing.rejected`, computed or read back.
        limit: Maximum number of groups listed per verdict.
    """
    counts = count_by(sizes, "verdict")
    largest_gap = F.desc(F.abs(F.coalesce("needed", F.lit(0)) - F.col("members")))
    displayed = first_of_each(sizes, "verdict", [largest_gap, *GROUP_KEY, "assignor"], limit)
    lines = [f"Groups: {', '.join(f'{counts.get(verdict, 0):,} {verdict}' for verdict in _TITLES)}"]
    for verdict, title in _TITLES.items():
        rows = [row for row in displayed if row["verdict"] == verdict]
        if rows:
            more = more_lines(counts[verdict] - len(rows), "sizes")
            lines += ["", f"{title}:", *_sizes_table(rows), *more]
    return "\n".join([*lines, *first_rejected_lines(rejected, limit)])


def _sizes_table(rows: Rows) -> list[str]:
    """Returns one line per group."""
    table = [["group", "assignor", "members", "needed", "knee", "saturation", "load/s", "max/s", "capacity/s", "drain"]]
    for row in rows:
        loads = [number(round(row[name])) for name in ("load", "max_load")]
        capacity = DASH if row["capacity"] is None else f"{row['capacity']:,.0f} ({row['capacity_source']})"
        counts = [number(row[name]) for name in ("members", "needed", "knee", "saturation_members")]
        table.append([group_name(row), row["assignor"], *counts, *loads, capacity, duration(row["drain_seconds"])])
    return aligned(table, words=(0, 1))


def format_curves(sizes: Rows, curves: Rows) -> str:
    """Returns the verdict and its reason for each group, and one line per number of members.

    Args:
        sizes: Rows of `sizes`.
        curves: Rows of `curves` of these groups, in order.
    """
    lines: list[str] = []
    curves_by_group = by_group(curves)
    for size in sizes:
        heading = f"{group_name(size)}, {size['assignor']}: {size['verdict']}. {size['reason']}"
        lines += [*([""] if lines else []), heading]
        header = ["members", "max/s", "at peak", "max/mean", "idle", "unassigned", "drain", "moved", "paused s"]
        table = [[*header, "keeps up"]]
        rows = [row for row in curves_by_group[group_key(size)] if row["assignor"] == size["assignor"]]
        for row in rows:
            keeps_up = {True: "yes", False: "no", None: DASH}[row["keeps_up"]]
            loads = [number(round(row[name])) for name in ("max_load", "max_load_at_quantile")]
            costs = [number(row["moved"]), f"{row['paused_partition_seconds']:,.1f}"]
            counts = [ratio(row["load_max_over_mean"]), number(row["idle"]), number(row["unassigned"])]
            cells = [*loads, *counts, duration(row["drain_seconds"]), *costs, keeps_up]
            table.append([f"{row['members']:,}{' (current)' if row['is_current'] else ''}", *cells])
        lines += aligned(table, words=())
    return "\n".join(lines)


def reason_comment(row: Row) -> str:
    """Returns the name and the reason of a row of `sizes` as a comment of YAML."""
    return f"# {comment_text(group_name(row))}: {comment_text(row['reason'])}"


def autoscaler(row: Row) -> str:
    """Returns a KEDA `ScaledObject` for a group, as YAML.

    KEDA scales by lag. The minimum is the number of members needed at peak load, so lag only grows if rates do. The
    maximum is the number above which more members don't help. Another member starts when a member's lag reaches
    `LAG_SECONDS` of its own consumption.

    Args:
        row: Row of `sizes` with known `needed` and `capacity`.
    """
    max_replicas = max(row["needed"], row["saturation_members"])
    lag = max(1, round(row["capacity"] * LAG_SECONDS))
    name = string_literal(row["group_id"])
    return "\n".join(
        [
            reason_comment(row),
            "apiVersion: keda.sh/v1alpha1",
            "kind: ScaledObject",
            "metadata:",
            f"  name: {name}",
            "spec:",
            "  scaleTargetRef:",
            f"    name: {name}  # your Deployment or StatefulSet",
            f"  minReplicaCount: {row['needed']}",
            f"  maxReplicaCount: {max_replicas}  # more members don't reduce the maximum load",
            "  triggers:",
            "    - type: kafka",
            "      metadata:",
            "        bootstrapServers: <your brokers>",
            f"        consumerGroup: {name}",
            f'        lagThreshold: "{lag}"  # {LAG_SECONDS} s of the capacity of a member',
        ]
    )
