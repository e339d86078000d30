"""What the end of a job means to Airflow: an alert, wrong input, or a failure that may pass.

0  done
1  `check`: groups are beyond a threshold. Somebody is told; the same again would end the same: no retry
2  wrong usage or input: nothing was written, and no retry mends it
3  failure (a broker or a disk that was away): as many retries as the DAG has, like whatever else goes wrong

The job says so itself, in its outcome (`--outcome FILE`): exit codes of spark-submit are other ones where the driver
runs in a cluster, and texts of exceptions are nobody's promise. Where there is no outcome the job did not get so far.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from spark_assign_airflow.settings import ALERTS

Tell = Callable[[str], object]
"""Keeps the text of an alert: Airflow gives callbacks of a skipped task no exception to read it from."""

Outcome = Mapping[str, Any]
"""As `spark_assign.cli.outcome.Outcome` is written."""


def read(place: str) -> Outcome | None:
    """The outcome of a job that has ended; null where it left none.

    Args:
        place: a path of this machine, or a URI that Airflow's object storage reads.
    """
    if "://" in place and not place.startswith("file:"):
        from airflow.sdk import ObjectStoragePath

        file: Any = ObjectStoragePath(place.replace("s3a://", "s3://", 1))
    else:
        file = Path("/" + place.removeprefix("file:").lstrip("/") if place.startswith("file:") else place)
    try:
        return of_text(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def of_text(text: str) -> Outcome | None:
    """The outcome in a file; null where it is something else."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("exit_code"), int) else None


def judge(ended: Mapping[str, Outcome | None], alert: str, tell: Tell) -> None:
    """End the task as its jobs have ended; returns where Airflow may try again, and where all is well.

    Args:
        ended: the outcome of every job that has failed, or of the only one.
        alert: what an alert of `check` does: fail or warn.
        tell: is called with an alert's text.

    Raises:
        AirflowFailException: wrong input, or an alert that is to fail.
        AirflowSkipException: an alert that is to warn.
    """
    codes = {job: outcome["exit_code"] for job, outcome in ended.items() if outcome is not None}
    if wrong := [job for job, code in codes.items() if code == 2]:
        said = "\n".join(f"{job}: {why(ended[job])}" for job in wrong)
        raise AirflowFailException(f"{', '.join(wrong)}: wrong usage or input (exit code 2), not tried again:\n{said}")
    if codes == {"check": 1} and len(ended) == 1:
        tell(said := str((ended["check"] or {}).get("summary") or "check: there are groups beyond a threshold"))
        raise_alert(said, alert)


def why(outcome: Outcome | None) -> str:
    """What a job says of its end."""
    if outcome is None:
        return "it left no outcome; its log says how far it came"
    error = outcome.get("error") or {}
    return str(error.get("message") or f"exit code {outcome['exit_code']}")


def not_done(ended: Mapping[str, Outcome | None]) -> str | None:
    """Which jobs are not known to be done though whoever ran them says so; null where all are."""
    lines = [f"{job}: {why(each)}" for job, each in ended.items() if each is None or each["exit_code"] != 0]
    return "\n".join(lines) or None


def raise_alert(said: str, alert: str) -> None:
    """An alert as the DAG wants it."""
    if alert not in ALERTS:
        raise AirflowFailException(f"alert is {alert!r}: expected {' or '.join(ALERTS)}; the alert was:\n{said}")
    raise (AirflowSkipException if alert == "warn" else AirflowFailException)(f"beyond the thresholds:\n{said}")
