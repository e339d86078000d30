"""Text summaries of simulated rebalances: the costs of each variant, and the groups with the largest costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.report.formatting import DASH, Row, Rows, aligned, count, group_key, listed, ratio, rejected_lines
from spark_assign.report.listed_groups import any_of, collected, long_sum, num_rows, read_rejected_lines
from spark_assign.simulation.scenarios import LocalSimulation
from spark_assign.spark.progress import progress
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.simulation import COMPARED_VARIANTS, COST_COLUMNS

_DEFAULT_LIMIT = 10


def with_variant(table: DataFrame, variant: str) -> DataFrame:
    """Returns the table with the column `variant`, which is missing if only one variant was simulated."""
    return table if "variant" in table.columns else table.withColumn("variant", F.lit(variant))


@progress("simulating the events", 1)
def summarize_simulation(
    availability: DataFrame, rejected: DataFrame, variants: Sequence[str], limit: int = _DEFAULT_LIMIT
) -> tuple[str, list[Row]]:
    """Returns one line per variant, the groups with the largest costs, and the rejected groups.

    Omits groups that can't be simulated with every variant, so that the lines are comparable. Reads one row per variant
    and a screenful of groups.

    Args:
        availability: `tables.simulation.AVAILABILITY`, with a column `variant` if there are several.
        rejected: `tables.simulation.REJECTED`.
        variants: variants in display order. The first one determines the groups with the largest costs.
        limit: maximum number of groups listed.

    Returns:
        the text, and the rows of the groups with the largest costs of the first variant (at least one if any exists).
    """
    comparable = _simulated_with_all(with_variant(availability, variants[0]), len(variants))
    location = F.struct(*GROUP_KEY, "longest_pause_topic", "longest_pause_partition")
    # The names break ties, so the result is deterministic.
    longest = F.max_by(location, F.struct("longest_pause_ms", *GROUP_KEY)).alias("longest")
    total_rows = collected(comparable.groupBy("variant").agg(*cost_columns(comparable), longest))
    totals = {row["variant"]: row for row in total_rows}
    lines = _variant_lines({name: totals[name] for name in variants if name in totals})
    of_first = comparable.where(F.col("variant") == variants[0])
    never = [F.desc_nulls_last("unowned_at_end")] if "unowned_at_end" in of_first.columns else []
    names = map(F.col, GROUP_KEY)
    largest = collected(of_first.orderBy(*never, F.desc("paused_partition_ms"), *names).limit(max(limit, 1)))
    if limit and any(row["groups"] > 1 for row in totals.values()):
        keys = list(map(group_key, largest))
        rows = collected(comparable.where(any_of(largest)), "groups")
        by_variant = {name: [row for row in rows if row["variant"] == name] for name in variants}
        lines += ["", format_groups(keys, by_variant)]
    return "\n".join([*lines, *read_rejected_lines(rejected)]), largest


def summarize_local_simulation(simulation: LocalSimulation) -> tuple[str, Row | None]:
    """Summarizes one group that was simulated without Spark: one line per variant, and rejected groups.

    Returns:
        the text, and the group's row of the first variant; None if not every variant can be simulated.
    """
    row_by_variant = {row["variant"]: row for row in simulation.availability}
    is_complete = len(row_by_variant) == len(simulation.variants)
    rows = {name: row_by_variant[name] for name in simulation.variants} if is_complete else {}
    lines = _variant_lines({name: {**row, "groups": 1, "longest": row} for name, row in rows.items()})
    text = "\n".join([*lines, *rejected_lines(simulation.rejected, len(simulation.rejected))])
    return text, rows.get(simulation.variants[0])


def _variant_lines(totals: Mapping[str, Row]) -> list[str]:
    costs = {name: row["paused_partition_ms"] or 0 for name, row in totals.items()}
    return [
        format_variants(totals),
        *_savings_lines(costs, {name: row.get("unowned_at_end") for name, row in totals.items()}),
    ]


def _savings_lines(costs: Mapping[str, int], unowned: Mapping[str, int | None]) -> list[str]:
    """Returns the savings of the variants that leave no partition without an owner, and a line per other variant."""
    never = [
        f"{name}: {count(partitions, 'partition')} without an owner at the end, so the cost is open."
        for name, partitions in unowned.items()
        if partitions
    ]
    return [*format_savings({name: cost for name, cost in costs.items() if not unowned[name]}), *never]


def format_variants(totals: Mapping[str, Row]) -> str:
    """Returns one line per variant.

    Args:
        totals: rows by variant: groups, rebalances, members_restarted, paused_partition_ms, longest_pause_ms, and
            `longest`: cluster, group_id, longest_pause_topic, and longest_pause_partition of the group with that pause.
    """
    listed("variants", [{"variant": name, **row} for name, row in totals.items()])
    header = ["variant", "groups", "rebalances", "restarts", "partition-seconds not consumed", "longest pause"]
    with_group = any(row["groups"] > 1 for row in totals.values())
    lines = [[*header, "partition"]]
    for name, row in totals.items():
        counts = [f"{row[column] or 0:,}" for column in ("groups", "rebalances", "members_restarted")]
        costs = [partition_seconds(row["paused_partition_ms"] or 0), _seconds(row["longest_pause_ms"] or 0)]
        lines.append([name, *counts, *costs, pause_location(row["longest"], with_group)])
    return "\n".join(aligned(lines, words=(0, 6)))


def format_savings(costs: Mapping[str, int]) -> list[str]:
    """Returns one sentence: the share of eager's cost that each other variant saves. Empty if eager costs nothing.

    Args:
        costs: paused_partition_ms by variant.
    """
    eager = costs.get(COMPARED_VARIANTS[0], 0)
    savings = {name: 1 - costs[name] / eager for name in COMPARED_VARIANTS[1:] if name in costs and eager}
    if not savings:
        return []
    return [f"Savings compared with eager: {', '.join(f'{name} {share:.0%}' for name, share in savings.items())}."]


def format_groups(groups: Sequence[tuple[str, str]], rows: Mapping[str, Rows]) -> str:
    """Returns one line per group: rebalances, partition-seconds not consumed, and longest pause of each variant.

    Args:
        groups: pairs of cluster and group_id.
        rows: rows of `tables.simulation.AVAILABILITY` by variant. A group can be missing.
    """
    by_key = {(name, row["cluster"], row["group_id"]): row for name, group_rows in rows.items() for row in group_rows}
    lines = [["group", "partitions", *rows]]
    for cluster, group in groups:
        group_rows = [by_key.get((name, cluster, group)) for name in rows]
        sizes = [row["partitions"] for row in group_rows if row is not None]
        cells = [DASH if row is None else _cost_text(row) for row in group_rows]
        lines.append([f"{cluster}/{group}", f"{max(sizes, default=0):,}", *cells])
    heading = "Groups with the largest costs (rebalances / partition-seconds not consumed / longest pause):"
    return "\n".join([heading, *aligned(lines)])


@progress("comparing variants", 1)
def summarize_comparison(comparison: DataFrame, rejected: DataFrame, limit: int = _DEFAULT_LIMIT) -> str:
    """Returns sums over the groups that all variants can handle, the groups with the largest savings, and the rejected
    groups. Savings are the cost of eager minus that of cooperative. Reads a screenful of rows.

    Args:
        comparison: `tables.simulation.COMPARISON`.
        rejected: `tables.simulation.REJECTED` of the same simulation.
        limit: maximum number of groups listed.
    """
    paused = {name: f"{name}_paused_partition_ms" for name in COMPARED_VARIANTS}
    comparison = comparison.dropna(subset=list(paused.values()))
    sums = [F.coalesce(long_sum(column), F.lit(0)).alias(name) for name, column in paused.items()]
    unowned = [name for name in COMPARED_VARIANTS if f"{name}_unowned_at_end" in comparison.columns]
    sums += [long_sum(f"{name}_unowned_at_end").alias(f"{name}_unowned_at_end") for name in unowned]
    (totals,) = collected(comparison.agg(num_rows("groups"), *sums))
    costs = ", ".join(f"{name} {partition_seconds(totals[name])}" for name in paused)
    lines = [f"{count(totals['groups'], 'group')} compared; partition-seconds not consumed: {costs}"]
    open_costs = {name: totals.get(f"{name}_unowned_at_end") for name in paused}
    lines += _savings_lines({name: totals[name] for name in paused}, open_costs)
    if limit and totals["groups"]:
        savings = F.col(paused["eager"]) - F.col(paused["cooperative"])
        displayed = collected(comparison.orderBy(F.desc(savings), *GROUP_KEY).limit(limit), "groups")
        lines += ["", format_comparison(displayed)]
    return "\n".join([*lines, *read_rejected_lines(rejected)])


def format_comparison(rows: Rows) -> str:
    """Returns one line per row of `tables.simulation.COMPARISON`, in order."""
    lines = [["group", *COMPARED_VARIANTS, *(f"{name}/eager" for name in COMPARED_VARIANTS[1:])]]
    for row in rows:
        costs = ({cost: row.get(f"{name}_{cost}") for cost in COST_COLUMNS} for name in COMPARED_VARIANTS)
        ratios = [ratio(row[f"{name}_ratio"]) for name in COMPARED_VARIANTS[1:]]
        lines.append([f"{row['cluster']}/{row['group_id']}", *map(_cost_text, costs), *ratios])
    heading = "Groups with the largest savings (rebalances / partition-seconds not consumed / longest pause):"
    return "\n".join([heading, *aligned(lines)])


def format_rows(names: Sequence[str], rows: Rows) -> str:
    """Returns the named columns of any small table, left-aligned."""
    return "\n".join(aligned([list(names), *([_text(row[name]) for name in names] for row in rows)], range(len(names))))


def pause_location(row: Row | None, with_group: bool) -> str:
    """Returns the partition with the longest pause of a row, optionally with its group; a dash if there is no pause."""
    if row is None or row["longest_pause_topic"] is None:
        return DASH
    partition = f"{row['longest_pause_topic']}-{row['longest_pause_partition']}"
    return f"{row['cluster']}/{row['group_id']} {partition}" if with_group else partition


def partition_seconds(ms: int | None) -> str:
    """Returns partition-milliseconds as partition-seconds with one decimal, or a dash for None."""
    return DASH if ms is None else f"{ms / 1000:,.1f}"


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else DASH if value is None else str(value)


def _simulated_with_all(availability: DataFrame, num_variants: int) -> DataFrame:
    """Returns the rows of the groups that were simulated with every variant."""
    num_simulated = F.count(F.lit(1)).over(Window.partitionBy(*GROUP_KEY))
    return availability.withColumn("simulated", num_simulated).where(f"simulated = {num_variants}").drop("simulated")


_SUMS = ("rebalances", "members_restarted", "paused_partition_ms", "unowned_at_end")


def cost_columns(availability: DataFrame) -> list[Column]:
    """Returns the number of groups, the sums of their costs, and the longest pause of any group, as aggregates."""
    sums = (long_sum(name) for name in _SUMS if name in availability.columns)
    return [num_rows("groups"), *sums, F.max("longest_pause_ms").alias("longest_pause_ms")]


def _cost_text(row: Row) -> str:
    paused, longest = partition_seconds(row["paused_partition_ms"]), _seconds(row["longest_pause_ms"])
    never = f", {row['unowned_at_end']:,} never" if row.get("unowned_at_end") else ""
    return f"{row['rebalances']:,} / {paused} / {longest}{never}"


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:,.1f} s"
