"""docs/forty-clusters.md: its loop makes a fleet of three clusters, and its job is one that Databricks knows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from spark_assign.stores import cluster_folders
from tests.docs.pages import ROOT, block
from tests.kafka import maven

PAGE = "docs/forty-clusters.md"

LAUNCHER = """#!/bin/sh
exec "{python}" - "$@" <<'PYTHON'
import sys
from dataclasses import replace
sys.path.insert(0, "{root}")
from spark_assign.sources.files.snapshot_files import write_folder
from tests import snapshots
job, *words = sys.argv[1:]
options = dict(zip(words[::2], words[1::2], strict=True))
name = options["--cluster-name"]
expected = (f"broker-1.{{name.removeprefix('shop-')}}:9092", f"{{name.removeprefix('shop-')}}.properties")
assert (job, options["--bootstrap-server"], options["--command-config"]) == ("snapshot", *expected), words
sys.exit(3) if name in open("down").read() else write_folder(snapshots.of_kafka(name), options["--fleet-dir"])
PYTHON
"""
"""In place of the project's own: the snapshot of a cluster, or exit code 3 where it is down."""


def names(fleet: Path) -> dict[str, str]:
    """Which snapshot of each cluster counts."""
    files = [str(file.relative_to(fleet)) for file in fleet.rglob("*") if file.is_file()]
    return {part.split("/")[0]: part.split("/")[1] for part in cluster_folders.split_by_cluster(files, "cluster")}


def test_the_loop(tmp_path: Path) -> None:
    """Three clusters from one line; again with one of them down, which stays as it was."""
    (tmp_path / "clusters.txt").write_text("\n".join(block(PAGE, "shop-prod")) + "\n")
    launcher = tmp_path / "spark-submit.sh"
    launcher.write_text(LAUNCHER.format(python=sys.executable, root=ROOT))
    launcher.chmod(0o755)
    (tmp_path / "down").write_text("")
    [loop] = block(PAGE, "xargs")
    first = subprocess.run(["bash", "-c", loop], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert first.returncode == 0, first.stderr
    before = names(tmp_path / "clusters")
    assert set(before) == {"cluster=shop-prod", "cluster=shop-eu", "cluster=shop-us"}
    (tmp_path / "down").write_text("shop-eu")
    again = subprocess.run(["bash", "-c", loop], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert again.returncode == 123, again.stderr
    after = names(tmp_path / "clusters")
    assert [home for home in before if before[home] == after[home]] == ["cluster=shop-eu"]


def test_the_job_of_databricks() -> None:
    """Read by Databricks' own classes; its input is JSON, its wheel's entry points are ours."""
    yaml = pytest.importorskip("yaml")
    tasks = pytest.importorskip("databricks.bundles.jobs").Task
    given = yaml.safe_load("\n".join(block(PAGE, "tasks:")))["tasks"]
    each, plan = [tasks.from_dict(task) for task in given]
    assert each.for_each_task.concurrency == 8
    rows = json.loads(each.for_each_task.inputs)
    parameters = each.for_each_task.task.python_wheel_task.parameters
    used = {word.split("}}")[0] for text in parameters for word in text.split("{{input.")[1:]}
    assert [set(row) for row in rows] == [used, used]
    scripts = (ROOT / "pyproject.toml").read_text()
    for task in (each.for_each_task.task, plan):
        assert f"\n{task.python_wheel_task.entry_point} = " in scripts


def test_the_settings_of_delta() -> None:
    """The release that the tests have."""
    settings = dict(line.split() for line in block(PAGE, "spark.jars.packages"))
    release = f"{maven.DELTA_FOR_SPARK}_2.13:{maven.DELTA_VERSION}"
    assert settings.pop("spark.jars.packages") == f"io.delta:delta-spark_{release}"
    from tests.spark.delta import SETTINGS

    assert settings == {name: SETTINGS[name] for name in settings}
