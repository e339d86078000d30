"""A reassignment on a real cluster, carried out by Kafka's own tools from the files that are written."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from pyspark.sql import SparkSession

from jobs import replicas as replicas_job
from jobs import snapshot as snapshot_job
from spark_assign.history.history import read_history
from spark_assign.replicas import (
    ClusterChange,
    Reassignment,
    ReplicaFleet,
    check,
    reassign,
    tool_files,
    write_tool_files,
)
from spark_assign.sources.kafka.cluster_snapshot import snapshot
from spark_assign.tables.history import RECORDS
from tests.frames import dataframe
from tests.kafka import broker as kafka_broker
from tests.kafka import documented
from tests.kafka.broker import Cluster
from tests.kafka.consumer_groups import describe
from tests.kafka.group_members import Consumer, running, wait_until_settled
from tests.kafka.live_groups import Row, create_topics, log_bytes, offsets_records, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TOPICS = ("r.moved", "r.raised")
VERIFY_TIMEOUT_S = 180
Placement = dict[tuple[str, int], list[int]]


def _fleet(broker: Cluster, spark: SparkSession) -> ReplicaFleet:
    """The snapshot's tables, of these topics only: other tests have theirs on the same brokers."""
    taken = snapshot(broker.bootstrap_servers, groups="no-group", topics="r.*")
    tables = {name: spark.createDataFrame(taken.tables[name]) for name in ("replicas", "brokers")}
    return ReplicaFleet(tables["replicas"].where("topic like 'r.%'"), tables["brokers"])


def _placement(fleet: ReplicaFleet) -> Placement:
    return {(row["topic"], row["partition"]): row["replicas"] for row in fleet.replicas.collect()}


def _tool(broker: Cluster, command: str, file: Path) -> str:
    """Output of the documented command for this file."""
    (step,) = documented.steps("test_replicas", command)
    return documented.run_tool(step, broker, {"reassign-001.json": str(file), "preferred-leaders.json": str(file)})


def _carry_out(broker: Cluster, files: list[Path]) -> None:
    """Execute batch after batch, each once the one before is complete."""
    for file in files:
        output = _tool(broker, "kafka-reassign-partitions.sh * --execute", file)
        assert "Successfully started partition reassignment" in output

        def verified(file: Path = file) -> str | None:
            output = _tool(broker, "kafka-reassign-partitions.sh * --verify", file)
            return None if "still in progress" in output else output

        output = wait_until(verified, file, VERIFY_TIMEOUT_S)
        assert "is completed" in output
        assert "is still" not in output


def _leaders(broker: Cluster, topics: Iterable[str]) -> dict[tuple[str, int], int]:
    with broker.admin() as admin:
        return {
            (topic["name"], each["partition_index"]): each["leader_id"]
            for topic in admin.describe_topics(list(topics))
            for each in topic["partitions"]
        }


@pytest.fixture(scope="module")
def before(broker: Cluster, spark: SparkSession) -> ReplicaFleet:
    create_topics(broker, {"r.moved": (8, 2), "r.raised": 3})
    return _fleet(broker, spark)


@pytest.fixture(scope="module")
def plan(before: ReplicaFleet) -> Iterator[Reassignment]:
    """Broker 3 goes, and a topic gets a second replica."""
    planned = reassign(before, ClusterChange.from_values(before, removed=[3], replication_factors={"r.raised": 2}))
    yield planned
    planned.unpersist()


@pytest.mark.keeps_cached
def test_the_tools_carry_out_the_plan(
    broker: Cluster, spark: SparkSession, before: ReplicaFleet, plan: Reassignment, tmp_path: Path
) -> None:
    """After all batches and the election the cluster is as planned, and after the rollback as it was."""
    planned, original = _placement(plan.after), _placement(before)
    assert planned != original
    assert all(3 not in replicas and len(replicas) == 2 for replicas in planned.values())
    written = [Path(name) for name in write_tool_files(tool_files(plan, partitions_per_batch=6), str(tmp_path))]
    _carry_out(broker, [file for file in written if file.name.startswith("reassign")])
    assert _placement(_fleet(broker, spark)) == planned
    for file in written:
        if file.name.startswith("preferred"):
            _tool(broker, "kafka-leader-election.sh *", file)
    assert _leaders(broker, TOPICS) == {key: replicas[0] for key, replicas in planned.items()}
    assert check(plan.after).problems.count() == 0
    _carry_out(broker, [file for file in written if file.name.startswith("rollback")])
    assert _placement(_fleet(broker, spark)) == original


def test_the_tools_balance_the_loads(broker: Cluster, spark: SparkSession, tmp_path: Path) -> None:
    """`reassign --balance`: after Kafka's tools, replicas, leaders, and bytes of each disk are those of the plan."""
    topic = "r.balanced"
    create_topics(broker, {topic: {each: [1, 2] for each in range(8)}})
    with contextlib.closing(KafkaProducer(bootstrap_servers=broker.bootstrap_servers, acks="all")) as producer:
        for partition in range(8):
            producer.send(topic, bytes(50_000 * (partition + 1)), partition=partition).get(VERIFY_TIMEOUT_S)
    taken = snapshot(broker.bootstrap_servers, groups="no-group", topics=topic)
    replicas = taken.tables["replicas"]
    replicas = replicas.filter(pc.equal(replicas["topic"], topic))
    logs = log_bytes(broker, topic, [1])
    sizes = [{"cluster": taken.cluster, "topic": topic, "partition": at, "bytes": logs[1, at]} for at in range(8)]
    tables = {"replicas": replicas, "brokers": taken.tables["brokers"], "sizes": pa.Table.from_pylist(sizes)}
    for name, table in tables.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    arguments = ["--fleet", str(tmp_path), "--balance", "disk=0.1,leaders=0.3", "--hard", "disk,leaders"]
    arguments += ["--partitions-per-batch", "4", "--output", str(tmp_path / "plan"), "--fail-on", "rejected"]
    assert replicas_job.main(["reassign", *arguments]) == 0
    planned = {(row["topic"], row["partition"]): row["replicas"] for row in _stored(tmp_path, "placement")}
    assert len({each for placed in planned.values() for each in placed}) == 3
    files = sorted((tmp_path / "plan" / "json").rglob("*.json"))
    _carry_out(broker, [file for file in files if file.name.startswith("reassign")])
    [leaders] = [file for file in files if file.name.startswith("preferred")]
    _tool(broker, "kafka-leader-election.sh *", leaders)
    assert {key: placed for key, placed in _placement(_fleet(broker, spark)).items() if key[0] == topic} == planned
    assert _leaders(broker, [topic]) == {key: placed[0] for key, placed in planned.items()}
    disks = Counter[int]()
    for (number, _), size in log_bytes(broker, topic, [1, 2, 3]).items():
        disks[number] += size
    balance = [row for row in _stored(tmp_path, "balance") if row["goal"] == "disk"]
    assert disks == {row["broker_id"]: row["load_after"] for row in balance}
    assert [0.9 < row["load_after"] / row["share"] < 1.1 for row in balance] == [True] * 3


@pytest.mark.usefixtures("spark")
def test_the_tools_balance_log_dirs(kafka_jars: str, tmp_path: Path) -> None:
    """`reassign --balance log-dirs`: after Kafka's tool, directories and their bytes are those of the plan, and after
    its rollback as before."""
    topic = "r.disks"
    with kafka_broker.cluster(kafka_jars, log_dirs=3) as broker:
        create_topics(broker, {topic: {each: [1] for each in range(30)}})
        wait_until(lambda: len(_disks(broker, topic)) == 30, "all logs", VERIFY_TIMEOUT_S)
        disks = _disks(broker, topic)
        [(first, _)] = Counter(path for path, _ in disks.values()).most_common(1)
        with contextlib.closing(KafkaProducer(bootstrap_servers=broker.bootstrap_servers, acks="all")) as producer:
            for partition, (path, _) in disks.items():
                size = 20_000 if path == first else 100
                producer.send(topic, bytes(size), partition=partition).get(VERIFY_TIMEOUT_S)
        fleet = ["--fleet-dir", str(tmp_path / "fleet"), "--cluster-name", "c"]
        assert snapshot_job.main(["--bootstrap-server", broker.bootstrap_servers, "--log-dirs", *fleet]) == 0
        before = _disks(broker, topic)
        arguments = ["--fleet", str(tmp_path / "fleet"), "--balance", "log-dirs=0.3", "--hard", "log-dirs"]
        arguments += ["--capacity-threshold", "1", "--throttle", "100000000", "--output", str(tmp_path / "plan")]
        assert replicas_job.main(["reassign", *arguments, "--fail-on", "rejected"]) == 0
        files = sorted((tmp_path / "plan" / "json").rglob("*.json"))
        _carry_out(broker, [file for file in files if file.name.startswith("reassign")])
        after = _disks(broker, topic)
        moves = {row["partition"]: (row["from_log_dir"], row["to_log_dir"]) for row in _stored(tmp_path, "moves")}
        assert {at: (before[at][0], after[at][0]) for at in before if before[at] != after[at]} == moves
        assert moves
        loads = Counter[str]()
        for path, size in after.values():
            loads[path] += size
        assert loads == {row["log_dir"]: row["load_after"] for row in _stored(tmp_path, "balance")}
        [batch] = _stored(tmp_path, "schedule")
        assert batch["copied_bytes"] == sum(after[at][1] for at in moves)
        _carry_out(broker, [file for file in files if file.name.startswith("rollback")])
        assert _disks(broker, topic) == before


def _disks(broker: Cluster, topic: str) -> dict[int, tuple[str, int]]:
    """Returns the log directory and the bytes of each partition of a topic; no copy may be on its way."""
    taken = snapshot(broker.bootstrap_servers, groups="no-group", log_dirs=True)
    online = [row for row in taken.tables["log_dirs"].to_pylist() if row["error"] is None]
    assert [row["usable_bytes"] > 0 and row["total_bytes"] > row["usable_bytes"] for row in online] == [True] * 3
    rows = [row for row in taken.tables["log_dir_replicas"].to_pylist() if row["topic"] == topic]
    assert not any(row["is_future"] or row["offset_lag"] for row in rows)
    return {row["partition"]: (row["log_dir"], row["bytes"]) for row in rows}


def _stored(folder: Path, table: str) -> list[Row]:
    return pq.read_table(folder / "plan" / table).to_pylist()


def test_a_cordoned_broker(broker: Cluster, spark: SparkSession, tmp_path: Path) -> None:
    """A snapshot detects it, no target names it, and the brokers refuse the rollback onto it."""
    create_topics(broker, {"r.cordoned": (3, 2)})

    def cordon(log_dirs: str) -> None:
        with broker.admin() as admin:
            admin.alter_configs([ConfigResource(ConfigResourceType.BROKER, "2", {"cordoned.log.dirs": log_dirs})])

    cordon("*")
    try:
        wait_until(lambda: _cordoned(broker) == [2], "cordoned", VERIFY_TIMEOUT_S)
        fleet = _fleet(broker, spark)
        plan = reassign(ReplicaFleet(fleet.replicas.where("topic = 'r.cordoned'"), fleet.brokers))
        assert {row["reason"] for row in plan.moves.collect()} == {"cordoned-broker"}
        files = sorted(Path(each) for each in write_tool_files(tool_files(plan), str(tmp_path)))
        _carry_out(broker, [each for each in files if each.name == "reassign-001.json"])
        [rollback] = [each for each in files if each.name == "rollback-001.json"]
        with pytest.raises(AssertionError, match="all its log directories are cordoned"):
            _tool(broker, "kafka-reassign-partitions.sh * --execute", rollback)
    finally:
        cordon("")


def test_a_reassignment_in_progress(broker: Cluster) -> None:
    """A snapshot says that partitions have old and new replicas, here because of a throttle of one byte per second."""
    topic = "r.throttled"
    create_topics(broker, {topic: {0: [1]}})
    with contextlib.closing(KafkaProducer(bootstrap_servers=broker.bootstrap_servers, acks="all")) as producer:
        producer.send(topic, bytes(500_000)).get(VERIFY_TIMEOUT_S)
    sides = ("leader", "follower")
    settings = [
        (ConfigResourceType.TOPIC, topic, {f"{side}.replication.throttled.replicas": "*" for side in sides}),
        *(
            (ConfigResourceType.BROKER, str(each), {f"{side}.replication.throttled.rate": "1" for side in sides})
            for each in (1, 2)
        ),
    ]
    with broker.admin() as admin:
        admin.alter_configs([ConfigResource(*setting) for setting in settings], raise_on_unknown=False)
        try:
            admin.alter_partition_reassignments({TopicPartition(topic, 0): [2]})
            lines: list[str] = []

            def states() -> list[list[list[int]]]:
                taken = snapshot(broker.bootstrap_servers, groups="no-group", topics=topic, progress=lines.append)
                names = ("replicas", "adding_replicas", "removing_replicas")
                return [[row[name] for name in names] for row in taken.tables["replicas"].to_pylist()]

            # The brokers learn of it after the controller has accepted it.
            wait_until(lambda: states() == [[[2, 1], [2], [1]]], states, VERIFY_TIMEOUT_S)
            assert any("1 partition is being reassigned" in line for line in lines)
        finally:
            admin.alter_partition_reassignments({TopicPartition(topic, 0): None})
            unset = [(kind, name, dict.fromkeys(values, ("DELETE", None))) for kind, name, values in settings]
            admin.alter_configs([ConfigResource(*each) for each in unset], raise_on_unknown=False)


def _cordoned(broker: Cluster) -> list[int]:
    """The cordoned brokers of a snapshot, where no log directory is offline."""
    rows = snapshot(broker.bootstrap_servers, groups="no-group", topics="no-topic").tables["brokers"].to_pylist()
    assert [row["offline_log_dirs"] for row in rows] == [0, 0, 0]
    return [row["broker_id"] for row in rows if row["cordoned"]]


def test_a_move_to_another_rack_is_an_idle_epoch(broker: Cluster, spark: SparkSession) -> None:
    """Members without racks: the group's epoch grows, nothing moves, and the history counts no rebalance."""
    group = "r.idle"
    create_topics(broker, {group: {0: [1], 1: [2]}})
    with running(broker, [Consumer(group, f"c{number}", (group,), protocol="consumer") for number in range(2)]):
        wait_until_settled(broker, {group: 2})
        before = describe(broker, [group])[group].group_epoch
        with broker.admin() as admin:
            admin.alter_partition_reassignments({TopicPartition(group, 0): [3]})
        wait_until(lambda: describe(broker, [group])[group].group_epoch > before, "a new epoch")
        wait_until_settled(broker, {group: 2})
        after = describe(broker, [group])[group].group_epoch
        past = read_history(dataframe(spark, RECORDS, offsets_records(broker))).groups.where(f"group_id = '{group}'")
    [row] = past.collect()
    assert (row["idle_epochs"], row["flapping"]) == (after - before, False)
    assert row["rebalances"] == before - 1  # a group begins with epoch 1, and its first member joins in epoch 2
