"""HDFS and YARN: jobs in both modes, with a packed environment, tables on HDFS, and processes that are killed."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from benchmarks.fleets import Shape, written_with_owners
from benchmarks.processes import Usage
from tests.e2e.conftest import PLAN, ROOT
from tests.kafka import fetched, java_programs, maven

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

JOB_TIMEOUT_S = 1500
QUICK_TO_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
CLUSTER_MODE = ("--conf", "spark.submit.deployMode=cluster")
SETTINGS = {
    "spark.yarn.dist.archives": "hdfs:///apps/spark_assign/environment.tar.gz#environment",
    "spark.pyspark.python": "./environment/bin/python",
    "spark.driver.memory": "768m",
    "spark.yarn.am.memory": "384m",
    "spark.executor.instances": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "640m",
    "spark.executor.memoryOverhead": "384m",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    **dict.fromkeys(("spark.driver.defaultJavaOptions", "spark.executor.defaultJavaOptions"), QUICK_TO_START),
}


def spark_home() -> Path:
    """Returns the folder of pyspark, which contains Hadoop's clients."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.submodule_search_locations
    return Path(found.submodule_search_locations[0])


@dataclass(frozen=True)
class Hadoop:
    """A running cluster: the folder with the configuration for clients, the URL of its files, and its settings."""

    folder: Path
    settings: dict[str, str]

    @property
    def environment(self) -> dict[str, str]:
        """Returns the environment variables of a user of the cluster."""
        dropped = ("PYTHONPATH", "SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
        kept = {key: value for key, value in os.environ.items() if key not in dropped}
        return kept | {"HADOOP_CONF_DIR": str(self.folder), "SPARK_LOCAL_IP": "127.0.0.1"}

    def put(self, *words: str) -> None:
        """Runs `hdfs dfs` with these arguments: its class is in Spark's jars."""
        command = [str(spark_home() / "bin" / "spark-class"), "org.apache.hadoop.fs.FsShell", *words]
        subprocess.run(command, env=self.environment, check=True, capture_output=True, timeout=JOB_TIMEOUT_S)

    def listed(self, path: str) -> list[dict[str, Any]]:
        """Returns the files and folders in a folder of HDFS; none if it doesn't exist."""
        try:
            with urllib.request.urlopen(self._url(path, "LISTSTATUS"), timeout=60) as answer:
                found: list[dict[str, Any]] = json.load(answer)["FileStatuses"]["FileStatus"]
                return found
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return []

    def get(self, path: str, to: Path) -> None:
        """Copies a folder of HDFS to this machine."""
        to.mkdir(parents=True, exist_ok=True)
        for each in self.listed(path):
            name = each["pathSuffix"]
            if each["type"] == "DIRECTORY":
                self.get(f"{path}/{name}", to / name)
            else:
                with urllib.request.urlopen(self._url(f"{path}/{name}", "OPEN"), timeout=60) as answer:
                    (to / name).write_bytes(answer.read())

    def submit(self, log: Path, *words: str) -> subprocess.Popen[bytes]:
        """Starts the launcher; its output goes to a file."""
        settings = SETTINGS | {"spark.yarn.jars": f"local:{spark_home()}/jars/*"}
        options = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
        command = [str(ROOT / "spark-submit.sh"), "--env", "yarn", *options, *words]
        with log.open("wb") as output:
            return subprocess.Popen(command, cwd="/", env=self.environment, stdout=output, stderr=subprocess.STDOUT)

    def printed_in_containers(self, text: str) -> list[Path]:
        """Returns the files with the standard output of containers that contain a text; a driver prints all there."""
        return [path for path in self.folder.glob("target/**/stdout") if text in path.read_text(errors="replace")]

    def jvms(self, name: str) -> list[int]:
        """Returns the IDs of the JVMs in containers that have this name on their command line."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                arguments = path.read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue  # it has ended
            if Path(arguments[0]).name == "java" and all(
                text in " ".join(arguments) for text in (name, str(self.folder))
            ):
                found.append(int(path.parent.name))
        return found

    def _url(self, path: str, operation: str) -> str:
        return f"http://{self.settings['dfs.namenode.http-address']}/webhdfs/v1{path}?op={operation}"


def wait_for(condition: Callable[[], Any], process: subprocess.Popen[bytes], log: Path) -> Any:
    """Returns what a condition returns as soon as that is true, while a process runs."""
    deadline = time.monotonic() + JOB_TIMEOUT_S
    while not (found := condition()):
        assert process.poll() is None, log.read_text(errors="replace")[-4000:]
        assert time.monotonic() < deadline, log.read_text(errors="replace")[-4000:]
        time.sleep(0.2)
    return found


def ended(process: subprocess.Popen[bytes], log: Path) -> tuple[int, str]:
    """Returns the exit code of a process and its output."""
    return process.wait(JOB_TIMEOUT_S), log.read_text(errors="replace")


@pytest.fixture(scope="module")
def hadoop(fleet: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    """HDFS with the packed environment and a fleet, and YARN with two nodes."""
    folder = tmp_path_factory.mktemp("hadoop")
    with fetched.or_skipped():
        options = ("-Xmx768m", *java_programs.SHORT_LIVED, "--add-opens=java.base/java.lang=ALL-UNNAMED")
        class_path = maven.hadoop_classpath()
        command = java_programs.command("HadoopCluster", class_path, folder, 2, 3072, options=options)
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT)
    try:
        environment = folder / "environment.tar.gz"
        subprocess.run([str(ROOT / "conf" / "deploy" / "pack.sh"), str(environment)], check=True, capture_output=True)
        wait_for(lambda: "ready" in log.read_text(errors="replace").splitlines(), process, log)
        properties = ET.parse(folder / "core-site.xml").getroot().iter("property")
        settings = {each.findtext("name", ""): each.findtext("value", "") for each in properties}
        running = Hadoop(folder, settings)
        running.put("-mkdir", "-p", "/apps/spark_assign")
        running.put("-put", "-f", str(environment), "/apps/spark_assign/")
        running.put("-put", fleet, "/fleet")
        environment.unlink()
        yield running
    finally:
        process.communicate(timeout=60)  # it ends when its standard input does


def rows(output: Path) -> dict[str, list[str]]:
    """Returns the tables of the newest run in a folder, each sorted."""
    manifests = [file for file in (output / "manifest").iterdir() if file.name[0] not in "._"]
    newest = max((json.loads(file.read_text()) for file in manifests), key=lambda row: str(row["finished_at"]))
    tables = {}
    for name in ("assignments", "metrics", "rejected"):
        place = output / name / f"run_id={newest['run_id']}" / f"attempt={newest['attempt']}"
        found = ds.dataset(place, format="parquet").to_table().to_pylist()
        tables[name] = sorted(json.dumps(row, sort_keys=True) for row in found)
    return tables


@pytest.fixture(scope="module")
def expected(planned_here: tuple[subprocess.CompletedProcess[str], Path]) -> dict[str, list[str]]:
    """Returns the tables of the plan that was made on this machine."""
    return rows(planned_here[1])


def plan(*more: str) -> list[str]:
    """Returns the arguments of the job, without its condition for exit code 1."""
    words = [word for word in PLAN if word not in ("--fail-on", "rejected")]
    return [*words, "--fleet", "hdfs:///fleet", *more]


def test_client_mode_with_an_executor_killed(hadoop: Hadoop, expected: dict[str, list[str]], tmp_path: Path) -> None:
    """The plan is the one made locally, although an executor ends in the middle. A second one replaces it."""
    log = tmp_path / "log"
    job = hadoop.submit(log, *plan("--output", "hdfs:///client"))
    wait_for(lambda: hadoop.listed("/client/plan_rows"), job, log)
    executors = wait_for(lambda: found if len(found := hadoop.jvms("ExecutorBackend")) == 2 else None, job, log)
    os.kill(executors[0], signal.SIGKILL)
    code, printed = ended(job, log)
    assert code == 0, printed[-4000:]
    assert "2 groups planned, 1 rejected" in printed
    hadoop.get("/client", tmp_path / "client")
    assert rows(tmp_path / "client") == expected

    code, printed = ended(hadoop.submit(log, *plan("--output", "hdfs:///client")), log)
    assert code == 0, printed[-4000:]
    assert "stay" not in printed
    hadoop.get("/client", tmp_path / "again")
    assert rows(tmp_path / "again") == expected
    for table in ("plan_rows", "assignments", "metrics"):
        attempts = sorted((tmp_path / "again" / table / "run_id=r").iterdir())
        filled = [any(file.stat().st_size for file in each.iterdir()) for each in attempts]
        assert filled == [False, True], f"{table}: the replaced attempt has no rows"


def test_cluster_mode_with_the_application_master_killed(
    hadoop: Hadoop, expected: dict[str, list[str]], tmp_path: Path
) -> None:
    """YARN starts the driver again; no plan is visible before that; the plan is the one made locally."""
    log = tmp_path / "log"
    job = hadoop.submit(log, *CLUSTER_MODE, *plan("--output", "hdfs:///cluster"))
    wait_for(lambda: hadoop.listed("/cluster/plan_rows"), job, log)
    (master,) = hadoop.jvms("deploy.yarn.ApplicationMaster")
    os.kill(master, signal.SIGKILL)
    assert hadoop.listed("/cluster/manifest") == []
    code, printed = ended(job, log)
    assert code == 0, printed[-4000:]
    hadoop.get("/cluster", tmp_path / "cluster")
    assert rows(tmp_path / "cluster") == expected


def test_the_exit_code_of_a_failed_job(hadoop: Hadoop, tmp_path: Path) -> None:
    """In cluster mode, spark-submit ends with 1 and names the code of the job; its message is in the driver's log."""
    log = tmp_path / "log"
    once = ("--conf", "spark.yarn.maxAppAttempts=1")
    job = hadoop.submit(log, *CLUSTER_MODE, *once, "plan", "--fleet", "hdfs:///nothing", "--output", "hdfs:///failed")
    code, printed = ended(job, log)
    assert code == 1, printed[-4000:]
    assert "User application exited with status 2" in printed
    assert hadoop.printed_in_containers("hdfs:///nothing")
    assert hadoop.listed("/failed") == []


@pytest.mark.parametrize("groups", [1_000, 20_000])
def test_small_executors_suffice(hadoop: Hadoop, spark: SparkSession, tmp_path: Path, groups: int) -> None:
    """Two executors of one core and one gigabyte plan a fleet. Prints what docs/deploy.md has: time and memory."""
    log, fleet = tmp_path / "log", f"hdfs:///fleet-{groups}"
    folder = written_with_owners(spark, Shape(groups, 10, 10, 50), tmp_path, form="owned_lists")
    shutil.rmtree(folder / "subscriptions")  # the lists have the same
    hadoop.put("-put", str(folder), fleet)
    words = ("--fleet", fleet, "--format", "parquet", "--assignor", "sticky", "--output", f"hdfs:///plan-{groups}")
    tables = ("--output-tables", "assignment_slices,moves,metrics")
    job = hadoop.submit(log, "--conf", "spark.sql.shuffle.partitions=20", "plan", *words, *tables)
    used: dict[int, Usage] = {}
    while job.poll() is None:
        for executor in hadoop.jvms("ExecutorBackend"):
            used.setdefault(executor, Usage(executor)).look()
        time.sleep(0.5)
    code, printed = ended(job, log)
    assert code == 0, printed[-4000:]
    assert f"{groups:,} groups planned, 0 rejected" in printed
    took = re.findall(r"^Written to .* in (.*)$", printed, re.M)
    memory = [{kind: round(mib) for kind, mib in each.peaks.items()} for each in used.values()]
    print(f"{groups:,} groups: {took}, processor seconds and MiB: {[each.seconds for each in used.values()]}, {memory}")
    assert len(memory) == 2
