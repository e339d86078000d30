"""The steps of `daily`: what fails is repeated with what comes after it, and nothing else is."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from jobs import daily
from spark_assign.tables.errors import ConfigError, SparkAssignError


class Steps:
    """Stands for the jobs: each writes its outcome, and ends with the exit code that `codes` has (default: 0)."""

    def __init__(self) -> None:
        self.called, self.codes = list[str](), dict[str, int]()

    def load(self, name: str) -> SimpleNamespace:
        """Returns the module of a job."""
        job = name.rpartition(".")[2]

        def main(words: list[str]) -> int:
            self.called.append(job)
            code = self.codes.get(job, 0)
            Path(words[words.index("--outcome") + 1]).write_text(json.dumps({"exit_code": code}))
            return code

        return SimpleNamespace(main=main)

    def run(self, folder: Path) -> tuple[dict[str, int], list[str]]:
        """Runs the steps. Returns their exit codes, and which were called."""
        self.called = []
        words = ["--clusters", "clusters.toml", "--records", "r", "--output", str(folder), "--run-id", "d"]
        (folder / "d" / "steps").mkdir(parents=True, exist_ok=True)
        codes = daily._run_steps(daily.main.parse(words), folder / "d")
        return codes, self.called


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """Jobs that only write their outcome."""
    found = Steps()
    monkeypatch.setattr(daily, "import_module", found.load)
    return found


ALL = ["snapshot", "plan", "diff", "history", "check", "advise"]


def test_a_rerun_repeats_what_failed(steps: Steps, tmp_path: Path) -> None:
    """An unreachable cluster or a failing history doesn't stop the other steps; alerts are no failure."""
    steps.codes = {"history": 3, "check": 1}
    assert steps.run(tmp_path) == ({name: steps.codes.get(name, 0) for name in ALL}, ALL)
    steps.codes = {}
    assert steps.run(tmp_path)[1] == ALL[3:]
    assert steps.run(tmp_path) == (dict.fromkeys(ALL, 0), [])
    steps.codes = {"snapshot": 3}
    (tmp_path / "d" / "steps" / "snapshot.json").write_text("half")  # killed while it was written
    assert steps.run(tmp_path)[1] == ALL


def test_without_a_plan_there_is_no_page(steps: Steps, tmp_path: Path) -> None:
    """The page of the day before stays."""
    steps.codes = {"plan": 2}
    with pytest.raises(SparkAssignError, match="The previous page is unchanged"):
        steps.run(tmp_path)
    assert steps.called == ALL[:2]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "No clusters given"),
        (["--no-snapshot"], "--no-snapshot needs --fleet-dir"),
        (["--sample", "--records", "r"], "--sample can't be used with"),
    ],
)
def test_wrong_usage(words: list[str], problem: str) -> None:
    """The message names the flag and the remedy."""
    with pytest.raises(ConfigError, match=problem):
        daily.check_usage(daily.main.parse([*words, "--output", "o"]))
