"""The wheel, as Databricks and others install it: the jobs are in it, and its console scripts run them."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from spark_assign import __version__
from tests.e2e.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TOPICS = "Topic: orders\tPartitionCount: 1\n\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\n"


def pip(*arguments: str) -> None:
    """Run pip, quietly."""
    command = [sys.executable, "-m", "pip", arguments[0], "--quiet", "--disable-pip-version-check", *arguments[1:]]
    subprocess.run(command, cwd="/", check=True, timeout=300)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as databricks.yml builds it."""
    dist = tmp_path_factory.mktemp("dist")
    pip("wheel", "--no-deps", "--wheel-dir", str(dist), str(ROOT))
    return dist / f"{PROJECT['name']}-{__version__}-py3-none-any.whl"


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel installed in a folder of its own."""
    folder = tmp_path_factory.mktemp("site")
    pip("install", "--no-deps", "--target", str(folder), str(wheel))
    return folder


def call(site: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A console script, far from the clone."""
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, str(site / "bin" / script), *arguments]
    return subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_what_is_in_it(wheel: Path) -> None:
    """The package with its schemas, and the jobs under a name of their own; no notebook, no tests."""
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"spark_assign/__init__.py", "spark_assign_jobs/plan.py", "spark_assign_jobs/_entry.py"} <= names
    assert "spark_assign/wire/ConsumerGroupDescribeRequest.json" in names
    folders = {name.partition("/")[0] for name in names}
    assert folders == {"spark_assign", "spark_assign_jobs", f"{PROJECT['name']}-{__version__}.dist-info"}
    assert not [name for name in names if "databricks" in name or "airflow" in name]


def test_who_may_use_it_is_in_it(wheel: Path) -> None:
    """The licence, what derives from Kafka, and that its types may be read."""
    archive = zipfile.ZipFile(wheel)
    about = f"{PROJECT['name']}-{__version__}.dist-info"
    for name in ("LICENSE", "NOTICE"):
        assert archive.read(f"{about}/licenses/{name}") == (ROOT / name).read_bytes()
    said = archive.read(f"{about}/METADATA").decode()
    assert f"\nVersion: {__version__}\n" in said
    assert "\nLicense-Expression: Apache-2.0\n" in said
    assert "spark_assign/py.typed" in archive.namelist()


@pytest.mark.parametrize("script", PROJECT["scripts"])
def test_every_script_starts(site: Path, script: str) -> None:
    """And knows its job's arguments."""
    done = call(site, script, "--help")
    assert done.returncode == 0, done.stderr
    assert f"usage: {script.removeprefix('spark-assign-')} " in done.stdout


def test_exit_codes_get_through(site: Path, tmp_path: Path) -> None:
    """0 where the job has done its work, 2 where it could not."""
    (tmp_path / "topics").write_text(TOPICS)
    (tmp_path / "groups").write_text("\n")
    arguments = ["--cluster", "c", "--topics", str(tmp_path / "topics"), "--output", str(tmp_path / "fleet")]
    done = call(site, "spark-assign-ingest", *arguments, "--groups", str(tmp_path / "groups"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "fleet" / "topics.parquet").exists()
    done = call(site, "spark-assign-ingest", *arguments, "--groups", str(tmp_path / "nowhere"))
    assert done.returncode == 2
    assert "nowhere cannot be read" in done.stderr
