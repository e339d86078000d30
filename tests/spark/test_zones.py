"""Zones by Spark: the fleet of docs/zones.md; no group is left out; any order of rows; the job writes and prints."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs import advise as job
from jobs import report
from spark_assign.advice import ZoneParams, measure_zone_traffic
from spark_assign.report.replicas import summarize_operated_zones
from spark_assign.report.zones import summarize_zones
from spark_assign.stores.run_store import read_run
from spark_assign.tables.advice import ZONES_TABLES
from spark_assign.tables.errors import ConfigError, FleetError
from spark_assign.tables.replicas import OPERATED_ZONES
from tests.docs import given
from tests.spark.fleets import REFUSED, assert_declared, kept, mixed, shuffled, table, tuples, written_as_json

pytestmark = [pytest.mark.spark]


def test_no_group_is_left_out(spark: SparkSession) -> None:
    """Each is in zones or, with the reason, in rejected; the ways are those of its protocol."""
    fleet = mixed(spark)
    loads = [("c", "t", partition, None, None, None, None, None, 1e6) for partition in range(4)]
    found = kept(measure_zone_traffic(replace(fleet, loads=table(spark, "loads", loads))))
    assert_declared(found, ZONES_TABLES)
    rows = found.zones.collect()
    ways = {name: {row["assignor"] for row in rows if row["group_id"] == name} for name in ("near", "empty", "served")}
    assert ways == {
        "near": {"current", "range", "sticky", "cooperative-sticky"},
        "empty": {"current"},
        "served": {"current", "uniform", "server-range", "rack-uniform", "rack-server-range"},
    }
    assert {row["group_id"] for row in rows} == {"alone", "empty", "served", "near", "far"}
    assert [row["reason"] for row in rows if row["group_id"] == "empty"] == [
        "The group has no members, so it reads nothing"
    ]
    assert tuples(found.rejected, "group_id", "code") == REFUSED


def test_rows_in_any_order(spark: SparkSession, seed: int) -> None:
    """The same figures to the last digit, however rows come and wherever they are."""
    fleet = given.zones_fleet(spark)
    one, other = kept(measure_zone_traffic(fleet)), kept(measure_zone_traffic(shuffled(fleet, seed)))
    assert tuples(one.zones) == tuples(other.zones)
    assert tuples(one.replica_moves) == tuples(other.replica_moves)


def test_the_current_leader_counts(spark: SparkSession) -> None:
    """Members read from `leader_id`; a reorder can be the election of the preferred leader alone, and needs no copy."""
    fleet = given.zones_fleet(spark)
    assert fleet.replicas is not None
    led = fleet.replicas.drop("leader_id").withColumn("leader_id", F.get("replicas", F.lit(1)))
    found = kept(measure_zone_traffic(replace(fleet, replicas=led)))
    now = found.zones.where("assignor = 'current' and not follower_fetching")
    bytes_of = {row["group_id"]: row["cross_zone_bytes_at_least"] / 1e9 for row in now.collect()}
    # By the table of the page, with the second replica as the leader: orders in b, c, a; clicks in b and c.
    assert bytes_of == pytest.approx({"billing": 3 * 864, "audit": 2 * 864, "ranking": 86.4, "search": 86.4})
    moves = found.changes("reorder").orderBy("topic", "partition").collect()
    assert [(row["topic"], row["partition"], row["previous_replicas"], row["replicas"]) for row in moves] == [
        ("clicks", 0, [1, 2, 3], [3, 1, 2]),
        ("orders", 0, [1, 2], [1, 2]),
    ]
    assert {(row["moved"], row["leader_changed"]) for row in moves} == {(0, True)}


def test_sums_of_all_groups_do_not_wrap(spark: SparkSession) -> None:
    """Each group reads less than the bound; of all, and before and after an operation, the largest long is said."""
    fleet = given.zones_fleet(spark)
    assert fleet.loads is not None
    loads = fleet.loads.withColumn("in_bytes_per_second", F.lit(2e12))
    found = kept(measure_zone_traffic(replace(fleet, loads=loads)))
    assert found.rejected.count() == 0
    again = found.zones.crossJoin(spark.range(20)).drop("id")
    screen = summarize_zones(again, found.replica_moves, found.rejected, 2)
    assert screen.startswith("Read: 9.22 EB a day.")
    rows = [("c", f"g{each}", 10**18, 10**18, 1.0, 1.0, "USD") for each in range(10)]
    screen = summarize_operated_zones(spark.createDataFrame(rows, OPERATED_ZONES))
    assert screen.startswith("Cross-zone traffic: 9,223,372,036.9 GB a day (10.00 USD) before")


def test_what_is_missing(spark: SparkSession) -> None:
    """Each with a remedy; and what is no price."""
    fleet = given.zones_fleet(spark)
    with pytest.raises(ConfigError, match=r"price_per_gb is -0\.1; expected at least 0"):
        measure_zone_traffic(fleet, ZoneParams(price_per_gb=-0.1))
    without = {name: fleet.__getattribute__(name).withColumn("rack_id", F.lit("")) for name in ("members", "brokers")}
    with pytest.raises(FleetError) as raised:
        measure_zone_traffic(replace(fleet, loads=None, replicas=None, **without))
    for words in ("replicas.*: the table is missing", "loads.*: the table is missing"):
        assert words in str(raised.value)
    assert "brokers.rack_id: no broker has a rack" in str(raised.value)
    assert "members.rack_id: no member has a rack" in str(raised.value)


@pytest.mark.once
def test_the_job(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tables are written, and files for Kafka's tools; exit codes."""
    tables = {name: [{"cluster": "shop-prod"} | row for row in rows] for name, rows in given.ZONES.items()}
    tables["members"].append(tables["members"][-1])
    tables["brokers"].append(tables["brokers"][0] | {"cluster": "other", "broker_id": 9})
    place = written_as_json(tmp_path / "fleet", tables)
    out = tmp_path / "out"
    words = ["--fleet", str(place), "--output", str(out), "--run-id", "r", "--output-format", "json"]
    assert job.main(["zones", *words, "--price-per-gb", "0.01", "--currency", "EUR", "--fail-on", "rejected"]) == 1
    output = capsys.readouterr().out
    assert all(words in output for words in ("a day in total:", "EUR", "duplicate-member"))
    batch = json.loads((out / "json" / "reorder" / "shop-prod" / "reassign-001.json").read_text())
    assert [(each["topic"], each["partition"], each["replicas"]) for each in batch["partitions"]] == [
        ("clicks", 0, [3, 1, 2]),
        ("clicks", 1, [3, 2, 1]),
        ("orders", 2, [1, 3]),
    ]
    moves = [json.loads(line) for file in out.glob("replica_moves/run_id=r/attempt=*/*.json") for line in file.open()]
    assert moves
    manifest = read_run(spark, str(out), "r", schemas=ZONES_TABLES).manifest
    assert (manifest.content["outcome"]["job"], manifest.content["inputs"]["mode"]) == ("advise", "zones")
    assert report.main(["--advice", str(out), "--output-file", str(tmp_path / "page.html")]) == 2
    assert [row["saved_per_day"] for row in moves] == pytest.approx(
        [row["saved_bytes_per_day"] / 1e9 * 0.01 for row in moves]
    )
    assert job.main(["zones", "--fleet", str(place), "--price-per-gb", "nan"]) == 2


@pytest.mark.once
def test_groups_in_words(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All ways of a group, where consumers fetch from followers."""
    tables = {name: [{"cluster": "shop-prod"} | row for row in rows] for name, rows in given.ZONES.items()}
    place = written_as_json(tmp_path / "fleet", tables)
    assert job.main(["zones", "--fleet", str(place), "--details", "billing", "--follower-fetching"]) == 0
    assert "Saves 51.84 USD a day, and moves 3 of 3 partitions once" in capsys.readouterr().out
