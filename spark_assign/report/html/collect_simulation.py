"""From simulations of the group protocol to the rows of a report (bounds: `rows`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial, reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.report.html.bounded_collect import any_of, collected
from spark_assign.report.html.report_data import BUCKETS, DRAWN_GROUPS, MOST_ROWS, Row, Rows, SimulationRows
from spark_assign.simulation.simulation import Simulation
from spark_assign.tables.groups import GROUP_KEY

Tables = Mapping[str, DataFrame]

SHOWN = 60
"""Rows of groups that lose or gain most by their simulation."""


def simulation_rows(simulation: Simulation | Mapping[str, Tables]) -> SimulationRows:
    """What the page shows of a simulation; of stored ones by the name of what is compared (`collect.report`)."""
    if isinstance(simulation, Simulation):
        return _of_simulation(simulation)
    comparison = next((tables["comparison"] for tables in simulation.values() if "comparison" in tables), None)
    rejected = [tables["rejected"] for tables in simulation.values() if "rejected" in tables]
    shown = SimulationRows(
        comparison=() if comparison is None else collected(_gaining(comparison)),
        rejected=() if not rejected else collected(_refused(reduce(DataFrame.unionByName, rejected))),
    )
    availability = _union(simulation, "availability")
    if availability is None:
        return shown
    totals, groups = _losing(availability)
    drawn = _first_groups(groups)
    rounds, ownership = _union(simulation, "rounds"), _union(simulation, "ownership")
    return replace(
        shown,
        totals=totals,
        groups=groups,
        rounds=() if rounds is None or not drawn else collected(_rounds(rounds.where(any_of(drawn)))),
        pauses=() if ownership is None or not drawn else collected(_pauses(ownership.where(any_of(drawn)))),
    )


def _of_simulation(simulation: Simulation) -> SimulationRows:
    """Of the groups that are drawn everything is played once more, of the others nothing."""
    told = partial(_with_protocol, name=simulation.protocols[0])
    totals, groups = _losing(told(simulation.availability))
    drawn = _first_groups(groups)
    rejected = collected(_refused(simulation.rejected))
    if not drawn:
        return SimulationRows(totals, groups, rejected=rejected)
    these = replace(simulation, facts=simulation.facts.where(any_of(drawn)))
    return SimulationRows(
        totals,
        groups,
        rounds=collected(_rounds(told(simulation.rounds.where(any_of(drawn))))),
        pauses=collected(_pauses(told(these.ownership))),
        rejected=rejected,
    )


def drawn_ownership(simulation: Simulation) -> DataFrame:
    """Who had which partition when, of the groups that a report draws (`tables.simulation.OWNERSHIP`).

    It is a row per partition and change of its state: of all groups too much to store by the way.
    """
    told = partial(_with_protocol, name=simulation.protocols[0])
    drawn = _first_groups(_losing(told(simulation.availability))[1])
    if not drawn:
        return simulation.ownership.limit(0)
    return replace(simulation, facts=simulation.facts.where(any_of(drawn))).ownership


def _with_protocol(table: DataFrame, name: str) -> DataFrame:
    return table if "protocol" in table.columns else table.withColumn("protocol", F.lit(name))


def _union(simulation: Mapping[str, Tables], name: str) -> DataFrame | None:
    """One table of all that is compared, with a column protocol."""
    every = [_with_protocol(tables[name], label) for label, tables in simulation.items() if name in tables]
    return reduce(DataFrame.unionByName, every) if every else None


def _losing(availability: DataFrame) -> tuple[list[Row], list[Row]]:
    """A row per protocol, and all rows of the groups that lose most with any."""
    sums = ("rebalances", "members_restarted", "partition_ms_not_consumed")
    totals = availability.groupBy("protocol").agg(
        F.count(F.lit(1)).alias("groups"),
        *(F.sum(name).alias(name) for name in sums),
        F.max("longest_pause_ms").alias("longest_pause_ms"),
    )
    worst = F.max("partition_ms_not_consumed").over(Window.partitionBy(*GROUP_KEY))
    ordered = availability.withColumn("worst", worst).orderBy(F.desc("worst"), *GROUP_KEY, "protocol")
    return collected(totals.limit(MOST_ROWS)), collected(ordered.drop("worst").limit(SHOWN))


def _first_groups(rows: Rows) -> Rows:
    keys = dict.fromkeys((row["cluster"], row["group_id"]) for row in rows if row["partition_ms_not_consumed"])
    return [{"cluster": cluster, "group_id": group_id} for cluster, group_id in list(keys)[:DRAWN_GROUPS]]


def _rounds(rounds: DataFrame) -> DataFrame:
    columns = ("protocol", "begin_ms", "end_ms")
    return rounds.select(*GROUP_KEY, *columns).orderBy(*GROUP_KEY, *columns).limit(DRAWN_GROUPS * MOST_ROWS)


def _pauses(ownership: DataFrame) -> DataFrame:
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


def _gaining(comparison: DataFrame) -> DataFrame:
    """Rows of `protocol.compare_protocols`, those that gain most by cooperating first."""
    gain = F.col("eager_partition_ms_not_consumed") - F.col("cooperative_partition_ms_not_consumed")
    return comparison.orderBy(F.desc_nulls_last(gain), *GROUP_KEY).limit(SHOWN)


def _refused(rejected: DataFrame) -> DataFrame:
    once = rejected.select(*GROUP_KEY, "code", "detail").distinct()
    return once.orderBy(*GROUP_KEY, "code").limit(MOST_ROWS)
