"""Every recorded case of the broker's assignors of Streams groups (KIP-1071): streams-sticky, and Kafka's own mock.

By the kernel, from the recorded order of members; and as groups of a fleet, through Spark.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from spark_assign.assignors.streams.sticky_task_assignor import RELEASES, STICKY, assign_tasks
from spark_assign.assignors.streams.task_assignor_api import TaskAssignor
from spark_assign.streams import plan_streams
from tests.golden import streams_rows, tables
from tests.golden.streams_mock import streams_mock
from tests.recorded_lines import read_rows

ROWS = {STICKY: 468, "streams-mock": 32}
OTHER_IN_4_3 = 178
"""So many rows 4.3.1 answers otherwise (`README-848.md`, section 5): they were recorded from 4.4.0."""


@pytest.mark.once
@pytest.mark.parametrize(("system", "assignor"), [(STICKY, assign_tasks), ("streams-mock", streams_mock)])
def test_the_kernel_plans_what_the_broker_recorded(system: str, assignor: TaskAssignor) -> None:
    """Zero differences; Kafka's classes throw in none of these cases."""
    rows = streams_rows.rows(system)
    assert len(rows) == ROWS[system]
    groups = [streams_rows.group_of(row) for row in rows]
    planned = [streams_rows.sets_of(group, assignor(group)) for group in groups]
    different = [row["case"] for row, sets in zip(rows, planned, strict=True) if sets != streams_rows.expected(row)]
    assert not different, f"{len(different)} cases differ: {different[:20]}"


@pytest.mark.once
def test_the_class_of_4_3_is_another_one() -> None:
    """As many rows differ as were counted; that the others are right is for the live test."""
    different = 0
    for row in streams_rows.rows(STICKY):
        group = streams_rows.group_of(row, release="4.3")
        different += streams_rows.sets_of(group, assign_tasks(group, release="4.3")) != streams_rows.expected(row)
    assert different == OTHER_IN_4_3


@pytest.mark.once
def test_the_class_of_4_2_2_is_between_them() -> None:
    """Zero differences by its own rules; by those of its neighbors, the rows that were recorded as different."""
    rows = read_rows(streams_rows.FILE_4_2_2)
    assert {
        release: sum(
            streams_rows.sets_of(group, assign_tasks(group, release=release)) != streams_rows.expected(row)
            for row in rows
            for group in [streams_rows.group_of(row, release=release)]
        )
        for release in RELEASES.values()
    } == {"4.4": 100, "4.3": 100, "4.2.2": 0}
    assert len(rows) == 120


@pytest.mark.parametrize(("system", "assignor"), [(STICKY, STICKY), ("streams-mock", streams_mock)])
def test_spark_plans_what_the_broker_recorded(
    spark: SparkSession, system: str, assignor: str | TaskAssignor, left_out: Callable[[str, int], None]
) -> None:
    """All rows in one call, from the tables of a fleet; all of them a fleet can tell."""
    every = int(os.environ.get("SPARK_ASSIGN_TEST_EVERY", "1"))
    rows = streams_rows.rows(system)
    assert all(map(tables.is_determined, rows))
    some = rows[::every]
    planned = plan_streams(streams_rows.fleet_of(spark, some), assignor)
    assert planned.rejected.collect() == []
    assert planned.metrics.count() == len(some)
    sets = streams_rows.planned_sets(planned.tasks.toArrow().to_pylist())
    planned.unpersist()
    assert sets == {row["case"]: expected for row in some if (expected := streams_rows.expected(row))}
    if every > 1:
        left_out(f"{system}: not by Spark in this run", len(rows) - len(some))
