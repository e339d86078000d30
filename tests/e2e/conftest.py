"""Calls of the launchers as a user makes them, and a fleet small enough for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runner.tools import JAVA, NETWORK, lacks

ROOT = Path(__file__).parents[2]

Submit = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def package_index() -> None:
    """Skips the tests that install packages if no index can be reached; in CI they fail."""
    command = [sys.executable, str(ROOT / "conf" / "requirements" / "install.py")]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        lacks(NETWORK, done.stderr.strip().removeprefix("set-up: "))


@pytest.fixture(scope="session")
def submit() -> Submit:
    """A function: arguments of a launcher, by default spark-submit.sh, to the finished process; called elsewhere."""
    environment = {
        key: value
        for key, value in os.environ.items()
        if key not in ("PYTHONPATH", "SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    }

    def call(*arguments: str, cwd: str = "/", program: str = "spark-submit.sh") -> subprocess.CompletedProcess[str]:
        command = [str(ROOT / program), *arguments]
        done = subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        if "Spark 4 needs Java 17 or newer; found none" in done.stderr:
            lacks(JAVA)
        return done

    return call


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two groups that can be planned, and one that lists a member twice."""
    folder = tmp_path_factory.mktemp("fleet")
    topics = [("orders", 6), ("clicks", 3), ("audit", 2)]
    members = [("payments", "p1"), ("payments", "p2"), ("payments", "p3"), ("web", "w1"), ("web", "w2")]
    listens = {"payments": ["orders", "clicks"], "web": ["clicks", "audit"]}
    lines = {
        "topics": ["cluster,topic,partitions", *(f"c,{topic},{count}" for topic, count in topics)],
        "members": [
            "cluster,group_id,member_id",
            *(f"c,{key},{member}" for key, member in members),
            *["c,twice,m"] * 2,
        ],
        "subscriptions": [
            "cluster,group_id,member_id,topic",
            *(f"c,{group},{member},{topic}" for group, member in members for topic in listens[group]),
        ],
        "owned": ["cluster,group_id,member_id,topic,partition", "c,payments,p1,orders,0", "c,payments,p2,orders,1"],
    }
    for name, rows in lines.items():
        (folder / f"{name}.csv").write_text("\n".join(rows) + "\n")
    return str(folder)


PLAN = (
    *("plan", "--run-id", "r", "--fail-on", "rejected", "--group-assignor", "pay*=roundrobin", "--assignor", "range"),
    *("--output-tables", "assignments"),
)
"""What is planned twice: here, by the embedded engine, and on a cluster."""


@pytest.fixture(scope="session")
def planned_here(
    submit: Submit, fleet: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[subprocess.CompletedProcess[str], Path]:
    """The finished process of PLAN, called from a folder that holds `fleet`, and the folder it wrote to."""
    folder = tmp_path_factory.mktemp("here")
    (folder / "fleet").symlink_to(fleet)
    (folder / "out").mkdir()
    words = (*PLAN, "--fleet", "fleet", "--output", "out")
    return submit(*words, cwd=str(folder), program="spark-assign"), folder / "out"
