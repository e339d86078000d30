"""How much Spark has to do for a plan, counted and not timed: jobs, queries, scans and the length of their plans."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_assign import Fleet, advise, compare, find_drift, plan
from spark_assign.advice import advise_membership, measure_zone_traffic
from spark_assign.comparison.what_if import parse_what_if
from spark_assign.report.plan_summary import summarize
from spark_assign.stores.run_store import stored_run
from tests.docs import given

pytestmark = [pytest.mark.spark, pytest.mark.once]

SAMPLE = Path(__file__).parents[2] / "conf" / "sample-fleet"
ASSIGNORS = ["range", "roundrobin", "sticky", "cooperative-sticky"]


@dataclass(frozen=True)
class Work:
    """Jobs that were run, and the SQL executions that they belong to."""

    jobs: int
    executions: int


@pytest.fixture
def counted(spark: SparkSession) -> Callable[[Callable[[], None]], Work]:
    """Runs something and counts."""

    def count(work: Callable[[], None]) -> Work:
        context, name = spark.sparkContext, str(uuid.uuid4())
        # Their ids are counted: the list of executions is cut after so many, and then grows no more.
        store = spark._jsparkSession.sharedState().statusStore()

        def latest() -> int:
            listed = store.executionsList()
            return int(listed.last().executionId()) if listed.size() else -1

        before = latest()
        context.setJobGroup(name, "counted")
        work()
        context.setLocalProperty("spark.jobGroup.id", None)
        return Work(len(context.statusTracker().getJobIdsForGroup(name)), latest() - before)

    return count


def physical_plan(frame: DataFrame) -> str:
    """The plan of a query when it starts."""
    return str(frame._jdf.queryExecution().executedPlan().toString())


def scans(text: str) -> int:
    """How often a table is read. The driver has read the files; a query has their rows."""
    assert "FileScan" not in text
    return text.count("LocalTableScan")


def test_the_sample_is_planned_in_few_jobs(
    spark: SparkSession, counted: Callable[[Callable[[], None]], Work], tmp_path: Path
) -> None:
    """At most 25 jobs and 12 executions, everything written and the summary included."""

    def work() -> None:
        planned = plan(Fleet.read(spark, str(SAMPLE)), "configured")
        manifest = planned.write(str(tmp_path), run_id="counted")
        assert "19 groups planned, 0 rejected" in summarize(stored_run(spark, str(tmp_path), manifest), "there")

    done = counted(work)
    print(done)
    assert done.jobs <= 25
    assert done.executions <= 12


def test_no_query_of_a_plan_is_long(spark: SparkSession) -> None:
    """Its text has at most 40,000 characters; each table is read once, and topics once per kind of fact with topics."""
    planned = plan(Fleet.read(spark, str(SAMPLE)), "configured")
    for query in (planned.tagged_rows(), planned.moves, planned.metrics):
        text = physical_plan(query)
        print(len(text), scans(text))
        assert len(text) <= 40_000
        assert scans(text) <= len(list(SAMPLE.glob("*.csv"))) + 3


def test_a_pandas_udf_computes_moves_and_revocations(spark: SparkSession) -> None:
    """Both are projections of the same pass, evaluated by Arrow in Python without a shuffle of their own."""
    planned = plan(Fleet.read(spark, str(SAMPLE)), "configured")
    exchanges = physical_plan(planned.assignment_slices).count("Exchange")
    for query in (planned.moves, planned.revocations):
        text = physical_plan(query)
        assert "ArrowEvalPython" in text
        assert text.count("Exchange") == exchanges


def test_comparing_is_one_query(spark: SparkSession, counted: Callable[[Callable[[], None]], Work]) -> None:
    """Four assignors before and after a change: at most 30 jobs, and no more than 80,000 characters."""
    fleet = Fleet.read(spark, str(SAMPLE))
    compared = compare(fleet, ASSIGNORS, [parse_what_if("one less=leave:*:1")]).comparison
    assert len(physical_plan(compared)) <= 80_000
    done = counted(lambda: compared.collect() and None)
    print(done)
    assert done.jobs <= 30
    assert done.executions == 1


def test_drift_is_one_pass(spark: SparkSession, counted: Callable[[Callable[[], None]], Work], tmp_path: Path) -> None:
    """Two fleets checked and held against each other, one table: 10 jobs; all four tables written: 15."""
    before = Fleet.read(spark, str(SAMPLE))
    after = before.with_members_left(count=1)
    found = find_drift(before, after)
    for query in (found.tagged_rows(), found.groups, found.members, found.ownership):
        text = physical_plan(query)
        print(len(text), scans(text))
        assert len(text) <= 40_000

    def look() -> None:
        for fleet in (before, after):
            fleet.unpersist()
        find_drift(before, after).groups.collect()

    def write() -> None:
        find_drift(before, after).write(str(tmp_path), run_id="counted")

    done = counted(look)
    print(done)
    assert done.jobs <= 10
    assert done.executions == 3
    done = counted(write)
    print(done)
    assert done.jobs <= 15
    assert done.executions <= 8


def test_the_advisers_share_one_shuffle(spark: SparkSession) -> None:
    """Assignor, size and zones read the same facts: `advise` shuffles groups as often as zones and membership alone."""
    fleet = given.zones_fleet(spark)

    def shuffles(frame: DataFrame) -> int:
        frame.collect()
        final = physical_plan(frame).partition("== Initial Plan ==")[0]
        by_group = re.compile(r"Exchange hashpartitioning\(cluster#\d+, group_id#\d+, \d+\), REPARTITION_BY_NUM")
        return sum("Reused" not in line for line in final.splitlines() if by_group.search(line))

    zones, membership = measure_zone_traffic(fleet).zones, advise_membership(fleet).membership_advice
    assert shuffles(advise(fleet).advice) == shuffles(zones) + shuffles(membership)
