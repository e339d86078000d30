"""All advice by Spark: no group is left out, tables agree with schemas, rows in any order, and the job."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs import advise as job
from spark_assign import advise
from spark_assign.advising.schemas import ADVISE_TABLES
from spark_assign.errors import ConfigError
from tests.docs import given
from tests.spark.fleets import tuples, written_as_json
from tests.spark.test_migrate import mixed

pytestmark = [pytest.mark.spark]


def collected(table: DataFrame) -> list[str]:
    """Rows as text, in order; floats to the last digit."""
    return sorted(json.dumps(row.asDict(), sort_keys=True, default=str) for row in table.collect())


def test_no_group_is_left_out(spark: SparkSession) -> None:
    """Each is in advice or not_advised, or with the reason in rejected; what cannot be asked says so."""
    found = advise(mixed(spark))
    found = found.with_decided(found.decided().persist())
    assert {name: getattr(found, name).schema.names for name in ADVISE_TABLES} == {
        name: schema.names for name, schema in ADVISE_TABLES.items()
    }
    said = found.advice.select("group_id").union(found.not_advised.select("group_id")).distinct()
    assert tuples(said.where("group_id is not null")) == [(name,) for name in ("alone", "far", "near", "served")]
    assert tuples(found.rejected, "group_id", "code") == [
        ("connected", "out-of-scope"),
        ("empty", "no-members"),
        ("shared", "share-group"),
        ("streamed", "streams-group"),
        ("twice", "duplicate-member"),
    ]
    assert [row["kind"] for row in found.advice.where("group_id is null").collect()] == ["readings"]
    missing = found.not_advised.where("group_id is null").orderBy("of").collect()
    assert [(row["of"], row["code"]) for row in missing] == [(of, "not-known") for of in ("replicas", "size", "zones")]
    with pytest.raises(ConfigError, match="least_balance is 2"):
        advise(mixed(spark), least_balance=2)


def test_rows_in_any_order(spark: SparkSession) -> None:
    """The same advice, however rows come and wherever they are; ranks begin with 1."""
    fleet = given.zones_fleet(spark)
    shuffled = {
        name: getattr(fleet, name).repartition(5).orderBy(F.rand(7))
        for name in ("members", "subscriptions", "owned", "replicas", "brokers", "loads")
    }
    one, other = advise(fleet), advise(replace(fleet, **shuffled))
    rows = collected(one.advice)
    assert rows == collected(other.advice)
    assert sorted(json.loads(row)["rank"] for row in rows) == list(range(1, len(rows) + 1))
    assert "follower-fetching" in {json.loads(row)["kind"] for row in rows}


def test_the_job(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Writes the tables, prints the list, or one group; settings that cannot be are refused."""
    place, output = tmp_path / "fleet", tmp_path / "out"
    written_as_json(mixed(spark), place)
    call = ["--fleet", str(place), "--output", str(output), "--run-id", "a", "--restore-ms", "60000"]
    assert job.main([*call, "--fail-on", "rejected"]) == 1
    said = capsys.readouterr().out
    assert "Pauses:" in said
    assert "Take readings" in said
    assert "set  group.instance.id=" in said
    assert spark.read.parquet(str(output / "advice")).where("run_id = 'a'").count() > 0
    assert job.main(["--fleet", str(place), "--months", "-1"]) == 2
