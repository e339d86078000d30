"""Sequence diagrams of one simulated group: the messages between the coordinator and the members.

`sequence_diagram` writes Mermaid; `draw_sequence` draws a picture.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_assign.report import charts
from spark_assign.report.formatting import Row, Rows
from spark_assign.tables.quoting import mermaid_text

Mark = dict[str, Any]

COORDINATOR = "coordinator"
EVENT = "event"
"""Actor of the rows that describe external events."""

RESPONSE = " response"
MAX_ROWS = 60
MAX_MEMBERS = 8
_MAX_CHARACTERS = 90
"""Maximum length of a text. Longer texts are cut."""

_UUID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CHARACTER_WIDTH = 5.3
"""Width of a drawn character, in pixels."""

_LEFT_MARGIN, _TOP_MARGIN, _LINE_HEIGHT = 60, 34, 25
"""Pixels: left of the first lane, above the first line, and height of a line."""


@dataclass(frozen=True)
class DiagramLine:
    """A message to `receiver`, or an action or event of one actor if `receiver` is None.

    If `actor` is None, the event affects all actors.
    """

    at_ms: int
    actor: str | None
    receiver: str | None
    text: str
    answer: bool


@dataclass(frozen=True)
class Excerpt:
    """The displayed excerpt of a trace: actors, lines, and one sentence per omission."""

    actors: list[str]
    lines: list[DiagramLine]
    left_out: list[str]


def excerpt(rows: Rows, total: int | None = None) -> Excerpt:
    """Returns the excerpt of a trace that fits on a page: `MAX_ROWS` rows and `MAX_MEMBERS` members.

    Of a large group, it displays the first leader, the members that appear first, and as many of those with the highest
    ids, which typically only join.

    Args:
        rows: Rows of `tables.simulation.TRACE` of one group, in any order.
        total: Number of rows of the trace, if `rows` are only the first ones.
    """
    ordered = sorted(rows, key=lambda row: row["seq"])
    leaders = [row["actor"] for row in ordered if row["message"] == "assign"][:1]
    members = list(dict.fromkeys([*leaders, *(name for row in ordered for name in sorted(_members_of(row)))]))
    displayed = set(members)
    if len(members) > MAX_MEMBERS:
        first_members = members[: MAX_MEMBERS - MAX_MEMBERS // 2]
        displayed = {*first_members, *sorted(set(members) - set(first_members))[len(members) - MAX_MEMBERS :]}
    displayed_rows = [row for row in ordered if displayed.issuperset(_members_of(row))]
    lines = [_line(row) for row in displayed_rows[:MAX_ROWS]]
    actors = {name for line in lines for name in (line.actor, line.receiver)}
    total = len(ordered) if total is None else total
    omissions = []
    if len(lines) < total:
        note = ", among them all of other members" if len(displayed) < len(members) else ""
        omissions.append(f"{total - len(lines):,} of {total:,} rows left out{note}")
    return Excerpt([COORDINATOR, *(name for name in sorted(displayed) if name in actors)], lines, omissions)


def sequence_diagram(rows: Rows, total: int | None = None) -> str:
    """Returns a Mermaid `sequenceDiagram` of one group's trace.

    Args:
        rows: Rows of the trace, as for `excerpt`.
        total: Number of rows of the trace, as for `excerpt`.
    """
    displayed = excerpt(rows, total)
    # Member ids can contain Mermaid syntax, so the diagram uses aliases.
    alias = {name: "C" if name == COORDINATOR else f"m{index}" for index, name in enumerate(displayed.actors)}
    text = ["sequenceDiagram"]
    text += [f"    participant {alias[name]} as {mermaid_text(name)}" for name in displayed.actors]
    all_actors = ",".join(dict.fromkeys((alias[displayed.actors[0]], alias[displayed.actors[-1]])))
    for line in displayed.lines:
        label = f"{_seconds(line.at_ms)} {mermaid_text(line.text)}"
        if line.receiver is None:
            text.append(f"    Note over {all_actors if line.actor is None else alias[line.actor]}: {label}")
        else:
            arrow = "-->>" if line.answer else "->>"
            text.append(f"    {alias[str(line.actor)]}{arrow}{alias[line.receiver]}: {label}")
    text += [f"    Note over {all_actors}: {mermaid_text(sentence)}" for sentence in displayed.left_out]
    return "\n".join(text) + "\n"


def draw_sequence(rows: Rows, path: str, title: str = "", total: int | None = None) -> None:
    """Draws the diagram in the format of the file name (.svg, .png, or .pdf): a lifeline per actor, time runs down.

    Args:
        rows: Rows of the trace, as for `excerpt`.
        path: Target file.
        title: Title above the diagram.
        total: Number of rows of the trace, as for `excerpt`.

    Raises:
        ConfigError: If the drawing library isn't installed, or the format is unknown.
    """
    displayed = excerpt(rows, total)
    lane_index = {name: index for index, name in enumerate(displayed.actors)}
    lane_width = min(400, max((_lane_width(line, lane_index) for line in displayed.lines), default=200))
    lanes = {name: _LEFT_MARGIN + lane_width * (index + 0.5) for name, index in lane_index.items()}
    width = _LEFT_MARGIN + lane_width * max(len(lane_index), 2)
    height = _TOP_MARGIN + _LINE_HEIGHT * (len(displayed.lines) + len(displayed.left_out))
    lane_positions = sorted(lanes.values())
    middle = (lane_positions[0] + lane_positions[-1]) / 2

    def layer(values: list[Mark], mark: str, **looks: Any) -> Any:
        """Returns marks at pixel positions; `x2` and `y2` are the opposite ends of lines and boxes."""
        channels: dict[str, Any] = {
            "x": charts.channel("x:Q", scale=None, axis=None),
            "y": charts.channel("y:Q", scale=None, axis=None),
        }
        example = values[0] if values else {}
        channels |= {name: name for name in ("x2", "y2") if name in example}
        channels |= {"text": "text:N"} if "text" in example else {}
        return charts.chart_of(values).mark(mark, **looks).encode(**channels)

    marks: dict[str, list[Mark]] = defaultdict(list)
    previous_ms = None
    for index, line in enumerate(displayed.lines):
        y = _TOP_MARGIN + _LINE_HEIGHT * (index + 0.5)
        if line.at_ms != previous_ms:
            marks["times"].append({"x": 4, "y": y, "text": _seconds(line.at_ms)})
            marks["breaks"].append({"x": 0, "x2": width, "y": y - _LINE_HEIGHT / 2})
            previous_ms = line.at_ms
        x = middle if line.actor is None else lanes[line.actor]
        if line.receiver is None:
            half_width = len(line.text) * _CHARACTER_WIDTH / 2 + 6
            marks["boxes"].append({"x": x - half_width, "x2": x + half_width, "y": y - 8, "y2": y + 8})
            marks["notes"].append({"x": x, "y": y, "text": line.text})
            continue
        to, arrow_y = lanes[line.receiver], y + 7
        marks["responses" if line.answer else "requests"].append({"x": x, "x2": to, "y": arrow_y})
        marks["right" if to > x else "left"].append({"x": to - 4 if to > x else to + 4, "y": arrow_y})
        # The text is beside the member, so that equal messages of different members are distinguishable.
        marks["labels"].append({"x": max(x, to) - 10, "y": arrow_y - 3, "text": line.text})
    lines = [{"x": x, "y": _TOP_MARGIN - 6, "y2": height} for x in lanes.values()]
    actors = [{"x": x, "y": _TOP_MARGIN - 16, "text": short_name(name)} for name, x in lanes.items()]
    omission_notes = [
        {"x": middle, "y": _TOP_MARGIN + _LINE_HEIGHT * (index + 0.5), "text": f"… {sentence}"}
        for index, sentence in enumerate(displayed.left_out, len(displayed.lines))
    ]
    ink, quiet, pale = charts.color("is"), charts.color("quiet"), charts.color("line")
    arrowheads = [
        layer(marks[direction], "point", shape=f"triangle-{direction}", filled=True, fill=ink, size=40, opacity=1)
        for direction in ("left", "right")
    ]
    label_style = {"align": "right", "baseline": "bottom", "fontSize": 9}
    chart = charts.layer(
        layer(marks["breaks"], "rule", color=pale, strokeWidth=0.6),
        layer(lines, "rule", color=pale),
        layer(actors, "text", fontWeight=600, fontSize=11),
        layer(marks["times"], "text", align="left", fontSize=10, color=quiet),
        layer(marks["requests"], "rule", color=ink, strokeWidth=1.2),
        layer(marks["responses"], "rule", color=ink, strokeWidth=1.2, strokeDash=[4, 3]),
        *arrowheads,
        layer(marks["labels"], "text", **label_style, stroke=charts.color("page"), strokeWidth=3, strokeJoin="round"),
        layer(marks["labels"], "text", **label_style),
        layer(marks["boxes"], "rect", fill="#fff3c4", stroke="#c9a400", cornerRadius=4),
        layer(marks["notes"], "text", fontSize=9),
        layer(omission_notes, "text", fontSize=10, fontStyle="italic", color=quiet),
    )
    charts.write_chart(chart.properties(width=width, height=height, title=title), path)


def short_name(member_id: str) -> str:
    """Returns a member id without the UUID that follows the client id, cut to 28 characters."""
    return _shorten(_UUID.sub("", member_id), 28)


def _lane_width(line: DiagramLine, lane_index: Mapping[Any, int]) -> float:
    """Returns the distance between lifelines that the line's text needs. A box can reach halfway to its neighbors."""
    num_lanes = 1.5 if line.receiver is None else abs(lane_index[line.receiver] - lane_index[line.actor]) or 1
    return max(200.0, (len(line.text) + 4) * _CHARACTER_WIDTH / num_lanes)


def _line(row: Row) -> DiagramLine:
    if row["actor"] == EVENT:
        return DiagramLine(row["at_ms"], row["receiver"], None, _text(row), False)
    return DiagramLine(row["at_ms"], row["actor"], row["receiver"], _text(row), row["message"].endswith(RESPONSE))


def _members_of(row: Row) -> set[str]:
    """Returns the members of a row."""
    return {row["actor"], row["receiver"]} - {None, COORDINATOR, EVENT}


def _text(row: Row) -> str:
    return _shorten(f"{row['message']}: {row['detail']}" if row["detail"] else row["message"], _MAX_CHARACTERS)


def _shorten(text: str, width: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"


def _seconds(at_ms: int) -> str:
    return f"{at_ms / 1000:.3f}".rstrip("0").rstrip(".") + " s"
