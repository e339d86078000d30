"""Predicted = actual on the way over: classic groups restart with group.protocol=consumer, one by one, and go back.

After every step a snapshot is taken. What `migrate` said before the first step is what comes of it; and who has what
after each step is the plan of what was there before it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_assign import MigrationParams, plan, plan_migration
from spark_assign.spark.dataframes import expand
from tests.kafka import group_members
from tests.kafka.broker import Cluster
from tests.kafka.group_members import Consumer
from tests.kafka.live_groups import Owners, Tables, by_client, create_topics, owners, planned_rows, renamed
from tests.kafka.live_groups import fleet as fleet_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TOPICS = {"mig.orders": 7, "mig.clicks": 5}
NOW = {"mig-range": "range", "mig-cooperative": "cooperative-sticky", "mig-static": "range"}
MEMBERS = 3


def consumer(group: str, number: int, protocol: str) -> Consumer:
    """A member by the old or by the new protocol."""
    static = f"i{number}" if group == "mig-static" else None
    assignor = NOW[group] if protocol == "classic" else "uniform"
    made = Consumer(group, f"c{number}", tuple(TOPICS), assignor, protocol, static)
    return replace(made, heartbeat_interval_ms=500) if protocol == "classic" else made


def play(broker: Cluster, folder: Path) -> dict[str, Tables]:
    """The snapshots after each step: `over 0 away`, `over 0 back`, … and the same of the way back."""
    create_topics(broker, TOPICS)
    for group in NOW:
        broker.configure_group(group, {"consumer.heartbeat.interval.ms": "500"})
    states: dict[str, Tables] = {}

    def look(step: str, members: dict[str, int]) -> None:
        states[step] = group_members.wait_until_settled(broker, members, "mig-*")

    all_members = dict.fromkeys(NOW, MEMBERS)
    # A static member that is away is a member all the same; by the new protocol nothing is settled until it is back.
    away = {group: MEMBERS - 1 for group in NOW if group != "mig-static"}
    first = [consumer(group, number, "classic") for group in NOW for number in range(MEMBERS)]
    with group_members.running(broker, first) as members:
        look("before", all_members)
        for way, old, new in (("over", "classic", "consumer"), ("home", "consumer", "classic")):
            for number in range(MEMBERS):
                group_members.leave(members, [consumer(group, number, old) for group in NOW])
                look(f"{way} {number} away", away)
                group_members.start(members, [consumer(group, number, new) for group in NOW])
                look(f"{way} {number} back", all_members)
    return states


def kinds(tables: Tables) -> dict[str, str]:
    """Of each group its type."""
    return {row["group_id"]: row["group_type"] for row in tables["groups"]}


def planned(spark: SparkSession, tables: Tables, assignor: dict[str, str]) -> tuple[Owners, set[tuple[str, str, int]]]:
    """Returns the owners in the end by a plan, and the group, topic and partition of each order-dependent owner.

    Topic ids are random, and ids that share a bucket of Java's hash map come in an order that no snapshot has.
    """
    made = plan(fleet_of(spark, tables), assignor)
    assert made.rejected.collect() == []
    found = by_client(tables, planned_rows(made.assignments, made.revocations))
    unknown = expand(made.order_dependent).select("group_id", "topic", "partition").collect()
    return found, {tuple(row) for row in unknown}


def of_group(group: str, found: Owners, without: Collection[tuple[str, str, int]] = ()) -> Owners:
    """Returns the owners of one group's partitions, without the partitions in `without`."""
    return {
        who: {(topic, partition) for topic, partition in got if (group, topic, partition) not in without}
        for who, got in found.items()
        if who[0] == group
    }


def counts(group: str, found: Owners) -> list[int]:
    """Returns the number of partitions of each member of a group, sorted."""
    return sorted(len(got) for got in of_group(group, found).values())


def test_the_coordinator_converts_the_groups_as_migrate_says(spark: SparkSession, story: dict[str, Tables]) -> None:
    """Online; consumer groups from the first restart on; classic ones when the last member has gone back."""
    migrations = plan_migration(fleet_of(spark, story["before"]), MigrationParams(library="Java")).migrations
    rows_by_group = {row["group_id"]: row for row in migrations.collect()}
    assert {group: row["online"] for group, row in rows_by_group.items()} == dict.fromkeys(NOW, True)
    assert {group: row["assignor"] for group, row in rows_by_group.items()} == NOW
    assert {group: row["verdict"] == "blocked" for group, row in rows_by_group.items()} == dict.fromkeys(NOW, False)
    assert kinds(story["over 0 away"]) == dict.fromkeys(NOW, "classic")
    for number in range(MEMBERS):
        assert kinds(story[f"over {number} back"]) == dict.fromkeys(NOW, "consumer")
    assert kinds(story[f"home {MEMBERS - 1} back"]) == dict.fromkeys(NOW, "classic")


def test_who_has_what_after_each_step_is_planned(spark: SparkSession, story: dict[str, Tables]) -> None:
    """A member away: the rest by the group's own assignor as long as it is a classic one; back again: by uniform."""
    steps = list(story)
    for last, step in pairwise(steps):
        if not step.startswith("over"):
            continue
        before, after = story[last], story[step]
        classic = step == "over 0 away"
        assignor = {group: name if classic else "uniform" for group, name in NOW.items()}
        state = after | {"owned_slices": renamed(before, after)}
        expected, unknown = planned(spark, state, assignor)
        actual = owners(after)
        for group in NOW:
            if group == "mig-static":
                assert of_group(group, actual) == of_group(group, owners(before)), step
            else:
                assert of_group(group, actual, unknown) == of_group(group, expected, unknown), (step, group)
                assert counts(group, actual) == counts(group, expected), (step, group)


def test_what_moves_on_the_way_is_as_much_as_migrate_says(spark: SparkSession, story: dict[str, Tables]) -> None:
    """Twelve partitions, three members: how many move does not hang on ids. What static members have stays."""
    rows = plan_migration(fleet_of(spark, story["before"]), MigrationParams(library="Java")).migrations.collect()
    rows_by_group = {row["group_id"]: row["moved_during_migration"] for row in rows}
    steps = [step for step in story if not step.startswith("home")]
    moved = dict.fromkeys(NOW, 0)
    for last, step in pairwise(steps):
        had = {(group, each): client for (group, client), got in owners(story[last]).items() for each in got}
        has = {(group, each): client for (group, client), got in owners(story[step]).items() for each in got}
        for (group, each), client in has.items():
            moved[group] += had[group, each] != client
    assert rows_by_group == moved
    assert rows_by_group["mig-static"] == 0 < rows_by_group["mig-range"]


def test_they_come_home(spark: SparkSession, story: dict[str, Tables]) -> None:
    """The clients' own assignor shares out what it had shared out before: range the same to the same members."""
    end = story[f"home {MEMBERS - 1} back"]
    assert {row["group_id"]: row["assignor"] for row in end["groups"]} == NOW
    expected, _ = planned(spark, end, NOW)
    assert of_group("mig-range", owners(end)) == of_group("mig-range", expected)
