"""Tables in an object store: a server that speaks S3 on a loopback port, and Hadoop's `s3a://` from Maven Central."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_assign.sources.files.snapshot_files import write_folder
from spark_assign.stores.locations import SUMMARY
from tests import snapshots
from tests.e2e.test_standalone_cluster import free_port
from tests.kafka import fetched, maven
from tests.spark import object_store

pytestmark = [pytest.mark.spark, pytest.mark.once]

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 600


class Store:
    """A server, with a bucket `box`."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint

    def call(self, method: str, path: str, content: bytes = b"") -> bytes:
        """What the server answers."""
        binary = {"Content-Type": "application/octet-stream"}  # by default, it is that of a form
        request = urllib.request.Request(f"{self.endpoint}/box{path}", content, binary, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            body: bytes = answer.read()
            return body

    def has(self, prefix: str) -> bool:
        """Whether there are objects of which the name begins so."""
        return b"<Contents>" in self.call("GET", f"?list-type=2&prefix={prefix}")


@pytest.fixture(scope="module")
def variables() -> dict[str, str]:
    """The environment of the jobs: credentials, which the server doesn't check."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "AWS_"))}
    return kept | {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_ASSIGN_CLASS_DATA": "no",
    }


@pytest.fixture(scope="module")
def store(variables: dict[str, str]) -> Iterator[Store]:
    """A server that keeps everything in memory."""
    with fetched.or_skipped():
        folder = fetched.python_package("moto[server,s3]", "5.2.5")
    running = Store(f"http://127.0.0.1:{free_port()}")
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", running.endpoint.rpartition(":")[2]]
    environment = variables | {"PYTHONPATH": str(folder)}
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                running.call("PUT", "")
                break
            except urllib.error.URLError:
                assert server.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.5)
        yield running
    finally:
        server.terminate()
        server.wait(60)


def upload(store: Store, folder: Path, *, complete: bool) -> None:
    """Uploads the snapshot of a cluster, without its summary if it is not complete."""
    for file in folder.rglob("*.*"):
        if file.is_file() and (complete or file.name != SUMMARY):
            store.call("PUT", f"/fleet/{file.relative_to(folder)}", file.read_bytes())


def test_a_killed_writer_and_a_whole_plan(store: Store, variables: dict[str, str], tmp_path: Path) -> None:
    """A job that is killed in the middle leaves no plan; later ones leave only the newest."""
    with fetched.or_skipped():
        jars = os.pathsep.join(maven.s3a_jars())
    write_folder(snapshots.of_kafka("eu", 2), tmp_path / "complete")
    upload(store, tmp_path / "complete", complete=True)
    write_folder(snapshots.of_kafka("eu", 5), tmp_path / "later")
    upload(store, tmp_path / "later", complete=False)

    environment = variables | {"AWS_ENDPOINT_URL": store.endpoint}
    settings = object_store.settings(jars, store.endpoint)
    options = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    job = ["plan", "--fleet", "s3a://box/fleet", "--output", object_store.PLANS, "--run-id", "r"]
    log = tmp_path / "log"
    with log.open("wb") as output:
        killed = subprocess.Popen(
            [str(ROOT / "spark-submit.sh"), *options, *job],
            cwd=tmp_path,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + TIMEOUT_S
    while not store.has("plans/plan_rows/run_id=r/attempt=") or not store.has("plans/assignments/"):
        assert killed.poll() is None, log.read_text()[-4000:]
        assert time.monotonic() < deadline, log.read_text()[-4000:]
        time.sleep(0.05)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait(60)
    assert not store.has("plans/manifest")

    command = [sys.executable, "-m", "tests.spark.object_store", jars, store.endpoint]
    environment |= {"PYTHONPATH": str(ROOT), "SPARK_TESTING": "1"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines()[-1] == "done"
    assert json.loads(store.call("GET", "/outcomes/plan.json"))["locations"] == {"output": object_store.PLANS}
