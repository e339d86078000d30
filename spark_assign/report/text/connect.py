"""Text and charts of Kafka Connect: a summary of a plan, and a comparison of protocols over a scenario."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from operator import itemgetter

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.connect.plan import ConnectPlan
from spark_assign.connect.simulate import ConnectScenario
from spark_assign.report import charts
from spark_assign.report.formatting import (
    MAX_REJECTED,
    Row,
    Rows,
    aligned,
    count,
    listed,
    number,
    rejected_lines,
    up_to,
)
from spark_assign.report.listed_groups import collected, note_lines, total_columns
from spark_assign.spark.progress import progress

_DEFAULT_LIMIT = 10


@progress("planning Connect clusters", 1)
def summarize_connect_plan(plan: ConnectPlan, limit: int = _DEFAULT_LIMIT) -> str:
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
        order = [F.desc("revoked"), F.desc("assigned"), F.asc("connect_cluster")]
        displayed = collected(
            plan.metrics.join(plan.delays, "connect_cluster").orderBy(*order).limit(limit), "clusters"
        )
        counts = ("workers", "tasks", "assigned", "revoked")
        rows = [
            [
                *(row["connect_cluster"], row["protocol"]),
                *(f"{row[name]:,}" for name in counts),
                up_to(row["waiting"], row["max_waiting"]),
                *(f"{row[f'min_tasks_{time}']}–{row[f'max_tasks_{time}']}" for time in ("before", "after")),
                f"{up_to(row['delay_ms'] / 1000, (row['max_delay_ms'] or 0) / 1000)} s",
            ]
            for row in displayed
        ]
        header = ["cluster", "protocol", *counts, "waiting", "before", "after", "delay"]
        title = "Connect clusters with most revocations (before, after: tasks per worker):"
        lines += ["", title, *aligned([header, *rows])]
        lines += note_lines(displayed, itemgetter("connect_cluster"))
    first_rejected = plan.rejected.orderBy("connect_cluster").limit(MAX_REJECTED)
    rejected_rows = collected(first_rejected, "rejected") if num_rejected else []
    lines += rejected_lines(rejected_rows, num_rejected, name=itemgetter("connect_cluster"))
    return "\n".join(lines)


def summarize_connect_simulation(costs: DataFrame, rejected: DataFrame, limit: int = _DEFAULT_LIMIT) -> str:
    """Returns a line per Connect cluster and protocol. Reads at most a screenful of rows.

    Args:
        costs, rejected: tables of a simulation (`tables.connect.SIMULATION_TABLES`).
        limit: Maximum number of lines, those with tasks that never run again or are idle longest first.
    """
    longest = [F.desc_nulls_last("not_running"), F.desc("task_ms_not_running")]
    rows = collected(costs.orderBy(*longest, "connect_cluster", "protocol").limit(limit), "costs")
    header = ["cluster", "protocol", "rebalances", "stopped", "started", "lost with worker", "task-seconds not running"]
    cells = [
        [
            *(row["connect_cluster"], row["protocol"], number(row["rebalances"])),
            *(number(row[f"connector_{kind}"] + row[f"task_{kind}"]) for kind in ("stops", "starts")),
            *(number(row["lost_with_worker"]), number(round(row["task_ms_not_running"] / 1000))),
            number(row["not_running"]),
        ]
        for row in rows
    ]
    lines = ["Connect clusters over all events:", *aligned([[*header, "never"], *cells], words=(0, 1))]
    first_rejected = collected(rejected.orderBy("connect_cluster").limit(MAX_REJECTED), "rejected")
    return "\n".join([*lines, *rejected_lines(first_rejected, rejected.count(), name=itemgetter("connect_cluster"))])


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
        # A phase can consist of one change, so the names are staggered vertically.
        {"at": changes.index(start) + 0.5, "phase": phase, "below": 8 + 15 * index}
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
