"""Random Streams groups, fresh at every run, planned by our kernel and by the broker's own class (KIP-1071)."""

from __future__ import annotations

import pytest

from spark_assign.assignors.streams.sticky_task_assignor import RELEASES, assign_tasks
from tests.golden import streams_rows
from tests.golden.streams_rows import Row
from tests.kafka import live_assignors, maven, random_streams
from tests.sizes import drawn

pytestmark = pytest.mark.kafka

PROGRAM = "StreamsAssignors"
GROUPS, SEQUENCES = drawn(400, 1_500), drawn(40, 120)
ROUNDS = 8


@pytest.fixture(params=RELEASES.values())
def release(request: pytest.FixtureRequest, kafka_jars: str) -> tuple[str, str]:
    """A release and its classes; those of 4.2.1 are the same as those of 4.3.1."""
    if request.param == "4.2.2":
        return request.param, maven.group_coordinator_classpath("4.2.2")
    return request.param, kafka_jars if request.param == "4.4" else maven.applications_classpath()


def differing(rows: list[Row], release: str) -> list[str]:
    """Cases in which the kernel answers something else."""
    found = []
    for row in rows:
        group = streams_rows.group_of(row, release=release)
        target = assign_tasks(group, release=release)
        if streams_rows.sets_of(group, target) != streams_rows.expected(row):
            found.append(f"{row['case']} round {row.get('round', 0)}")
    return found


def test_the_kernel_plans_what_the_broker_answers_now(release: tuple[str, str], seed: int) -> None:
    """Groups in whatever state."""
    rows = live_assignors.answered(random_streams.groups(seed, GROUPS), release[1], program=PROGRAM)
    found = differing(rows, release[0])
    assert not found, f"{len(found)} differ, {found[:20]}"
    assert sum(len(streams_rows.expected(row)) > 1 for row in rows) > GROUPS // 3
    assert sum(any(got["standby"] for got in row["expect"].values()) for row in rows) > GROUPS // 4


def test_group_after_group_is_led_on(release: tuple[str, str], seed: int) -> None:
    """Rounds, each from the answer of the one before: members come, go and restart, subtopologies grow."""
    rows = random_streams.sequences(seed, SEQUENCES)
    for number in range(ROUNDS):
        rows = live_assignors.answered(rows, release[1], program=PROGRAM)
        assert all(row["round"] == number for row in rows)
        found = differing(rows, release[0])
        assert not found, f"{len(found)} differ, {found[:20]}"
        rows = [random_streams.led_on(seed, row) for row in rows]
