"""The report of a stored plan: 5,000 groups, from its tables to the page."""

from __future__ import annotations

from types import SimpleNamespace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.bench import Bench, Result
from spark_assign.report.html import report
from spark_assign.stores.run_store import read_run, write_run
from spark_assign.tables.groups import PLAN_TABLES

MEMBERS, PARTITIONS = 40, 200
"""Of each group."""


def page(bench: Bench) -> None:
    """Seconds from the stored tables to the page, and the page's size."""
    groups = bench.size(5_000, 50)
    place = str(bench.folder / f"report-{groups}")
    tables = {name: table.select(*PLAN_TABLES[name].names) for name, table in _tables(bench.spark, groups)}
    write_run(tables, place, run_id="report", schemas=PLAN_TABLES)
    page = SimpleNamespace(text="")

    def make() -> None:
        page.text = report(read_run(bench.spark, place))

    took = bench.in_turns(report=make)["report"]
    shape = f"{groups:,} groups x {MEMBERS} members x {PARTITIONS}"
    size = len(page.text.encode()) / 1e6
    bench.report(Result("report of a stored plan", shape, took, "s", bench.goal("<= 20")))
    bench.report(Result("report of a stored plan, size", shape, size, "MB", bench.goal("<= 3")))


def _tables(spark: SparkSession, groups: int) -> list[tuple[str, DataFrame]]:
    """A member's share is one run, of 2 to 8 partitions; half of all partitions come from the member before it."""
    group = spark.range(groups).selectExpr(
        "id",
        "concat('cluster-', id % 5) as cluster",
        "format_string('team-%02d.service-%05d-consumer', id % 37, id) as group_id",
    )
    member = group.crossJoin(spark.range(MEMBERS).selectExpr("int(id) as rank")).selectExpr(
        "*",
        "format_string('consumer-%03d-4f1c9a7e-9289-4bb2-b7a7-d7dc7636cd19', rank) as member_id",
        f"format_string('consumer-%03d-4f1c9a7e-9289-4bb2-b7a7-d7dc7636cd19', (rank + 1) % {MEMBERS}) as next_id",
        "int(5 + (rank % 2 * 2 - 1) * (id % 4)) as share",
        "'orders.created' as topic",
    )
    runs = member.selectExpr("*", "int(rank * 10) as first", "1 as step", "share as count")
    owned = runs.selectExpr("*", "explode(sequence(first, first + share - 1)) as partition")
    moved = owned.where("partition % 2 = 1")
    figures = {
        "members": "count(1)",
        "partitions": "sum(share)",
        "min_per_member": "min(share)",
        "max_per_member": "max(share)",
        "mean_per_member": "avg(share)",
        "stddev_per_member": "stddev_pop(share)",
        "max_over_mean": "max(share) / avg(share)",
    }
    metrics = member.groupBy("cluster", "group_id").agg(*(F.expr(each).alias(name) for name, each in figures.items()))
    counts = moved.groupBy("cluster", "group_id").count().withColumnRenamed("count", "moved")
    known = {"cluster", "group_id", "assignor", *figures, "moved", "revoked"}
    others = [
        f"cast({'null' if field.nullable else 0} as {field.dataType.simpleString()}) as {field.name}"
        for field in PLAN_TABLES["metrics"]
        if field.name not in known
    ]
    measured = metrics.join(counts, ["cluster", "group_id"]).selectExpr(
        "*", "'range' as assignor", "moved as revoked", *others
    )
    rejected = group.where("id < 10").selectExpr("id", "cluster", "concat(group_id, '-2') as group_id")
    refused = rejected.selectExpr("*", "'duplicate-member' as code", "'members: twice' as detail")
    ends = ("member_id as from_member_id", "next_id as to_member_id")
    return [
        ("assignment_slices", runs),
        ("assignments", owned),
        ("revocations", moved.withColumnRenamed("next_id", "next_member_id")),
        ("moves", moved.selectExpr("*", *ends, "'rebalanced' as reason")),
        ("metrics", measured),
        ("rejected", refused),
    ]
