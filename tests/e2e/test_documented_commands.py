"""The documented commands with options of the launcher: each makes the spark-submit line that it should."""

from __future__ import annotations

import shlex

import pytest

from tests.docs import homes
from tests.docs.pages import Step
from tests.e2e.conftest import ROOT, Submit

LAUNCHED = list(homes.steps_at(homes.LAUNCHER))
IN_IMAGE = "local:///opt/spark_assign/jobs"
"""In cluster mode on Kubernetes: see conf/deploy/Dockerfile."""
JOBS = {file.stem for file in (ROOT / "jobs").glob("*.py")}
SET_UP = [step for step in LAUNCHED if step.words[1] == "--set-up"]


@pytest.mark.parametrize("step", SET_UP, ids=str)
def test_the_environment_is_set_up(submit: Submit, step: Step) -> None:
    """As it stands; here it is there already."""
    done = submit(*step.words[1:])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("step", [step for step in LAUNCHED if step not in SET_UP], ids=str)
def test_the_line_is_made(submit: Submit, step: Step) -> None:
    """With --dry-run, as their clusters are not here: the settings, the job's file, behind it the job's words alone."""
    words = step.words[1:]
    done = submit("--dry-run", *[word for word in words if word != "--dry-run"])
    assert done.returncode == 0, done.stderr
    line = shlex.split(done.stdout)
    at = next(n for n, word in enumerate(words) if word in JOBS)
    files = (f"{ROOT}/jobs/{words[at]}.py", f"{IN_IMAGE}/{words[at]}.py")
    job = next(n for n, word in enumerate(line) if word in files)
    ours, given = line[:job], line[job + 1 :]
    assert given == words[at + 1 :]
    before = iter(word for word in words[:at] if word != "--dry-run")
    for option in before:
        value = next(before)
        wanted = f"--properties-file {ROOT}/conf/spark/{value}.conf" if option == "--env" else f"{option} {value}"
        assert f" {wanted} " in f" {' '.join(ours)} ", option
