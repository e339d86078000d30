"""How long members of classic groups are missed and partitions wait, in reality and in the simulation."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.kafka import protocol_forecast, protocol_story
from tests.kafka.broker import Cluster
from tests.kafka.protocol_cases import CASES, HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS
from tests.kafka.protocol_story import Story

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SLACK_MS = 1_500
"""A busy machine is late; never early."""


@pytest.fixture(scope="module")
def story(broker: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Every case, all at once."""
    return protocol_story.play(broker, tmp_path_factory.mktemp("protocol"))


def test_who_crashes_is_missed_when_its_session_times_out(story: Story) -> None:
    """Counted from its last heartbeat."""
    for case in (case for case in CASES if case.missed):
        [missed] = [at for at, text in story.log_of(case.group) if "has failed, removing it" in text]
        after_ms = missed - story.happened_ms
        assert SESSION_TIMEOUT_MS - HEARTBEAT_INTERVAL_MS - SLACK_MS < after_ms < SESSION_TIMEOUT_MS + SLACK_MS


def test_the_pauses_have_the_same_shape(spark: SparkSession, story: Story) -> None:
    """The longest pause of a partition: of any two groups whose pauses differ clearly in the simulation, the same one
    has the longer pause in reality."""
    forecasts = protocol_forecast.forecasts(spark, story)
    predicted = {case.group: forecasts[case.group].availability["longest_pause_ms"] for case in CASES}
    actual = {case.group: story.longest_pause_ms(case) for case in CASES}
    clear = SLACK_MS + HEARTBEAT_INTERVAL_MS
    pairs = [(short, long) for short in actual for long in actual if predicted[long] > predicted[short] + clear]
    assert len(pairs) > 50
    assert [pair for pair in pairs if actual[pair[0]] >= actual[pair[1]]] == []
