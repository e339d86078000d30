"""`./spark-submit.sh connect` from outside: a scenario with its picture, a folder that is planned, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Submit

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two Connect clusters as json lines: one sound, one that lists a worker twice."""
    place = tmp_path_factory.mktemp("connect-fleet")
    clock = {"protocol": "sessioned", "now_ms": 0, "generation_id": 2, "last_completed_generation_id": 1}
    keys = [{"connect_cluster": name} for name in ("good", "twice")]
    tables: dict[str, list[dict[str, Any]]] = {
        "clusters": [key | clock | {"max_delay_ms": 300_000} for key in keys],
        "connectors": [key | {"connector": "files"} for key in keys],
        "tasks": [key | {"connector": "files", "task": task} for key in keys for task in range(4)],
        "workers": [key | {"worker_id": worker} for key in keys for worker in ("w1", "w2")],
        "reported": [
            key | {"worker_id": "w1", "kind": "task", "connector": "files", "task": task}
            for key in keys
            for task in range(4)
        ],
        "state": [{"connect_cluster": "good", "generation_id": 1, "members": ["w1"], "can_revoke": True}],
    }
    tables["workers"].append({"connect_cluster": "twice", "worker_id": "w1"})
    for name, rows in tables.items():
        (place / f"{name}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return place


def test_the_scenario_is_played_and_drawn(submit: Submit, tmp_path: Path) -> None:
    """The published totals, and a picture."""
    done = submit("connect", "--scenario", "90x10", "--output", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "185 / 92,565 / 93,060" in done.stdout
    assert "278 / 1,451 / 1,946" in done.stdout
    assert "</svg>" in (tmp_path / "90x10.svg").read_text()


def test_a_folder_is_planned(submit: Submit, folder: Path, tmp_path: Path) -> None:
    """A summary, the tables, and exit code 1 for the faulty cluster if asked for."""
    arguments = ("--output", str(tmp_path), "--run-id", "first", "--output-format", "json", "--fail-on", "rejected")
    done = submit("connect", "--fleet", str(folder), *arguments)
    assert done.returncode == 1, done.stderr
    assert (
        "1 Connect clusters planned, 1 rejected: 2 workers, 1 connectors, 4 tasks; 1 assigned, 2 revoked" in done.stdout
    )
    assert "twice: duplicate-worker: workers: worker_id=w1." in done.stdout
    revoked = [
        json.loads(line)
        for file in (tmp_path / "revoked" / "run_id=first").glob("attempt=*/*.json")
        for line in file.open()
    ]
    assert [(row["worker_id"], row["connector"], row["task"]) for row in revoked] == [
        ("w1", "files", task) for task in (0, 1)
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "one of the arguments --scenario --fleet is required"),
        (["--scenario", "9x9"], "invalid choice: '9x9'"),
        (["--fleet", "/nothing"], "there is no folder"),
    ],
)
def test_wrong_usage_is_exit_code_2(submit: Submit, arguments: list[str], message: str) -> None:
    """Nothing is planned."""
    done = submit("connect", *arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stdout + done.stderr  # spark-submit prints both as one
