"""A disk that is full, and `kill -9` in the middle: the plan that was there stays, and the next run is whole."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs import plan
from spark_assign.stores.run_store import Manifest, read_run

pytestmark = [pytest.mark.spark, pytest.mark.once]

RUN = ("--run-id", "r", "--assignor", "range", "--output-tables", "assignments")
ROOT = Path(__file__).parents[2]
SMALL_DISK = 'mount -t tmpfs -o size=256k none "$1" && shift && exec "$@"'
"""A disk of its own for one process and its children; Linux lets everybody make one in a namespace."""


def fleet(folder: Path, partitions: int) -> str:
    """One group of two members, one topic."""
    folder.mkdir(parents=True)
    (folder / "topics.csv").write_text(f"cluster,topic,partitions\nc,orders,{partitions}\n")
    (folder / "members.csv").write_text("cluster,group_id,member_id\nc,g,m1\nc,g,m2\n")
    rows = "".join(f"c,g,{member},orders\n" for member in ("m1", "m2"))
    (folder / "subscriptions.csv").write_text("cluster,group_id,member_id,topic\n" + rows)
    return str(folder)


def attempts(output: Path) -> set[str]:
    """Attempts that have begun to write assignments."""
    return {path.name for path in output.glob("assignments/run_id=r/attempt=*")}


@dataclass(frozen=True)
class Trouble:
    """What was there before, what the process said before it was killed, and where it wrote to."""

    first: Manifest
    printed: str
    log: str
    output: Path
    small_disk: bool


@pytest.fixture(scope="module")
def trouble(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Trouble:
    """A plan of 4 partitions; then one of 500,000 under the same run_id, in a process that does not live to finish."""
    folder = tmp_path_factory.mktemp("trouble")
    output, disk = folder / "out", folder / "disk"
    disk.mkdir()
    arguments = ["--fleet", fleet(folder / "small", 4), "--output", str(output), *RUN]
    assert plan.main(arguments) == 0
    first = read_run(spark, str(output), "r").manifest
    before = attempts(output)
    script = str(Path(__file__).parent / "job_in_trouble.py")
    command = [sys.executable, script, fleet(folder / "big", 500_000), str(output)]
    small_disk = [shutil.which("unshare") or "unshare", "-rm", "sh", "-c", SMALL_DISK, "sh", str(disk)]
    possible = sys.platform == "linux" and subprocess.run([*small_disk, "true"], check=False).returncode == 0
    if possible:
        command = [*small_disk, *command, str(disk)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (folder / "said").open("w") as printed, (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=printed, stderr=log, start_new_session=True
        )
        deadline = time.monotonic() + 180
        try:
            while attempts(output) == before:
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.02)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=60)
    return Trouble(first, (folder / "said").read_text(), (folder / "log").read_text(), output, possible)


def test_a_full_disk_is_reported_and_leaves_nothing(trouble: Trouble) -> None:
    """Exit code 3 with the system's own words, and no half a table."""
    if not trouble.small_disk:
        pytest.skip("no disk of its own here: needs Linux with user namespaces")
    (line,) = [line for line in trouble.printed.splitlines() if line.startswith("full disk: ")]
    assert line == "full disk: 3"
    assert "plan failed: " in trouble.log
    assert "No space left on device" in trouble.log
    assert "Traceback" not in trouble.log


def test_a_killed_job_leaves_the_plan_that_was_there(spark: SparkSession, trouble: Trouble, tmp_path: Path) -> None:
    """And what it has written is in no plan; the next run of the same run_id is whole, and clears up."""
    output = str(trouble.output)
    assert len(attempts(trouble.output)) == 2
    stored = read_run(spark, output, "r")
    assert stored.manifest == trouble.first
    assert stored.tables["assignments"].count() == 4
    again = ["--fleet", fleet(tmp_path / "again", 6), "--output", output, *RUN]
    assert plan.main(again) == 0
    stored = read_run(spark, output, "r")
    assert stored.tables["assignments"].count() == 6
    assert attempts(trouble.output) == {f"attempt={stored.manifest.attempt}"}
