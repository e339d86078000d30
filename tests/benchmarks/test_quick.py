"""The benchmark command runs: a small fleet, once, no claim about speed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.bench import Result

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("figure", "goal", "verdict"),
    [
        (1.2, "<= 1.3", "met"),
        (1.4, "<= 1.3", "missed"),
        (11, ">= 10", "met"),
        (9, ">= 10", "missed"),
        (9, None, ""),
    ],
)
def test_a_goal_is_a_bound_with_a_direction(figure: float, goal: str | None, verdict: str) -> None:
    """Ratios of time have to stay below their goal, ratios of rates above."""
    assert Result("plan", "fleet", figure, "x", goal).verdict == verdict


@pytest.mark.spark
def test_a_quick_run_reports_its_figures(tmp_path: Path) -> None:
    """In a process of its own, as the command starts (and stops) its own session."""
    report = tmp_path / "figures.json"
    command = [
        sys.executable,
        "-m",
        "tests.benchmarks",
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
