"""The report's section of rebalances in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

from markupsafe import Markup
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.report.formatting import DASH, count, number, ratio, seconds
from spark_assign.report.html.report_data import (
    BUCKETS,
    DRAWN_GROUPS,
    MOST_ROWS,
    Row,
    Rows,
    SimulationRows,
    any_of,
    collected,
)
from spark_assign.report.html.section_charts import TimePanel, draw_pauses, legend_html
from spark_assign.report.html.section_parts import Drawing, Table, by_group, rejected_table
from spark_assign.simulation.simulation import COMPARED, Simulation
from spark_assign.tables.groups import GROUP_KEY

PROTOCOLS = ("eager", "cooperative", "static", "consumer", "configured")
"""The order in which protocols stand below each other; others follow."""


@dataclass(frozen=True)
class SimulationSection:
    """Rebalances in time."""

    tables: Sequence[Table]
    drawings: Sequence[Drawing]
    legend: Markup
    drawn_without_ownership: bool


def build_simulation_section(rows: SimulationRows) -> SimulationSection:
    """Costs per protocol, the groups that lose most, and pictures of some; see `SimulationRows`."""
    tables = [_costs_table(rows.totals)] if rows.totals else []
    if rows.groups:
        tables.append(_groups_table(rows.groups))
    if rows.comparison:
        tables.append(_comparison_table(rows.comparison))
    if rows.rejected:
        tables.append(rejected_table(rows.rejected))
    rounds, pauses = by_group(rows.rounds), by_group(rows.pauses)
    sizes = {(row["cluster"], row["group_id"]): row for row in rows.groups}
    drawn = [key for key in dict.fromkeys([*pauses, *rounds]) if key in sizes]
    return SimulationSection(
        tables,
        [
            _pause_chart(at, key, sizes[key], rounds[key], pauses[key], by_group(rows.groups)[key])
            for at, key in enumerate(drawn, start=1)
        ],
        legend_html({"paused": "partitions not consumed", "round": "a rebalance, from its first cause to its end"}),
        bool(rows.rounds) and not rows.pauses,
    )


def _pause_chart(at: int, key: tuple[str, str], size: Row, rounds: Rows, pauses: Rows, costs: Rows) -> Drawing:
    cost = {row["protocol"]: row for row in costs}
    panels = [
        TimePanel(
            name=protocol,
            periods=[
                (row["from_ms"], row["to_ms"], row["not_consumed"]) for row in pauses if row["protocol"] == protocol
            ],
            rounds=[(row["begin_ms"], row["end_ms"]) for row in rounds if row["protocol"] == protocol],
            said=_cost_text(cost[protocol]),
        )
        for protocol in sorted(cost, key=_protocol_order)
    ]
    name = "/".join(key)
    heading = f"{name}, {count(size['partitions'], 'partition')}"
    return Drawing(heading, draw_pauses(panels, f"time{at}", f"Rebalances of {name} in time", size["partitions"]))


def _protocol_order(protocol: str) -> tuple[int, str]:
    return (PROTOCOLS.index(protocol) if protocol in PROTOCOLS else len(PROTOCOLS), protocol)


def _cost_text(row: Row) -> str:
    return (
        f"{count(row['rebalances'], 'rebalance')}, {_partition_seconds(row['partition_ms_not_consumed'])} "
        f"partition-seconds not consumed, longest pause {seconds(row['longest_pause_ms'])}"
    )


def _partition_seconds(ms: int | None) -> str:
    return DASH if ms is None else f"{ms / 1000:,.1f}"


def _costs_table(rows: Rows) -> Table:
    """A line per protocol."""
    titles = ("Groups", "Rebalances", "Restarts", "Partition-seconds not consumed", "Longest pause")
    return Table(
        "What each protocol costs, all groups",
        [("Protocol", False), *((title, True) for title in titles)],
        [
            [
                row["protocol"],
                *(number(row[name]) for name in ("groups", "rebalances", "members_restarted")),
                _partition_seconds(row["partition_ms_not_consumed"]),
                seconds(row["longest_pause_ms"]),
            ]
            for row in sorted(rows, key=lambda row: _protocol_order(row["protocol"]))
        ],
    )


def _groups_table(rows: Rows) -> Table:
    titles = ("Partitions", "Rebalances", "Partition-seconds not consumed", "Longest pause")
    return Table(
        "Groups that lose most",
        [("Group", False), ("Protocol", False), *((title, True) for title in titles), ("Of", False)],
        [
            [
                f"{row['cluster']}/{row['group_id']}",
                row["protocol"],
                number(row["partitions"]),
                number(row["rebalances"]),
                _partition_seconds(row["partition_ms_not_consumed"]),
                seconds(row["longest_pause_ms"]),
                DASH
                if row["longest_pause_topic"] is None
                else f"{row['longest_pause_topic']}-{row['longest_pause_partition']}",
            ]
            for row in rows
        ],
    )


def _comparison_table(rows: Rows) -> Table:
    """Rows of `protocol.compare_protocols`; one of an older release lacks protocols."""
    names = [name for name in COMPARED if all(row.get(f"{name}_rebalances") is not None for row in rows)]
    return Table(
        "Groups that gain most by cooperating: partition-seconds not consumed",
        [
            ("Group", False),
            *((name, True) for name in names),
            *((f"{name.capitalize()}/eager", True) for name in names[1:]),
        ],
        [
            [
                f"{row['cluster']}/{row['group_id']}",
                *(_partition_seconds(row[f"{name}_partition_ms_not_consumed"]) for name in names),
                *(ratio(row[f"{name}_ratio"]) for name in names[1:]),
            ]
            for row in rows
        ],
    )


Tables = Mapping[str, DataFrame]

MAX_LISTED = 60
"""Rows of groups that lose or gain most by their simulation."""


def simulation_rows(simulation: Simulation | Mapping[str, Tables]) -> SimulationRows:
    """What the page shows of a simulation; of stored ones by the name of what is compared (`collect.report`)."""
    if isinstance(simulation, Simulation):
        return _simulate_charted(simulation)
    comparison = next((tables["comparison"] for tables in simulation.values() if "comparison" in tables), None)
    rejected = [tables["rejected"] for tables in simulation.values() if "rejected" in tables]
    shown = SimulationRows(
        comparison=() if comparison is None else collected(_most_improved(comparison)),
        rejected=() if not rejected else collected(_rejected_groups(reduce(DataFrame.unionByName, rejected))),
    )
    availability = _union_protocols(simulation, "availability")
    if availability is None:
        return shown
    totals, groups = _worst_groups(availability)
    drawn = _charted_groups(groups)
    rounds, ownership = _union_protocols(simulation, "rounds"), _union_protocols(simulation, "ownership")
    return replace(
        shown,
        totals=totals,
        groups=groups,
        rounds=() if rounds is None or not drawn else collected(_round_times(rounds.where(any_of(drawn)))),
        pauses=() if ownership is None or not drawn else collected(_mean_pauses(ownership.where(any_of(drawn)))),
    )


def _simulate_charted(simulation: Simulation) -> SimulationRows:
    """Of the groups that are drawn everything is played once more, of the others nothing."""
    of_first_protocol = partial(_with_protocol, name=simulation.protocols[0])
    totals, groups = _worst_groups(of_first_protocol(simulation.availability))
    drawn = _charted_groups(groups)
    rejected = collected(_rejected_groups(simulation.rejected))
    if not drawn:
        return SimulationRows(totals, groups, rejected=rejected)
    these = replace(simulation, facts=simulation.facts.where(any_of(drawn)))
    return SimulationRows(
        totals,
        groups,
        rounds=collected(_round_times(of_first_protocol(simulation.rounds.where(any_of(drawn))))),
        pauses=collected(_mean_pauses(of_first_protocol(these.ownership))),
        rejected=rejected,
    )


def charted_ownership(simulation: Simulation) -> DataFrame:
    """Who had which partition when, of the groups that a report draws (`tables.simulation.OWNERSHIP`).

    It is a row per partition and change of its state: of all groups too much to store by the way.
    """
    of_first_protocol = partial(_with_protocol, name=simulation.protocols[0])
    drawn = _charted_groups(_worst_groups(of_first_protocol(simulation.availability))[1])
    if not drawn:
        return simulation.ownership.limit(0)
    return replace(simulation, facts=simulation.facts.where(any_of(drawn))).ownership


def _with_protocol(table: DataFrame, name: str) -> DataFrame:
    return table if "protocol" in table.columns else table.withColumn("protocol", F.lit(name))


def _union_protocols(simulation: Mapping[str, Tables], name: str) -> DataFrame | None:
    """One table of all that is compared, with a column protocol."""
    every = [_with_protocol(tables[name], label) for label, tables in simulation.items() if name in tables]
    return reduce(DataFrame.unionByName, every) if every else None


def _worst_groups(availability: DataFrame) -> tuple[list[Row], list[Row]]:
    """A row per protocol, and all rows of the groups that lose most with any."""
    sums = ("rebalances", "members_restarted", "partition_ms_not_consumed")
    totals = availability.groupBy("protocol").agg(
        F.count(F.lit(1)).alias("groups"),
        *(F.sum(name).alias(name) for name in sums),
        F.max("longest_pause_ms").alias("longest_pause_ms"),
    )
    worst = F.max("partition_ms_not_consumed").over(Window.partitionBy(*GROUP_KEY))
    ordered = availability.withColumn("worst", worst).orderBy(F.desc("worst"), *GROUP_KEY, "protocol")
    return collected(totals.limit(MOST_ROWS)), collected(ordered.drop("worst").limit(MAX_LISTED))


def _charted_groups(rows: Rows) -> Rows:
    keys = dict.fromkeys((row["cluster"], row["group_id"]) for row in rows if row["partition_ms_not_consumed"])
    return [{"cluster": cluster, "group_id": group_id} for cluster, group_id in list(keys)[:DRAWN_GROUPS]]


def _round_times(rounds: DataFrame) -> DataFrame:
    columns = ("protocol", "begin_ms", "end_ms")
    return rounds.select(*GROUP_KEY, *columns).orderBy(*GROUP_KEY, *columns).limit(DRAWN_GROUPS * MOST_ROWS)


def _mean_pauses(ownership: DataFrame) -> DataFrame:
    """Partitions not consumed, as means of equal time buckets of the time in which something stands still.

    What is not consumed keeps its sum: an interval counts in every time bucket that it touches, by as much as it does.
    """
    still = ownership.where("state <> 'consumed' and to_ms > from_ms")
    of_group = Window.partitionBy(*GROUP_KEY)
    begin, end = F.min("from_ms").over(of_group), F.max("to_ms").over(of_group)
    wide = F.greatest(F.lit(1), F.ceil((F.col("end") - F.col("begin")) / BUCKETS))
    bucket_of = {"from_ms": F.col("from_ms"), "to_ms": F.col("to_ms") - 1}
    first, last = (F.floor((at - F.col("begin")) / F.col("wide")) for at in bucket_of.values())
    since = F.col("begin") + F.col("bucket") * F.col("wide")
    overlap = F.least("to_ms", F.col("since") + F.col("wide")) - F.greatest("from_ms", "since")
    return (
        still.withColumns({"begin": begin, "end": end})
        .withColumn("wide", wide)
        .withColumn("bucket", F.explode(F.sequence(first, last)))
        .withColumn("since", since)
        .withColumn("until", F.col("since") + F.col("wide"))
        .groupBy(*GROUP_KEY, "protocol", F.col("since").alias("from_ms"), F.col("until").alias("to_ms"))
        .agg((F.sum(overlap) / F.first("wide")).alias("not_consumed"))
        .orderBy(*GROUP_KEY, "protocol", "from_ms")
    )


def _most_improved(comparison: DataFrame) -> DataFrame:
    """Rows of `protocol.compare_protocols`, those that gain most by cooperating first."""
    gain = F.col("eager_partition_ms_not_consumed") - F.col("cooperative_partition_ms_not_consumed")
    return comparison.orderBy(F.desc_nulls_last(gain), *GROUP_KEY).limit(MAX_LISTED)


def _rejected_groups(rejected: DataFrame) -> DataFrame:
    once = rejected.select(*GROUP_KEY, "code", "detail").distinct()
    return once.orderBy(*GROUP_KEY, "code").limit(MOST_ROWS)
