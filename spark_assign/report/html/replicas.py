"""Builds the section of the report on replicas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from spark_assign.report.formatting import Row, Rows, cell, count, number, ratio
from spark_assign.report.html.report_data import MOST_ROWS, ReplicaRows, collected
from spark_assign.report.html.section_parts import ClusterSection, Length, Table, any_table, rejected_table


def build_replica_section(rows: ReplicaRows) -> ClusterSection:
    """Returns the section on a placement, a reassignment, or a check of replicas (`ReplicaRows`)."""
    tables = []
    if rows.metrics:
        tables.append(_reassignment_table(rows.metrics))
    if rows.loads:
        tables.append(_broker_loads(rows.loads))
    if rows.reasons:
        tables.append(any_table("Replicas that move, by reason", rows.reasons))
    if rows.clusters:
        tables.append(_check_table(rows.clusters))
    if rows.brokers:
        tables.append(_brokers_table(rows.brokers))
    if len(rows.racks) > 1:
        tables.append(any_table("Racks", rows.racks))
    if rows.problem_counts:
        tables.append(any_table("Partitions with a problem, by code", rows.problem_counts))
    if rows.problems:
        more = f"Shown are the first {len(rows.problems):,}; the table problems has all." if rows.problem_counts else ""
        tables.append(any_table("Problems", rows.problems, more))
    if rows.rejected:
        tables.append(rejected_table(rows.rejected))
    return ClusterSection(_replica_sentences(rows), tables)


def _replica_sentences(rows: ReplicaRows) -> list[str]:
    """Returns a sentence about the reassignment or the check."""
    if rows.metrics:
        moved, bound, replicas = (
            sum(row[name] for row in rows.metrics) for name in ("moved", "lower_bound", "replicas")
        )
        fewest = "which is the minimum" if moved == bound else f"and at least {number(bound)} must move"
        return [f"{number(moved)} of {count(replicas, 'replica')} move, {fewest}."]
    if rows.clusters:
        bad = sum(row[name] for row in rows.clusters for name, _ in _PROBLEMS)
        found = "No problem was found" if not bad else f"{count(bad, 'problem')} of partitions were found"
        return [f"{count(sum(row['replicas'] for row in rows.clusters), 'replica')} were checked. {found}."]
    return []


def _reassignment_table(rows: Rows) -> Table:
    titles = ("Brokers", "Replicas", "Moved", "Lower bound", "Moved bytes", "Leaders changed")
    return Table(
        "Reassignment by cluster",
        [
            *(("Cluster", False), *((title, True) for title in titles)),
            *(("Replicas per broker", False), ("Leaders per broker", False)),
            *(("Brokers out of tolerance", True), ("By leaders", True)),
        ],
        [
            [
                row["cluster"],
                *(cell(row[title.lower().replace(" ", "_")]) for title in titles),
                *(f"{number(row[f'min_{what}'])} to {number(row[f'max_{what}'])}" for what in ("replicas", "leaders")),
                *(number(row[f"{what}_out_of_tolerance"]) for what in ("brokers", "leaders")),
            ]
            for row in rows
        ],
    )


def _broker_loads(rows: Rows) -> Table:
    """Returns one line per broker: replicas and preferred leaders, before and after."""
    sides = ("before", "after") if any(row["replicas_before"] is not None for row in rows) else ("after",)
    return Table(
        "Replicas and preferred leaders of each broker" + (", before and after" if len(sides) > 1 else ""),
        [
            ("Broker", False),
            *((f"{what} {when}", True) for what in ("Replicas", "Leaders") for when in sides),
        ],
        [
            [
                f"{row['cluster']}/{row['broker_id']}",
                *(_load_bar(rows, row, what, when) for what in ("replicas", "leaders") for when in sides),
            ]
            for row in rows
        ],
    )


def _load_bar(rows: Rows, row: Row, what: str, when: str) -> Length:
    most = max((each[f"{what}_{side}"] or 0 for each in rows for side in ("before", "after")), default=0) or 1
    value = row[f"{what}_{when}"]
    return Length("was" if when == "before" else "is", number(value), wide=100 * (value or 0) / most)


_PROBLEMS = (
    ("shared_rack", "Shared rack"),
    ("fenced_broker", "Fenced broker"),
    ("unknown_broker", "Unknown broker"),
    ("duplicate_replica", "Duplicate replica"),
    ("too_few_replicas", "Too few replicas"),
    ("uneven_replication_factor", "Uneven replication factor"),
)


def _check_table(rows: Rows) -> Table:
    sizes = ("Brokers", "Partitions", "Replicas")
    return Table(
        "Clusters that were checked; partitions with each problem",
        [
            ("Cluster", False),
            *((title, True) for title in sizes),
            *(("Replicas over mean", False), ("Leaders over mean", False)),
            *((title, True) for _, title in _PROBLEMS),
        ],
        [
            [
                row["cluster"],
                *(number(row[title.lower()]) for title in sizes),
                *(_ratio_span(row, what) for what in ("replicas", "leaders")),
                *(number(row[name]) for name, _ in _PROBLEMS),
            ]
            for row in rows
        ],
    )


def _ratio_span(row: Row, what: str) -> str:
    return f"{ratio(row[f'min_{what}_over_mean'])} to {ratio(row[f'max_{what}_over_mean'])}"


def _brokers_table(rows: Rows) -> Table:
    most: dict[str, Any] = {name: max(row[name] for row in rows) or 1 for name in ("replicas", "leaders")}
    fenced = any(row["fenced"] for row in rows)
    return Table(
        "Brokers",
        [("Broker", False), ("Rack", False), ("Replicas", True), ("Leaders", True)]
        + [("Replicas over mean", True), ("Leaders over mean", True)]
        + ([("Fenced", False)] if fenced else []),
        [
            [
                f"{row['cluster']}/{row['broker_id']}",
                cell(row["rack_id"]),
                *(
                    Length("is", number(row[name]), wide=100 * row[name] / most[name])
                    for name in ("replicas", "leaders")
                ),
                *(ratio(row[f"{name}_over_mean"]) for name in ("replicas", "leaders")),
                *([cell(row["fenced"])] if fenced else []),
            ]
            for row in rows
        ],
    )


def replica_rows(tables: Mapping[str, DataFrame]) -> ReplicaRows:
    """Returns the rows of a placement, a reassignment, or a check that the page displays."""
    found: dict[str, Rows] = {}
    if "metrics" in tables:
        found["metrics"] = collected(tables["metrics"].orderBy(F.desc("moved"), "cluster").limit(MOST_ROWS))
    if "moves" in tables:
        reasons = tables["moves"].groupBy("cluster", "reason").agg(F.count(F.lit(1)).alias("replicas"))
        found["reasons"] = collected(reasons.orderBy("cluster", F.desc("replicas"), "reason").limit(MOST_ROWS))
    if "placement" in tables:
        found["loads"] = collected(_collect_broker_loads(tables["placement"], "previous_replicas", "replicas"))
    elif "placements" in tables:
        found["loads"] = collected(_collect_broker_loads(tables["placements"], None, "replicas"))
    for name, order in (
        ("clusters", ["cluster"]),
        ("brokers", ["cluster", "broker_id"]),
        ("racks", ["cluster", "rack_id"]),
        ("problems", ["cluster", "topic", "partition", "code"]),
        ("rejected", ["cluster", "code"]),
    ):
        if name in tables:
            found[name] = collected(tables[name].orderBy(*order).limit(MOST_ROWS))
    if len(found.get("problems", ())) == MOST_ROWS:
        found["problem_counts"] = collected(_count_by_code(tables["problems"]).limit(MOST_ROWS))
    return ReplicaRows(**found)


def _count_by_code(problems: DataFrame) -> DataFrame:
    return problems.groupBy("code").agg(F.count(F.lit(1)).alias("partitions")).orderBy(F.desc("partitions"), "code")


def _collect_broker_loads(placement: DataFrame, before: str | None, after: str) -> DataFrame:
    """Returns replicas and preferred leaders of each broker, before and after; at most `MOST_ROWS` brokers."""
    sides = [(name, when) for name, when in ((before, "before"), (after, "after")) if name is not None]
    each = [_count_per_broker(placement, name, when) for name, when in sides]
    key = ["cluster", "broker_id"]
    both = each[0] if len(each) == 1 else each[0].join(each[1], key, "full")
    counts = [name for name in both.columns if name not in key]
    both = both.withColumns({name: F.coalesce(name, F.lit(0)) for name in counts})
    if before is None:
        none = F.lit(None).cast("long")
        both = both.withColumns({"replicas_before": none, "leaders_before": none})
    return both.orderBy(*key).limit(MOST_ROWS)


def _count_per_broker(placement: DataFrame, name: str, when: str) -> DataFrame:
    replicas = placement.select("cluster", F.posexplode(_broker_list(placement, name)).alias("place", "broker_id"))
    return replicas.groupBy("cluster", "broker_id").agg(
        F.count(F.lit(1)).alias(f"replicas_{when}"), F.count(F.when(F.col("place") == 0, 1)).alias(f"leaders_{when}")
    )


def _broker_list(table: DataFrame, name: str) -> Column:
    """Returns a column of broker ids, which is JSON text if the table was stored as CSV."""
    text = isinstance(table.schema[name].dataType, StringType)
    return F.from_json(name, "array<int>") if text else F.col(name)
