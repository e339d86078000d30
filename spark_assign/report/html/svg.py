"""The drawings of the report as inline SVG: a histogram, and partitions not consumed over time.

Colours come from the page's style sheet (classes), so that they fit light and dark; every drawing has a title and says
in its description what it shows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from spark_assign.report.words import number, seconds

WIDTH = 760


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
    top, bottom, height = 26, 44, 240
    base = height - bottom
    high = max((bar.total for bar in bars), default=0) or 1
    slot = WIDTH / max(len(bars), 1)
    wide = slot * 0.72
    shapes: list[str] = [_line("axis", 0, base, WIDTH, base)]
    for at, bar in enumerate(bars):
        left, middle = at * slot + (slot - wide) / 2, at * slot + slot / 2
        even, uneven = (_high(part, high, base - top) for part in (bar.even, bar.uneven))
        if bar.even:
            shapes.append(_rectangle("even", left, base - even, wide, even))
        if bar.uneven:
            shapes.append(_rectangle("uneven", left, base - even - uneven, wide, uneven))
        shapes.append(_text("value", middle, base - even - uneven - 7, number(bar.total)))
        shapes.append(_text("tick", middle, base + 18, bar.label))
    shapes.append(_text("label", WIDTH / 2, height - 4, "largest over mean number of partitions of a member"))
    told = "; ".join(
        f"{bar.label}: {number(bar.total)} {unit}, {number(bar.uneven)} of them could be more even"
        for bar in bars
        if bar.total
    )
    return _svg(ident, title, told or "There is nothing to show.", height, shapes)


@dataclass(frozen=True)
class Panel:
    """One protocol's part of a drawing over time.

    Attributes:
        name: of the protocol.
        stretches: from_ms, to_ms, partitions not consumed.
        rounds: begin_ms, end_ms of its rebalances.
        said: in words, beside the name.
    """

    name: str
    stretches: Sequence[tuple[float, float, float]]
    rounds: Sequence[tuple[float, float]]
    said: str


def over_time(panels: Sequence[Panel], ident: str, title: str, partitions: int) -> Markup:
    """A panel per protocol, one below the other on the same scales: partitions not consumed, and rebalances below."""
    left, gap, tall, foot = 56, 44, 84, 36
    begin, end = _window(panels)
    high = math.ceil(max((level for panel in panels for *_, level in panel.stretches), default=0)) or max(partitions, 1)

    def x(ms: float) -> float:
        return left + (min(max(ms, begin), end) - begin) / (end - begin) * (WIDTH - left - 8)

    shapes: list[str] = []
    for at, panel in enumerate(panels):
        above = at * (tall + gap) + 24
        base = above + tall
        shapes.append(_text("name", left, above - 8, f"{panel.name}: {panel.said}", "start"))
        shapes.append(_text("tick", left - 6, above + 9, number(high), "end"))
        shapes.append(_text("tick", left - 6, base + 3, "0", "end"))
        steps = " ".join(
            f"M{x(since):.1f} {base}V{base - level / high * tall:.1f}H{x(until):.1f}V{base}Z"
            for since, until, level in panel.stretches
            if level > 0
        )
        if steps:
            shapes.append(f'<path class="paused" d="{steps}"/>')
        shapes.append(_line("axis", left, base, WIDTH - 8, base))
        for since, until in panel.rounds:
            shapes.append(_rectangle("round", x(since), base + 3, max(x(until) - x(since), 1.5), 6))
    bottom = len(panels) * (tall + gap) + foot - 16
    ticks = list(_ticks(begin, end))
    for ms in ticks:
        shapes.append(_text("tick", x(ms), bottom - 18, seconds(ms)))
    shapes.append(_text("label", left + (WIDTH - left) / 2, bottom - 3, "time of the simulation"))
    told = "; ".join(f"{panel.name}: {panel.said}" for panel in panels)
    return _svg(ident, title, told or "There is nothing to show.", bottom, shapes)


@dataclass(frozen=True)
class Course:
    """A line of a drawing of several: its name, points (ms, value) in order, and what it is in words."""

    name: str
    points: Sequence[tuple[float, float]]
    said: str


STROKES = 4
"""So many lines look different; their classes are line0, line1, …"""


def courses(lines: Sequence[Course], ident: str, title: str, unit: str) -> Markup:
    """Values that grow in steps over time, a line each, all on one scale; each line's name stands at its end."""
    left, right, top, tall, foot = 72, 190, 14, 220, 40
    end = max((ms for line in lines for ms, _ in line.points), default=0.0) or 1.0
    high = max((value for line in lines for _, value in line.points), default=0.0) or 1.0
    base = top + tall

    def x(ms: float) -> float:
        return left + ms / end * (WIDTH - left - right)

    def y(value: float) -> float:
        return base - value / high * tall

    shapes = [_line("axis", left, base, WIDTH - right, base), _line("axis", left, top, left, base)]
    for value in (0, high / 2, high):
        shapes.append(_text("tick", left - 6, y(value) + 4, number(round(value)), "end"))
    hours = end > 2 * _HOUR
    for ms in _ticks(0.0, end / (_HOUR if hours else 1)):
        words = f"{ms:,.0f} h" if hours else seconds(ms)
        shapes.append(_text("tick", x(ms * (_HOUR if hours else 1)), base + 18, words))
    shapes.append(_text("label", left + (WIDTH - left - right) / 2, base + 34, unit))
    below = float("inf")
    for at, line in sorted(enumerate(lines), key=lambda each: each[1].points[-1][1] if each[1].points else 0):
        steps = "".join(f"H{x(ms):.1f}V{y(value):.1f}" for ms, value in line.points)
        shapes.append(f'<path class="line line{at % STROKES}" d="M{x(0):.1f} {base}{steps}H{x(end):.1f}"/>')
        last = line.points[-1][1] if line.points else 0.0
        below = min(y(last) + 4, below - 16)  # names do not cover each other
        shapes.append(_text(f"name name{at % STROKES}", WIDTH - right + 8, below, f"{line.name} {last:,.0f}", "start"))
    told = "; ".join(f"{line.name}: {line.said}" for line in lines)
    return _svg(ident, title, told or "There is nothing to show.", base + foot, shapes)


_HOUR = 3_600_000


def _window(panels: Sequence[Panel]) -> tuple[float, float]:
    """From when to when there is something to see, in ms, and a little more."""
    busy = [(since, until) for panel in panels for since, until, level in panel.stretches if level > 0]
    busy += [each for panel in panels for each in panel.rounds]
    begin, end = min((since for since, _ in busy), default=0.0), max((until for _, until in busy), default=1000.0)
    edge = 0.04 * (end - begin) + 1
    return max(0.0, begin - edge), end + edge


def _ticks(begin: float, end: float) -> Iterable[float]:
    """Round times, some six of them."""
    rough = (end - begin) / 6
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    ms = math.ceil(begin / step) * step
    while ms <= end:
        yield ms
        ms += step


def _high(part: int, most: int, room: float) -> float:
    """Its height; what there is is always seen."""
    return max(part / most * room, 2.0) if part else 0.0


def _svg(ident: str, title: str, told: str, height: float, shapes: Iterable[str]) -> Markup:
    return Markup(
        f'<svg role="img" aria-labelledby="{ident}-t" aria-describedby="{ident}-d" viewBox="0 0 {WIDTH} {height:.0f}">'
        f'<title id="{ident}-t">{escape(title)}</title><desc id="{ident}-d">{escape(told)}</desc>'
        + "".join(shapes)
        + "</svg>"
    )


def _rectangle(kind: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(kind: str, x: float, y: float, words: Any, anchor: str = "middle") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def legend(parts: Mapping[str, str]) -> Markup:
    """What the parts of a drawing mean: a small sample of each class, and words."""
    box = '<svg aria-hidden="true" width="18" height="12" viewBox="0 0 18 12">'
    items = "".join(
        f"<li>{box}{_rectangle(kind, 0, 0, 18, 12)}</svg> {escape(words)}</li>" for kind, words in parts.items()
    )
    return Markup(f'<ul class="legend">{items}</ul>')
