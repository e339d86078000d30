"""What a catalog of data learns of a run: events of Airflow's own OpenLineage provider, and partitions of assets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.models.asset import AssetEvent
from airflow.sdk.execution_time.context import OutletEventAccessor
from airflow.utils.session import create_session
from spark_assign_airflow.operators import SparkAssignSubmitOperator
from sqlalchemy import select

from tests.airflow.conftest import Airflow
from tests.airflow.test_runs import LAUNCHER, SUBMIT

DATE = "2026-11-21T05:00:00"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A clone whose jobs end well."""
    (tmp_path / "jobs").mkdir()
    for name, text in (("spark-submit.sh", LAUNCHER), ("submit", SUBMIT)):
        (tmp_path / name).write_text(text.format(folder=tmp_path))
        (tmp_path / name).chmod(0o755)
    return tmp_path


def names(datasets: list[dict[str, Any]]) -> list[str]:
    """Namespace and name of each."""
    return [f"{each['namespace']}:{each['name']}" for each in datasets]


def check(airflow: Airflow, project: Path, source: str, task: str, written: str, partition: str | None) -> None:
    """Runs a DAG, and compares the partition of the asset's event, and the datasets of the task's OpenLineage event."""
    dag_id, settings, events = f"tells_{task}", project / "airflow.toml", project / "events.json"
    settings.write_text(
        f'[[dag]]\ndag_id = "{dag_id}"\nfleet = "/f"\noutput = "/data/out"\nproject = "{project}"\n{source}\n'
    )
    transport = json.dumps({"type": "file", "log_file_path": str(events), "append": True})
    variables = {"SPARK_ASSIGN_AIRFLOW": str(settings), "AIRFLOW__OPENLINEAGE__TRANSPORT": transport}
    done = airflow("dags", "test", dag_id, DATE, "--mark-success-pattern", "compare|diff|report|check", **variables)
    assert done.returncode == 0, done.stderr
    with create_session() as session:
        keys = session.scalars(select(AssetEvent.partition_key).where(AssetEvent.source_dag_id == dag_id)).all()
    assert keys == [partition]
    pytest.importorskip("airflow.providers.openlineage", reason="the provider of OpenLineage isn't installed")
    found = [each for each in map(json.loads, events.read_text().splitlines()) if each["eventType"] == "COMPLETE"]
    (event,) = [each for each in found if each["job"]["name"] == f"{dag_id}.{task}"]
    assert (names(event["inputs"]), names(event["outputs"])) == (["file:/f"], [f"file:{written}"])


def test_a_plan(airflow: Airflow, project: Path) -> None:
    """It reads the fleet and writes the plans, whose event has a partition if the settings say so."""
    check(airflow, project, "partitioned_assets = true", "plan", "/data/out/plans", "20261121T050000Z")


def test_a_page_of_the_day(airflow: Airflow, project: Path) -> None:
    """It reads the fleet and writes its folder, whose event has no partition by default."""
    check(airflow, project, 'steps = "daily"', "daily.page", "/data/out", None)


def test_an_airflow_without_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The DAG isn't imported, and the error says why."""
    monkeypatch.delattr(OutletEventAccessor, "add_partitions")
    with pytest.raises(ValueError, match="partitioned_assets needs a newer Airflow"):
        SparkAssignSubmitOperator(task_id="t", job="plan", project="/p", partition="p")
