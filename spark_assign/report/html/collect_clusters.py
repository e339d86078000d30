"""From plans and simulations of Connect clusters, and from replicas, to the rows of a report (bounds:
`report_data`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from spark_assign.report.html.bounded_collect import collected
from spark_assign.report.html.report_data import BUCKETS, DRAWN_GROUPS, MOST_ROWS, ConnectRows, ReplicaRows, Rows

Tables = Mapping[str, DataFrame]

_CONNECT = ("metrics", "delays", "rejected", "rounds", "costs")


def connect_rows(connect: Any) -> ConnectRows:
    """What the page shows of a `ConnectPlan`, of a `ConnectSimulation`, or of the stored tables of either or both."""
    tables = {name: table for name in _CONNECT if (table := _table(connect, name)) is not None}
    found: dict[str, Any] = {}
    if "metrics" in tables:
        metrics = tables["metrics"]
        if "delays" in tables:
            metrics = metrics.join(tables["delays"].select("connect_cluster", "delay_ms"), "connect_cluster", "left")
        order = F.desc(F.col("revoked") + F.col("lost"))
        shown = found["metrics"] = collected(metrics.orderBy(order, "connect_cluster").limit(MOST_ROWS))
        found["total"] = len(shown) if len(shown) < MOST_ROWS else metrics.count()
    if "rejected" in tables:
        found["rejected"] = collected(tables["rejected"].orderBy("connect_cluster", "code").limit(MOST_ROWS))
    if "costs" in tables:
        found |= _costs(tables["costs"])
    if "costs" in tables and "rounds" in tables:
        drawn = list(dict.fromkeys(row["connect_cluster"] for row in found["costs"]))[:DRAWN_GROUPS]
        found["rounds"] = collected(_added_up(tables["rounds"], drawn)) if drawn else ()
    return ConnectRows(**found)


def _table(connect: Any, name: str) -> DataFrame | None:
    table: DataFrame | None = connect.get(name) if isinstance(connect, Mapping) else getattr(connect, name, None)
    return table


def _costs(costs: DataFrame) -> dict[str, Rows]:
    """Sums per protocol, and the Connect clusters that lose most with any."""
    stops, starts = (F.col(f"connector_{what}") + F.col(f"task_{what}") for what in ("stops", "starts"))
    costs = costs.withColumns({"stops": stops, "starts": starts})
    sums = (F.sum(name).alias(name) for name in ("rounds", "stops", "starts", "gone", "task_ms_not_running"))
    totals = costs.groupBy("protocol").agg(F.count(F.lit(1)).alias("clusters"), *sums)
    worst = F.max("task_ms_not_running").over(Window.partitionBy("connect_cluster"))
    ordered = costs.withColumn("worst", worst).orderBy(F.desc("worst"), "connect_cluster", "protocol")
    return {
        "totals": collected(totals.orderBy("protocol").limit(MOST_ROWS)),
        "costs": collected(ordered.drop("worst").limit(MOST_ROWS)),
    }


def _added_up(rounds: DataFrame, clusters: list[str]) -> DataFrame:
    """Stops and starts of some Connect clusters, added up until the end of each of `BUCKETS` time buckets."""
    these = rounds.where(F.col("connect_cluster").isin(clusters))
    of_cluster = Window.partitionBy("connect_cluster")
    begin, end = F.min("at_ms").over(of_cluster), F.max("at_ms").over(of_cluster)
    wide = F.greatest(F.lit(1), F.ceil((F.col("end") - F.col("begin") + 1) / BUCKETS))
    key = ["connect_cluster", "protocol"]
    buckets = (
        these.withColumns({"begin": begin, "end": end})
        .withColumns({"wide": wide})
        .groupBy(*key, F.floor((F.col("at_ms") - F.col("begin")) / F.col("wide")).alias("time_bucket"))
        .agg(
            (F.max("at_ms") - F.first("begin")).alias("at_ms"), F.sum(F.col("stopped") + F.col("started")).alias("many")
        )
    )
    so_far = F.sum("many").over(Window.partitionBy(*key).orderBy("time_bucket"))
    return buckets.select(*key, "at_ms", so_far.alias("so_far")).orderBy(*key, "at_ms")


# --- replicas ---------------------------------------------------------------------------------------------------


def replica_rows(tables: Tables) -> ReplicaRows:
    """What the page shows of the tables of a placement, a reassignment or a check."""
    found: dict[str, Rows] = {}
    if "metrics" in tables:
        found["metrics"] = collected(tables["metrics"].orderBy(F.desc("moved"), "cluster").limit(MOST_ROWS))
    if "moves" in tables:
        reasons = tables["moves"].groupBy("cluster", "reason").agg(F.count(F.lit(1)).alias("replicas"))
        found["reasons"] = collected(reasons.orderBy("cluster", F.desc("replicas"), "reason").limit(MOST_ROWS))
    if "placement" in tables:
        found["loads"] = collected(_loads(tables["placement"], "previous", "replicas"))
    elif "placements" in tables:
        found["loads"] = collected(_loads(tables["placements"], None, "replicas"))
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
        found["problem_counts"] = collected(_by_code(tables["problems"]).limit(MOST_ROWS))
    return ReplicaRows(**found)


def _by_code(problems: DataFrame) -> DataFrame:
    return problems.groupBy("code").agg(F.count(F.lit(1)).alias("partitions")).orderBy(F.desc("partitions"), "code")


def _loads(placement: DataFrame, before: str | None, after: str) -> DataFrame:
    """Replicas and preferred leaders of every broker, before and after."""
    sides = [(name, when) for name, when in ((before, "before"), (after, "after")) if name is not None]
    each = [_of_brokers(placement, name, when) for name, when in sides]
    key = ["cluster", "broker_id"]
    both = each[0] if len(each) == 1 else each[0].join(each[1], key, "full")
    counts = [name for name in both.columns if name not in key]
    both = both.withColumns({name: F.coalesce(name, F.lit(0)) for name in counts})
    if before is None:
        none = F.lit(None).cast("long")
        both = both.withColumns({"replicas_before": none, "leaders_before": none})
    return both.orderBy(*key).limit(MOST_ROWS)


def _of_brokers(placement: DataFrame, name: str, when: str) -> DataFrame:
    replicas = placement.select("cluster", F.posexplode(_list(placement, name)).alias("place", "broker_id"))
    return replicas.groupBy("cluster", "broker_id").agg(
        F.count(F.lit(1)).alias(f"replicas_{when}"), F.count(F.when(F.col("place") == 0, 1)).alias(f"leaders_{when}")
    )


def _list(table: DataFrame, name: str) -> Column:
    """A column of broker ids; csv has no lists, there they are json."""
    text = isinstance(table.schema[name].dataType, StringType)
    return F.from_json(name, "array<int>") if text else F.col(name)
