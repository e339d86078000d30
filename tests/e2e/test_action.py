"""action.yml: act, a runner of workflows, runs the workflow of docs/pull-request.md in a repository of its own.

The sample is the snapshot. The actions that set up Python and download the artifact, pip, and gh are stubs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from spark_assign.sources.files.declared_changes import Mapped
from tests.docs.pages import block

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = ACTION["runs"]["steps"]
FOLDER = "kafka '\"; $(touch z)"
TOPIC = "kind: KafkaTopic\nmetadata: {name: orders.created}\nspec:\n  partitions: %s\n"
PYTHON = """#!/bin/bash
# A virtual environment whose pip writes down what it would install, and whose spark-assign is that of this clone.
[[ "$*" == "-I -m venv "* ]] || { printf '%s\\n' "$*" >>"$HOME/pip"; exit 0; }
mkdir -p "$4/bin" && cp "$0" "$4/bin/python"
printf '#!/bin/bash\\nPYTHONPATH=%s exec %s -m jobs._entry "$@"\\n' "$ROOT" "$REAL" >"$4/bin/spark-assign"
chmod +x "$4/bin/spark-assign"
"""
GH = """#!/bin/bash
printf '%s\\n' "$*" >>"$HOME/gh"
if [[ "$*" == *--paginate* ]]; then cat "$HOME/id"; exit; fi
cp comment.md "$HOME/comment"
exit "$(cat "$HOME/refuses")"
"""
STUB = """name: stub
description: An action that copies the sample to its path.
inputs: {name: {}, path: {}, run-id: {}, github-token: {}, python-version: {}}
runs:
  using: composite
  steps:
    - {shell: bash, env: {TO: "${{ inputs.path }}"}, run: '[[ -z $TO ]] || cp -r "$ROOT/conf/sample-fleet" "$TO"'}
"""
STUBS = ("actions/setup-python@v5", "actions/download-artifact@v4")


def test_no_value_is_part_of_a_script() -> None:
    """A name with `$(…)` in it would be executed; environment variables are not."""
    assert [step["name"] for step in STEPS if "${{" in step.get("run", "")] == []
    assert all(step["shell"] == "bash" for step in STEPS if "run" in step)
    runs = "\n".join(step.get("run", "") for step in STEPS)
    assert re.findall(r"""python"? (-\S+)""", runs) == ["-I"] * 3, "no module of the pull request"
    assert runs.count("::stop-commands::%s") == runs.count("cat messages.txt") == 1, "no command of the pull request"
    assert '--end-of-options origin "$BASE"' in runs, "no option of git"
    assert runs.index('rm -rf "$WORK/snapshot"') < runs.index('"$WORK/snapshot/$FLEET"'), "none of an earlier use"
    assert "cut -c 1-1000 messages.txt" in runs, "GitHub refuses a long comment, and the old one would stay"


def test_the_page() -> None:
    """Its workflow gives inputs that the action has; its mapping file is valid."""
    assert workflow()["jobs"]["kafka"]["steps"][-1]["with"].keys() <= ACTION["inputs"].keys()
    mapping = tomllib.loads("\n".join(block("docs/pull-request.md", "[clusters]")))
    assert Mapped.model_validate(mapping).consumers["shop/notifications-email"].members_per_replica == 2


def workflow() -> dict[str, Any]:
    """The workflow of the page. All values are texts, so that the key `on` stays one."""
    found: dict[str, Any] = yaml.load("\n".join(block("docs/pull-request.md", "on: pull_request")), yaml.BaseLoader)
    return found


class Repository:
    """A clone of a repository in which a pull request changes a file of `FOLDER`."""

    def __init__(self, folder: Path) -> None:
        self.home, self.clone = folder, folder / "clone"
        for name, text in {"id": "", "refuses": "0", "gh": "", "bin/python": PYTHON, "bin/gh": GH}.items():
            self.write(name, text)
        for name in STUBS:
            self.write(f"{name}/action.yml", STUB)
        shutil.copytree(ROOT / "conf" / "requirements", folder / "action" / "conf" / "requirements")
        shutil.copy(ROOT / "action.yml", folder / "action")
        self.git("init", "-q", "--bare", str(folder / "origin"))
        self.git("clone", "-q", str(folder / "origin"), str(self.clone))
        self.change(TOPIC % 12)
        self.commit("base")
        self.git("-C", str(self.clone), "push", "-q", "origin", "HEAD:main")
        base = self.git("-C", str(self.clone), "rev-parse", "HEAD")
        self.write("event.json", json.dumps({"pull_request": {"number": 7, "base": {"sha": base}}}))

    def write(self, name: str, text: str) -> None:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def change(self, text: str) -> None:
        self.write(f"clone/{FOLDER}/t.yaml", text)

    def commit(self, message: str) -> None:
        self.git("-C", str(self.clone), "add", ".")
        self.git("-C", str(self.clone), "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", message)

    def git(self, *words: str) -> str:
        return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout.strip()

    def run(self, **inputs: str) -> tuple[int, str]:
        """Runs the workflow with these inputs of the action; returns the exit code of the first step that fails, and
        what the runner prints."""
        text = workflow()
        text["jobs"]["kafka"]["steps"][-1]["with"] |= {"files": FOLDER, "fail-on": "", "wheel": "w.whl", **inputs}
        self.write("clone/.github/workflows/kafka.yaml", yaml.safe_dump(text))
        of_runner = {"ROOT": str(ROOT), "REAL": sys.executable, "SPARK_ASSIGN_ENGINE": "embedded"}
        of_runner |= {"HOME": str(self.home), "PATH": f"{self.home / 'bin'}:{os.environ['PATH']}"}
        actions = {"spark-assign/spark_assign@main": self.home / "action"}
        actions |= {name: self.home / name for name in STUBS}
        words = [str(Path(sys.executable).with_name("act")), "pull_request", f"--eventpath={self.home / 'event.json'}"]
        words += ["--no-cache-server", "--platform=ubuntu-24.04=-self-hosted"]
        words += ["--secret=GITHUB_TOKEN=a-token", "--env=GITHUB_REPOSITORY=o/r"]
        words += [f"--local-repository={name}={path}" for name, path in actions.items()]
        words += [f"--env={name}={value}" for name, value in of_runner.items()]
        cache = {"XDG_CACHE_HOME": str(self.home / "cache$(x)&")}  # has the workspace, and the action
        done = subprocess.run(words, cwd=self.clone, env=of_runner | cache, capture_output=True, text=True, timeout=600)
        print(done.stdout, done.stderr)
        codes = [int(code) for code in re.findall(r"exit status (\d+)", done.stdout)]
        assert bool(codes) == bool(done.returncode)
        return codes[0] if codes else 0, done.stdout

    def __getitem__(self, name: str) -> str:
        return (self.home / name).read_text()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_a_pull_request_is_commented_once(repository: Repository) -> None:
    """The second push updates the comment; with `fail-on`, the check fails; the summary has the text, too."""
    repository.change(TOPIC % 24)
    code, log = repository.run(title="x --> $(touch y)")
    assert code == 0
    marker, title, *_ = repository["comment"].splitlines()
    assert marker == "<!-- spark-assign x  touch y -->"
    assert title == "### Kafka: 3 groups rebalance, 18 of 120 partitions move"
    assert "`t.yaml:4`" in repository["comment"]
    assert "api --silent --method POST repos/o/r/issues/7/comments --field body=@comment.md" in repository["gh"]
    assert f"Summary - {title}" in log
    assert repository["pip"].splitlines()[1].endswith("install --quiet --no-deps -- w.whl")
    repository.write("id", "42\n43\n")
    assert repository.run(**{"fail-on": "rebalances"})[0] == 1
    assert repository["gh"].splitlines()[-1] == (
        "api --silent --method PATCH repos/o/r/issues/comments/42 --field body=@comment.md"
    )
    code, log = repository.run(**{"changes-map": "no/map.toml"})
    assert (code, "doesn't have the file of the input changes-map: no/map.toml" in log) == (2, True)
    assert list(repository.home.rglob("[xyz]")) == []


def test_files_that_no_version_has(repository: Repository) -> None:
    """A wrong name isn't a comparison of nothing with nothing, which would succeed forever."""
    for files, message in {
        "k/*.yaml": r"No version has the file or folder of the input files: k/\*.yaml",
        "../x": "The input files, or a link of that name, leads out of the repository: ../x",
    }.items():
        code, log = repository.run(files=files)
        assert (code, message in log) == (2, True)


def test_the_base_is_a_name(repository: Repository) -> None:
    """A branch or a tag is fetched; without a pull request, there is no default, and nothing is compared. The old files
    are there, whatever attributes they have."""
    repository.write("clone/.gitattributes", "* export-ignore\n")
    repository.write(f"clone/{FOLDER}/map.toml", "[clusters]\n")
    repository.commit("attributes and a mapping file that is one of the files")
    git = ("-C", str(repository.clone))
    repository.git(*git, "push", "-q", "origin", "HEAD:old", "HEAD:refs/tags/v1")
    repository.change(TOPIC % 24)
    for name in ("old", "v1"):
        assert repository.run(**{"base": name, "changes-map": f"{FOLDER}/map.toml"})[0] == 0
        assert "| 12 | 24 |" in repository["comment"]
    for base, message in {
        "": "name what to compare with",
        "gone": "The commit of the input base can't be fe",
        "+main:refs/heads/evil": "isn't the name of a commit, a branch, or a tag",
        "refs/heads/*": "isn't the name of a commit, a branch, or a tag",
    }.items():
        code, log = repository.run(base=base)
        if message not in log:  # on a busy machine, the runner can lose what a step prints that ends at once
            code, log = repository.run(base=base)
        assert (code, message in log) == (2, True)
    assert "evil" not in repository.git(*git, "branch")


def test_a_pull_request_that_is_not_compared(repository: Repository) -> None:
    """The comment has the message, as code; a fork, which can't comment, fails by the comparison only."""
    repository.change("kind: KafkaTopic\n<img>: [}\n")
    repository.write("refuses", "1")
    code, log = repository.run()
    assert (code, "The comment can't be written: see the error above" in log) == (2, True)
    assert repository["comment"].splitlines()[1] == "### Kafka: not compared"
    assert "    " in repository["comment"]
    assert "t.yaml:2: isn't valid YAML" in repository["comment"]
    shutil.rmtree(repository.clone / FOLDER)
    (repository.clone / FOLDER).symlink_to("/etc")
    code, log = repository.run()
    assert (code, "leads out of the repository: kafka" in log) == (2, True)
