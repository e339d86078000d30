"""Reassignments on Spark: many clusters, each its own case, in one plan; and what `check` says of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_assign import FleetError
from spark_assign.replicas import (
    Bandwidth,
    ClusterChange,
    LoadGoals,
    Reassignment,
    ReplicaCheck,
    ReplicaFleet,
    check,
    reassign,
    schedule,
    tool_files,
)
from spark_assign.report.replicas import note_missing_racks
from tests.frames import dataframe

pytestmark = pytest.mark.spark

BROKERS = "cluster string, broker_id int, rack_id string, fenced boolean, cordoned boolean"
REPLICAS = "cluster string, topic string, partition int, replicas array<int>"


def _twenty(cluster: str) -> tuple[list[Any], list[Any]]:
    """20 brokers in two racks, one topic with 10 partitions and 2 replicas."""
    brokers = [(cluster, id, f"rack{id // 10}", None, None) for id in range(20)]
    return brokers, [(cluster, "t", at, [at, 10 + at]) for at in range(10)]


def _fleet(spark: SparkSession) -> ReplicaFleet:
    brokers, replicas = _twenty("shrinks")
    brokers += [(cluster, id, None, None, None) for cluster in ("grows", "fewer", "lost", "raised") for id in range(4)]
    brokers += [("repaired", id, f"rack{id % 2}", id == 5, id == 7) for id in (*range(6), 7)]
    replicas += [("grows", "t", at, [at % 4, (at + 1) % 4]) for at in range(40)]
    replicas += [("repaired", "t", 0, [0, 2]), ("repaired", "t", 1, [5, 0]), ("repaired", "t", 2, [3, 2])]
    replicas += [("repaired", "t", 3, [7, 4])]
    replicas += [("fewer", "t", at, [at % 4, (at + 1) % 4, (at + 2) % 4]) for at in range(4)]
    replicas += [("lost", "t", 0, [9])]
    replicas += [("raised", "t", at, [at]) for at in range(4)]
    return ReplicaFleet(
        dataframe(spark, REPLICAS, replicas).repartition(3), dataframe(spark, BROKERS, brokers).repartition(2)
    )


def _change(spark: SparkSession) -> ClusterChange:
    def table(rows: list[Any], schema: str) -> DataFrame:
        return dataframe(spark, f"cluster string, {schema}", rows)

    topics = [("fewer", "t", 2), ("raised", "t", 2), ("lost", "t", 1), ("repaired", "t", 2)]
    return ClusterChange(
        removed=table([("shrinks", 19)], "broker_id int"),
        added=table([("grows", 4)], "broker_id int"),
        replication_factors=table(topics, "topic string, replication_factor int"),
        partitions=table([("raised", "t", 6)], "topic string, partitions int"),
    )


@pytest.fixture(scope="module")
def fleet(spark: SparkSession) -> ReplicaFleet:
    return _fleet(spark)


@pytest.fixture(scope="module")
def planned(spark: SparkSession, fleet: ReplicaFleet) -> Iterator[Reassignment]:
    plan = reassign(fleet, _change(spark))
    yield plan
    plan.unpersist()


@pytest.fixture(scope="module")
def metrics(planned: Reassignment) -> dict[str, Any]:
    return {row["cluster"]: row for row in planned.metrics.collect()}


@pytest.mark.keeps_cached
def test_moves_and_their_reasons(planned: Reassignment, metrics: dict[str, Any]) -> None:
    """As few as the constraints force, where a broker is added, it is filled to its bounds."""
    moves: dict[str, list[Any]] = {}
    for row in planned.moves.collect():
        moves.setdefault(row["cluster"], []).append((row["from_broker_id"], row["to_broker_id"], row["reason"]))
    [(from_broker, to_broker, reason)] = moves["shrinks"]
    assert (from_broker, reason) == (19, "removed-broker")
    assert 10 <= to_broker < 19
    assert {(to_broker, reason) for _, to_broker, reason in moves["grows"]} == {(4, "balance")}
    assert len(moves["grows"]) == metrics["grows"]["lower_bound"] == 15  # the whole number above 16 less 10 %
    assert sorted((from_broker, reason) for from_broker, _, reason in moves["repaired"]) == [
        (2, "rack"),
        (5, "fenced-broker"),
        (7, "cordoned-broker"),
    ]
    assert [from_broker for from_broker, _, _ in moves["raised"]] == [None] * 4
    assert "fewer" not in moves
    assert {cluster: row["moves_above_bound"] for cluster, row in metrics.items()} == dict.fromkeys(metrics, 0)
    assert metrics.keys() == {"shrinks", "grows", "repaired", "fewer", "raised"}
    assert [row["code"] for row in planned.rejected.collect()] == ["unknown-broker"]


@pytest.mark.keeps_cached
def test_placement(planned: Reassignment, metrics: dict[str, Any]) -> None:
    """Every partition before and after; new ones; leaders even."""
    rows = {(row["cluster"], row["partition"]): row for row in planned.placement.collect()}
    assert len(rows) == 10 + 40 + 4 + 4 + 6
    assert all(len(row["replicas"]) == 2 == len(set(row["replicas"])) for row in rows.values())
    assert rows["raised", 5]["previous_replicas"] is None
    assert rows["raised", 5]["moved"] == 0
    assert metrics["raised"]["new_partitions"] == 2
    assert (metrics["raised"]["min_replicas"], metrics["raised"]["max_replicas"]) == (3, 3)
    assert [row["leaders_out_of_tolerance"] for row in metrics.values()] == [0] * 5
    assert {row["partition"] for row in planned.changes.where("cluster = 'shrinks'").collect()} == {9}


@pytest.fixture(scope="module")
def checked(fleet: ReplicaFleet) -> ReplicaCheck:
    return check(fleet, min_replicas=2)


@pytest.mark.keeps_cached
def test_check(checked: ReplicaCheck, planned: Reassignment) -> None:
    """What is wrong before; afterwards nothing is."""
    problems = {(row["cluster"], row["partition"], row["code"]) for row in checked.problems.collect()}
    assert problems == {
        ("repaired", 0, "shared-rack"),
        ("repaired", 1, "fenced-broker"),
        ("lost", 0, "unknown-broker"),
        ("lost", 0, "too-few-replicas"),
        *(("raised", at, "too-few-replicas") for at in range(4)),
    }
    clusters = {row["cluster"]: row for row in checked.clusters.collect()}
    assert clusters["repaired"]["cordoned_brokers"] == 1
    assert (clusters["raised"]["too_few_replicas"], clusters["raised"]["max_leaders_over_mean"]) == (4, 1.0)
    racks = {row["rack_id"]: row for row in checked.racks.where("cluster = 'shrinks'").collect()}
    assert {rack: (row["brokers"], row["replicas"], row["leaders"]) for rack, row in racks.items()} == {
        "rack0": (10, 10, 10),
        "rack1": (10, 10, 0),
    }
    assert check(planned.after, min_replicas=2).problems.count() == 0


def test_a_plan_against_a_new_snapshot(spark: SparkSession) -> None:
    """Partitions with their previous or new replicas are no problem; others are, even if the topic is gone."""
    brokers = dataframe(spark, BROKERS, [("c", each, f"r{each}", None, None) for each in range(4)])
    planned = dataframe(
        spark,
        "cluster string, topic string, partition int, previous_replicas array<int>, replicas array<int>",
        [("c", "t", at, None if at == 6 else [0, 1], [0, 1] if at == 5 else [2, 1]) for at in range(8)],
    )
    now = {0: [0, 1], 1: [2, 1], 2: [2, 1, 0], 3: [3, 1], 4: [1, 0], 5: [3, 0], 6: [3, 0]}
    replicas = dataframe(spark, REPLICAS, [("c", "t", at, brokers_now) for at, brokers_now in now.items()])
    found = check(ReplicaFleet(replicas, brokers), placement=planned)
    problems = found.problems.where("code like '%reassigned' or code like 'plan%'").orderBy("partition").collect()
    assert [(row["partition"], row["code"], row["detail"].partition(";")[0]) for row in problems] == [
        (2, "being-reassigned", "replicas are 2,1,0"),
        (3, "plan-outdated", "replicas are 3,1"),
        (4, "plan-outdated", "replicas are 1,0"),
        (7, "plan-outdated", "replicas are missing"),
    ]
    (row,) = found.clusters.collect()
    assert (row["being_reassigned"], row["plan_outdated"]) == (1, 3)


def test_a_partition_that_is_being_reassigned(spark: SparkSession) -> None:
    """The check names it, and not its neighbor with fewer replicas; a plan starts from the target."""
    brokers = dataframe(spark, BROKERS, [("c", each, f"r{each}", None, None) for each in range(4)])
    schema = f"{REPLICAS}, adding_replicas array<int>, removing_replicas array<int>"
    rows = [("c", "t", 0, [2, 1, 0], [2], [0]), ("c", "t", 1, [0, 1], None, None), ("c", "t", 2, [3, 2], None, None)]
    fleet = ReplicaFleet(dataframe(spark, schema, rows), brokers)
    nothing = "cluster string, topic string, partition int, previous_replicas array<int>, replicas array<int>"
    for placement in (None, dataframe(spark, nothing, [("c", "t", 0, [1, 0], [2, 1])])):
        problems = check(fleet, placement=placement).problems.collect()
        assert [(row["partition"], row["code"], row["detail"]) for row in problems] == [
            (0, "being-reassigned", "adding replicas 2; removing replicas 0")
        ]
    after = ReplicaFleet(fleet.replicas.select("cluster", "topic", "partition", "replicas"), brokers)
    (problem,) = check(fleet, placement=placement, after=after).problems.where("code like 'being%'").collect()
    assert problem["detail"] == "replicas are 2,1,0; the plan moves them from 1,0 to 2,1"
    placed = reassign(fleet).placement.orderBy("partition").collect()
    assert [row["previous_replicas"] for row in placed] == [[2, 1], [0, 1], [3, 2]]


def test_clusters_without_racks_are_named(spark: SparkSession) -> None:
    """If not one broker has a rack, or if the table doesn't say so; at most three clusters."""
    brokers = dataframe(spark, "cluster string, rack_id string", [(each, None) for each in "badce"] + [("d", "r")])
    note = "No broker of a, b, c, … has a rack, so the plan ignores racks."
    for table, expected in ((brokers, note), (brokers.drop("rack_id"), note), (brokers.where("cluster = 'd'"), "")):
        assert (note_missing_racks(table) or "").startswith(expected)
        assert bool(note_missing_racks(table)) == bool(expected)


def test_a_change_in_plain_values(spark: SparkSession, fleet: ReplicaFleet) -> None:
    """Patterns of clusters and topics; other clusters are left alone; sizes; faults."""
    sizes = dataframe(spark, "cluster string, topic string, partition int, bytes int", [("shrinks", "t", 9, 500)])
    sized = ReplicaFleet(fleet.replicas, fleet.brokers, sizes)
    change = ClusterChange.from_values(
        sized, cluster="sh*", removed=[19], racks={0: "rack1"}, replication_factors={"u": 1, "t": 2}
    )
    plan = reassign(sized, change)
    [row] = plan.metrics.collect()
    assert (row["cluster"], row["moved"], row["required_moves"], row["moved_bytes"]) == ("shrinks", 2, 2, 1000)
    assert {each["reason"] for each in plan.moves.collect()} == {"removed-broker", "rack"}
    changed = plan.after.brokers.where("broker_id = 0 and rack_id = 'rack1'").collect()
    assert [row["cluster"] for row in changed] == ["shrinks"]
    plan.unpersist()
    with pytest.raises(FleetError, match=r"removed.broker_id: null or out of range in a key: 1 row"):
        reassign(fleet, ClusterChange(removed=dataframe(spark, "cluster string, broker_id int", [("shrinks", None)])))
    with pytest.raises(FleetError, match=r"brokers.broker_id: the column is missing"):
        ReplicaFleet(fleet.replicas, fleet.brokers.drop("broker_id"))


def test_times_of_batches(spark: SparkSession) -> None:
    """The throttle leaves the headroom at the busiest broker; sizes and rates are required."""
    brokers = dataframe(spark, BROKERS, [("c", id, f"r{id}", None, None) for id in range(3)])
    replicas = dataframe(spark, REPLICAS, [("c", "t", at, [0, 1]) for at in range(4)])
    key = "cluster string, topic string, partition int"
    sizes = dataframe(spark, f"{key}, bytes long", [("c", "t", at, 1_000_000) for at in range(4)])
    rates = dataframe(spark, f"{key}, in_bytes_per_second double", [("c", "t", at, 100.0) for at in range(4)])
    fleet = ReplicaFleet(replicas, brokers, sizes)
    plan = reassign(fleet, ClusterChange.from_values(fleet, removed=[1]))
    # Broker 0 sends 4 * 100 bytes/s to its followers, and as much to a consumer.
    (batch,) = schedule(plan, Bandwidth(bytes_per_second=10_000, headroom=0.5), rates).collect()
    assert (batch["throttle"], batch["copied_bytes"], batch["slowest_broker_id"]) == (4_200, 4_000_000, 0)
    assert batch["min_seconds"] == pytest.approx(4_000_000 / 4_200)
    assert batch["max_seconds"] == pytest.approx(4_000_000 / (4_200 - 800) * 1.1 + 1)
    assert len(schedule(plan, Bandwidth(throttle=1_000), partitions_per_batch=3).collect()) == 2
    with pytest.raises(FleetError, match=r"loads.in_bytes_per_second: the busiest broker of c has 800 bytes/s"):
        schedule(plan, Bandwidth(bytes_per_second=1_000), rates)
    with pytest.raises(FleetError, match="the rates of brokers are unknown"):
        schedule(plan, Bandwidth(bytes_per_second=1_000))
    without_sizes = reassign(ReplicaFleet(replicas, brokers))
    with pytest.raises(FleetError, match="the table is missing, so times are unknown"):
        schedule(without_sizes, Bandwidth(throttle=1_000))


def test_balance_by_loads(spark: SparkSession) -> None:
    """Each cluster on its own: one is balanced, one has no sizes; capacities and rates are read."""
    brokers = dataframe(spark, BROKERS, [(name, id, None, None, None) for name in ("c", "d") for id in range(2)])
    replicas = dataframe(spark, REPLICAS, [(name, "t", at, [0, 1]) for name in ("c", "d") for at in range(4)])
    key = "cluster string, topic string, partition int"
    sizes = dataframe(spark, f"{key}, bytes long", [("c", "t", at, 100) for at in range(4)])
    rows = [("c", "t", at, group, 10.0) for at in range(4) for group in (None, "g", "h")]
    loads = dataframe(spark, f"{key}, group_id string, in_bytes_per_second double", rows)
    capacity = "cluster string, broker_id int, out_bytes_per_second long"
    capacities = dataframe(spark, capacity, [("c", 0, 100), ("c", 1, 300)])
    fleet = ReplicaFleet(replicas, brokers, sizes, loads, capacities)
    plan = reassign(fleet, goals=LoadGoals({"disk": 0.1, "out": 0.1}, hard=["out"], max_moved_bytes=0))
    balance = {(row["goal"], row["broker_id"]): row for row in plan.balance.collect()}
    # One follower and two groups read 10 bytes/s of each partition.
    after = {key: (row["load_before"], row["load_after"], row["capacity"]) for key, row in balance.items()}
    assert after == {
        ("disk", 0): (400, 400, None),
        ("disk", 1): (400, 400, None),
        ("out", 0): (120, 30, 100),
        ("out", 1): (0, 90, 300),
    }
    assert [(row["cluster"], row["code"]) for row in plan.rejected.collect()] == [("d", "no-sizes")]
    assert plan.metrics.collect()[0]["moved"] == 0
    plan.unpersist()
    with pytest.raises(FleetError, match=r"sizes.bytes: the table is missing"):
        reassign(ReplicaFleet(replicas, brokers), goals=LoadGoals({"disk": 0.1}))
    with pytest.raises(FleetError, match=r"loads.in_bytes_per_second: the table is missing"):
        reassign(ReplicaFleet(replicas, brokers), goals=LoadGoals({"in": 0.1}))


def test_balance_of_log_dirs(spark: SparkSession) -> None:
    """Sizes are those of the logs; the files have directories; one broker moves a replica to the other as well."""
    brokers = dataframe(spark, BROKERS, [("c", id, None, None, id == 2) for id in range(3)])
    placed = [("c", "t", 0, [0]), ("c", "t", 1, [0]), ("c", "t", 2, [2])]
    key = "cluster string, topic string, partition int, broker_id int, log_dir string, bytes long, is_future boolean"
    paths = dataframe(
        spark, "cluster string, broker_id int, log_dir string", [("c", id, d) for id in range(3) for d in "ab"]
    )
    logs = dataframe(spark, key, [("c", "t", at, [0, 0, 2][at], "a", 100, False) for at in range(3)])
    replicas = dataframe(spark, REPLICAS, placed)
    fleet = ReplicaFleet(replicas, brokers, log_dirs=paths, log_dir_replicas=logs)
    plan = reassign(fleet, goals=LoadGoals({"log-dirs": 0.1}))
    columns = ("partition", "from_broker_id", "to_broker_id", "reason", "bytes", "from_log_dir", "to_log_dir")
    assert {tuple(row[name] for name in columns) for row in plan.moves.collect()} == {
        (0, 0, 0, "log-dirs", 100, "a", "b"),
        (2, 2, 1, "cordoned-broker", 100, "a", "a"),
    }
    [metrics] = plan.metrics.collect()
    assert [metrics[name] for name in ("moved", "log_dir_moves", "log_dir_moved_bytes", "log_dir_unknown")] == [
        1,
        1,
        100,
        0,
    ]
    files = {row["kind"]: json.loads(row["content"])["partitions"] for row in tool_files(plan).collect()}
    assert files["reassign"] == [
        {"topic": "t", "partition": 0, "replicas": [0], "log_dirs": ["b"]},
        {"topic": "t", "partition": 2, "replicas": [1], "log_dirs": ["a"]},
    ]
    assert [each["log_dirs"] for each in files["rollback"]] == [["a"], ["a"]]
    assert (plan.after.log_dirs, plan.after.log_dir_replicas) == (None, None), "those of before aren't those of after"
    [batch] = schedule(plan, Bandwidth(throttle=50)).collect()
    assert (batch["copied_bytes"], batch["min_seconds"]) == (200, 2)
    assert "--throttle 50 --replica-alter-log-dirs-throttle 50 --execute" in batch["execute"]
    plan.unpersist()
    with pytest.raises(FleetError, match=r"log_dirs\.\*: the table is missing, so .*Take a snapshot with --log-dirs"):
        reassign(ReplicaFleet(replicas, brokers), goals=LoadGoals({"log-dirs": 0.1}))
