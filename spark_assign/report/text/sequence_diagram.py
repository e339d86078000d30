"""The trace of one group as a sequence diagram: the coordinator, its members, and what they say to each other.

`sequence_diagram` writes it for Mermaid; `draw_sequence` draws it, for who has no viewer for that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_assign.report import charts

Rows = Sequence[Mapping[str, Any]]
Mark = dict[str, Any]

COORDINATOR = "coordinator"
EVENT = "event"
"""Whose rows are what happens to the group from outside."""

RESPONSE = " response"
MOST_ROWS = 60
MOST_MEMBERS = 8
_WIDE = 90
"""Characters of a text; what is longer is cut."""

_UUID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LETTER = 5.3
"""Pixels of a character as it is drawn."""

_LEFT, _TOP, _ROW = 60, 34, 25
"""Pixels: left of the first lane, above the first line, and of a line."""


@dataclass(frozen=True)
class DiagramLine:
    """A message (`to` says to whom), or what an actor does by itself or what happens to it (`to` is null).

    An `actor` of null: it happens to everybody.
    """

    at_ms: int
    actor: str | None
    to: str | None
    text: str
    answer: bool


@dataclass(frozen=True)
class Story:
    """What of a trace is told: who takes part, in which lines, and a sentence for each thing that is left out."""

    actors: list[str]
    lines: list[DiagramLine]
    left_out: list[str]


def tell(rows: Rows, total: int | None = None) -> Story:
    """The part of a trace that fits on a page: MOST_ROWS rows and MOST_MEMBERS members.

    Of a large group some members are shown: the first leader, those that appear first, and as many of those with the
    highest ids, who most often only join in.

    Args:
        rows: of `tables.simulation.TRACE`, of one group; in any order.
        total: how many rows the trace has, where `rows` are only the first of them.
    """
    spoken = sorted(rows, key=lambda row: row["seq"])
    leaders = [row["actor"] for row in spoken if row["message"] == "assign"][:1]
    everybody = list(dict.fromkeys([*leaders, *(name for row in spoken for name in sorted(_named(row)))]))
    chosen = set(everybody)
    if len(everybody) > MOST_MEMBERS:
        first = everybody[: MOST_MEMBERS - MOST_MEMBERS // 2]
        chosen = {*first, *sorted(set(everybody) - set(first))[len(everybody) - MOST_MEMBERS :]}
    shown = [row for row in spoken if chosen.issuperset(_named(row))]
    lines = [_line(row) for row in shown[:MOST_ROWS]]
    seen = {name for line in lines for name in (line.actor, line.to)}
    total = len(spoken) if total is None else total
    left_out = []
    if len(lines) < total:
        others = ", among them all of other members" if len(chosen) < len(everybody) else ""
        left_out.append(f"{total - len(lines):,} of {total:,} rows left out{others}")
    return Story([COORDINATOR, *(name for name in sorted(chosen) if name in seen)], lines, left_out)


def sequence_diagram(rows: Rows, total: int | None = None) -> str:
    """A Mermaid `sequenceDiagram` of one group's trace.

    Args:
        rows, total: as `tell` has them.
    """
    story = tell(rows, total)
    # Names of members may hold what Mermaid reads as its own; so everybody gets a short name.
    short = {name: "C" if name == COORDINATOR else f"m{number}" for number, name in enumerate(story.actors)}
    text = ["sequenceDiagram"]
    text += [f"    participant {short[name]} as {_escaped(name)}" for name in story.actors]
    everybody = ",".join(dict.fromkeys((short[story.actors[0]], short[story.actors[-1]])))
    for line in story.lines:
        said = f"{_seconds(line.at_ms)} {_escaped(line.text)}"
        if line.to is None:
            text.append(f"    Note over {everybody if line.actor is None else short[line.actor]}: {said}")
        else:
            arrow = "-->>" if line.answer else "->>"
            text.append(f"    {short[str(line.actor)]}{arrow}{short[line.to]}: {said}")
    text += [f"    Note over {everybody}: {_escaped(sentence)}" for sentence in story.left_out]
    return "\n".join(text) + "\n"


def draw_sequence(rows: Rows, path: str, title: str = "", total: int | None = None) -> None:
    """The same as a picture (the format by the name: .svg, .png, .pdf): a lifeline per actor, time runs down.

    Args:
        rows, total: as `tell` has them.
        path: where to.
        title: above it.

    Raises:
        ConfigError: what draws is not installed, or the format is another one.
    """
    alt = charts.altair()
    story = tell(rows, total)
    place = {name: at for at, name in enumerate(story.actors)}
    lane = min(400, max((_lanes_wide(line, place) for line in story.lines), default=200))
    lanes = {name: _LEFT + lane * (at + 0.5) for name, at in place.items()}
    wide, high = _LEFT + lane * max(len(place), 2), _TOP + _ROW * (len(story.lines) + len(story.left_out))
    ends = sorted(lanes.values())
    middle = (ends[0] + ends[-1]) / 2

    def layer(values: list[Mark], mark: str, **looks: Any) -> Any:
        """Marks in pixels; x2 and y2 are the other ends of lines and boxes."""
        encoded = {"x": alt.X("x:Q", scale=None, axis=None), "y": alt.Y("y:Q", scale=None, axis=None)}
        first = values[0] if values else {}
        encoded |= {name: f"{name}:Q" for name in ("x2", "y2") if name in first}
        encoded |= {"text": "text:N"} if "text" in first else {}
        return getattr(alt.Chart(alt.Data(values=values)), f"mark_{mark}")(**looks).encode(**encoded)

    times: list[Mark] = []
    breaks: list[Mark] = []
    notes: list[Mark] = []
    said: list[Mark] = []
    asks: list[Mark] = []
    answers: list[Mark] = []
    heads: dict[str, list[Mark]] = {"left": [], "right": []}
    before = None
    for at, line in enumerate(story.lines):
        y = _TOP + _ROW * (at + 0.5)
        if line.at_ms != before:
            times.append({"x": 4, "y": y, "text": _seconds(line.at_ms)})
            breaks.append({"x": 0, "x2": wide, "y": y - _ROW / 2})
            before = line.at_ms
        x = middle if line.actor is None else lanes[line.actor]
        if line.to is None:
            half = len(line.text) * _LETTER / 2 + 6
            notes.append({"x": x - half, "x2": x + half, "y": y - 8, "y2": y + 8, "middle": x, "text": line.text})
            continue
        to, low = lanes[line.to], y + 7
        (answers if line.answer else asks).append({"x": x, "x2": to, "y": low})
        heads["right" if to > x else "left"].append({"x": to - 4 if to > x else to + 4, "y": low})
        # The text stands beside the member, where it is told apart from the same message of another one.
        said.append({"x": max(x, to) - 10, "y": low - 3, "text": line.text})
    lines = [{"x": x, "y": _TOP - 6, "y2": high} for x in lanes.values()]
    actors = [{"x": x, "y": _TOP - 16, "text": short_name(name)} for name, x in lanes.items()]
    left_out = [
        {"x": middle, "y": _TOP + _ROW * (at + 0.5), "text": f"… {sentence}"}
        for at, sentence in enumerate(story.left_out, len(story.lines))
    ]
    words = [{"x": each["middle"], "y": each["y"] + 8, "text": each["text"]} for each in notes]
    ink, quiet, pale = charts.colour("is"), charts.colour("quiet"), charts.colour("line")
    pointed = [
        layer(values, "point", shape=f"triangle-{way}", filled=True, fill=ink, size=40, opacity=1)
        for way, values in heads.items()
    ]
    beside = {"align": "right", "baseline": "bottom", "fontSize": 9}
    chart = alt.layer(
        layer(breaks, "rule", color=pale, strokeWidth=0.6),
        layer(lines, "rule", color=pale),
        layer(actors, "text", fontWeight=600, fontSize=11),
        layer(times, "text", align="left", fontSize=10, color=quiet),
        layer(asks, "rule", color=ink, strokeWidth=1.2),
        layer(answers, "rule", color=ink, strokeWidth=1.2, strokeDash=[4, 3]),
        *pointed,
        layer(said, "text", **beside, stroke=charts.colour("page"), strokeWidth=3, strokeJoin="round"),
        layer(said, "text", **beside),
        layer(notes, "rect", fill="#fff3c4", stroke="#c9a400", cornerRadius=4),
        layer(words, "text", fontSize=9),
        layer(left_out, "text", fontSize=10, fontStyle="italic", color=quiet),
    )
    charts.write(chart.properties(width=wide, height=high, title=title), path)


def short_name(member_id: str) -> str:
    """A member id without the UUID that a consumer has behind its client id, and not too long."""
    return _cut(_UUID.sub("", member_id), 28)


def _lanes_wide(line: DiagramLine, place: Mapping[Any, int]) -> float:
    """How far lifelines have to be apart for the line's text; a box may reach half over to its neighbours."""
    apart = 1.5 if line.to is None else abs(place[line.to] - place[line.actor])
    return max(200.0, (len(line.text) + 4) * _LETTER / apart)


def _line(row: Mapping[str, Any]) -> DiagramLine:
    if row["actor"] == EVENT:
        return DiagramLine(row["at_ms"], row["to"], None, _text(row), False)
    return DiagramLine(row["at_ms"], row["actor"], row["to"], _text(row), row["message"].endswith(RESPONSE))


def _named(row: Mapping[str, Any]) -> set[str]:
    """The members of a row."""
    return {row["actor"], row["to"]} - {None, COORDINATOR, EVENT}


def _text(row: Mapping[str, Any]) -> str:
    return _cut(f"{row['message']}: {row['detail']}" if row["detail"] else row["message"], _WIDE)


def _cut(text: str, width: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"


def _seconds(at_ms: int) -> str:
    return f"{at_ms / 1000:.3f}".rstrip("0").rstrip(".") + " s"


_MEANT = re.compile(r"[#;%{}<>]|\bend\b", re.IGNORECASE)


def _escaped(text: str) -> str:
    """Characters that Mermaid reads as its own, and its word `end`, as the codes that it has for them."""
    return _MEANT.sub(lambda found: f"#{ord(found[0][0])};{found[0][1:]}", text)
