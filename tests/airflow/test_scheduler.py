"""Airflow's scheduler runs the DAG with the real jobs; states of tasks and their logs by the REST API."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.airflow.conftest import ROOT
from tests.airflow.test_end_to_end import SETTINGS

TIMEOUT_S = 2400
TASKS = {"plan", "compare", "diff", "report", "check"}
YESTERDAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
DATES = [YESTERDAY, YESTERDAY + timedelta(days=1)]


class Server:
    """The REST API of a running Airflow, in which every user is an administrator."""

    def __init__(self, port: int, process: subprocess.Popen[bytes], log: Path) -> None:
        self.url, self.process, self.log, self.token = f"http://127.0.0.1:{port}", process, log, ""

    def call(self, path: str, content: dict[str, Any] | None = None) -> Any:
        """Returns the response of the API."""
        body = None if content is None else json.dumps(content).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        headers |= {"Authorization": f"Bearer {self.token}"} if self.token else {}
        with urllib.request.urlopen(urllib.request.Request(self.url + path, body, headers), timeout=120) as answer:
            return json.load(answer)

    def wait_for(self, path: str, found: Any) -> Any:
        """Returns a response of the API as soon as `found` is true of it."""
        deadline = time.monotonic() + TIMEOUT_S
        answer: Any = None
        while True:
            try:
                if not self.token:
                    self.token = self.call("/auth/token")["access_token"]
                answer = self.call(path)
                if found(answer):
                    return answer
            except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
                answer = error  # the server starts, or is busy
            assert self.process.poll() is None, self.log.read_text()[-4000:]
            assert time.monotonic() < deadline, f"{path}: {answer}\n{self.log.read_text()[-4000:]}"
            time.sleep(2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample fleet, and settings: a DAG that is due for two dates, and one without a schedule."""
    folder = tmp_path_factory.mktemp("scheduler")
    shutil.copytree(ROOT / "conf" / "sample-fleet", folder / "fleet")
    for name in ("nothing", "out"):
        (folder / name).mkdir()
    due = f'dag_id = "fleet"\nschedule = "0 0 * * *"\nstart_date = {YESTERDAY:%Y-%m-%d}\ncatchup = true'
    settings = SETTINGS.replace('dag_id = "fleet"', due).replace("SENT", str(folder / "sent"))
    (folder / "airflow.toml").write_text(settings)
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    """`airflow standalone`, with a database of its own; it runs one task at a time."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    environment = os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "AIRFLOW_HOME": str(folder / "home"),
        "SPARK_ASSIGN_AIRFLOW": str(folder / "airflow.toml"),
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "1",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API_AUTH__JWT_SECRET": "a secret of the tests that is long enough for its algorithm, of 64 bytes",
    }
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "airflow", "standalone"],
            cwd="/",
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        running = Server(port, process, log)
        running.wait_for("/api/v2/dags?limit=10", lambda answer: answer["total_entries"] == 2)
        yield running
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_two_dates(server: Server, folder: Path) -> None:
    """The scheduler starts both, one after the other; every task succeeds; the drift is between the two."""
    runs = "/api/v2/dags/fleet/dagRuns?order_by=logical_date"
    over = {"success", "failed"}
    found = server.wait_for(runs, lambda answer: [run["state"] in over for run in answer["dag_runs"]][:2] == [True] * 2)
    first, second = found["dag_runs"][:2]
    assert [datetime.fromisoformat(run["logical_date"]) for run in (first, second)] == DATES
    for run in (first, second):
        tasks = server.call(f"/api/v2/dags/fleet/dagRuns/{run['dag_run_id']}/taskInstances")["task_instances"]
        assert {task["task_id"]: task["state"] for task in tasks} == dict.fromkeys(TASKS, "success")
    log = server.call(f"/api/v2/dags/fleet/dagRuns/{second['dag_run_id']}/taskInstances/diff/logs/1?full_content=true")
    before, after = (f"{folder}/out/plans@{date:%Y%m%dT%H%M%SZ}" for date in DATES)
    assert f"From {before} to {after}" in json.dumps(log)
    assert {file.stem for file in (folder / "out" / "reports").glob("*.html")} >= {f"{d:%Y%m%dT%H%M%SZ}" for d in DATES}


def test_a_job_that_fails(server: Server) -> None:
    """Wrong input: the task fails once, its log has the message of the job, and the tasks after it don't run."""
    run_id = "manual"
    server.call("/api/v2/dags/broken/dagRuns", {"dag_run_id": run_id, "logical_date": "2026-11-20T05:00:00Z"})
    place = f"/api/v2/dags/broken/dagRuns/{run_id}"
    assert server.wait_for(place, lambda run: run["state"] in ("success", "failed"))["state"] == "failed"
    tasks = server.call(f"{place}/taskInstances")["task_instances"]
    states = {task["task_id"]: (task["state"], task["try_number"]) for task in tasks}
    assert states.pop("plan") == ("failed", 1)
    assert {state for state, _ in states.values()} == {"upstream_failed"}
    log = json.dumps(server.call(f"{place}/taskInstances/plan/logs/1?full_content=true"))
    assert "plan: wrong usage or input (exit code 2), not retried" in log
    assert "members: looked for members.parquet, members.csv" in log
