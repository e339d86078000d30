"""weighted-sticky through Spark: tables in, plans and the load of their moves out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_assign import Fleet, compare, converge, plan
from spark_assign.tables.groups import INPUT_TABLES
from tests.frames import frame_of
from tests.spark import fleets

pytestmark = pytest.mark.spark

RATES = [9.0, 5.0, 2.0]


def fleet(spark: SparkSession, groups: list[tuple[Any, ...]]) -> Fleet:
    """Groups of a and b, who own two and one of three partitions; `g` has rates of its own, `silent` none at all."""

    names = [group for group, _ in groups]
    given = fleets.fleet(
        spark,
        {group: dict.fromkeys("ab", (f"t-{group}",)) for group in names},
        topics={f"t-{group}": 3 for group in names},
        owned={(group, member, f"t-{group}"): of for group in names for member, of in (("a", (0, 1)), ("b", (2,)))},
        loads=[
            ("c", f"t-{group}", partition, None, rate)
            for group in names
            if group != "silent"
            for partition, rate in enumerate(RATES)
        ],
    )
    configured = [
        {"cluster": "c", "group_id": group, "assignor": "weighted-sticky", "capacity": capacity}
        for group, capacity in groups
    ]
    return replace(given, groups=frame_of(spark, INPUT_TABLES["groups"], configured))


def test_the_tables_of_a_plan(spark: SparkSession) -> None:
    """As configured; groups that cannot be weighed are told apart; the heaviest partition moves."""
    planned = fleets.kept(plan(fleet(spark, [("g", None), ("enough", 14.0), ("silent", None), ("zero", 0.0)])))
    moves = planned.moves.collect()
    assert [tuple(row) for row in moves] == [("c", "g", "t-g", 1, "a", "b", "over-load")]
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
