"""Predicted = actual, rebalance by rebalance: real Streams applications on the classic protocol, of two releases.
Their tasks move after warmups. Probing rebalances are a minute apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_assign.streams import plan_streams
from spark_assign.streams.kernel.classic_rounds import ClassicRounds
from tests.kafka import classic_applications, maven
from tests.kafka.broker import Cluster
from tests.kafka.classic_applications import Specs, Story
from tests.kafka.classic_plans import fleet_of, unequal_generations

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

APPLICATIONS = (
    Specs("strp-new", None, 10, restore_ms_per_record=25, session_timeout_ms=10_000),
    Specs("strp-old", maven.OLDER_STREAMS, 10, restore_ms_per_record=25, session_timeout_ms=10_000),
)
"""A task takes ten seconds or more to restore: longer than what follows at once, and shorter than the probing interval.

An acceptable lag of 0 isn't reached by state on disk: Kafka 3.9 reports one record less per changelog."""
SECONDS_TO_RESTORE_ALL = 30.0


def play(broker: Cluster, folder: Path) -> list[Story]:
    """Both applications at the same time, each step until every task is at its final owner."""
    return classic_applications.play(broker, folder, APPLICATIONS, until_final=True)


def test_each_generation_is_planned_as_its_leader_did(story: list[Story]) -> None:
    """Active tasks, standbys, warmups, and when each thread rejoins, from what the members reported to the leader."""
    for each in story:
        assert unequal_generations(each) == []


def test_each_round_is_predicted_from_the_first(story: list[Story]) -> None:
    """The tasks of each thread in all rebalances of a step, and their number and causes."""
    for each in story:
        generations = {generation.number: generation for generation in each.generations}
        for step in each.steps:
            actual = [generations[number] for number in range(step.first + 1, step.last + 1)]
            application = each.specs.application(actual[0], each.end_offsets)
            sizes = dict.fromkeys(application.stateful, 1.0)
            rounds = list(ClassicRounds(application, sizes, len(sizes) / SECONDS_TO_RESTORE_ALL).run())
            causes = ["", *(generation.follow_up for generation in actual)]
            assert [*(of.cause for of in rounds), ""] == causes, step.name
            for generation, of in zip(actual, rounds, strict=True):
                assert generation.planned(of.assignment) == generation.tasks, step.name
        assert any(generation.follow_up == "probing" for generation in each.generations)


def test_rounds_are_predicted_from_the_snapshot_before(spark: SparkSession, story: list[Story]) -> None:
    """Number and order of the rebalances of each step."""
    for each in story:
        all_bytes = sum(row["bytes"] for row in each.steps[0].before["changelogs"])
        planned = plan_streams(fleet_of(spark, [each]), restore_bytes_per_second=all_bytes / SECONDS_TO_RESTORE_ALL)
        assert planned.rejected.collect() == []
        rounds = planned.rounds.orderBy("cluster", "round").collect()
        planned.unpersist()
        follow_ups = {generation.number: generation.follow_up for generation in each.generations}
        for step in each.steps:
            predicted = [row["cause"] or "" for row in rounds if row["cluster"] == step.name]
            actual = [follow_ups[number] for number in range(step.first + 1, step.last + 1)]
            assert [*predicted, ""] == ["", *actual], step.name
            assert step.threads == classic_applications.assigned_threads(step.after)
