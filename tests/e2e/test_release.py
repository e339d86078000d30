"""The workflow of a release: its own step is run here, and what it builds is checked."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

from spark_assign import __version__
from tests.e2e.conftest import ROOT

WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))
(STEPS,) = ([step for step in job["steps"] if "run" in step] for job in WORKFLOW["jobs"].values())


def build(folder: Path, tag: str) -> subprocess.CompletedProcess[str]:
    """Runs the step `Build` of the workflow for a tag; it writes to `folder`."""
    step = next(step for step in STEPS if step["name"] == "Build")
    command = f"{step['run'].rpartition(' ')[0]} {folder}"
    variables = {**os.environ, "GITHUB_REF_NAME": tag}
    return subprocess.run(
        ["bash", "-euc", command], cwd=ROOT, env=variables, capture_output=True, text=True, timeout=3600, check=False
    )


def test_a_tag_names_the_version(tmp_path: Path) -> None:
    """Another tag builds nothing."""
    done = build(tmp_path, "v0.0.1")
    assert done.returncode == 2
    assert f"the tag v0.0.1 doesn't name the version of the package, {__version__}" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
@pytest.mark.usefixtures("package_index")
def test_the_release_is_built_and_plans_the_sample(tmp_path: Path) -> None:
    """Wheel, source archive, bill of materials, licenses, and checksums, by the lock only."""
    done = build(tmp_path, f"v{__version__}")
    assert done.returncode == 0, done.stderr
    assert "19 groups planned, 0 rejected, 82 members" in done.stdout
    name = f"spark_assign-{__version__}"
    wheels = {f"{name}-py3-none-any.whl", f"spark_assign_airflow-{__version__}-py3-none-any.whl"}
    files = {*wheels, f"{name}.tar.gz", f"{name}.cdx.json", "dependencies.csv"}
    assert {file.name for file in tmp_path.iterdir()} == {*files, "SHA256SUMS"}
    sums = dict(reversed(line.split()) for line in (tmp_path / "SHA256SUMS").read_text().splitlines())
    assert sums == {file: hashlib.sha256((tmp_path / file).read_bytes()).hexdigest() for file in files}

    bom = json.loads((tmp_path / f"{name}.cdx.json").read_text())
    assert (bom["bomFormat"], bom["metadata"]["component"]["name"]) == ("CycloneDX", "spark_assign")
    listed = {part["name"].lower().replace("_", "-"): part["version"] for part in bom["components"]}
    listed.pop("spark-assign", None)
    table = list(csv.DictReader(io.StringIO((tmp_path / "dependencies.csv").read_text())))
    assert {row["name"]: row["version"] for row in table} == listed
    assert {"pyspark", "pandas", "kafka-python", "jinja2", "click"} <= listed.keys()
    locked = "".join(file.read_text() for file in (ROOT / "conf/requirements").glob("*.txt"))
    assert [key for key, version in listed.items() if f"{key}=={version} " not in locked] == []
    assert [row for row in table if not row["license"]] == []
    with tarfile.open(tmp_path / f"{name}.tar.gz") as archive:
        assert f"{name}/tests/run.sh" in archive.getnames()
