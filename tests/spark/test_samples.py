"""Every job that reads a fleet, a plan, or a history runs with `--sample`, without further data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import jsonschema
import pytest
from pyspark.sql import SparkSession

from tests.unit.test_printed import KEYS, SCHEMA

pytestmark = [pytest.mark.spark]


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
