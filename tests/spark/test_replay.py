"""The recorded sample replayed by Spark: what was recorded is found again, and the summary says what it cost."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_assign.history import HistoryThresholds, replay
from spark_assign.report.history import summarize_replay
from spark_assign.simulation.settings import Settings
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.history import REPLAY_TABLES
from tests.spark.fleets import assert_declared

pytestmark = [pytest.mark.spark]

SAMPLE = Path(__file__).parents[2] / "conf" / "sample-history" / "records.parquet"


@pytest.fixture(scope="module")
def records(spark: SparkSession) -> DataFrame:
    """What the broker of the sample had written."""
    return spark.read.parquet(str(SAMPLE))


def test_the_sample(records: DataFrame) -> None:
    """Every classic group of consumers shares out again as it is recorded, in any partitioning; others are rejected."""
    found = replay(records.repartition(3), assignors=["range", "cooperative-sticky"])
    assert_declared(found, REPLAY_TABLES)
    cached = found.with_tagged_rows(found.tagged_rows().cache())
    rows = cached.replay_summary.collect()
    classic = {row["group_id"]: row for row in rows if row["recorded"] and row["protocol"] != "consumer"}
    assert {name: row["assignor"] for name, row in classic.items()} == {
        **dict.fromkeys(("connect-audit-to-disk", "notifications-push", "orders-service"), "range"),
        "fraud-detection": "sticky",
        "inventory-projector": "cooperative-sticky",
    }
    assert all(row["num_replayed"] == row["rebalances"] for row in classic.values())
    static = [row for row in rows if row["group_id"] == "orders-service" and row["static"]]
    assert [row["rebalances"] for row in static] == [0, 0]
    assert {row["group_id"]: row["code"] for row in cached.replay_rejected.collect()} == {
        **dict.fromkeys(("connect-orders", "returns-workers"), "out-of-scope"),
        **dict.fromkeys(("legacy-importer", "nightly-export", "payments-ledger"), "no-rebalances"),
    }
    assert (
        cached.replay_rebalances.where("assignor = 'range' and group_id = 'inventory-projector' and not static").count()
        == 6
    )
    text = summarize_replay(cached.replay_summary, cached.replay_rejected, 2)
    assert "All groups by variant:" in text
    assert "orders-eu/connect-orders: out-of-scope" in text


def test_what_is_refused(records: DataFrame) -> None:
    """Names and thresholds are looked at before anything is read."""
    with pytest.raises(ConfigError, match="Unknown assignor 'mine'"):
        replay(records, assignors=["mine"])
    with pytest.raises(ConfigError, match="commit_gap_ms is 0; expected at least 1 ms"):
        replay(records, thresholds=HistoryThresholds(commit_gap_ms=0))
    with pytest.raises(ConfigError, match="only settings for all groups"):
        replay(records, settings=Settings(groups=records.selectExpr("cluster", "'g' as group_id")))
