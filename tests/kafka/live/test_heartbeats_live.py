"""Predicted = actual in time where the broker assigns (KIP-848): members of real groups join, leave, crash and restart;
what their listeners are told, which epochs they learn, and who has what in the end, against the simulation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial

import pytest
from pyspark.sql import SparkSession

from spark_assign.simulation import Settings
from spark_assign.tables.simulation import GROUP_SETTINGS
from tests.frames import frame_of
from tests.kafka import heartbeat_story, protocol_forecast
from tests.kafka.heartbeat_story import (
    CASES,
    CRASHES,
    DOWN_MS,
    HEARTBEAT_INTERVAL_MS,
    JOINS,
    LEAVES,
    PAUSE_MS,
    RESTARTS,
    TOPICS,
    Case,
    Story,
    joined_calls,
)
from tests.kafka.live_groups import CALLS, Calls, Row, Tables
from tests.kafka.protocol_forecast import named_partitions, owners_at_end
from tests.kafka.protocol_story import Owners
from tests.slices import Partition

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

AT_MS, UNTIL_MS = 1_500, 60_000
_of_cases = partial(protocol_forecast.of_cases, CASES)


@dataclass(frozen=True)
class Forecast:
    """What the simulation says about one group; by client id."""

    calls: Calls
    epochs: dict[str, list[int]]
    owners: Owners
    rebalances: int


play = heartbeat_story.play


@pytest.fixture(scope="module")
def forecasts(spark: SparkSession, story: Story) -> dict[str, Forecast]:
    """The same, simulated from the snapshot before, by group."""
    members = [row | {"generation_id": story.before.epochs[row["group_id"]]} for row in story.before.tables["members"]]
    cluster = members[0]["cluster"]
    events = [{"cluster": cluster} | row for case in CASES for row in _events(story, case)]
    groups = [
        {"cluster": cluster, "group_id": case.group, "group_consumer_session_timeout_ms": case.session_timeout_ms}
        for case in CASES
    ]
    settings = Settings(
        group_consumer_heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS, groups=frame_of(spark, GROUP_SETTINGS, groups)
    )
    before = story.before.tables | {"members": members}
    tables = protocol_forecast.simulated(spark, before, events, settings, UNTIL_MS)
    return _of_cases(lambda case: _forecast(story, case, tables[case.group]))


def _events(story: Story, case: Case) -> list[Row]:
    """Ids, which decide ties, are those that the members really had."""
    rows = []
    for number, subject in enumerate(case.subjects):
        was, becomes = (state.members.get((case.group, subject.client_id)) for state in (story.before, story.after))
        happens = {"group_id": case.group, "at_ms": AT_MS + number * (DOWN_MS + PAUSE_MS), "event": case.event}
        happens |= {"member_id": was or becomes, "group_instance_id": subject.instance_id}
        if case.event == RESTARTS:
            happens |= {"down_ms": DOWN_MS, "new_member_id": becomes}
        if case.event == JOINS:
            happens |= {"topics": list(subject.topics)}
        rows.append(happens)
    return rows


def _forecast(story: Story, case: Case, rows: Tables) -> Forecast:
    clients = {
        member: client
        for state in (story.before, story.after)
        for (group, client), member in state.members.items()
        if group == case.group
    }
    dead = {each.client_id for each in case.subjects} if case.event == CRASHES else set()
    calls: Calls = {}
    epochs: dict[str, list[int]] = {client: [story.before.epochs[case.group]] for client in clients.values()}
    for row in sorted(rows["trace"], key=lambda row: int(row["seq"])):
        if row["message"] in CALLS and clients[row["actor"]] not in dead:
            calls.setdefault(clients[row["actor"]], []).append((row["message"], _named(row["detail"])))
        learned = re.match(r"epoch (\d+)", row["detail"])
        if row["message"] == "ConsumerGroupHeartbeat response" and learned:
            known = epochs[clients[row["receiver"]]]
            known += [int(learned[1])] if int(learned[1]) not in known[-1:] else []
    there = {client for group, client in story.after.members if group == case.group}
    owners = owners_at_end(rows["ownership"], clients, there)
    learned_later = {client: known[1:] for client, known in epochs.items() if known[1:]}
    return Forecast(joined_calls(calls), learned_later, owners, len(rows["rebalances"]))


def _named(detail: str) -> set[Partition]:
    found = named_partitions(detail, TOPICS)
    assert len(found) == len(detail.split())
    return found


def test_listener_calls_are_as_predicted(story: Story, forecasts: dict[str, Forecast]) -> None:
    """Every member's calls with every partition, in their order."""
    assert _of_cases(lambda case: forecasts[case.group].calls) == _of_cases(lambda case: story.calls(case.group))
    calls_made = [event for case in CASES for calls in story.calls(case.group).values() for event, _ in calls]
    assert min(calls_made.count("revoked"), calls_made.count("assigned")) > 30


def test_who_has_what_in_the_end(story: Story, forecasts: dict[str, Forecast]) -> None:
    """By the broker's target."""
    assert _of_cases(lambda case: forecasts[case.group].owners) == _of_cases(lambda case: story.owners(case.group))


def test_as_many_rebalances(story: Story, forecasts: dict[str, Forecast]) -> None:
    """The group's epoch is raised as often: a member that restarts leaves and joins, a static one does neither."""
    raised = _of_cases(lambda case: story.after.epochs[case.group] - story.before.epochs[case.group])
    assert _of_cases(lambda case: forecasts[case.group].rebalances) == raised
    assert set(raised.values()) == {0, 1, 2, 6}


def test_members_learn_the_same_epochs(story: Story, forecasts: dict[str, Forecast]) -> None:
    """From the answers to their heartbeats; of those who stay until the end."""
    stay = {case.group: set(story.owners(case.group)) for case in CASES}

    def of_those(epochs: dict[str, list[int]], case: Case) -> dict[str, list[int]]:
        return {client: known for client, known in epochs.items() if client in stay[case.group]}

    predicted = _of_cases(lambda case: of_those(forecasts[case.group].epochs, case))
    assert predicted == _of_cases(lambda case: of_those(story.epochs(case.group), case))


def test_nobody_stops_who_need_not(story: Story) -> None:
    """A member that is not the subject gives up what goes to somebody else, and nothing but that."""
    for case in (case for case in CASES if case.event in (JOINS, LEAVES, CRASHES)):
        subject = case.subjects[0].client_id
        for client, calls in story.calls(case.group).items():
            given_up = [partitions for event, partitions in calls if event == "revoked"]
            if client != subject:
                assert not any(partitions & story.owners(case.group)[client] for partitions in given_up)
