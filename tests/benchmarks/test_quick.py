"""Every benchmark runs, and the command that runs them: small fleets, once, no claim about speed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession

from benchmarks.__main__ import BENCHMARKS
from benchmarks.bench import Bench, Result, Unmeasured, as_json, as_lines
from tests.kafka.fetched import UnavailableError, or_skipped

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("figure", "goal", "verdict"),
    [(1.2, "<= 1.3", "met"), (1.4, "<= 1.3", "missed"), (11, ">= 10", "met"), (9, ">= 10", "missed"), (9, None, "")],
)
def test_a_goal_is_a_bound_with_a_direction(figure: float, goal: str | None, verdict: str) -> None:
    """Ratios of time have to stay below their goal, ratios of rates above."""
    assert Result("plan", "fleet", figure, "x", goal).verdict == verdict


@pytest.mark.spark
@pytest.mark.parametrize("name", BENCHMARKS)
def test_each_benchmark_runs(name: str, spark: SparkSession, tmp_path: Path) -> None:
    """Each at a tiny size, in the session of the tests; without Maven, those against Kafka's classes are skipped."""
    bench = Bench(spark, tmp_path, repeats=1, quick=True)
    with or_skipped():
        BENCHMARKS[name](bench)
    assert bench.results


def test_one_that_fails_is_reported_and_the_others_go_on(tmp_path: Path) -> None:
    """A row with its name and the error, in the table and in the JSON; one that lacks a tool is not a failure."""

    def fails(_: Bench) -> None:
        raise ZeroDivisionError("no\n time")

    def lacks(_: Bench) -> None:
        raise UnavailableError("mvn is not on PATH")

    bench = Bench(Mock(), tmp_path, repeats=1, quick=True)
    for name, work in (("one", fails), ("two", lacks), ("three", lambda each: each.report(Result("m", "f", 1.0, "s")))):
        bench.run(name, work)
    assert bench.results == [
        Unmeasured("one", "ZeroDivisionError: no time"),
        Unmeasured("two", "needs Kafka's classes: mvn is not on PATH", "skipped"),
        Result("m", "f", 1.0, "s"),
    ]
    assert [row["verdict"] for row in json.loads(as_json(bench.results))] == ["failed", "skipped", ""]
    assert "failed" in as_lines(bench.results[:1])


@pytest.mark.spark
def test_a_quick_run_reports_its_figures(tmp_path: Path) -> None:
    """In a process of its own, as the command starts (and stops) its own session."""
    report = tmp_path / "figures.json"
    command = [
        sys.executable,
        "-m",
        "benchmarks",
        "--quick",
        "--json",
        str(report),
        "floor",
        "loop",
        "server-runs",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    figures = json.loads(report.read_text(encoding="utf-8"))
    measures = {figure["measure"] for figure in figures}
    assert measures >= {"range to Parquet", "range to noop", "range, plain loop to Parquet", "uniform, runs to noop"}
    assert all(figure["figure"] > 0 for figure in figures)
