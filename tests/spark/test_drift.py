"""What changed between two fleets, two plans, or a plan and a fleet."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_assign import Fleet, find_drift, plan
from spark_assign.spark.engine import cached
from spark_assign.tables.comparison import DRIFT_TABLES
from spark_assign.tables.errors import SourceError, find_row_fault
from tests.spark.fleets import fleet, kept, tuples

pytestmark = [pytest.mark.spark, pytest.mark.keeps_cached]


def make(spark: SparkSession, topics: dict[str, int], groups: dict[str, dict[str, list[tuple[str, int]]]]) -> Fleet:
    """Groups of members and what they own; a member `name/instance` is static, `name!` is listed twice."""
    members: list[tuple[Any, ...]] = []
    owned = []
    for group, each in groups.items():
        for name, mine in each.items():
            member, _, instance = name.rstrip("!").partition("/")
            members += [("c", group, member, instance or None)] * (1 + name.endswith("!"))
            owned += [("c", group, member, topic, partition) for topic, partition in mine]
    return fleet(
        spark,
        topics=topics,
        members=members,
        subscriptions=[("c", group, name, topic) for _, group, name, _ in dict.fromkeys(members) for topic in topics],
        owned=owned,
    )


@pytest.fixture(scope="module")
def sides(spark: SparkSession) -> tuple[Fleet, Fleet]:
    """Two snapshots."""
    t = [("t", partition) for partition in range(4)]
    before = make(
        spark,
        {"t": 4, "u": 2, "gone": 1, "shrinks": 3},
        {
            "same": {"a": t[:2], "b": t[2:]},
            "joined": {"a": t[:2], "b": t[2:]},
            "bounced": {"x1/i1": t[:2], "y1/i2": t[2:]},
            "away": {"a": t},
            "faulty": {"a": t},
        },
    )
    after = make(
        spark,
        {"t": 6, "u": 2, "new": 1, "shrinks": 2},
        {
            "same": {"b": t[2:], "a": t[:2]},
            "joined": {"a": t[:1], "b": t[2:3], "c": [t[1], ("t", 4)]},
            "bounced": {"x2/i1": t[:2], "y1/i2": t[3:], "z/i3": t[2:3]},
            "appeared": {"a": t[:3], "b": t[3:]},
            "faulty": {"a!": t},
        },
    )
    return before, after


def test_drift_of_two_fleets(sides: tuple[Fleet, Fleet]) -> None:
    """Members, ownership and topics; a static member that restarts is the same owner."""
    found = kept(find_drift(*sides))
    for name, schema in DRIFT_TABLES.items():
        table = getattr(found, name)
        assert [(f.name, f.dataType) for f in table.schema] == [(f.name, f.dataType) for f in schema]
    assert tuples(found.members, "group_id", "member_id", "change", "previous_member_id", "group_instance_id") == [
        ("appeared", "a", "joined", None, None),
        ("appeared", "b", "joined", None, None),
        ("away", "a", "left", None, None),
        ("bounced", "x2", "restarted", "x1", "i1"),
        ("bounced", "z", "joined", None, "i3"),
        ("joined", "c", "joined", None, None),
    ]
    moved = tuples(found.ownership, "group_id", "partition", "from_member_id", "to_member_id", "change")
    assert [row for row in moved if row[0] in ("joined", "bounced")] == [
        ("bounced", 2, "y1", "z", "moved"),
        ("joined", 1, "a", "c", "moved"),
        ("joined", 3, "b", None, "no-longer-owned"),
        ("joined", 4, None, "c", "newly-owned"),
    ]
    assert {row[0]: row[4] for row in moved if row[0] not in ("joined", "bounced")} == {
        "appeared": "newly-owned",
        "away": "no-longer-owned",
    }
    assert tuples(found.topics, "topic", "change", "partitions_before", "partitions_after") == [
        ("gone", "deleted", 1, None),
        ("new", "created", None, 1),
        ("shrinks", "shrunk", 3, 2),
        ("t", "grown", 4, 6),
    ]
    columns = ["group_id", "change", "members_before", "members_after", "joined", "left", "restarted"]
    columns += ["partitions_before", "partitions_after", "moved", "newly_owned", "no_longer_owned"]
    assert tuples(found.groups, *columns) == [
        ("appeared", "added", None, 2, 2, 0, 0, None, 4, 0, 4, 0),
        ("away", "removed", 1, None, 0, 1, 0, 4, None, 0, 0, 4),
        ("bounced", "changed", 2, 3, 1, 0, 1, 4, 4, 1, 0, 0),
        ("faulty", "changed", 1, None, 0, 0, 0, 4, None, 0, 0, 0),
        ("joined", "changed", 2, 3, 1, 0, 0, 4, 4, 1, 1, 1),
        ("same", "unchanged", 2, 2, 0, 0, 0, 4, 4, 0, 0, 0),
    ]
    balance = tuples(found.groups, "group_id", "max_over_mean_before", "max_over_mean_after", "rejected_after")
    assert balance == [
        ("appeared", None, 1.5, None),
        ("away", 1.0, None, None),
        ("bounced", 1.0, 1.5, None),
        ("faulty", 1.0, None, "duplicate-member"),
        ("joined", 1.0, 1.5, None),
        ("same", 1.0, 1.0, None),
    ]


@pytest.mark.once
def test_drift_is_the_other_way_round_backwards(sides: tuple[Fleet, Fleet]) -> None:
    """What was won is lost."""
    there, back = find_drift(*sides), find_drift(*reversed(sides))
    mirrored = back.ownership.selectExpr("group_id", "topic", "partition", "to_member_id f", "from_member_id t")
    mine = there.ownership.where("group_id <> 'bounced'")
    other = mirrored.where("group_id <> 'bounced'")
    assert tuples(mine, "group_id", "topic", "partition", "from_member_id", "to_member_id") == tuples(other)


def test_a_plan_against_what_is_owned(sides: tuple[Fleet, Fleet]) -> None:
    """The moves of a plan are the drift from the fleet to the plan; a stored plan's tables say the same."""
    before = sides[0]
    planned = kept(plan(before, "range"))
    expected = tuples(planned.moves, "group_id", "topic", "partition", "from_member_id", "to_member_id")
    columns = ("group_id", "topic", "partition", "from_member_id", "to_member_id")
    assert tuples(find_drift(before, planned).ownership, *columns) == expected
    stored = {name: getattr(planned, name) for name in ("assignments", "metrics", "rejected")}
    found = kept(find_drift(before, stored))
    assert tuples(found.ownership, *columns) == expected
    assert found.topics.isEmpty()
    by_metrics = {row["group_id"]: row["max_over_mean"] for row in planned.metrics.collect()}
    assert dict(tuples(found.groups, "group_id", "max_over_mean_after")) == by_metrics
    with pytest.raises(SourceError, match="has no table metrics, rejected"):
        find_drift(before, {"assignment_slices": planned.assignment_slices})


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("assignment_slices", "count", "2147483647"),
        ("assignment_slices", "step", "0"),
        ("assignment_slices", "first", "-1"),
        ("metrics", "cluster", "null"),
    ],
)
def test_a_stored_plan_with_a_wrong_row(spark: SparkSession, table: str, column: str, value: str) -> None:
    """It is named, and no slice is expanded beyond what a topic can have."""
    planned = plan(make(spark, {"t": 4}, {"g": {"a": [("t", 0)], "b": []}}), "range")
    stored = {name: getattr(planned, name) for name in ("assignment_slices", "metrics", "rejected")}
    wrong = stored[table].withColumn(column, F.expr(value).cast(stored[table].schema[column].dataType))
    with pytest.raises(Exception, match="faulty row") as error:
        find_drift(stored, {**stored, table: wrong}).groups.collect()
    fault = find_row_fault(error.value)
    assert fault is not None
    assert (fault.faults[0].table, fault.faults[0].column) == (table, "count" if "slices" in table else column)


@pytest.mark.once
def test_a_stored_plan_is_compared_by_its_end(spark: SparkSession) -> None:
    """What a cooperative plan withholds at first counts for its next owner, and in the balance."""
    owned = [("t", partition) for partition in range(4)]
    before = make(spark, {"t": 4}, {"grows": {"a": owned, "b": []}, "rests": {"a": owned[:2], "b": owned[2:]}})
    planned = plan(before, "cooperative-sticky")
    tables = {
        name: cached(getattr(planned, name)) for name in ("assignment_slices", "revocations", "metrics", "rejected")
    }
    found = kept(find_drift(before, tables))
    assert (
        tuples(found.ownership, "group_id", "topic", "from_member_id", "to_member_id", "change")
        == [("grows", "t", "a", "b", "moved")] * 2
    )
    assert tuples(found.groups, "group_id", "partitions_after", "max_over_mean_after", "moved") == [
        ("grows", 4, 1.0, 2),
        ("rests", 4, 1.0, 0),
    ]
    before.unpersist()
