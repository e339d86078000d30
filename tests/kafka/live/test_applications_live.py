"""Predicted = actual for real Streams applications on the classic protocol, of two releases, with state and standbys:
they scale out and in, restart, and lose a host."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_assign.streams import plan_streams
from tests.kafka import classic_applications, maven
from tests.kafka.broker import Cluster
from tests.kafka.classic_applications import NO_WARMUPS, Specs, Story
from tests.kafka.classic_plans import final_tasks, fleet_of, tasks_of, unequal_generations

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

APPLICATIONS = (
    Specs("strc-at-once", None, NO_WARMUPS, restore_ms_per_record=0, session_timeout_ms=6_000),
    Specs("strc-warmups", maven.OLDER_STREAMS, 10, restore_ms_per_record=2, session_timeout_ms=6_000),
)
"""The second one doesn't wait for its probing rebalances, which test_probing_live.py follows."""
MIN_GENERATIONS = 5
"""The first one, and one for each of four changes."""


def play(broker: Cluster, folder: Path) -> list[Story]:
    """Both applications at the same time."""
    return classic_applications.play(broker, folder, APPLICATIONS, until_final=False)


def test_each_generation_is_planned_as_its_leader_did(story: list[Story]) -> None:
    """Active tasks, standbys, warmups, and when each thread rejoins, from what the members reported to the leader."""
    for each in story:
        assert unequal_generations(each) == []
        assert len(each.generations) >= MIN_GENERATIONS
    warmups = [generation.follow_up for generation in story[1].generations]
    assert "probing" in warmups
    assert "at-once" in warmups


def test_predicted_is_actual(spark: SparkSession, story: list[Story]) -> None:
    """Each thread has the tasks that were planned from the snapshot before, over four changes."""
    steps = story[0].steps
    planned = plan_streams(fleet_of(spark, story[:1]))
    assert planned.rejected.collect() == []
    predicted = final_tasks(planned.tasks.collect())
    moved = {row["cluster"]: row["moved_active"] for row in planned.metrics.collect()}
    planned.unpersist()
    for step in steps:
        assert predicted[step.name] == tasks_of(step.after), step.name
        assert step.threads == classic_applications.assigned_threads(step.after)
    assert [step.name for step in steps] == ["scale-out", "scale-in", "restart", "host-loss"]
    assert all(moved[step.name] for step in steps)
