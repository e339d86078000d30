"""Text and charts of Kafka Connect: a summary of a plan, and a comparison of protocols over a scenario."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import functions as F

from spark_assign.connect.plan import ConnectPlan
from spark_assign.connect.simulate import ConnectScenario
from spark_assign.report import charts
from spark_assign.report.formatting import aligned, one_line
from spark_assign.spark.progress import progress

_DEFAULT_LIMIT = 10
Rows = Sequence[Mapping[str, Any]]


@progress("planning Connect clusters", 1)
def summarize_connect_plan(plan: ConnectPlan, limit: int = _DEFAULT_LIMIT) -> tuple[str, int]:
    """Returns the summary and the number of rejected Connect clusters. Reads at most a screenful of rows.

    Args:
        plan: The plan.
        limit: Maximum number of Connect clusters listed, those that revoke most first.
    """
    columns = ("workers", "connectors", "tasks", "assigned", "revoked", "waiting")
    sums = (F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in columns)
    totals = plan.metrics.agg(F.count(F.lit(1)).alias("clusters"), *sums).collect()[0]  # one row of sums
    num_rejected = plan.rejected.count()
    lines = [
        f"{totals['clusters']:,} Connect clusters planned, {num_rejected:,} rejected: {totals['workers']:,} workers, "
        f"{totals['connectors']:,} connectors, {totals['tasks']:,} tasks; {totals['assigned']:,} assigned, "
        f"{totals['revoked']:,} revoked, {totals['waiting']:,} waiting for their worker"
    ]
    if limit and totals["clusters"]:
        order = [F.desc("revoked"), F.desc("assigned"), F.asc("connect_cluster")]
        displayed = plan.metrics.join(plan.delays, "connect_cluster").orderBy(*order).limit(limit).collect()
        rows = [
            [
                *(row["connect_cluster"], row["protocol"]),
                *(f"{row[name]:,}" for name in ("workers", "tasks", "assigned", "revoked", "waiting")),
                *(f"{row[f'min_tasks_{time}']}–{row[f'max_tasks_{time}']}" for time in ("before", "after")),
                f"{row['delay_ms'] / 1000:,.0f} s",
            ]
            for row in displayed
        ]
        header = [
            "cluster",
            "protocol",
            "workers",
            "tasks",
            "assigned",
            "revoked",
            "waiting",
            "before",
            "after",
            "delay",
        ]
        title = "Connect clusters with most revocations (before, after: tasks per worker):"
        lines += ["", title, *aligned([header, *rows])]
    if num_rejected:
        lines += ["", "Rejected:"]
        for row in plan.rejected.orderBy("connect_cluster").limit(_DEFAULT_LIMIT).collect():
            lines.append(f"  {row['connect_cluster']}: {row['code']}: {one_line(row['detail'])}")
        if num_rejected > _DEFAULT_LIMIT:
            lines.append(f"  … and {num_rejected - _DEFAULT_LIMIT:,} more, in the table rejected")
    return "\n".join(lines), num_rejected


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
            stopped, started = (sum(row[name] for row in rows) for name in ("stopped", "started"))
            cells.append(f"{len(rows):,} / {stopped:,} / {started:,}")
        lines.append(cells)
    stopped_time = {row["protocol"]: row["task_ms_not_running"] for row in costs}
    lines.append(["task-hours not running", *(f"{stopped_time[name] / 3_600_000:,.1f}" for name in scenario.protocols)])
    return "\n".join(aligned(lines))


def draw_protocol_comparison(scenario: ConnectScenario, rebalances: Rows, path: str) -> None:
    """Draws the cost of each event of a scenario with each protocol to a file (.svg, .png, or .pdf, by its name).

    Raises:
        ConfigError: If the drawing library isn't installed, or the format is unknown.
    """
    alt = charts.altair()
    changes = sorted({event["at_ms"] for event in scenario.events})
    rows = []
    for protocol in scenario.protocols:
        costs = list(_cost_per_event(changes, [row for row in rebalances if row["protocol"] == protocol]))
        total = 0
        for ordinal, event_cost in enumerate(costs, start=1):
            total += event_cost
            rows.append({"change": ordinal, "protocol": protocol, "cost": event_cost, "total": total})
    phase_starts = [
        # A phase can consist of one change, so the names are staggered vertically.
        {"at": changes.index(start) + 0.5, "phase": phase, "below": 8 + 15 * index}
        for index, (start, phase) in enumerate(scenario.phases)
    ]
    strokes = [(charts.color(ink), dash) for ink, dash in charts.STROKES[: len(scenario.protocols)]]
    x_scale = alt.Scale(domain=[0.5, len(changes) + 0.5], nice=False)
    protocol = alt.Color(
        "protocol:N",
        sort=list(scenario.protocols),
        scale=alt.Scale(domain=list(scenario.protocols), range=[ink for ink, _ in strokes]),
        legend=alt.Legend(title=None, orient="top"),
    )
    dashes = alt.StrokeDash(
        "protocol:N",
        sort=list(scenario.protocols),
        scale=alt.Scale(domain=list(scenario.protocols), range=[dash or [1, 0] for _, dash in strokes]),
    )
    panels = []
    tick_values = [0, *(10**power for power in range(2, 10))]
    for name, title, scale, ticks in (
        ("cost", "starts and stops of one change", alt.Scale(), {"tickCount": 6}),
        ("total", "cumulative", alt.Scale(type="symlog", constant=100), {"values": tick_values}),
    ):
        is_last = name == "total"
        axis = alt.Axis(title="changes, in order of time", tickMinStep=1) if is_last else None
        line_chart = alt.Chart(alt.Data(values=rows)).mark_line(interpolate="step", strokeWidth=2)
        change_x, phase_x = (alt.X(f"{field}:Q", scale=x_scale, axis=axis) for field in ("change", "at"))
        y = alt.Y(f"{name}:Q", scale=scale, axis=alt.Axis(title=title, format=",d", **ticks))
        rules = alt.Chart(alt.Data(values=phase_starts)).mark_rule(color=charts.color("line")).encode(x=phase_x)
        labels = alt.Chart(alt.Data(values=phase_starts)).mark_text(align="left", dx=4, fontSize=11)
        lines = line_chart.encode(x=change_x, y=y, color=protocol, strokeDash=dashes)
        phase_names = labels.encode(
            x=alt.X("at:Q", scale=x_scale, axis=axis), y=alt.Y("below:Q", scale=None, axis=None), text="phase:N"
        )
        panels.append(
            alt.layer(rules, lines, phase_names).resolve_scale(y="independent").properties(width=860, height=260)
        )
    title = f"Connect, {scenario.name}: connectors and tasks started and stopped"
    charts.write_chart(alt.vconcat(*panels, spacing=14).properties(title=title), path)


def _cost_per_event(changes: Sequence[int], rebalances: Rows) -> Iterator[int]:
    """Yields the starts and stops in all rebalances that follow each event."""
    for index, start_ms in enumerate(changes):
        end_ms = changes[index + 1] if index + 1 < len(changes) else None
        following = (
            row for row in rebalances if row["at_ms"] >= start_ms and (end_ms is None or row["at_ms"] < end_ms)
        )
        yield sum(row["stopped"] + row["started"] for row in following)


def _phase_of(scenario: ConnectScenario, row: Mapping[str, Any]) -> str:
    """Returns the name of the phase in which a rebalance starts."""
    return [name for start, name in scenario.phases if start <= row["at_ms"]][-1]
