"""Pictures of one simulated group: sequence diagrams of its messages, and a chart of who consumes what when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.report import charts
from spark_assign.report.formatting import Row, Rows
from spark_assign.report.listed_groups import any_of, collected
from spark_assign.report.sequence_diagram import draw_sequence, sequence_diagram, short_name
from spark_assign.report.simulation import with_variant
from spark_assign.simulation.scenarios import LocalSimulation
from spark_assign.simulation.simulate_groups import Simulation
from spark_assign.stores.locations import publish
from spark_assign.tables.groups import GROUP_KEY

_MAX_TRACE_ROWS = 5_000
"""Maximum number of rows of a trace that are read to find the first messages of the displayed members."""

ByVariant = dict[str, list[Row]]


@dataclass(frozen=True)
class GroupPictureData:
    """Data of the pictures of one group, by variant.

    Attributes:
        trace: First rows of the trace.
        messages: Number of rows of the complete trace.
        rebalances: All rebalances.
        ownership: Ownership of the charted partitions.
    """

    trace: ByVariant
    messages: dict[str, int]
    rebalances: ByVariant
    ownership: ByVariant


def read_picture_data(simulation: Simulation, group: Row) -> GroupPictureData:
    """Reads the picture data of one group of a simulated fleet.

    Reads from Spark the group's rebalances, some thousand rows of its trace, and the ownership of the charted
    partitions.

    Args:
        simulation: Simulation of one or more variants.
        group: The group's row of `Simulation.availability`.
    """
    is_group = any_of([group])
    variants = simulation.variants
    with_count = with_variant(simulation.trace.where(is_group), variants[0]).withColumn(
        "rows", F.count(F.lit(1)).over(Window.partitionBy(*GROUP_KEY, "variant"))
    )
    trace = _collect_by_variant(with_count.where(F.col("seq") < _MAX_TRACE_ROWS), variants)
    return GroupPictureData(
        trace,
        {variant: rows[0]["rows"] if rows else 0 for variant, rows in trace.items()},
        _collect_by_variant(simulation.rebalances.where(is_group), variants),
        _collect_by_variant(_charted_partitions(simulation.ownership.where(is_group), group["partitions"]), variants),
    )


def local_picture_data(simulation: LocalSimulation, group: Row) -> GroupPictureData:
    """Returns the picture data of a group that was simulated without Spark.

    Args:
        simulation: Simulation of one group.
        group: The group's row of `availability`.
    """
    trace = _by_variant(simulation.trace, simulation.variants)
    partitions = sorted({(row["topic"], row["partition"]) for row in simulation.ownership})
    charted = set(partitions[:: _partition_step(group["partitions"])])
    ownership = sorted(simulation.ownership, key=lambda row: (row["topic"], row["partition"]))
    return GroupPictureData(
        {variant: [row for row in rows if row["seq"] < _MAX_TRACE_ROWS] for variant, rows in trace.items()},
        {variant: len(rows) for variant, rows in trace.items()},
        _by_variant(simulation.rebalances, simulation.variants),
        _by_variant((row for row in ownership if (row["topic"], row["partition"]) in charted), simulation.variants),
    )


def draw_group(data: GroupPictureData, group: Row, folder: Path, name: str, suffix: str = "svg") -> list[Path]:
    """Draws the pictures of one simulated group.

    Args:
        data: Picture data. Several variants are drawn below each other.
        group: The group's row of `tables.simulation.AVAILABILITY`.
        folder: Target folder, created if missing.
        name: Prefix of the file names.
        suffix: Format of the pictures: svg, png, or pdf.

    Returns:
        The files: one sequence diagram per variant (`.mmd` for Mermaid, and drawn), and one ownership chart.

    Raises:
        ConfigError: If the drawing library isn't installed, or the format is unknown.
    """
    folder.mkdir(parents=True, exist_ok=True)
    title = group["group_id"]
    files = []
    for variant, rows in data.trace.items():
        mermaid, picture = (folder / f"{name}.{variant}.{extension}" for extension in ("mmd", suffix))
        total = data.messages[variant]
        publish(sequence_diagram(rows, total=total).encode(), mermaid)
        draw_sequence(rows, str(picture), f"{title}, {variant}", total=total)
        files += [mermaid, picture]
    picture = folder / f"{name}.timeline.{suffix}"
    draw_ownership(
        data.ownership, data.rebalances, str(picture), f"{title}: who consumes what when", group["partitions"]
    )
    return [*files, picture]


def _charted_partitions(ownership: DataFrame, num_partitions: int) -> DataFrame:
    """Returns the ownership of every nth partition, in the order of topic and partition."""
    rank: Column = F.dense_rank().over(Window.partitionBy(*GROUP_KEY).orderBy("topic", "partition"))
    ranked = ownership.withColumn("partition_rank", rank - 1)
    return ranked.where(F.col("partition_rank") % _partition_step(num_partitions) == 0).drop("partition_rank")


def _partition_step(num_partitions: int) -> int:
    """Returns the step between charted partitions that keeps the chart within `MAX_LINES` lines."""
    return max(1, -(-num_partitions // MAX_LINES))


def _collect_by_variant(table: DataFrame, variants: Sequence[str]) -> ByVariant:
    """Collects the rows of one group, by variant."""
    return _by_variant(collected(with_variant(table, variants[0])), variants)  # `MAX_LINES` bounds the partitions


def _by_variant(rows: Iterable[Row], variants: Sequence[str]) -> ByVariant:
    by_variant: ByVariant = {variant: [] for variant in variants}
    for row in rows:
        by_variant[row["variant"]].append(row)
    return by_variant


MAX_LINES = 60
_MAX_LEGEND_OWNERS = 12
_MARGIN = 0.05
"""Margin before the first and after the last event, as a share of the displayed time."""

# By state: height of the bar (1.0 fills its line), color (None for the owner's), and opacity.
_STATE_STYLES: dict[str, tuple[float, str | None, float]] = {
    "consumed": (0.8, None, 1.0),
    "revoking": (0.8, None, 0.35),
    "restoring": (0.3, None, 0.6),
    "down": (0.3, charts.color("text"), 1.0),
    "unowned": (0.08, "#c62828", 1.0),
}
# Strong colors first, then their pale variants. Red is reserved for unowned partitions.
_PALETTE = (
    *("#1f77b4", "#ff7f0e", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf"),
    *("#aec7e8", "#ffbb78", "#98df8a", "#c5b0d5", "#c49c94", "#f7b6d2", "#c7c7c7", "#dbdb8d", "#9edae5"),
)
_PANEL_WIDTH = 780
"""Width of a panel, in pixels."""


def draw_ownership(
    ownership: Mapping[str, Rows],
    rebalances: Mapping[str, Rows],
    path: str,
    title: str = "",
    num_partitions: int | None = None,
) -> None:
    """Draws the ownership of one group over time, in the format of the file name (.svg, .png, or .pdf).

    Each partition is a line in its owner's color: full height while it is consumed, pale while its owner revokes it,
    thin while it is restored, in the color of text while its owner is down, and a red thread while nobody owns it.
    Vertical lines mark new generations. The chart starts shortly before the first and ends shortly after
    the last pause or rebalance.

    Args:
        ownership: Rows of `tables.simulation.OWNERSHIP` of one group, by variant.
        rebalances: Rows of `tables.simulation.REBALANCES` of the group, by variant.
        path: Target file.
        title: Title above the chart.
        num_partitions: Number of partitions of the group, if `ownership` contains only a sample.

    Raises:
        ConfigError: If the drawing library isn't installed, or the format is unknown.
    """
    all_partitions = sorted({(row["topic"], row["partition"]) for rows in ownership.values() for row in rows})
    charted = all_partitions[:: _partition_step(len(all_partitions))]
    line_index = {partition: index for index, partition in enumerate(charted)}
    colors = _owner_colors(ownership)
    start_ms, end_ms = _time_window(ownership, rebalances)
    label_step = max(1, len(charted) // 20)
    labels = [f"{topic}-{partition}" for topic, partition in charted]
    panels = []
    seconds = {"domain": [start_ms / 1000, end_ms / 1000], "nice": False}
    y = charts.channel(
        "low:Q",
        scale={"domain": [len(charted) - 0.4, -0.6], "nice": False, "zero": False},
        axis={
            "title": None,
            "values": list(range(0, len(charted), label_step)),
            "labelExpr": charts.labels(labels),
            "labelFontSize": 10,
            "labelLimit": 200,
        },
    )
    sample = " of those drawn" if num_partitions is not None and len(all_partitions) < num_partitions else ""
    for index, (variant, rows) in enumerate(ownership.items(), start=1):
        axis = {"title": "seconds"} if index == len(ownership) else {"title": None, "labels": False}
        x = charts.channel("from:Q", scale=seconds, axis=axis)
        rectangles = charts.chart_of(list(_rectangles(rows, line_index, colors, start_ms, end_ms))).mark("rect")
        fill, opacity = charts.channel("ink:N", scale=None), charts.channel("pale:Q", scale=None)
        shapes = rectangles.encode(x=x, x2="to", y=y, y2="high", fill=fill, opacity=opacity)
        generations = [
            {"from": row["joined_ms"] / 1000}
            for row in rebalances.get(variant, ())
            if start_ms <= row["joined_ms"] <= end_ms
        ]
        rule = {"color": charts.color("quiet"), "strokeDash": [2, 2], "strokeWidth": 0.8}
        lost_seconds = sum(row["end_ms"] - row["start_ms"] for row in rows if row["state"] != "consumed") / 1000
        panels.append(
            charts.layer(shapes, charts.chart_of(generations).mark("rule", **rule).encode(x=x)).properties(
                width=_PANEL_WIDTH,
                height=min(max(60, 20 * len(charted)), 340),
                title=f"{variant}: {lost_seconds:,.1f} partition-seconds not consumed{sample}",
            )
        )
    total = num_partitions or len(all_partitions)
    sample_note = f" ({len(charted)} of {total:,} partitions drawn)" if len(charted) < total else ""
    chart = charts.hconcat(charts.vconcat(*panels, spacing=16), _legend(colors)).properties(title=title + sample_note)
    charts.write_chart(chart, path)


def _rectangles(
    rows: Rows, line_index: Mapping[tuple[str, int], int], colors: Mapping[str, str], start_ms: float, end_ms: float
) -> Iterator[dict[str, Any]]:
    """Yields the rectangles of the charted partitions: x in seconds, y in lines."""
    for row in _extend_to_end(rows, end_ms):
        index = line_index.get((row["topic"], row["partition"]))
        if index is None or row["end_ms"] <= start_ms or row["start_ms"] >= end_ms:
            continue
        if row["state"] not in _STATE_STYLES:
            continue  # unrecorded
        height, state_color, opacity = _STATE_STYLES[row["state"]]
        yield {
            "from": max(row["start_ms"], start_ms) / 1000,
            "to": min(row["end_ms"], end_ms) / 1000,
            "low": index - height / 2,
            "high": index + height / 2,
            "ink": state_color or colors[_first_id(row)],
            "pale": opacity,
        }


def _legend(colors: Mapping[str, str]) -> Any:
    """Returns the legend: the states, and the owners if there are at most `_MAX_LEGEND_OWNERS`."""
    rows = [(state, state_color or "#666666", opacity) for state, (_, state_color, opacity) in _STATE_STYLES.items()]
    if len(colors) <= _MAX_LEGEND_OWNERS:
        rows += [(short_name(member), ink, 1.0) for member, ink in colors.items()]
    values = [
        {"words": label, "ink": ink, "pale": opacity, "at": 10 + 18 * index}
        for index, (label, ink, opacity) in enumerate(rows)
    ]
    base = charts.chart_of(values).encode(y=charts.channel("at:Q", scale=None, axis=None))
    ink, opacity = charts.channel("ink:N", scale=None), charts.channel("pale:Q", scale=None)
    boxes = base.mark("square", size=130, stroke=None).encode(x=charts.constant(8), fill=ink, opacity=opacity)
    labels = base.mark("text", align="left", fontSize=11).encode(x=charts.constant(20), text="words:N")
    return charts.layer(boxes, labels).properties(width=150, height=20 + 18 * len(rows))


def _owner_colors(ownership: Mapping[str, Rows]) -> dict[str, str]:
    """Returns a color per owner, the same for every variant and after restarts. More owners than colors share
    colors."""
    ids = {_first_id(row) for rows in ownership.values() for row in rows}
    return {member: _PALETTE[index % len(_PALETTE)] for index, member in enumerate(sorted(ids - {None}))}


def _first_id(row: Mapping[str, Any]) -> Any:
    """Returns the ID of a member before its restarts, which runs of earlier releases lack; None without a member."""
    return row.get("first_member_id") or row["member_id"]


def _extend_to_end(rows: Rows, end_ms: float) -> Rows:
    """Extends the rows to the end of the chart: a stable group consumes all owned partitions."""
    last_ms = max((row["end_ms"] for row in rows), default=0)
    extension = [{**row, "start_ms": last_ms, "end_ms": end_ms} for row in rows if row["end_ms"] == last_ms < end_ms]
    return [*rows, *(row if row["state"] == "unowned" else {**row, "state": "consumed"} for row in extension)]


def _time_window(ownership: Mapping[str, Rows], rebalances: Mapping[str, Rows]) -> tuple[float, float]:
    """Returns the start and end of the chart, in ms."""
    rows = [row for variant_rows in ownership.values() for row in variant_rows]
    paused = [row for row in rows if row["state"] != "consumed"]
    rebalance_rows = [row for variant_rows in rebalances.values() for row in variant_rows]
    charted = paused + rebalance_rows or rows or [{"start_ms": 0, "end_ms": 1}]
    starts, ends = [row["start_ms"] for row in charted], [row["end_ms"] for row in charted]
    margin = _MARGIN * (max(ends) - min(starts)) + 1
    return max(0, min(starts) - margin), max(ends) + margin
