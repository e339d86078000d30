"""The connect job on a folder of clusters, in the session of the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs import connect
from tests.spark.fleets import stored, written_as_json

pytestmark = [pytest.mark.spark, pytest.mark.once]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two Connect clusters as json lines: one sound, one that lists a worker twice."""
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
    return written_as_json(tmp_path_factory.mktemp("connect-fleet"), tables)


def test_a_folder_is_planned(
    spark: SparkSession, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A summary, the tables, and exit code 1 for the faulty cluster if asked for."""
    arguments = ["--output", str(tmp_path), "--run-id", "r", "--output-format", "json", "--fail-on", "rejected"]
    assert connect.main(["--fleet", str(folder), *arguments]) == 1
    printed = capsys.readouterr().out
    assert "1 Connect clusters planned, 1 rejected: 2 workers, 1 connectors, 4 tasks; 1 assigned, 2 revoked" in printed
    assert "twice: duplicate-worker: workers: worker_id=w1." in printed
    revoked = stored(tmp_path, "revoked")
    assert [(row["worker_id"], row["kind"], row["connector"], row["task"]) for row in revoked] == [
        ("w1", "task", "files", task) for task in (0, 1)
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [([], "Use either --fleet LOCATION or --scenario NAME"), (["--scenario", "9x9"], "'9x9' is not")],
)
def test_wrong_usage(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Said before a session is started."""
    assert connect.main(arguments) == 2
    assert message in caplog.text + capsys.readouterr().err


def test_a_folder_that_is_not_there(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is planned."""
    assert connect.main(["--fleet", "/nothing"]) == 2
    assert "there is no folder" in caplog.text
