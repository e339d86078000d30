"""What a person sees of Kafka Connect: a plan, a simulation, and a comparison of protocols over a scenario."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.connect.plan import ConnectPlan
from spark_assign.connect.simulate import ConnectScenario
from spark_assign.report import charts, views
from spark_assign.report.formatting import (
    DASH,
    Row,
    Rows,
    aligned,
    count,
    listed,
    listed_order,
    note_lines,
    number,
    up_to,
)
from spark_assign.report.listed_groups import collected, long_sum, num_rows, read_rejected_lines, total_columns
from spark_assign.report.report_data import BUCKETS, DRAWN_GROUPS
from spark_assign.report.section_charts import LineSeries, draw_line_series
from spark_assign.report.views import Column, View, span
from spark_assign.spark.progress import progress

_CLUSTER = "connect_cluster"

PROTOCOLS = ("eager", "compatible", "sessioned", "compatible-2.6")
"""Display order of the protocols; eager, the baseline of the comparison, first."""


def _tasks(when: str) -> Column:
    """Returns the column of a worker's tasks, with bars from the minimum to the maximum."""
    column = span(when, f"tasks_{when}")

    def drawn(rows: Rows) -> Callable[[Row], views.Length]:
        most = max((row[f"max_tasks_{each}"] for row in rows for each in ("before", "after")), default=0) or 1
        return lambda row: _range_bar(row, when, column.text(row), most)

    return replace(column, drawn=drawn)


def _range_bar(row: Row, when: str, text: str, most: int) -> views.Length:
    low, high = row[f"min_tasks_{when}"], row[f"max_tasks_{when}"]
    wide = max(100 * (high - low) / most, 1.5 if high else 0)
    return views.Length("was" if when == "before" else "is", text, wide, left=100 * low / most * 0.985)


def _delay(row: Row) -> str:
    delay = row.get("delay_ms")
    return DASH if delay is None else f"{up_to(delay / 1000, (row.get('max_delay_ms') or 0) / 1000)} s"


def _calls(row: Row, kind: str) -> int:
    """Returns the starts or the stops of connectors and tasks by workers."""
    return int(row[f"connector_{kind}"] + row[f"task_{kind}"])


_COSTS = (
    *("rebalances", Column("stopped", lambda row: number(_calls(row, "stops")), True)),
    *(Column("started", lambda row: number(_calls(row, "starts")), True), "lost_with_worker"),
    Column("task-seconds not running", lambda row: number(round(row["task_ms_not_running"] / 1000)), True),
    "never_run_again=not_running",
)
_SUMMED = ("rebalances", "connector_stops", "connector_starts", "task_stops", "task_starts", "lost_with_worker")
_SUMMED_TIMES = ("task_ms_not_running", "not_running")

PLANNED = View(
    *("metrics", "Connect clusters with most revocations (before, after: tasks per worker)"),
    [
        "cluster=connect_cluster protocol workers +connectors tasks assigned revoked +lost",
        Column("waiting", lambda row: up_to(row["waiting"], row.get("max_waiting")), True),
        *(_tasks("before"), _tasks("after"), Column("delay", _delay, True), "+note?"),
    ],
    "-revoked, -assigned, connect_cluster",
    note="A bar starts at the minimum and ends at the maximum of a worker. Waiting: lost connectors and tasks that "
    "wait for their worker until the delay ends, after which all workers rejoin.",
    listed="connect_metrics",
)
COSTS = View(
    *("costs", "Connect clusters over all events, those whose tasks don't run for the longest time first"),
    ["cluster=connect_cluster protocol", *_COSTS],
    "-not_running, -task_ms_not_running, connect_cluster, protocol",
)
TOTALS = View(
    *("totals", "costs of the same events by protocol"),
    ["protocol clusters", *_COSTS],
    note="Stopped and started: connectors and tasks by workers.",
)
VIEWS = (PLANNED, TOTALS, COSTS, views.rejected_view(_CLUSTER))
"""The tables of the page, in order."""


@progress("planning Connect clusters", 1)
def summarize_connect_plan(plan: ConnectPlan, limit: int) -> str:
    """Returns the summary. Reads at most a screenful of rows.

    Args:
        plan: The plan.
        limit: Maximum number of Connect clusters listed, those that revoke most first.
    """
    columns = ("workers", "connectors", "tasks", "assigned", "revoked", "waiting")
    most = F.coalesce(F.sum(F.coalesce("max_waiting", "waiting")), F.lit(0)).alias("max_waiting")
    (totals,) = collected(plan.metrics.agg(*total_columns("clusters", columns), most))
    num_rejected = plan.rejected.count()
    lines = [
        f"{count(totals['clusters'], 'Connect cluster')} planned, {num_rejected:,} rejected: "
        f"{', '.join(count(totals[f'{noun}s'], noun) for noun in ('worker', 'connector', 'task'))}; "
        f"{totals['assigned']:,} assigned, "
        f"{totals['revoked']:,} revoked, {up_to(totals['waiting'], totals['max_waiting'])} waiting for their worker"
    ]
    if limit and totals["clusters"]:
        rows = PLANNED.first(plan.metrics.join(plan.delays, _CLUSTER), limit)
        lines += [*PLANNED.lines(rows, limit, totals["clusters"]), *note_lines(rows[:limit], itemgetter(_CLUSTER))]
    return "\n".join([*lines, *read_rejected_lines(plan.rejected, num_rejected, (_CLUSTER,), "connect_rejected")])


def summarize_connect_simulation(costs: DataFrame, rejected: DataFrame, limit: int) -> str:
    """Returns a line per Connect cluster and protocol. Reads at most a screenful of rows.

    Args:
        costs, rejected: tables of a simulation (`tables.connect.SIMULATION_TABLES`).
        limit: Maximum number of lines, those whose tasks are idle longest first.
    """
    return "\n".join([*COSTS.printed(costs, limit)[1:], *read_rejected_lines(rejected, key=(_CLUSTER,))])


def format_protocol_comparison(scenario: ConnectScenario, rebalances: Rows, costs: Rows) -> str:
    """Returns one line per phase of a scenario: rebalances, and stops and starts of connectors and tasks per protocol.

    Args:
        scenario: The simulated scenario.
        rebalances: Rows of `tables.connect.REBALANCES`.
        costs: Rows of `tables.connect.COSTS`.
    """
    lines = [["phase", *(f"{name}: rebalances / stopped / started" for name in scenario.protocols)]]
    for phase in [name for _, name in scenario.phases] + ["all"]:
        cells = [phase]
        for protocol in scenario.protocols:
            rows = [
                row for row in rebalances if row["protocol"] == protocol and phase in ("all", _phase_of(scenario, row))
            ]
            counts = (len(rows), *(sum(row[name] for row in rows) for name in ("stopped", "started")))
            cells.append(" / ".join(map(number, counts)))
        lines.append(cells)
    listed("costs", costs)
    by_protocol = {row["protocol"]: row for row in costs}
    rows = [by_protocol[name] for name in scenario.protocols]
    lines.append(["task-hours not running", *(f"{row['task_ms_not_running'] / 3_600_000:,.1f}" for row in rows)])
    if any(row.get("not_running") for row in rows):
        lines.append(["tasks that never run again", *(number(row.get("not_running") or 0) for row in rows)])
    return "\n".join(aligned(lines))


def draw_protocol_comparison(scenario: ConnectScenario, rebalances: Rows, path: str) -> None:
    """Draws the cost of each event of a scenario with each protocol to a file (.svg, .png, or .pdf, by its name).

    Raises:
        ConfigError: If the drawing library isn't installed, or the format is unknown.
    """
    changes = sorted({event["at_ms"] for event in scenario.events})
    rows = []
    for protocol in scenario.protocols:
        costs = _cost_per_event(changes, [row for row in rebalances if row["protocol"] == protocol])
        for ordinal, (cost, total) in enumerate(zip(costs, accumulate(costs), strict=True), start=1):
            rows.append({"change": ordinal, "protocol": protocol, "cost": cost, "total": total})
    phase_starts = [
        # A phase can consist of one change, so the names are staggered, below the peak of the lines.
        {"at": changes.index(start) + 0.5, "phase": phase, "below": 40 + 15 * index}
        for index, (start, phase) in enumerate(scenario.phases)
    ]
    strokes = [(charts.color(ink), dash) for ink, dash in charts.STROKES[: len(scenario.protocols)]]
    x_scale = {"domain": [0.5, len(changes) + 0.5], "nice": False}
    colors = charts.channel(
        "protocol:N",
        sort=list(scenario.protocols),
        scale={"domain": list(scenario.protocols), "range": [ink for ink, _ in strokes]},
        legend={"title": None, "orient": "top"},
    )
    dashes = charts.channel(
        "protocol:N",
        sort=list(scenario.protocols),
        scale={"domain": list(scenario.protocols), "range": [dash or [1, 0] for _, dash in strokes]},
    )
    panels = []
    tick_values = [0, *(10**power for power in range(2, 10))]
    for name, title, scale, ticks in (
        ("cost", "starts and stops of one change", {}, {"tickCount": 6}),
        ("total", "cumulative", {"type": "symlog", "constant": 100}, {"values": tick_values}),
    ):
        is_last = name == "total"
        axis = {"title": "changes, in order of time", "tickMinStep": 1} if is_last else None
        change_x, phase_x = (charts.channel(f"{field}:Q", scale=x_scale, axis=axis) for field in ("change", "at"))
        y = charts.channel(f"{name}:Q", scale=scale, axis=dict(title=title, format=",d", **ticks))
        line_chart = charts.chart_of(rows).mark("line", interpolate="step", strokeWidth=2)
        phase_chart = charts.chart_of(phase_starts).encode(x=phase_x)
        panel = charts.layer(
            phase_chart.mark("rule", color=charts.color("line")),
            line_chart.encode(x=change_x, y=y, color=colors, strokeDash=dashes),
            phase_chart.mark("text", align="left", dx=4, fontSize=11).encode(
                y=charts.channel("below:Q", scale=None, axis=None), text="phase:N"
            ),
        )
        panels.append(panel.properties(resolve={"scale": {"y": "independent"}}, width=860, height=260))
    title = f"Connect, {scenario.name}: connectors and tasks started and stopped"
    charts.write_chart(charts.vconcat(*panels, spacing=14).properties(title=title), path)


def _cost_per_event(changes: Sequence[int], rebalances: Rows) -> list[int]:
    """Returns the starts and stops in all rebalances from each event until the next one."""
    return [
        sum(row["stopped"] + row["started"] for row in rebalances if start_ms <= row["at_ms"] < end_ms)
        for start_ms, end_ms in pairwise([*changes, math.inf])
    ]


def _phase_of(scenario: ConnectScenario, row: Row) -> str:
    """Returns the name of the phase in which a rebalance starts."""
    return [name for start, name in scenario.phases if start <= row["at_ms"]][-1]


# --- page ---------------------------------------------------------------------------------------------------------


def build_connect_section(rows: Mapping[str, Rows]) -> views.Section:
    """Returns the section on Connect clusters: one rebalance of each, and a simulation (`connect_rows`)."""
    totals = sorted(rows.get("totals", ()), key=lambda row: listed_order(row["protocol"], PROTOCOLS))
    costs = rows.get("costs", ())
    is_of_several = len({row[_CLUSTER] for row in costs}) > 1
    shown = {**rows, "totals": totals, "costs": costs if is_of_several else ()}
    tables = [view.table(shown.get(view.name, ())) for view in VIEWS]
    return views.Section(_savings_sentences(totals), tables, _cumulative_charts(rows))


def _hours(ms: int) -> str:
    return f"{ms / 3_600_000:,.1f}"


def _savings_sentences(totals: Rows) -> list[str]:
    """Returns a sentence about what an incremental protocol saves, if eager was simulated, too."""
    if len(totals) < 2 or totals[0]["protocol"] != "eager":
        return []
    eager, one = totals[:2]
    many, few = (number(_calls(row, "stops") + _calls(row, "starts")) for row in (eager, one))
    long, short = (_hours(row["task_ms_not_running"]) for row in (eager, one))
    return [
        f"The same events stop and start {many} connectors and tasks with eager, {few} with {one['protocol']}; tasks "
        f"do not run for {long} and {short} hours, all tasks together.",
        *(
            f"With {row['protocol']}, {count(row['not_running'], 'task')} never run again, so the cost is open."
            for row in totals
            if row["not_running"]
        ),
    ]


def _cumulative_charts(rows: Mapping[str, Rows]) -> list[views.Drawing]:
    """Returns a chart of cumulative stops and starts for each Connect cluster, with a line per protocol."""
    drawn = {
        name: views.grouped(rebalances, itemgetter("protocol"))
        for name, rebalances in views.grouped(rows.get("rebalances", ()), itemgetter("connect_cluster")).items()
    }
    costs = {(row["connect_cluster"], row["protocol"]): row for row in rows.get("costs", ())}
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
        found.append(views.Drawing(f"{name}: cumulative stops and starts of connectors and tasks", picture))
    return found


def _cost_text(cost: Row | None, points: Rows) -> str:
    if cost is None:
        return f"{number(points[-1]['so_far'])} stops and starts"
    return (
        f"{count(cost['rebalances'], 'rebalance')}, {count(_calls(cost, 'stops'), 'stop')} and "
        f"{count(_calls(cost, 'starts'), 'start')}, "
        f"{_hours(cost['task_ms_not_running'])} task-hours not running"
    )


def connect_rows(connect: Any) -> dict[str, Rows]:
    """Returns the rows of a `ConnectPlan`, a `ConnectSimulation`, or their stored tables that the page displays.

    Beside those of `VIEWS`, `rebalances` has the cumulative stops and starts of the charted clusters in time.
    """
    tables = dict(connect if isinstance(connect, Mapping) else connect.tables)
    if {"metrics", "delays"} <= set(tables):
        delays = tables["delays"].groupBy(_CLUSTER).agg(F.max("delay_ms").alias("delay_ms"))  # one row of each
        tables["metrics"] = tables["metrics"].join(delays, _CLUSTER, "left")
    if "costs" in tables:
        if "not_running" not in tables["costs"].columns:  # a run of an earlier release
            tables["costs"] = tables["costs"].withColumn("not_running", F.lit(0))
        sums = (F.coalesce(long_sum(name), F.lit(0)).alias(name) for name in (*_SUMMED, *_SUMMED_TIMES))
        tables["totals"] = tables["costs"].groupBy("protocol").agg(num_rows("clusters"), *sums)
    found = views.read_views(VIEWS, tables)
    drawn = list(dict.fromkeys(row[_CLUSTER] for row in found.get("costs", ())))[:DRAWN_GROUPS]
    if drawn and "rebalances" in tables:
        found["rebalances"] = collected(_cumulative_moves(tables["rebalances"], drawn))
    return found


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
