"""Every job that reads a fleet, a plan, or a history runs with `--sample`, without further data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import jsonschema
import pytest
from pyspark.sql import SparkSession

from spark_assign.report.listed_groups import details_text
from tests.unit.test_printed import KEYS, SCHEMA

pytestmark = [pytest.mark.spark]


@pytest.mark.once
@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("advise", "… and 16 more that match (raise --top)"),
        ("advise size --assignors range,sticky --keda --capacity *=300", "# … and 16 more that match (raise --top)"),
        ("advise membership", "… and 16 more that match (raise --top)"),
        ("advise zones", "… and 18 more that match (raise --top)"),
        ("advise unused", "… and 17 more that match (raise --top)"),
        ("migrate", "… and 18 more that match (raise --top)"),
        ("plan", "… and 18 more that match (raise --top)"),
    ],
)
def test_no_group_is_left_out_without_a_word(
    words: str, line: str, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--details` says how many groups match beyond `--top`."""
    job, *more = words.split()
    assert import_module(f"jobs.{job}").main([*more, "--sample", "--details", "*", "--top", "1"]) == 0
    assert line in capsys.readouterr().out.splitlines()


@pytest.mark.once
def test_the_text_of_details(spark: SparkSession) -> None:
    """A group counts once. `--top 0` isn't taken for no match."""
    groups = spark.createDataFrame([("c", "a"), ("c", "a"), ("c", "b"), ("c", None)], "cluster string, group_id string")
    assert details_text("a: fine", ["*"], groups, 2) == "a: fine"
    assert details_text("a: fine", ["[ab]"], groups, 1) == "a: fine\n\n… and 1 more that matches (raise --top)"
    assert details_text("", ["[ab]"], groups, 0, "# ") == "# … and 2 more that match (raise --top)"
    assert details_text(None, ["c"], groups, 2).startswith("No group matches c. Did you mean a?")


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["check", "--max-rebalances-per-day", "3"], "alerts in sample"),
        (["diff", "--loads"], "Hottest partitions"),
        (["simulate"], "partition-seconds"),
        (["replicas", "place"], "18 partitions of 2 topics placed, 0 requests rejected"),
        (["replicas", "reassign"], "No change given, so a broker is replaced: --remove 3 --add 4=use1-az4"),
        (["replicas", "check"], "shop-prod"),
        (["report", "--output-file", "report.html"], "report.html"),
        (["plan"], "1 share group planned"),
        (
            ["plan", "--details", "encoders", "--details", "orders", "--details", "prod"],
            "active tasks of subtopology 1: ",
        ),
        (["advise"], ""),
        (["compare"], "What if"),
        (["migrate"], ""),
        (["history"], ""),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else None,
)
def test_a_job_with_the_sample(
    words: Sequence[str],
    printed: str,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It succeeds. With `-o json`, it prints one document of the published schema, which has its summary and rows."""
    monkeypatch.chdir(tmp_path)
    job, *more = words
    assert import_module(f"jobs.{job}").main([*more, "--sample", "-o", "json"]) == 0
    out, hints = capsys.readouterr()
    document = json.loads(out)
    jsonschema.validate(document, SCHEMA)
    assert printed in document["summary"] + hints
    assert job == "report" or any(document["tables"].values())
    assert set(document["tables"]) <= KEYS
