"""Text about loads of partitions and groups, and about the number of members that groups need for them."""

from __future__ import annotations

from collections import Counter

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.advice.kernel.size import (
    CANNOT_KEEP_UP,
    OVER_PROVISIONED,
    RIGHT_SIZED,
    TOO_FEW,
    UNDER_PROVISIONED,
    UNKNOWN,
)
from spark_assign.advice.kernel.size_sweep import SIMPLE
from spark_assign.report.formatting import (
    DASH,
    Row,
    Rows,
    by_group,
    cell,
    change,
    duration,
    group_key,
    group_name,
    number,
    whole,
)
from spark_assign.report.listed_groups import (
    collected,
    count_by,
    first_of_each,
    long_sum,
    num_rows,
    read_rejected_lines,
)
from spark_assign.report.views import GROUP, PARTITION, Column, View, figure, lines_of_each
from spark_assign.spark.engine import divide
from spark_assign.spark.progress import progress
from spark_assign.tables.errors import in_one_line
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.quoting import comment_text, kubernetes_name, string_literal

_PARTITION_KEY = ["cluster", "topic", "partition"]
_NEVER = float("inf")
_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def _rate(value: float | None) -> str:
    """Returns a rate, with decimals only below 100."""
    return DASH if value is None else f"{value:,.0f}" if value >= 100 else f"{value:,.2f}"


def _capacity(row: Row) -> str:
    return DASH if row["capacity"] is None else f"{row['capacity']:,.0f} ({row['capacity_source']})"


def _pods(row: Row) -> str:
    """Returns the number of pods today and the number needed, such as `2 → 3`."""
    return DASH if row["pods"] is None else change(number(row["pods"]), number(row["pods_needed"]))


_IN, _OUT = (figure(f"{way}/s", f"{way}_messages_per_second", _rate) for way in ("in", "out"))
_DRAIN = figure("drain", "drain_seconds", duration)
HOTTEST = View(
    *("loads", "hottest partitions"),
    [
        *(PARTITION, _IN, figure("stddev", "in_messages_per_second_stddev", _rate)),
        figure("bytes/s", "in_bytes_per_second", _rate),
    ],
    "-in_messages_per_second, cluster, topic, partition",
    "in_messages_per_second IS NOT NULL",
)
LAGGING = View(
    *("loads", "groups with most lag"),
    [GROUP, "partitions lag", _IN, _OUT, figure("drained in", "drain_s", lambda seconds: _drain_time(seconds))],
    "-lag, cluster, group_id",
    "lag > 0",
    listed="totals",
)
SIZES = {
    verdict: View(
        *("sizes", title),
        [
            *(GROUP, "assignor members", figure("needed"), Column("pods", _pods, True, needs="threads_per_pod")),
            *(figure("nodes", "nodes_needed", needs="nodes_needed"), figure("knee")),
            figure("saturation", "saturation_members"),
            *(figure("load/s", "load", whole), figure("max/s", "max_load", whole)),
            *(Column("capacity/s", _capacity, True), _DRAIN),
        ],
    )
    for verdict, title in {
        CANNOT_KEEP_UP: "no number of members keeps up",
        UNDER_PROVISIONED: "too few members",
        OVER_PROVISIONED: "more members than needed",
        UNKNOWN: "unknown capacity of a member",
        RIGHT_SIZED: "right-sized",
    }.items()
}
CURVE = View(
    *("curves", "load by number of members"),
    [
        Column("members", lambda row: f"{row['members']:,}{' (current)' if row['is_current'] else ''}", True),
        *(figure("max/s", "max_load", whole), figure("at peak", "max_load_at_quantile", whole)),
        *("max/mean=load_max_over_mean idle unassigned", _DRAIN, "moved"),
        figure("paused s", "paused_partition_seconds", lambda seconds: f"{seconds:,.1f}"),
        figure("keeps up", text=cell),
    ],
)
TOPIC_SIZES = View(
    *("topic_sizes", "topics with too few partitions"),
    [
        *(
            "topic",
            figure("partitions"),
            figure("needed", "partitions_needed"),
            GROUP,
            figure("load/s", "load", whole),
        ),
        figure("hottest/s", "hot_load", whole),
    ],
    "-partitions_needed, cluster, topic, group_id",
    f"verdict = '{TOO_FEW}'",
)
PARTITIONS_OF_GROUP = View(
    *("topic_sizes", "partitions of its topics"),
    ["topic", figure("partitions"), figure("needed", "partitions_needed"), "verdict reason"],
    "-partitions_needed, cluster, group_id, topic",
)
MOST_TOPICS = 20
"""Number of topics listed per group."""
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
    lines = [
        f"Partitions: {totals['partitions']:,}, of {totals['rated']:,} the rate is known: "
        f"{_rate(totals['in_messages_per_second'])} messages/s in",
        f"Groups: {sums['groups']:,}, {sums['lag'] or 0:,} messages behind",
    ]
    return "\n".join([*lines, *HOTTEST.printed(partitions, limit), *LAGGING.printed(groups, limit)])


def loads_by_group(loads: DataFrame) -> DataFrame:
    """Returns one row per group: cluster, group_id, partitions, lag, in_messages_per_second, out_messages_per_second,
    drain_s.

    `drain_s` is the time until the slowest partition has caught up, in seconds: infinite if a partition has lag and is
    consumed no faster than it is produced to, null if that is unknown for a partition with lag.
    """
    rate = F.max("in_messages_per_second").alias("topic_rate")  # of one row, however many there are
    topic_rates = loads.where("group_id is null").groupBy(*_PARTITION_KEY).agg(rate)
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


def _drain_time(seconds: float | None) -> str:
    if seconds is None:
        return DASH
    if seconds == _NEVER:
        return "never"
    unit, size = next((unit for unit in _UNITS if seconds >= unit[1]), _UNITS[-1])
    return f"{seconds / size:,.1f} {unit}"


@progress("sizing the groups", 1)
def summarize_sizes(sizes: DataFrame, topic_sizes: DataFrame, rejected: DataFrame, limit: int) -> str:
    """Returns the totals, and the first groups of each verdict with their numbers. Reads a screenful of rows.

    Args:
        sizes: `Sizing.sizes`, computed or read back.
        topic_sizes: `Sizing.topic_sizes`, computed or read back.
        rejected: `Sizing.rejected`, computed or read back.
        limit: Maximum number of groups listed per verdict, and of topics.
    """
    counts = count_by(sizes, "verdict")
    largest_gap = F.desc(F.abs(F.coalesce("needed", F.lit(0)) - F.col("members")))
    displayed = first_of_each("sizes", sizes, "verdict", [largest_gap, *GROUP_KEY, "assignor"], limit)
    lines = [f"Groups: {', '.join(f'{counts.get(verdict, 0):,} {verdict}' for verdict in SIZES)}"]
    lines += [*lines_of_each("verdict", SIZES, displayed, counts), *TOPIC_SIZES.printed(topic_sizes, limit)]
    return "\n".join([*lines, *read_rejected_lines(rejected)])


def format_curves(sizes: Rows, curves: Rows, topics: Rows = ()) -> str:
    """Returns the verdict and its reason for each group, one line per number of members, and one per topic.

    Args:
        sizes: Rows of `sizes`.
        curves: Rows of `curves` of these groups, in order.
        topics: Rows of `topic_sizes` of these groups.
    """
    lines: list[str] = []
    curves_by_group, topics_by_group = by_group(curves), dict(by_group(topics))
    for size in sizes:
        heading = f"{group_name(size)}, {size['assignor']}: {size['verdict']}. {size['reason']}"
        lines += [*([""] if lines else []), in_one_line(heading)]
        rows = [row for row in curves_by_group[group_key(size)] if row["assignor"] == size["assignor"]]
        lines += CURVE.lines(rows, len(rows))[2:]
        found = sorted(topics_by_group.pop(group_key(size), ()), key=lambda row: row["topic"])
        lines += PARTITIONS_OF_GROUP.lines(found, MOST_TOPICS)
    return "\n".join(lines)


def reason_comment(row: Row) -> str:
    """Returns the name and the reason of a row of `sizes` as a comment of YAML."""
    return f"# {comment_text(group_name(row))}: {comment_text(row['reason'])}"


def autoscalers(sizes: Rows) -> str:
    """Returns the KEDA `ScaledObject` of each group, or why it has none, as one YAML file. All names differ."""
    names = [kubernetes_name(row["group_id"]) if row["needed"] else None for row in sizes]
    times = Counter(names)
    return "\n---\n".join(
        reason_comment(row) if name is None else autoscaler(row, is_unique=times[name] == 1)
        for row, name in zip(sizes, names, strict=True)
    )


def autoscaler(row: Row, *, is_unique: bool = True) -> str:
    """Returns a KEDA `ScaledObject` for a group, as YAML.

    KEDA scales by lag. The minimum is the number of members needed at peak load, so lag only grows if rates do. The
    maximum is the number above which more members don't help. Another member starts when a member's lag reaches
    `LAG_SECONDS` of its own consumption. If the number of members in a pod is known, all three are of pods.

    Args:
        row: Row of `sizes` with known `needed` and `capacity`.
        is_unique: Whether the group ID is enough for a name that no other object of the file has. Otherwise, the
            cluster and the assignor become a part of the name's hash.
    """
    if row["assignor"] == SIMPLE:
        return (
            f"{reason_comment(row)}\n# KEDA's Kafka scaler reads committed offsets, which a share group doesn't have."
        )
    threads = row["threads_per_pod"] or 1
    needed, useful = (-(-row[name] // threads) for name in ("needed", "saturation_members"))
    lag = max(1, round(row["capacity"] * threads * LAG_SECONDS))
    unit = "member" if threads == 1 else f"pod with {threads:,} members"
    name = string_literal(kubernetes_name(row["group_id"], *(() if is_unique else (row["cluster"], row["assignor"]))))
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
            f"  minReplicaCount: {needed}",
            f"  maxReplicaCount: {max(needed, useful)}  # more {unit.split()[0]}s don't reduce the maximum load",
            "  triggers:",
            "    - type: kafka",
            "      metadata:",
            "        bootstrapServers: <your brokers>",
            f"        consumerGroup: {string_literal(row['group_id'])}",
            f'        lagThreshold: "{lag}"  # {LAG_SECONDS} s of the capacity of a {unit}',
        ]
    )
