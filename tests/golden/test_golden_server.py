"""Every recorded case of the broker's assignors of Kafka 4.4 (KIP-848): uniform, and range.

By the kernels, from the recorded orders; and as groups of a fleet, where those orders are made from ids.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_assign import plan
from spark_assign.groups.kernel.plan_groups import (
    ASSIGNED,
    ORDER_DEPENDENT,
    REJECTED,
    WITHHELD,
    PlanParams,
    plan_groups,
)
from spark_assign.spark.dataframes import expand
from spark_assign.spark.engine import cached
from tests.cases import cases
from tests.golden import server_rows, sticky_kernel, tables, vectors
from tests.golden.vectors import Sets
from tests.recorded_lines import read_rows
from tests.slices import topic_partitions

ASSIGNORS = ("uniform", "server-range")
NO_FLEET = {"uniform": 39, "server-range": 0}
"""Rows whose answer hangs on what a fleet's tables do not say (`server_rows.told_by_a_fleet`)."""


@pytest.mark.once
def test_the_kernels_plan_what_the_broker_recorded() -> None:
    """Zero differences, as sets of partitions per member; Kafka's classes throw in none of these cases."""
    different = [row["case"] for row in server_rows.rows() if server_rows.answered(row) != server_rows.expected(row)]
    assert not different, f"{len(different)} cases differ: {different[:20]}"


@pytest.mark.once
def test_uniform_of_4_0_0_is_another_class() -> None:
    """Zero differences by its own rules; by those of 4.0.1, the 100 rows that were recorded as different."""
    rows = read_rows(server_rows.FILE_4_0_0)
    assert [row["case"] for row in rows if server_rows.answered(row) != server_rows.expected(row)] == []
    later = [server_rows.answered(row | {"release": "4.0.1"}) != server_rows.expected(row) for row in rows]
    assert (sum(later), len(rows)) == (100, 120)


def rows_of(assignor: str, left_out: Callable[[str, int], None]) -> tuple[list[vectors.Row], Sets]:
    """The rows of an assignor that a fleet can tell, and what the broker answered, by the names of topics."""
    every = [row for row in server_rows.rows() if row["system"] == assignor]
    rows = [row for row in every if assignor == "server-range" or tables.is_determined(row)]
    assert len(every) - len(rows) == NO_FLEET[assignor]
    if NO_FLEET[assignor]:
        left_out(f"{assignor}: a fleet does not say all that the answer hangs on", NO_FLEET[assignor])
    expected: Sets = {}
    for row in rows:
        name = {topic: topic_row["name"] for topic, topic_row in row["topics"].items()}
        got = server_rows.expected(row)
        if got:
            expected[row["case"]] = {who: {(name[topic], at) for topic, at in mine} for who, mine in got.items()}
    return [server_rows.client_row(row) for row in rows], expected


def check(expected: Sets, planned: Sets) -> None:
    """Nothing differs."""
    differences = vectors.differences(expected, planned)
    assert not differences, "\n".join(differences[:20])


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
    check(expected, planned)


@pytest.mark.once
@cases("topic_row at_most", ("everything", 0.01), ("no positions", 0.17), ("no ids", 0.35), ("neither", 0.4))
def test_what_is_called_sure_is_what_the_broker_recorded(topic_row: str, at_most: float) -> None:
    """Whatever the fleet leaves out: what differs hangs on it, and is said to; and not everything is said to."""
    rows = [row for row in server_rows.rows() if row["system"] == "uniform"]
    if topic_row in ("everything", "no ids"):
        # The others have positions that a coordinator's table does not have.
        rows = [row for row in rows if tables.is_determined(row)]
    facts = sticky_kernel.facts([server_rows.client_row(row) for row in rows])
    for name in {"everything": (), "no positions": ("position",), "no ids": ("topic_id",)}.get(
        topic_row, ("position", "topic_id")
    ):
        facts = facts.drop_columns([name])
    required_kinds = frozenset({ASSIGNED, WITHHELD, ORDER_DEPENDENT})
    question = PlanParams((("*", "uniform"),), ("uniform",), required_kinds=required_kinds)
    owners: dict[str, dict[tuple[str, int], str]] = {row["case"]: {} for row in rows}
    order_dependent: dict[str, set[tuple[str, int]]] = {row["case"]: set() for row in rows}
    for run in pa.concat_tables(list(plan_groups(facts, question))).to_pylist():
        some = topic_partitions([run])
        if run["kind"] == ORDER_DEPENDENT:
            order_dependent[run["cluster"]] |= set(some)
        else:
            owners[run["cluster"]] |= dict.fromkeys(some, run["member_id"])
    for row in rows:
        name = {topic: topic_row["name"] for topic, topic_row in row["topics"].items()}
        theirs = {(name[topic], at): who for who, got in server_rows.expected(row).items() for topic, at in got}
        ours = owners[row["case"]]
        assert {o for o in theirs.keys() | ours.keys() if theirs.get(o) != ours.get(o)} <= order_dependent[row["case"]]
    assert 0 < sum(map(len, order_dependent.values())) / sum(map(len, owners.values())) <= at_most


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_spark_plans_what_the_broker_recorded(
    spark: SparkSession, assignor: str, left_out: Callable[[str, int], None]
) -> None:
    """The same in one call, from the tables of a fleet."""
    every = int(os.environ.get("SPARK_ASSIGN_TEST_EVERY", "1"))
    rows, expected = rows_of(assignor, left_out)
    some = rows[::every]
    planned = plan(tables.fleet_of(spark, some), assignor)
    planned = planned.with_tagged_rows(cached(planned.rows(ASSIGNED, WITHHELD, REJECTED)))
    assert planned.rejected.collect() == []
    got = tables.planned_sets(expand(planned.target))
    if every > 1:
        expected = {row["case"]: expected[row["case"]] for row in some if row["case"] in expected}
        check(expected, got)
        left_out(f"{assignor}: not by Spark in this run", len(rows) - len(some))
        return
    check(expected, got)
