"""Text summaries of replica placements, reassignments, and checks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.report.formatting import DASH, aligned, partition_name, ratio
from spark_assign.report.listed_groups import collected, num_rows, total_columns
from spark_assign.spark.progress import progress

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
        f"{totals['partitions']:,} partitions of {totals['topics']:,} topics placed, {num_rejected:,} requests rejected"
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
        f"{totals['clusters']:,} clusters planned, {num_rejected:,} rejected, {totals['moved']:,} replicas move{size}, "
        f"at least {totals['lower_bound']:,} must move"
    )
    table = ["", *_left_aligned(header, rows)] if rows else []
    return "\n".join([heading, *table, *_rejected_lines(rejected, ["cluster"], num_rejected)])


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
