"""The charts of the report: groups by imbalance, partitions not consumed over time, and what adds up over time.

What is a problem is drawn solid, what is well is drawn pale with a thin edge. No colour stands alone: numbers and names
are written beside the marks, and each chart says in its description what it shows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from spark_assign.report import charts
from spark_assign.report.charts import colour
from spark_assign.report.formatting import number

WIDTH = 700


@dataclass(frozen=True)
class Bar:
    """A class of the histogram: groups that are as even as can be, and those that are not."""

    label: str
    even: int
    uneven: int

    @property
    def total(self) -> int:
        """Both together."""
        return self.even + self.uneven


def histogram(bars: Sequence[Bar], ident: str, title: str, unit: str) -> Markup:
    """A bar per class, in two parts; the number above it."""
    alt = charts.altair()
    parts = [
        {"label": bar.label, "from": low, "to": low + many, "kind": kind}
        for bar in bars
        for kind, low, many in (("uneven", 0, bar.uneven), ("even", bar.uneven, bar.even))
        if many
    ]
    totals = [{"label": bar.label, "to": bar.total, "words": number(bar.total)} for bar in bars]
    most = max((bar.total for bar in bars), default=0) or 1
    x = alt.X(
        "label:N",
        sort=[bar.label for bar in bars],
        scale=alt.Scale(paddingInner=0.25, paddingOuter=0.12),
        axis=alt.Axis(
            labelAngle=0, ticks=False, labelPadding=7, title="largest over mean number of partitions of a member"
        ),
    )
    y = alt.Y("from:Q", axis=None, scale=alt.Scale(domain=[0, most]))
    drawn = alt.Chart(alt.Data(values=parts)).mark_bar(strokeWidth=1)
    filled = {"domain": ["even", "uneven"], "range": [colour("calm"), colour("problem")]}
    edged = {"domain": ["even", "uneven"], "range": [colour("calm-edge"), colour("problem")]}
    chart = alt.layer(
        drawn.encode(
            x=x,
            y=y,
            y2="to:Q",
            fill=alt.Fill("kind:N", scale=alt.Scale(**filled), legend=None),
            stroke=alt.Stroke("kind:N", scale=alt.Scale(**edged), legend=None),
        ),
        alt.Chart(alt.Data(values=totals))
        .mark_text(dy=-8, fontWeight=600)
        .encode(x=x, y=alt.Y("to:Q", axis=None), text="words:N"),
    ).properties(width=WIDTH, height=180)
    told = "; ".join(
        f"{bar.label}: {number(bar.total)} {unit}, {number(bar.uneven)} of them could be more even"
        for bar in bars
        if bar.total
    )
    return charts.inline(chart, ident, title, told or "There is nothing to show.")


@dataclass(frozen=True)
class TimePanel:
    """One protocol's part of a drawing over time.

    Attributes:
        name: of the protocol.
        periods: from_ms, to_ms, partitions not consumed.
        rounds: begin_ms, end_ms of its rebalances.
        said: in words, beside the name.
    """

    name: str
    periods: Sequence[tuple[float, float, float]]
    rounds: Sequence[tuple[float, float]]
    said: str


_TALL = 76


def over_time(panels: Sequence[TimePanel], ident: str, title: str, partitions: int) -> Markup:
    """A panel per protocol, one below the other on the same scales: partitions not consumed, and rebalances below."""
    alt = charts.altair()
    begin, end = _window(panels)
    high = math.ceil(max((level for panel in panels for *_, level in panel.periods), default=0)) or max(partitions, 1)
    seconds = alt.Scale(domain=[begin / 1000, end / 1000], nice=False)
    rows = []
    for at, panel in enumerate(panels):
        last = at == len(panels) - 1
        x = alt.X(
            "from:Q",
            scale=seconds,
            axis=alt.Axis(
                title="time of the simulation",
                format=",~r",
                labelExpr="datum.label + ' s'",
                tickCount=6,
                labelPadding=12,
            )
            if last
            else alt.Axis(labels=False, ticks=False, title=None),
        )
        y = alt.Y("level:Q", scale=alt.Scale(domain=[0, high]), axis=alt.Axis(title=None, values=[0, high]))
        periods = [
            {"from": max(since, begin) / 1000, "to": min(until, end) / 1000, "level": level, "none": 0}
            for since, until, level in panel.periods
            if level > 0
        ]
        rounds = [{"from": max(since, begin) / 1000, "to": min(until, end) / 1000} for since, until in panel.rounds]
        paused = alt.Chart(alt.Data(values=periods)).mark_rect(fill=colour("problem"), stroke=colour("problem"))
        strip = alt.Chart(alt.Data(values=rounds)).mark_rect(fill=colour("round"), stroke=colour("round"))
        rows.append(
            alt.layer(
                paused.encode(x=x, x2="to:Q", y=y, y2="none:Q"),
                strip.encode(x=x, x2="to:Q", y=alt.value(_TALL + 4), y2=alt.value(_TALL + 10)),
            ).properties(width=WIDTH - 40, height=_TALL, title=f"{panel.name}: {panel.said}")
        )
    chart = alt.vconcat(*rows, spacing=22)
    told = "; ".join(f"{panel.name}: {panel.said}" for panel in panels)
    return charts.inline(chart, ident, title, told or "There is nothing to show.")


@dataclass(frozen=True)
class LineSeries:
    """A line of a drawing of several: its name, points (ms, value) in order, and what it is in words."""

    name: str
    points: Sequence[tuple[float, float]]
    said: str


_HOUR, _HIGH, _LINE = 3_600_000, 220, 17


def courses(lines: Sequence[LineSeries], ident: str, title: str, unit: str) -> Markup:
    """Values that grow in steps over time, a line each, all on one scale; each line's name stands at its end."""
    alt = charts.altair()
    end = max((ms for line in lines for ms, _ in line.points), default=0.0) or 1.0
    most = max((value for line in lines for _, value in line.points), default=0.0) or 1.0
    word, one = ("h", _HOUR) if end > 2 * _HOUR else ("s", 1000)
    x = alt.X(
        "at:Q",
        scale=alt.Scale(domain=[0, end / one], nice=False),
        axis=alt.Axis(title=unit, format=",~r", labelExpr=f"datum.label + ' {word}'", tickCount=6),
    )
    y = alt.Y(
        "value:Q",
        scale=alt.Scale(domain=[0, most], nice=False),
        axis=alt.Axis(title=None, values=[0, most / 2, most], format=",.0f"),
    )
    drawn, names, below = [], [], float("inf")
    for at, line in sorted(enumerate(lines), key=lambda each: each[1].points[-1][1] if each[1].points else 0):
        last = line.points[-1][1] if line.points else 0.0
        ink, dash = charts.STROKES[at % len(charts.STROKES)]
        values = [{"at": ms / one, "value": value} for ms, value in ((0, 0), *line.points, (end, last))]
        stroke = alt.Chart(alt.Data(values=values)).mark_line(
            interpolate="step-after", color=colour(ink), strokeDash=dash, strokeWidth=2.5
        )
        drawn.append(stroke.encode(x=x, y=y))
        below = min(_HIGH * (1 - last / most), below - _LINE)  # names do not cover each other
        name = alt.Chart(alt.Data(values=[{"words": f"{line.name} {last:,.0f}"}])).mark_text(
            align="left", baseline="middle", fontWeight=600, color=colour(ink)
        )
        names.append(name.encode(x=alt.value(WIDTH - 220 + 8), y=alt.value(below), text="words:N"))
    chart = alt.layer(*drawn, *names).properties(width=WIDTH - 220, height=_HIGH)
    told = "; ".join(f"{line.name}: {line.said}" for line in lines)
    return charts.inline(chart, ident, title, told or "There is nothing to show.")


def _window(panels: Sequence[TimePanel]) -> tuple[float, float]:
    """From when to when there is something to see, in ms, and a little more."""
    busy = [(since, until) for panel in panels for since, until, level in panel.periods if level > 0]
    busy += [each for panel in panels for each in panel.rounds]
    begin, end = min((since for since, _ in busy), default=0.0), max((until for _, until in busy), default=1000.0)
    edge = 0.04 * (end - begin) + 1
    return max(0.0, begin - edge), end + edge


def legend(parts: Mapping[str, str]) -> Markup:
    """What the parts of a chart mean: a small sample of each kind (`even`, `uneven`, `paused`, `round`), and words."""
    items = "".join(
        f'<li><span class="swatch {escape(kind)}" aria-hidden="true"></span> {escape(words)}</li>'
        for kind, words in parts.items()
    )
    return Markup(f'<ul class="legend">{items}</ul>')
