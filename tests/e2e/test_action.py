"""action.yml: its shell steps run in a repository of their own, with the sample as the snapshot, and a stub of gh."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from spark_assign.sources.files.declared_changes import Mapped
from tests.docs.pages import block

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = ACTION["runs"]["steps"]
TOPIC = "kind: KafkaTopic\nmetadata: {name: orders.created}\nspec:\n  partitions: %s\n"
PYTHON = """#!/bin/bash
# A virtual environment whose pip writes down what it would install, and whose spark-assign is that of this clone.
[[ "$1 $2" == "-m venv" ]] || { printf '%s\\n' "$*" >>"$HOME/pip"; exit 0; }
mkdir -p "$3/bin" && cp "$0" "$3/bin/python"
printf '#!/bin/bash\\nPYTHONPATH=%s exec %s -m jobs._entry "$@"\\n' "$ROOT" "$REAL" >"$3/bin/spark-assign"
chmod +x "$3/bin/spark-assign"
"""
GH = """#!/bin/bash
printf '%s\\n' "$*" >>"$HOME/gh"
if [[ "$*" == *--paginate* ]]; then cat "$HOME/id"; exit; fi
cp comment.md "$HOME/comment"
exit "$(cat "$HOME/refuses")"
"""


def test_no_value_is_part_of_a_script() -> None:
    """A name with `$(…)` in it would be executed; environment variables are not."""
    assert [step["name"] for step in STEPS if "${{" in step.get("run", "")] == []
    assert all(step["shell"] == "bash" for step in STEPS if "run" in step)


def test_the_page() -> None:
    """Its workflow gives inputs that the action has; its mapping file is valid."""
    workflow = block("docs/pull-request.md", "on: pull_request")
    *_, uses = yaml.safe_load("\n".join(workflow))["jobs"]["kafka"]["steps"]
    assert uses["with"].keys() <= ACTION["inputs"].keys()
    mapping = tomllib.loads("\n".join(block("docs/pull-request.md", "[clusters]")))
    assert Mapped.model_validate(mapping).consumers["shop/notifications-email"].members_per_replica == 2


class Repository:
    """A clone of a repository in which a pull request changes `kafka/t.yaml`."""

    def __init__(self, folder: Path) -> None:
        self.home, self.clone = folder, folder / "clone of $(touch x)"
        self.write("bin/python", PYTHON)
        self.write("bin/gh", GH)
        for name, text in (("id", ""), ("refuses", "0"), ("gh", ""), ("summary", ""), ("out", "")):
            self.write(name, text)
        self.git("init", "-q", "--bare", str(folder / "origin"))
        self.git("clone", "-q", str(folder / "origin"), str(self.clone))
        self.write(f"{self.clone.name}/kafka/t.yaml", TOPIC % 12)
        self.git("-C", str(self.clone), "add", ".")
        self.git("-C", str(self.clone), "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "base")
        self.git("-C", str(self.clone), "push", "-q", "origin", "HEAD:main")
        self.base = self.git("-C", str(self.clone), "rev-parse", "HEAD")

    def write(self, name: str, text: str) -> None:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def git(self, *words: str) -> str:
        return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout.strip()

    def run(self, **inputs: str) -> int:
        """Runs the steps with these values as the runner does; returns the exit code of the first that fails."""
        values = {"FILES": "kafka", "FLEET": str(ROOT / "conf" / "sample-fleet"), "BASE": self.base, "FAIL_ON": ""}
        values |= {"ARTIFACT": "", "MAP": "", "TITLE": "x --> $(touch y)", "WHEEL": "w.whl", "ACTION": str(ROOT)}
        values |= {"WORKSPACE": str(self.clone), "WORK": str(self.home / "work"), "REPOSITORY": "o/r", "NUMBER": "7"}
        values |= inputs
        runner = {"GITHUB_STEP_SUMMARY": str(self.home / "summary"), "GITHUB_OUTPUT": str(self.home / "out")}
        runner |= {"HOME": str(self.home), "PATH": f"{self.home / 'bin'}:{os.environ['PATH']}"}
        runner |= {"ROOT": str(ROOT), "REAL": sys.executable, "SPARK_ASSIGN_ENGINE": "embedded"}
        (self.home / "out").write_text("")
        for step in (each for each in STEPS if "run" in each):
            given = {name: values[name] for name in step["env"] if name in values}
            given |= {"CODE": (self.home / "out").read_text().strip().removeprefix("code=")}
            words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
            done = subprocess.run(words, cwd=self.clone, env={**runner, **given}, capture_output=True, text=True)
            if done.returncode:
                print(done.stdout, done.stderr)
                return done.returncode
        return 0

    def __getitem__(self, name: str) -> str:
        return (self.home / name).read_text()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_a_pull_request_is_commented_once(repository: Repository) -> None:
    """The second push updates the comment; with `fail-on`, the check fails; the summary has the text, too."""
    repository.write(f"{repository.clone.name}/kafka/t.yaml", TOPIC % 24)
    assert repository.run() == 0
    marker, title, *_ = repository["comment"].splitlines()
    assert marker == "<!-- spark-assign x  touch y -->"
    assert title == "### Kafka: 3 groups rebalance, 18 of 120 partitions move"
    assert "`t.yaml:4`" in repository["comment"]
    assert "api --silent --method POST repos/o/r/issues/7/comments --field body=@comment.md" in repository["gh"]
    assert title in repository["summary"]
    assert repository["pip"].splitlines()[1].endswith("install --quiet --no-deps -- w.whl")
    repository.write("id", "42\n43\n")
    assert repository.run(FAIL_ON="rebalances") == 1
    assert repository["gh"].splitlines()[-1] == (
        "api --silent --method PATCH repos/o/r/issues/comments/42 --field body=@comment.md"
    )
    assert list(repository.clone.glob("[xy]")) == []
    assert repository.run(MAP="no/map.toml") == 2


def test_a_pull_request_that_is_not_compared(repository: Repository) -> None:
    """The comment has the message, as code; a fork, which can't comment, fails by the comparison only."""
    repository.write(f"{repository.clone.name}/kafka/t.yaml", "kind: KafkaTopic\n<img>: [}\n")
    repository.write("refuses", "1")
    assert repository.run() == 2
    assert repository["comment"].splitlines()[1] == "### Kafka: not compared"
    assert "    " in repository["comment"]
    assert "t.yaml:2: isn't valid YAML" in repository["comment"]
    (repository.clone / "kafka" / "t.yaml").unlink()
    (repository.clone / "kafka").rmdir()
    (repository.clone / "kafka").symlink_to("/etc")
    assert repository.run(NUMBER="") == 2
