"""Placements, reassignments and checks on one screen."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.spark.progress import progress

_SHOWN = 10


@progress("placing replicas", 1)
def placements(placed: DataFrame, rejected: DataFrame) -> str:
    """How many were placed, the first of them, and what was refused.

    Args:
        placed, rejected: as `replicas.place` gives them, or read back.
    """
    total = placed.agg(F.count(F.lit(1)).alias("partitions"), F.count_distinct("cluster", "topic").alias("topics"))
    sizes = total.collect()[0]  # one row
    refused = rejected.count()
    lines = [f"{sizes['partitions']:,} partitions of {sizes['topics']:,} topics placed, {refused:,} requests rejected"]
    first = placed.orderBy("cluster", "topic", "partition").limit(_SHOWN).collect()
    rows = [
        [
            f"{row['cluster']}/{row['topic']}-{row['partition']}",
            " ".join(map(str, row["replicas"])),
            *("–" if row[name] is None else str(row[name]) for name in ("start_index", "shift", "seed")),
        ]
        for row in first
    ]
    lines += ["", *_table(["partition", "replicas", "start_index", "shift", "seed"], rows)]
    return "\n".join([*lines, *_rejected(rejected, ["cluster", "topic"], refused)])


@progress("reassigning replicas", 1)
def reassignment(metrics: DataFrame, rejected: DataFrame) -> str:
    """A line per cluster: moves against their lower bound, and balance afterwards.

    Args:
        metrics, rejected: as `replicas.reassign` gives them, or read back.
    """
    names = ["cluster", "brokers", "replicas", "moved", "lower bound", "per broker", "leaders", "changed", "outside"]
    shown = metrics.orderBy(F.desc("moved"), "cluster").limit(_SHOWN).collect()
    rows = [
        [
            row["cluster"],
            f"{row['brokers']:,}",
            f"{row['replicas']:,}",
            f"{row['moved']:,}",
            f"{row['lower_bound']:,}",
            f"{row['min_replicas']:,}–{row['max_replicas']:,}",
            f"{row['min_leaders']:,}–{row['max_leaders']:,}",
            f"{row['leaders_changed']:,}",
            f"{row['brokers_outside']:,}/{row['leaders_outside']:,}",
        ]
        for row in shown
    ]
    totals = metrics.agg(
        F.count(F.lit(1)).alias("clusters"),
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("moved", "lower_bound", "moved_bytes")),
    ).collect()[0]  # one row
    refused = rejected.count()
    size = f" ({totals['moved_bytes']:,} bytes)" if totals["moved_bytes"] else ""
    head = (
        f"{totals['clusters']:,} clusters planned, {refused:,} rejected, {totals['moved']:,} replicas move{size}, "
        f"no plan moves fewer than {totals['lower_bound']:,}"
    )
    return "\n".join([head, "", *_table(names, rows), *_rejected(rejected, ["cluster"], refused)])


@progress("checking replicas", 1)
def check(clusters: DataFrame, problems: DataFrame) -> str:
    """A line per cluster, and the first problems.

    Args:
        clusters, problems: as `replicas.check` gives them, or read back.
    """
    codes = [name for name in clusters.columns if name not in _ABOUT_CLUSTER]
    total = reduce(Column.__add__, [F.col(name) for name in codes])
    shown = clusters.orderBy(F.desc(total), F.desc("max_replicas_over_mean"), "cluster").limit(_SHOWN).collect()
    rows = [
        [
            row["cluster"],
            *(f"{row[name]:,}" for name in ("brokers", "partitions", "replicas")),
            f"{_ratio(row['min_replicas_over_mean'])}–{_ratio(row['max_replicas_over_mean'])}",
            f"{_ratio(row['min_leaders_over_mean'])}–{_ratio(row['max_leaders_over_mean'])}",
            ", ".join(f"{row[code]:,} {code.replace('_', '-')}" for code in codes if row[code]) or "none",
        ]
        for row in shown
    ]
    names = ["cluster", "brokers", "partitions", "replicas", "replicas/mean", "leaders/mean", "problems"]
    lines = _table(names, rows)
    first = problems.orderBy("cluster", "topic", "partition", "code").limit(_SHOWN).collect()
    if first:
        lines += ["", "Problems:"]
        lines += [
            f"  {row['cluster']}/{row['topic']}-{row['partition']}: {row['code']}: {row['detail']}" for row in first
        ]
    return "\n".join(lines)


_ABOUT_CLUSTER = {
    *("cluster", "brokers", "partitions", "replicas"),
    *(f"{which}_{name}_over_mean" for which in ("min", "max") for name in ("replicas", "leaders")),
}


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _rejected(rejected: DataFrame, key: list[str], total: int) -> list[str]:
    if not total:
        return []
    shown = rejected.orderBy(*key, "code").limit(_SHOWN).collect()
    lines = [f"  {'/'.join(str(row[name]) for name in key)}: {row['code']}: {row['detail']}" for row in shown]
    more = [f"  … and {total - len(shown):,} more"] if total > len(shown) else []
    return ["", "Rejected:", *lines, *more]


def _table(names: Sequence[str], rows: list[list[Any]]) -> list[str]:
    widths = [max(len(str(row[at])) for row in [names, *rows]) for at in range(len(names))]
    return [
        "  ".join(str(value).ljust(width) for value, width in zip(row, widths, strict=True)).rstrip()
        for row in [names, *rows]
    ]
