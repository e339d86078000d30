"""Random life of KIP-848 groups, fresh at every run, by Kafka's own `GroupMetadataManager` and by our coordinator."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests import recorded_lines
from tests.golden import consumer_group_rows, reconciliation_rows
from tests.golden.consumer_group_rows import Row
from tests.kafka import fetched, live_assignors, maven, random_heartbeats, random_members
from tests.kafka.group_steps import answered
from tests.sizes import drawn

pytestmark = pytest.mark.kafka

PROGRAM = "ConsumerGroupSteps"
SEQUENCES = drawn(75, 150)


def test_kafka_still_answers_as_recorded(kafka_jars: str) -> None:
    """The program that is asked below gives for the recorded steps what was recorded."""
    rows = [row for row in consumer_group_rows.recorded() if row["sequence"].endswith("7")]
    now = answered([{**row, "expect": None} for row in rows], kafka_jars, PROGRAM)
    assert len(rows) > 1_000
    assert recorded_lines.differences(rows, [row["expect"] for row in now]) == []


@pytest.mark.parametrize("release", ["4.0.1", "4.0.2", "4.1.1", "4.1.2"])
def test_members_at_brokers_before_4_2(release: str, seed: int) -> None:
    """One heartbeat of members in whatever state. Brokers of 4.0.1 reconcile as those of 4.1.1, 4.0.2 as 4.1.2."""
    with fetched.or_skipped():
        class_path = maven.group_coordinator_classpath(release)
    members = random_members.members(seed, drawn(1_000, 5_000))
    rows = live_assignors.answered(members, class_path, program="CurrentAssignments")
    like = {"4.0.1": "4.1.1", "4.0.2": "4.1.2"}.get(release, release)
    different = [row["case"] for row in rows if reconciliation_rows.answered(row, like) != row["expect"]]
    assert not different, f"{len(different)} of {len(rows)} differ: {different[:20]}"


def test_random_life(kafka_jars: str, seed: int) -> None:
    """Every answer or error, and the whole group after it: epochs, states, targets, who has what, orders."""
    rows: list[Row] = []
    ours: list[Row] = []
    for name, steps in random_heartbeats.sequences(seed, SEQUENCES):
        for number, (op, result) in enumerate(steps):
            rows.append({"sequence": name, "step": number, "op": op})
            ours.append(json.loads(json.dumps(result)))
    expected = answered(rows, kafka_jars, PROGRAM)
    differences = recorded_lines.differences(expected, ours)
    assert not differences, f"{len(differences)} steps differ:\n" + "\n".join(differences[:3])
    states = Counter(member["state"] for row in expected for member in row["expect"].get("members", {}).values())
    errors = Counter(row["expect"].get("error") for row in expected)
    print(f"{len(rows)} steps, {dict(errors)}, members {dict(states)}")
    assert min(states[each] for each in ("STABLE", "UNREVOKED_PARTITIONS", "UNRELEASED_PARTITIONS")) > 6 * SEQUENCES
    assert {"FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID", "UNRELEASED_INSTANCE_ID"} <= errors.keys()
