"""The queries of the daily page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.comparison.kernel.compare import PREFERRED
from spark_assign.groups.kernel.client_settings import MemberChange, member_settings, plan_switch
from spark_assign.report import drift as drifts
from spark_assign.report import history as histories
from spark_assign.report.advice import one_row_per_change
from spark_assign.report.formatting import Rows, group_key
from spark_assign.report.html.daily import HANG, OUTAGE, STATIC_MEMBERS, DailyRows
from spark_assign.report.listed_groups import any_of, collected, long_sum, num_rows, possible_variants
from spark_assign.report.report_data import MAPPED_GROUPS, MOST_ROWS
from spark_assign.spark.tagged_pass import union
from spark_assign.tables.groups import GROUP_KEY

_LISTED_PER_TEAM = 50


def daily_rows(
    *,
    history: Mapping[str, DataFrame] | None,
    times: Mapping[str, tuple[datetime, datetime]],
    drift: DataFrame | None,
    advice: DataFrame | None,
    alerts: DataFrame | None,
    clusters: Rows,
    missing: Sequence[str] = (),
) -> DailyRows:
    """Returns the rows of the page. At most `MOST_ROWS` rows of each table, or 50 per team if owners are known.

    Args:
        history: tables of a history with its replay, `with_owners`.
        times: start and end of each cluster's time range; empty without a history.
        drift, advice, alerts: tables of these names, `with_owners`; None if a step has no result.
        clusters, missing: see `DailyRows`.
    """
    rows = DailyRows(clusters=clusters, missing=missing)
    if drift is not None:
        changes = sum((F.col(name) for name in drifts.CHANGES), F.lit(0))
        rows = replace(rows, changed=_first(drift.where("change <> 'unchanged'"), F.desc(changes)))
    if advice is not None:
        rows = replace(rows, advice=_first(one_row_per_change(advice), F.col("rank")))
    if alerts is not None:
        rows = replace(rows, alerts=_first(alerts, F.col("alert"), "detail"))
    if history is None or not times:
        return rows
    recent = {name: _between(history[name], time, times) for name, time in TIMES.items() if name in history}
    alone = _without_rebalance(recent["pauses"], history["groups"])
    events = union([recent["deploys"], alone.where("NOT idle").drop("idle")])
    idle = alone.where("idle").groupBy(*(name for name in (*GROUP_KEY, "team") if name in alone.columns))
    until = max(end for _, end in times.values())
    since = min((start for start, end in times.values() if start < end), default=until)
    rows = replace(rows, since=since, until=until, idle=_first(idle.agg(num_rows("times")), F.desc("times")))
    rows = replace(rows, deploys=_first(events, F.desc_nulls_last("paused_partition_ms"), *_OF_DEPLOYS))
    if rows.deploys:
        starts, ends = ([row[name] for row in rows.deploys] for name in ("start_time", "end_time"))
        width_s = histories.bucket_seconds(min(starts), max(ends))
        mapped = list({group_key(row): row for row in rows.deploys}.values())[:MAPPED_GROUPS]
        buckets = collected(histories.time_buckets(recent["rebalances"].where(any_of(mapped)), width_s))
        teams = {group_key(row): row.get("team") for row in mapped}
        rows = replace(rows, width_s=width_s, buckets=[{**row, "team": teams[group_key(row)]} for row in buckets])
    if "replay_summary" in history:
        savings = _savings(history["replay_summary"], recent["replay_rebalances"])
        largest = _first(savings, F.desc(F.col("paused_ms") - F.col("replayed_ms")), "assignor", "static")
        rows = replace(rows, savings=_with_settings(largest))
    return rows


_OF_DEPLOYS = ("start_time", "end_time", "deploy_type")
"""Columns to sort the events of a group by, of which several can have stopped nothing."""
TIMES = {"deploys": "end_time", "pauses": "end_time", "rebalances": "time", "replay_rebalances": "time"}
"""Column of each table that must be in the time range."""


def _between(table: DataFrame, time: str, times: Mapping[str, tuple[datetime, datetime]]) -> DataFrame:
    """Returns the rows in the time range of their cluster: after its start, and up to its end."""
    pairs = (
        F.create_map(*(F.lit(word) for cluster, bounds in sorted(times.items()) for word in (cluster, bounds[index])))
        for index in (0, 1)
    )
    start, end = (pair[F.col("cluster")] for pair in pairs)
    return table.where((F.col(time) > start) & (F.col(time) <= end))


def _without_rebalance(pauses: DataFrame, groups: DataFrame) -> DataFrame:
    """Returns the pauses without a rebalance as rows of `tables.history.DEPLOYS`, and `idle`.

    It is an outage if several groups of the cluster stopped within 30 seconds: groups that read different topics, or
    most groups. Idle pauses are an outage, too, if most groups have one at that time, in most of their partitions.
    """
    committing = groups.where("paused_partition_ms IS NOT NULL")
    totals = committing.groupBy("cluster").agg(num_rows("all_groups"))
    alone = pauses.where("generation_id IS NULL").withColumn("idle", F.coalesce("idle", F.lit(False)))
    alone = alone.join(committing.select(*GROUP_KEY, F.col("partitions").alias("owned")), GROUP_KEY, "left")
    alone = alone.withColumn("counts", ~F.col("idle") | (2 * F.col("partitions") > F.col("owned")))
    near = Window.partitionBy("cluster").orderBy(F.unix_seconds("start_time")).rangeBetween(-30, 30)
    alone = alone.withColumn("end", F.unix_seconds("end_time"))
    alone = alone.withColumn("near", F.collect_list(F.struct("group_id", "topics", "counts", "end")).over(near))
    alone = alone.withColumn("near", F.expr("filter(near, p -> p.counts AND (NOT idle OR abs(p.end - end) <= 30))"))
    differs = "p.group_id <> group_id AND NOT coalesce(arrays_overlap(p.topics, topics), false)"
    several = F.expr(f"exists(near, p -> {differs})")
    alone = alone.withColumn("groups", F.expr("size(array_distinct(transform(near, p -> p.group_id)))"))
    alone = alone.join(totals, "cluster", "left")
    most = 2 * F.col("groups") > F.col("all_groups")
    is_outage = (
        F.col("counts") & (F.col("groups") > 1) & F.when(F.col("idle"), several & most).otherwise(several | most)
    )
    is_outage = F.coalesce(is_outage, F.lit(False))
    detail = F.concat(
        *(F.col("partitions"), F.lit(" partitions without commits, no rebalance; ")),
        F.when(is_outage, F.concat("groups", F.lit(" groups of the cluster stopped at that time")))
        .when(F.col("groups") > 1, F.concat("groups", F.lit(" groups that read the same topics stopped at that time")))
        .otherwise(F.lit("no other group of the cluster stopped: its consumers hang")),
    )
    added = {
        "deploy_type": F.when(is_outage, OUTAGE).otherwise(HANG),
        "rebalances": F.lit(0).cast("long"),
        "detail": detail,
        "idle": F.col("idle") & ~is_outage,
    }
    helpers = ("generation_id", "groups", "partitions", "owned", "counts", "near", "end", "all_groups", "topics")
    return alone.withColumns(added).drop(*helpers)


def _first(table: DataFrame, order: Column, *of_group: str) -> Rows:
    """Returns the first rows of a table: of each team if owners are known. Rows without an owner are a team too.

    Args:
        table: a table of groups.
        order: the first column to sort by. Rows that are equal in it are sorted by group.
        of_group: columns to sort the rows of a group by.
    """
    columns: list[Any] = [order, *GROUP_KEY, *of_group]
    if "team" not in table.columns:
        return collected(table.orderBy(*columns).limit(MOST_ROWS))
    nth = F.row_number().over(Window.partitionBy("team").orderBy(*columns))
    listed = table.withColumn("nth", nth).where(F.col("nth") <= _LISTED_PER_TEAM).drop("nth")
    return collected(listed.orderBy(*columns).limit(MOST_ROWS))


def _savings(summary: DataFrame, recent: DataFrame) -> DataFrame:
    """Returns the pauses of each group in recent rebalances, as recorded and with one setting changed.

    A variant that changes both the assignor and the membership isn't a single setting, and isn't in the table.
    """
    summary = possible_variants(summary)
    if "client_libraries" not in summary.columns:
        summary = summary.withColumn("client_libraries", F.lit(None).cast("string"))
    variants = summary.select(*GROUP_KEY, "assignor", "static", "protocol", "recorded", "client_libraries")
    sums = recent.groupBy(*GROUP_KEY, "assignor", "static").agg(
        long_sum("paused_partition_ms").alias("replayed_ms"), num_rows("rebalances")
    )
    costs = variants.join(sums, [*GROUP_KEY, "assignor", "static"])
    recorded = costs.where("recorded").select(
        *GROUP_KEY,
        "rebalances",
        F.col("replayed_ms").alias("paused_ms"),
        *(F.col(name).alias(f"current_{name}") for name in ("assignor", "static", "protocol")),
    )
    pairs = costs.where(~F.col("recorded")).drop("rebalances").join(recorded, GROUP_KEY)
    same_static = F.col("static") == F.col("current_static")
    same_assignor = F.col("assignor") == F.col("current_assignor")
    is_single = F.when(same_assignor, F.col("static") & ~same_static).otherwise(same_static)
    team = [name for name in ("team", "contact") if name in summary.columns]
    owners = summary.where("recorded").select(*GROUP_KEY, *team)
    columns = ["assignor", "static", "current_assignor", "client_libraries", "paused_ms", "replayed_ms", "rebalances"]
    return pairs.where(is_single).select(*GROUP_KEY, *columns).join(owners, GROUP_KEY)


def _with_settings(rows: Rows) -> Rows:
    """Returns the rows whose change the group's clients can make, with its name and the lines to paste.

    Of changes of a group that save the same, the one that is preferred everywhere comes first (`PREFERRED`).
    """
    found = []
    for row in rows:
        assignor, current, clients = row["assignor"], row["current_assignor"], row["client_libraries"]
        switch = None if assignor == current else plan_switch(current, assignor, clients)
        change = MemberChange(row["group_id"], clients, switch, None if switch else True)
        if settings := member_settings(change):
            name = assignor if switch else STATIC_MEMBERS
            found.append({**row, "setting": name, "settings": "\n".join(settings)})
    order = [*PREFERRED, STATIC_MEMBERS]
    return sorted(
        found, key=lambda row: (row["replayed_ms"] - row["paused_ms"], *group_key(row), order.index(row["setting"]))
    )
