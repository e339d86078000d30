"""`daily` on three clusters: stored snapshots and recorded history, through every step of two nights."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs import daily
from spark_assign.cli.job_tables import stored_history
from spark_assign.sources.files.snapshot import Snapshot
from spark_assign.sources.kafka import cluster_snapshot
from spark_assign.stores.run_store import StoredRun, write_run
from spark_assign.tables.errors import SourceError
from spark_assign.tables.history import HISTORY_TABLES
from tests import snapshots
from tests.frames import frame_of
from tests.unit import history_rows

pytestmark = [pytest.mark.spark, pytest.mark.once]

HISTORY = Path(__file__).parents[2] / "conf" / "sample-history"
GROUPS = {"eu": "orders-service", "us": "fraud-detection", "ap": "notifications-push"}
"""The group of each cluster, whose records are those of the sample history."""
DEPLOYS = {
    ("eu", "orders-service", "rolling-restart"),
    ("eu", "orders-service", "restart"),
    ("us", "fraud-detection", "crash"),
    ("us", "fraud-detection", "scale-out"),
    ("ap", "notifications-push", "flapping"),
}
"""What the README of the sample history says of them; the member that was killed comes back."""


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """A file of three clusters, and the records of each; the arguments that name them."""
    records = pq.read_table(HISTORY / "records.parquet")
    words = ["--output", str(tmp_path / "daily"), "--clusters", str(tmp_path / "clusters.toml"), "-o", "json"]
    words += ["--commit-gap", "3s", "--deploy-gap", "20s"]
    text = '[[owners]]\ncluster = "eu"\nteam = "shop"\n'
    for name, group in GROUPS.items():
        own = records.filter(pc.match_substring(records["key"], group))
        own = own.set_column(0, own.schema.field("cluster"), [[name] * len(own)])
        pq.write_table(own, tmp_path / f"{name}.parquet")
        words += ["--records", str(tmp_path / f"{name}.parquet")]
        text += f'[clusters.{name}]\nbootstrap_server = "{name}:9092"\n'
    (tmp_path / "clusters.toml").write_text(text)
    return words


def test_a_time_that_no_calendar_has(spark: SparkSession) -> None:
    """In a stored history: wrong input, with the column."""
    groups = spark.sql("select 'c' as cluster, timestamp_micros(9223372036854775807L) as end_time")
    groups = groups.withColumn("start_time", F.col("end_time"))
    run = cast(Any, SimpleNamespace(started_at=datetime(2026, 11, 20, tzinfo=UTC)))
    with pytest.raises(SourceError, match=r"groups\.end_time: a time isn't in the years 1 to 9999"):
        daily._ends(StoredRun(run, {"groups": groups}))


def test_one_late_record_hides_no_night(spark: SparkSession, tmp_path: Path) -> None:
    """The times of a cluster's history end with the start of its run: of this one, and of the one before. Those of a
    cluster with only later records don't."""
    rows = history_rows.tables()
    late = history_rows.group("late", end_time=datetime(9998, 1, 1, tzinfo=UTC))
    other = history_rows.group("other") | {"cluster": "bank"}
    years_ahead = {"start_time": datetime(2990, 1, 1, tzinfo=UTC), "end_time": datetime(2990, 1, 2, tzinfo=UTC)}
    rows["groups"] = [*rows["groups"], late, other, {**other, **years_ahead, "cluster": "ahead"}]
    tables = {name: frame_of(spark, schema, rows.get(name, ())) for name, schema in HISTORY_TABLES.items()}
    runs = [write_run(tables, str(tmp_path), run_id=run_id, schemas=HISTORY_TABLES) for run_id in ("1", "2")]
    first, second = (manifest.started_at.replace(microsecond=0) for manifest in runs)
    options = cast(Any, SimpleNamespace(lookback=None, run_id="2"))
    ends = daily._ends(stored_history(spark, f"{tmp_path}@2"))
    times = daily._time_ranges(options, spark, str(tmp_path), ends)
    assert {each: [end.replace(microsecond=0) for end in of] for each, of in times.items()} == {
        "shop": [first, second],
        "bank": [history_rows.at(3600)] * 2,
        "ahead": [years_ahead["end_time"]] * 2,
    }


def test_two_nights(
    spark: SparkSession, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Each event is named with its cluster. Then one cluster grows and another can't be read: its last snapshot is
    planned, and it is stale."""
    members = {"eu": 2, "us": 2, "ap": 2}

    def take(bootstrap_servers: str, *, cluster: str, **_: Any) -> Snapshot:
        if cluster not in members:
            raise SourceError(f"Kafka at {bootstrap_servers} can't be reached")
        taken = snapshots.of_kafka(cluster, members[cluster])
        return replace(taken, taken_at=datetime.now(UTC))

    monkeypatch.setattr(cluster_snapshot, "snapshot", take)

    def run(run_id: str) -> tuple[int, Mapping[str, Any], str]:
        capsys.readouterr()
        code = daily.main([*words, "--run-id", run_id])
        page = (tmp_path / "daily" / "index.html").read_text()
        assert (tmp_path / "daily" / run_id / "index.html").read_text() == page
        return code, json.loads(capsys.readouterr().out), page

    code, document, page = run("night1")
    assert code == 0
    tables = document["tables"]
    assert {(row["cluster"], row["group_id"], row["deploy_type"]) for row in tables["deploys"]} == DEPLOYS
    assert [(row["cluster"], row["stale"]) for row in tables["clusters"]] == [
        ("ap", False),
        ("eu", False),
        ("us", False),
    ]
    assert all(f"{cluster}/{group}" in page for cluster, group in GROUPS.items())
    shop = (tmp_path / "daily" / "night1" / "owners" / "shop.html").read_text()
    assert "orders-service" in shop
    assert not re.search("fraud-detection|notifications-push", shop)

    members["eu"] = 3
    del members["us"]
    code, document, page = run("night2")
    tables = document["tables"]
    assert (code, document["exit_code"]) == (3, 3)
    assert {row["cluster"]: row["problem"] for row in tables["clusters"] if row["stale"]} == {"us": "Not read."}
    assert "Stale: us." in page
    assert [(row["cluster"], row["change"]) for row in tables["groups"]] == [("eu", "changed")]
    plans = pq.read_table(tmp_path / "daily" / "plans" / "metrics").to_pylist()
    planned = {(row["run_id"], row["cluster"], row["members"]) for row in plans}
    assert planned == {*(("night1", each, 2) for each in GROUPS), *(("night2", each, 2) for each in ("us", "ap"))} | {
        ("night2", "eu", 3)
    }
