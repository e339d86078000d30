"""Predicted = actual in streams groups: instances of a real application join and leave, and each time the broker's
target is what is planned from the snapshot before."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_assign import Fleet
from spark_assign.sources.files.snapshot import Snapshot
from spark_assign.sources.files.snapshot_files import write_folder
from spark_assign.sources.kafka.cluster_snapshot import snapshot
from spark_assign.streams import plan_streams
from spark_assign.tables.groups import MEMBER_KEY
from tests.kafka import streams_members
from tests.kafka.broker import Cluster
from tests.kafka.live_groups import create_topics, wait_until_stable
from tests.kafka.streams_members import Instance

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

APP = "str-app"
TOPICS = {"str.clicks": 6, "str.orders": 5}
CONFIGURED = {"num.standby.replicas": 1, "heartbeat.interval.ms": 500, "initial.rebalance.delay.ms": 0}
SETTLE_TIMEOUT_S = 240
Tasks = set[tuple[str, str, int, str]]


def _instance(number: int, folder: Path) -> Instance:
    """One thread, so that a join is one change of the group."""
    return Instance(APP, f"str-{number}", str(folder / f"state-{number}"), ("str.clicks",), ("str.orders",))


def play(broker: Cluster, folder: Path) -> list[Path]:
    """Snapshots of the application: two instances, three, four, and without one of the first."""
    create_topics(broker, TOPICS)
    broker.configure_group(APP, {f"streams.{name}": str(value) for name, value in CONFIGURED.items()})
    instances = [_instance(number, folder) for number in range(4)]
    places = [folder / f"round-{number}" for number in range(4)]
    with streams_members.running(broker, instances[:2]) as process:
        epoch = _settle(broker, 2, 0, places[0])
        for size in (3, 4):
            streams_members.start(process, instances[size - 1 : size])
            epoch = _settle(broker, size, epoch, places[size - 2])
        streams_members.leave(process, instances[:1])
        _settle(broker, 3, epoch, places[3])
    return places


def _settle(broker: Cluster, size: int, before: int, folder: Path) -> int:
    """Write a snapshot once so many members have reached one epoch, later than before, and stay as they are."""

    def look() -> tuple[object, Snapshot]:
        taken = snapshot(broker.bootstrap_servers, groups="str-*", cluster="live")
        stable, epochs, _ = seen = _state(taken)
        settled = stable and len(epochs) == size and len(set(epochs)) == 1 and epochs[0] > before
        return None if settled else (f"{size} members after epoch {before}", seen), taken

    taken = wait_until_stable(look, _state, within_s=SETTLE_TIMEOUT_S, every_s=1)
    write_folder(taken, str(folder))
    return _state(taken)[1][0]


def _state(taken: Snapshot) -> tuple[bool, list[int], list[str]]:
    tables = {name: table.to_pylist() for name, table in taken.tables.items()}
    stable = any(row["group_id"] == APP and str(row["state"]).lower() == "stable" for row in tables["groups"])
    return stable, [row["generation_id"] for row in tables["members"]], sorted(map(str, tables["tasks"]))


def _tasks(rows: Iterable[object]) -> Tasks:
    return {(row["member_id"], row["subtopology"], row["task"], row["role"]) for row in rows}  # type: ignore[index]


def test_predicted_is_actual(spark: SparkSession, story: list[Path]) -> None:
    """Who has what after two joins and a departure, planned from what members had reached before."""
    fleets = [Fleet.read(spark, str(folder)) for folder in story]
    for before, after in itertools.pairwise(fleets):
        planned = plan_streams(_with_tasks_of(before, after))
        assert planned.rejected.collect() == []
        assert planned.moves.count() > 0
        predicted = _tasks(planned.tasks.collect())
        planned.unpersist()
        assert after.tasks is not None
        assert predicted == _tasks(after.tasks.where("role is not null").collect())
        assert {role for *_, role in predicted} == {"active", "standby"}


def _with_tasks_of(before: Fleet, after: Fleet) -> Fleet:
    """Who is there after a change, with what they had reached before it."""
    assert before.tasks is not None
    return replace(after, tasks=before.tasks.join(after.members.select(*MEMBER_KEY), MEMBER_KEY, "left_semi"))


def test_the_snapshot_reads_the_application(spark: SparkSession, story: list[Path]) -> None:
    """Its topology, its processes, and how many standbys it is to have."""
    fleet = Fleet.read(spark, str(story[-1]))
    assert fleet.groups is not None
    assert fleet.subtopologies is not None
    assert [(row["group_type"], row["standby_replicas"]) for row in fleet.groups.collect()] == [("streams", 1)]
    assert {(row["subtopology"], row["partitions"], row["stateful"]) for row in fleet.subtopologies.collect()} == {
        ("0", 6, False),
        ("1", 5, True),
    }
    assert len({row["process_id"] for row in fleet.members.collect()}) == 3
