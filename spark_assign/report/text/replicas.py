"""Text summaries of replica placements, reassignments, and checks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.report.formatting import aligned
from spark_assign.report.listed_groups import num_rows
from spark_assign.spark.progress import progress

_LIMIT = 10


@progress("placing replicas", 1)
def summarize_placements(placed: DataFrame, rejected: DataFrame) -> str:
    """Returns the number of placed partitions, the first of them, and the first rejected requests.

    Args:
        placed: Result of `replicas.place`, computed or read back.
        rejected: Rejected requests, likewise.
    """
    total = placed.agg(num_rows("partitions"), F.count_distinct("cluster", "topic").alias("topics"))
    totals = total.collect()[0]  # one row
    num_rejected = rejected.count()
    lines = [
        f"{totals['partitions']:,} partitions of {totals['topics']:,} topics placed, {num_rejected:,} requests rejected"
    ]
    first = placed.orderBy("cluster", "topic", "partition").limit(_LIMIT).collect()
    rows = [
        [
            f"{row['cluster']}/{row['topic']}-{row['partition']}",
            " ".join(map(str, row["replicas"])),
            *("–" if row[name] is None else str(row[name]) for name in ("start_index", "shift", "seed")),
        ]
        for row in first
    ]
    lines += ["", *_left_aligned(["partition", "replicas", "start_index", "shift", "seed"], rows)]
    return "\n".join([*lines, *_rejected_lines(rejected, ["cluster", "topic"], num_rejected)])


@progress("reassigning replicas", 1)
def summarize_reassignment(metrics: DataFrame, rejected: DataFrame) -> str:
    """Returns one line per cluster: the moves, their lower bound, and the balance after them.

    Args:
        metrics: Metrics of `replicas.reassign`, computed or read back.
        rejected: Rejected clusters, likewise.
    """
    header = [
        "cluster",
        "brokers",
        "replicas",
        "moved",
        "lower bound",
        "per broker",
        "leaders",
        "leaders changed",
        "out of tolerance",
    ]
    displayed = metrics.orderBy(F.desc("moved"), "cluster").limit(_LIMIT).collect()
    rows = [
        [
            row["cluster"],
            *(f"{row[name]:,}" for name in ("brokers", "replicas", "moved", "lower_bound")),
            *(f"{row[f'min_{name}']:,}–{row[f'max_{name}']:,}" for name in ("replicas", "leaders")),
            f"{row['leaders_changed']:,}",
            f"{row['brokers_out_of_tolerance']:,}/{row['leaders_out_of_tolerance']:,}",
        ]
        for row in displayed
    ]
    totals = metrics.agg(
        num_rows("clusters"),
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("moved", "lower_bound", "moved_bytes")),
    ).collect()[0]  # one row
    num_rejected = rejected.count()
    size = f" ({totals['moved_bytes']:,} bytes)" if totals["moved_bytes"] else ""
    heading = (
        f"{totals['clusters']:,} clusters planned, {num_rejected:,} rejected, {totals['moved']:,} replicas move{size}, "
        f"at least {totals['lower_bound']:,} must move"
    )
    return "\n".join([heading, "", *_left_aligned(header, rows), *_rejected_lines(rejected, ["cluster"], num_rejected)])


@progress("checking replicas", 1)
def summarize_check(clusters: DataFrame, problems: DataFrame) -> str:
    """Returns one line per cluster, and the first problems.

    Args:
        clusters: Clusters of `replicas.check`, computed or read back.
        problems: Its problems, likewise.
    """
    codes = [name for name in clusters.columns if name not in _CLUSTER_COLUMNS]
    num_problems = reduce(Column.__add__, [F.col(name) for name in codes])
    displayed = (
        clusters.orderBy(F.desc(num_problems), F.desc("max_replicas_over_mean"), "cluster").limit(_LIMIT).collect()
    )
    rows = [
        [
            row["cluster"],
            *(f"{row[name]:,}" for name in ("brokers", "partitions", "replicas")),
            *(
                f"{_ratio(row[f'min_{name}_over_mean'])}–{_ratio(row[f'max_{name}_over_mean'])}"
                for name in ("replicas", "leaders")
            ),
            ", ".join(f"{row[code]:,} {code.replace('_', '-')}" for code in codes if row[code]) or "none",
        ]
        for row in displayed
    ]
    header = ["cluster", "brokers", "partitions", "replicas", "replicas/mean", "leaders/mean", "problems"]
    lines = _left_aligned(header, rows)
    first_problems = problems.orderBy("cluster", "topic", "partition", "code").limit(_LIMIT).collect()
    if first_problems:
        lines += ["", "Problems:"]
        lines += [
            f"  {row['cluster']}/{row['topic']}-{row['partition']}: {row['code']}: {row['detail']}"
            for row in first_problems
        ]
    return "\n".join(lines)


_CLUSTER_COLUMNS = {
    *("cluster", "brokers", "partitions", "replicas"),
    *(f"{bound}_{name}_over_mean" for bound in ("min", "max") for name in ("replicas", "leaders")),
}


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _rejected_lines(rejected: DataFrame, key: list[str], num_rejected: int) -> list[str]:
    if not num_rejected:
        return []
    displayed = rejected.orderBy(*key, "code").limit(_LIMIT).collect()
    lines = [f"  {'/'.join(str(row[name]) for name in key)}: {row['code']}: {row['detail']}" for row in displayed]
    more = [f"  … and {num_rejected - len(displayed):,} more"] if num_rejected > len(displayed) else []
    return ["", "Rejected:", *lines, *more]


def _left_aligned(names: Sequence[str], rows: list[list[Any]]) -> list[str]:
    """Returns left-aligned columns without indentation."""
    return [line.removeprefix("  ") for line in aligned([names, *rows], words=range(len(names)))]
