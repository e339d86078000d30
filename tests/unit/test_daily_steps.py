"""The steps of `daily`: what fails is repeated with what reads its result, and nothing else is."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import pytest

from jobs import daily
from spark_assign.cli.job import Outcome
from spark_assign.cli.steps import FailedStepError, Step, StepOutcome, has_result, run_steps, without_result
from spark_assign.tables.errors import ConfigError, SparkAssignError
from spark_assign.tables.stored_plan import has_only_connect
from tests.cases import cases

CLUSTERS = {"eu": {"bootstrap_server": "eu:9092"}, "us/1": {"bootstrap_server": "us:9092", "command_config": "f"}}


class Steps:
    """Stands for the jobs: each writes its outcome, and ends with the exit code that `codes` has (default: 0)."""

    def __init__(self) -> None:
        self.called, self.codes, self.words = list[str](), dict[str, int](), dict[str, Sequence[str]]()
        self.down = ""
        self.rows = dict[str, int]()

    def load(self, name: str) -> SimpleNamespace:
        """Returns the module of a job."""
        job = name.rpartition(".")[2]

        def main(words: Sequence[str]) -> int:
            file = Path(words[words.index("--outcome") + 1])
            name = unquote(file.stem)
            self.called.append(name)
            self.words[name] = words
            if "--archive" in words:
                archive = Path(words[words.index("--archive") + 1])
                archive.mkdir(parents=True, exist_ok=True)
                (archive / "part.parquet").touch()
            outcome = Outcome(job)
            outcome.rows = self.rows
            outcome.ended(self.codes.get(name, 0))
            file.write_text(outcome.as_json())
            time.sleep(0.002)  # longer than the resolution of the times in an outcome
            return self.codes.get(name, 0)

        return SimpleNamespace(main=main, clusters_of=lambda _: {**CLUSTERS, "connect": {"connect_url": ["c"]}})

    def run(
        self, folder: Path, *words: str, outcomes: dict[str, StepOutcome] | None = None
    ) -> tuple[dict[str, int], list[str]]:
        """Runs the steps. Returns their exit codes, and which were called."""
        self.called = []
        words = ("--clusters", "clusters.toml", "--output", str(folder), "--run-id", "d", *words)
        options = daily.main.parse(words)
        outcomes = {} if outcomes is None else outcomes
        run = partial(daily._run, options)
        run_steps(daily._steps(options, outcomes), folder / "d" / "steps", 1, run, outcomes)
        return {name: outcome["exit_code"] for name, outcome in outcomes.items()}, self.called


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """Jobs that only write their outcome."""
    found = Steps()
    monkeypatch.setattr(daily, "import_module", found.load)
    taken = datetime.now(UTC) + timedelta(hours=1)
    monkeypatch.setattr(daily, "last_taken", lambda _, __, cluster: None if cluster == found.down else taken)
    return found


ALL = ["snapshot", "records of eu", "records of us/1", "plan", "diff", "history", "check", "advise"]
WITH_RECORDS = [name for name in ALL if not name.startswith("records")]


def test_a_rerun_repeats_what_failed(steps: Steps, tmp_path: Path) -> None:
    """And what reads its result. A failing step doesn't stop the others; alerts are no failure."""
    steps.codes = {"history": 3, "check": 1}
    records = ("--records", "r")
    assert steps.run(tmp_path, *records) == ({name: steps.codes.get(name, 0) for name in WITH_RECORDS}, WITH_RECORDS)
    steps.codes = {}
    assert steps.run(tmp_path, *records)[1] == ["history", "check"]
    assert steps.run(tmp_path, *records) == (dict.fromkeys(WITH_RECORDS, 0), [])
    steps.codes = {"snapshot": 3}
    (tmp_path / "d" / "steps" / "snapshot.json").write_text("half")  # killed while it was written
    assert steps.run(tmp_path, *records)[1] == WITH_RECORDS


@cases("code kind", (2, SparkAssignError), (3, FailedStepError))
def test_a_required_step_that_fails(code: int, kind: type[Exception], steps: Steps, tmp_path: Path) -> None:
    """Daily ends as the step does: a full disk isn't wrong input."""
    steps.codes = {"plan": code}
    with pytest.raises(kind, match=f"plan ended with exit code {code}. The previous page is unchanged"):
        steps.run(tmp_path)
    assert not issubclass(FailedStepError, SparkAssignError)


def test_a_plan_of_connect_clusters_only(steps: Steps, tmp_path: Path) -> None:
    """What reads groups is skipped, and the page says so; it runs after a Kafka cluster could be read."""
    steps.rows = {"metrics": 0, "rejected": 0, "connect_metrics": 1}
    outcomes: dict[str, StepOutcome] = {}
    codes, called = steps.run(tmp_path, "--records", "r", outcomes=outcomes)
    assert (set(codes.values()), called) == ({0}, ["snapshot", "plan", "check"])
    assert not {"--drift", "--history"} & {*steps.words["check"]}
    why = "was skipped: only Connect clusters were planned."
    assert without_result(outcomes) == [f"The step {name} {why}" for name in ("diff", "history", "advise")]
    assert [name for name in outcomes if has_result(outcomes, name)] == called
    steps.rows["assignment_slices"] = 1
    (tmp_path / "d" / "steps" / "plan.json").unlink()
    assert steps.run(tmp_path, "--records", "r")[1] == ["plan", "diff", "history", "check", "advise"]


@cases(
    "rows is_only_connect",
    ({"metrics": 0, "rejected": 0, "connect_metrics": 1}, True),
    ({"metrics": 1, "rejected": 0, "connect_metrics": 1}, False),
    ({"metrics": 0, "rejected": 1, "connect_metrics": 1}, False),
    ({"metrics": 0, "rejected": 0, "moves": 0, "connect_metrics": 1}, False),
    ({"metrics": 0, "rejected": 0, "share_metrics": 0, "connect_metrics": 1}, False),
    ({"metrics": 0, "rejected": 0}, False),
    ({}, False),
)
def test_which_plans_have_only_connect_clusters(rows: dict[str, int], is_only_connect: bool) -> None:
    """Not one of groups whose table assignment_slices wasn't stored."""
    assert has_only_connect(rows) == is_only_connect


def test_the_history_is_read_from_the_clusters(steps: Steps, tmp_path: Path) -> None:
    """Each into its own folder. A cluster that can't be read is repeated, and so is what needs the records."""
    steps.codes = {"records of eu": 3}
    codes, called = steps.run(tmp_path, "--no-history")
    assert [*codes] == called == [name for name in WITH_RECORDS if name != "history"]
    codes, called = steps.run(tmp_path)
    assert codes == {name: steps.codes.get(name, 0) for name in ALL}
    assert called == ["records of eu", "records of us/1", "history", "check"]
    archives = [f"{tmp_path}/records/cluster={name}" for name in ("eu", "us%2F1")]
    words = ["--bootstrap-server", "us:9092", "--command-config", "f", "--cluster-name", "us/1"]
    assert steps.words["records of us/1"][:9] == [*words, "--follow", "--archive", archives[1]]
    assert steps.words["history"][:4] == ["--records", archives[0], "--records", archives[1]]
    steps.codes = {}
    assert steps.run(tmp_path)[1] == ["records of eu", "history", "check"]
    steps.codes, steps.down = {"snapshot": 3}, "eu"  # its records are as old as its snapshot
    (tmp_path / "d" / "steps" / "snapshot.json").unlink()
    assert steps.run(tmp_path)[1] == [name for name in ALL if not name.startswith("records")]
    steps.codes, steps.down = {}, ""
    assert steps.run(tmp_path)[1] == [name for name in ALL if not name.startswith("records")]
    assert steps.run(tmp_path, "--no-snapshot")[1] == []  # reads what the folder has


def test_thresholds_of_streams_groups(steps: Steps, tmp_path: Path) -> None:
    """Go to `check`, and what they need to `plan`, and to `advise`."""
    limits = ["--max-moved-without-state", "0", "--max-restore-time", "600000ms"]
    steps.run(tmp_path, "--no-history", *limits, "--restore-bytes-per-second", "1e8")
    for job in ("plan", "advise"):
        assert "--restore-bytes-per-second 100000000.0" in " ".join(steps.words[job])
    assert " ".join(limits) in " ".join(steps.words["check"])


AT = "2026-11-27T00:00:00+00:00"


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "3", "{}", '{"exit_code": 0}', "[" * 100_000),
        f'{{"started_at": "{AT}", "finished_at": "{AT}", "error": null}}',
        '{"started_at": "9", "finished_at": "9", "error": null, "exit_code": 0}',
    ],
)
def test_a_damaged_outcome_is_none(steps: Steps, tmp_path: Path, text: str) -> None:
    """Its step runs again."""
    steps.run(tmp_path)
    (tmp_path / "d" / "steps" / "check.json").write_text(text)
    assert steps.run(tmp_path)[1] == ["check"]
    (tmp_path / "d" / "steps" / "check.json").unlink()
    os.mkfifo(tmp_path / "d" / "steps" / "check.json")
    assert steps.run(tmp_path)[1] == ["check"]


def test_an_outcome_that_is_no_file(steps: Steps, tmp_path: Path) -> None:
    """A pipe is replaced, and for a folder, the error names it. Without an outcome, a step has its start."""
    steps.run(tmp_path)
    file = tmp_path / "d" / "steps" / "check.json"
    file.unlink()
    os.mkfifo(file)
    assert steps.run(tmp_path)[1] == ["check"]
    file.unlink()
    file.mkdir()
    with pytest.raises(SparkAssignError, match=r"check\.json can't be replaced"):
        steps.run(tmp_path)
    found: dict[str, StepOutcome] = {}
    run_steps([[Step("snapshot", [])]], tmp_path / "other", 1, lambda *_: 0, found)
    assert datetime.fromisoformat(found["snapshot"]["started_at"]).tzinfo


def test_without_a_plan_there_is_no_page(steps: Steps, tmp_path: Path) -> None:
    """The page of the day before stays."""
    steps.codes = {"plan": 2}
    with pytest.raises(SparkAssignError, match="The previous page is unchanged"):
        steps.run(tmp_path)
    assert steps.called == ALL[:4]


@cases(
    "words problem",
    ([], "Use --clusters, --no-snapshot, or --sample."),
    (["--no-snapshot"], "--no-snapshot needs --fleet-dir"),
    (["--sample", "--records", "r"], "--records can't be used with --sample."),
    (["--clusters", "c", "--records", "r", "--no-history"], "--records can't be used with --no-history."),
    (["--sample", "--max-restore-time", "10m"], "--max-restore-time needs --restore-bytes-per-second"),
)
def test_wrong_usage(words: list[str], problem: str) -> None:
    """The message names the flag and the remedy."""
    with pytest.raises(ConfigError, match=problem):
        daily.main.check(daily.main.parse([*words, "--output", "o"]))


@cases(
    "folder rows",
    ("connect_cluster=files", [("files (Connect)", False)]),
    ("connect_cluster=other", [("files (Connect)", True), ("other (Connect)", False)]),
)
def test_a_cluster_with_connect_only(tmp_path: Path, folder: str, rows: list[tuple[str, bool]]) -> None:
    """It is as fresh as the snapshot of its Connect cluster, and stale without one."""
    (tmp_path / "clusters.toml").write_text('[clusters.shop]\nconnect_url = ["files=http://a:1"]\n')
    (tmp_path / "fleet" / folder).mkdir(parents=True)
    summary = f'{{"cluster": "files", "taken_at": "{datetime.now(UTC).isoformat()}"}}'
    (tmp_path / "fleet" / folder / "snapshot.json").write_text(summary)
    options = daily.main.parse(["--clusters", str(tmp_path / "clusters.toml"), "--output", str(tmp_path)])
    assert [(row["cluster"], row["stale"]) for row in daily._clusters(options, {})] == rows


@cases(
    "name is_folder problem",
    ("d/steps", False, "isn't a folder"),
    ("d/owners", False, "isn't a folder"),
    ("d", False, "isn't a folder"),
    ("d/outcome.json", True, "Can't write .*outcome.json: Is a directory"),
)
def test_what_is_in_the_place_of_an_output(
    name: str,
    is_folder: bool,
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is wrong input, whose message names it."""
    empty = SimpleNamespace(alerts=[], deploys=[], advice=[], clusters=[], parts=[], tables=dict)
    fakes = {"_collect": (empty, {}), "_write_pages": None, "_write_metrics": None, "spark_session": None}
    for function, result in {**fakes, "read_owners": [], "run_steps": None}.items():
        monkeypatch.setattr(daily, function, lambda *_, result=result: result)
    place = tmp_path / name
    (place if is_folder else place.parent).mkdir(parents=True, exist_ok=True)
    if not is_folder:
        place.touch()
    assert daily.main(["--sample", "--output", str(tmp_path), "--run-id", "d"]) == 2
    assert re.search(problem, caplog.text)
    assert str(place) in caplog.text
