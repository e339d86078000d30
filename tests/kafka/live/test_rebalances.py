"""Predicted = actual across rebalances: what the sticky assignors revoke first and who has what in the end, predicted
from a snapshot, against what real Java consumers are told and what the broker reports afterwards."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_assign import Fleet, plan
from tests.kafka import group_members
from tests.kafka.broker import Cluster
from tests.kafka.coordinator_log import about, nobody_was_held_up
from tests.kafka.group_members import Consumer
from tests.kafka.live_groups import Owners, Row, Tables, create_topics, fleet, owners, read, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TOPICS = {"m.a": 7, "m.b": 12, "m.c": 3, "m.d": 10}
ALL = tuple(TOPICS)
COOPERATIVE, EAGER = "cooperative-sticky", "sticky"
ASSIGNORS = (EAGER, COOPERATIVE)
DIFFERING = [ALL, ("m.a", "m.b"), ("m.b", "m.c", "m.d")]


def _name(assignor: str, kind: str) -> str:
    return f"m-{assignor}-{kind}"


def _members(assignor: str, numbers: range) -> list[Consumer]:
    revoking_ms = 500 if assignor == COOPERATIVE else None
    alike = [Consumer(_name(assignor, "alike"), f"a{n}", ALL, assignor) for n in numbers]
    differing = [Consumer(_name(assignor, "differing"), f"d{n}", DIFFERING[n % 3], assignor) for n in numbers]
    return [replace(each, revoking_ms=revoking_ms) for each in alike + differing]


def _static(assignor: str, number: int) -> Consumer:
    return Consumer(_name(assignor, "static"), f"s{number}", ALL, assignor, instance_id=f"worker-{number}")


FIRST = [each for assignor in ASSIGNORS for each in (*_members(assignor, range(3)), _static(assignor, 0))]
FIRST += [_static(assignor, 1) for assignor in ASSIGNORS]
LEADERS = [consumer for consumer in FIRST if consumer.topics == ALL]
"""They join first, so that each leader subscribes to all topics. Another leader requests the metadata of its group's
topics again in each rebalance, and assigns without a topic if a periodic answer that lacks it comes first."""
RESTARTED = [_static(assignor, 2) for assignor in ASSIGNORS]
JOINERS = [each for assignor in ASSIGNORS for each in _members(assignor, range(3, 4))]
GROUPS = {consumer.group: 3 for consumer in FIRST}
JOINED = {consumer.group: 4 for consumer in JOINERS}
JOINS = 5
"""So often the fourth members may join and leave until all have joined as members do where nobody is held up."""


@dataclass(frozen=True)
class Story:
    """What was seen: four states of the groups, and what the members' listeners were told in between."""

    settled: Tables
    restarted: Tables
    waiting: Tables
    joined: Tables
    calls_at_restart: list[Row]
    calls_at_join: list[Row]
    joiner_calls: list[Row]


def _read(cluster: Cluster) -> Tables:
    return read(cluster, "m-*", "m.*")


def _events(file: Path, after: int = 0) -> list[Row]:
    return [json.loads(line) for line in file.read_text().splitlines()[after:]]


def _joined(broker: Cluster) -> set[str]:
    """The groups that somebody has joined."""
    log = broker.group_log()
    return {group for group in GROUPS if any("Preparing to rebalance" in text for _, text in about(group, log))}


def _wait_for_new_ids(cluster: Cluster, before: Tables) -> None:
    """Until the restarted static members have joined: the coordinator then knows them by new member ids."""
    restarted = {(consumer.group, consumer.client_id) for consumer in RESTARTED}
    old = {row["member_id"] for row in before["members"] if (row["group_id"], row["client_id"]) in restarted}
    wait_until(
        lambda: not old & {row["member_id"] for row in _read(cluster)["members"]}, "the static members come back"
    )


def play(broker: Cluster, folder: Path) -> Story:
    """Three members a group; one with a static id is killed and comes back; then a fourth joins the other groups."""
    create_topics(broker, TOPICS)
    first = folder / "first"
    with group_members.running(broker, LEADERS, first) as members:
        wait_until(lambda: GROUPS.keys() <= _joined(broker), "the leaders have joined")
        group_members.start(members, [consumer for consumer in FIRST if consumer not in LEADERS])
        with group_members.running(broker, RESTARTED) as process:
            group_members.wait_until_settled(broker, GROUPS)
            settled, num_events = _read(broker), len(_events(first))
            process.kill()
            process.wait()
        with group_members.running(broker, RESTARTED):
            _wait_for_new_ids(broker, settled)
            group_members.wait_until_settled(broker, GROUPS)
            restarted, calls_at_restart = _read(broker), _events(first, num_events)
            for attempt in range(JOINS):
                joining = folder / f"joining-{attempt}"
                group_members.wait_until_settled(broker, GROUPS)
                waiting, num_events, logged = _read(broker), len(_events(first)), broker.log_position()
                with group_members.running(broker, JOINERS, joining):
                    group_members.wait_until_settled(broker, GROUPS | JOINED)
                    joined, calls_at_join, joiner_calls = _read(broker), _events(first, num_events), _events(joining)
                    log = broker.group_log(logged)
                if nobody_was_held_up(JOINED, log, calls_at_join + joiner_calls):
                    return Story(settled, restarted, waiting, joined, calls_at_restart, calls_at_join, joiner_calls)
    raise AssertionError(f"members were held up each of {JOINS} times")


# --- what a snapshot predicts ---------------------------------------------------------------------------------


def _fleet(spark: SparkSession, tables: Tables, owned: list[Row], generation: int) -> Fleet:
    """These groups as they join their next rebalance: who owned something says so in the group's generation."""
    owning = {(row["group_id"], row["member_id"]) for row in owned}
    members = [
        row
        | {"user_data_generation_id": None}
        | {"generation_id": generation if (row["group_id"], row["member_id"]) in owning else None}
        for row in tables["members"]
    ]
    return fleet(spark, tables | {"members": members, "owned_slices": owned})


def _listed(rows: DataFrame) -> list[Row]:
    return [row.asDict() for row in rows.collect()]


def _in_calls(events: list[Row], event: str) -> Owners:
    owned: Owners = {}
    for each in events:
        if each["event"] == event and each["partitions"]:
            partitions = owned.setdefault((each["group"], each["client_id"]), set())
            partitions |= {(topic, partition) for topic, partition in each["partitions"]}
    return owned


def _in(assignor: str, found: Owners) -> Owners:
    names = (_name(assignor, "alike"), _name(assignor, "differing"))
    return {who: partitions for who, partitions in found.items() if who[0] in names and partitions}


# --- predicted = actual -----------------------------------------------------------------------------------------


def test_a_settled_group_stays(spark: SparkSession, story: Story) -> None:
    """Another rebalance of the same members changes nothing: the plan is what the broker reports."""
    planned = plan(_fleet(spark, story.settled, story.settled["owned_slices"], 1), "configured")
    assert owners(story.settled, _listed(planned.assignment_slices)) == owners(story.settled)
    assert len(story.settled["groups"]) == 6


def test_a_static_member_comes_back(spark: SparkSession, story: Story) -> None:
    """Killed and restarted within its session timeout, under a new member id: nothing moves, nobody is told."""
    old, new = ({row["member_id"] for row in tables["members"]} for tables in (story.settled, story.restarted))
    assert len(old - new) == len(RESTARTED)
    assert owners(story.restarted) == owners(story.settled)
    assert story.calls_at_restart == []
    planned = plan(_fleet(spark, story.restarted, story.restarted["owned_slices"], 1), "configured")
    assert planned.moves.collect() == []


def test_a_member_joins(spark: SparkSession, story: Story) -> None:
    """Ownership of before, members of after: first what is revoked, then, round after round, who has what.

    The joiners' ids, which decide ties, are only known once they have joined.
    """
    owned = story.waiting["owned_slices"]
    clients = {row["member_id"]: row["client_id"] for row in story.joined["members"]}
    assert {run["member_id"] for run in owned} <= clients.keys()
    first = plan(_fleet(spark, story.joined, owned, 1), "configured")
    revoked: Owners = {}
    for row in _listed(first.revocations):
        revoked.setdefault((row["group_id"], clients[row["member_id"]]), set()).add((row["topic"], row["partition"]))
    runs = _listed(first.assignment_slices)

    # An eager member gives everything up before it joins, and has its new assignment after one round.
    assert _in(EAGER, _in_calls(story.calls_at_join, "revoked")) == _in(EAGER, owners(story.waiting))
    assert _in(EAGER, owners(story.joined, runs)) == _in(EAGER, owners(story.joined))
    assert _in(EAGER, revoked)

    # A cooperative one gives up what the first round says, and keeps the rest; the second hands that over.
    assert _in(COOPERATIVE, _in_calls(story.calls_at_join, "revoked")) == _in(COOPERATIVE, revoked)
    assert _in(COOPERATIVE, revoked)
    after_one_round = _in(COOPERATIVE, owners(story.joined, runs))
    assert after_one_round != _in(COOPERATIVE, owners(story.joined))
    second = plan(_fleet(spark, story.joined, runs, 2), "configured")
    assert _in(COOPERATIVE, owners(story.joined, _listed(second.assignment_slices))) == _in(
        COOPERATIVE, owners(story.joined)
    )
    assert second.revocations.collect() == []
    assert _in(COOPERATIVE, _in_calls(story.joiner_calls, "assigned")) == {
        who: partitions for who, partitions in _in(COOPERATIVE, owners(story.joined)).items() if who[1] in ("a3", "d3")
    }
    assert not _in_calls(story.calls_at_join, "lost")
