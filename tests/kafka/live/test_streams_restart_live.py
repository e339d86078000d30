"""Predicted = actual: the rebalances of a rolling restart of real Streams applications, dynamic and static."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_assign.simulation import Settings
from spark_assign.streams import simulate_streams
from spark_assign.tables.simulation import EVENTS
from tests.frames import frame_of
from tests.kafka import classic_applications, live_groups, streams_members
from tests.kafka.broker import Cluster
from tests.kafka.classic_applications import LiveApplication, Specs
from tests.kafka.classic_generations import read_generations
from tests.kafka.live_groups import Tables, events, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SESSION_TIMEOUT_MS = 12_000
APPLICATIONS = tuple(
    Specs(name, None, 10, restore_ms_per_record=0, session_timeout_ms=SESSION_TIMEOUT_MS, standbys=0, is_static=static)
    for name, static in (("strd-app", False), ("strs-app", True))
)
NUM_INSTANCES = 3


@dataclass(frozen=True)
class Restarted:
    """An application before its restart, and the number of rebalances of each restart."""

    before: Tables
    rebalances: list[int]


def play(broker: Cluster, folder: Path) -> list[Restarted]:
    """Each instance closes and starts again, in both applications at the same time."""
    with contextlib.ExitStack() as stack:
        live = [classic_applications.start(broker, folder, specs, stack, NUM_INSTANCES) for specs in APPLICATIONS]
        for each in live:
            classic_applications.settle(broker, each, is_final=True)
            classic_applications.fill(broker, each)
        before = [classic_applications.settle(broker, each, is_final=True) for each in live]
        numbers = [[_generation(broker, each)] for each in live]
        for number in range(NUM_INSTANCES):
            for each in live:
                _restart(each, number)
            for each, of in zip(live, numbers, strict=True):
                classic_applications.settle(broker, each, is_final=True)
                of.append(_generation(broker, each))
        return [
            Restarted(tables, [after - first for first, after in pairwise(of)])
            for tables, of in zip(before, numbers, strict=True)
        ]


def _restart(live: LiveApplication, number: int) -> None:
    """Returns when the instance is up again; a dynamic one waits for its old session."""
    instance, since = live.instances[number], len(events(live.files))
    streams_members.leave(live.processes[0], [instance])
    streams_members.start(live.processes[0], [instance])

    def is_up() -> bool:
        rows = [row for row in events(live.files)[since:] if row["client_id"] == instance.client_id]
        closed = [at for at, row in enumerate(rows) if row["event"] == "closed"]
        states = [row["state"] for row in rows[closed[-1] :] if row["event"] == "tasks"] if closed else []
        return states[-1:] == ["RUNNING"]

    wait_until(is_up, lambda: events(live.files)[since:], within_s=120)


def _generation(broker: Cluster, live: LiveApplication) -> int:
    return read_generations(broker, live.specs.application_id)[-1].number


def test_rebalances_of_a_rolling_restart(spark: SparkSession, story: list[Restarted]) -> None:
    """Static members return without any. A dynamic one causes those of its return, after its old session."""
    for specs, restarted in zip(APPLICATIONS, story, strict=True):
        config = [f"{name}={value}" for name, value in specs.settings.items()]
        groups = [row | {"streams_config": config} for row in restarted.before["groups"]]
        fleet = live_groups.fleet(spark, restarted.before | {"groups": groups})
        (cluster,) = {row["cluster"] for row in groups}
        rolling = {"cluster": cluster, "at_ms": 0, "event": "rolling-restart", "down_ms": 1_000, "pause_ms": 60_000}
        simulated = simulate_streams(
            fleet,
            frame_of(spark, EVENTS, [rolling]),
            settings=Settings(session_timeout_ms=SESSION_TIMEOUT_MS, heartbeat_interval_ms=500, poll_interval_ms=100),
            restore_bytes_per_second=1e9,
        )
        assert simulated.rejected.collect() == []
        predicted = [row["rebalances"] for row in simulated.steps.orderBy("step").collect()]
        simulated.unpersist()
        assert restarted.rebalances == predicted, specs.application_id
        assert (sum(predicted) == 0) == specs.is_static
