"""Every benchmark runs, and the command that runs them: small fleets, once, no claim about speed."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession

from benchmarks.__main__ import BENCHMARKS
from benchmarks.bench import Bench, Result, Unmeasured, as_lines
from benchmarks.figures import Figures
from tests.kafka.fetched import UnavailableError, or_skipped
from tests.runner import tools
from tests.runner.tools import JAVA

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
    assert "failed" in as_lines(bench.results[:1])


SPEED = Result("range", "1 x 2", 1.234, "x", ">= 1", "5 s")
CONDITIONS = {"commit": "abc", "cores": 2, "memory_gib": 8, "engine": "Spark 4", "repeats": 1, "quick": False}


def test_a_run_that_is_resumed_keeps_its_figures(tmp_path: Path) -> None:
    """What failed or was skipped is measured again; figures of another commit are never mixed in."""
    figures, path = Figures(CONDITIONS), tmp_path / "figures.json"
    figures.add("floor", 61.04, [SPEED])
    figures.add("grid", 2, [SPEED, Unmeasured("grid", "no Maven", "skipped")])
    figures.write(path)
    resumed = Figures.resume(path, CONDITIONS)
    assert resumed == figures
    assert resumed.benchmarks["floor"]["seconds"] == 61.0
    assert [resumed.lacks(name) for name in ("floor", "grid", "loop")] == [False, True, True]
    with pytest.raises(ValueError, match=r"figures.json is of another commit: abc"):
        Figures.resume(path, CONDITIONS | {"commit": "def"})


def test_the_page_has_the_figures_between_its_markers(tmp_path: Path) -> None:
    """Figures with one unit and goal share a line; many are summarized."""
    figures, page = Figures(CONDITIONS), tmp_path / "page.md"
    figures.add("grid", 60, [replace(SPEED, figure=0.5), replace(SPEED, measure="uniform"), Unmeasured("grid", "a|b")])
    figures.add("loop", 60, [replace(SPEED, measure=f"plan {at}", figure=at, goal="<= 7") for at in range(9)])
    figures.add("floor", 6, [replace(SPEED, on_page=False), *(replace(SPEED, fleet=each) for each in ("2", "3"))])
    page.write_text("before\n<!-- figures -->\nold\n<!-- end of figures -->\nafter\n")
    figures.write_page(page, ["floor", "loop", "grid"])
    lines = page.read_text().splitlines()
    assert "commit abc, 2 cores, 8 GiB of memory, Spark 4, once, 2 minutes: 12 goals met, 2 missed." in lines[2]
    assert [line for line in lines if line.startswith("| ")][2:] == [
        "| `floor` | range | 2; 3 | 1.23; 1.23 x | ≥ 1: met | |",
        "| `loop` | 9 figures, from plan 0 to plan 8 | 1 x 2 | 0 to 8, median 4 x | ≤ 7: missed by 1 of 9 | |",
        "| `grid` | range, uniform | 1 x 2 | 0.50, 1.23 x | ≥ 1: missed by 1 of 2 | |",
        "| | | | failed | | a,b |",
    ]
    assert (lines[0], lines[-1]) == ("before", "after")
    (tmp_path / "empty.md").touch()
    with pytest.raises(ValueError, match="doesn't have <!-- figures -->"):
        figures.write_page(tmp_path / "empty.md", [])


@pytest.mark.spark
def test_a_quick_run_reports_its_figures(tmp_path: Path) -> None:
    """In a process of its own, as the command starts (and stops) its own session."""
    if JAVA.program is None:
        tools.lacks(JAVA)
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
    benchmarks = json.loads(report.read_text(encoding="utf-8"))["benchmarks"]
    assert list(benchmarks) == ["floor", "loop", "server-runs"]
    figures = [figure for benchmark in benchmarks.values() for figure in benchmark["results"]]
    measures = {figure["measure"] for figure in figures}
    assert measures >= {"range to Parquet", "range to noop", "range, plain loop to Parquet", "uniform, runs to noop"}
    assert all(figure["figure"] > 0 for figure in figures)
