"""A plan's figures as OpenMetrics, for the textfile collector of Prometheus' node exporter.

All are gauges without times of their own, so that the text is read the same by what knows OpenMetrics and by what knows
Prometheus' older text format only. The file appears whole: it is written beside its place under a name that the
collector does not read, and renamed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.report.listed_groups import num_unowned, over_share, worst_first
from spark_assign.report.text.history import worst_first as worst_of_the_past
from spark_assign.stores.run_store import StoredRun
from spark_assign.tables.errors import SourceError, missing_extra
from spark_assign.tables.groups import GROUP_KEY

MOST_GROUPS = 10_000
"""Groups with figures of their own, those with most partitions affected first: a series each is what they cost."""

Row = Mapping[str, Any]

_OF_GROUPS: tuple[tuple[str, str], ...] = (
    ("imbalance_ratio", "Partitions of the fullest member over the mean"),
    ("over_share_partitions", "Partitions that the fullest member has above an even share"),
    ("moved_partitions", "Partitions that get another owner"),
    ("revoked_partitions", "Partitions that a member which stays has to give up"),
    ("unowned_partitions", "Partitions that nobody gets"),
)
_OF_THE_PAST: tuple[tuple[str, str, str, float], ...] = (
    ("rebalances", "rebalances", "Rebalances on record", 1),
    ("max_rebalances_per_day", "max_rebalances_per_day", "Largest number of rebalances within 24 hours", 1),
    ("paused_partition_seconds", "paused_partition_ms", "Partition-time without commits around rebalances", 1000),
    ("longest_pause_seconds", "longest_pause_ms", "Longest pause of a partition around a rebalance", 1000),
    ("flapping", "flapping", "Whether the group rebalances frequently without deploys", 1),
)
_CHANGES = ("moved", "newly_owned", "no_longer_owned")


@dataclass(frozen=True)
class Figures:
    """What is told of a run.

    Attributes:
        run_id: of the plan; null where no plan was given.
        finished_s: when it was finished, in seconds since 1970.
        groups: `tables.groups.METRICS`.
        planned: cluster, groups: how many were planned.
        rejected: cluster, code, groups: how many were rejected.
        drifted: `tables.comparison.DRIFT_GROUPS`; null where no drift was given.
        past: `tables.history.GROUPS`; null where no history was given.
    """

    run_id: str | None = None
    finished_s: float = 0.0
    groups: Sequence[Row] = ()
    planned: Sequence[Row] = ()
    rejected: Sequence[Row] = ()
    past: Sequence[Row] | None = None
    drifted: Sequence[Row] | None = None


def write_metrics(
    plan: StoredRun | None, file: Path, drifted: DataFrame | None = None, past: DataFrame | None = None
) -> int:
    """Write a stored plan's figures, and those of the drift that led to it; how many groups have figures of their own.

    Args:
        plan: read back; null for the figures of the past alone.
        file: where to, such as `/var/lib/node_exporter/spark_assign.prom`: the collector reads names with `.prom`.
        drifted: the table `groups` of a drift.
        past: the table `groups` of a history.

    Raises:
        ConfigError: prometheus-client is not installed.
        SourceError: the file cannot be written.
    """
    past_rows = None if past is None else _rows(past.orderBy(*worst_of_the_past()).limit(MOST_GROUPS))
    if plan is None:
        publish(expose(Figures(past=past_rows)), file)
        return len(past_rows or ())
    metrics, rejected = plan.tables["metrics"], plan.tables["rejected"]
    number = F.count(F.lit(1)).alias("groups")
    manifest = plan.manifest
    figures = Figures(
        run_id=manifest.run_id,
        finished_s=manifest.finished_at.timestamp(),
        groups=_rows(worst_first(metrics).limit(MOST_GROUPS)),
        planned=_rows(metrics.groupBy("cluster").agg(number)),
        rejected=_rows(rejected.groupBy("cluster", "code").agg(number)),
        drifted=None if drifted is None else _rows(_most_changed(drifted).limit(MOST_GROUPS)),
        past=past_rows,
    )
    publish(expose(figures), file)
    return len(figures.groups)


def expose(figures: Figures) -> bytes:
    """The figures as text.

    Raises:
        ConfigError: prometheus-client is not installed.
    """
    try:
        from prometheus_client import CollectorRegistry, Gauge
        from prometheus_client.openmetrics.exposition import generate_latest
    except ImportError as error:
        raise missing_extra("metrics need prometheus-client", "report") from error
    registry = CollectorRegistry()

    def gauge(
        name: str, about: str, labels: Sequence[str], values: Iterable[tuple[Sequence[str], float | None]]
    ) -> None:
        metric = Gauge(f"spark_assign_{name}", about, labels, registry=registry)
        for of, value in values:
            if value is not None:
                metric.labels(*of).set(value)

    by_group = ("cluster", "group")
    if figures.run_id is not None:
        for at, (name, about) in enumerate(_OF_GROUPS):
            gauge(f"group_{name}", about, by_group, ((_key(row), _figures(row)[at]) for row in figures.groups))
        past_rows = "Groups that were planned"
        gauge(
            "planned_groups", past_rows, ("cluster",), (((row["cluster"],), row["groups"]) for row in figures.planned)
        )
        codes = (((row["cluster"] or "", row["code"]), row["groups"]) for row in figures.rejected)
        gauge("rejected_groups", "Groups that were rejected, by code", ("cluster", "code"), codes)
        finished = [((figures.run_id,), figures.finished_s)]
        gauge("plan_finished_timestamp_seconds", "When the plan was finished", ("run",), finished)
    if figures.drifted is not None:
        changed = (((*_key(row), change), row[change]) for row in figures.drifted for change in _CHANGES if row[change])
        about = "Partitions that have changed hands since the run before"
        gauge("group_drift_partitions", about, (*by_group, "change"), changed)
    for name, column, about, unit in _OF_THE_PAST if figures.past is not None else ():
        values = ((_key(row), None if row[column] is None else row[column] / unit) for row in figures.past or ())
        gauge(f"history_group_{name}", about, by_group, values)
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return text


def publish(text: bytes, file: Path) -> None:
    """Write a file whole: who reads it meanwhile sees the old one or the new one.

    Raises:
        SourceError: it cannot be written.
    """
    partial = file.with_name(f".{file.name}.partial")
    try:
        partial.write_bytes(text)
        partial.replace(file)
    except OSError as error:
        partial.unlink(missing_ok=True) if partial.parent.is_dir() else None
        raise SourceError(f"cannot write {file}: {error.strerror}. Name a file in a folder that is there") from error


def _figures(row: Row) -> tuple[float | None, ...]:
    """In the order of `_OF_GROUPS`."""
    return (row["max_over_mean"], over_share(row), row["moved"], row["revoked"], num_unowned(row))


def _key(row: Row) -> tuple[str, str]:
    return row["cluster"], row["group_id"]


def _most_changed(drifted: DataFrame) -> DataFrame:
    changed = sum((F.col(name) for name in _CHANGES), F.lit(0))
    return drifted.where(changed > 0).orderBy(F.desc(changed), *GROUP_KEY)


def _rows(table: DataFrame) -> list[Row]:
    return [row.asDict() for row in table.collect()]  # of groups ten thousand at most, else a row per cluster or code
