"""Simulations of the group protocol on one screen: what each protocol costs, and the groups that lose most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.report.formatting import rejected_lines
from spark_assign.simulation.scenarios import Story
from spark_assign.simulation.simulation import COMPARED
from spark_assign.spark.progress import progress
from spark_assign.tables.groups import GROUP_KEY

_SHOWN = 10
Row = Mapping[str, Any]
Rows = Sequence[Row]


def with_protocol(table: DataFrame, protocol: str) -> DataFrame:
    """A simulation's table with a column `protocol`, which it lacks where there is only one."""
    return table if "protocol" in table.columns else table.withColumn("protocol", F.lit(protocol))


@progress("playing the events", 1)
def summarize_simulation(
    availability: DataFrame, rejected: DataFrame, protocols: Sequence[str], top: int = _SHOWN
) -> tuple[str, list[Row]]:
    """A line per protocol, the groups that lose most, and what was rejected. Reads a row per protocol and a screenful.

    Groups that only some of the protocols can play are left out, so that the lines can be compared.

    Args:
        availability: `tables.simulation.AVAILABILITY`, with a column `protocol` if there are several.
        rejected: `tables.simulation.REJECTED`.
        protocols: in the order in which they are shown; those that lose most with the first one are the groups listed.
        top: how many groups to list.

    Returns:
        the text, and the rows of the groups that lose most with the first protocol (at least one, if there is any).
    """
    every = _played_by_all(with_protocol(availability, protocols[0]), len(protocols))
    totals = every.groupBy("protocol").agg(*_totals()).collect()  # a row per protocol
    sums = {row["protocol"]: row.asDict() for row in totals}
    lines = [protocols_text({name: sums[name] for name in protocols if name in sums})]
    lines += saved_lines({name: row["partition_ms_not_consumed"] for name, row in sums.items()})
    ordered = every.where(F.col("protocol") == protocols[0]).orderBy(
        F.desc("partition_ms_not_consumed"), "cluster", "group_id"
    )
    worst: list[Row] = [row.asDict() for row in ordered.limit(max(top, 1)).collect()]  # a screenful
    if top and any(row["groups"] > 1 for row in sums.values()):
        chosen = [(row["cluster"], row["group_id"]) for row in worst]
        of_them = [(F.col("cluster") == cluster) & (F.col("group_id") == group) for cluster, group in chosen]
        rows = [row.asDict() for row in every.where(reduce(or_, of_them)).collect()]  # of these groups
        by_protocol = {name: [row for row in rows if row["protocol"] == name] for name in protocols}
        lines += ["", groups_text(chosen, by_protocol)]
    return "\n".join([*lines, *_rejected(rejected)]), worst


def summarize_story(story: Story) -> tuple[str, Row | None]:
    """The same of one group that was played without Spark: a line per protocol, and what was rejected.

    Returns:
        the text, and the group's row of the first protocol, null where some protocol cannot play it.
    """
    of_protocol = {row["protocol"]: row for row in story.availability}
    by_all = len(of_protocol) == len(story.protocols)
    rows = {name: of_protocol[name] for name in story.protocols} if by_all else {}
    lines = [protocols_text({name: {**row, "groups": 1, "longest": row} for name, row in rows.items()})]
    lines += saved_lines({name: row["partition_ms_not_consumed"] for name, row in rows.items()})
    text = "\n".join([*lines, *rejected_lines(story.rejected, len(story.rejected))])
    return text, rows.get(story.protocols[0])


def protocols_text(totals: Mapping[str, Row]) -> str:
    """A line per protocol.

    Args:
        totals: by protocol: groups, rebalances, members_restarted, partition_ms_not_consumed, longest_pause_ms, and
            longest: cluster, group_id, longest_pause_topic and longest_pause_partition of the group that has it.
    """
    header = ["protocol", "groups", "rebalances", "restarts", "partition-seconds not consumed", "longest pause", "of"]
    several = any(row["groups"] > 1 for row in totals.values())
    lines = [header]
    for name, row in totals.items():
        counts = [f"{row[each] or 0:,}" for each in ("groups", "rebalances", "members_restarted")]
        lost = row["partition_ms_not_consumed"] or 0
        pause = _seconds(row["longest_pause_ms"] or 0)
        lines.append([name, *counts, f"{lost / 1000:,.1f}", pause, _paused(row["longest"], several)])
    return "\n".join(_table(lines, words=(0, 6)))


def saved_lines(costs: Mapping[str, int]) -> list[str]:
    """How much of what the eager protocol costs goes away with each of the others, as one sentence; none without it.

    Args:
        costs: partition_ms_not_consumed by protocol.
    """
    eager = costs.get(COMPARED[0], 0)
    saved = {name: 1 - costs[name] / eager for name in COMPARED[1:] if name in costs and eager}
    if not saved:
        return []
    return [f"Saved of what eager costs: {', '.join(f'{name} {share:.0%}' for name, share in saved.items())}."]


def groups_text(groups: Sequence[tuple[str, str]], rows: Mapping[str, Rows]) -> str:
    """A line per group, in this order: rebalances, partition-seconds not consumed and longest pause by protocol.

    Args:
        groups: cluster and group_id.
        rows: of `tables.simulation.AVAILABILITY`, by protocol; a group may lack with some.
    """
    found = {(name, row["cluster"], row["group_id"]): row for name, each in rows.items() for row in each}
    lines = [["group", "partitions", *rows]]
    for cluster, group in groups:
        mine = [found.get((name, cluster, group)) for name in rows]
        sizes = [row["partitions"] for row in mine if row is not None]
        cells = ["–" if row is None else _cost(row) for row in mine]
        lines.append([f"{cluster}/{group}", f"{max(sizes, default=0):,}", *cells])
    head = "Groups that lose most (rebalances / partition-seconds not consumed / longest pause):"
    return "\n".join([head, *_table(lines)])


@progress("comparing protocols", 1)
def summarize_comparison(compared: DataFrame, rejected: DataFrame, top: int = _SHOWN) -> str:
    """Sums over the groups that all protocols can play, those that gain most by cooperating, and what was rejected.

    Reads a screenful of rows.

    Args:
        compared: as `protocol.compare_protocols` gives it, or read back.
        rejected: `tables.simulation.REJECTED` of the same simulation.
        top: how many groups to list.
    """
    cost = {name: f"{name}_partition_ms_not_consumed" for name in COMPARED}
    compared = compared.dropna(subset=list(cost.values()))
    sums = [F.coalesce(F.sum(column), F.lit(0)).alias(name) for name, column in cost.items()]
    totals = compared.agg(F.count(F.lit(1)).alias("groups"), *sums).collect()[0]  # one row of sums
    said = ", ".join(f"{name} {totals[name] / 1000:,.1f}" for name in cost)
    lines = [f"{totals['groups']:,} groups compared; partition-seconds not consumed: {said}"]
    lines += saved_lines({name: totals[name] for name in cost})
    if top and totals["groups"]:
        gain = F.col(cost["eager"]) - F.col(cost["cooperative"])
        shown = compared.orderBy(F.desc(gain), "cluster", "group_id").limit(top).collect()
        lines += ["", comparison_text([row.asDict() for row in shown])]
    return "\n".join([*lines, *_rejected(rejected)])


def comparison_text(rows: Rows) -> str:
    """A line per row of `protocol.compare_protocols`, in this order; one of an older release lacks protocols."""
    names = [name for name in COMPARED if all(row.get(f"{name}_rebalances") is not None for row in rows)]
    lines = [["group", *names, *(f"{name}/eager" for name in names[1:])]]
    for row in rows:
        cells = [
            f"{row[f'{name}_rebalances']:,} / {row[f'{name}_partition_ms_not_consumed'] / 1000:,.1f} / "
            + _seconds(row[f"{name}_longest_pause_ms"])
            for name in names
        ]
        shares = [row[f"{name}_ratio"] for name in names[1:]]
        ratios = ["–" if each is None else f"{each:.2f}" for each in shares]
        lines.append([f"{row['cluster']}/{row['group_id']}", *cells, *ratios])
    head = "Groups that gain most (rebalances / partition-seconds not consumed / longest pause):"
    return "\n".join([head, *_table(lines)])


def rows_text(names: Sequence[str], rows: Rows) -> str:
    """Rows of any small table, the named columns, left-aligned."""
    return "\n".join(_table([list(names), *([_cell(row[name]) for name in names] for row in rows)], range(len(names))))


def _rejected(rejected: DataFrame) -> list[str]:
    """The same of a table, of which a screenful is read."""
    number = rejected.count()
    first = rejected.orderBy("cluster", "group_id", "code").limit(_SHOWN).collect() if number else []
    return rejected_lines([row.asDict() for row in first], number)


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "–" if value is None else str(value)


def _played_by_all(availability: DataFrame, protocols: int) -> DataFrame:
    played = F.count(F.lit(1)).over(Window.partitionBy(*GROUP_KEY))
    return availability.withColumn("played", played).where(F.col("played") == protocols).drop("played")


def _totals() -> list[Column]:
    """The sums of all groups, and the longest pause of any."""
    names = ("rebalances", "members_restarted", "partition_ms_not_consumed")
    where = F.struct("cluster", "group_id", "longest_pause_topic", "longest_pause_partition")
    return [
        F.count(F.lit(1)).alias("groups"),
        *(F.sum(name).alias(name) for name in names),
        F.max("longest_pause_ms").alias("longest_pause_ms"),
        # The names decide between equals, so that the answer is always the same.
        F.max_by(where, F.struct("longest_pause_ms", "cluster", "group_id")).alias("longest"),
    ]


def _paused(longest: Any, several: bool) -> str:
    if longest is None or longest["longest_pause_topic"] is None:
        return "–"
    partition = f"{longest['longest_pause_topic']}-{longest['longest_pause_partition']}"
    return f"{longest['cluster']}/{longest['group_id']} {partition}" if several else partition


def _cost(row: Row) -> str:
    lost, pause = row["partition_ms_not_consumed"] / 1000, _seconds(row["longest_pause_ms"])
    return f"{row['rebalances']:,} / {lost:,.1f} / {pause}"


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:,.1f} s"


def _table(rows: Sequence[Sequence[str]], words: Sequence[int] = (0,)) -> list[str]:
    """Aligned columns: those of words to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        (
            "  "
            + "  ".join(
                cell.ljust(width) if at in words else cell.rjust(width)
                for at, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
        ).rstrip()
        for row in rows
    ]
