"""Writes figures of a plan in OpenMetrics, for the textfile collector of Prometheus' node exporter.

All figures are gauges without timestamps, so parsers of OpenMetrics and of Prometheus' older text format read the same
values. The file is written under a name that the collector doesn't read, and then renamed, so it is always complete.
Labels have codes of control characters: Prometheus refuses all metrics of a machine for one U+0000.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.report.formatting import Row, Rows, distinct, group_key
from spark_assign.report.history import GROUPS
from spark_assign.report.listed_groups import collected, num_rows, num_unowned, over_share, worst_first
from spark_assign.stores.locations import publish
from spark_assign.stores.run_store import StoredRun
from spark_assign.tables.errors import needs_extra
from spark_assign.tables.groups import GROUP_KEY

MOST_GROUPS = 10_000
"""Maximum number of groups with figures: those with the most affected partitions. Each figure is a time series."""


_OF_GROUPS: tuple[tuple[str, str, Callable[[Row], float | None]], ...] = (
    ("imbalance_ratio", "Partitions of the largest member divided by the mean", itemgetter("max_over_mean")),
    ("over_share_partitions", "Partitions of the largest member above an even share", over_share),
    ("moved_partitions", "Partitions that get another owner", itemgetter("moved")),
    ("revoked_partitions", "Partitions that remaining members must revoke", itemgetter("revoked")),
    ("unowned_partitions", "Partitions without an owner", num_unowned),
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
    """The rows of a run from which the figures are made.

    Attributes:
        run_id: run ID of the plan; None without a plan.
        finished_s: end time of the plan, in seconds since 1970.
        groups: rows of `tables.groups.METRICS`.
        planned: number of planned groups per cluster.
        rejected: number of rejected groups per cluster and code.
        drifted: rows of `tables.comparison.DRIFT_GROUPS`; None without a drift.
        past: rows of `tables.history.GROUPS`; None without a history.
        clusters: cluster, taken_at (time of the newest snapshot; None: never), and problem (empty if the cluster was
            read); None if they aren't known.
    """

    run_id: str | None = None
    finished_s: float = 0.0
    groups: Rows = ()
    planned: Rows = ()
    rejected: Rows = ()
    past: Rows | None = None
    drifted: Rows | None = None
    clusters: Rows | None = None


def write_metrics(
    plan: StoredRun | None, file: Path, drifted: DataFrame | None = None, past: DataFrame | None = None
) -> int:
    """Writes the figures of a stored plan, and those of a drift and a history.

    Args:
        plan: the stored plan; None for the figures of a history only.
        file: target file, such as `/var/lib/node_exporter/spark_assign.prom`. The collector reads names with `.prom`.
        drifted: the table `groups` of a drift.
        past: the table `groups` of a history.

    Returns:
        the number of groups with figures.

    Raises:
        ConfigError: prometheus-client isn't installed.
        SourceError: the file can't be written.
    """
    past_rows = None if past is None else GROUPS.read(past, MOST_GROUPS)
    if plan is None:
        publish(expose(Figures(past=past_rows)), file)
        return len(past_rows or ())
    metrics, rejected = plan.tables["metrics"], plan.tables["rejected"]
    number = num_rows("groups")
    manifest = plan.manifest
    figures = Figures(
        run_id=manifest.run_id,
        finished_s=manifest.finished_at.timestamp(),
        groups=collected(worst_first(metrics).limit(MOST_GROUPS)),
        planned=collected(metrics.groupBy("cluster").agg(number)),
        rejected=collected(rejected.groupBy("cluster", "code").agg(number)),
        drifted=None if drifted is None else collected(_most_changed(drifted).limit(MOST_GROUPS)),
        past=past_rows,
    )
    publish(expose(figures), file)
    return len(figures.groups)


def expose(figures: Figures) -> bytes:
    """Returns the figures as text.

    Raises:
        ConfigError: prometheus-client isn't installed.
    """
    with needs_extra("metrics need prometheus-client", "report"):
        from prometheus_client import CollectorRegistry, Gauge
        from prometheus_client.openmetrics.exposition import generate_latest
    registry = CollectorRegistry()

    def gauge(
        name: str, about: str, labels: Sequence[str], values: Iterable[tuple[Sequence[str], float | None]]
    ) -> None:
        metric = Gauge(f"spark_assign_{name}", about, labels, registry=registry)
        for of, value in values:
            if value is not None:
                metric.labels(*map(distinct, of)).set(value)

    by_group = ("cluster", "group")
    if figures.run_id is not None:
        for name, about, figure in _OF_GROUPS:
            gauge(f"group_{name}", about, by_group, ((group_key(row), figure(row)) for row in figures.groups))
        about = "Planned groups"
        gauge("planned_groups", about, ("cluster",), (((row["cluster"],), row["groups"]) for row in figures.planned))
        codes = (((row["cluster"] or "", row["code"]), row["groups"]) for row in figures.rejected)
        gauge("rejected_groups", "Rejected groups by code", ("cluster", "code"), codes)
        finished = [((figures.run_id,), figures.finished_s)]
        gauge("plan_finished_timestamp_seconds", "End time of the plan", ("run",), finished)
    if figures.drifted is not None:
        each = ((row, change) for row in figures.drifted for change in _CHANGES if row[change])
        changed = (((*group_key(row), change), row[change]) for row, change in each)
        about = "Partitions whose owner changed since the previous run"
        gauge("group_drift_partitions", about, (*by_group, "change"), changed)
    for name, column, about, unit in _OF_THE_PAST if figures.past is not None else ():
        values = ((group_key(row), None if row[column] is None else row[column] / unit) for row in figures.past or ())
        gauge(f"history_group_{name}", about, by_group, values)
    if figures.clusters is not None:
        taken = (((row["cluster"],), row["taken_at"] and row["taken_at"].timestamp()) for row in figures.clusters)
        gauge("cluster_snapshot_timestamp_seconds", "Time of the newest snapshot", ("cluster",), taken)
        failed = (((row["cluster"],), int(bool(row["problem"]))) for row in figures.clusters)
        gauge("cluster_failed", "Whether the last run couldn't read the cluster", ("cluster",), failed)
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return text


def _most_changed(drifted: DataFrame) -> DataFrame:
    changed = sum((F.col(name) for name in _CHANGES), F.lit(0))
    return drifted.where(changed > 0).orderBy(F.desc(changed), *GROUP_KEY)
