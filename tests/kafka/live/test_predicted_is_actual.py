"""Predicted = actual: real Java consumers join, the snapshot reads their groups, the plan of the same members is
exactly the assignment that the broker reports."""

from __future__ import annotations

import contextlib
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs import snapshot as snapshot_job
from spark_assign import Fleet, plan
from tests.kafka import documented, group_members, maven
from tests.kafka.broker import Cluster
from tests.kafka.group_members import Consumer
from tests.kafka.live_groups import create_topics

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TOPICS = {"p.a": (7, 3), "p.b": (7, 3), "p.c": (3, 3), "p.d": (12, 2), "p.e": (12, 2), "p.f": (5, 2), "p.g": (1, 1)}
ALL = tuple(TOPICS)


def _groups(assignor: str) -> list[Consumer]:
    alike = [Consumer(f"p-{assignor}-alike", f"a{n}", ALL, assignor) for n in range(4)]
    differing = [
        Consumer(f"p-{assignor}-differing", f"d{n}", topics, assignor)
        for n, topics in enumerate([ALL, ("p.a", "p.d"), ("p.c",), ("p.d", "p.e", "p.f"), ("p.a", "p.b"), ("p.g",)])
    ]
    # Instance ids in the opposite order of client ids, and dynamic members among them.
    static = [
        Consumer(f"p-{assignor}-static", f"s{n}", ("p.a", "p.c", "p.d"), assignor, instance_id=f"worker-{9 - n}")
        for n in range(3)
    ]
    static += [Consumer(f"p-{assignor}-static", f"x{n}", ("p.a", "p.d"), assignor) for n in range(2)]
    treeified = [Consumer(f"p-{assignor}-crowded", f"c{n}", ("p.c", "p.g"), assignor) for n in range(6)]
    # Two replicas in three racks: range looks for members near them, with co-partitioned p.d and p.e together.
    racked = [
        Consumer(f"p-{assignor}-racked", f"r{n}", ("p.d", "p.e", "p.f"), assignor, rack=rack)
        for n, rack in enumerate(["rack-c", "rack-a", "rack-b", "rack-a", "rack-nowhere"])
    ]
    mixed = [
        Consumer(f"p-{assignor}-mixed", f"m{n}", topics, assignor, instance_id=instance, rack=rack)
        for n, (topics, instance, rack) in enumerate(
            [(("p.d", "p.e"), "z", "rack-b"), (("p.d", "p.f"), None, "rack-a"), (("p.e", "p.d"), "b", None)]
        )
    ]
    return alike + differing + static + treeified + racked + mixed


@contextlib.contextmanager
def _kafkas_own_consumers(broker: Cluster) -> Iterator[dict[str, int]]:
    """Kafka's VerifiableConsumer twice in a roundrobin group, its ConsoleConsumer (range) in one of its own."""
    servers = ["--bootstrap-server", broker.bootstrap_servers]
    verifiable = ["org.apache.kafka.tools.VerifiableConsumer", *servers, "--topic", "p.a", "--group-id", "p-verifiable"]
    verifiable += ["--assignment-strategy", "org.apache.kafka.clients.consumer.RoundRobinAssignor"]
    console = ["org.apache.kafka.tools.consumer.ConsoleConsumer", *servers, "--topic", "p.b", "--group", "p-console"]
    java = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    java += ["-cp", maven.applications_classpath()]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    running = [subprocess.Popen([*java, *tool], **quiet) for tool in (verifiable, verifiable, console)]
    try:
        yield {"p-verifiable": 2, "p-console": 1}
    finally:
        for process in running:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def settled(broker: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Path]]:
    """The groups, settled, and the snapshot that the job wrote of them."""
    create_topics(broker, TOPICS)
    consumers = _groups("range") + _groups("roundrobin")
    with group_members.running(broker, consumers), _kafkas_own_consumers(broker) as sizes:
        group_members.wait_until_settled(broker, sizes | Counter(consumer.group for consumer in consumers))
        folder = tmp_path_factory.mktemp("predicted") / "fleet"
        arguments = ["--bootstrap-server", broker.bootstrap_servers, "--group", "p-*", "--fleet-dir", str(folder)]
        assert snapshot_job.main(arguments) == 0
        yield broker, folder


def _actual(broker: Cluster, groups: list[str]) -> set[tuple[str, str, str, int]]:
    """What the broker reports, read by kafka-python's own decoder."""
    with broker.admin() as admin:
        described = admin.describe_groups(groups)
    return {
        (group_id, member["member_id"], assigned["topic"], partition)
        for group_id, group in described.items()
        for member in group["members"]
        for assigned in (member["member_assignment"] or {"assigned_partitions": []})["assigned_partitions"]
        for partition in assigned["partitions"]
    }


def test_predicted_is_actual(spark: SparkSession, settled: tuple[Cluster, Path]) -> None:
    """Each group under the assignor that it runs with: no partition differs, none is missing."""
    broker, folder = settled
    fleet = Fleet.read(spark, str(folder))
    planned = plan(fleet, "configured")
    predicted = {
        tuple(row) for row in planned.assignments.select("group_id", "member_id", "topic", "partition").collect()
    }
    groups = sorted(row["group_id"] for row in fleet.groups.collect())
    assert len(groups) == 14
    actual = _actual(broker, groups)
    assert predicted - actual == set()
    assert actual - predicted == set()
    assert len(actual) > 200
    assert planned.rejected.collect() == []


def test_racks_mattered(settled: tuple[Cluster, Path]) -> None:
    """The group with racks is not dealt as range deals without them: rack awareness was really tested."""
    broker, _ = settled
    actual = {(member, p) for _, member, topic, p in _actual(broker, ["p-range-racked"]) if topic == "p.d"}
    partitions, members = TOPICS["p.d"][0], sorted({member for member, _ in actual})
    sizes = [partitions // len(members) + (n < partitions % len(members)) for n in range(len(members))]
    blind = {
        (member, partition)
        for n, member in enumerate(members)
        for partition in range(sum(sizes[:n]), sum(sizes[: n + 1]))
    }
    assert actual != blind


def test_as_tables_of_a_catalog(spark: SparkSession, settled: tuple[Cluster, Path]) -> None:
    """The documented command: the same rows, readable as a fleet by that name."""
    broker, folder = settled
    spark.sql("CREATE DATABASE IF NOT EXISTS kafka")
    (step,) = documented.steps("test_predicted_is_actual")
    documented.run_job(step, broker, {"main.kafka": "spark_catalog.kafka"})
    tables, files = Fleet.read(spark, "spark_catalog.kafka"), Fleet.read(spark, str(folder))
    assert tables.owned_lists is not None
    assert files.owned_lists is not None
    columns = files.owned_lists.columns
    mine = tables.owned_lists.where("group_id like 'p-%'").select(columns)
    assert mine.exceptAll(files.owned_lists.select(columns)).isEmpty()
    assert mine.count() == files.owned_lists.count()
