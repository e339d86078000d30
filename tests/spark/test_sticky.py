"""What sticky plans say beyond the assignment: what is withheld, why it moves, and in how many rounds."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_assign import Fleet, FleetError, SparkAssignError, converge, explain, plan
from spark_assign.schemas import PLAN_TABLES, ROUNDS
from tests.spark.fleets import fleet, group, table, tuples

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def grown(spark: SparkSession) -> Fleet:
    """a and b own six partitions each; c has joined."""
    return _two_owners(spark).with_members_joined(table(spark, "members", [("c", "g", "c")]))


def _two_owners(spark: SparkSession, **more: Any) -> Fleet:
    rows = group({"a": ["t", "u"], "b": ["t", "u"]})
    owned = [("c", "g", "a", "t", 0, 1, 6), ("c", "g", "b", "u", 0, 1, 6)]
    return fleet(spark, topics=[("c", "t", 6), ("c", "u", 6)], **rows, owned_runs=owned, **more)


def test_cooperative_sticky_withholds_until_the_owner_gives_up(grown: Fleet) -> None:
    """Both keep their first four by (partition, topic); c gets nothing until the others have let go."""
    planned = plan(grown, "cooperative-sticky")
    assert {name: getattr(planned, name).columns for name in PLAN_TABLES} == {
        name: schema.fieldNames() for name, schema in PLAN_TABLES.items()
    }
    assert tuples(planned.runs, "member_id", "topic", "first", "count") == [("a", "t", 0, 4), ("b", "u", 0, 4)]
    expected = [("a", "t", 4, "c"), ("a", "t", 5, "c"), ("b", "u", 4, "c"), ("b", "u", 5, "c")]
    assert tuples(planned.revocations, "member_id", "topic", "partition", "next_member_id") == expected
    assert tuples(planned.moves, "topic", "partition", "from_member_id", "to_member_id", "reason") == [
        ("t", 4, "a", "c", "over-quota"),
        ("t", 5, "a", "c", "over-quota"),
        ("u", 4, "b", "c", "over-quota"),
        ("u", 5, "b", "c", "over-quota"),
    ]
    figures = ("partitions", "moved", "revoked", "unassigned", "withheld")
    assert tuples(planned.metrics, *figures) == [(8, 4, 4, 4, 4)]
    eager = plan(grown, "sticky")
    assert tuples(eager.runs, "member_id", "topic", "first", "count")[2:] == [("c", "t", 4, 2), ("c", "u", 4, 2)]
    assert tuples(eager.metrics, *figures) == [(12, 4, 4, 0, 0)]


def test_rounds_of_both_protocols(grown: Fleet) -> None:
    """Cooperative: what moves stops for one round. Eager: everything stops, once."""
    cooperative = converge(grown, "cooperative-sticky")
    assert cooperative.columns == ROUNDS.fieldNames()
    figures = ("round", "assigned", "revoked", "moved", "unowned", "stable")
    assert tuples(cooperative, *figures) == [(1, 8, 4, 4, 4, False), (2, 12, 0, 0, 0, True)]
    assert tuples(converge(grown, "sticky"), *figures) == [(1, 12, 12, 4, 12, True)]


def test_a_partition_claimed_twice_is_given_up_by_both(spark: SparkSession) -> None:
    """Equal generations: nobody keeps it, whoever gets it waits; a newer generation wins at once."""
    rows = group({"a": ["t"], "b": ["t"]})
    topics = [("c", "t", 2)]
    owned = [("c", "g", "a", "t", 0), ("c", "g", "b", "t", 0), ("c", "g", "b", "t", 1)]
    members = [("c", "g", name, None, None, None, None, 5) for name in "ab"]
    contested = fleet(spark, topics=topics, **{**rows, "members": members}, owned=owned)
    planned = plan(contested, "cooperative-sticky")
    assert tuples(planned.assignments, "member_id", "partition") == [("b", 1)]
    assert tuples(planned.revocations, "member_id", "partition", "next_member_id") == [("a", 0, "a"), ("b", 0, "a")]
    assert tuples(planned.moves, "from_member_id", "to_member_id", "reason") == [("b", "a", "claim-conflict")]
    told = explain(planned, "g", "t", 0)
    assert "2 members claim it" in told
    assert "withheld" in told
    assert tuples(converge(contested, "cooperative-sticky"), "round", "revoked", "stable")[-1] == (2, 0, True)
    newer = [("c", "g", "a", None, None, None, None, 6), *members[1:]]
    planned = plan(fleet(spark, topics=topics, **{**rows, "members": newer}, owned=owned), "cooperative-sticky")
    assert tuples(planned.assignments, "member_id", "partition") == [("a", 0), ("b", 1)]


def test_explain_tells_the_numbers(grown: Fleet) -> None:
    """What moves, with quota and rank; what stays; what cannot be told."""
    planned = plan(grown, "cooperative-sticky")
    assert explain(planned, "g", "t", 5) == (
        "t-5 of c/g: goes from a to c, since a owned 6, its quota is 4, and of what it owned this is number 6 by "
        "partition and topic. It is withheld in this round: a gives it up first, and the next round assigns it."
    )
    assert explain(planned, "g", "u", 0) == "u-0 of c/g: stays with b, which owned 6 (quota 4)."
    with pytest.raises(SparkAssignError, match="t-6 is neither owned nor assigned"):
        explain(planned, "g", "t", 6)
    with pytest.raises(SparkAssignError, match="group nobody is not planned"):
        explain(planned, "nobody", "t", 0)


def test_racks_and_differing_subscriptions_have_reasons(spark: SparkSession) -> None:
    """A partition without replica in its owner's rack; one that goes to somebody with far less."""
    rows = group({"a": ["t"], "b": ["t"]})
    racked = fleet(
        spark,
        topics=[("c", "t", 2)],
        **{**rows, "members": [("c", "g", "a", None, None, None, "r1"), ("c", "g", "b", None, None, None, "r2")]},
        owned=[("c", "g", "a", "t", 1)],
        replicas=[("c", "t", 0, [1]), ("c", "t", 1, [2])],
        brokers=[("c", 1, "r1"), ("c", 2, "r2")],
    )
    planned = plan(racked, "sticky")
    assert tuples(planned.moves, "partition", "to_member_id", "reason") == [
        (0, "a", "new"),
        (1, "b", "rack-mismatch"),
    ]
    differing = group({"a": ["t"], "b": ["t", "u"]})
    owned = [("c", "g", "a", "t", partition) for partition in range(4)]
    uneven = fleet(spark, topics=[("c", "t", 4), ("c", "u", 1)], **differing, owned=owned)
    planned = plan(uneven, "sticky")
    assert tuples(planned.moves, "topic", "to_member_id", "reason") == [("t", "b", "balancing"), ("u", "b", "new")]
    assert "owned 4 and b 0" in explain(planned, "g", "t", tuples(planned.moves, "partition")[0][0])


def test_what_kafka_refuses_is_rejected(spark: SparkSession) -> None:
    """An owned partition beyond the count, where Kafka's class throws: the group alone, with Kafka's words."""
    rows = group({"a": ["t"], "b": ["t"]})
    broken = fleet(spark, topics=[("c", "t", 2)], **rows, owned=[("c", "g", "a", "t", 7)])
    planned = plan(broken, "sticky")
    assert tuples(planned.rejected, "group_id", "code") == [("g", "kafka-fails")]
    assert "StickyAssignor throws here: IllegalStateException" in planned.rejected.collect()[0]["detail"]
    assert planned.metrics.count() == 0


def test_changes_by_pattern(spark: SparkSession) -> None:
    """Members that leave and join, topics that grow: by pattern as by rows."""
    start = _two_owners(spark)
    fewer = start.with_members_left(group_id="g*", number=1)
    assert tuples(fewer.members, "member_id") == [("b",)]
    assert tuples(plan(fewer, "sticky").metrics, "members", "moved", "revoked") == [(1, 6, 0)]
    assert tuples(start.with_members_left(member_id="[ab]", cluster="other").members, "member_id") == [("a",), ("b",)]
    more = start.with_members_joined(number=2, group_id="g", member_id="new-", topics=["t"])
    assert tuples(more.subscriptions.where("member_id like 'new-%'"), "member_id", "topic") == [
        ("new-01", "t"),
        ("new-02", "t"),
    ]
    doubled = start.with_partitions(topic="t*", factor=2)
    assert tuples(doubled.topics, "topic", "partitions") == [("t", 12), ("u", 6)]
    assert tuples(plan(doubled, "cooperative-sticky").metrics, "partitions", "moved", "revoked") == [(18, 0, 0)]
    by_rows = start.with_partitions(table(spark, "topics", [("c", "u", 1), ("c", "v", 3)]))
    assert tuples(by_rows.topics, "topic", "partitions") == [("t", 6), ("u", 1), ("v", 3)]
    for nothing_said in (start.with_members_left, start.with_members_joined, start.with_partitions):
        with pytest.raises(FleetError, match="Give one of the two"):
            nothing_said()
