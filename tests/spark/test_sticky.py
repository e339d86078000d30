"""What sticky plans say beyond the assignment: what is withheld, why it moves, and in how many rounds."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_assign import Fleet, FleetError, Plan, SparkAssignError, converge, explain, plan
from spark_assign.tables.groups import PLAN_TABLES, ROUNDS
from tests.spark.fleets import assert_declared, fleet, kept, table, tuples

pytestmark = [pytest.mark.spark, pytest.mark.keeps_cached]

TOPICS = {"four": 4, "one": 1, "t": 6, "two": 2, "u": 6, "v": 2, "w": 2}
GROUPS = {
    "grown": {"a": ["t", "u"], "b": ["t", "u"], "c": ["t", "u"]},
    "left": {"b": ["t"]},
    "contested": {"a": ["two"], "b": ["two"]},
    "newer": {"a": ["two"], "b": ["two"]},
    "racked": {"a": ["w"], "b": ["w"]},
    "uneven": {"a": ["four"], "b": ["four", "one"]},
    "broken": {"a": ["v", "w"], "b": ["v", "w"]},
}
GENERATION = {("newer", "a"): 6}
RACK = {("racked", "a"): "r1", ("racked", "b"): "r2"}
OWNED = [
    *(("c", "grown", "a", "t", 0, 1, 6), ("c", "grown", "b", "u", 0, 1, 6)),
    *(("c", "left", "a", "t", 0, 1, 4), ("c", "left", "b", "t", 4, 1, 2)),
    *(("c", group, "a", "two", 0, 1, 1) for group in ("contested", "newer")),
    *(("c", group, "b", "two", 0, 1, 2) for group in ("contested", "newer")),
    *(("c", "racked", "a", "w", 1, 1, 1), ("c", "uneven", "a", "four", 0, 1, 4)),
    *(("c", "broken", "a", "v", 5, 1, 1), ("c", "broken", "a", "w", 0, 1, 1)),
]


@pytest.fixture(scope="module")
def groups(spark: SparkSession) -> Fleet:
    """One group for each thing that may happen; a has just left the group `left`."""
    members = [
        ("c", name, member, None, None, None, RACK.get((name, member)), GENERATION.get((name, member), 5))
        for name, each in (GROUPS | {"left": {"a": [], "b": []}}).items()
        for member in each
    ]
    every = fleet(
        spark,
        topics=TOPICS,
        members=members,
        subscriptions=[
            ("c", name, member, topic) for name, each in GROUPS.items() for member in each for topic in each[member]
        ],
        owned_slices=OWNED,
        replicas=[("c", "w", 0, [1]), ("c", "w", 1, [2])],
        brokers=[("c", 1, "r1"), ("c", 2, "r2")],
    )
    return every.with_members_left(group_id="left", member_id="a")


@pytest.fixture(scope="module")
def cooperative(groups: Fleet) -> Plan:
    """The groups under cooperative-sticky."""
    return kept(plan(groups, "cooperative-sticky"))


def _of(group_id: str, rows: list[tuple]) -> list[tuple]:
    return [row[1:] for row in rows if row[0] == group_id]


@pytest.mark.once
def test_what_a_cooperative_round_withholds_and_why(cooperative: Plan) -> None:
    """Each keeps the first of what it owns by (partition, topic); whoever is next waits until the owner let go."""
    assert_declared(cooperative, PLAN_TABLES)
    runs = tuples(cooperative.assignment_slices, "group_id", "member_id", "topic", "first", "count")
    assert _of("grown", runs) == [("a", "t", 0, 4), ("b", "u", 0, 4)]
    assert _of("left", runs) == [("b", "t", 0, 4), ("b", "t", 4, 2)]
    assert _of("contested", runs) == [("b", "two", 1, 1)], "equal generations: nobody keeps it"
    assert _of("newer", runs) == [("a", "two", 0, 1), ("b", "two", 1, 1)], "the newer generation keeps it"
    revoked = tuples(cooperative.revocations, "group_id", "member_id", "topic", "partition", "next_member_id")
    assert _of("grown", revoked) == [("a", "t", 4, "c"), ("a", "t", 5, "c"), ("b", "u", 4, "c"), ("b", "u", 5, "c")]
    assert _of("contested", revoked) == [("a", "two", 0, "a"), ("b", "two", 0, "a")]
    moves = tuples(cooperative.moves, "group_id", "topic", "partition", "from_member_id", "to_member_id", "reason")
    assert _of("grown", moves) == [
        (topic, partition, owner, "c", "over-quota") for topic, owner in ("ta", "ub") for partition in (4, 5)
    ]
    assert _of("left", moves) == [("t", partition, "a", "b", "member-left") for partition in range(4)]
    assert _of("contested", moves) == [("two", 0, "b", "a", "claim-conflict")]
    assert _of("racked", moves) == [("w", 0, None, "a", "new"), ("w", 1, "a", "b", "rack-mismatch")]
    assert [move[3:] for move in _of("uneven", moves)] == [("b", "balancing"), ("b", "new")]


@pytest.fixture(scope="module")
def rounds(groups: Fleet) -> list[tuple]:
    """The rounds of the groups under cooperative-sticky."""
    converged = converge(groups, "cooperative-sticky")
    assert converged.schema == ROUNDS
    return tuples(converged, "group_id", "round", "assigned", "revoked", "moved", "unowned", "stable")


def test_rounds_until_nobody_gives_up_anything(rounds: list[tuple]) -> None:
    """In the first round what moves is revoked; then what was withheld is assigned, and nothing is revoked."""
    assert _of("grown", rounds) == [(1, 8, 4, 4, 4, False), (2, 12, 0, 0, 0, True)]
    assert _of("left", rounds) == [(1, 6, 0, 4, 0, True)]
    assert _of("contested", rounds) == [(1, 1, 2, 0, 1, False), (2, 2, 0, 0, 0, True)]
    assert _of("broken", rounds) == []


@pytest.mark.once
def test_metrics_and_rounds_agree(rounds: list[tuple], cooperative: Plan) -> None:
    """The first round's figures are the plan's."""
    figures = ("partitions", "revoked", "moved", "unassigned")
    withheld = {}
    for name, number, *counted in tuples(cooperative.metrics, "group_id", "withheld", *figures):
        assert _of(name, rounds)[0][1:5] == tuple(counted), name
        withheld[name] = number
    assert withheld == {"grown": 4, "left": 0, "contested": 1, "newer": 0, "racked": 1, "uneven": 1}


def test_what_kafka_refuses_is_rejected(cooperative: Plan) -> None:
    """An owned partition beyond the count, where Kafka's class throws: the group alone, with Kafka's words."""
    [row] = cooperative.rejected.collect()
    assert (row["group_id"], row["code"]) == ("broken", "kafka-fails")
    assert "CooperativeStickyAssignor throws here: IllegalStateException: No more unfilled" in row["detail"]


@pytest.mark.once
def test_explain_tells_the_numbers(cooperative: Plan) -> None:
    """What moves, with quota and rank; what stays; what cannot be told."""
    assert explain(cooperative, "grown", "t", 5) == (
        "t-5 of c/grown: moves from a to c, because a owned 6, its quota is 4, and this is number 6 of them by "
        "partition and topic. It is withheld in this round: a revokes it first, and the next round assigns it."
    )
    assert explain(cooperative, "grown", "u", 0) == "u-0 of c/grown: stays with b, which owned 6 (quota 4)."
    with pytest.raises(SparkAssignError, match="t-6 is neither owned nor assigned"):
        explain(cooperative, "grown", "t", 6)
    with pytest.raises(SparkAssignError, match="group broken is not planned: it is rejected, kafka-fails"):
        explain(cooperative, "broken", "v", 0)


@pytest.mark.once
def test_the_eager_protocol_does_it_in_one_round(groups: Fleet) -> None:
    """Everything stops once; nothing is withheld."""
    some = groups.filter_groups(groups.members.where(F.col("group_id").isin("grown", "left")))
    eager = plan(some, "sticky")
    runs = tuples(eager.assignment_slices, "group_id", "member_id", "topic", "first", "count")
    assert _of("grown", runs)[2:] == [("c", "t", 4, 2), ("c", "u", 4, 2)]
    found = tuples(converge(some, "sticky"), "group_id", "round", "assigned", "revoked", "moved", "unowned", "stable")
    assert found == [("grown", 1, 12, 12, 4, 12, True), ("left", 1, 6, 2, 4, 6, True)]
    after = some.apply(plan(some, "cooperative-sticky"))
    again = plan(after, "cooperative-sticky")
    assert _of("grown", tuples(again.assignment_slices, "group_id", "member_id", "topic", "first", "count")) == _of(
        "grown", runs
    )


def test_changes_by_pattern(spark: SparkSession, groups: Fleet) -> None:
    """Members that leave and join, topics that grow: by pattern as by rows."""
    some = groups.filter_groups(table(spark, "members", [("c", "grown", "any")]))
    fewer = some.with_members_left(group_id="g*", count=1)
    assert tuples(fewer.members, "member_id") == [("b",), ("c",)]
    assert tuples(fewer.departed, "group_id", "topic", "first", "count") == [("grown", "t", 0, 6)]
    assert some.with_members_left(member_id="[ab]", cluster="other").members.count() == 3
    more = some.with_members_joined(count=2, group_id="gr*", member_id="new-", topics=["t"])
    joined = tuples(more.subscriptions.where("member_id like 'new-%'"), "member_id", "topic")
    assert joined == [("new-01", "t"), ("new-02", "t")]
    by_rows = some.with_members_joined(table(spark, "members", [("c", "grown", "d")]))
    assert tuples(by_rows.subscriptions.where("member_id = 'd'"), "topic") == [("t",), ("u",)]
    doubled = some.with_partitions(topic="t*", factor=2)
    assert tuples(doubled.topics, "topic", "partitions")[2:5] == [("t", 12), ("two", 4), ("u", 6)]
    known = some.with_partitions(table(spark, "topics", [("c", "u", 1), ("c", "x", 3)]))
    assert tuples(known.topics, "topic", "partitions")[4:] == [("u", 1), ("v", 2), ("w", 2), ("x", 3)]
    for without_arguments in (some.with_members_left, some.with_members_joined, some.with_partitions):
        with pytest.raises(FleetError, match="Give either a table or patterns"):
            without_arguments()
