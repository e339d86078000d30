"""The trace of one group as a sequence diagram: the coordinator, its members, and what they say to each other.

`sequence_diagram` writes it for Mermaid; `draw_sequence` draws it, for who has no viewer for that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_assign.errors import ConfigError

Rows = Sequence[Mapping[str, Any]]

COORDINATOR = "coordinator"
EVENT = "event"
"""Whose rows are what happens to the group from outside."""

RESPONSE = " response"
MOST_ROWS = 60
MOST_MEMBERS = 8
_WIDE = 90
"""Characters of a text; what is longer is cut."""

_UUID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_INCH = 0.043
"""Width of a character as it is drawn."""


@dataclass(frozen=True)
class Line:
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
    lines: list[Line]
    left_out: list[str]


def tell(rows: Rows, total: int | None = None) -> Story:
    """The part of a trace that fits on a page: MOST_ROWS rows and MOST_MEMBERS members.

    Of a large group some members are shown: the first leader, those that appear first, and as many of those with the
    highest ids, who most often only join in.

    Args:
        rows: of `protocol.schemas.TRACE`, of one group; in any order.
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
        ConfigError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError("drawing needs matplotlib: install spark_assign[report]") from error
    story = tell(rows, total)
    below = len(story.lines) + len(story.left_out)
    place = {name: at for at, name in enumerate(story.actors)}
    lane = min(4.0, max((_lanes_wide(line, place) for line in story.lines), default=2.0))
    width, height = 1.6 + lane * max(len(story.actors), 2), 1.2 + 0.27 * below
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(-1.1, max(len(story.actors), 2) - 0.4)
    axes.set_ylim(below + 0.5, -3.5)
    box = {"boxstyle": "round,pad=0.25", "linewidth": 0.6}
    for name, at in place.items():
        axes.plot([at, at], [-1, below], color="0.75", linewidth=0.8, zorder=0)
        axes.text(at, -1.3, short_name(name), ha="center", va="center", fontsize=8, weight="bold")
    readable = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5}
    before = None
    for at, line in enumerate(story.lines):
        if line.at_ms != before:
            axes.text(-1.05, at, _seconds(line.at_ms), va="center", fontsize=7, color="0.35")
            axes.axhline(at - 0.5, color="0.93", linewidth=0.6, zorder=-1)
            before = line.at_ms
        x = (len(place) - 1) / 2 if line.actor is None else place[line.actor]
        if line.to is None:
            own = box | {"facecolor": "#fff3c4", "edgecolor": "#c9a400"}
            axes.text(x, at, line.text, ha="center", va="center", fontsize=6, bbox=own)
            continue
        to = place[line.to]
        arrow = {"arrowstyle": "-|>", "linewidth": 0.8, "linestyle": "--" if line.answer else "-", "color": "#1f4e79"}
        axes.annotate("", (to, at + 0.2), (x, at + 0.2), arrowprops=arrow | {"shrinkA": 0, "shrinkB": 0})
        # The text stands beside the member, where it is told apart from the same message of another one.
        member = max(x, to)
        axes.text(member - 0.06, at + 0.12, line.text, ha="right", va="bottom", fontsize=6, bbox=readable)
    for at, sentence in enumerate(story.left_out, len(story.lines)):
        axes.text((len(place) - 1) / 2, at, f"… {sentence}", ha="center", va="center", fontsize=7, style="italic")
    axes.text(-1.05, -2.8, title, fontsize=9, va="center")
    figure.savefig(path, dpi=120)


def short_name(member_id: str) -> str:
    """A member id without the UUID that a consumer has behind its client id, and not too long."""
    return _cut(_UUID.sub("", member_id), 28)


def _lanes_wide(line: Line, place: Mapping[Any, int]) -> float:
    """How far lifelines have to be apart for the line's text; a box may reach half over to its neighbours."""
    apart = 1.5 if line.to is None else abs(place[line.to] - place[line.actor])
    return max(2.0, (len(line.text) + 4) * _INCH / apart)


def _line(row: Mapping[str, Any]) -> Line:
    if row["actor"] == EVENT:
        return Line(row["at_ms"], row["to"], None, _text(row), False)
    return Line(row["at_ms"], row["actor"], row["to"], _text(row), row["message"].endswith(RESPONSE))


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
