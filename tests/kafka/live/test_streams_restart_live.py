"""Predicted = actual: rebalances and stopped task-seconds of a rolling restart of real Streams applications.

One application is dynamic, the other static. The time for which an instance is down is measured, and given to the
simulation. A real task stops longer, for what isn't simulated: the start of the client, its requests, and the interval
of the reports (100 ms). That was 0.2 to 0.9 s on a busy machine, and up to 3.7 s with ten processes per core. A session
ends up to a heartbeat earlier, because the broker counts from the last one. So a task stops for the predicted time, up
to `EARLIER_S` less or `LATER_S` more. A wrong model would miss this band: without the session timeout of the dynamic
application, without the downtime, or with tasks of other instances that stop.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Container, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean

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
from tests.kafka.live_groups import Row, Tables, events, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SESSION_TIMEOUT_MS = 12_000
APPLICATIONS = tuple(
    Specs(name, None, 10, restore_ms_per_record=0, session_timeout_ms=SESSION_TIMEOUT_MS, standbys=0, is_static=static)
    for name, static in (("strd-app", False), ("strs-app", True))
)
NUM_INSTANCES = 3
DOWN_S = 4
EARLIER_S, LATER_S = 0.5, 4.0


@dataclass(frozen=True)
class Restart:
    """Time (ms since 1970) at which an instance was ordered to close, at which it started again, and at which the
    application had settled; and the number of rebalances."""

    closed_ms: float
    started_ms: float
    settled_ms: float
    rebalances: int


@dataclass(frozen=True)
class Restarted:
    """An application before its rolling restart, the restarts of its instances, and what the instances reported."""

    before: Tables
    restarts: list[Restart]
    reports: list[Row]

    def tasks_of(self, member_ids: Container[str]) -> set[str]:
        """Returns the active tasks of these members before the first restart."""
        rows = (row for row in self.before["tasks"] if row["role"] == "active" and row["member_id"] in member_ids)
        return {f"{row['subtopology']}_{row['task']}" for row in rows}

    def stopped_seconds(self, number: int) -> float:
        """Returns the time for which no instance ran a task, from a restart on until it had settled, summed over tasks.

        A new task runs once its instance is RUNNING; a task that stays runs throughout a rebalance.
        """
        tasks = self.tasks_of({row["member_id"] for row in self.before["members"]})
        restart, running, stopped = self.restarts[number], dict[str, set[str]](), 0.0
        for row, after in pairwise([*self.reports, {"at_ms": restart.settled_ms}]):
            if row["event"] == "tasks":
                before, active = running.get(row["client_id"], set()), set(row["active"])
                running[row["client_id"]] = active if row["state"] == "RUNNING" else active & before
            else:
                running.pop(row["client_id"], None)
            start, end = (min(max(each["at_ms"], restart.closed_ms), restart.settled_ms) for each in (row, after))
            stopped += (end - start) / 1000 * len(tasks.difference(*running.values()))
        return stopped


def play(broker: Cluster, folder: Path) -> list[Restarted]:
    """Each instance closes and starts again, in both applications at the same time."""
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(len(APPLICATIONS)) as pool:
        live = [classic_applications.start(broker, folder, specs, stack, NUM_INSTANCES) for specs in APPLICATIONS]
        for each in live:
            classic_applications.settle(broker, each, is_final=True)
            classic_applications.fill(broker, each)
        before = [classic_applications.settle(broker, each, is_final=True) for each in live]
        restarts: list[list[Restart]] = [[] for _ in live]
        for number in range(NUM_INSTANCES):
            generations = [_generation(broker, each) for each in live]
            times = pool.map(_restart, live, [number] * len(live))
            for each, generation, (closed_ms, started_ms), of in zip(live, generations, times, restarts, strict=True):
                classic_applications.settle(broker, each, is_final=True)
                rebalances = _generation(broker, each) - generation
                of.append(Restart(closed_ms, started_ms, time.time() * 1000, rebalances))
        return [
            Restarted(tables, of, _reports(each, of)) for tables, of, each in zip(before, restarts, live, strict=True)
        ]


def _restart(live: LiveApplication, number: int) -> tuple[float, float]:
    """Returns when an instance was ordered to close, and when it started again, once it is up again; a dynamic one
    waits for its old session."""
    instance, since, closed_ms = live.instances[number], len(events(live.files)), time.time() * 1000
    streams_members.leave(live.processes[0], [instance])

    def rows_after_close() -> list[Row]:
        rows = [row for row in events(live.files)[since:] if row["client_id"] == instance.client_id]
        closed = [at for at, row in enumerate(rows) if row["event"] == "closed"]
        return rows[closed[-1] :] if closed else []

    wait_until(rows_after_close, f"{instance.client_id} closes")
    time.sleep(DOWN_S)
    streams_members.start(live.processes[0], [instance])

    def is_up() -> bool:
        return [row["state"] for row in rows_after_close() if row["event"] == "tasks"][-1:] == ["RUNNING"]

    wait_until(is_up, lambda: events(live.files)[since:])
    return closed_ms, next(row["at_ms"] for row in rows_after_close() if row["event"] == "tasks")


def _reports(live: LiveApplication, restarts: Sequence[Restart]) -> list[Row]:
    """Returns what the instances reported about their tasks, by time. Tasks stop when the close is ordered."""
    rows = [row for row in events(live.files) if row["event"] == "tasks"]
    closed = [
        {"at_ms": restart.closed_ms, "event": "closed", "client_id": live.instances[number].client_id}
        for number, restart in enumerate(restarts)
    ]
    return sorted([*rows, *closed], key=lambda row: float(row["at_ms"]))


def _generation(broker: Cluster, live: LiveApplication) -> int:
    return read_generations(broker, live.specs.application_id)[-1].number


def test_rebalances_and_stopped_tasks_of_a_rolling_restart(spark: SparkSession, story: list[Restarted]) -> None:
    """Static members return without any. A dynamic one causes those of its return, after its old session."""
    for specs, restarted in zip(APPLICATIONS, story, strict=True):
        config = [f"{name}={value}" for name, value in specs.settings.items()]
        groups = [row | {"streams_config": config} for row in restarted.before["groups"]]
        fleet = live_groups.fleet(spark, restarted.before | {"groups": groups})
        (cluster,) = {row["cluster"] for row in groups}
        down_ms = round(mean(restart.started_ms - restart.closed_ms for restart in restarted.restarts))
        rolling = {"cluster": cluster, "at_ms": 0, "event": "rolling-restart", "down_ms": down_ms, "pause_ms": 60_000}
        simulated = simulate_streams(
            fleet,
            frame_of(spark, EVENTS, [rolling]),
            settings=Settings(session_timeout_ms=SESSION_TIMEOUT_MS, heartbeat_interval_ms=500, poll_interval_ms=100),
            restore_bytes_per_second=1e9,
        )
        assert simulated.rejected.collect() == []
        steps = simulated.steps.orderBy("step").collect()
        simulated.unpersist()
        predicted = [row["rebalances"] for row in steps]
        assert [restart.rebalances for restart in restarted.restarts] == predicted, specs.application_id
        assert (sum(predicted) == 0) == specs.is_static
        for number, row in enumerate(steps):
            stopped, tasks = restarted.stopped_seconds(number), len(restarted.tasks_of(row["member_ids"]))
            difference = (stopped - row["stopped_task_seconds"]) / tasks
            print(specs.application_id, f"{tasks} tasks: {stopped:.1f} task-seconds, {difference:+.2f} s per task")
            assert -EARLIER_S <= difference <= LATER_S, (specs.application_id, number, stopped, row)
