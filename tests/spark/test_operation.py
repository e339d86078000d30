"""What operations do to the groups of a fleet, on Spark: restarts, a crash, reassignments, growth, bad input."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs import replicas as job
from jobs import report
from spark_assign import ConfigError, Fleet, FleetError
from spark_assign.replicas import ClusterChange, Operation, changes_of_leader_moves, operate, reassign, tool_files
from spark_assign.replicas.assignor_times import assignor_times
from spark_assign.replicas.coordinators import group_rates
from spark_assign.replicas.kernel.group_effects import coordinator_hashes
from spark_assign.report.results import summary
from spark_assign.spark.subscription_lists import to_lists
from tests.frames import dataframe

pytestmark = pytest.mark.spark

REPLICAS = "cluster string, topic string, partition int, replicas array<int>"
MEMBER = "cluster string, group_id string, member_id string"
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
    topics = [("c", "t", 6), ("c", "other", 1), ("c", "__consumer_offsets", 4)]
    brokers = [("c", each, f"r{each}") for each in (1, 2, 3)]
    described = "assignor string, group_type string, leader_library string, leader_version string"
    return Fleet(
        topics=dataframe(spark, "cluster string, topic string, partitions int", topics),
        members=dataframe(spark, f"{MEMBER}, rack_id string", members),
        subscriptions=dataframe(spark, f"{MEMBER}, topic string", subscriptions),
        groups=dataframe(spark, f"cluster string, group_id string, {described}", groups),
        replicas=dataframe(spark, REPLICAS, replicas),
        brokers=dataframe(spark, "cluster string, broker_id int, rack_id string", brokers),
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
    assert "The operation causes 0–6 rebalances" in page
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
    assert {broker: row["partitions"] for broker, row in coordinators.items()} == {1: 2, 2: 1, 3: 1}
    assert {broker: row["groups"] for broker, row in coordinators.items()} == {
        broker: sum(1 + partition % 3 == broker for partition in partitions.values()) for broker in (1, 2, 3)
    }
    assert sum(row["members"] for row in coordinators.values()) == 8
    stays = operate(fleet, restart=[2, 1, 3], leaders_return=False)
    assert sum(row["leaders_moved"] for row in stays.steps.collect()) == orders["given", False]["leaders_moved"]
    best = operate(fleet, restart="all", leaders_return=False).groups.collect()
    assert sum(row["coordinator_moves"] for row in best) == orders["fewest-moves", False]["coordinators_moved"]


def test_current_leaders(spark: SparkSession, fleet: Fleet) -> None:
    """They lead until they stop, or until leaders return; without one, the preferred leader counts."""
    replicas = [("c", "t", each, [1, 2], 2 if each < 5 else None) for each in range(6)]
    replicas += [("c", "other", 0, [1], 1)]
    replicas += [("c", "__consumer_offsets", each, [1, 2], 2) for each in range(4)]
    led = replace(fleet, replicas=dataframe(spark, f"{REPLICAS}, leader_id int", replicas))
    operation, stays = (operate(led, restart=[1, 2], leaders_return=returns) for returns in (True, False))
    moved = [[row["leaders_moved"] for row in each.steps.orderBy("step").collect()] for each in (operation, stays)]
    assert moved == [[9 + 2, 0], [1, 10]]
    orders = {row["leaders_return"]: row for row in operation.orders.where("order = 'given'").collect()}
    assert {returns: row["leaders_moved"] for returns, row in orders.items()} == {True: 11, False: 11}
    assert {row["coordinator"] for row in operation.groups.collect()} == {2}
    (coordinator,) = (row for row in operation.coordinators.collect() if row["partitions"])
    assert (coordinator["broker_id"], coordinator["partitions"]) == (2, 4)
    assert {row["from_broker_id"] for row in operation.leader_moves.collect()} == {2}
    files = tool_files(changes_of_leader_moves(operation.leader_moves)).where("kind = 'reassign'").collect()
    assert all(each["replicas"] == [1, 2] for each in json.loads(files[0]["content"])["partitions"])
    (step,) = operate(led, reassignment=reassign(led, ClusterChange.from_values(led, removed=[2]))).steps.collect()
    assert step["leaders_moved"] in (9, 10)


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


def test_one_late_record_slows_no_group(spark: SparkSession) -> None:
    """Rates are those of the time until now, not until the year 9998."""
    times = "cluster string, group_id string, rebalances long, start_time timestamp, end_time timestamp"
    start = datetime.now(UTC) - timedelta(days=1)
    past = [("c", "g", 5, start, datetime.now(UTC)), ("c", "late", 5, start, datetime(9998, 1, 1, tzinfo=UTC))]
    commits = dataframe(spark, "cluster string, group_id string, commits long", [("c", "g", 86_400)])
    rates = group_rates({"groups": dataframe(spark, times, past), "commits": commits}).where("group_id = 'g'")
    assert [row["commits_per_second"] for row in rates.collect()] == [pytest.approx(1, rel=0.1)]


def test_the_load_of_coordinators(spark: SparkSession, fleet: Fleet) -> None:
    """Rates from a history; share partitions by the hash of their keys; leader moves that spread the load."""
    topics = [("c", "t", 6, "AAAAAAAAAAAAAAAAAAAAAQ"), ("c", "__consumer_offsets", 4, None)]
    topics += [("c", "other", 1, None), ("c", "__share_group_state", 3, None)]
    state = [("c", "__share_group_state", each, [1, 2]) for each in range(3)]
    groups = fleet.groups.withColumn("group_type", F.expr("if(group_id = 'modern', 'share', group_type)"))  # type: ignore[union-attr]
    shared = replace(
        fleet,
        topics=dataframe(spark, "cluster string, topic string, partitions int, topic_id string", topics),
        replicas=fleet.replicas.unionByName(dataframe(spark, REPLICAS, state)),  # type: ignore[union-attr]
        groups=groups,
    )
    times = "cluster string, group_id string, rebalances long, start_time timestamp, end_time timestamp"
    start = datetime(2026, 11, 20, tzinfo=UTC)
    past = [("c", group, 5, start, start + timedelta(seconds=100)) for group in GROUPS]
    commits = dataframe(
        spark, "cluster string, group_id string, commits long", [("c", "eager", 700), ("c", "eager", 300)]
    )
    timeouts = "cluster string, group_id string, session_timeout_ms int, rebalance_timeout_ms int, end_time timestamp"
    members = [("c", "eager", 9_000, 60_000, None), ("c", "eager", 6_000, 70_000, None), ("c", "eager", 1, 1, start)]
    history = {
        "groups": dataframe(spark, times, past),
        "commits": commits,
        "memberships": dataframe(spark, timeouts, members),
    }
    operation = operate(shared, down=1, history=history)
    rows = {(row["topic"], row["broker_id"]): row for row in operation.coordinators.collect()}
    hashes = coordinator_hashes([f"modern:AAAAAAAAAAAAAAAAAAAAAQ:{each}" for each in range(6)])
    counts = Counter(int(hashed) % 3 for hashed in hashes)
    (of_share,) = (row for (topic, _), row in rows.items() if topic == "__share_group_state")
    assert (of_share["broker_id"], of_share["partitions"], of_share["keys"]) == (1, 3, 6)
    assert of_share["hottest_load"] == max(counts.values())
    assert of_share["commits_per_second"] is None
    of_offsets = [row for (topic, _), row in rows.items() if topic == "__consumer_offsets"]
    assert sum(row["commits_per_second"] for row in of_offsets) == pytest.approx(10)
    assert sum(row["rebalances_per_second"] for row in of_offsets) == pytest.approx(0.2)
    (eager,) = coordinator_hashes(["eager"])
    assert max(of_offsets, key=lambda row: row["hottest_load"])["hottest_partition"] == int(eager) % 4
    moves = operation.leader_moves.where("topic = '__share_group_state'").collect()
    assert {(row["from_broker_id"], row["to_broker_id"]) for row in moves} == {(1, 2)}
    assert "1 leader move spreads this load" in summary(operation)
    files = {row["kind"]: row for row in tool_files(changes_of_leader_moves(operation.leader_moves)).collect()}
    assert {kind: row["partitions"] for kind, row in files.items()} == dict.fromkeys(
        ("reassign", "rollback", "preferred-leaders"), operation.leader_moves.count()
    )
    assert json.loads(files["rollback"]["content"])["partitions"][-1]["replicas"][0] == 1

    slow = {row["group_id"]: row for row in operation.assignor_times.collect()}
    assert {group: (row["timeout"], row["timeout_ms"]) for group, row in slow.items()} == {
        "eager": ("max.poll.interval.ms", 60_000),
        "modern": (None, None),
        "cooperative": ("max.poll.interval.ms", 300_000),
        "away": ("session.timeout.ms", 45_000),
    }
    assert {row["rebalances_per_second"] for row in slow.values()} == {0.05}
    assert not any(row["heterogeneous"] or row["finding"] for row in slow.values())

    empty = shared.topics.withColumn("partitions", F.expr("if(topic like '\\_\\_%', 0, partitions)"))
    operation = operate(replace(shared, topics=empty), down=1)
    assert {row["coordinator_partition"] for row in operation.groups.collect()} == {None}
    assert {row["keys"] for row in operation.coordinators.collect()} == {0}

    many = shared.topics.withColumn("partitions", F.expr("if(topic = '__share_group_state', 1000001, partitions)"))
    operation = operate(replace(shared, topics=many), down=1)
    assert {row["topic"] for row in operation.coordinators.collect()} == {"__consumer_offsets"}
    (unknown,) = operation.rejected.collect()
    assert (unknown["cluster"], unknown["code"]) == ("c", "too-many-partitions")
    assert "The load of its coordinators is unknown; all else of the cluster is known" in summary(operation)


def test_assignors_that_take_long(spark: SparkSession, fleet: Fleet) -> None:
    """librdkafka's cooperative-sticky grows with a power of members and partitions; the broker's needs an interval."""
    groups = [
        ("c", "eager", "classic", "cooperative-sticky", "librdkafka", 400, 2_500),
        ("c", "away", "classic", "cooperative-sticky", "Java", 400, 2_500),
        ("c", "cooperative", "classic", "sticky", "franz-go", 400, 2_500),
        ("c", "modern", "consumer", "uniform", None, 9_000, 500_000),
    ]
    described = "group_type string, assignor string, leader_library string, members long, partitions long"
    given = dataframe(spark, f"cluster string, group_id string, {described}", groups)
    rows = {row["group_id"]: row for row in assignor_times(fleet, given, None, "4.4").collect()}
    lists = replace(fleet, subscriptions=None, subscription_lists=to_lists(fleet.subscription_rows))
    assert {row["group_id"]: row for row in assignor_times(lists, given, None, "4.4").collect()} == rows
    assert rows["eager"]["max_assignor_ms"] == pytest.approx(29_000, rel=0.01)  # measured: 29,304
    assert rows["eager"]["finding"].startswith(
        "cooperative-sticky takes up to 29.0 s, 65 % of session.timeout.ms: raise"
    )
    assert (rows["away"]["max_assignor_ms"], rows["away"]["finding"]) == (15_000.0, None)
    assert (rows["cooperative"]["max_assignor_ms"], rows["cooperative"]["timeout_share"]) == (None, None)
    assert rows["modern"]["assignment_interval_ms"] == 15_000
    assert "consumer.assignment.interval.ms=15000" in rows["modern"]["finding"]
    before = assignor_times(fleet, given.where("group_id = 'modern'"), None, "4.2").collect()
    assert [(row["assignment_interval_ms"], row["finding"]) for row in before] == [(None, None)]


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
    nameless = replace(fleet, members=fleet.members.withColumn("group_id", F.lit(None).cast("string")))
    with pytest.raises(FleetError, match=r"members.group_id: null in a key"):
        operate(nameless, down=1)
    for wrong in (
        {},
        {"down": 1, "restart": [1]},
        {"down": 1, "downtime_seconds": -1.0},
        {"down": 1, "broker_release": "3.9"},
    ):
        with pytest.raises(ConfigError):
            operate(fleet, **wrong)  # type: ignore[arg-type]


def test_the_job(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Prints steps, groups, and orders; operations can't be mixed."""
    assert job.main(["operate", "--sample", "--down", "1"]) == 0
    assert "17 groups may rebalance" in capsys.readouterr().out
    words = ["operate", "--sample", "--remove", "3", "--add", "4=use1-az1"]
    assert job.main([*words, "--price-per-gb", "0.02", "--output", str(tmp_path / "run")]) == 0
    assert "Cross-zone traffic: " in (output := capsys.readouterr().out)
    assert " USD) after" in output
    page = tmp_path / "report.html"
    assert report.main(["--replicas", str(tmp_path / "run"), "--output-file", str(page)]) == 0
    assert "Cross-zone traffic and its price per day" in page.read_text(encoding="utf-8")
    assert job.main(["operate", "--sample", "--down", "1", "--price-per-gb", "1"]) == 2
    assert "--price-per-gb requires a change" in caplog.text
    assert job.main(["operate", "--sample", "--down", "1", "--remove", "2"]) == 2
    assert job.main(["operate", "--sample", "--restart", "one"]) == 2
    assert "--down and --remove are different operations" in caplog.text
