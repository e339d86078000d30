"""Every recorded case of Kafka's own classes: by Spark in one call per assignor, and by the sticky kernels alone.

The kernels take all cases in seconds; Spark takes every sixteenth of the sticky assignors, which are thousands of small
groups. `SPARK_ASSIGN_TEST_EVERY=1` takes all, `=40` every fortieth: for a second Spark, after a first one.
"""

from __future__ import annotations

import os

import pytest
from pyspark.sql import SparkSession

from spark_assign import plan
from tests.golden import sticky_kernel, tables, vectors

EVERY = {"range": 1, "roundrobin": 1, "sticky": 16, "cooperative-sticky": 16}


@pytest.mark.spark
@pytest.mark.parametrize("assignor", EVERY)
def test_the_plan_is_what_kafka_recorded(spark: SparkSession, assignor: str) -> None:
    """Zero differences, as sets of partitions per member; what is left out is counted and printed."""
    every = int(os.environ.get("SPARK_ASSIGN_TEST_EVERY", EVERY[assignor]))
    recorded, left_out = vectors.cases(assignor)
    rows = [row for n, row in enumerate(recorded) if n % every == 0 or row["case"].startswith("client-edge/")]
    planned = plan(tables.fleet_of(spark, rows), assignor)
    differences = vectors.differences(vectors.expected_sets(rows), tables.planned_sets(planned.assignments))
    print(f"{assignor}: {len(rows)} of {len(recorded)} cases planned, left out {dict(left_out) or 'none'}")
    refused = {row["case"] for row in rows if row["expect"] is None}
    assert {row["cluster"]: row["code"] for row in planned.rejected.collect()} == dict.fromkeys(refused, "kafka-fails")
    assert not differences, f"{len(differences)} cases differ:\n" + "\n".join(differences[:20])
    assert len(recorded) > 1500


@pytest.mark.once
@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky"])
def test_the_kernels_plan_what_kafka_recorded(strategy: str) -> None:
    """All cases, zero differences, and refused exactly where Kafka threw."""
    rows, _ = vectors.cases(strategy)
    answer = sticky_kernel.planned(rows, strategy)
    differences = vectors.differences(vectors.expected_sets(rows), answer.sets)
    assert not differences, f"{len(differences)} cases differ:\n" + "\n".join(differences[:20])
    thrown = {row["case"]: row["error"].rpartition(".")[2] for row in rows if row["expect"] is None}
    assert {case: why.partition(":")[0] for case, why in answer.refused.items()} == thrown
    assert len(rows) > 4000
