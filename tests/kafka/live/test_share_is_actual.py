"""Predicted = actual in share groups: real share consumers join and leave, and each time the broker assigns what is
planned from the snapshot before."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path
from subprocess import Popen

import pytest
from pyspark.sql import SparkSession

from spark_assign import Fleet, plan
from spark_assign.share import plan_share
from spark_assign.sources.files.snapshot import Snapshot
from spark_assign.sources.files.snapshot_files import write_folder
from spark_assign.sources.kafka.cluster_snapshot import snapshot
from spark_assign.tables.groups import MEMBER_KEY
from tests.kafka import group_members
from tests.kafka.broker import Cluster
from tests.kafka.group_members import Consumer
from tests.kafka.live_groups import create_topics, wait_until_stable
from tests.slices import partitions

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TOPICS = {"sh.a": 7, "sh.b": 3, "sh.c": 1}
Owned = set[tuple[str, str, str, int]]


def _consumers() -> list[Consumer]:
    def some(group: str, *topics: tuple[str, ...]) -> list[Consumer]:
        return [Consumer(group, f"{group}-{n}", subscribed, protocol="share") for n, subscribed in enumerate(topics)]

    return [
        *some("sh-alike", *[("sh.a", "sh.b")] * 3),
        *some("sh-many", *[("sh.b",)] * 5),
        *some("sh-differing", ("sh.a", "sh.b"), ("sh.a",), ("sh.b", "sh.c"), ("sh.c", "sh.absent")),
    ]


NEWCOMERS = [
    Consumer("sh-alike", "sh-alike-new", ("sh.a", "sh.b"), protocol="share"),
    Consumer("sh-many", "sh-many-new", ("sh.b",), protocol="share"),
    Consumer("sh-differing", "sh-differing-new", ("sh.a", "sh.c"), protocol="share"),
]
LEAVERS = [_consumers()[0], _consumers()[4], _consumers()[9]]


def play(broker: Cluster, folder: Path) -> list[Path]:
    """Snapshots of the groups as they settled; after one member has joined each; and after one has left each."""
    create_topics(broker, TOPICS)
    sizes = {"sh-alike": 3, "sh-many": 5, "sh-differing": 4}
    for group in sizes:
        broker.configure_group(group, {"share.heartbeat.interval.ms": "300", "share.session.timeout.ms": "60000"})
    folders = [folder / name for name in ("before", "joined", "left")]
    with group_members.running(broker, _consumers()) as process:
        epochs = _settle(broker, sizes, {}, folders[0])
        _step(process, broker, sizes, +1)
        epochs = _settle(broker, sizes, epochs, folders[1])
        _step(process, broker, sizes, -1)
        _settle(broker, sizes, epochs, folders[2])
    return folders


def _step(process: Popen[str], broker: Cluster, sizes: dict[str, int], by: int) -> None:
    if by > 0:
        group_members.start(process, NEWCOMERS)
    else:
        group_members.leave(process, LEAVERS)
    for group in sizes:
        sizes[group] += by


def _settle(broker: Cluster, sizes: dict[str, int], before: dict[str, int], folder: Path) -> dict[str, int]:
    """Write a snapshot once all members of each group have reached one epoch, later than before; those epochs."""

    def epochs(taken: Snapshot) -> dict[str, int]:
        known = {(each["group_id"], each["generation_id"]) for each in taken.tables["members"].to_pylist()}
        each_has = Counter(group for group, _ in known)
        return {group: epoch for group, epoch in known if each_has[group] == 1}

    def look() -> tuple[str, Snapshot]:
        taken = snapshot(broker.bootstrap_servers, groups="sh-*", cluster="live")
        now, joined = epochs(taken), Counter(taken.tables["members"]["group_id"].to_pylist())
        owning = set(taken.tables["owned_lists"]["group_id"].to_pylist())
        settled = joined == sizes and owning == set(sizes)
        settled &= all(now.get(group, -1) > before.get(group, 0) for group in sizes)
        return "" if settled else f"{dict(joined)} of {sizes}, epochs {now} after {before}", taken

    def state(taken: Snapshot) -> object:
        return epochs(taken), *(taken.tables[name].to_pylist() for name in ("owned_lists", "initialized"))

    taken = wait_until_stable(look, state, every_s=1)
    write_folder(taken, str(folder))
    return epochs(taken)


def _owned(fleet: Fleet) -> Owned:
    runs = fleet.ownership_slices()
    assert runs is not None
    return {
        (row["group_id"], row["member_id"], row["topic"], partition)
        for row in runs.collect()
        for partition in partitions(row)
    }


def _epochs(fleet: Fleet) -> dict[str, int]:
    return {row["group_id"]: row["generation_id"] for row in fleet.members.collect()}


def test_predicted_is_actual(spark: SparkSession, story: list[Path]) -> None:
    """Who has what after a join, and after a departure, planned from what was owned before it."""
    fleets = [Fleet.read(spark, str(folder)) for folder in story]
    for before, after in itertools.pairwise(map(_epochs, fleets)):
        assert after == {group: epoch + 1 for group, epoch in before.items()}, "the broker has fenced a member"
    for before, after in itertools.pairwise(fleets):
        assert before.owned_lists is not None
        there = after.members.select(*MEMBER_KEY)
        planned = plan_share(replace(after, owned_lists=before.owned_lists.join(there, MEMBER_KEY, "left_semi")))
        predicted = {
            (row["group_id"], row["member_id"], row["topic"], row["partition"]) for row in planned.assignments.collect()
        }
        assert planned.rejected.collect() == []
        assert planned.changes.count() > 0
        planned.unpersist()
        actual = _owned(after)
        assert predicted - actual == set()
        assert actual - predicted == set()


def test_the_snapshot_reads_share_groups(spark: SparkSession, story: list[Path]) -> None:
    """Members of all three, several owners of a partition, a subscription to nothing, what can be assigned."""
    fleet = Fleet.read(spark, str(story[0]))
    assert fleet.groups is not None
    assert {(row["group_id"], row["group_type"], row["assignor"]) for row in fleet.groups.collect()} == {
        (group, "share", "simple") for group in ("sh-alike", "sh-many", "sh-differing")
    }
    owners: dict[tuple[str, int], set[str]] = {}
    for group, member, topic, partition in _owned(fleet):
        if group == "sh-many":
            owners.setdefault((topic, partition), set()).add(member)
    assert {len(members) for members in owners.values()} == {2}
    assert fleet.subscription_rows.where("topic = 'sh.absent'").count() == 1
    assert fleet.initialized is not None
    initialized = {
        (row["group_id"], row["topic"], row["count"])
        for row in fleet.initialized.collect()
        if row["topic"] != "sh.absent"
    }
    assert initialized == {
        *(("sh-alike", topic, TOPICS[topic]) for topic in ("sh.a", "sh.b")),
        ("sh-many", "sh.b", 3),
        *(("sh-differing", topic, count) for topic, count in TOPICS.items()),
    }


def test_plan_names_what_plans_them(spark: SparkSession, story: list[Path]) -> None:
    """`plan` rejects share groups with a code and the command."""
    rejected = plan(Fleet.read(spark, str(story[0])), "range").rejected.collect()
    assert {(row["group_id"], row["code"]) for row in rejected} == {
        (group, "share-group") for group in ("sh-alike", "sh-many", "sh-differing")
    }
    assert all("spark-assign plan" in row["detail"] for row in rejected)
