"""The pictures of one simulated group: who says what to whom, and who consumed what when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.report.text.ownership_chart import MOST_LINES, draw_timeline
from spark_assign.report.text.sequence_diagram import draw_sequence, sequence_diagram
from spark_assign.report.text.simulation import with_protocol
from spark_assign.simulation.scenarios import Story
from spark_assign.simulation.simulation import Simulation
from spark_assign.tables.groups import GROUP_KEY

_MOST_ROWS = 5_000
"""Of a trace, read for its diagram: those among which the first messages of the members shown are looked for."""

Row = Mapping[str, Any]
ByProtocol = dict[str, list[Row]]


@dataclass(frozen=True)
class GroupPictureData:
    """What is drawn of one group, by protocol.

    Attributes:
        trace: the first rows of it.
        messages: how many rows the whole trace has.
        rounds: all of them.
        ownership: of the partitions that are drawn.
    """

    trace: ByProtocol
    messages: dict[str, int]
    rounds: ByProtocol
    ownership: ByProtocol


def sight_of_simulation(simulation: Simulation, group: Row) -> GroupPictureData:
    """What is drawn of one group of a fleet.

    Reads from Spark: the group's generations, some thousand rows of its trace, and the ownership of at most as many
    partitions as are drawn.

    Args:
        simulation: with one protocol or several.
        group: which one: its row of `Simulation.availability`.
    """
    this = (F.col("cluster") == group["cluster"]) & (F.col("group_id") == group["group_id"])
    protocols = simulation.protocols
    counted = with_protocol(simulation.trace.where(this), protocols[0]).withColumn(
        "rows", F.count(F.lit(1)).over(Window.partitionBy(*GROUP_KEY, "protocol"))
    )
    trace = _rows(counted.where(F.col("seq") < _MOST_ROWS), protocols)
    return GroupPictureData(
        trace,
        {protocol: rows[0]["rows"] if rows else 0 for protocol, rows in trace.items()},
        _rows(simulation.rounds.where(this), protocols),
        _rows(_drawn(simulation.ownership.where(this), group["partitions"]), protocols),
    )


def sight_of_story(story: Story, group: Row) -> GroupPictureData:
    """What is drawn of the group of a story that was played without Spark.

    Args:
        story: of one group.
        group: its row of `Story.availability`.
    """
    trace = _by_protocol(story.trace, story.protocols)
    every = sorted({(row["topic"], row["partition"]) for row in story.ownership})
    drawn = set(every[:: _step(group["partitions"])])
    ownership = sorted(story.ownership, key=lambda row: (row["topic"], row["partition"]))
    return GroupPictureData(
        {protocol: [row for row in rows if row["seq"] < _MOST_ROWS] for protocol, rows in trace.items()},
        {protocol: len(rows) for protocol, rows in trace.items()},
        _by_protocol(story.rounds, story.protocols),
        _by_protocol((row for row in ownership if (row["topic"], row["partition"]) in drawn), story.protocols),
    )


def draw_group(sight: GroupPictureData, group: Row, folder: Path, name: str, kind: str = "svg") -> list[Path]:
    """Draw one group of a simulation.

    Args:
        sight: what was seen of it; several protocols are drawn below each other.
        group: its row of `tables.simulation.AVAILABILITY`.
        folder: where to; it is made if it is not there.
        name: how the files' names begin.
        kind: of the pictures: svg, png, pdf.

    Returns:
        the files: a sequence diagram per protocol (`.mmd` for Mermaid, and drawn), and one timeline of all.

    Raises:
        ConfigError: what draws is not installed, or the format is another one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    title = group["group_id"]
    files = []
    for protocol, rows in sight.trace.items():
        mermaid, picture = (folder / f"{name}.{protocol}.{ending}" for ending in ("mmd", kind))
        total = sight.messages[protocol]
        mermaid.write_text(sequence_diagram(rows, total=total), encoding="utf-8")
        draw_sequence(rows, str(picture), f"{title}, {protocol}", total=total)
        files += [mermaid, picture]
    picture = folder / f"{name}.timeline.{kind}"
    draw_timeline(sight.ownership, sight.rounds, str(picture), f"{title}: who consumes what when", group["partitions"])
    return [*files, picture]


def _drawn(ownership: DataFrame, partitions: int) -> DataFrame:
    """Of a large group every second, third, … partition."""
    place: Column = F.dense_rank().over(Window.partitionBy(*GROUP_KEY).orderBy("topic", "partition"))
    return ownership.withColumn("place", place - 1).where(F.col("place") % _step(partitions) == 0).drop("place")


def _step(partitions: int) -> int:
    """Every which of so many partitions is drawn, so that no more lines are drawn than there may be."""
    return max(1, -(-partitions // MOST_LINES))


def _rows(table: DataFrame, protocols: Sequence[str]) -> ByProtocol:
    """The rows of one group, by protocol."""
    rows = with_protocol(table, protocols[0]).collect()  # one group; MOST_LINES bounds its partitions
    return _by_protocol((row.asDict() for row in rows), protocols)


def _by_protocol(rows: Iterable[Row], protocols: Sequence[str]) -> ByProtocol:
    found: ByProtocol = {protocol: [] for protocol in protocols}
    for row in rows:
        found[row["protocol"]].append(row)
    return found
