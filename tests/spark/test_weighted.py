"""weighted-sticky through Spark: tables in, plans and the load of their moves out."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_assign import Fleet, compare, converge, plan
from spark_assign.tables.groups import INPUT_TABLES
from tests.spark import fleets

pytestmark = pytest.mark.spark

RATES = [9.0, 5.0, 2.0]


def fleet(spark: SparkSession, groups: list[tuple[Any, ...]]) -> Fleet:
    """Groups of a and b, who own two and one of three partitions; `g` has rates of its own, `silent` none at all."""

    def table(name: str, rows: list[dict[str, Any]]) -> Any:
        columns = INPUT_TABLES[name].names
        return fleets.table(spark, name, [tuple(row.get(column) for column in columns) for row in rows])

    names = [group for group, *_ in groups]
    members = [{"cluster": "c", "group_id": group, "member_id": member} for group in names for member in "ab"]
    topics = {group: f"t-{group}" for group in names}
    return Fleet(
        topics=table("topics", [{"cluster": "c", "topic": topic, "partitions": 3} for topic in topics.values()]),
        members=table("members", members),
        subscriptions=table("subscriptions", [{**each, "topic": topics[each["group_id"]]} for each in members]),
        owned=table(
            "owned",
            [
                {"cluster": "c", "group_id": group, "member_id": member, "topic": topics[group], "partition": partition}
                for group in names
                for partition, member in enumerate("aab")
            ],
        ),
        groups=table(
            "groups",
            [
                {"cluster": "c", "group_id": group, "assignor": "weighted-sticky", "capacity": capacity}
                for group, capacity in groups
            ],
        ),
        loads=table(
            "loads",
            [
                {"cluster": "c", "topic": topics[group], "partition": partition, "in_messages_per_second": rate}
                for group in names
                if group != "silent"
                for partition, rate in enumerate(RATES)
            ],
        ),
    )


def test_the_tables_of_a_plan(spark: SparkSession) -> None:
    """As configured; groups that cannot be weighed are told apart; each move has its load."""
    planned = fleets.kept(plan(fleet(spark, [("g", None), ("enough", 14.0), ("silent", None), ("zero", 0.0)])))
    moves = planned.load_moves.collect()
    assert [tuple(row) for row in moves] == [("c", "g", "t-g", 1, "a", "b", "over-load", 5.0)]
    rejected = {row["group_id"]: row["code"] for row in planned.rejected.collect()}
    assert rejected == {"silent": "no-loads", "zero": "bad-capacity"}
    metrics = {row["group_id"]: row for row in planned.metrics.collect()}
    assert (metrics["g"]["moved"], metrics["g"]["withheld"], metrics["enough"]["moved"]) == (1, 1, 0)


def test_rounds_and_comparison(spark: SparkSession) -> None:
    """Two rounds; sticky leaves the load as it is, and weighted-sticky evens it out."""
    small = fleet(spark, [("g", None)])
    rounds = converge(small, "weighted-sticky").orderBy("round").collect()
    assert [(row["round"], row["moved"], row["revoked"], row["stable"]) for row in rounds] == [
        (1, 1, 1, False),
        (2, 0, 0, True),
    ]
    rows = {row["assignor"]: row for row in compare(small, ["sticky", "weighted-sticky"]).comparison.collect()}
    assert rows["sticky"]["load_max_over_mean"] == 14 / 8
    assert rows["weighted-sticky"]["load_max_over_mean"] == 9 / 8
    assert (rows["weighted-sticky"]["moved"], rows["weighted-sticky"]["rounds"]) == (1, 2)
