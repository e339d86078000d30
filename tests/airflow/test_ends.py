"""Outcomes of jobs as Airflow sees them, and run ids."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, AirflowSkipException
from airflow.providers.databricks.exceptions import DatabricksApiError
from spark_assign_airflow.ends import judge, not_done, read, why
from spark_assign_airflow.operators import SparkAssignDatabricksOperator, failed_tasks
from spark_assign_airflow.run_ids import run_id, safe

from spark_assign.cli.job import Outcome, write
from spark_assign.stores.run_store import safe_run_id
from tests.cases import cases

ALERT = "Groups beyond a threshold: imbalance 1\n  c/g  imbalance\ncheck: 1 alerts in 20261121T050000Z"


def outcome(job: str, code: int, message: str | None = None, summary: str | None = None) -> dict[str, Any]:
    """As the job writes it."""
    made = Outcome(job, summary=summary)
    if message:
        made.failed("SourceError", message)
    made.ended(code)
    found: dict[str, Any] = json.loads(made.as_json())
    return found


CHECK = outcome("check", 1, summary=ALERT)
WRONG = outcome("plan", 2, "there is no folder /x")
FAILED = outcome("compare", 3, "java.io.IOException: disk full")


@cases(
    "ended alert expected message",
    ({"check": CHECK}, "fail", AirflowFailException, "c/g  imbalance"),
    ({"check": CHECK}, "warn", AirflowSkipException, "c/g  imbalance"),
    ({"daily": CHECK}, "warn", AirflowSkipException, "c/g  imbalance"),
    ({"check": CHECK}, "mail", AirflowFailException, "expected fail or warn"),
    ({"plan": WRONG}, "warn", AirflowFailException, "not retried:\nplan: there is no folder /x"),
    ({"compare": FAILED, "plan": WRONG}, "warn", AirflowFailException, "plan: wrong usage"),
    ({"plan": {**WRONG, "exit_code": 1}}, "warn", None, ""),
    ({"compare": FAILED}, "fail", None, ""),
    ({"check": None}, "warn", None, ""),
    ({"compare": None, "check": CHECK}, "warn", None, ""),
    ({"compare": FAILED, "check": CHECK}, "warn", None, ""),
    ({"plan": outcome("plan", 0)}, "warn", None, ""),
)
def test_ends(ended: Any, alert: str, expected: type | None, message: str) -> None:
    """An alert fails or skips, wrong input fails for good, the rest is Airflow's to try again."""
    alerts: list[str] = []
    if expected is None:
        judge(ended, alert, alerts.append)
    else:
        with pytest.raises(AirflowException) as raised:
            judge(ended, alert, alerts.append)
        assert type(raised.value) is expected
        assert message in str(raised.value)
    assert alerts == ([ALERT] if list(ended.values()) == [CHECK] else [])


def test_messages_of_a_job_that_failed() -> None:
    """Its own words, or that it has left none."""
    assert why(FAILED) == "java.io.IOException: disk full"
    assert "wrote no outcome" in why(None)
    assert not_done({"plan": outcome("plan", 0)}) is None
    assert not_done({"compare": FAILED}) == "compare: java.io.IOException: disk full"


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_an_outcome_is_read_as_the_job_writes_it(tmp_path: Path, scheme: str) -> None:
    """By path and by URI; none where there is none, or something else."""
    place = f"{scheme}{tmp_path}/plan.json"
    assert read(place) is None
    made = Outcome("plan")
    made.ended(2)
    write(made, place)
    assert (read(place) or {})["exit_code"] == 2
    for text in ("{", "[]", '{"exit_code": null}', '{"exit_code": 3, "error": "x"}', '{"exit_code": 3}\xff'):
        (tmp_path / "plan.json").write_bytes(text.encode("latin-1"))
        assert read(place) is None
    (tmp_path / "plan.json").unlink()
    (tmp_path / "plan.json").symlink_to("plan.json")  # a circle
    assert read(place) is None
    (tmp_path / "plan.json").unlink()
    (tmp_path / "plan.json").mkdir()
    assert read(place) is None


class Workspace:
    """A stub of Databricks' hook: a run, and files of a volume."""

    def __init__(self, files: dict[str, Any], **states: str) -> None:
        self.files = files
        self.run = {
            "job_parameters": [
                {"name": "outcomes", "default": "/Volumes/m/k/r/outcomes"},
                {"name": "run_id", "value": "r"},
            ],
            "tasks": [{"task_key": name, "state": {"result_state": state}} for name, state in states.items()],
        }

    def get_run(self, run_id: int) -> dict[str, Any]:
        """Run 7."""
        assert run_id == 7
        return self.run

    def _do_api_call(self, endpoint: tuple[str, str]) -> Any:
        method, path = endpoint
        assert method == "GET"
        name = path.removeprefix("2.0/fs/files/Volumes/m/k/r/outcomes/7/")
        if name not in self.files:
            raise DatabricksApiError("no such file", http_status_code=404)
        return self.files[name]


def test_outcomes_of_a_run_on_databricks() -> None:
    """Of the tasks that failed; what comes after them is no failure of its own."""
    workspace = Workspace(
        {"compare.json": FAILED}, plan="SUCCESS", compare="FAILED", diff="FAILED", report="UPSTREAM_FAILED"
    )
    assert failed_tasks(workspace, 7) == {"compare": FAILED, "diff": None}
    workspace.run["tasks"] += [{"state": {"result_state": "FAILED"}}, {"task_key": "check", "state": None}]
    assert failed_tasks(workspace, 7) == {"compare": FAILED, "diff": None}
    workspace.run = {"tasks": None, "job_parameters": None}
    assert failed_tasks(workspace, 7) == {}


@cases(
    "files states alert expected",
    ({"check.json": CHECK}, {"check": "FAILED"}, "fail", AirflowFailException),
    ({"check.json": CHECK}, {"check": "FAILED"}, "warn", AirflowSkipException),
    ({"plan.json": WRONG}, {"plan": "FAILED"}, "warn", AirflowFailException),
    ({"compare.json": FAILED}, {"compare": "FAILED"}, "warn", AirflowException),
    ({}, {"check": "FAILED"}, "warn", AirflowException),
    ({}, {"plan": "TIMEDOUT"}, "warn", AirflowException),
)
@pytest.mark.parametrize("deferred", [False, True])
def test_ends_of_databricks(
    files: Any, states: Any, alert: str, expected: type, deferred: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same, whether the worker has waited or the triggerer."""
    parent = SparkAssignDatabricksOperator.__mro__[1]

    def fails(self: Any, context: Any, event: Any = None) -> None:
        self.run_id = 7
        raise AirflowException("watch failed with terminal state")

    monkeypatch.setattr(parent, "execute_complete" if deferred else "execute", fails)
    monkeypatch.setattr(SparkAssignDatabricksOperator, "_hook", Workspace(files, **states))
    operator = SparkAssignDatabricksOperator(task_id="watch", job_id=1, alert=alert)
    pushed: list[Any] = []
    context = {"ti": SimpleNamespace(xcom_push=lambda **given: pushed.append(given["value"]))}
    with pytest.raises(AirflowException) as raised:
        operator.execute_complete(context, {"run_id": 7}) if deferred else operator.execute(context)
    assert type(raised.value) is expected
    assert pushed == ([ALERT] if "check.json" in files else [])


@cases(
    "date dag_run_id expected",
    (datetime(2026, 11, 21, 5, tzinfo=UTC), "scheduled__x", "20261121T050000Z"),
    (datetime(2026, 11, 21, 6, tzinfo=timezone(timedelta(hours=1))), "scheduled__x", "20261121T050000Z"),
    (datetime(2026, 11, 21, 5, 0, 0, 7, tzinfo=UTC), "manual__x", "20261121T050000_000007Z"),
    (None, "nightly", "nightly"),
    (None, "manual__2026-11-21T00:00:00+00:00", "manual__2026-11-21T00_00_00_00_00-c755f2"),
)
def test_run_ids(date: datetime | None, dag_run_id: str, expected: str) -> None:
    """One per logical date, in any zone; the dag run's where there is none; always as the jobs store it."""
    assert run_id(SimpleNamespace(logical_date=date, run_id=dag_run_id)) == expected == safe_run_id(expected)


def test_run_ids_sort_by_time_and_are_what_the_jobs_make_of_them() -> None:
    """The drift is from the run before by name."""
    dates = [datetime(2026, 11, 21, 5, 0, s, us, tzinfo=UTC) for s in (0, 1) for us in (0, 1, 999_999)]
    ids = [run_id(SimpleNamespace(logical_date=date, run_id="")) for date in dates]
    assert ids == sorted(ids)
    for name in ("nightly", "a/b c", "ü" * 200, "manual__2026-11-21T00:00:00+00:00"):
        assert safe(name) == safe_run_id(name)
