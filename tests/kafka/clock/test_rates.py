"""The rates that a snapshot measures are those of the producers and of the slow consumer."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_assign.sources.files import snapshot_files
from spark_assign.sources.files.snapshot_offsets import Offsets, loads_between
from tests.kafka.live.test_readings import EVERY_S, READ, SENT, TIMES, Taken, loads_of

pytestmark = pytest.mark.kafka

NEAR = 0.1


def test_rates_by_readings(taken: Taken) -> None:
    """In and out, with little deviation between the readings."""
    loads = loads_of(taken.readings)
    for partition, rate in SENT.items():
        row = loads["rd.hot", partition, None]
        assert row["in_messages_per_second"] == pytest.approx(rate, rel=NEAR)
        assert 0 <= row["in_messages_per_second_stddev"] < rate * NEAR
    assert loads["rd.hot", 0, "rd-slow"]["out_messages_per_second"] == pytest.approx(READ, rel=NEAR)


def test_lag_grows_by_what_is_not_read(taken: Taken) -> None:
    """From the first reading to the last."""
    first = {row["group_id"]: row["lag"] for row in taken.readings.tables["offsets"].to_pylist()}
    grown = loads_of(taken.readings)["rd.hot", 0, "rd-slow"]["lag"] - first["rd-slow"]
    assert grown == pytest.approx((SENT[0] - READ) * EVERY_S * (TIMES - 1), rel=NEAR)


def test_rates_by_timestamps(taken: Taken) -> None:
    """Of the last seconds before one reading."""
    loads = loads_of(taken.since)
    for partition, rate in SENT.items():
        assert loads["rd.hot", partition, None]["in_messages_per_second"] == pytest.approx(rate, rel=2 * NEAR)


def test_rates_between_two_snapshots(taken: Taken, spark: SparkSession, tmp_path: Path) -> None:
    """Over the time between them."""
    for name in ("readings", "since"):
        snapshot_files.write_folder(getattr(taken, name), tmp_path / name)
    before, after = (Offsets.read(spark, str(tmp_path / name)) for name in ("readings", "since"))
    found = {(row["topic"], row["partition"], row["group_id"]): row for row in loads_between(before, after).collect()}
    assert found["rd.hot", 0, None]["in_messages_per_second"] == pytest.approx(SENT[0], rel=NEAR)
    assert found["rd.hot", 0, "rd-slow"]["out_messages_per_second"] == pytest.approx(READ, rel=NEAR)
