"""Every recorded case of Kafka's own classes: by Spark in one call per assignor, and by the sticky kernels alone.

By Spark, the sticky assignors plan every fortieth case and the chosen ones (`client-edge`), as the kernels plan every
case; the full run plans all. `SPARK_ASSIGN_TEST_EVERY=40` does so for every assignor: for a second Spark, after a first
one.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from spark_assign import plan
from spark_assign.assignors.sticky.assign_sticky import exception_text
from spark_assign.spark.engine import cached
from tests.golden import sticky_kernel, tables, vectors

THROWN = {"sticky": 39, "cooperative-sticky": 42}
"""In so many recorded cases Kafka's class throws."""
ASSIGNORS = ("range", "roundrobin", *THROWN)


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_the_plan_is_what_kafka_recorded(
    spark: SparkSession, assignor: str, left_out: Callable[[str, int], None]
) -> None:
    """Zero differences, as sets of partitions per member; refused with Kafka's own words exactly where Kafka throws."""
    planned_by_kernels = assignor in THROWN and os.environ.get("SPARK_ASSIGN_TEST_FULL") != "1"
    every = int(os.environ.get("SPARK_ASSIGN_TEST_EVERY", "40" if planned_by_kernels else "1"))
    recorded = vectors.cases(assignor)
    rows = [row for n, row in enumerate(recorded) if n % every == 0 or row["case"].startswith("client-edge/")]
    planned = plan(tables.fleet_of(spark, rows), assignor)
    planned = planned.with_tagged_rows(cached(planned.tagged_rows(("assignments", "rejected"))))
    differences = vectors.differences(vectors.expected_sets(rows), tables.planned_sets(planned.assignments))
    rejected = planned.rejected.collect()
    assert {row["code"] for row in rejected} <= {"kafka-fails"}
    assert not any("Fixed in" in row["detail"] for row in rejected)
    assert vectors.other_errors(rows, {row["cluster"]: exception_text(row["detail"]) for row in rejected}) == []
    assert not differences, f"{len(differences)} cases differ:\n" + "\n".join(differences[:20])
    if vectors.LEFT_OUT[assignor]:
        left_out(f"{assignor}: prefer_rack_aware, which only Kafka's own tests have", vectors.LEFT_OUT[assignor])
    if every > 1:
        left_out(f"{assignor}: not by Spark in this run", len(recorded) - len(rows))


@pytest.mark.once
@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky"])
def test_the_kernels_plan_what_kafka_recorded(strategy: str) -> None:
    """All cases, zero differences, and refused exactly where Kafka threw, with its message."""
    rows = vectors.cases(strategy)
    answer = sticky_kernel.planned(rows, strategy)
    differences = vectors.differences(vectors.expected_sets(rows), answer.sets)
    assert not differences, f"{len(differences)} cases differ:\n" + "\n".join(differences[:20])
    assert vectors.other_errors(rows, answer.refused) == []
    assert sum(row["expect"] is None for row in rows) == THROWN[strategy]
