"""The pictures of one simulated group: who says what to whom, and who consumed what when."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.protocol.simulate import Simulation
from spark_assign.report.sequence import draw_sequence, sequence_diagram
from spark_assign.report.timeline import MOST_LINES, draw_timeline

_MOST_ROWS = 20_000
"""Of a trace, read for its diagram; most of them are heartbeats."""


def draw_group(
    played: Mapping[str, Simulation], cluster: str, group_id: str, folder: Path, name: str, kind: str = "svg"
) -> list[Path]:
    """Draw one group of some simulations.

    Reads from Spark: the group's generations, some thousand rows of its trace, and the ownership of at most as many
    partitions as are drawn.

    Args:
        played: simulations of the same events, by protocol.
        cluster, group_id: which group.
        folder: where to; it is made if it is not there.
        name: how the files' names begin.
        kind: of the pictures: svg, png, pdf.

    Returns:
        the files: a sequence diagram per protocol (`.mmd` for Mermaid, and drawn), and one timeline of all.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    this = (F.col("cluster") == cluster) & (F.col("group_id") == group_id)
    files: list[Path] = []
    ownership, rounds = {}, {}
    partitions = 0
    for protocol, simulation in played.items():
        trace = _rows(simulation.trace.where(this).orderBy("seq").limit(_MOST_ROWS))
        mermaid, picture = (folder / f"{name}.{protocol}.{ending}" for ending in ("mmd", kind))
        mermaid.write_text(sequence_diagram(trace), encoding="utf-8")
        draw_sequence(trace, str(picture), f"{group_id}, {protocol}")
        files += [mermaid, picture]
        rounds[protocol] = _rows(simulation.rounds.where(this).orderBy("generation_id"))
        partitions, ownership[protocol] = _some_ownership(simulation, this)
    picture = folder / f"{name}.timeline.{kind}"
    draw_timeline(ownership, rounds, str(picture), f"{group_id}: who consumes what when", partitions)
    return [*files, picture]


def _some_ownership(simulation: Simulation, this: Column) -> tuple[int, list[dict[str, Any]]]:
    """How many partitions the group has, and the ownership of those that are drawn: each second, third, …"""
    partitions = simulation.partitions.where(this)
    count = partitions.count()
    place = F.row_number().over(Window.partitionBy("cluster", "group_id").orderBy("topic", "partition")) - 1
    every = -(-count // MOST_LINES) or 1
    drawn = partitions.select("topic", "partition", place.alias("place")).where(F.col("place") % every == 0)
    rows = simulation.ownership.where(this).join(drawn.drop("place"), ["topic", "partition"], "left_semi")
    return count, _rows(rows)


def _rows(table: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in table.collect()]  # of one group, and few
