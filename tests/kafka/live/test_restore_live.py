"""Predicted = actual for the time that a real Streams application needs to restore 500 MB of state, within 20%.

The restore rate is measured before, until two runs agree within 10%; if none do, because the machine is busy, the
prediction is a range: from the fastest of the runs to the slowest. Instances wait a millisecond per record, so that
the rate depends on the machine's load only a little."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_assign.streams import plan_streams
from tests.kafka import classic_applications, streams_members
from tests.kafka.broker import Cluster
from tests.kafka.classic_applications import LiveApplication, Specs, Step, Story
from tests.kafka.classic_plans import fleet_of
from tests.kafka.live_groups import Tables, events

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

CALIBRATIONS = 4
SPECS = Specs(
    "strr-app",
    None,
    10,
    restore_ms_per_record=1,
    session_timeout_ms=6_000,
    standbys=0,
    stateless=1,
    stateful=4,
    records=54_000,
    record_bytes=10_000,
    threads=(1,) * (CALIBRATIONS + 2),
)
MIN_BYTES = 500_000_000
CALIBRATION_TOLERANCE, TOLERANCE = 0.10, 0.20


@dataclass(frozen=True)
class Restored:
    """The application's steps; seconds of each calibration; seconds until each changelog partition is restored, by
    step."""

    story: Story
    calibrations: list[float]
    seconds: dict[str, dict[int, float]]

    @property
    def is_calibrated(self) -> bool:
        """Whether the last two calibrations agree."""
        last = self.calibrations[-2:]
        return len(last) > 1 and abs(last[0] - last[1]) <= CALIBRATION_TOLERANCE * last[1]


def play(broker: Cluster, folder: Path) -> Restored:
    """Instances without any state replace one another. Then, one more joins, and the older one is lost."""
    restored = Restored(Story(SPECS, [], [], 0, []), [], {})
    with contextlib.ExitStack() as stack:
        live = classic_applications.start(broker, folder, SPECS, stack, running=1)
        classic_applications.settle(broker, live, is_final=True)
        classic_applications.fill(broker, live)
        classic_applications.settle(broker, live, is_final=True)
        while len(restored.calibrations) < CALIBRATIONS and not restored.is_calibrated:
            number = len(restored.calibrations) + 1
            _replace(broker, live, leave=number - 1, start=number)
            restored.calibrations.append(max(_seconds(live, number, "active").values()))
        older, newer = len(restored.calibrations), len(restored.calibrations) + 1
        for name, change, role in (
            ("scale-out", {"start": newer}, "standby"),
            ("host-loss", {"leave": older}, "active"),
        ):
            before = live.snapshots[-1]
            after = _replace(broker, live, **change)
            restored.story.steps.append(Step(name, before, after, {}, 0, 0))
            restored.seconds[name] = _seconds(live, newer, role)
    return restored


def _replace(broker: Cluster, live: LiveApplication, leave: int | None = None, start: int | None = None) -> Tables:
    """Stops an instance, starts another one, and returns a snapshot when all state is restored."""
    since = sum(len(file.read_text().splitlines()) for file in live.files)
    if leave is not None:
        live.living.remove(leave)
        streams_members.leave(live.processes[0], [live.instances[leave]])
    if start is not None:
        live.living.add(start)
        streams_members.start(live.processes[0], [live.instances[start]])
    live.last.append(since)
    live.snapshots.append(classic_applications.settle(broker, live, is_final=True))
    return live.snapshots[-1]


def _seconds(live: LiveApplication, number: int, role: str) -> dict[int, float]:
    """Returns the seconds from the start of an instance's last restores to the end of each, by changelog partition.

    Warmups are restored as standbys; when they become active later, there is nothing left to restore.
    """
    client_id = live.instances[number].client_id
    rows = [row for row in events(live.files)[live.last[-1] :] if row["client_id"] == client_id]
    rows = [row for row in rows if row.get("role") == role]
    start = min(row["at_ms"] for row in rows if row["event"] == "restoring")
    return {row["changelog_partition"]: (row["at_ms"] - start) / 1000 for row in rows if row["event"] == "restored"}


def test_restore_time(spark: SparkSession, story: Restored) -> None:
    """A new instance restores half of the state as warmups, and the other half when the older instance is lost."""
    last = story.calibrations[-1]
    least, most = (1.0, 1.0) if story.is_calibrated else (of(story.calibrations) / last for of in (min, max))
    all_bytes = sum(row["bytes"] for row in story.story.steps[0].before["changelogs"])
    planned = plan_streams(fleet_of(spark, [story.story]), restore_bytes_per_second=all_bytes / last)
    assert planned.rejected.collect() == []
    rows = planned.restores.collect()
    planned.unpersist()
    assert sum(row["bytes"] for row in rows) >= MIN_BYTES
    for name, seconds in story.seconds.items():
        predicted = {row["task"]: row["restore_seconds"] for row in rows if row["cluster"] == name}
        assert predicted.keys() == seconds.keys(), name
        for task, of in predicted.items():
            low, high = (1 - TOLERANCE) * least * of, (1 + TOLERANCE) * most * of
            assert low <= seconds[task] <= high, (name, story.calibrations)
