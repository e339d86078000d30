"""A standalone cluster of one master and two workers: the package gets there, and the plan is the same."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from tests.e2e.conftest import PLAN, Submit

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

QUICK_TO_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of every JVM here: none lives long enough for the thorough compiler to earn its time back."""


def free_port() -> int:
    """A port that nobody uses at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The master's URL and the folder in which the executors run; started from pyspark's own jars."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.submodule_search_locations
    home = Path(found.submodule_search_locations[0])
    folder = tmp_path_factory.mktemp("cluster")
    port, web = free_port(), free_port()
    master = f"spark://127.0.0.1:{port}"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment |= {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
    environment["SPARK_DAEMON_JAVA_OPTS"] = QUICK_TO_START
    processes = []

    def start(name: str, kind: str, *arguments: str) -> None:
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1"]
        with (folder / f"{name}.log").open("w") as log:
            processes.append(
                subprocess.Popen([*command, *arguments], env=environment, cwd=folder, stdout=log, stderr=log)
            )

    try:
        start("master", "master.Master", "--port", str(port), "--webui-port", str(web))
        for name in ("worker-1", "worker-2"):
            start(
                name,
                "worker.Worker",
                *("--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(folder / name), master),
            )
        deadline = time.monotonic() + 120
        while alive_workers(web) < 2:
            assert time.monotonic() < deadline, (folder / "master.log").read_text()
            time.sleep(0.5)
        yield master, folder
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(timeout=60)


def alive_workers(web: int) -> int:
    """How many workers the master knows."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{web}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except OSError:
        return 0


def on(master: str) -> list[str]:
    """The launcher's options for this cluster."""
    settings = {
        "spark.master": master,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.executor.memory": "640m",
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
        "spark.driver.defaultJavaOptions": QUICK_TO_START,
        "spark.executor.defaultJavaOptions": QUICK_TO_START,
    }
    options = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    return ["--env", "standalone", *options]


def test_executors_import_the_package_that_was_shipped(submit: Submit, cluster: tuple[str, Path]) -> None:
    """From the zip in the executor's own folder, on both workers; from nowhere else."""
    master, folder = cluster
    done = submit(*on(master), str(Path(__file__).parent / "where_am_i.py"))
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout.strip().splitlines()[-1])
    assert len(rows) == 4
    for row in rows:
        assert re.search(r"spark_assign-[0-9a-f]{12}\.zip/spark_assign/__init__\.py$", row["file"]), row
        assert Path(row["folder"]).is_relative_to(folder), row
        assert "/build/" not in row["file"]


def test_the_plan_is_the_one_made_locally(
    submit: Submit,
    cluster: tuple[str, Path],
    fleet: str,
    planned_here: tuple[subprocess.CompletedProcess[str], Path],
    tmp_path: Path,
) -> None:
    """Row for row."""
    master, _ = cluster
    here, output = planned_here
    done = submit(*on(master), *PLAN, "--fleet", fleet, "--output", str(tmp_path))
    assert done.returncode == here.returncode == 1, done.stderr
    for table in ("assignments", "metrics", "rejected"):
        assert rows(tmp_path, table) == rows(output, table)
    assert len(rows(output, "assignments")) == 14


def rows(output: Path, table: str) -> list[str]:
    """What was written, in no order."""
    found = ds.dataset(output / table, format="parquet").to_table().to_pylist()
    return sorted(json.dumps(row, sort_keys=True) for row in found)
