"""Converts the exit code of a job to an Airflow result: success, alert, wrong input, or a failure to retry.

0  success
1  `check`, `daily`: groups exceed a threshold. The notifier is called. No retry, because the result would be the same
2  wrong usage or input: nothing was written. No retry
3  failure (for example, a broker or a disk was unavailable): retried as the DAG specifies, like any other error

The exit code is that in the job's outcome (`--outcome FILE`). The exit code of spark-submit differs if the driver runs
in a cluster, and the text of exceptions isn't stable. A job without an outcome ended early, and is retried.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from spark_assign_airflow.settings import ALERTS

Tell = Callable[[str], object]
"""Stores the text of an alert. (Airflow passes no exception to the callbacks of a skipped task.)"""

Outcome = Mapping[str, Any]
"""The JSON of `spark_assign.cli.job.Outcome`."""


def read(place: str) -> Outcome | None:
    """Returns the outcome of a job, or None if it wrote none.

    Args:
        place: a local path, or a URI that Airflow's object storage supports.
    """
    if "://" in place and not place.startswith("file:"):
        from airflow.sdk import ObjectStoragePath

        file: Any = ObjectStoragePath(place.replace("s3a://", "s3://", 1))
    else:
        file = Path("/" + place.removeprefix("file:").lstrip("/") if place.startswith("file:") else place)
    try:
        return of_text(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # none, not readable, or not UTF-8: the job's own error is more useful
        return None


def of_text(text: str) -> Outcome | None:
    """Returns the outcome in a text, or None if the text isn't one."""
    try:
        return checked(json.loads(text))
    except (ValueError, RecursionError):
        return None


def checked(found: Any) -> Outcome | None:
    """Returns a value of JSON if it is an outcome, otherwise None."""
    is_one = isinstance(found, dict) and isinstance(found.get("exit_code"), int)
    return found if is_one and isinstance(found.get("error"), dict | None) else None


def judge(ended: Mapping[str, Outcome | None], alert: str, tell: Tell) -> None:
    """Raises the exception that ends the task. Returns if all jobs succeeded, or if Airflow may retry the task.

    Args:
        ended: outcomes of the failed jobs, or of the only job.
        alert: effect of an alert of `check` or `daily`: fail or warn.
        tell: called with the text of an alert.

    Raises:
        AirflowFailException: wrong input, or an alert with `fail`.
        AirflowSkipException: an alert with `warn`.
    """
    codes = {job: outcome["exit_code"] for job, outcome in ended.items() if outcome is not None}
    if wrong := [job for job, code in codes.items() if code == 2]:
        said = "\n".join(f"{job}: {why(ended[job])}" for job in wrong)
        raise AirflowFailException(f"{', '.join(wrong)}: wrong usage or input (exit code 2), not retried:\n{said}")
    if codes in ({"check": 1}, {"daily": 1}) and len(ended) == 1:
        ((job, outcome),) = ended.items()
        tell(said := str((outcome or {}).get("summary") or f"{job}: groups exceed a threshold"))
        raise_alert(said, alert)


def why(outcome: Outcome | None) -> str:
    """Returns the error message of a job."""
    if outcome is None:
        return "it wrote no outcome; see its log"
    error = outcome.get("error") or {}
    return str(error.get("message") or f"exit code {outcome['exit_code']}")


def not_done(ended: Mapping[str, Outcome | None]) -> str | None:
    """Returns the jobs that didn't succeed although spark-submit reports success, or None."""
    lines = [f"{job}: {why(each)}" for job, each in ended.items() if each is None or each["exit_code"] != 0]
    return "\n".join(lines) or None


def raise_alert(said: str, alert: str) -> None:
    """Raises an alert with the effect that the DAG specifies."""
    if alert not in ALERTS:
        raise AirflowFailException(f"alert is {alert!r}: expected {' or '.join(ALERTS)}; the alert was:\n{said}")
    raise (AirflowSkipException if alert == "warn" else AirflowFailException)(f"beyond the thresholds:\n{said}")
