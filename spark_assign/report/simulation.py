"""What a person sees of simulated rebalances: the costs of each variant, the groups with the largest costs, charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import itemgetter
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.report import views
from spark_assign.report.formatting import (
    DASH,
    Row,
    Rows,
    aligned,
    by_group,
    count,
    group_key,
    in_cluster,
    listed,
    listed_order,
    ratio,
    rejected_lines,
)
from spark_assign.report.listed_groups import any_of, collected, long_sum, num_rows, read_rejected_lines
from spark_assign.report.report_data import BUCKETS, DRAWN_GROUPS
from spark_assign.report.section_charts import TimePanel, draw_pauses, legend_html
from spark_assign.report.views import GROUP, MOST_ROWS, Column, View, figure
from spark_assign.simulation.scenarios import LocalSimulation
from spark_assign.simulation.simulate_groups import Simulation
from spark_assign.spark.progress import progress
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.simulation import COMPARED_VARIANTS, COST_COLUMNS

Tables = Mapping[str, DataFrame]


VARIANTS = (*COMPARED_VARIANTS, "configured")
"""Display order of the variants. Others follow."""


def pause_location(row: Row | None, with_group: bool) -> str:
    """Returns the partition with the longest pause of a row, optionally with its group; a dash if there is no pause."""
    if row is None or row["longest_pause_topic"] is None:
        return DASH
    partition = f"{row['longest_pause_topic']}-{row['longest_pause_partition']}"
    return f"{in_cluster(row['cluster'], row['group_id'])} {partition}" if with_group else partition


def partition_seconds(ms: int | None) -> str:
    """Returns partition-milliseconds as partition-seconds with one decimal, or a dash for None."""
    return DASH if ms is None else f"{ms / 1000:,.1f}"


def _seconds(milliseconds: int | None) -> str:
    return DASH if milliseconds is None else f"{milliseconds / 1000:,.1f} s"


def _cost_text(row: Row, prefix: str = "") -> str:
    rebalances, paused, longest = (row[f"{prefix}{name}"] for name in ("rebalances", *COST_COLUMNS[:2]))
    unowned = row.get(f"{prefix}unowned_at_end")
    if rebalances is None:
        return DASH
    never = f", {unowned:,} never" if unowned else ""
    return f"{rebalances:,} / {partition_seconds(paused)} / {_seconds(longest)}{never}"


_COSTS = "(rebalances / partition-seconds not consumed / longest pause)"
_PAUSES = (
    figure("partition-seconds not consumed", "paused_partition_ms", partition_seconds),
    figure("longest pause", "longest_pause_ms", _seconds),
)
COSTS = View(
    *("totals", "costs of each variant, all groups"),
    [
        *("variant groups rebalances restarts=members_restarted", *_PAUSES),
        Column("partition", lambda row: pause_location(row.get("longest"), row["groups"] > 1)),
    ],
)
LARGEST = View(
    *("availability", "groups with the largest costs"),
    [
        *(GROUP, "variant partitions rebalances", *_PAUSES),
        Column("partition", lambda row: pause_location(row, with_group=False)),
    ],
)
COMPARED = View(
    *("comparison", f"groups with the largest savings {_COSTS}"),
    [
        *(GROUP, *(Column(name, partial(_cost_text, prefix=f"{name}_"), True) for name in COMPARED_VARIANTS)),
        *(figure(f"{name}/eager", f"{name}_ratio", ratio) for name in COMPARED_VARIANTS[1:]),
    ],
    "-eager_paused_partition_ms - cooperative_paused_partition_ms, cluster, group_id",
)


def with_variant(table: DataFrame, variant: str) -> DataFrame:
    """Returns the table with the column `variant`, which is missing if only one variant was simulated."""
    return table if "variant" in table.columns else table.withColumn("variant", F.lit(variant))


@progress("simulating the events", 1)
def summarize_simulation(
    availability: DataFrame, rejected: DataFrame, variants: Sequence[str], limit: int
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
        rows = collected(comparable.where(any_of(largest)).orderBy(*GROUP_KEY, "variant"), "availability")
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
    listed("totals", [{"variant": name, **row} for name, row in totals.items()])
    sums = ("rebalances", "members_restarted", "paused_partition_ms", "longest_pause_ms")
    rows = [{"variant": name, **row, **{each: row[each] or 0 for each in sums}} for name, row in totals.items()]
    return "\n".join(COSTS.lines(rows, len(rows))[2:])


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
        lines.append([in_cluster(cluster, group), f"{max(sizes, default=0):,}", *cells])
    return "\n".join([f"Groups with the largest costs {_COSTS}:", *aligned(lines)])


@progress("comparing variants", 1)
def summarize_comparison(comparison: DataFrame, rejected: DataFrame, limit: int) -> str:
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
    unowned = [f"{name}_unowned_at_end" for name in COMPARED_VARIANTS]
    sums += [long_sum(name).alias(name) for name in unowned if name in comparison.columns]
    (totals,) = collected(comparison.agg(num_rows("groups"), *sums))
    costs = ", ".join(f"{name} {partition_seconds(totals[name])}" for name in paused)
    lines = [f"{count(totals['groups'], 'group')} compared; partition-seconds not consumed: {costs}"]
    open_costs = {name: totals.get(f"{name}_unowned_at_end") for name in paused}
    lines += _savings_lines({name: totals[name] for name in paused}, open_costs)
    if totals["groups"]:
        lines += COMPARED.printed(comparison, limit, totals["groups"])
    return "\n".join([*lines, *read_rejected_lines(rejected)])


def _simulated_with_all(availability: DataFrame, num_variants: int) -> DataFrame:
    """Returns the rows of the groups that were simulated with every variant."""
    num_simulated = F.count(F.lit(1)).over(Window.partitionBy(*GROUP_KEY))
    return availability.withColumn("simulated", num_simulated).where(f"simulated = {num_variants}").drop("simulated")


_SUMS = ("rebalances", "members_restarted", "paused_partition_ms", "unowned_at_end")


def cost_columns(availability: DataFrame) -> list[SparkColumn]:
    """Returns the number of groups, the sums of their costs, and the longest pause of any group, as aggregates."""
    sums = (long_sum(name) for name in _SUMS if name in availability.columns)
    return [num_rows("groups"), *sums, F.max("longest_pause_ms").alias("longest_pause_ms")]


# --- page ---------------------------------------------------------------------------------------------------------


def build_simulation_section(rows: Mapping[str, Rows]) -> dict[str, Any]:
    """Returns what the template shows: costs per variant, the groups with the largest costs, and a chart for each."""
    totals = sorted(rows.get("totals", ()), key=_variant_order)
    shown = ((COSTS, totals), *((view, rows.get(view.name, ())) for view in (LARGEST, COMPARED, views.REJECTED)))
    costs, rebalances, pauses = (by_group(rows.get(name, ())) for name in ("availability", "rebalances", "pauses"))
    drawn = [key for key in dict.fromkeys([*pauses, *rebalances]) if key in costs]
    legend = {"paused": "partitions not consumed", "round": "a rebalance, from its first cause to its end"}
    return {
        "tables": [view.table(each) for view, each in shown],
        "drawings": [
            _pause_chart(at, key, costs[key], rebalances[key], pauses[key]) for at, key in enumerate(drawn, start=1)
        ],
        "legend": legend_html(legend),
        "drawn_without_ownership": bool(rebalances) and not pauses,
    }


def _pause_chart(at: int, key: tuple[str, str], costs: Rows, rebalances: Rows, pauses: Rows) -> views.Drawing:
    """Draws the rebalances and pauses of a group, one panel per variant."""
    rebalances_of, pauses_of = (views.grouped(rows, itemgetter("variant")) for rows in (rebalances, pauses))
    panels = [
        TimePanel(
            name=cost["variant"],
            periods=[(row["start_ms"], row["end_ms"], row["paused_partitions"]) for row in pauses_of[cost["variant"]]],
            rebalances=[(row["start_ms"], row["end_ms"]) for row in rebalances_of[cost["variant"]]],
            text=_sentence(cost),
        )
        for cost in sorted(costs, key=_variant_order)
    ]
    name, partitions = "/".join(key), costs[-1]["partitions"]
    heading = f"{name}, {count(partitions, 'partition')}"
    return views.Drawing(heading, draw_pauses(panels, f"time{at}", f"Rebalances of {name} in time", partitions))


def _variant_order(row: Row) -> tuple[int, str]:
    return listed_order(row["variant"], VARIANTS)


def _sentence(row: Row) -> str:
    return (
        f"{count(row['rebalances'], 'rebalance')}, {partition_seconds(row['paused_partition_ms'])} "
        f"partition-seconds not consumed, longest pause {_seconds(row['longest_pause_ms'])}"
    )


def simulation_rows(simulation: Simulation | Mapping[str, Tables]) -> dict[str, Rows]:
    """Returns the rows of the section, from a simulation, or from stored ones by the name of the variant.

    Of a simulation, only the groups that are drawn are simulated again.

    Returns:
        `totals`, `availability` (with variant, of the groups with the largest costs), `comparison`, `rejected`; and of
        the drawn groups `rebalances` (cluster, group_id, variant, start_ms, end_ms) and, unless the simulation was
        stored without ownership, `pauses` (the same, and paused_partitions, the mean of that time).
    """
    stored = {simulation.variants[0]: simulation.tables} if isinstance(simulation, Simulation) else simulation
    rows: dict[str, Rows] = {}
    comparison = next((tables["comparison"] for tables in stored.values() if "comparison" in tables), None)
    if comparison is not None:
        rows["comparison"] = COMPARED.read(comparison)
    if (rejected := _union_variants(stored, "rejected")) is not None:
        rows["rejected"] = views.REJECTED.read(rejected.select(*GROUP_KEY, "code", "detail").distinct())
    if (availability := _union_variants(stored, "availability")) is None:
        return rows
    rows["totals"], rows["availability"] = _largest_costs(availability)
    drawn = _charted_groups(rows["availability"])
    if not drawn:
        return rows
    if (rebalances := _union_variants(stored, "rebalances")) is not None:
        rows["rebalances"] = collected(_rebalance_times(rebalances.where(any_of(drawn))))
    if isinstance(simulation, Simulation):
        ownership: DataFrame | None = with_variant(_ownership_of(simulation, drawn), simulation.variants[0])
    else:
        ownership = _union_variants(stored, "ownership")
    if ownership is not None:
        rows["pauses"] = collected(_mean_pauses(ownership.where(any_of(drawn))))
    return rows


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
    return collected(totals.limit(MOST_ROWS)), collected(ordered.drop("largest").limit(MOST_ROWS))


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
    doubles = {name: F.col(name).cast("double") for name in ("start_ms", "end_ms")}  # no difference overflows
    return (
        ownership.where("state <> 'consumed' and end_ms > start_ms")
        .withColumns(doubles)
        .withColumns({"first_ms": F.min("start_ms").over(of_group), "last_ms": F.max("end_ms").over(of_group)})
        .withColumn("width", F.greatest(F.lit(1), F.ceil((F.col("last_ms") - F.col("first_ms")) / BUCKETS)))
        .withColumn("width", F.col("width").cast("double"))  # no product overflows
        .withColumn("inner_ms", F.col("end_ms") - 1)
        .withColumn("bucket", F.explode(F.sequence(first, last)))
        .withColumns({"bucket_start": bucket_start, "bucket_end": bucket_start + F.col("width")})
        .groupBy(*GROUP_KEY, "variant", F.col("bucket_start").alias("start_ms"), F.col("bucket_end").alias("end_ms"))
        .agg((F.sum(overlap) / F.first("width")).alias("paused_partitions"))
        .orderBy(*GROUP_KEY, "variant", "start_ms")
    )
