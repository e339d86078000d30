"""Text summaries of replica placements, reassignments, and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.report.formatting import DASH, Row, aligned, duration, group_name, partition_name, ratio
from spark_assign.report.listed_groups import collected, num_rows, total_columns
from spark_assign.spark.engine import divide
from spark_assign.spark.progress import progress
from spark_assign.tables.counted_nouns import count

_LIMIT = 10


@progress("placing replicas", 1)
def summarize_placements(placed: DataFrame, rejected: DataFrame) -> str:
    """Returns the number of placed partitions, the first of them, and the first rejected requests.

    Args:
        placed: Result of `replicas.place`, computed or read back.
        rejected: Rejected requests, likewise.
    """
    num_topics = F.count_distinct("cluster", "topic").alias("topics")
    (totals,) = collected(placed.agg(num_rows("partitions"), num_topics))
    num_rejected = rejected.count()
    lines = [
        f"{count(totals['partitions'], 'partition')} of {count(totals['topics'], 'topic')} placed, "
        f"{count(num_rejected, 'request')} rejected"
    ]
    columns = ("start_index", "shift", "seed")
    rows = [
        [
            *(partition_name(row), " ".join(map(str, row["replicas"]))),
            *(DASH if row[name] is None else str(row[name]) for name in columns),
        ]
        for row in collected(placed.orderBy("cluster", "topic", "partition").limit(_LIMIT), "placements")
    ]
    lines += ["", *_left_aligned(["partition", "replicas", *columns], rows)]
    return "\n".join([*lines, *_rejected_lines(rejected, ["cluster", "topic"], num_rejected)])


@progress("reassigning replicas", 1)
def summarize_reassignment(metrics: DataFrame, rejected: DataFrame) -> str:
    """Returns one line per cluster: the moves, their lower bound, and the balance after them.

    Args:
        metrics: Metrics of `replicas.reassign`, computed or read back.
        rejected: Rejected clusters, likewise.
    """
    header = ["cluster", "brokers", "replicas", "moved", "lower bound"]
    header += ["per broker", "leaders", "leaders changed", "out of tolerance"]
    rows = [
        [
            row["cluster"],
            *(f"{row[name]:,}" for name in ("brokers", "replicas", "moved", "lower_bound")),
            *(f"{row[f'min_{name}']:,}–{row[f'max_{name}']:,}" for name in ("replicas", "leaders")),
            f"{row['leaders_changed']:,}",
            f"{row['brokers_out_of_tolerance']:,}/{row['leaders_out_of_tolerance']:,}",
        ]
        for row in collected(metrics.orderBy(F.desc("moved"), "cluster").limit(_LIMIT), "clusters")
    ]
    (totals,) = collected(metrics.agg(*total_columns("clusters", ("moved", "lower_bound", "moved_bytes"))))
    num_rejected = rejected.count()
    size = f" ({totals['moved_bytes']:,} bytes)" if totals["moved_bytes"] else ""
    heading = (
        f"{count(totals['clusters'], 'cluster')} planned, {num_rejected:,} rejected, "
        f"{count(totals['moved'], 'replica', 'moves', 'move')}{size}, "
        f"at least {totals['lower_bound']:,} must move"
    )
    table = ["", *_left_aligned(header, rows)] if rows else []
    return "\n".join([heading, *table, *_rejected_lines(rejected, ["cluster"], num_rejected)])


def note_missing_racks(brokers: DataFrame) -> str | None:
    """Returns a text about the clusters of which no broker has a rack, or None if there is none.

    Args:
        brokers: Table `brokers` of the fleet.
    """
    racks = F.count("rack_id") if "rack_id" in brokers.columns else F.lit(0)
    found = brokers.groupBy("cluster").agg(racks.alias("racks")).where("racks = 0").orderBy("cluster")
    clusters = [row["cluster"] for row in found.limit(4).collect()]
    if not clusters:
        return None
    names = ", ".join(clusters[:3]) + ", …" * (len(clusters) > 3)
    return f"No broker of {names} has a rack, so the plan ignores racks. If there are racks, give them with --rack"


@progress("balancing loads", 1)
def summarize_balance(balance: DataFrame) -> str:
    """Returns one line per cluster and goal: loads as multiples of the share, and brokers out of bounds.

    Args:
        balance: Table `balance` of `replicas.reassign`, computed or read back.
    """
    slack = 1e-9 * F.col("share")
    columns = []
    for name in ("load_before", "load_after"):
        ratio_to_share = divide(F.col(name), F.col("share"))
        is_outside = (F.col(name) > F.col("max_load") + slack) | (F.col(name) < F.col("min_load") - slack)
        columns += [
            F.min(ratio_to_share).alias(f"min_{name}"),
            F.max(ratio_to_share).alias(f"max_{name}"),
            F.count(F.when(is_outside, 1)).alias(f"out_{name}"),
        ]
    grouped = balance.groupBy("cluster", "goal").agg(F.first("is_hard").alias("is_hard"), *columns)
    order = (F.desc("out_load_after"), F.desc("out_load_before"), F.col("cluster"), F.col("goal"))
    rows = [
        [
            *(row["cluster"], row["goal"], "hard" if row["is_hard"] else "soft"),
            *("–".join(ratio(row[f"{bound}_{name}"]) for bound in _BOUNDS) for name in ("load_before", "load_after")),
            f"{row['out_load_before']:,} → {row['out_load_after']:,}",
        ]
        for row in collected(grouped.orderBy(*order).limit(_LIMIT), "goals")
    ]
    header = ["cluster", "goal", "kind", "before/share", "after/share", "brokers out of bounds"]
    return "\n".join(_left_aligned(header, rows)) if rows else "No cluster was balanced."


@progress("checking replicas", 1)
def summarize_check(clusters: DataFrame, problems: DataFrame) -> str:
    """Returns one line per cluster, and the first problems.

    Args:
        clusters: Clusters of `replicas.check`, computed or read back.
        problems: Its problems, likewise.
    """
    codes = [name for name in clusters.columns if name not in _CLUSTER_COLUMNS]
    num_problems = reduce(Column.__add__, [F.col(name) for name in codes])
    order = (F.desc(num_problems), F.desc("max_replicas_over_mean"), F.col("cluster"))
    rows = [
        [
            row["cluster"],
            *(f"{row[name]:,}" for name in ("brokers", "partitions", "replicas")),
            *("–".join(ratio(row[f"{bound}_{name}"]) for bound in _BOUNDS) for name in _RATIOS),
            ", ".join(f"{row[code]:,} {code.replace('_', '-')}" for code in codes if row[code]) or "none",
        ]
        for row in collected(clusters.orderBy(*order).limit(_LIMIT), "clusters")
    ]
    header = ["cluster", "brokers", "partitions", "replicas", "replicas/mean", "leaders/mean", "problems"]
    lines = _left_aligned(header, rows)
    first_problems = collected(problems.orderBy("cluster", "topic", "partition", "code").limit(_LIMIT), "problems")
    if first_problems:
        lines += ["", "Problems:"]
        lines += [f"  {partition_name(row)}: {row['code']}: {row['detail']}" for row in first_problems]
    return "\n".join(lines)


@progress("estimating times", 1)
def summarize_schedule(schedule: DataFrame) -> str:
    """Returns one line per batch: what it copies, the throttle, the time, and the commands of the first batch.

    Args:
        schedule: Table of `replicas.schedule`, computed or read back.
    """
    rows = collected(schedule.orderBy("cluster", "batch").limit(_LIMIT), "schedule")
    totals = schedule.groupBy("cluster").agg(
        F.max("lower_bound_seconds").alias("bound"), F.sum("min_seconds").alias("sum")
    )
    (most,) = collected(totals.agg(F.max("bound").alias("bound"), F.max("sum").alias("sum")))
    header = ["cluster", "batch", "partitions", "bytes", "throttle (bytes/s)", "slowest broker", "time", "latest start"]
    lines = _left_aligned(
        header,
        [
            [
                *(row["cluster"], str(row["batch"])),
                *(f"{row[name]:,}" for name in ("partitions", "copied_bytes", "throttle")),
                DASH if row["slowest_broker_id"] is None else str(row["slowest_broker_id"]),
                f"{duration(row['min_seconds'])} to {_end(row)}",
                DASH if row["latest_start"] is None else f"{row['latest_start']:%Y-%m-%d %H:%M:%S}",
            ]
            for row in rows
        ],
    )
    bound = (
        f"All batches take at least {duration(most['sum'])}; in any order and size, at least {duration(most['bound'])}."
    )
    return "\n".join([*lines, "", bound, *(row[name] for row in rows[:1] for name in ("execute", "verify"))])


def _end(row: Row) -> str:
    return "never, because writes use up the throttle" if row["max_seconds"] is None else duration(row["max_seconds"])


@progress("computing who rebalances", 1)
def summarize_operation(tables: Mapping[str, DataFrame], top: int = _LIMIT) -> str:
    """Returns the steps of an operation, the groups that it affects most, the orders of a restart, and coordinators.

    Args:
        tables: Tables of `replicas.operate`, computed or read back.
        top: Maximum number of rows in each list.
    """
    names = ("steps", "groups", "orders", "coordinators", "leader_moves", "assignor_times", "rejected")
    steps, groups, orders, coordinators, leader_moves, assignor_times, rejected = (tables[name] for name in names)
    sums = ("coordinator_moves", "min_rebalances", "max_rebalances", "min_epochs", "max_epochs")
    rebalancing = F.count(F.when(F.col("max_rebalances") > 0, 1)).alias("rebalancing")
    (totals,) = collected(groups.agg(*total_columns("groups", sums), rebalancing))
    heading = (
        f"{totals['rebalancing']:,} of {totals['groups']:,} groups may rebalance: {_range(totals, 'rebalances')} "
        f"rebalances, {_range(totals, 'epochs')} epochs, {count(totals['coordinator_moves'], 'move')} of coordinators"
    )
    header = ["cluster", "step", "event", "broker", "partitions", "leaders moved", "coordinators moved", "rebalances"]
    rows = [
        [
            *(row["cluster"], str(row["step"]), row["event"]),
            DASH if row["broker_id"] is None else str(row["broker_id"]),
            *(f"{row[name]:,}" for name in ("partitions", "leaders_moved", "coordinators_moved")),
            *(_range(row, name) for name in ("rebalances", "epochs")),
            _paused(row),
        ]
        for row in collected(steps.orderBy("cluster", "step").limit(top), "steps")
    ]
    lines = [heading, "", *_left_aligned([*header, "epochs", "partition-seconds paused"], rows)]
    order = (F.desc("max_rebalances"), F.desc("max_epochs"), F.desc("coordinator_moves"), "cluster", "group_id")
    affected = groups.where(F.size("causes") > 0).orderBy(*order).limit(top)
    rows = [
        [
            *(group_name(row), row["group_type"] or DASH, row["assignor"] or DASH),
            *(_range(row, name) for name in ("rebalances", "epochs")),
            *(DASH if row[name] is None else f"{row[name]:,}" for name in ("coordinator_moves", "moved_partitions")),
            ", ".join(row["causes"]),
        ]
        for row in collected(affected, "groups")
    ]
    header = ["group", "type", "assignor", "rebalances", "epochs", "coordinator moves", "partitions moved", "causes"]
    lines += ["", *_left_aligned(header, rows)] if rows else []
    rows = [
        [
            *(row["cluster"], row["order"], "yes" if row["leaders_return"] else "no"),
            *(f"{row[name]:,}" for name in ("coordinators_moved", "leaders_moved")),
            ", ".join(map(str, row["brokers"][:top])) + (", …" if len(row["brokers"]) > top else ""),
        ]
        for row in collected(orders.orderBy("cluster", "order", "leaders_return").limit(4 * top), "orders")
    ]
    header = ["cluster", "order", "leaders return", "coordinators moved", "leaders moved", "brokers"]
    lines += ["", *_left_aligned(header, rows)] if rows else []
    rows = [
        [
            *(row["cluster"], row["topic"], str(row["broker_id"])),
            *(f"{row[name]:,}" for name in ("partitions", "groups", "keys")),
            *(DASH if row[name] is None else f"{row[name]:,.3f}" for name in _RATES),
            f"{row['hottest_partition']} ({row['hottest_load']:,.3g})",
        ]
        for row in collected(coordinators.orderBy("cluster", "topic", "broker_id").limit(top), "coordinators")
    ]
    header = ["cluster", "topic", "coordinator", "partitions", "groups", "keys", "commits/s", "rebalances/s", "hottest"]
    lines += ["", *_left_aligned(header, rows)] if rows else []
    if moves := leader_moves.count():
        lines += ["", f"{count(moves, 'leader move', 'spreads', 'spread')} this load (table leader_moves)"]
    slow = assignor_times.where("finding IS NOT NULL").orderBy(F.desc("max_assignor_ms"), "cluster", "group_id")
    findings = [f"{group_name(row)}: {row['finding']}" for row in collected(slow.limit(top), "assignor times")]
    lines += ["", *findings] if findings else []
    return "\n".join([*lines, *_rejected_lines(rejected, ["cluster"], rejected.count())])


@progress("measuring cross-zone traffic", 1)
def summarize_operated_zones(zones: DataFrame) -> str:
    """Returns the traffic across zones before and after an operation, and its price (`OPERATED_ZONES`)."""
    names = ("cross_zone_bytes_before", "cross_zone_bytes_after", "cost_before", "cost_after")
    unknown = F.col("cost_before").isNull() | F.col("cost_after").isNull()
    known = (F.sum(F.when(~unknown, F.col(name))).alias(name) for name in names)
    (row,) = collected(zones.agg(F.count_if(unknown).alias("unknown"), F.max("currency").alias("currency"), *known))
    if row["cost_before"] is None:
        return "Cross-zone traffic: unknown, because racks or loads of all groups are incomplete"
    before, after = (
        f"{row[f'cross_zone_bytes_{when}'] / 1e9:,.1f} GB a day ({row[f'cost_{when}']:,.2f} {row['currency']})"
        for when in ("before", "after")
    )
    unknown_groups = f"; unknown for {count(row['unknown'], 'group')}" if row["unknown"] else ""
    return f"Cross-zone traffic: {before} before, {after} after{unknown_groups}"


_RATES = ("commits_per_second", "rebalances_per_second")


def _range(row: Row, name: str) -> str:
    low, high = row[f"min_{name}"], row[f"max_{name}"]
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def _paused(row: Row) -> str:
    """Returns the partition-seconds of a step; the time of rebalances, and of a broker that stays down, is unknown."""
    low, high = row["min_paused_partition_seconds"], row["max_paused_partition_seconds"]
    if low is None:
        return "unknown"
    return f"{low:,.0f}+" if high is None else f"{low:,.0f}–{high:,.0f}" if low < high else f"{low:,.0f}"


_BOUNDS, _RATIOS = ("min", "max"), ("replicas_over_mean", "leaders_over_mean")
_CLUSTER_COLUMNS = {
    *("cluster", "brokers", "partitions", "replicas"),
    *(f"{bound}_{name}" for bound in _BOUNDS for name in _RATIOS),
}


def _rejected_lines(rejected: DataFrame, key: list[str], num_rejected: int) -> list[str]:
    if not num_rejected:
        return []
    displayed = collected(rejected.orderBy(*key, "code").limit(_LIMIT), "rejected")
    lines = [f"  {'/'.join(str(row[name]) for name in key)}: {row['code']}: {row['detail']}" for row in displayed]
    more = [f"  … and {num_rejected - len(displayed):,} more"] if num_rejected > len(displayed) else []
    return ["", "Rejected:", *lines, *more]


def _left_aligned(names: Sequence[str], rows: list[list[Any]]) -> list[str]:
    """Returns left-aligned columns without indentation."""
    return [line.removeprefix("  ") for line in aligned([names, *rows], words=range(len(names)))]
