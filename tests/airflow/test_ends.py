"""Exit codes as Airflow sees them, and run ids."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, AirflowSkipException
from spark_assign_airflow.ends import of_databricks, of_spark_submit
from spark_assign_airflow.run_ids import run_id, safe

from spark_assign.sinks.plan_store import safe_run_id

ALERT = "Groups beyond a threshold: 1 imbalance\n  c/g  imbalance\ncheck: 1 alerts in 20261121T050000Z"


def submitted(code: int, output: str) -> AirflowException:
    """As SparkSubmitHook words it."""
    said = f"WARNING: Using incubator modules: jdk.incubator.vector\n{output}"
    return AirflowException(
        f"Cannot execute: spark-submit x.py. Error code is: {code}.\nLast spark-submit output:\n{said}"
    )


@pytest.mark.parametrize(
    ("job", "code", "output", "alert", "expected", "message"),
    [
        ("check", 1, ALERT, "fail", AirflowFailException, "c/g  imbalance"),
        ("check", 1, ALERT, "warn", AirflowSkipException, "c/g  imbalance"),
        ("check", 1, ALERT, "mail", AirflowFailException, "expected fail or warn"),
        ("check", 1, "JAVA_HOME is not set", "warn", AirflowException, "JAVA_HOME"),
        ("plan", 1, ALERT, "warn", AirflowException, "Error code is: 1"),
        ("plan", 2, "plan: there is no folder /x", "warn", AirflowFailException, "not tried again:\nplan: there is no"),
        ("plan", 3, "plan failed: IOException", "fail", AirflowException, "plan failed"),
        ("plan", 137, "Killed", "fail", AirflowException, "137"),
    ],
)
def test_ends_of_spark_submit(job: str, code: int, output: str, alert: str, expected: type, message: str) -> None:
    """An alert fails or skips, wrong input fails for good, the rest is tried again; a 1 of spark-submit is no alert."""
    told: list[str] = []
    with pytest.raises(AirflowException) as raised, of_spark_submit(job, alert, told.append):
        raise submitted(code, output)
    assert type(raised.value) is expected
    assert bool(told) == (job == "check" and output == ALERT)
    assert message in str(raised.value)


def ran(**errors: str) -> AirflowException:
    """As the Databricks operator words it."""
    failed = [{"task_key": task, "run_id": 7, "error": error} for task, error in errors.items()]
    return AirflowException(
        f"watch failed with terminal state: {{'result_state': 'FAILED'}} and with the errors {failed}"
    )


@pytest.mark.parametrize(
    ("error", "alert", "expected"),
    [
        (ran(check="SystemExit: 1"), "fail", AirflowFailException),
        (ran(check="SystemExit: 1"), "warn", AirflowSkipException),
        (ran(plan="SystemExit: 2"), "warn", AirflowFailException),
        (ran(compare="SystemExit: 3", drift="SystemExit: 2"), "warn", AirflowFailException),
        (ran(plan="SystemExit: 3"), "warn", AirflowException),
        (ran(compare="Cluster was terminated", check="SystemExit: 1"), "warn", AirflowException),
        (ran(check="ImportError: jinja2"), "warn", AirflowException),
        (AirflowException("watch failed with terminal state: TIMEDOUT"), "warn", AirflowException),
    ],
)
def test_ends_of_databricks(error: AirflowException, alert: str, expected: type) -> None:
    """The same, from the errors of the tasks that failed."""
    told: list[str] = []
    with pytest.raises(AirflowException) as raised, of_databricks(alert, told.append):
        raise error
    assert type(raised.value) is expected


@pytest.mark.parametrize(
    ("date", "dag_run_id", "expected"),
    [
        (datetime(2026, 11, 21, 5, tzinfo=UTC), "scheduled__x", "20261121T050000Z"),
        (datetime(2026, 11, 21, 6, tzinfo=timezone(timedelta(hours=1))), "scheduled__x", "20261121T050000Z"),
        (datetime(2026, 11, 21, 5, 0, 0, 7, tzinfo=UTC), "manual__x", "20261121T050000_000007Z"),
        (None, "nightly", "nightly"),
        (None, "manual__2026-11-21T00:00:00+00:00", "manual__2026-11-21T00_00_00_00_00-c755f2"),
    ],
)
def test_run_ids(date: datetime | None, dag_run_id: str, expected: str) -> None:
    """One per logical date, in any zone; the dag run's where there is none; always as the jobs store it."""
    found = run_id(SimpleNamespace(logical_date=date, run_id=dag_run_id))
    assert found == expected == safe_run_id(expected)


def test_run_ids_sort_by_time_and_are_what_the_jobs_make_of_them() -> None:
    """The drift is from the run before by name."""
    dates = [datetime(2026, 11, 21, 5, 0, s, us, tzinfo=UTC) for s in (0, 1) for us in (0, 1, 999_999)]
    ids = [run_id(SimpleNamespace(logical_date=date, run_id="")) for date in dates]
    assert ids == sorted(ids)
    for name in ("nightly", "a/b c", "ü" * 200, "manual__2026-11-21T00:00:00+00:00"):
        assert safe(name) == safe_run_id(name)
