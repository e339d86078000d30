"""Who consumed which partition when, as a picture: a line per partition, eager and cooperative below each other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from spark_assign.errors import ConfigError
from spark_assign.report.sequence import short_name

Rows = Sequence[Mapping[str, Any]]

MOST_LINES = 60
_MOST_SHAPES = 4_000
"""More rectangles than this are drawn as an image inside the picture: else an .svg of them is slow to open."""

_MOST_OWNERS = 12
_EDGE = 0.05
"""Of the time shown, before the first and after the last thing that happens."""

# How high a line is, in what (None: the colour of its owner), and how much of it shines through.
_LOOKS: dict[str, tuple[float, str | None, float]] = {
    "consumed": (0.8, None, 1.0),
    "revoking": (0.8, None, 0.35),
    "restoring": (0.3, None, 0.6),
    "down": (0.3, "#222222", 1.0),
    "unowned": (0.06, "#c62828", 1.0),
}


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
        ownership: rows of `protocol.schemas.OWNERSHIP` of one group, by the name of what is compared.
        rounds: rows of `protocol.schemas.ROUNDS`, likewise.
        path: where to.
        title: above it.
        partitions: how many the group has, where `ownership` holds only some of them.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    try:
        from matplotlib.colors import to_rgba
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch
    except ImportError as error:
        raise ConfigError("drawing needs matplotlib: install spark_assign[report]") from error
    names = list(ownership)
    every = sorted({(row["topic"], row["partition"]) for rows in ownership.values() for row in rows})
    shown = every[:: max(1, -(-len(every) // MOST_LINES))]
    line = {partition: at for at, partition in enumerate(shown)}
    colours = _colours(ownership)
    begin, end = _window(ownership, rounds)

    high = 0.7 + min(max(0.9, 0.2 * len(shown)), 4.0)
    figure = Figure(figsize=(11, 0.8 + high * len(names)), layout="constrained")
    panels = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    for axes, name in zip(panels, names, strict=True):
        shapes, fills = [], []
        for row in _until(ownership[name], end):
            at = line.get((row["topic"], row["partition"]))
            if at is not None and row["to_ms"] > begin and row["from_ms"] < end:
                height, fixed, alpha = _LOOKS[row["state"]]
                left, right = max(row["from_ms"], begin) / 1000, min(row["to_ms"], end) / 1000
                shapes.append(_rectangle(left, right, at, height))
                fills.append(to_rgba(fixed or colours[_first_id(row["member_id"])], alpha))
        _add(axes, shapes, fills)
        for each in rounds.get(name, ()):
            if begin <= each["joined_ms"] <= end:
                axes.axvline(each["joined_ms"] / 1000, color="0.2", linewidth=0.7, linestyle=":")
        lost = sum(row["to_ms"] - row["from_ms"] for row in ownership[name] if row["state"] != "consumed") / 1000
        some = " of those drawn" if partitions is not None and len(every) < partitions else ""
        axes.set_title(f"{name}: {lost:,.1f} partition-seconds not consumed{some}", loc="left", fontsize=9)
        axes.set_ylim(len(shown) - 0.4, -0.6)
        step = max(1, len(shown) // 20)
        axes.set_yticks(range(0, len(shown), step), [f"{topic}-{number}" for topic, number in shown[::step]])
        axes.tick_params(labelsize=7)
    panels[-1].set_xlim(begin / 1000, end / 1000)
    panels[-1].set_xlabel("seconds")
    legend = [(state, Patch(color=to_rgba(fixed or "0.4", alpha))) for state, (_, fixed, alpha) in _LOOKS.items()]
    if len(colours) <= _MOST_OWNERS:
        legend += [(short_name(member), Patch(color=colour)) for member, colour in colours.items()]
    labels, patches = zip(*legend, strict=True)
    figure.legend(patches, labels, loc="outside right upper", fontsize=7)
    total = partitions or len(every)
    few = f" ({len(shown)} of {total:,} partitions drawn)" if len(shown) < total else ""
    figure.suptitle(title + few, fontsize=10)
    figure.savefig(path, dpi=120)


def _add(axes: Any, shapes: list[list[tuple[float, float]]], fills: list[Any]) -> None:
    from matplotlib.collections import PolyCollection

    many = len(shapes) > _MOST_SHAPES
    axes.add_collection(PolyCollection(shapes, facecolors=fills, edgecolors="none", rasterized=many))


def _rectangle(left: float, right: float, at: int, height: float) -> list[tuple[float, float]]:
    low, high = at - height / 2, at + height / 2
    return [(left, low), (right, low), (right, high), (left, high)]


def _colours(ownership: Mapping[str, Rows]) -> dict[str, Any]:
    """A colour per owner, the same with every protocol and after a restart; of many owners some share a colour."""
    from matplotlib import colormaps

    # Strong colours first, then their pale twins; red says that nobody owns a partition.
    palette = [colormaps["tab20"](number) for number in (*range(0, 20, 2), *range(1, 20, 2)) if number not in (6, 7)]
    ids = {row["member_id"] for rows in ownership.values() for row in rows if row["member_id"] is not None}
    owners = sorted({_first_id(member) for member in ids})
    return {member: palette[number % len(palette)] for number, member in enumerate(owners)}


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
