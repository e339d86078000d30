"""What every result can do: be stored, read back, printed, and made a page of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import spark_assign
from spark_assign import Comparison, Drift, Migration, Plan, SourceError, Upgrade
from spark_assign.stores.result import Result
from tests.spark.fleets import fleet

GROUPS = ("g", "h")


@pytest.fixture(scope="module")
def results(spark: SparkSession) -> dict[str, Result]:
    """Some results of a fleet, by name of their class."""
    subscribed = dict.fromkeys(GROUPS, dict.fromkeys("xy", "t"))
    given = fleet(spark, subscribed, topics={"t": 6}, owned={("g", "x", "t"): range(6)})
    left = given.with_members_left(group_id="g", count=1)
    found: list[Result] = [
        spark_assign.plan(given, "range"),
        spark_assign.compare(given, ["range", "sticky"]),
        spark_assign.find_drift(given, left),
        spark_assign.plan_migration(given),
        spark_assign.plan_upgrade(given.with_leader_client("Java", "2.8"), "3.9"),
    ]
    return {type(each).__name__: each for each in found}


@pytest.mark.parametrize("kind", [Plan, Comparison, Drift, Migration, Upgrade])
def test_a_result_that_is_read_is_the_result_that_was_written(
    results: dict[str, Any],
    spark: SparkSession,
    kind: type[Result],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The same tables, the same text, and the same page."""
    result = results[kind.__name__]
    manifest = result.write(str(tmp_path / "run"), run_id="r")
    stored = kind.read(spark, str(tmp_path / "run"))
    assert list(stored.tables) == list(manifest.rows) == list(result.tables) == list(kind.schemas)
    for name, table in stored.tables.items():
        assert sorted(map(str, table.collect())) == sorted(map(str, result.tables[name].collect())), name
    texts = []
    for each in (result, stored):
        each.show(top=3)
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != ""
    pages = [result.to_html(tmp_path / "page.html"), stored.to_html()]
    assert pages[0] == pages[1] == (tmp_path / "page.html").read_text(encoding="utf-8")
    assert pages[0].startswith("<!DOCTYPE html>")


def test_a_result_that_is_read_computes_nothing(results: dict[str, Any], spark: SparkSession, tmp_path: Path) -> None:
    """Another table is an error that names the stored ones; so is a run of another result."""
    results["Plan"].write(str(tmp_path), tables=["assignment_slices"])
    stored = Plan.read(spark, str(tmp_path))
    assert set(stored.tables) == {"assignment_slices", "metrics", "rejected"}
    with pytest.raises(SourceError, match="only the stored tables assignment_slices, metrics, rejected"):
        _ = stored.moves
    with pytest.raises(SourceError, match="Name a run with these tables"):
        Drift.read(spark, str(tmp_path))
