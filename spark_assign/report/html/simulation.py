"""The report's section about simulated rebalances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from operator import itemgetter
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.report import views as parts
from spark_assign.report.formatting import Row, Rows, count, group_key, listed_order, ratio, seconds
from spark_assign.report.listed_groups import any_of, collected
from spark_assign.report.report_data import BUCKETS, DRAWN_GROUPS, MOST_ROWS, SimulationRows
from spark_assign.report.section_charts import TimePanel, draw_pauses, legend_html
from spark_assign.report.text.simulation import cost_columns, partition_seconds, pause_location, with_variant
from spark_assign.simulation.simulation import Simulation
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.simulation import COMPARED_VARIANTS

Tables = Mapping[str, DataFrame]

VARIANTS = (*COMPARED_VARIANTS, "configured")
"""Display order of the variants. Others follow."""

MAX_LISTED = 60
"""Maximum number of rows of the groups with the largest costs or savings."""


def build_simulation_section(rows: SimulationRows) -> dict[str, Any]:
    """Returns what the template shows: costs per variant, the groups with the largest costs, and a chart for each."""
    tables = [_costs_table(rows.totals), _groups_table(rows.groups), _comparison_table(rows.comparison)]
    costs, rebalances, pauses = map(parts.by_group, (rows.groups, rows.rebalances, rows.pauses))
    drawn = [key for key in dict.fromkeys([*pauses, *rebalances]) if key in costs]
    legend = {"paused": "partitions not consumed", "round": "a rebalance, from its first cause to its end"}
    return {
        "tables": [*tables, parts.REJECTED.table(rows.rejected)],
        "drawings": [
            _pause_chart(at, key, costs[key], rebalances[key], pauses[key]) for at, key in enumerate(drawn, start=1)
        ],
        "legend": legend_html(legend),
        "drawn_without_ownership": bool(rows.rebalances) and not rows.pauses,
    }


def _pause_chart(at: int, key: tuple[str, str], costs: Rows, rebalances: Rows, pauses: Rows) -> parts.Drawing:
    """Draws the rebalances and pauses of a group, one panel per variant."""
    rebalances_of, pauses_of = (parts.grouped(rows, itemgetter("variant")) for rows in (rebalances, pauses))
    panels = [
        TimePanel(
            name=cost["variant"],
            periods=[(row["start_ms"], row["end_ms"], row["paused_partitions"]) for row in pauses_of[cost["variant"]]],
            rebalances=[(row["start_ms"], row["end_ms"]) for row in rebalances_of[cost["variant"]]],
            text=_cost_text(cost),
        )
        for cost in sorted(costs, key=_variant_order)
    ]
    name, partitions = "/".join(key), costs[-1]["partitions"]
    heading = f"{name}, {count(partitions, 'partition')}"
    return parts.Drawing(heading, draw_pauses(panels, f"time{at}", f"Rebalances of {name} in time", partitions))


def _variant_order(row: Row) -> tuple[int, str]:
    return listed_order(row["variant"], VARIANTS)


def _cost_text(row: Row) -> str:
    return (
        f"{count(row['rebalances'], 'rebalance')}, {partition_seconds(row['paused_partition_ms'])} "
        f"partition-seconds not consumed, longest pause {seconds(row['longest_pause_ms'])}"
    )


def _costs_table(rows: Rows) -> parts.Table:
    """Returns the table with one row per variant."""
    counts = (*parts.figures("groups", "rebalances"), parts.figure("Restarts", "members_restarted"))
    ordered = sorted(rows, key=_variant_order)
    return parts.table_of(
        "Costs of each variant, all groups", ordered, [parts.words("Variant", "variant"), *counts, *_PAUSES]
    )


def _groups_table(rows: Rows) -> parts.Table:
    return parts.table_of(
        "Groups with the largest costs",
        rows,
        [
            *(parts.GROUP, parts.words("Variant", "variant")),
            *(*parts.figures("partitions", "rebalances"), *_PAUSES),
            parts.Column("Partition", lambda row: pause_location(row, with_group=False)),
        ],
    )


_PAUSES = (
    parts.figure("Partition-seconds not consumed", "paused_partition_ms", partition_seconds),
    parts.figure("Longest pause", "longest_pause_ms", seconds),
)


def _comparison_table(rows: Rows) -> parts.Table:
    """Returns the table of a comparison (`tables.simulation.COMPARISON`)."""
    return parts.table_of(
        "Groups with the largest savings of cooperative rebalancing: partition-seconds not consumed",
        rows,
        [
            parts.GROUP,
            *(parts.figure(name, f"{name}_paused_partition_ms", partition_seconds) for name in COMPARED_VARIANTS),
            *(parts.figure(f"{name.capitalize()}/eager", f"{name}_ratio", ratio) for name in COMPARED_VARIANTS[1:]),
        ],
    )


# --- rows -----------------------------------------------------------------------------------------------------


def simulation_rows(simulation: Simulation | Mapping[str, Tables]) -> SimulationRows:
    """Returns the rows of the section, from a simulation, or from stored ones by the name of the variant.

    Of a simulation, only the groups that are drawn are simulated again.
    """
    stored = {simulation.variants[0]: simulation.tables} if isinstance(simulation, Simulation) else simulation
    comparison = next((tables["comparison"] for tables in stored.values() if "comparison" in tables), None)
    availability, rebalances, rejected = (
        _union_variants(stored, name) for name in ("availability", "rebalances", "rejected")
    )
    rows = SimulationRows(
        comparison=() if comparison is None else collected(_most_improved(comparison)),
        rejected=() if rejected is None else collected(_rejected_groups(rejected)),
    )
    if availability is None:
        return rows
    totals, groups = _largest_costs(availability)
    rows = replace(rows, totals=totals, groups=groups)
    drawn = _charted_groups(groups)
    if not drawn:
        return rows
    if isinstance(simulation, Simulation):
        ownership: DataFrame | None = with_variant(_ownership_of(simulation, drawn), simulation.variants[0])
    else:
        ownership = _union_variants(stored, "ownership")
    return replace(
        rows,
        rebalances=() if rebalances is None else collected(_rebalance_times(rebalances.where(any_of(drawn)))),
        pauses=() if ownership is None else collected(_mean_pauses(ownership.where(any_of(drawn)))),
    )


def charted_ownership(simulation: Simulation) -> DataFrame:
    """Returns `tables.simulation.OWNERSHIP` of the groups that a report draws, because that of all groups is large."""
    drawn = _charted_groups(_largest_costs(with_variant(simulation.availability, simulation.variants[0]))[1])
    return _ownership_of(simulation, drawn) if drawn else simulation.ownership.limit(0)


def _ownership_of(simulation: Simulation, groups: Rows) -> DataFrame:
    """Returns the ownership of these groups; simulates no others."""
    return replace(simulation, facts=simulation.facts.where(any_of(groups))).ownership


def _union_variants(simulation: Mapping[str, Tables], name: str) -> DataFrame | None:
    """Returns the union of a table of all variants, with a column `variant`; None if no variant has it."""
    tables = [with_variant(tables[name], label) for label, tables in simulation.items() if name in tables]
    return reduce(DataFrame.unionByName, tables) if tables else None


def _largest_costs(availability: DataFrame) -> tuple[list[Row], list[Row]]:
    """Returns one row per variant, and all rows of the groups with the largest cost of any variant."""
    totals = availability.groupBy("variant").agg(*cost_columns(availability))
    largest = F.max("paused_partition_ms").over(Window.partitionBy(*GROUP_KEY))
    ordered = availability.withColumn("largest", largest).orderBy(F.desc("largest"), *GROUP_KEY, "variant")
    return collected(totals.limit(MOST_ROWS)), collected(ordered.drop("largest").limit(MAX_LISTED))


def _charted_groups(rows: Rows) -> Rows:
    paused = {group_key(row): row for row in rows if row["paused_partition_ms"]}
    return list(paused.values())[:DRAWN_GROUPS]


def _rebalance_times(rebalances: DataFrame) -> DataFrame:
    columns = (*GROUP_KEY, "variant", "start_ms", "end_ms")
    return rebalances.select(*columns).orderBy(*columns).limit(DRAWN_GROUPS * MOST_ROWS)


def _mean_pauses(ownership: DataFrame) -> DataFrame:
    """Returns the mean number of paused partitions in equal time buckets, from the first pause to the last.

    An interval counts in every bucket that it overlaps, in proportion to the overlap, so that the sum is preserved.
    """
    of_group = Window.partitionBy(*GROUP_KEY)
    first, last = (F.floor((F.col(at) - F.col("first_ms")) / F.col("width")) for at in ("start_ms", "inner_ms"))
    bucket_start = F.col("first_ms") + F.col("bucket") * F.col("width")
    overlap = F.least("end_ms", "bucket_end") - F.greatest("start_ms", "bucket_start")
    return (
        ownership.where("state <> 'consumed' and end_ms > start_ms")
        .withColumns({"first_ms": F.min("start_ms").over(of_group), "last_ms": F.max("end_ms").over(of_group)})
        .withColumn("width", F.greatest(F.lit(1), F.ceil((F.col("last_ms") - F.col("first_ms")) / BUCKETS)))
        .withColumn("inner_ms", F.col("end_ms") - 1)
        .withColumn("bucket", F.explode(F.sequence(first, last)))
        .withColumns({"bucket_start": bucket_start, "bucket_end": bucket_start + F.col("width")})
        .groupBy(*GROUP_KEY, "variant", F.col("bucket_start").alias("start_ms"), F.col("bucket_end").alias("end_ms"))
        .agg((F.sum(overlap) / F.first("width")).alias("paused_partitions"))
        .orderBy(*GROUP_KEY, "variant", "start_ms")
    )


def _most_improved(comparison: DataFrame) -> DataFrame:
    """Returns rows of a comparison, those with the largest savings of cooperative rebalancing first."""
    savings = F.col("eager_paused_partition_ms") - F.col("cooperative_paused_partition_ms")
    return comparison.orderBy(F.desc_nulls_last(savings), *GROUP_KEY).limit(MAX_LISTED)


def _rejected_groups(rejected: DataFrame) -> DataFrame:
    distinct = rejected.select(*GROUP_KEY, "code", "detail").distinct()
    return distinct.orderBy(*GROUP_KEY, "code").limit(MOST_ROWS)
