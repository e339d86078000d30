"""Text summaries of simulated rebalances: the costs of each protocol, and the groups that lose most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.report.formatting import aligned, ratio, rejected_lines
from spark_assign.simulation.scenarios import Story
from spark_assign.simulation.simulation import COMPARED
from spark_assign.spark.progress import progress
from spark_assign.tables.groups import GROUP_KEY

_DEFAULT_LIMIT = 10
Row = Mapping[str, Any]
Rows = Sequence[Row]


def with_protocol(table: DataFrame, protocol: str) -> DataFrame:
    """Returns the table with a column `protocol`, which is missing if only one protocol was simulated."""
    return table if "protocol" in table.columns else table.withColumn("protocol", F.lit(protocol))


@progress("playing the events", 1)
def summarize_simulation(
    availability: DataFrame, rejected: DataFrame, protocols: Sequence[str], limit: int = _DEFAULT_LIMIT
) -> tuple[str, list[Row]]:
    """Returns one line per protocol, the groups that lose most, and rejected groups.

    Omits groups that aren't simulated with every protocol, so the lines are comparable. Reads one row per protocol and
    a screenful of groups.

    Args:
        availability: `tables.simulation.AVAILABILITY`, with a column `protocol` if there are several.
        rejected: `tables.simulation.REJECTED`.
        protocols: Protocols in display order. The first one selects the groups that lose most.
        limit: Maximum number of groups listed.

    Returns:
        The text, and the rows of the groups that lose most with the first protocol (at least one if any exists).
    """
    comparable = _simulated_with_all(with_protocol(availability, protocols[0]), len(protocols))
    total_rows = comparable.groupBy("protocol").agg(*_totals()).collect()  # a row per protocol
    sums = {row["protocol"]: row.asDict() for row in total_rows}
    lines = [protocols_text({name: sums[name] for name in protocols if name in sums})]
    lines += saved_lines({name: row["partition_ms_not_consumed"] for name, row in sums.items()})
    ordered = comparable.where(F.col("protocol") == protocols[0]).orderBy(
        F.desc("partition_ms_not_consumed"), "cluster", "group_id"
    )
    worst: list[Row] = [row.asDict() for row in ordered.limit(max(limit, 1)).collect()]  # a screenful
    if limit and any(row["groups"] > 1 for row in sums.values()):
        keys = [(row["cluster"], row["group_id"]) for row in worst]
        is_selected = [(F.col("cluster") == cluster) & (F.col("group_id") == group) for cluster, group in keys]
        rows = [row.asDict() for row in comparable.where(reduce(or_, is_selected)).collect()]  # of these groups
        by_protocol = {name: [row for row in rows if row["protocol"] == name] for name in protocols}
        lines += ["", groups_text(keys, by_protocol)]
    return "\n".join([*lines, *_rejected_lines(rejected)]), worst


def summarize_local_simulation(simulation: Story) -> tuple[str, Row | None]:
    """Summarizes one group that was simulated without Spark: one line per protocol, and rejected groups.

    Returns:
        The text, and the group's row of the first protocol, or None if not every protocol can be simulated.
    """
    row_by_protocol = {row["protocol"]: row for row in simulation.availability}
    is_complete = len(row_by_protocol) == len(simulation.protocols)
    rows = {name: row_by_protocol[name] for name in simulation.protocols} if is_complete else {}
    lines = [protocols_text({name: {**row, "groups": 1, "longest": row} for name, row in rows.items()})]
    lines += saved_lines({name: row["partition_ms_not_consumed"] for name, row in rows.items()})
    text = "\n".join([*lines, *rejected_lines(simulation.rejected, len(simulation.rejected))])
    return text, rows.get(simulation.protocols[0])


def protocols_text(totals: Mapping[str, Row]) -> str:
    """Returns one line per protocol.

    Args:
        totals: Rows by protocol: groups, rebalances, members_restarted, partition_ms_not_consumed, longest_pause_ms,
            and `longest`: cluster, group_id, longest_pause_topic, and longest_pause_partition of the group with that
            pause.
    """
    header = ["protocol", "groups", "rebalances", "restarts", "partition-seconds not consumed", "longest pause", "of"]
    with_group = any(row["groups"] > 1 for row in totals.values())
    lines = [header]
    for name, row in totals.items():
        counts = [f"{row[column] or 0:,}" for column in ("groups", "rebalances", "members_restarted")]
        lost_ms = row["partition_ms_not_consumed"] or 0
        pause = _seconds(row["longest_pause_ms"] or 0)
        lines.append([name, *counts, f"{lost_ms / 1000:,.1f}", pause, _pause_location(row["longest"], with_group)])
    return "\n".join(aligned(lines, words=(0, 6)))


def saved_lines(costs: Mapping[str, int]) -> list[str]:
    """Returns one sentence with the share of the eager protocol's cost that each other protocol saves; empty without
    eager.

    Args:
        costs: partition_ms_not_consumed by protocol.
    """
    eager = costs.get(COMPARED[0], 0)
    saved = {name: 1 - costs[name] / eager for name in COMPARED[1:] if name in costs and eager}
    if not saved:
        return []
    return [f"Saved of what eager costs: {', '.join(f'{name} {share:.0%}' for name, share in saved.items())}."]


def groups_text(groups: Sequence[tuple[str, str]], rows: Mapping[str, Rows]) -> str:
    """Returns one line per group, in the given order: rebalances, partition-seconds not consumed, and longest pause by
    protocol.

    Args:
        groups: Pairs of cluster and group_id.
        rows: Rows of `tables.simulation.AVAILABILITY` by protocol. A group can be missing.
    """
    by_key = {(name, row["cluster"], row["group_id"]): row for name, group_rows in rows.items() for row in group_rows}
    lines = [["group", "partitions", *rows]]
    for cluster, group in groups:
        group_rows = [by_key.get((name, cluster, group)) for name in rows]
        sizes = [row["partitions"] for row in group_rows if row is not None]
        cells = ["–" if row is None else _cost_text(row) for row in group_rows]
        lines.append([f"{cluster}/{group}", f"{max(sizes, default=0):,}", *cells])
    heading = "Groups that lose most (rebalances / partition-seconds not consumed / longest pause):"
    return "\n".join([heading, *aligned(lines)])


@progress("comparing protocols", 1)
def summarize_comparison(compared: DataFrame, rejected: DataFrame, limit: int = _DEFAULT_LIMIT) -> str:
    """Returns sums over the groups that all protocols can handle, the groups that gain most, and rejected groups.

    Gain is the cost of the eager minus that of the cooperative protocol. Reads a screenful of rows.

    Args:
        compared: Result of `simulation.compare_protocols`, computed or read back.
        rejected: `tables.simulation.REJECTED` of the same simulation.
        limit: Maximum number of groups listed.
    """
    cost_columns = {name: f"{name}_partition_ms_not_consumed" for name in COMPARED}
    compared = compared.dropna(subset=list(cost_columns.values()))
    sums = [F.coalesce(F.sum(column), F.lit(0)).alias(name) for name, column in cost_columns.items()]
    totals = compared.agg(F.count(F.lit(1)).alias("groups"), *sums).collect()[0]  # one row of sums
    costs = ", ".join(f"{name} {totals[name] / 1000:,.1f}" for name in cost_columns)
    lines = [f"{totals['groups']:,} groups compared; partition-seconds not consumed: {costs}"]
    lines += saved_lines({name: totals[name] for name in cost_columns})
    if limit and totals["groups"]:
        gain = F.col(cost_columns["eager"]) - F.col(cost_columns["cooperative"])
        displayed = compared.orderBy(F.desc(gain), "cluster", "group_id").limit(limit).collect()
        lines += ["", comparison_text([row.asDict() for row in displayed])]
    return "\n".join([*lines, *_rejected_lines(rejected)])


def comparison_text(rows: Rows) -> str:
    """Returns one line per row of `simulation.compare_protocols`, in order. Tables of older releases lack protocols."""
    names = [name for name in COMPARED if all(row.get(f"{name}_rebalances") is not None for row in rows)]
    lines = [["group", *names, *(f"{name}/eager" for name in names[1:])]]
    for row in rows:
        cells = [
            f"{row[f'{name}_rebalances']:,} / {row[f'{name}_partition_ms_not_consumed'] / 1000:,.1f} / "
            + _seconds(row[f"{name}_longest_pause_ms"])
            for name in names
        ]
        shares = [row[f"{name}_ratio"] for name in names[1:]]
        ratios = [ratio(share) for share in shares]
        lines.append([f"{row['cluster']}/{row['group_id']}", *cells, *ratios])
    heading = "Groups that gain most (rebalances / partition-seconds not consumed / longest pause):"
    return "\n".join([heading, *aligned(lines)])


def rows_text(names: Sequence[str], rows: Rows) -> str:
    """Returns the named columns of any small table, left-aligned."""
    return "\n".join(aligned([list(names), *([_text(row[name]) for name in names] for row in rows)], range(len(names))))


def _rejected_lines(rejected: DataFrame) -> list[str]:
    """Returns one line per rejected group of a table, of which it reads a screenful."""
    num_rejected = rejected.count()
    first = rejected.orderBy("cluster", "group_id", "code").limit(_DEFAULT_LIMIT).collect() if num_rejected else []
    return rejected_lines([row.asDict() for row in first], num_rejected)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "–" if value is None else str(value)


def _simulated_with_all(availability: DataFrame, num_protocols: int) -> DataFrame:
    """Returns the rows of the groups that were simulated with every protocol."""
    num_simulated = F.count(F.lit(1)).over(Window.partitionBy(*GROUP_KEY))
    return availability.withColumn("played", num_simulated).where(F.col("played") == num_protocols).drop("played")


def _totals() -> list[Column]:
    """Returns the sums over all groups, and the longest pause of any group."""
    names = ("rebalances", "members_restarted", "partition_ms_not_consumed")
    location = F.struct("cluster", "group_id", "longest_pause_topic", "longest_pause_partition")
    return [
        F.count(F.lit(1)).alias("groups"),
        *(F.sum(name).alias(name) for name in names),
        F.max("longest_pause_ms").alias("longest_pause_ms"),
        # The names break ties, so the result is deterministic.
        F.max_by(location, F.struct("longest_pause_ms", "cluster", "group_id")).alias("longest"),
    ]


def _pause_location(longest: Any, with_group: bool) -> str:
    if longest is None or longest["longest_pause_topic"] is None:
        return "–"
    partition = f"{longest['longest_pause_topic']}-{longest['longest_pause_partition']}"
    return f"{longest['cluster']}/{longest['group_id']} {partition}" if with_group else partition


def _cost_text(row: Row) -> str:
    lost, pause = row["partition_ms_not_consumed"] / 1000, _seconds(row["longest_pause_ms"])
    return f"{row['rebalances']:,} / {lost:,.1f} / {pause}"


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:,.1f} s"
