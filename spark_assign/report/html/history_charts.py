"""The charts of the history: groups against days, and one group over time.

No colour stands alone: each cell has its figure, and each chart says in its description what it shows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from spark_assign.report import charts
from spark_assign.report.charts import colour
from spark_assign.report.html.drawings import WIDTH

_NAMES, _HIGH = 190, 20
_PALEST, _DARKEST = 0.1, 0.55  # text on it can still be read
_LABELS = 12
"""So many generations have their number beside their mark."""


@dataclass(frozen=True)
class Cell:
    """One figure of one group: which group and which time bucket (numbers from 0), its value and how it is said."""

    row: int
    column: int
    value: float
    words: str


def heat_map(
    rows: Sequence[str], columns: Sequence[str], cells: Sequence[Cell], ident: str, title: str, unit: str
) -> Markup:
    """A row per group, a column per time bucket; the more, the darker, and the figure in each cell."""
    alt = charts.altair()
    most = max((cell.value for cell in cells), default=0) or 1
    step = (WIDTH - _NAMES) / max(len(columns), 1)
    values = []
    for cell in cells:
        pale = _PALEST + (_DARKEST - _PALEST) * math.sqrt(cell.value / most)
        values.append({"row": cell.row, "column": cell.column, "pale": pale, "words": cell.words})
    every = max(1, math.ceil(90 / step))
    x = alt.X(
        "column:O",
        scale=alt.Scale(domain=list(range(len(columns))), paddingInner=0.06),
        axis=alt.Axis(
            title=None,
            labelAngle=0,
            labelAlign="left",
            labelLimit=200,
            ticks=False,
            domain=False,
            values=list(range(0, len(columns), every)),
            labelExpr=f"{json.dumps(list(columns))}[datum.value]",
        ),
    )
    y = alt.Y(
        "row:O",
        scale=alt.Scale(domain=list(range(len(rows))), paddingInner=0.06),
        axis=alt.Axis(
            title=None,
            labelLimit=_NAMES,
            minExtent=_NAMES,
            ticks=False,
            domain=False,
            labelExpr=f"{json.dumps(list(rows))}[datum.value]",
        ),
    )
    base = alt.Chart(alt.Data(values=values)).encode(x=x, y=y)
    drawn = base.mark_rect(fill=colour("problem")).encode(opacity=alt.Opacity("pale:Q", scale=None))
    said = base.mark_text(fontSize=9, color=colour("text")).encode(text="words:N")
    chart = alt.layer(drawn, said).properties(width=step * len(columns), height=_HIGH * len(rows))
    highest = sorted(cells, key=lambda cell: (-cell.value, cell.row, cell.column))[:5]
    told = "; ".join(f"{rows[cell.row]}, {columns[cell.column]}: {cell.words} {unit}" for cell in highest)
    return charts.inline(chart, ident, title, f"Most: {told}" if told else "There is nothing to show.")


@dataclass(frozen=True)
class MemberTimeline:
    """One group over time.

    Attributes:
        members: when (ms since 1970), generation, how many members there are from then on.
        pauses: from, until (ms since 1970), partitions that stand still.
        said: in words.
    """

    members: Sequence[tuple[int, int, int]]
    pauses: Sequence[tuple[int, int, int]]
    said: str


_TALL = 60


def over_time(past: MemberTimeline, ident: str, title: str) -> Markup:
    """The members of a group over time, a mark for every generation above it, below the partitions that stood still."""
    alt = charts.altair()
    begin, end = _window(past)
    most = max((many for *_, many in past.members), default=0) or 1
    still = max((many for *_, many in past.pauses), default=0) or 1
    scale = alt.Scale(type="utc", domain=[begin, end], nice=False)
    hidden = alt.Axis(labels=False, ticks=False, title=None)
    shown = alt.Axis(title="UTC", tickCount=6, labelOverlap=True, format=_format(end - begin), labelPadding=4)
    x = alt.X("from:T", scale=scale, axis=hidden if past.pauses else shown)
    steps = [{"from": at, "level": many} for at, _, many in past.members]
    if steps:
        steps.append({"from": end, "level": steps[-1]["level"]})
    marks = [{"from": at} for at, *_ in past.members]
    every = max(1, math.ceil(len(past.members) / _LABELS))
    labels = [{"from": at, "words": str(generation)} for at, generation, _ in past.members[::every]]
    line = alt.Chart(alt.Data(values=steps)).mark_line(interpolate="step-after", color=colour("is"), strokeWidth=2)
    strip = alt.Chart(alt.Data(values=marks)).mark_rect(fill=colour("round"), stroke=colour("round"))
    words = alt.Chart(alt.Data(values=labels)).mark_text(fontSize=9, color=colour("quiet"))
    up = alt.Y("level:Q", scale=alt.Scale(domain=[0, most]), axis=alt.Axis(title=None, values=[0, most], format="d"))
    above = alt.layer(
        line.encode(x=x, y=up),
        strip.encode(x=x, x2="from:T", y=alt.value(-4), y2=alt.value(-10)),
        words.encode(x=x, y=alt.value(-18), text="words:N"),
    ).properties(width=WIDTH - 40, height=_TALL, title=alt.Title("members, and each generation", offset=26))
    if not past.pauses:
        return charts.inline(above, ident, title, past.said)
    spans = [{"from": since, "to": until, "level": many, "none": 0} for since, until, many in past.pauses]
    paused = alt.Chart(alt.Data(values=spans)).mark_rect(fill=colour("problem"), stroke=colour("problem"), opacity=0.7)
    down = alt.Y(
        "level:Q", scale=alt.Scale(domain=[0, still]), axis=alt.Axis(title=None, values=[0, still], format="d")
    )
    below = paused.encode(x=alt.X("from:T", scale=scale, axis=shown), x2="to:T", y=down, y2="none:Q").properties(
        width=WIDTH - 40, height=_TALL, title="partitions for which nothing was committed"
    )
    chart = alt.vconcat(above, below, spacing=14)
    return charts.inline(chart, ident, title, past.said)


def _format(ms: int) -> str:
    """Of times on an axis: how exact they have to be."""
    return (
        "%H:%M:%S" if ms < 600_000 else "%H:%M" if ms < 86_400_000 else "%d %b %H:%M" if ms < 604_800_000 else "%d %b"
    )


def _window(past: MemberTimeline) -> tuple[int, int]:
    """From when to when there is something to see, and a little more."""
    seen = [at for at, *_ in past.members] + [at for since, until, _ in past.pauses for at in (since, until)]
    begin, end = min(seen, default=0), max(seen, default=1000)
    edge = math.ceil(0.03 * (end - begin)) + 1000
    return begin - edge, end + edge
