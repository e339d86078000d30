"""The two operators: a job by spark-submit as ./spark-submit.sh would, or the bundle's job on Databricks."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.providers.databricks.operators.databricks import DatabricksRunNowOperator

from spark_assign_airflow.ends import of_databricks, of_spark_submit

ALERT = "alert"
"""The key of the XCom that has an alert's text."""

SET_UP_S = 1800
"""The first call may have to make the project's Python environment."""


class SparkAssignSubmitOperator(SparkSubmitOperator):
    """A job of a clone of this project. The connection says where Spark is; the clone, what is submitted and how.

    Args:
        job: its name: plan, compare, drift, …
        project: the folder of the clone, on the worker.
        environment: NAME of conf/spark/NAME.conf in it.
        alert: what an alert of `check` does: fail or warn (templated).
        makes: a folder of the worker that the job wants to be there; made if it is not.

    The driver runs on the worker (deploy mode client): only so the job's exit code and output come through.
    """

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "alert")

    def __init__(
        self,
        *,
        job: str,
        project: str,
        environment: str = "local",
        alert: str = "fail",
        makes: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=f"spark_assign {job}", deploy_mode="client", **kwargs)
        self.given_conf: Mapping[str, Any] = kwargs.get("conf") or {}
        self.given_variables: Mapping[str, str] = kwargs.get("env_vars") or {}
        self.job = job
        self.project = project
        self.environment = environment
        self.alert = alert
        self.makes = makes

    def execute(self, context: Any) -> None:
        """Run the job; see `ends` for how it may end."""
        self._as_the_launcher_does()
        if self.makes:
            Path(self.makes).mkdir(parents=True, exist_ok=True)
        with of_spark_submit(self.job, self.alert, _keep(context)):
            super().execute(context)

    def _as_the_launcher_does(self) -> None:
        """Binary, interpreter, package and settings as ./spark-submit.sh says, made now if they are not there yet."""
        settings = {**self.given_conf, "spark.master": "of the connection"}
        words = launched(self.project, self.environment, settings)
        given = {key: value for key, _, value in (word.partition("=") for word in words.of("--conf"))}
        for options in words.of("--driver-java-options"):
            given.setdefault("spark.driver.extraJavaOptions", options)
        given.pop("spark.master")
        self.conf = given
        self.application = str(Path(self.project) / "jobs" / f"{self.job}.py")
        (self.py_files,) = words.of("--py-files")
        (self.properties_file,) = words.of("--properties-file")
        self._spark_binary = words.binary
        self.env_vars = {**words.environment, **self.given_variables}


def _keep(context: Any) -> Callable[[str], object]:
    """The text of an alert as the XCom `alert` of the task."""
    return lambda said: context["ti"].xcom_push(key=ALERT, value=said)


class Launched:
    """A line of spark-submit taken apart: `env NAME=VALUE … BINARY --option value … FILE.py`."""

    def __init__(self, line: str) -> None:
        words = shlex.split(line)
        at = next(i for i, word in enumerate(words) if i and "=" not in word)
        self.environment = dict(word.split("=", 1) for word in words[1:at])
        self.binary = words[at]
        self.options = list(zip(words[at + 1 :: 2], words[at + 2 :: 2], strict=False))

    def of(self, option: str) -> list[str]:
        """All values of an option."""
        return [value for name, value in self.options if name == option]


def launched(project: str, environment: str, conf: Mapping[str, Any]) -> Launched:
    """What ./spark-submit.sh would run. Asked for `report`, which needs most of the project's extras.

    Raises:
        AirflowFailException: there is no clone there, or it does not know the environment.
        AirflowException: it could not be set up.
    """
    launcher = Path(project) / "spark-submit.sh"
    if not launcher.is_file():
        raise AirflowFailException(f"project {project}: there is no spark-submit.sh; give the folder of a clone")
    settings = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    command = [str(launcher), "--env", environment, *settings, "--dry-run", "report"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SET_UP_S, check=False)
    if done.returncode:
        kind = AirflowFailException if done.returncode == 2 else AirflowException
        raise kind(f"{shlex.join(command)} ended with {done.returncode}:\n{done.stderr.strip()}")
    return Launched(done.stdout.strip().splitlines()[-1])


class SparkAssignDatabricksOperator(DatabricksRunNowOperator):
    """A run of the bundle's job (databricks.yml), with the parameters that differ from its own.

    Args:
        alert: what an alert of its task `check` does: fail or warn (templated).
    """

    template_fields: Sequence[str] = (*DatabricksRunNowOperator.template_fields, "alert")

    def __init__(self, *, alert: str = "fail", **kwargs: Any) -> None:
        # Not durable: cleared and run again, a date is planned again and not taken for what has succeeded already.
        super().__init__(durable=False, **kwargs)
        self.alert = alert

    def execute(self, context: Any) -> None:
        """Run the job; see `ends` for how it may end."""
        with of_databricks(self.alert, _keep(context)):
            super().execute(context)

    def execute_complete(self, context: Any, event: Any = None) -> None:
        """The same, where Airflow waits in its triggerer."""
        with of_databricks(self.alert, _keep(context)):
            super().execute_complete(context, event)
