"""Every recorded case of Kafka's own classes, planned in one Spark call per assignor."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from spark_assign import plan
from tests.golden import tables, vectors

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_the_plan_is_what_kafka_recorded(spark: SparkSession, assignor: str) -> None:
    """Zero differences, as sets of partitions per member; what is left out is counted and printed."""
    rows, left_out = vectors.cases(assignor)
    planned = plan(tables.fleet_of(spark, rows), assignor)
    differences = vectors.differences(vectors.expected_sets(rows), tables.planned_sets(planned.assignments))
    print(f"{assignor}: {len(rows)} cases planned, left out {dict(left_out) or 'none'}")
    refused = {row["case"] for row in rows if row["expect"] is None}
    assert {row["cluster"]: row["code"] for row in planned.rejected.collect()} == dict.fromkeys(refused, "kafka-fails")
    assert not differences, f"{len(differences)} cases differ:\n" + "\n".join(differences[:20])
    assert len(rows) > 1500
