"""Every recorded case of Streams applications on the classic protocol, by the kernel, and as groups of a fleet."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from spark_assign.assignors.streams.classic_application import UnknownOwnedPartitionsError, read_clients
from spark_assign.assignors.streams.streams_partition_assignor import plan_application
from spark_assign.streams import plan_streams
from tests.golden import streams_classic_rows as recorded
from tests.sizes import drawn
from tests.spark.fleets import shuffled

ERRORS = 3
"""The number of rows in which Kafka throws: a process owns partitions of unknown tasks only."""


@pytest.mark.once
@pytest.mark.parametrize("assignor", ["high-availability", "sticky", "legacy-sticky"])
def test_the_kernel_plans_what_the_leader_recorded(assignor: str) -> None:
    """Zero differences in every recorded field: clients, warmups, members, and when they rejoin."""
    rows = [row for row in recorded.rows() if row["assignor"] == assignor and "error" not in row]
    different = []
    for row in rows:
        application = recorded.application_of(row)
        if recorded.planned(row, application, plan_application(application)) != row["expect"]:
            different.append(row["case"])
    assert rows
    assert not different, f"{len(different)} of {len(rows)} cases differ: {different[:20]}"


@pytest.mark.once
def test_a_leader_of_the_other_release_assigns_otherwise() -> None:
    """Both profiles are needed: rows of 4.4.0 that are marked differ by the rules of 4.3.1, and no others."""
    different = set()
    for row in recorded.rows():
        if row["release"] == "4.4.0" and "error" not in row:
            application = recorded.application_of(row | {"release": "4.3.1"})
            if recorded.planned(row, application, plan_application(application)) != row["expect"]:
                different.add(row["case"])
    assert different == {row["case"] for row in recorded.rows() if row.get("differs_from") == "4.3.1"}
    assert len(different) == 264


@pytest.mark.once
def test_what_the_task_assignor_gets() -> None:
    """Clients, tasks, and lags, in the order of Java's maps."""
    for row in recorded.rows():
        if "model" not in row:
            continue
        application, model = recorded.application_of(row), row["model"]
        clients = read_clients(application)
        assert [recorded.task_text(task) for task in application.task_order] == model["all_tasks"]
        if "stateful_tasks" in model:
            assert [recorded.task_text(task) for task in application.stateful_order] == model["stateful_tasks"]
        assert [client.process_id for client in clients] == [client["process"] for client in model["clients"]]
        for client, expected in zip(clients, model["clients"], strict=True):
            assert client.capacity == expected["capacity"]
            assert sorted(map(recorded.task_text, client.previous_active)) == sorted(expected["prev_active"])
            assert sorted(map(recorded.task_text, client.previous_standby)) == sorted(expected["prev_standby"])
            if "lags" in expected:
                lags = application.end_offset_sums | client.lags
                assert {recorded.task_text(task): lag for task, lag in lags.items()} == expected["lags"]


@pytest.mark.once
def test_where_kafka_throws() -> None:
    """The kernel raises an error of its own."""
    rows = [row for row in recorded.rows() if "error" in row]
    assert len(rows) == ERRORS
    for row in rows:
        with pytest.raises(UnknownOwnedPartitionsError):
            plan_application(recorded.application_of(row))


def test_spark_plans_what_the_leader_recorded(
    spark: SparkSession, left_out: Callable[[str, int], None], seed: int
) -> None:
    """A drawn third of the rows, and all in the full run, in one call from the tables of a fleet in any order."""
    every = int(os.environ.get("SPARK_ASSIGN_TEST_EVERY", drawn(default=3, full=1)))
    rows = recorded.rows()
    some = rows[seed % min(every, len(rows)) :: every]
    planned = plan_streams(shuffled(recorded.fleet_of(spark, some), seed))
    rejected = {row["cluster"]: row["code"] for row in planned.rejected.collect()}
    metrics = {row["cluster"]: row.asDict() for row in planned.metrics.collect()}
    tasks: dict[str, list[recorded.Row]] = {}
    for row in planned.tasks.toArrow().to_pylist():
        tasks.setdefault(row["cluster"], []).append(row)
    planned.unpersist()
    different = []
    for row in some:
        case, expect = row["case"], row.get("expect")
        errors = {of.get("error_code") for of in expect["consumers"].values()} if expect is not None else {None}
        if expect is None or errors != {None}:
            code = "unknown-owned" if expect is None else recorded.REJECTED[min(filter(None, errors))]
            is_equal = rejected.get(case) == code
        else:
            found = recorded.planned_in_tables(row, tasks.get(case, []), metrics.get(case, {"follow_up": "rejected"}))
            is_equal = found == recorded.expected_in_tables(row)
        if not is_equal:
            different.append(case)
    assert len(rejected) + len(metrics) == len(some)
    assert not different, f"{len(different)} of {len(some)} cases differ: {different[:20]}"
    if every > 1:
        left_out("classic Streams: not by Spark in this run", len(rows) - len(some))
