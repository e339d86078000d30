"""Builds the section of the report on Kafka Connect clusters."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.report.formatting import Row, Rows, count, listed_order, number, seconds, up_to
from spark_assign.report.html import section_parts as parts
from spark_assign.report.html.report_data import BUCKETS, DRAWN_GROUPS, MOST_ROWS, ConnectRows
from spark_assign.report.html.section_charts import LineSeries, draw_line_series
from spark_assign.report.listed_groups import collected, num_rows

PROTOCOLS = ("eager", "compatible", "sessioned", "compatible-2.6")
"""Display order of the protocols; eager, the baseline of the comparison, first."""


def build_connect_section(rows: ConnectRows) -> parts.Section:
    """Returns the section on Connect clusters: one rebalance of each, and a simulation (`ConnectRows`)."""
    several = len({row["connect_cluster"] for row in rows.costs}) > 1
    tables = [
        _rebalances_table(rows),
        _costs_table(rows.totals),
        _worst_clusters_table(rows.costs if several else ()),
        parts.rejected_table(rows.rejected),
    ]
    return parts.Section(_savings_sentences(rows.totals), tables, _cumulative_charts(rows))


def _rebalances_table(rows: ConnectRows) -> parts.Table:
    """Returns one line per planned cluster, with bars from the minimum to the maximum of a worker's tasks."""
    most = max((row[f"max_tasks_{when}"] for row in rows.metrics for when in ("before", "after")), default=0) or 1
    delays = [parts.figure("Workers rejoin after", "delay_ms", lambda delay_ms: seconds(delay_ms or None))]
    more = f"Shown are {len(rows.metrics):,} of {rows.total:,}. " if rows.total > len(rows.metrics) else ""
    return parts.table_of(
        "Connect clusters in their next rebalance, most revoked first",
        rows.metrics,
        [
            *_NAMES,
            ("Tasks per worker before", True, lambda row: _range_bar(row, "before", most)),
            ("after", True, lambda row: _range_bar(row, "after", most)),
            *parts.figures("revoked", "assigned", "lost"),
            ("Waiting", True, lambda row: up_to(row["waiting"], row.get("max_waiting"))),
            *parts.figures("workers", "connectors", "tasks"),
            *(delays if any(row.get("delay_ms") for row in rows.metrics) else []),
            *([parts.words("Note", "note")] if any(row.get("note") for row in rows.metrics) else []),
        ],
        f"{more}A bar starts at the minimum and ends at the maximum of a worker. Waiting: "
        "lost connectors and tasks that wait for their worker until the delay ends.",
    )


def _range_bar(row: Row, when: str, most: int) -> parts.Length:
    low, high = row[f"min_tasks_{when}"], row[f"max_tasks_{when}"]
    text = number(low) if low == high else f"{number(low)} to {number(high)}"
    kind = "was" if when == "before" else "is"
    return parts.Length(
        kind, text, wide=max(100 * (high - low) / most, 1.5 if high else 0), left=100 * low / most * 0.985
    )


def _protocol_order(row: Row) -> tuple[int, str]:
    return listed_order(row["protocol"], PROTOCOLS)


def _hours(ms: int) -> str:
    return f"{ms / 3_600_000:,.1f}"


def _savings_sentences(totals: Rows) -> list[str]:
    """Returns a sentence about what an incremental protocol saves, if eager was simulated, too."""
    ordered = sorted(totals, key=_protocol_order)
    if len(ordered) < 2 or ordered[0]["protocol"] != "eager":
        return []
    eager, one = ordered[:2]
    many, few = (number(row["stops"] + row["starts"]) for row in (eager, one))
    long, short = (_hours(row["task_ms_not_running"]) for row in (eager, one))
    return [
        f"The same events stop and start {many} connectors and tasks with eager, {few} with {one['protocol']}; tasks "
        f"do not run for {long} and {short} hours, all tasks together.",
        *(
            f"With {row['protocol']}, {count(row['not_running'], 'task')} never run again, so the cost is open."
            for row in ordered
            if row["not_running"]
        ),
    ]


_NAMES = (parts.words("Cluster", "connect_cluster"), parts.words("Protocol", "protocol"))
_COSTS = (
    *(*parts.figures("rebalances", "stops", "starts"), parts.figure("Lost with a worker", "lost_with_worker")),
    parts.figure("Task-hours not running", "task_ms_not_running", _hours),
    parts.figure("Never run again", "not_running"),
)


def _costs_table(rows: Rows) -> parts.Table:
    """Returns one line per protocol."""
    return parts.table_of(
        "Costs of the same events by protocol",
        sorted(rows, key=_protocol_order),
        [parts.words("Protocol", "protocol"), parts.figure("Clusters", "clusters"), *_COSTS],
        "Stops and starts are those of connectors and tasks by workers.",
    )


def _worst_clusters_table(rows: Rows) -> parts.Table:
    return parts.table_of("Connect clusters with most time without running tasks", rows, [*_NAMES, *_COSTS])


def _cumulative_charts(rows: ConnectRows) -> list[parts.Drawing]:
    """Returns a chart of cumulative stops and starts for each Connect cluster, with a line per protocol."""
    drawn = {
        name: parts.grouped(rebalances, itemgetter("protocol"))
        for name, rebalances in parts.grouped(rows.rebalances, itemgetter("connect_cluster")).items()
    }
    costs = {(row["connect_cluster"], row["protocol"]): row for row in rows.costs}
    names = dict.fromkeys(name for name, _ in costs if name in drawn)
    found = []
    for at, name in enumerate(names, start=1):
        lines = [
            LineSeries(
                protocol,
                [(row["at_ms"], row["so_far"]) for row in drawn[name][protocol]],
                _cost_text(costs.get((name, protocol)), drawn[name][protocol]),
            )
            for protocol in sorted(drawn[name], key=lambda protocol: listed_order(protocol, PROTOCOLS))
        ]
        title = f"Cumulative stops and starts in {name}"
        picture = draw_line_series(lines, f"connect{at}", title, "time since the first rebalance")
        found.append(parts.Drawing(f"{name}: cumulative stops and starts of connectors and tasks", picture))
    return found


def _cost_text(cost: Row | None, points: Rows) -> str:
    if cost is None:
        return f"{number(points[-1]['so_far'])} stops and starts"
    return (
        f"{count(cost['rebalances'], 'rebalance')}, {number(cost['stops'])} stops and {number(cost['starts'])} starts, "
        f"{_hours(cost['task_ms_not_running'])} task-hours not running"
    )


Tables = Mapping[str, DataFrame]

_CONNECT = ("metrics", "delays", "rejected", "rebalances", "costs")


def connect_rows(connect: Any) -> ConnectRows:
    """Returns the rows of a `ConnectPlan`, a `ConnectSimulation`, or their stored tables that the page displays."""
    tables = {name: table for name in _CONNECT if (table := _find_table(connect, name)) is not None}
    found: dict[str, Any] = {}
    if "metrics" in tables:
        metrics = tables["metrics"]
        if "delays" in tables:
            metrics = metrics.join(tables["delays"].select("connect_cluster", "delay_ms"), "connect_cluster", "left")
        order = F.desc(F.col("revoked") + F.col("lost"))
        shown = found["metrics"] = collected(metrics.orderBy(order, "connect_cluster").limit(MOST_ROWS))
        found["total"] = len(shown) if len(shown) < MOST_ROWS else metrics.count()
    if "rejected" in tables:
        found["rejected"] = collected(tables["rejected"].orderBy("connect_cluster", "code").limit(MOST_ROWS))
    if "costs" in tables:
        found |= _collect_costs(tables["costs"])
    if "costs" in tables and "rebalances" in tables:
        drawn = list(dict.fromkeys(row["connect_cluster"] for row in found["costs"]))[:DRAWN_GROUPS]
        found["rebalances"] = collected(_cumulative_moves(tables["rebalances"], drawn)) if drawn else ()
    return ConnectRows(**found)


def _find_table(connect: Any, name: str) -> DataFrame | None:
    table: DataFrame | None = connect.get(name) if isinstance(connect, Mapping) else getattr(connect, name, None)
    return table


def _collect_costs(costs: DataFrame) -> dict[str, Rows]:
    """Returns sums per protocol, and the Connect clusters whose tasks don't run for the longest time."""
    stops, starts = (F.col(f"connector_{what}") + F.col(f"task_{what}") for what in ("stops", "starts"))
    never = F.col("not_running") if "not_running" in costs.columns else F.lit(0)
    costs = costs.withColumns({"stops": stops, "starts": starts, "not_running": F.coalesce(never, F.lit(0))})
    summed = ("rebalances", "stops", "starts", "lost_with_worker", "task_ms_not_running", "not_running")
    sums = (F.sum(name).alias(name) for name in summed)
    totals = costs.groupBy("protocol").agg(num_rows("clusters"), *sums)
    worst = F.max(F.struct("not_running", "task_ms_not_running")).over(Window.partitionBy("connect_cluster"))
    ordered = costs.withColumn("worst", worst).orderBy(F.desc("worst"), "connect_cluster", "protocol")
    return {
        "totals": collected(totals.orderBy("protocol").limit(MOST_ROWS)),
        "costs": collected(ordered.drop("worst").limit(MOST_ROWS)),
    }


def _cumulative_moves(rebalances: DataFrame, clusters: list[str]) -> DataFrame:
    """Returns the cumulative stops and starts of these Connect clusters in `BUCKETS` time buckets."""
    these = rebalances.where(F.col("connect_cluster").isin(clusters))
    of_cluster = Window.partitionBy("connect_cluster")
    begin, end = F.min("at_ms").over(of_cluster), F.max("at_ms").over(of_cluster)
    wide = F.greatest(F.lit(1), F.ceil((F.col("end") - F.col("begin") + 1) / BUCKETS))
    key = ["connect_cluster", "protocol"]
    buckets = (
        these.withColumns({"begin": begin, "end": end})
        .withColumns({"wide": wide})
        .groupBy(*key, F.floor((F.col("at_ms") - F.col("begin")) / F.col("wide")).alias("time_bucket"))
        .agg(
            (F.max("at_ms") - F.first("begin")).alias("at_ms"), F.sum(F.col("stopped") + F.col("started")).alias("many")
        )
    )
    so_far = F.sum("many").over(Window.partitionBy(*key).orderBy("time_bucket"))
    return buckets.select(*key, "at_ms", so_far.alias("so_far")).orderBy(*key, "at_ms")
