"""What operations do to the groups of a fleet, on Spark: restarts, a crash, reassignments, growth, bad input."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs import replicas as job
from spark_assign import ConfigError, Fleet, FleetError
from spark_assign.replicas import ClusterChange, Operation, operate, reassign
from spark_assign.replicas.kernel.group_effects import coordinator_hashes
from tests.frames import dataframe

pytestmark = pytest.mark.spark

GROUPS = ("eager", "modern", "cooperative", "away")


@pytest.fixture(scope="module")
def fleet(spark: SparkSession) -> Fleet:
    """Three brokers in three racks; every group but `away` subscribes to `t`, whose members have racks."""
    replicas = [("c", "t", each, [1 + each % 3, 1 + (each + 1) % 3]) for each in range(6)]
    replicas += [("c", "other", 0, [1])]
    replicas += [("c", "__consumer_offsets", each, [1 + each % 3, 1 + (each + 1) % 3]) for each in range(4)]
    members = [("c", group, f"{group}-{each}", f"r{1 + each}") for group in GROUPS for each in range(2)]
    subscriptions = [(*member[:3], "other" if member[1] == "away" else "t") for member in members]
    groups = [
        ("c", "eager", "range", "classic", "Java", "4.3"),
        ("c", "modern", "uniform", "consumer", None, None),
        ("c", "cooperative", "cooperative-sticky", "classic", "Java", "4.4"),
        ("c", "away", "range", "classic", "franz-go", None),
    ]
    described = "assignor string, group_type string, leader_library string, leader_version string"
    return Fleet(
        topics=dataframe(
            spark,
            "cluster string, topic string, partitions int",
            [("c", "t", 6), ("c", "other", 1), ("c", "__consumer_offsets", 4)],
        ),
        members=dataframe(spark, "cluster string, group_id string, member_id string, rack_id string", members),
        subscriptions=dataframe(
            spark, "cluster string, group_id string, member_id string, topic string", subscriptions
        ),
        groups=dataframe(spark, f"cluster string, group_id string, {described}", groups),
        replicas=dataframe(spark, "cluster string, topic string, partition int, replicas array<int>", replicas),
        brokers=dataframe(
            spark, "cluster string, broker_id int, rack_id string", [("c", each, f"r{each}") for each in (1, 2, 3)]
        ),
    )


def by_group(operation: Operation) -> dict[str, Any]:
    return {row["group_id"]: row for row in operation.groups.collect()}


def between(row: Any, name: str) -> tuple[int, int]:
    return row[f"min_{name}"], row[f"max_{name}"]


def test_a_rolling_restart(fleet: Fleet) -> None:
    """The eager group rebalances at each broker; each coordinator moves away and back; one partition is offline."""
    operation = operate(fleet, restart=[2, 1, 3])
    groups = by_group(operation)
    assert {group: between(row, "rebalances") for group, row in groups.items()} == {
        **dict.fromkeys(GROUPS, (0, 0)),
        "eager": (0, 6),
    }
    partitions = {group: int(hashed) % 4 for group, hashed in zip(GROUPS, coordinator_hashes([*GROUPS]), strict=True)}
    assert {group: row["coordinator_partition"] for group, row in groups.items()} == partitions
    assert {group: row["coordinator"] for group, row in groups.items()} == {
        group: 1 + partition % 3 for group, partition in partitions.items()
    }
    assert {row["coordinator_moves"] for row in groups.values()} == {2}
    assert groups["eager"]["moved_partitions"] is not None
    assert groups["modern"]["moved_partitions"] is None
    assert groups["eager"]["advice"].startswith("Clients of 4.4.0 or later save up to 6 rebalances")
    assert between(groups["away"], "paused_partition_seconds") == (60.0, 60.0)
    page = operation.to_html()
    assert "The operation causes 0 to 6 rebalances" in page
    assert "Orders of a restart" in page
    steps = operation.steps.orderBy("step").collect()
    assert [(row["step"], row["event"], row["broker_id"]) for row in steps] == [
        (1, "restart", 2),
        (2, "restart", 1),
        (3, "restart", 3),
    ]
    assert sum(row["coordinators_moved"] for row in steps) == 8
    assert sum(row["leaders_moved"] for row in steps) == 2 * 10
    orders = {(row["order"], row["leaders_return"]): row for row in operation.orders.collect()}
    assert orders["given", True]["coordinators_moved"] == 8
    assert orders["given", True]["leaders_moved"] == 20
    coordinators = {row["broker_id"]: row for row in operation.coordinators.collect()}
    assert {broker: row["offsets_partitions"] for broker, row in coordinators.items()} == {1: 2, 2: 1, 3: 1}
    assert {broker: row["groups"] for broker, row in coordinators.items()} == {
        broker: sum(1 + partition % 3 == broker for partition in partitions.values()) for broker in (1, 2, 3)
    }
    assert sum(row["members"] for row in coordinators.values()) == 8
    stays = operate(fleet, restart=[2, 1, 3], leaders_return=False)
    assert sum(row["leaders_moved"] for row in stays.steps.collect()) == orders["given", False]["leaders_moved"]
    best = operate(fleet, restart="all", leaders_return=False).groups.collect()
    assert sum(row["coordinator_moves"] for row in best) == orders["fewest-moves", False]["coordinators_moved"]


def test_a_broker_is_removed(spark: SparkSession, fleet: Fleet) -> None:
    """Replicas move across racks: epochs of the consumer group, rebalances of the classic ones with racks."""
    added = ClusterChange.from_values(fleet, removed=[3], added={4: "r9"}, partitions={"other": 2})
    operation = operate(fleet, reassignment=reassign(fleet, added))
    groups = by_group(operation)
    low, high = between(groups["modern"], "epochs")
    assert low == 1
    assert high == 2 * 4
    assert between(groups["eager"], "rebalances") == (1, 8)
    assert between(groups["cooperative"], "rebalances") == (1, 8)
    assert between(groups["away"], "rebalances") == (1, 1)
    assert groups["eager"]["moved_partitions"] is not None
    events = {row["event"]: row for row in operation.steps.collect()}
    assert events["reassign"]["groups"] == 2
    assert events["grow"]["partitions"] == 1
    within = ClusterChange.from_values(fleet, removed=[3], added={4: "r3"})
    same_rack = by_group(operate(fleet, reassignment=reassign(fleet, within)))
    assert between(same_rack["eager"], "rebalances") == (0, 0)
    assert between(same_rack["modern"], "epochs") == (0, 8)


def test_bad_input(fleet: Fleet) -> None:
    """Says what is wrong, where, and what to do."""
    with pytest.raises(FleetError, match=r"brokers.broker_id: cluster c has no broker 7. Name brokers of 1, 2, 3"):
        operate(fleet, restart=[1, 7])
    with pytest.raises(FleetError, match="a broker is named twice"):
        operate(fleet, restart=[1, 1])
    with pytest.raises(FleetError, match=r"brokers.cluster: no cluster matches d\*"):
        operate(fleet, down=1, cluster="d*")
    with pytest.raises(FleetError, match="the table is missing"):
        operate(Fleet(fleet.topics, fleet.members, fleet.subscriptions), down=1)
    for wrong in (
        {},
        {"down": 1, "restart": [1]},
        {"down": 1, "downtime_seconds": -1.0},
        {"down": 1, "broker_release": "3.9"},
    ):
        with pytest.raises(ConfigError):
            operate(fleet, **wrong)  # type: ignore[arg-type]


def test_the_job(spark: SparkSession, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    """Prints steps, groups, and orders; operations can't be mixed."""
    assert job.main(["operate", "--sample", "--down", "1"]) == 0
    assert "17 groups may rebalance" in capsys.readouterr().out
    assert job.main(["operate", "--sample", "--down", "1", "--remove", "2"]) == 2
    assert job.main(["operate", "--sample", "--restart", "one"]) == 2
    assert "--down and --remove are different operations" in caplog.text
