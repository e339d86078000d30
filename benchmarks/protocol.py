"""The group protocol in time: a rolling restart of every group of a fleet, message by message."""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.bench import Bench, Result
from spark_assign import Fleet
from spark_assign.simulation import simulate

TOPICS, PARTITIONS = 10, 20
"""Of each group."""


def rolling(bench: Bench) -> None:
    """50 members a group, one restarted after the other: how long the whole fleet takes, and rounds a second.

    KIP-848's protocol beside the cooperative one, with the times of the latter as its goal.
    """
    groups, members = bench.size(2_000, 4), bench.size(50, 5)
    took = _measure(bench, groups, members, "cooperative", "<= 90")
    _measure(bench, groups, members, "consumer", f"<= {took:.1f}")
    groups = bench.size(200, 2)
    for members in (bench.size(10, 2), bench.size(50, 4), bench.size(200, 6)):
        for protocol in ("cooperative", "consumer"):
            _measure(bench, groups, members, protocol, None)


def _measure(bench: Bench, groups: int, members: int, protocol: str, goal: str | None) -> float:
    """Returns how many seconds it took."""
    path = bench.folder / f"protocol-{groups}-{members}"
    write_fleet(bench.spark, path, groups, members)
    seconds, rounds = [], 0
    for _ in range(bench.repeats):
        begin = time.perf_counter()
        fleet = Fleet(**{name: bench.spark.read.parquet(str(path / name)) for name in _TABLES})
        played = simulate(fleet, bench.spark.read.parquet(str(path / "events")), protocol)
        rounds = played.availability.agg(F.sum("rebalances")).collect()[0][0]
        restarted = played.availability.agg(F.sum("members_restarted")).collect()[0][0]
        seconds.append(time.perf_counter() - begin)
        played.unpersist()
        fleet.unpersist()
        assert restarted == groups * members, f"{restarted} of {groups * members} members were restarted"
    took = sorted(seconds)[len(seconds) // 2]
    shape = f"{groups:,} groups x {members} members x {TOPICS * PARTITIONS} partitions"
    detail = f"{rounds:,} rounds, {rounds / took:,.0f} a second"
    if protocol == "cooperative":
        detail += f", {rounds * members / took:,.0f} joins a second"
    bench.report(Result(f"rolling restart, {protocol}", shape, took, "s", bench.goal(goal) if goal else None, detail))
    return took


_TABLES = ("topics", "members", "subscriptions", "owned_slices")


def write_fleet(spark: SparkSession, path: Path, groups: int, members: int) -> None:
    """Groups at rest: every member has an equal share of the group's partitions, in order."""
    group = spark.range(groups).select(
        F.lit("bench").alias("cluster"), F.format_string("group-%04d", "id").alias("group_id")
    )
    member = group.crossJoin(
        spark.range(members).selectExpr("format_string('consumer-%03d-4f1c9a7e', id) as member_id", "int(id) as rank")
    )
    topic = spark.range(TOPICS).select(F.format_string("topic-%02d", "id").alias("topic"), F.col("id").alias("number"))
    of_group = group.crossJoin(topic).withColumn("topic", F.concat_ws(".", "group_id", "topic"))
    whose = F.floor((F.col("number") * PARTITIONS + F.col("first")) * members / (TOPICS * PARTITIONS)).cast("int")
    tables = {
        "topics": of_group.select("cluster", "topic", F.lit(PARTITIONS).alias("partitions")),
        "members": member.select("cluster", "group_id", "member_id", F.lit(1).alias("generation_id")),
        "subscriptions": member.select("cluster", "group_id", "member_id").join(of_group, ["cluster", "group_id"]),
        "owned_slices": of_group.crossJoin(spark.range(PARTITIONS).selectExpr("int(id) as first"))
        .withColumn("rank", whose)
        .join(member, ["cluster", "group_id", "rank"])
        .selectExpr("cluster", "group_id", "member_id", "topic", "first", "1 as step", "1 as count"),
        "events": spark.range(1).selectExpr(
            "'bench' as cluster", "string(null) as group_id", "10000L as at_ms", "'rolling-restart' as event"
        ),
    }
    for name, table in tables.items():
        table.write.mode("overwrite").parquet(str(path / name))
