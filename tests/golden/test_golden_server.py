"""Every recorded case of the broker's assignors of Kafka 4.4 (KIP-848): uniform, and range.

By the kernels, from the recorded orders; and as groups of a fleet, where those orders are made from ids.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from spark_assign import plan
from spark_assign.caching import cached
from spark_assign.kernels.group.decide import ASSIGNED, REJECTED, WITHHELD
from spark_assign.runs import expand
from tests.golden import server_rows, sticky_kernel, tables, vectors
from tests.golden.vectors import Sets

ASSIGNORS = ("uniform", "server-range")
NOT_TOLD = {"uniform": 77, "server-range": 0}
"""Rows whose answer hangs on what a fleet's tables do not say (`server_rows.told_by_a_fleet`)."""
OTHER_TIES = {"uniform": 13, "server-range": 0}
"""Of the others, those with another answer: two topics in one bucket of a member's map, whose order is that of rounds
long ago, decide which of them it gives."""


@pytest.mark.once
def test_the_kernels_plan_what_the_broker_recorded() -> None:
    """Zero differences, as sets of partitions per member; Kafka's classes throw in none of these cases."""
    different = [row["case"] for row in server_rows.rows() if server_rows.answered(row) != server_rows.expected(row)]
    assert not different, f"{len(different)} cases differ: {different[:20]}"


def rows_of(assignor: str, left_out: Callable[[str, int], None]) -> tuple[list[vectors.Row], Sets]:
    """The rows of an assignor that a fleet can tell, and what the broker answered, by the names of topics."""
    every = [row for row in server_rows.rows() if row["system"] == assignor]
    rows = [row for row in every if server_rows.told_by_a_fleet(row)]
    assert len(every) - len(rows) == NOT_TOLD[assignor]
    if NOT_TOLD[assignor]:
        left_out(f"{assignor}: a fleet does not say all that the answer hangs on", NOT_TOLD[assignor])
    expected: Sets = {}
    for row in rows:
        name = {topic: told["name"] for topic, told in row["topics"].items()}
        got = server_rows.expected(row)
        if got:
            expected[row["case"]] = {who: {(name[topic], at) for topic, at in mine} for who, mine in got.items()}
    return [server_rows.client_row(row) for row in rows], expected


def check(assignor: str, expected: Sets, planned: Sets, left_out: Callable[[str, int], None]) -> None:
    """Nothing differs but the known ties."""
    differences = vectors.differences(expected, planned)
    assert len(differences) == OTHER_TIES[assignor], "\n".join(differences[:20])
    if differences:
        left_out(f"{assignor}: older ties between topics, which decide otherwise", len(differences))


@pytest.mark.once
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_groups_are_planned_as_the_broker_recorded(assignor: str, left_out: Callable[[str, int], None]) -> None:
    """From facts, with the orders made from ids; what is withheld counts, as it is the target that was recorded."""
    rows, expected = rows_of(assignor, left_out)
    answer = sticky_kernel.planned(rows, assignor)
    assert answer.refused == {}
    planned = answer.sets
    for case, of_member in answer.withheld.items():
        for member, got in of_member.items():
            assert not planned.setdefault(case, {}).setdefault(member, set()) & got
            planned[case][member] |= got
    check(assignor, expected, planned, left_out)


@pytest.mark.spark
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_spark_plans_what_the_broker_recorded(
    spark: SparkSession, assignor: str, left_out: Callable[[str, int], None]
) -> None:
    """The same in one call, from the tables of a fleet."""
    every = int(os.environ.get("SPARK_ASSIGN_TEST_EVERY", "1"))
    rows, expected = rows_of(assignor, left_out)
    some = rows[::every]
    planned = plan(tables.fleet_of(spark, some), assignor)
    planned = planned.with_decided(cached(planned.rows(ASSIGNED, WITHHELD, REJECTED)))
    assert planned.rejected.collect() == []
    got = tables.planned_sets(expand(planned.target))
    if every > 1:
        expected = {row["case"]: expected[row["case"]] for row in some if row["case"] in expected}
        assert len(vectors.differences(expected, got)) <= OTHER_TIES[assignor]
        left_out(f"{assignor}: not by Spark in this run", len(rows) - len(some))
        return
    check(assignor, expected, got, left_out)
