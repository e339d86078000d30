"""Builds the section of the report on replicas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from spark_assign.report.formatting import Row, Rows, cell, count, number, ratio
from spark_assign.report.html.report_data import MOST_ROWS, ReplicaRows
from spark_assign.report.html.section_parts import Section, Table, any_table, bar, rejected_table, title_of
from spark_assign.report.listed_groups import collected, num_rows


def build_replica_section(rows: ReplicaRows) -> Section:
    """Returns the section on a placement, a reassignment, or a check of replicas (`ReplicaRows`)."""
    more = f"Shown are the first {len(rows.problems):,}; the table problems has all." if rows.problem_counts else ""
    tables = [
        _reassignment_table(rows.metrics),
        _broker_loads(rows.loads),
        any_table("Replicas that move, by reason", rows.reasons),
        _check_table(rows.clusters),
        _brokers_table(rows.brokers),
        any_table("Racks", rows.racks if len(rows.racks) > 1 else ()),
        any_table("Partitions with a problem, by code", rows.problem_counts),
        any_table("Problems", rows.problems, more),
        rejected_table(rows.rejected),
    ]
    return Section(_replica_sentences(rows), tables)


def _replica_sentences(rows: ReplicaRows) -> list[str]:
    """Returns a sentence about the reassignment or the check."""
    if rows.metrics:
        names = ("moved", "lower_bound", "replicas")
        moved, bound, replicas = (sum(row[name] for row in rows.metrics) for name in names)
        fewest = "which is the minimum" if moved == bound else f"and at least {number(bound)} must move"
        return [f"{number(moved)} of {count(replicas, 'replica')} move, {fewest}."]
    if rows.clusters:
        bad = sum(row[name] for row in rows.clusters for name in _PROBLEMS)
        found = "No problem was found" if not bad else f"{count(bad, 'problem')} of partitions were found"
        return [f"{count(sum(row['replicas'] for row in rows.clusters), 'replica')} were checked. {found}."]
    return []


def _reassignment_table(rows: Rows) -> Table:
    names = ("brokers", "replicas", "moved", "lower_bound", "moved_bytes", "leaders_changed")
    return Table(
        "Reassignment by cluster",
        [
            *(("Cluster", False), *((title_of(name), True) for name in names)),
            *(("Replicas per broker", False), ("Leaders per broker", False)),
            *(("Brokers out of tolerance", True), ("By leaders", True)),
        ],
        [
            [
                row["cluster"],
                *(cell(row[name]) for name in names),
                *(_span(row, what, number) for what in ("replicas", "leaders")),
                *(number(row[f"{what}_out_of_tolerance"]) for what in ("brokers", "leaders")),
            ]
            for row in rows
        ],
    )


def _broker_loads(rows: Rows) -> Table:
    """Returns one line per broker: replicas and preferred leaders, before and after."""
    kinds = {"before": "was", "after": "is"}
    sides = list(kinds) if any(row["replicas_before"] is not None for row in rows) else ["after"]
    most = {
        what: max((row[f"{what}_{when}"] or 0 for row in rows for when in kinds), default=0) or 1
        for what in ("replicas", "leaders")
    }
    return Table(
        "Replicas and preferred leaders of each broker" + (", before and after" if len(sides) > 1 else ""),
        [("Broker", False), *((f"{what.capitalize()} {when}", True) for what in most for when in sides)],
        [
            [
                f"{row['cluster']}/{row['broker_id']}",
                *(bar(kinds[when], row[f"{what}_{when}"], most[what]) for what in most for when in sides),
            ]
            for row in rows
        ],
    )


_PROBLEMS = (
    *("shared_rack", "fenced_broker", "unknown_broker"),
    *("duplicate_replica", "too_few_replicas", "uneven_replication_factor"),
)


def _check_table(rows: Rows) -> Table:
    sizes = ("brokers", "partitions", "replicas")
    return Table(
        "Clusters that were checked; partitions with each problem",
        [
            ("Cluster", False),
            *((title_of(name), True) for name in sizes),
            *(("Replicas over mean", False), ("Leaders over mean", False)),
            *((title_of(name), True) for name in _PROBLEMS),
        ],
        [
            [
                row["cluster"],
                *(number(row[name]) for name in sizes),
                *(_span(row, f"{what}_over_mean", ratio) for what in ("replicas", "leaders")),
                *(number(row[name]) for name in _PROBLEMS),
            ]
            for row in rows
        ],
    )


def _span(row: Row, what: str, text: Callable[[Any], str]) -> str:
    """Returns the minimum and the maximum of a figure of a cluster."""
    return " to ".join(text(row[f"{bound}_{what}"]) for bound in ("min", "max"))


def _brokers_table(rows: Rows) -> Table:
    most = {name: max((row[name] for row in rows), default=0) or 1 for name in ("replicas", "leaders")}
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
                *(bar("is", row[name], most[name]) for name in most),
                *(ratio(row[f"{name}_over_mean"]) for name in most),
                *([cell(row["fenced"])] if fenced else []),
            ]
            for row in rows
        ],
    )


def replica_rows(tables: Mapping[str, DataFrame]) -> ReplicaRows:
    """Returns the rows of a placement, a reassignment, or a check that the page displays."""
    found: dict[str, Rows] = {}
    if "moves" in tables:
        reasons = tables["moves"].groupBy("cluster", "reason").agg(num_rows("replicas"))
        found["reasons"] = collected(reasons.orderBy("cluster", F.desc("replicas"), "reason").limit(MOST_ROWS))
    if "placement" in tables:
        found["loads"] = collected(_broker_counts(tables["placement"], "previous_replicas"))
    elif "placements" in tables:
        found["loads"] = collected(_broker_counts(tables["placements"], None))
    orders: dict[str, list[Column | str]] = {
        "metrics": [F.desc("moved"), "cluster"],
        "clusters": ["cluster"],
        "brokers": ["cluster", "broker_id"],
        "racks": ["cluster", "rack_id"],
        "problems": ["cluster", "topic", "partition", "code"],
        "rejected": ["cluster", "code"],
    }
    for name, order in orders.items():
        if name in tables:
            found[name] = collected(tables[name].orderBy(*order).limit(MOST_ROWS))
    if len(found.get("problems", ())) == MOST_ROWS:
        found["problem_counts"] = collected(_count_by_code(tables["problems"]).limit(MOST_ROWS))
    return ReplicaRows(**found)


def _count_by_code(problems: DataFrame) -> DataFrame:
    return problems.groupBy("code").agg(num_rows("partitions")).orderBy(F.desc("partitions"), "code")


def _broker_counts(placement: DataFrame, before: str | None) -> DataFrame:
    """Returns replicas and preferred leaders of each broker, before and after; at most `MOST_ROWS` brokers."""
    key = ["cluster", "broker_id"]
    counts = _count_per_broker(placement, "replicas", "after")
    if before is None:
        none = F.lit(None).cast("long")
        counts = counts.withColumns({"replicas_before": none, "leaders_before": none})
    else:
        both = _count_per_broker(placement, before, "before").join(counts, key, "full")
        counts = both.fillna(0, [name for name in both.columns if name not in key])
    return counts.orderBy(*key).limit(MOST_ROWS)


def _count_per_broker(placement: DataFrame, name: str, when: str) -> DataFrame:
    replicas = placement.select("cluster", F.posexplode(_broker_list(placement, name)).alias("place", "broker_id"))
    return replicas.groupBy("cluster", "broker_id").agg(
        num_rows(f"replicas_{when}"), F.count(F.when(F.col("place") == 0, 1)).alias(f"leaders_{when}")
    )


def _broker_list(table: DataFrame, name: str) -> Column:
    """Returns a column of broker ids, which is JSON text if the table was stored as CSV."""
    text = isinstance(table.schema[name].dataType, StringType)
    return F.from_json(name, "array<int>") if text else F.col(name)
