"""Random groups, fresh at every run, planned by Spark and by Kafka's own classes: no difference."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from spark_assign import plan
from tests.golden import tables, vectors
from tests.kafka import live_assignors, random_groups

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_the_plan_is_what_kafka_answers_now(spark: SparkSession, kafka_jars: str, assignor: str) -> None:
    """Several hundred groups of every kind in one Spark call; the seed is printed on failure."""
    seed = random_groups.seed()
    repeat = f"repeat with {random_groups.SEED_VARIABLE}={seed}"
    rows = live_assignors.answered(random_groups.groups(assignor, seed), kafka_jars)
    assert all(row["expect"] is not None for row in rows), repeat
    planned = plan(tables.fleet_of(spark, rows), assignor)
    differences = vectors.differences(vectors.expected_sets(rows), tables.planned_sets(planned.assignments))
    assert not differences, f"{len(differences)} groups differ, {repeat}\n" + "\n".join(differences[:20])
    assert planned.rejected.count() == 0, repeat
    assert len(rows) > 300
