"""Connect on one screen: what a plan does, and how protocols compare over a scenario, as a table and as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import functions as F

from spark_assign.connect.plan import ConnectPlan
from spark_assign.connect.scenarios import Scenario
from spark_assign.report import charts
from spark_assign.spark.progress import progress

_SHOWN = 10
Rows = Sequence[Mapping[str, Any]]


@progress("planning Connect clusters", 1)
def summarize_plan(plan: ConnectPlan, top: int = _SHOWN) -> tuple[str, int]:
    """The text, and how many Connect clusters were rejected. Reads at most a screenful of rows.

    Args:
        plan: what was planned.
        top: how many Connect clusters to list, those that give up most first.
    """
    names = ("workers", "connectors", "tasks", "assigned", "revoked", "waiting")
    sums = (F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in names)
    totals = plan.metrics.agg(F.count(F.lit(1)).alias("clusters"), *sums).collect()[0]  # one row of sums
    refused = plan.rejected.count()
    lines = [
        f"{totals['clusters']:,} Connect clusters planned, {refused:,} rejected: {totals['workers']:,} workers, "
        f"{totals['connectors']:,} connectors, {totals['tasks']:,} tasks; {totals['assigned']:,} assigned, "
        f"{totals['revoked']:,} revoked, {totals['waiting']:,} waiting for their worker"
    ]
    if top and totals["clusters"]:
        order = [F.desc("revoked"), F.desc("assigned"), F.asc("connect_cluster")]
        shown = plan.metrics.join(plan.delays, "connect_cluster").orderBy(*order).limit(top).collect()
        rows = [
            [
                row["connect_cluster"],
                row["protocol"],
                f"{row['workers']:,}",
                f"{row['tasks']:,}",
                f"{row['assigned']:,}",
                f"{row['revoked']:,}",
                f"{row['waiting']:,}",
                f"{row['min_tasks_before']}–{row['max_tasks_before']}",
                f"{row['min_tasks_after']}–{row['max_tasks_after']}",
                f"{row['delay_ms'] / 1000:,.0f} s",
            ]
            for row in shown
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
        lines += ["", "Those that give up most (tasks per worker before and after):", *aligned([header, *rows])]
    if refused:
        lines += ["", "Rejected:"]
        for row in plan.rejected.orderBy("connect_cluster").limit(_SHOWN).collect():
            lines.append(f"  {row['connect_cluster']}: {row['code']}: {' '.join(row['detail'].split())[:300]}")
        if refused > _SHOWN:
            lines.append(f"  … and {refused - _SHOWN:,} more, in the table rejected")
    return "\n".join(lines), refused


def compare_protocols(scenario: Scenario, rounds: Rows, costs: Rows) -> str:
    """A line per phase of the story, and the bill: rebalances, stops and starts of connectors and tasks.

    Args:
        scenario: what was played.
        rounds: rows of `tables.connect.ROUNDS`.
        costs: rows of `tables.connect.COSTS`.
    """
    lines = [["phase", *(f"{name}: rounds / stopped / started" for name in scenario.protocols)]]
    for phase in [name for _, name in scenario.phases] + ["all"]:
        cells = [phase]
        for protocol in scenario.protocols:
            mine = [row for row in rounds if row["protocol"] == protocol and phase in ("all", _phase(scenario, row))]
            stopped, started = (sum(row[name] for row in mine) for name in ("stopped", "started"))
            cells.append(f"{len(mine):,} / {stopped:,} / {started:,}")
        lines.append(cells)
    bill = {row["protocol"]: row["task_ms_not_running"] for row in costs}
    lines.append(["task-hours not running", *(f"{bill[name] / 3_600_000:,.1f}" for name in scenario.protocols)])
    return "\n".join(aligned(lines))


def draw_comparison(scenario: Scenario, rounds: Rows, path: str) -> None:
    """What each change of the story costs with each protocol, as a picture (the format by the name: .svg, .png, .pdf).

    Raises:
        ConfigError: what draws is not installed, or the format is another one.
    """
    alt = charts.altair()
    changes = sorted({each["at_ms"] for each in scenario.events})
    rows = []
    for protocol in scenario.protocols:
        cost = list(_per_change(changes, [row for row in rounds if row["protocol"] == protocol]))
        total = 0
        for number, each in enumerate(cost, start=1):
            total += each
            rows.append({"change": number, "protocol": protocol, "cost": each, "total": total})
    begins = [
        # Some phases are one change long: their names stand below each other.
        {"at": changes.index(begin) + 0.5, "phase": phase, "below": 8 + 15 * at}
        for at, (begin, phase) in enumerate(scenario.phases)
    ]
    strokes = [(charts.colour(ink), dash) for ink, dash in charts.STROKES[: len(scenario.protocols)]]
    of_all = alt.Scale(domain=[0.5, len(changes) + 0.5], nice=False)
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
    powers = [0, *(10**power for power in range(2, 10))]
    for name, title, scale, ticks in (
        ("cost", "starts and stops of one change", alt.Scale(), {"tickCount": 6}),
        ("total", "added up", alt.Scale(type="symlog", constant=100), {"values": powers}),
    ):
        last = name == "total"
        axis = alt.Axis(title="changes, one after the other", tickMinStep=1) if last else None
        line = alt.Chart(alt.Data(values=rows)).mark_line(interpolate="step", strokeWidth=2)
        here, there = (alt.X(f"{field}:Q", scale=of_all, axis=axis) for field in ("change", "at"))
        y = alt.Y(f"{name}:Q", scale=scale, axis=alt.Axis(title=title, format=",d", **ticks))
        rules = alt.Chart(alt.Data(values=begins)).mark_rule(color=charts.colour("line")).encode(x=there)
        names = alt.Chart(alt.Data(values=begins)).mark_text(align="left", dx=4, fontSize=11)
        lines = line.encode(x=here, y=y, color=protocol, strokeDash=dashes)
        words = names.encode(
            x=alt.X("at:Q", scale=of_all, axis=axis), y=alt.Y("below:Q", scale=None, axis=None), text="phase:N"
        )
        panels.append(alt.layer(rules, lines, words).resolve_scale(y="independent").properties(width=860, height=260))
    title = f"Connect, {scenario.name}: connectors and tasks started and stopped"
    charts.write(alt.vconcat(*panels, spacing=14).properties(title=title), path)


def _per_change(changes: Sequence[int], rounds: Rows) -> Iterator[int]:
    """Starts and stops in all rounds that follow from each change."""
    for number, at in enumerate(changes):
        end = changes[number + 1] if number + 1 < len(changes) else None
        mine = (row for row in rounds if row["at_ms"] >= at and (end is None or row["at_ms"] < end))
        yield sum(row["stopped"] + row["started"] for row in mine)


def _phase(scenario: Scenario, row: Mapping[str, Any]) -> str:
    return [name for begin, name in scenario.phases if begin <= row["at_ms"]][-1]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligned columns; the first is words, the rest numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  "
        + "  ".join(
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
