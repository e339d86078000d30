"""The charts of the report: groups by imbalance, partitions not consumed over time, and what adds up over time.

What is a problem is drawn solid, what is well is drawn pale with a thin edge. No colour stands alone: numbers and names
are written beside the marks, and each chart says in its description what it shows.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_assign.report import charts
from spark_assign.report.charts import color
from spark_assign.report.formatting import Rows, number, visible

if TYPE_CHECKING:
    from markupsafe import Markup


@dataclass(frozen=True)
class Bar:
    """A class of the histogram: the numbers of groups that are as even as possible, and of all others."""

    label: str
    even: int
    uneven: int

    @property
    def total(self) -> int:
        """Returns the number of all groups of the class."""
        return self.even + self.uneven


@charts.at_both_widths
def draw_histogram(bars: Sequence[Bar], ident: str, title: str, unit: str) -> Markup:
    """Draws a bar per class, in two parts, with the number above it."""
    parts = [
        {"label": bar.label, "from": low, "to": low + many, "kind": kind}
        for bar in bars
        for kind, low, many in (("uneven", 0, bar.uneven), ("even", bar.uneven, bar.even))
        if many
    ]
    totals = [{"label": bar.label, "to": bar.total, "words": number(bar.total)} for bar in bars]
    most = max((bar.total for bar in bars), default=0) or 1
    x = charts.channel(
        "label:N",
        sort=[bar.label for bar in bars],
        scale={"paddingInner": 0.25, "paddingOuter": 0.12},
        axis={
            "labelAngle": 0,
            "labelExpr": "split(datum.label, ' ')" if charts.width() == charts.NARROW else "datum.label",
            "ticks": False,
            "labelPadding": 7,
            "title": "largest over mean number of partitions of a member",
        },
    )
    y = charts.channel("from:Q", axis=None, scale={"domain": [0, most]})
    filled, edged = (
        {"domain": ["even", "uneven"], "range": [color(calm), color("problem")]} for calm in ("calm", "calm-edge")
    )
    drawn = charts.chart_of(parts).mark("bar", strokeWidth=1)
    words = charts.chart_of(totals).mark("text", dy=-8, fontWeight=600)
    chart = charts.layer(
        drawn.encode(
            x=x,
            y=y,
            y2="to",
            fill=charts.channel("kind:N", scale=filled, legend=None),
            stroke=charts.channel("kind:N", scale=edged, legend=None),
        ),
        words.encode(x=x, y=charts.channel("to:Q", axis=None), text="words:N"),
    ).properties(width=charts.width(), height=180)
    text = "; ".join(
        f"{bar.label}: {number(bar.total)} {unit}, {number(bar.uneven)} of them could be more even"
        for bar in bars
        if bar.total
    )
    return charts.inline_svg(chart, ident, title, text)


@dataclass(frozen=True)
class TimePanel:
    """The panel of one variant in a chart over time.

    Attributes:
        name: the variant.
        periods: start_ms, end_ms, number of paused partitions.
        rebalances: start_ms, end_ms.
        text: text beside the name.
    """

    name: str
    periods: Sequence[tuple[float, float, float]]
    rebalances: Sequence[tuple[float, float]]
    text: str


_PAUSE_HEIGHT = 76


@charts.at_both_widths
def draw_pauses(panels: Sequence[TimePanel], ident: str, title: str, partitions: int) -> Markup:
    """Draws one panel per variant, with the same scales: the number of paused partitions, and rebalances below."""
    begin, end = _pause_window(panels)
    high = math.ceil(max((level for panel in panels for *_, level in panel.periods), default=0)) or max(partitions, 1)
    seconds = {"domain": [begin / 1000, end / 1000], "nice": False}
    hidden = {"labels": False, "ticks": False, "title": None}
    label = {"format": ",~r", "labelExpr": "datum.label + ' s'", "labelPadding": 12}
    shown = dict(title="simulated time", tickCount=6, **label)
    rows = []
    for at, panel in enumerate(panels):
        x = charts.channel("from:Q", scale=seconds, axis=shown if at == len(panels) - 1 else hidden)
        periods = [
            {"from": max(since, begin) / 1000, "to": min(until, end) / 1000, "level": level, "none": 0}
            for since, until, level in panel.periods
            if level > 0
        ]
        rebalances = [
            {"from": max(start_ms, begin) / 1000, "to": min(end_ms, end) / 1000}
            for start_ms, end_ms in panel.rebalances
        ]
        paused, strip = _rectangles(periods, "problem"), _rectangles(rebalances, "round")
        rows.append(
            charts.layer(
                paused.encode(x=x, x2="to", y=_level_axis(high), y2="none"),
                strip.encode(
                    x=x, x2="to", y=charts.constant(_PAUSE_HEIGHT + 4), y2=charts.constant(_PAUSE_HEIGHT + 10)
                ),
            ).properties(
                width=charts.width() - 40,
                height=_PAUSE_HEIGHT,
                title=textwrap.wrap(f"{panel.name}: {panel.text}", charts.width() // 7),
            )
        )
    chart = charts.vconcat(*rows, spacing=22)
    text = "; ".join(f"{panel.name}: {panel.text}" for panel in panels)
    return charts.inline_svg(chart, ident, title, text)


def _rectangles(values: Rows, ink: str, **looks: Any) -> Any:
    """Returns rectangles without positions, in one color."""
    return charts.chart_of(values).mark("rect", fill=color(ink), stroke=color(ink), **looks)


def _level_axis(most: float, **looks: Any) -> Any:
    """Returns the vertical axis of the field `level`, which has two labels: 0 and the maximum."""
    axis = dict(title=None, values=[0, most], **looks)
    return charts.channel("level:Q", scale={"domain": [0, most]}, axis=axis)


@dataclass(frozen=True)
class LineSeries:
    """A line of a chart: its name, points (ms, value) in order, and its description."""

    name: str
    points: Sequence[tuple[float, float]]
    text: str


_HOUR, _LINES_HEIGHT, _LABEL_HEIGHT = 3_600_000, 220, 17


@charts.at_both_widths
def draw_line_series(lines: Sequence[LineSeries], ident: str, title: str, unit: str) -> Markup:
    """Draws values that grow in steps over time: one line each, all on one scale, with the name at the end."""
    end = max((ms for line in lines for ms, _ in line.points), default=0.0) or 1.0
    most = max((value for line in lines for _, value in line.points), default=0.0) or 1.0
    word, one = ("h", _HOUR) if end > 2 * _HOUR else ("s", 1000)
    x = charts.channel(
        "at:Q",
        scale={"domain": [0, end / one], "nice": False},
        axis={"title": unit, "format": ",~r", "labelExpr": f"datum.label + ' {word}'", "tickCount": 6},
    )
    y = charts.channel(
        "value:Q",
        scale={"domain": [0, most], "nice": False},
        axis={"title": None, "values": [0, most / 2, most], "format": ",.0f"},
    )
    drawn, names, below = [], [], float("inf")
    beside = charts.width() != charts.NARROW
    wide = charts.width() - (220 if beside else 40)
    for at, line in sorted(enumerate(lines), key=lambda each: each[1].points[-1][1] if each[1].points else 0):
        last = line.points[-1][1] if line.points else 0.0
        ink, dash = charts.STROKES[at % len(charts.STROKES)]
        values = [{"at": ms / one, "value": value} for ms, value in ((0, 0), *line.points, (end, last))]
        stroke = {"color": color(ink), "strokeDash": dash, "strokeWidth": 2.5}
        drawn.append(charts.chart_of(values).mark("line", interpolate="step-after", **stroke).encode(x=x, y=y))
        below = min(_LINES_HEIGHT * (1 - last / most), below - _LABEL_HEIGHT)  # names do not cover each other
        place = (wide + 8, below) if beside else (0, _LINES_HEIGHT + 60 + _LABEL_HEIGHT * at)
        name = charts.chart_of([{"words": f"{line.name} {last:,.0f}"}]).mark(
            "text", align="left", baseline="middle", fontWeight=600, color=color(ink)
        )
        names.append(name.encode(x=charts.constant(place[0]), y=charts.constant(place[1]), text="words:N"))
    chart = charts.layer(*drawn, *names).properties(width=wide, height=_LINES_HEIGHT)
    text = "; ".join(f"{line.name}: {line.text}" for line in lines)
    return charts.inline_svg(chart, ident, title, text)


def _pause_window(panels: Sequence[TimePanel]) -> tuple[float, float]:
    """Returns the start and end of the displayed time in ms: from the first to the last mark, with a margin."""
    busy = [(since, until) for panel in panels for since, until, level in panel.periods if level > 0]
    busy += [each for panel in panels for each in panel.rebalances]
    begin, end = min((since for since, _ in busy), default=0.0), max((until for _, until in busy), default=1000.0)
    edge = 0.04 * (end - begin) + 1
    return max(0.0, begin - edge), end + edge


def legend_html(parts: Mapping[str, str]) -> Markup:
    """Returns the legend of a chart: a sample and a text for each kind (`even`, `uneven`, `paused`, `round`)."""
    from markupsafe import Markup, escape

    items = "".join(
        f'<li><span class="swatch {escape(kind)}" aria-hidden="true"></span> {escape(words)}</li>'
        for kind, words in parts.items()
    )
    return Markup(f'<ul class="legend">{items}</ul>')


_LABEL_WIDTH, _ROW_HEIGHT, _MIN_STEP = 190, 20, 12  # columns of less than this have no numbers
_LINE_HEIGHT, _MAX_NAME_LINES = 13, 5
_MIN_OPACITY, _MAX_OPACITY = 0.1, 0.55  # text on it can still be read
_MAX_LABELS = 12
"""Maximum number of generations that are labeled."""


@dataclass(frozen=True)
class Cell:
    """A cell of a heat map: indexes of the group and of the time bucket, the value, and the value as text."""

    row: int
    column: int
    value: float
    words: str


@charts.at_both_widths
def draw_heat_map(
    rows: Sequence[str], columns: Sequence[str], cells: Sequence[Cell], ident: str, title: str, unit: str
) -> Markup:
    """Draws a row per group and a column per time bucket. Larger values are darker. Long names have several lines."""
    most = max((cell.value for cell in cells), default=0) or 1
    label_width = min(_LABEL_WIDTH, charts.width() // 3)
    rows = [visible(row, escaped="\n") for row in rows]
    names = [textwrap.wrap(name, label_width // 7, max_lines=_MAX_NAME_LINES, placeholder="…") for name in rows]
    more = _LINE_HEIGHT * (max(map(len, names), default=1) - 1)  # room below the first line of each name
    step = (charts.width() - label_width) / max(len(columns), 1)
    pale, dark = _MIN_OPACITY, _MAX_OPACITY
    values = [{**vars(cell), "pale": pale + (dark - pale) * math.sqrt(cell.value / most)} for cell in cells]
    every = max(1, math.ceil(90 / step))

    def named(field: str, names: Sequence[str | list[str]], **looks: Any) -> Any:
        """Returns an axis of numbers from 0, labeled with names, or with the lines of names."""
        axis = {"title": None, "ticks": False, "domain": False, "labelExpr": charts.labels(names), **looks}
        return charts.channel(field, scale={"domain": list(range(len(names))), "paddingInner": 0.06}, axis=axis)

    shown = list(range(0, len(columns), every))
    x = named("column:O", columns, labelAngle=0, labelAlign="left", labelLimit=200, values=shown)
    y = named("row:O", names, labelLimit=0, labelLineHeight=_LINE_HEIGHT, labelOffset=-more / 2, minExtent=label_width)
    base = charts.chart_of(values).encode(x=x, y=y)
    drawn = base.mark("rect", fill=color("problem")).encode(opacity=charts.channel("pale:Q", scale=None))
    figures = base.mark("text", fontSize=9, color=color("text")).encode(text="words:N")
    chart = charts.layer(*([drawn, figures] if step >= _MIN_STEP else [drawn])).properties(
        width=step * len(columns), height=(_ROW_HEIGHT + more) * len(rows)
    )
    highest = sorted(cells, key=lambda cell: (-cell.value, cell.row, cell.column))[:5]
    text = "; ".join(f"{rows[cell.row]}, {columns[cell.column]}: {cell.words} {unit}" for cell in highest)
    return charts.inline_svg(chart, ident, title, text and f"Most: {text}")


@dataclass(frozen=True)
class MemberTimeline:
    """A group over time.

    Attributes:
        members: time (ms since 1970), generation, number of members from then on.
        pauses: start, end (ms since 1970), number of paused partitions.
        text: description.
    """

    members: Sequence[tuple[int, int, int]]
    pauses: Sequence[tuple[int, int, int]]
    text: str


_PANEL_HEIGHT = 60


@charts.at_both_widths
def draw_member_timeline(past: MemberTimeline, ident: str, title: str) -> Markup:
    """Draws the members of a group over time, with a mark per generation above, and paused partitions below."""
    begin, end = _timeline_window(past)
    most = max((many for *_, many in past.members), default=0) or 1
    still = max((many for *_, many in past.pauses), default=0) or 1
    scale = {"type": "utc", "domain": [begin, end], "nice": False}
    hidden = {"labels": False, "ticks": False, "title": None}
    shown = {
        "title": "UTC",
        "tickCount": 6,
        "labelOverlap": True,
        "format": _time_format(end - begin),
        "labelPadding": 4,
    }
    x = charts.channel("from:T", scale=scale, axis=hidden if past.pauses else shown)
    steps = [{"from": at, "level": many} for at, _, many in past.members]
    if steps:
        steps.append({"from": end, "level": steps[-1]["level"]})
    marks = [{"from": at} for at, *_ in past.members]
    every = max(1, math.ceil(len(past.members) / _MAX_LABELS))
    labels = [{"from": at, "words": str(generation)} for at, generation, _ in past.members[::every]]
    line = charts.chart_of(steps).mark("line", interpolate="step-after", color=color("is"), strokeWidth=2)
    words = charts.chart_of(labels).mark("text", fontSize=9, color=color("quiet"))
    above = charts.layer(
        line.encode(x=x, y=_level_axis(most, format="d")),
        _rectangles(marks, "round").encode(x=x, x2="from", y=charts.constant(-4), y2=charts.constant(-10)),
        words.encode(x=x, y=charts.constant(-18), text="words:N"),
    ).properties(
        width=charts.width() - 40, height=_PANEL_HEIGHT, title={"text": "members, and each generation", "offset": 26}
    )
    if not past.pauses:
        return charts.inline_svg(above, ident, title, past.text)
    spans = [{"from": since, "to": until, "level": many, "none": 0} for since, until, many in past.pauses]
    paused = _rectangles(spans, "problem", opacity=0.7).encode(
        x=charts.channel("from:T", scale=scale, axis=shown),
        x2="to",
        y=_level_axis(still, format="d"),
        y2="none",
    )
    below = paused.properties(
        width=charts.width() - 40, height=_PANEL_HEIGHT, title="partitions for which nothing was committed"
    )
    chart = charts.vconcat(above, below, spacing=14)
    return charts.inline_svg(chart, ident, title, past.text)


def _time_format(ms: int) -> str:
    """Returns the format of times on an axis, by the length of the displayed time."""
    return (
        "%H:%M:%S" if ms < 600_000 else "%H:%M" if ms < 86_400_000 else "%d %b %H:%M" if ms < 604_800_000 else "%d %b"
    )


def _timeline_window(past: MemberTimeline) -> tuple[int, int]:
    """Returns the start and end of the displayed time: from the first to the last mark, with a margin."""
    seen = [at for at, *_ in past.members] + [at for since, until, _ in past.pauses for at in (since, until)]
    begin, end = min(seen, default=0), max(seen, default=1000)
    edge = math.ceil(0.03 * (end - begin)) + 1000
    return begin - edge, end + edge
