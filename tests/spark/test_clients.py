"""A plan as configured follows the rules of the release that leads the group."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from spark_assign import Fleet, plan
from spark_assign.tables.errors import FleetError
from tests.spark.fleets import fleet, kept, tuples

pytestmark = pytest.mark.spark


def some(spark: SparkSession) -> Fleet:
    """Two members of one group, each in the rack of the partition that the other would get."""
    return fleet(
        spark,
        topics={"t": 2},
        members=[("c", "g", member, None, None, None, rack) for member, rack in (("a", "r2"), ("b", "r1"))],
        subscriptions=[("c", "g", member, "t") for member in "ab"],
        groups=[("c", "g", "range", "classic", None)],
        replicas=[("c", "t", 0, [1]), ("c", "t", 1, [2])],
        brokers=[("c", 1, "r1"), ("c", 2, "r2")],
    )


def test_the_leader_decides(spark: SparkSession) -> None:
    """Range knows racks since 3.5: https://cwiki.apache.org/confluence/display/KAFKA/KIP-881."""
    given = some(spark)
    today = kept(plan(given))
    assert tuples(today.assignments, "member_id", "partition") == [("a", 1), ("b", 0)]
    assert tuples(today.metrics, "assignor", "leader_client") == [("range", None)]
    old = kept(plan(given.with_leader_client("Java", "3.4", group_id="g")))
    assert tuples(old.assignments, "member_id", "partition") == [("a", 0), ("b", 1)]
    assert tuples(old.metrics, "assignor", "leader_client") == [("range@3.4", "Java 3.4 (given)")]
    new = plan(given.with_leader_client("Java", "3.4").with_leader_client("Java", "3.9", group_id="g*"))
    assert tuples(new.metrics, "assignor", "leader_client") == [("range", "Java 3.9 (given)")]
    sarama = kept(plan(given.with_leader_client("Sarama", group_id="g")))
    assert tuples(sarama.assignments, "member_id", "partition") == [("a", 0), ("b", 1)]
    assert tuples(sarama.metrics, "assignor", "leader_client") == [("range@3.4", "Sarama (given)")]
    elsewhere = plan(given.with_leader_client("Java", "3.4", group_id="h*"))
    assert tuples(elsewhere.metrics, "assignor", "leader_client") == [("range", None)]


@pytest.mark.once
def test_what_is_no_client(spark: SparkSession) -> None:
    """Named with what there is."""
    with pytest.raises(FleetError, match=r"'Jawa' is not known.*Java, librdkafka"):
        some(spark).with_leader_client("Jawa")
    with pytest.raises(FleetError, match=r"'5' isn't a known release of Kafka's clients.*2\.4 \(2\.4\.0 to 2\.5\.0\)"):
        some(spark).with_leader_client("Java", "5")
