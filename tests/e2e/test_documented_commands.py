"""The documented commands with options of the launcher: each makes the spark-submit line that it should."""

from __future__ import annotations

import pytest

from tests.docs import homes
from tests.docs.pages import Step
from tests.e2e.conftest import ROOT, Submit

LAUNCHED = list(homes.steps_at(homes.LAUNCHER))
SET_UP = [step for step in LAUNCHED if step.words[1] == "--set-up"]


@pytest.mark.parametrize("step", SET_UP, ids=str)
def test_the_environment_is_set_up(submit: Submit, step: Step) -> None:
    """As it stands; here it is there already."""
    done = submit(*step.words[1:])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("step", [step for step in LAUNCHED if step not in SET_UP], ids=str)
def test_the_line_is_made(submit: Submit, step: Step) -> None:
    """With --dry-run, as their clusters are not here: the environment's settings, and all that comes behind the job."""
    words = step.words[1:]
    done = submit("--dry-run", *[word for word in words if word != "--dry-run"])
    assert done.returncode == 0, done.stderr
    line = done.stdout.split()
    assert f"{ROOT}/conf/spark/{words[words.index('--env') + 1]}.conf" in line
    assert set(words[words.index("plan") + 1 :]) <= set(line)
