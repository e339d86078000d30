"""Airflow in a folder of its own: SQLite, no scheduler, no network. Without Airflow the tests here are skipped.

`tests/run.sh airflow` runs them with an interpreter of their own (.venv-airflow); the jobs that they start run in the
project's .venv, as in production.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DAGS = ROOT / "jobs" / "airflow"
NOTIFIER = "spark_assign_test_notifier"

if importlib.util.find_spec("airflow") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    # Airflow reads these when it is imported.
    HOME = Path(tempfile.mkdtemp(prefix="airflow-"))
    os.environ.update(
        {
            "AIRFLOW_HOME": str(HOME),
            "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            "AIRFLOW_CONN_DATABRICKS_DEFAULT": json.dumps({"conn_type": "databricks", "host": "https://127.0.0.1:9"}),
            "PYTHONPATH": os.pathsep.join([str(HOME), os.environ.get("PYTHONPATH", "")]),
        }
    )
    sys.path[:0] = [str(DAGS), str(HOME)]
    # A notifier that writes a line: which task, how it ended, why.
    (HOME / f"{NOTIFIER}.py").write_text(
        """
from airflow.sdk.bases.notifier import BaseNotifier

class Line(BaseNotifier):
    def __init__(self, to):
        super().__init__()
        self.to = to

    def notify(self, context):
        ti = context["ti"]
        with open(self.to, "a") as file:
            why = context.get("exception") or ti.xcom_pull(task_ids=ti.task_id, key="alert")
            file.write(f"{ti.dag_id}.{ti.task_id} try {ti.try_number}: {why}\\n---\\n")
"""
    )

Airflow = Callable[..., "subprocess.CompletedProcess[str]"]


def imported(settings: Path) -> dict[str, Any]:
    """The DAGs by their id, imported from the folder as the DAG processor does it."""
    try:
        from airflow.dag_processing.dagbag import DagBag
    except ImportError:  # Airflow 3.0 and 3.1
        from airflow.models.dagbag import DagBag
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SPARK_ASSIGN_AIRFLOW", str(settings))
        bag = DagBag(dag_folder=DAGS)
    assert bag.import_errors == {}
    return dict(bag.dags)


@pytest.fixture(scope="session")
def airflow() -> Iterator[Airflow]:
    """A function: arguments of the command airflow to the finished process. The database is there."""

    def call(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "airflow", *arguments],
            cwd="/",
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    done = call("db", "migrate")
    assert done.returncode == 0, done.stderr
    yield call
    shutil.rmtree(HOME, ignore_errors=True)
