"""The pictures of one simulated group: who says what to whom, and who consumed what when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.protocol.simulate import Simulation
from spark_assign.report.protocol import with_protocol
from spark_assign.report.sequence import draw_sequence, sequence_diagram
from spark_assign.report.timeline import MOST_LINES, draw_timeline
from spark_assign.schemas import GROUP_KEY

_MOST_ROWS = 5_000
"""Of a trace, read for its diagram: those among which the first messages of the members shown are looked for."""

Row = dict[str, Any]


def draw_group(
    simulation: Simulation, group: Mapping[str, Any], folder: Path, name: str, kind: str = "svg"
) -> list[Path]:
    """Draw one group of a simulation.

    Reads from Spark: the group's generations, some thousand rows of its trace, and the ownership of at most as many
    partitions as are drawn.

    Args:
        simulation: with one protocol or several, which are drawn below each other.
        group: which one: its row of `Simulation.availability`.
        folder: where to; it is made if it is not there.
        name: how the files' names begin.
        kind: of the pictures: svg, png, pdf.

    Returns:
        the files: a sequence diagram per protocol (`.mmd` for Mermaid, and drawn), and one timeline of all.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    this = (F.col("cluster") == group["cluster"]) & (F.col("group_id") == group["group_id"])
    protocols, title = simulation.protocols, group["group_id"]
    counted = with_protocol(simulation.trace.where(this), protocols[0]).withColumn(
        "rows", F.count(F.lit(1)).over(Window.partitionBy(*GROUP_KEY, "protocol"))
    )
    trace = _rows(counted.where(F.col("seq") < _MOST_ROWS), protocols)
    rounds = _rows(simulation.rounds.where(this), protocols)
    ownership = _rows(_drawn(simulation.ownership.where(this), group["partitions"]), protocols)
    files = []
    for protocol in protocols:
        mermaid, picture = (folder / f"{name}.{protocol}.{ending}" for ending in ("mmd", kind))
        rows = trace[protocol]
        total = rows[0]["rows"] if rows else 0
        mermaid.write_text(sequence_diagram(rows, total=total), encoding="utf-8")
        draw_sequence(rows, str(picture), f"{title}, {protocol}", total=total)
        files += [mermaid, picture]
    picture = folder / f"{name}.timeline.{kind}"
    draw_timeline(ownership, rounds, str(picture), f"{title}: who consumes what when", group["partitions"])
    return [*files, picture]


def _drawn(ownership: DataFrame, partitions: int) -> DataFrame:
    """Of a large group every second, third, … partition."""
    place: Column = F.dense_rank().over(Window.partitionBy(*GROUP_KEY).orderBy("topic", "partition"))
    every = max(1, -(-partitions // MOST_LINES))
    return ownership.withColumn("place", place - 1).where(F.col("place") % every == 0).drop("place")


def _rows(table: DataFrame, protocols: Sequence[str]) -> dict[str, list[Row]]:
    """The rows of one group, by protocol; they are few."""
    rows = [row.asDict() for row in with_protocol(table, protocols[0]).collect()]
    return {protocol: [row for row in rows if row["protocol"] == protocol] for protocol in protocols}
