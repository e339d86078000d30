"""tests/run.sh and .ci/run: what they run, in which environment, and that nothing inherited makes it less."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runner.__main__ import environment, in_ci, wanted
from tests.runner.parts import MAY_SKIP, parts

ROOT = Path(__file__).parents[2]


def names(*arguments: str, ci: bool = False) -> list[str]:
    """The parts that a command line means."""
    return [part.name for part in wanted(arguments, ci=ci)]


def test_every_test_is_in_a_part() -> None:
    """A file that no part runs would be no proof; nor are there places that are not there."""
    places = [ROOT / place for part in wanted([], ci=False) for place in part.places]
    assert [place for place in places if not place.exists()] == []
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    assert [str(file) for file in files if not {file, *file.parents} & set(places)] == []


def test_all_is_the_default_and_ci_adds_another_spark() -> None:
    """And `fast` is what needs no Spark; what is named twice is run once."""
    every = names()
    assert sorted([*every, "other-spark"]) == sorted(parts("4.0", whole=False))
    assert names(ci=True) == [*every, "other-spark"]
    assert names("fast", "unit") == ["ruff", "format", "mypy", "unit"]
    assert names("unit", ci=True) == ["unit"]
    assert names("--spark", "4.0") == ["other-spark"]
    assert names("kafka", "--spark", "4.0") == ["kafka", "other-spark"]


def test_another_spark_is_tested_as_a_whole_if_it_is_asked_for() -> None:
    """In an environment of its own, with the release that was named."""
    (asked,) = wanted(["--spark", "4.2"], ci=False)
    (shorter,) = wanted(["other-spark"], ci=True)
    assert asked.places == ("tests/golden", "tests/spark")
    assert shorter.places == ("tests/golden", "tests/spark/test_custom_assignor.py", "tests/spark/test_tables.py")
    assert asked.command[0] == f"{ROOT}/.venv-spark-4.2/bin/python"
    assert asked.set_up is not None
    assert asked.set_up.environment["SPARK_ASSIGN_PINS"] == "pyspark==4.2.*"


@pytest.mark.parametrize("arguments", [["nonsense"], ["--spark"], ["--spark", "../x"], ["--nonsense"]], ids=" ".join)
def test_wrong_usage_ends_with_2(arguments: list[str]) -> None:
    """Before anything runs."""
    with pytest.raises(SystemExit) as ended:
        wanted(arguments, ci=True)
    assert ended.value.code == 2


def test_exceptions_are_tests() -> None:
    """A name that is no test any more is no reason to skip one."""
    for name in MAY_SKIP:
        module, _, test = name.rpartition(".")
        assert f"def {test}(" in (ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")


INHERITED = {
    "PYTEST_ADDOPTS": "--collect-only",
    "PYTEST_PLUGINS": "nothing",
    "PYTHONPATH": "/elsewhere",
    "PYTHONOPTIMIZE": "2",
    "SPARK_ASSIGN_TEST_EVERY": "1000000",
    "SPARK_ASSIGN_TEST_REMOTE": "sc://elsewhere",
    "SPARK_ASSIGN_VENV": "/elsewhere",
    "SPARK_ASSIGN_PINS": "pyspark==3.5.*",
    "SPARK_HOME": "/elsewhere",
    "SPARK_REMOTE": "sc://elsewhere",
    "SPARK_VERSION": "3.5.0",
    "PYSPARK_SUBMIT_ARGS": "--version",
    "PYSPARK_PYTHON": "/elsewhere",
    "AIRFLOW_HOME": "/elsewhere",
    "MYPYPATH": "/elsewhere",
    "MARKED": "nothing",
}
"""Variables that leave tests out, or change with what they run."""


def test_nothing_inherited_leaves_something_out() -> None:
    """What a machine needs stays."""
    needed = {"HOME": "/root", "JAVA_HOME": "/java", "PIP_INDEX_URL": "x", "SPARK_ASSIGN_SEED": "1", "PATH": "/bin"}
    seen = environment(INHERITED | needed)
    assert seen == needed | {"PATH": f"{ROOT}/.venv/bin:/bin", "PYTHONPYCACHEPREFIX": f"{ROOT}/build/bytecode"}


@pytest.mark.parametrize(
    ("told", "strict"), [("true", True), ("1", True), ("TRUE", True), ("yes", True), ("false", False), ("", False)]
)
def test_ci_is_told_to_the_tests_in_one_word(told: str, strict: bool) -> None:
    """However it was said."""
    assert in_ci({"CI": told}) is strict
    assert environment({"CI": told}).get("CI") == ("true" if strict else None)


def script(file: Path, text: str) -> None:
    """A program."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    file.chmod(0o755)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone in which ./spark-submit.sh and the Python that it makes only say how they were called."""
    for name in ("tests/run.sh", ".ci/run"):
        (tmp_path / name).parent.mkdir()
        shutil.copy(ROOT / name, tmp_path / name)
    script(tmp_path / "spark-submit.sh", 'echo "set-up: $* ${SPARK_ASSIGN_VENV:-}${SPARK_ASSIGN_PINS:-}$(cat)"')
    script(tmp_path / ".venv/bin/python", 'echo "python: $*, CI: ${CI:-}, ${PYTHONPATH:-}${PYTHONOPTIMIZE:-}"')
    script(tmp_path / "bin/chromium", "exit 0")
    return tmp_path


def call(clone: Path, *command: str, **inherited: str) -> subprocess.CompletedProcess[str]:
    """From another folder, with something on standard input that nothing may wait for or read."""
    path = f"{clone}/bin:{os.environ['PATH']}"
    return subprocess.run(
        [command[0], str(clone / command[1]), *command[2:]],
        cwd="/",
        env={"PATH": path, **inherited},
        input="typed",
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_run_makes_its_environment_and_starts_the_runner(clone: Path) -> None:
    """In the clone's own .venv, with the caller's arguments and none of his variables."""
    done = call(clone, "bash", "tests/run.sh", "fast", "--spark", "4.0", **INHERITED)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "set-up: --set-up spark,kafka,msk,report,docs,test ",
        "python: -B -m tests.runner fast --spark 4.0, CI: , ",
    ]


def test_run_without_an_environment_is_red(clone: Path) -> None:
    """Its own exit code, and nothing runs."""
    script(clone / "spark-submit.sh", "exit 7")
    done = call(clone, "bash", "tests/run.sh")
    assert (done.returncode, done.stdout) == (3, "")


def test_run_explains_itself(clone: Path) -> None:
    """Without making anything first."""
    done = call(clone, "bash", "tests/run.sh", "unit", "--help")
    assert done.returncode == 0
    assert "tests/run.sh --spark 4.0" in done.stdout
    assert "set-up" not in done.stdout


@pytest.mark.parametrize("inherited", [{}, {"CI": "1"}, {"CI": "false"}, {"CI": ""}], ids=str)
def test_ci_says_that_it_is_ci(clone: Path, inherited: dict[str, str]) -> None:
    """Whatever was inherited; and its exit code is that of the run."""
    script(clone / ".venv/bin/python", 'echo "CI: $CI"; exit 9')
    done = call(clone, "bash", ".ci/run", **inherited)
    assert done.stdout.endswith("\nCI: true\n")
    assert done.returncode == 9


def test_the_runner_is_a_command() -> None:
    """As tests/run.sh calls it: its exit code is the verdict, and no test is run for wrong usage."""
    command = [sys.executable, "-B", "-m", "tests.runner", "nonsense"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown part: nonsense" in done.stderr
