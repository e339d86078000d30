"""What the end of a job means to Airflow: an alert, wrong input, or a failure that may pass.

0  done
1  `check`: groups are beyond a threshold. Somebody is told; the same again would end the same: no retry
2  wrong usage or input: nothing was written, and no retry mends it
3  failure (a broker or a disk that was away): as many retries as the DAG has, like whatever else goes wrong
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, AirflowSkipException

ALERTS = ("fail", "warn")
"""What an alert does to the task: it fails, or is skipped and the run stays a success."""

Tell = Callable[[str], object]
"""Keeps the text of an alert: Airflow gives callbacks of a skipped task no exception to read it from."""

_OF_SPARK_SUBMIT = re.compile(r"Error code is: (\d+)\.")
_OUTPUT = re.compile(r"\nLast spark-submit output:\n(.*)", re.DOTALL)
_NOISE = re.compile(r"^WARNING: Using incubator modules.*\n", re.MULTILINE)  # Java's, with every start of Spark
_OF_CHECK = re.compile(r"^check: [\d,]+ alerts in ", re.MULTILINE)
_TASK = r"(?:(?!'task_key').)*?"
_OF_DATABRICKS = re.compile(rf"'task_key': '(\w+)'{_TASK}'error':{_TASK}SystemExit: (\d+)", re.DOTALL)


@contextmanager
def of_spark_submit(job: str, alert: str, tell: Tell) -> Iterator[None]:
    """Reads the exit code, and what the job said last, from the exception of a SparkSubmitOperator.

    Raises:
        AirflowFailException: wrong input, or an alert that is to fail.
        AirflowSkipException: an alert that is to warn.
        AirflowException: as it came; Airflow retries.
    """
    try:
        yield
    except AirflowException as error:
        found, output = _OF_SPARK_SUBMIT.search(str(error)), _OUTPUT.search(str(error))
        said = _NOISE.sub("", output[1]).strip() if output else str(error)
        # spark-submit ends with 1 for reasons of its own as well (no Java): an alert is what `check` has called one.
        if found and int(found[1]) == 1 and job == "check" and _OF_CHECK.search(said):
            tell(said)
            raise_alert(said, alert)
        if found and int(found[1]) == 2:
            raise AirflowFailException(
                f"{job}: wrong usage or input (exit code 2), not tried again:\n{said}"
            ) from error
        raise


@contextmanager
def of_databricks(alert: str, tell: Tell) -> Iterator[None]:
    """The same from the exception of a DatabricksRunNowOperator, which lists the failed tasks with their errors."""
    try:
        yield
    except AirflowException as error:
        codes = {task: int(code) for task, code in _OF_DATABRICKS.findall(str(error))}
        if codes == {"check": 1} and str(error).count("'task_key'") == 1:
            tell(said := f"the task check of the Databricks run lists the groups. {error}")
            raise_alert(said, alert)
        if 2 in codes.values():
            raise AirflowFailException(f"wrong usage or input (exit code 2), not tried again: {error}") from error
        raise


def raise_alert(said: str, alert: str) -> None:
    """An alert as the DAG wants it."""
    if alert not in ALERTS:
        raise AirflowFailException(f"alert is {alert!r}: expected {' or '.join(ALERTS)}; the alert was:\n{said}")
    raise (AirflowSkipException if alert == "warn" else AirflowFailException)(f"beyond the thresholds:\n{said}")
