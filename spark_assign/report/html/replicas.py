"""Builds the section of the report on replicas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.report.formatting import Row, Rows, count, number, ratio
from spark_assign.report.html import section_parts as parts
from spark_assign.report.html.report_data import MOST_ROWS, ReplicaRows
from spark_assign.report.listed_groups import collected, num_rows


def build_replica_section(rows: ReplicaRows) -> parts.Section:
    """Returns the section on a placement, a reassignment, a check, or an operation (`ReplicaRows`)."""
    more = f"Shown are the first {len(rows.problems):,}; the table problems has all." if rows.problem_counts else ""
    tables = [
        _reassignment_table(rows.metrics),
        _broker_loads(rows.loads),
        parts.any_table("Replicas that move, by reason", rows.reasons),
        _check_table(rows.clusters),
        _brokers_table(rows.brokers),
        parts.any_table("Racks", rows.racks if len(rows.racks) > 1 else ()),
        parts.any_table("Partitions with a problem, by code", rows.problem_counts),
        parts.any_table("Problems", rows.problems, more),
        parts.any_table("Steps of the operation, in order", rows.steps),
        parts.any_table("Groups that the operation affects, those with the most rebalances first", rows.groups),
        parts.any_table("Orders of a restart", rows.orders),
        parts.any_table("Coordinators before the operation, by broker", rows.coordinators),
        parts.any_table("Leader moves that spread coordinators", rows.leader_moves),
        parts.any_table("Assignors that take long", rows.assignor_times),
        parts.any_table("Cross-zone traffic and its price per day, before and after", rows.zones),
        parts.rejected_table(rows.rejected),
    ]
    return parts.Section(_replica_sentences(rows), tables)


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
    if rows.steps:
        low, high = (sum(row[f"{end}_rebalances"] for row in rows.steps) for end in ("min", "max"))
        moves = sum(row["coordinators_moved"] for row in rows.steps)
        coordinators = f"{count(moves, 'move')} of coordinators"
        return [f"The operation causes {number(low)} to {number(high)} rebalances and {coordinators}."]
    return []


def _reassignment_table(rows: Rows) -> parts.Table:
    """Returns the table of reassignments, one line per cluster."""
    names = ("brokers", "replicas", "moved", "lower_bound", "moved_bytes", "leaders_changed")
    return parts.table_of(
        "Reassignment by cluster",
        rows,
        [
            *(parts.words("Cluster", "cluster"), *parts.figures(*names)),
            *(_span("Replicas per broker", "replicas", number), _span("Leaders per broker", "leaders", number)),
            parts.figure("Brokers out of tolerance", "brokers_out_of_tolerance"),
            parts.figure("By leaders", "leaders_out_of_tolerance"),
        ],
    )


def _broker_loads(rows: Rows) -> parts.Table:
    """Returns one line per broker: replicas and preferred leaders, before and after."""
    kinds = {"before": "was", "after": "is"}
    sides = list(kinds) if any(row["replicas_before"] is not None for row in rows) else ["after"]
    columns = {what: [f"{what}_{when}" for when in kinds] for what in ("replicas", "leaders")}
    return parts.table_of(
        "Replicas and preferred leaders of each broker" + (", before and after" if len(sides) > 1 else ""),
        rows,
        [
            ("Broker", False, _broker_name),
            *(
                parts.bars(f"{what.capitalize()} {when}", f"{what}_{when}", kinds[when], rows, names)
                for what, names in columns.items()
                for when in sides
            ),
        ],
    )


_PROBLEMS = (
    *("shared_rack", "fenced_broker", "unknown_broker"),
    *("duplicate_replica", "too_few_replicas", "uneven_replication_factor"),
    *("being_reassigned", "plan_outdated", "cordoned_brokers", "offline_log_dirs"),
)


_AFFECTED = (
    *("cluster", "group_id", "group_type", "assignor", "causes", "min_rebalances", "max_rebalances", "min_epochs"),
    *("max_epochs", "coordinator_moves", "paused_partitions", "min_paused_partition_seconds"),
    *("max_paused_partition_seconds", "moved_partitions", "advice"),
)
"""Columns of affected groups."""


def _check_table(rows: Rows) -> parts.Table:
    """Returns the table of checked clusters."""
    return parts.table_of(
        "Clusters that were checked; partitions with each problem",
        rows,
        [
            *(parts.words("Cluster", "cluster"), *parts.figures("brokers", "partitions", "replicas")),
            _span("Replicas over mean", "replicas_over_mean", ratio),
            _span("Leaders over mean", "leaders_over_mean", ratio),
            *parts.figures(*_PROBLEMS),
        ],
    )


def _span(title: str, name: str, text: Callable[[Any], str]) -> parts.TableColumn:
    """Returns a column of the minimum and the maximum of a figure of a cluster."""
    return title, False, lambda row: f"{text(row[f'min_{name}'])} to {text(row[f'max_{name}'])}"


def _broker_name(row: Row) -> str:
    return f"{row['cluster']}/{row['broker_id']}"


def _brokers_table(rows: Rows) -> parts.Table:
    """Returns the table of brokers, with bars."""
    states = [name for name in ("fenced", "cordoned", "offline_log_dirs") if any(row[name] for row in rows)]
    return parts.table_of(
        "Brokers",
        rows,
        [
            *(("Broker", False, _broker_name), parts.words("Rack", "rack_id")),
            *(parts.bars(parts.title_of(name), name, "is", rows, [name]) for name in ("replicas", "leaders")),
            *(parts.figure(parts.title_of(name), name, ratio) for name in ("replicas_over_mean", "leaders_over_mean")),
            *(parts.words(parts.title_of(name), name) for name in states),
        ],
    )


def replica_rows(tables: Mapping[str, DataFrame]) -> ReplicaRows:
    """Returns the rows of a placement, a reassignment, a check, or an operation that the page displays."""
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
        "steps": ["cluster", "step"],
        "groups": [*map(F.desc, ("max_rebalances", "max_epochs", "coordinator_moves")), "cluster", "group_id"],
        "orders": ["cluster", "order", "leaders_return"],
        "coordinators": ["cluster", "topic", "broker_id"],
        "leader_moves": ["cluster", "topic", "partition"],
        "assignor_times": [F.desc("max_assignor_ms"), "cluster", "group_id"],
        "zones": [F.desc_nulls_last("cost_after"), "cluster", "group_id"],
        "rejected": ["cluster", "code"],
    }
    if "groups" in tables:
        affected = tables["groups"].where(F.size("causes") > 0).select(*_AFFECTED)
        tables = {**tables, "groups": affected.withColumn("causes", F.array_join("causes", ", "))}
    if "assignor_times" in tables:
        tables = {**tables, "assignor_times": tables["assignor_times"].where("finding IS NOT NULL")}
    if "leader_moves" in tables:
        tables = {**tables, "leader_moves": tables["leader_moves"].drop("previous_replicas")}
    for name, brokers in {"orders": "brokers", "leader_moves": "replicas"}.items():
        if name in tables:
            tables = {**tables, name: tables[name].withColumn(brokers, F.array_join(brokers, ", "))}
    for name, order in orders.items():
        if name in tables:
            found[name] = collected(tables[name].orderBy(*order).limit(MOST_ROWS))
    if len(found.get("problems", ())) == MOST_ROWS:
        counts = tables["problems"].groupBy("code").agg(num_rows("partitions"))
        found["problem_counts"] = collected(counts.orderBy(F.desc("partitions"), "code").limit(MOST_ROWS))
    return ReplicaRows(**found)


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
    replicas = placement.select("cluster", F.posexplode(name).alias("place", "broker_id"))
    return replicas.groupBy("cluster", "broker_id").agg(
        num_rows(f"replicas_{when}"), F.count(F.when(F.col("place") == 0, 1)).alias(f"leaders_{when}")
    )
