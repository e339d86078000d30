"""Every recorded case of Kafka's own classes, planned in one Spark call per assignor.

`SPARK_ASSIGN_TEST_EVERY=8` takes every eighth only: for a second Spark, when all have been planned on a first one.
"""

from __future__ import annotations

import os

import pytest
from pyspark.sql import SparkSession

from spark_assign import plan
from tests.golden import tables, vectors

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_the_plan_is_what_kafka_recorded(spark: SparkSession, assignor: str) -> None:
    """Zero differences, as sets of partitions per member; what is left out is counted and printed."""
    every = int(os.environ.get("SPARK_ASSIGN_TEST_EVERY", "1"))
    recorded, left_out = vectors.cases(assignor)
    rows = recorded[::every]
    planned = plan(tables.fleet_of(spark, rows), assignor)
    differences = vectors.differences(vectors.expected_sets(rows), tables.planned_sets(planned.assignments))
    print(f"{assignor}: {len(rows)} cases planned, left out {dict(left_out) or 'none'}")
    refused = {row["case"] for row in rows if row["expect"] is None}
    assert {row["cluster"]: row["code"] for row in planned.rejected.collect()} == dict.fromkeys(refused, "kafka-fails")
    assert not differences, f"{len(differences)} cases differ:\n" + "\n".join(differences[:20])
    assert len(recorded) > 1500
