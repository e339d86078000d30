"""tests/run.sh and .ci/run: what they run, in which environment, and that nothing inherited makes it less."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests import selection
from tests.runner import __main__
from tests.runner import parts as runner_parts
from tests.runner.__main__ import environment, wanted
from tests.runner.parts import MAY_SKIP, parts
from tests.runner.tools import TOOLS, in_ci

ROOT = Path(__file__).parents[2]


def names(*arguments: str) -> list[str]:
    """Returns the names of the parts that a command line means."""
    return [part.name for part in wanted(arguments)[0]]


@pytest.fixture(autouse=True)
def _same_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the last commit changed."""
    monkeypatch.setattr(__main__, "lock_changed", lambda: False)


def test_every_test_is_in_a_part() -> None:
    """A file that no part runs would be no proof. Every place exists, and the full run has them all."""
    places = [ROOT / place for part in wanted(["full"])[0] for place in part.places]
    assert [place for place in places if not place.exists()] == []
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    assert [str(file) for file in files if not {file, *file.parents} & set(places)] == []


def test_what_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default run, the quick one, the full one, and single parts, each once."""
    every = names()
    assert sorted(names("full")) == sorted([*every, "other-spark", "newest-spark", "faults", "clock"])
    assert names("full")[:2] == ["fuzz", "spark"]  # the longest first
    assert sorted(names("full")) == sorted(parts(full=True))
    assert names("fast", "unit") == ["ruff", "format", "mypy", "unit"]
    assert names("unit") == names("full", "unit") == ["unit"]
    assert names("--spark", "4.0") == ["other-spark"]
    assert names("live", "--spark", "4.0") == ["live", "other-spark"]
    monkeypatch.setattr(__main__, "lock_changed", lambda: True)
    assert names() == [*every, "other-spark"]


def test_only_the_full_run_has_all_tests() -> None:
    """By default no part runs what is marked `full`, whatever its other marks; the full run draws no samples."""
    marks = dict.fromkeys(("spark", "once", *selection.listed()), True)
    for part in wanted([])[0]:
        assert not part.places or not eval(part.command[part.command.index("-m", 3) + 1], {}, marks)
    for part in wanted(["full"])[0]:
        assert "not full" not in " ".join(part.command)
        assert not part.places or part.environment["SPARK_ASSIGN_TEST_FULL"] == "1"


def test_a_changed_lock_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the last commit or in the work tree; without a commit before it nothing is known."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e"]
    lock = tmp_path / "conf" / "requirements" / "core.txt"
    lock.parent.mkdir(parents=True)
    monkeypatch.setattr(runner_parts, "ROOT", tmp_path)
    seen = []
    subprocess.run([*git, "init", "-q"], check=True)
    for content, other in (("a", "1"), ("a", "2"), ("b", "2")):
        lock.write_text(content)
        (tmp_path / "other").write_text(other)
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "x"], check=True)
        seen.append(runner_parts.lock_changed())
    assert seen == [False, False, True]


def test_another_spark_is_tested_as_a_whole_on_request() -> None:
    """In an environment of its own, with the release that was named."""
    (part,) = wanted(["--spark", "4.2"])[0]
    (shorter,) = wanted(["other-spark"])[0]
    assert part.places == ("tests/golden", "tests/spark")
    assert shorter.places == ("tests/golden", "tests/spark/test_custom_assignor.py", "tests/spark/test_tables.py")
    assert part.command[0] == f"{ROOT}/.venv-spark-4.2/bin/python"
    assert part.set_up is not None
    assert part.set_up.environment["SPARK_ASSIGN_PINS"] == "pyspark==4.2.*"


def test_the_newest_releases_are_those_that_a_user_may_install() -> None:
    """The upper bounds of pyproject.toml are the next releases."""
    requirements = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ranges = {Requirement(line).name: Requirement(line).specifier for line in requirements["dependencies"]}
    (spark,) = requirements["optional-dependencies"]["spark"]
    ranges["pyspark"] = Requirement(spark).specifier
    for word in runner_parts.NEWEST.split():
        name, _, release = word.removesuffix(".*").partition("==")
        *rest, last = map(int, release.split("."))
        assert f"{release}.0" in ranges[name]
        assert ".".join(map(str, [*rest, last + 1, 0])) not in ranges[name]


def test_results_are_kept_in_the_build_folder() -> None:
    """Or in the folder that the command line names."""
    assert wanted(["unit"])[1] == ROOT / "build" / "tests"
    assert wanted(["unit", "--results", "/elsewhere"])[1] == Path("/elsewhere")


@pytest.mark.parametrize("arguments", [["nonsense"], ["--spark"], ["--spark", "../x"], ["--nonsense"]], ids=" ".join)
def test_wrong_usage_ends_with_2(arguments: list[str]) -> None:
    """Before anything runs."""
    with pytest.raises(SystemExit) as ended:
        wanted(arguments)
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
    added = {"PATH": f"{ROOT}/.venv/bin:/bin", "PYTHONPYCACHEPREFIX": f"{ROOT}/build/bytecode", "PYTHONHASHSEED": "1"}
    assert seen == needed | added


@pytest.mark.parametrize(
    ("value", "strict"), [("true", True), ("1", True), ("TRUE", True), ("yes", True), ("false", False), ("", False)]
)
def test_ci_is_one_word_for_the_tests(value: str, strict: bool) -> None:
    """However it was said."""
    assert in_ci({"CI": value}) is strict
    assert environment({"CI": value}).get("CI") == ("true" if strict else None)


def script(file: Path, text: str) -> None:
    """A program."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    file.chmod(0o755)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone in which ./spark-submit.sh and the Python that it makes only say how they were called."""
    for name in ("tests/run.sh", ".ci/run", "tests/runner/tools.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    script(tmp_path / "spark-submit.sh", 'echo "set-up: $* ${SPARK_ASSIGN_VENV:-}${SPARK_ASSIGN_PINS:-}$(cat)"')
    script(tmp_path / ".venv/bin/python", 'echo "python: $*, CI: ${CI:-}, ${PYTHONPATH:-}${PYTHONOPTIMIZE:-}"')
    for tool in TOOLS:
        script(tmp_path / "bin" / tool.programs[-1], "exit 0")
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
        "set-up: --set-up spark,embedded,kafka,msk,mcp,report,docs,test ",
        "python: -B -m tests.runner fast --spark 4.0, CI: , ",
    ]


def test_run_without_an_environment_is_red(clone: Path) -> None:
    """Its own exit code, and nothing runs."""
    script(clone / "spark-submit.sh", "exit 7")
    done = call(clone, "bash", "tests/run.sh")
    assert (done.returncode, done.stdout) == (3, "")


@pytest.mark.parametrize("fast", [True, False])
def test_run_names_missing_tools_first(clone: Path, fast: bool) -> None:
    """Before anything is set up, with the command that installs each; the quick run needs none."""
    (clone / "bin" / "mvn").unlink()
    script(clone / "spark-submit.sh", "exit 7")
    shell = shutil.which("bash")
    done = subprocess.run(
        [str(shell), "tests/run.sh", *(["fast"] if fast else [])],
        cwd=clone,
        env={"PATH": f"{_only(clone, 'bash', 'dirname', 'sed')}:{clone}/bin"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    named = "Maven is missing: the tests that need it will be skipped. To install it: apt-get install maven\n"
    ended = "tests/run.sh: .venv could not be made, so nothing was tested\n"
    assert (done.returncode, done.stderr) == (3, ended if fast else named + ended)


def _only(clone: Path, *programs: str) -> Path:
    """Returns a folder for the PATH with only these programs of the machine."""
    folder = clone / "only"
    folder.mkdir()
    for program in programs:
        (folder / program).symlink_to(str(shutil.which(program)))
    return folder


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
