"""The wheel, as Databricks and others install it: the jobs are in it, its command runs them, the sample comes along."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from spark_assign import __version__
from tests.e2e.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
JOBS = sorted(file.stem for file in (ROOT / "jobs").glob("*.py") if not file.stem.startswith("_"))
TOPICS = "Topic: orders\tPartitionCount: 1\n\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\n"


SETTINGS = ("__init__", "settings", "settings_errors", "toml_file")


def pip(*arguments: str) -> None:
    """Run pip, quietly."""
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, cwd="/", check=True, timeout=300)


@pytest.fixture(scope="module")
def wheel(package_index: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as databricks.yml builds it."""
    dist = tmp_path_factory.mktemp("dist")
    pip("wheel", "--no-deps", "--wheel-dir", str(dist), str(ROOT))
    return dist / f"{PROJECT['name']}-{__version__}-py3-none-any.whl"


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and nothing else of its own; what the wheel needs is found where the tests run."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    pip("--python", str(python), "install", "--no-deps", str(wheel))
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "what-it-needs.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return folder


def call(environment: Path, *words: str, cwd: Path = Path("/")) -> subprocess.CompletedProcess[str]:
    """The command, far from the clone, as a shell in which nothing is set runs it."""
    plain = {name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME", "LANG", "TMPDIR") if name in os.environ}
    command = [str(environment / "bin" / "spark-assign"), *words]
    return subprocess.run(command, cwd=cwd, env=plain, capture_output=True, text=True, timeout=300, check=False)


def test_what_is_in_it(wheel: Path) -> None:
    """The package with its schemas, and the jobs under a name of their own; no notebook; of Airflow the settings."""
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"spark_assign/__init__.py", "spark_assign_jobs/plan.py", "spark_assign_jobs/_entry.py"} <= names
    assert "spark_assign/wire/ConsumerGroupDescribeRequest.json" in names
    conf = {"plan.toml", "sample-fleet/topics.csv", "sample-applications/README.md"}
    conf |= {"spark/java/bin/java", "spark/local.conf", "spark/log4j2.properties"}
    assert {f"spark_assign_jobs/conf/{name}" for name in conf} <= names
    folders = {name.partition("/")[0] for name in names}
    assert folders == {"spark_assign", "spark_assign_jobs", f"{PROJECT['name']}-{__version__}.dist-info"}
    of_airflow = {f"spark_assign_jobs/airflow/spark_assign_airflow/{each}.py" for each in SETTINGS}
    assert {name for name in names if "databricks" in name or "airflow" in name} == of_airflow


def test_who_may_use_it_is_in_it(wheel: Path) -> None:
    """The licence, what derives from Kafka, and that its types may be read."""
    archive = zipfile.ZipFile(wheel)
    about = f"{PROJECT['name']}-{__version__}.dist-info"
    for name in ("LICENSE", "NOTICE"):
        assert archive.read(f"{about}/licenses/{name}") == (ROOT / name).read_bytes()
    metadata = archive.read(f"{about}/METADATA").decode()
    assert f"\nVersion: {__version__}\n" in metadata
    assert "\nLicense-Expression: Apache-2.0\n" in metadata
    assert "spark_assign/py.typed" in archive.namelist()


EVERY_JOB = """
import sys
from spark_assign_jobs import _entry
jobs = sys.argv[1:]
for job in jobs:
    sys.argv = ["spark-assign", job, "--help"]
    try:
        _entry.main()
    except SystemExit as ended:
        assert not ended.code
    print(end="\\0")
_entry.command(["--help"])
print("\\0", "pyspark" in sys.modules, sep="")
for job in jobs:
    assert _entry.command([job, "--no-such-option"]) == 2, job
"""
"""Prints the help of every job and of the command, and whether PySpark was imported by then; then calls all jobs."""


def test_every_job_starts(environment: Path) -> None:
    """Its module is imported, as `--help` alone does not, and its help is in the wheel. The list of jobs needs none of
    them, and no Spark.
    """
    command = [str(environment / "bin" / "python"), "-c", EVERY_JOB, *JOBS]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    *helps, jobs, imported = done.stdout.split("\0")
    texts = [(ROOT / "conf" / "help" / f"{job}.txt").read_text() for job in JOBS]
    assert helps == [text.replace("Usage: ", "Usage: spark-assign ", 1) for text in texts]
    assert all(f"  {job} " in jobs for job in JOBS)
    assert imported == "False\n"
    refused = [line for line in done.stderr.splitlines() if line.startswith("For its options, run: ")]
    assert refused == [f"For its options, run: spark-assign {job} --help" for job in JOBS]


def test_the_version(environment: Path) -> None:
    """Of the command that the wheel installs."""
    assert call(environment, "--version").stdout == f"spark-assign, version {__version__}\n"


def test_schemas_for_editors(environment: Path) -> None:
    """Of the jobs' settings, and of Airflow's, whose package is another one."""
    for of, key in (("plan", "assignor"), ("compare", "assignors"), ("airflow", "dag")):
        done = call(environment, "config", "--schema", of)
        assert done.returncode == 0, done.stderr
        assert key in json.loads(done.stdout)["properties"]


def test_exit_codes_get_through(environment: Path, tmp_path: Path) -> None:
    """0 where the job has done its work, 2 where it could not."""
    (tmp_path / "topics").write_text(TOPICS)
    words = ["snapshot", "--from-text", "--cluster-name", "c", "--topics-file", str(tmp_path / "topics")]
    words += ["--fleet-dir", str(tmp_path / "fleet")]
    done = call(environment, *words)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.glob("fleet/cluster=c/*/topics.parquet"))
    done = call(environment, *words, "--groups-file", str(tmp_path / "nowhere"))
    assert done.returncode == 2
    assert "nowhere cannot be read" in done.stderr


@pytest.mark.spark
def test_a_strangers_first_command(environment: Path, tmp_path: Path) -> None:
    """In an empty folder: the sample that the wheel carries is planned, said to be it, and stored here."""
    done = call(environment, "plan", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "No options given, so the bundled sample fleet is planned" in done.stderr
    assert "19 groups planned, 0 rejected, 82 members" in done.stdout
    assert "Written to output/plan" in done.stdout
    assert " WARN " not in done.stdout + done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"output"}
    done = call(environment, "plan", "--assignor", "sticky", cwd=tmp_path)
    assert done.returncode == 2
    assert "No fleet given. Use --fleet LOCATION" in done.stderr
