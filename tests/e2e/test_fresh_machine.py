"""The first command on a fresh machine: no compiler, no cache, no Java, an index that cannot be reached."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT

FAILING = '#!/bin/sh\necho "there is no compiler here" >&2\nexit 1\n'


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """A copy of the clone without an environment."""
    target = tmp_path / "clone"
    target.mkdir()
    for name in ("spark_assign", "conf", "jobs"):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("spark-assign", "spark-submit.sh", "pyproject.toml"):
        shutil.copy(ROOT / name, target / name)
    return target


def executable(folder: Path, name: str, text: str) -> None:
    """Writes a program."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def run(
    clone: Path, *words: str, program: str = "spark-submit.sh", **variables: str
) -> tuple[subprocess.CompletedProcess[str], float]:
    """Runs a launcher of a clone; also returns the seconds of processor time that it took."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    started = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [str(clone / program), *words],
        env={**kept, **variables},
        cwd=clone,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done, ended.ru_utime + ended.ru_stime - started.ru_utime - started.ru_stime


@pytest.mark.spark
@pytest.mark.usefixtures("package_index")
def test_the_set_up_needs_no_compiler_and_no_cache(fresh: Path, tmp_path: Path) -> None:
    """Everything comes from the index as wheels, but Spark's packages. The first command plans the sample without Java;
    Spark then takes the place of its client, and the embedded engine runs in the same environment as before."""
    for name in ("cc", "gcc", "g++", "c++", "clang"):
        executable(tmp_path / "bin", name, FAILING)
    executable(tmp_path / "java", "java", FAILING)
    compiler = str(tmp_path / "bin" / "cc")
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    machine = {"PATH": path, "CC": compiler, "CXX": compiler, "SPARK_ASSIGN_CLASS_DATA": "no"}
    machine |= {"UV_NO_CACHE": "1", "PIP_NO_CACHE_DIR": "1", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    no_java = {**machine, "PATH": f"{tmp_path / 'java'}:{path}", "JAVA_HOME": str(tmp_path / "java")}
    for program, variables in (("spark-assign", no_java), ("spark-submit.sh", machine), ("spark-assign", no_java)):
        done, _ = run(fresh, "plan", program=program, **variables)
        assert done.returncode == 0, done.stderr
        assert "19 groups planned, 0 rejected" in done.stdout
        assert "Installing other versions" not in done.stderr
    assert "Setting up" not in done.stderr
    assert (fresh / ".venv" / ".spark-assign-set-up").exists()


@pytest.mark.parametrize(
    ("says", "found"),
    [('openjdk version "11.0.2"', "found 11"), ('java version "1.8.0_292"', "found 8"), ("none", "found none")],
)
def test_a_java_that_is_too_old_is_reported_before_the_set_up(
    fresh: Path, tmp_path: Path, says: str, found: str
) -> None:
    """With what to do; nothing was installed."""
    executable(tmp_path / "java" / "bin", "java", f"#!/bin/sh\necho '{says}' >&2\n")
    done, seconds = run(fresh, "plan", JAVA_HOME=str(tmp_path / "java"))
    assert done.returncode == 3
    assert f"Spark 4 needs Java 17 or newer; {found}" in done.stderr
    assert "Install one" in done.stderr
    assert seconds < 10
    assert not (fresh / ".venv").exists()


@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_an_index_that_cannot_be_reached(fresh: Path, installer: str) -> None:
    """Ends with one sentence, not after the retries of an installer; the next set-up starts over."""
    index = "http://127.0.0.1:9/simple"
    words = {
        "SPARK_ASSIGN_INSTALLER": installer,
        "PIP_INDEX_URL": index,
        "UV_DEFAULT_INDEX": index,
        "PIP_FIND_LINKS": "",
    }
    done, seconds = run(fresh, "plan", program="spark-assign", **words)
    assert done.returncode == 3
    assert f"the package index cannot be reached: {index} (Connection refused). Check the network" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 2  # the first says what is made, and where the log is
    assert seconds < 10
    assert not (fresh / ".venv" / ".spark-assign-set-up").exists()
