"""Who consumed which partition when, as a picture: a line per partition, eager and cooperative below each other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spark_assign.report import charts
from spark_assign.report.text.sequence_diagram import short_name

Rows = Sequence[Mapping[str, Any]]

MOST_LINES = 60
_MOST_OWNERS = 12
_EDGE = 0.05
"""Of the time shown, before the first and after the last thing that happens."""

# How high a line is, in what (None: the colour of its owner), and how much of it shines through.
_LOOKS: dict[str, tuple[float, str | None, float]] = {
    "consumed": (0.8, None, 1.0),
    "revoking": (0.8, None, 0.35),
    "restoring": (0.3, None, 0.6),
    "down": (0.3, "#222222", 1.0),
    "unowned": (0.08, "#c62828", 1.0),
}
# Strong colours first, then their pale twins; none is red, which says that nobody owns a partition.
_PALETTE = (
    *("#1f77b4", "#ff7f0e", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf"),
    *("#aec7e8", "#ffbb78", "#98df8a", "#c5b0d5", "#c49c94", "#f7b6d2", "#c7c7c7", "#dbdb8d", "#9edae5"),
)
_WIDE = 780
"""Of a panel, in pixels."""


def draw_timeline(
    ownership: Mapping[str, Rows],
    rounds: Mapping[str, Rows],
    path: str,
    title: str = "",
    partitions: int | None = None,
) -> None:
    """Draw one group (the format by the name: .svg, .png, .pdf).

    A line per partition in its owner's colour: full while it is consumed, pale while its owner revokes it, thin while
    it is restored, black while its owner is down, a red thread while nobody owns it. Vertical lines: a new generation.
    What happens before the first and after the last pause or round is cut off.

    Args:
        ownership: rows of `tables.simulation.OWNERSHIP` of one group, by the name of what is compared.
        rounds: rows of `tables.simulation.ROUNDS`, likewise.
        path: where to.
        title: above it.
        partitions: how many the group has, where `ownership` holds only some of them.

    Raises:
        ConfigError: what draws is not installed, or the format is another one.
    """
    alt = charts.altair()
    names = list(ownership)
    every = sorted({(row["topic"], row["partition"]) for rows in ownership.values() for row in rows})
    shown = every[:: max(1, -(-len(every) // MOST_LINES))]
    line = {partition: at for at, partition in enumerate(shown)}
    colours = _colours(ownership)
    begin, end = _window(ownership, rounds)
    step = max(1, len(shown) // 20)
    labels = [f"{topic}-{number}" for topic, number in shown]
    panels = []
    for name in names:
        last = name == names[-1]
        x = alt.X(
            "from:Q",
            scale=alt.Scale(domain=[begin / 1000, end / 1000], nice=False),
            axis=alt.Axis(title="seconds") if last else alt.Axis(title=None, labels=False),
        )
        y = alt.Y(
            "low:Q",
            scale=alt.Scale(domain=[len(shown) - 0.4, -0.6], nice=False, zero=False),
            axis=alt.Axis(
                title=None,
                values=list(range(0, len(shown), step)),
                labelExpr=f"{json.dumps(labels)}[datum.value]",
                labelFontSize=10,
                labelLimit=200,
            ),
        )
        drawn = alt.Chart(alt.Data(values=list(_rectangles(ownership[name], line, colours, begin, end))))
        shapes = drawn.mark_rect().encode(
            x=x,
            x2="to:Q",
            y=y,
            y2="high:Q",
            fill=alt.Fill("ink:N", scale=None),
            opacity=alt.Opacity("pale:Q", scale=None),
        )
        joined = [
            {"from": each["joined_ms"] / 1000} for each in rounds.get(name, ()) if begin <= each["joined_ms"] <= end
        ]
        rules = alt.Chart(alt.Data(values=joined)).mark_rule(
            color=charts.colour("quiet"), strokeDash=[2, 2], strokeWidth=0.8
        )
        lost = sum(row["to_ms"] - row["from_ms"] for row in ownership[name] if row["state"] != "consumed") / 1000
        some = " of those drawn" if partitions is not None and len(every) < partitions else ""
        panels.append(
            alt.layer(shapes, rules.encode(x=x)).properties(
                width=_WIDE,
                height=min(max(60, 20 * len(shown)), 340),
                title=f"{name}: {lost:,.1f} partition-seconds not consumed{some}",
            )
        )
    total = partitions or len(every)
    few = f" ({len(shown)} of {total:,} partitions drawn)" if len(shown) < total else ""
    whole = alt.hconcat(alt.vconcat(*panels, spacing=16), _legend(alt, colours)).properties(title=title + few)
    charts.write(whole, path)


def _rectangles(
    rows: Rows, line: Mapping[tuple[str, int], int], colours: Mapping[str, str], begin: float, end: float
) -> Iterator[dict[str, Any]]:
    """What is seen of the partitions that are drawn, in seconds and lines."""
    for row in _until(rows, end):
        at = line.get((row["topic"], row["partition"]))
        if at is None or row["to_ms"] <= begin or row["from_ms"] >= end:
            continue
        height, fixed, pale = _LOOKS[row["state"]]
        yield {
            "from": max(row["from_ms"], begin) / 1000,
            "to": min(row["to_ms"], end) / 1000,
            "low": at - height / 2,
            "high": at + height / 2,
            "ink": fixed or colours[_first_id(row["member_id"])],
            "pale": pale,
        }


def _legend(alt: Any, colours: Mapping[str, str]) -> Any:
    """The states, and the owners where they are not too many."""
    rows = [(state, fixed or "#666666", pale) for state, (_, fixed, pale) in _LOOKS.items()]
    if len(colours) <= _MOST_OWNERS:
        rows += [(short_name(member), ink, 1.0) for member, ink in colours.items()]
    values = [
        {"words": words, "ink": ink, "pale": pale, "at": 10 + 18 * at} for at, (words, ink, pale) in enumerate(rows)
    ]
    base = alt.Chart(alt.Data(values=values)).encode(y=alt.Y("at:Q", scale=None, axis=None))
    ink, pale = alt.Fill("ink:N", scale=None), alt.Opacity("pale:Q", scale=None)
    boxes = base.mark_square(size=130, stroke=None).encode(x=alt.value(8), fill=ink, opacity=pale)
    words = base.mark_text(align="left", fontSize=11).encode(x=alt.value(20), text="words:N")
    return alt.layer(boxes, words).properties(width=150, height=20 + 18 * len(rows))


def _colours(ownership: Mapping[str, Rows]) -> dict[str, str]:
    """A colour per owner, the same with every protocol and after a restart; of many owners some share a colour."""
    ids = {row["member_id"] for rows in ownership.values() for row in rows if row["member_id"] is not None}
    owners = sorted({_first_id(member) for member in ids})
    return {member: _PALETTE[number % len(_PALETTE)] for number, member in enumerate(owners)}


def _first_id(member_id: str) -> str:
    """The member's id before its restarts, which add `~2`, `~3`, …"""
    return re.sub(r"~\d+$", "", member_id)


def _until(rows: Rows, end: float) -> Rows:
    """The rows, and what follows where a group is at rest earlier than others: all that is owned is consumed."""
    last = max((row["to_ms"] for row in rows), default=0)
    rest = [{**row, "from_ms": last, "to_ms": end} for row in rows if row["to_ms"] == last < end]
    return [*rows, *(row if row["state"] == "unowned" else {**row, "state": "consumed"} for row in rest)]


def _window(ownership: Mapping[str, Rows], rounds: Mapping[str, Rows]) -> tuple[float, float]:
    """From when to when there is something to see, in ms."""
    rows = [row for each in ownership.values() for row in each]
    busy = [row for row in rows if row["state"] != "consumed"]
    played = [row for each in rounds.values() for row in each]
    begins = [row["from_ms"] for row in busy] + [row["begin_ms"] for row in played]
    ends = [row["to_ms"] for row in busy] + [row["end_ms"] for row in played]
    if not begins:
        begins, ends = [row["from_ms"] for row in rows] or [0], [row["to_ms"] for row in rows] or [1]
    edge = _EDGE * (max(ends) - min(begins)) + 1
    return max(0, min(begins) - edge), max(ends) + edge
