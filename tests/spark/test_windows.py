"""Range and round robin by windows, against the kernels of a simulated leader."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from spark_assign import facts, plan
from spark_assign.kernels.protocol.leader import assign
from tests.golden import leader_rows, tables, vectors
from tests.kafka import random_groups


@pytest.mark.spark
@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_windows_deal_as_the_leader_does(spark: SparkSession, assignor: str) -> None:
    """Random groups: racks, static members, differing subscriptions, names beyond ASCII."""
    seed = random_groups.seed()
    print(f"repeat with {random_groups.SEED_VARIABLE}={seed}")
    rows = list(random_groups.groups(assignor, seed, small=60, mid_size=0))
    asks = [leader_rows.ask_of(row, assignor) for row in rows]
    expected = leader_rows.sets_of(rows, asks, assign(asks))
    planned = plan(tables.fleet_of(spark, rows), assignor)
    assert vectors.differences(expected, tables.planned_sets(planned.assignments)) == []
    assert planned.rejected.isEmpty()


@pytest.mark.spark
def test_groups_stay_whole_where_windows_shuffle_again(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting of Spark's makes every window shuffle by all of its keys, which would part a group's facts."""
    monkeypatch.setattr(facts, "ROWS_PER_TASK", 100)
    rows = list(random_groups.groups("range", 5, small=6, mid_size=0))
    for row in rows:
        for member in row["members"]:
            member["rack"] = None
    expected = tables.planned_sets(plan(tables.fleet_of(spark, rows), "range").assignments)
    spark.conf.set("spark.sql.requireAllClusterKeysForDistribution", "true")
    try:
        planned = plan(tables.fleet_of(spark, rows), "range")
        assert vectors.differences(expected, tables.planned_sets(planned.assignments)) == []
        assert planned.rejected.isEmpty()
    finally:
        spark.conf.unset("spark.sql.requireAllClusterKeysForDistribution")
