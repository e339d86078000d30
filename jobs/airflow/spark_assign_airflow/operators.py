"""The two operators: run a job with spark-submit, as ./spark-submit.sh does, or the bundle's job on Databricks."""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.providers.databricks.operators.databricks import DatabricksRunNowOperator

from spark_assign_airflow.ends import Outcome, checked, judge, not_done, read, why

ALERT = "alert"
"""Key of the XCom with the text of an alert."""

SET_UP_S = 1800
"""Timeout in seconds: the first call might create the project's Python environment."""


class SparkAssignSubmitOperator(SparkSubmitOperator):
    """Runs a job of a clone of this project. The connection specifies the Spark master, the clone everything else.

    Args:
        job: name of the job: plan, compare, diff, …
        project: folder of the clone on the worker.
        environment: NAME of conf/spark/NAME.conf in the clone.
        alert: effect of an alert of `check`: fail or warn (templated).
        makes: folder on the worker that the job needs; created if it doesn't exist.
        outcomes: folder or URI for outcomes, which driver and worker share (templated). Not needed in client mode.
        deploy_mode: client (the driver runs on the worker) or cluster.
        partition: partition of the asset events (templated); empty: none.
    """

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "alert", "outcomes", "partition")

    def __init__(
        self,
        *,
        job: str,
        project: str,
        environment: str = "local",
        alert: str = "fail",
        makes: str | None = None,
        outcomes: str = "",
        deploy_mode: str = "client",
        partition: str = "",
        **kwargs: Any,
    ) -> None:
        # Not durable: a retry plans the date again instead of continuing an earlier try.
        super().__init__(name=f"spark_assign {job}", deploy_mode=deploy_mode, durable=False, **kwargs)
        self.given_conf: Mapping[str, Any] = kwargs.get("conf") or {}
        self.given_variables: Mapping[str, str] = kwargs.get("env_vars") or {}
        self.job = job
        self.project = project
        self.environment = environment
        self.alert = alert
        self.makes = makes
        self.outcomes = outcomes
        self.in_cluster = deploy_mode == "cluster"
        self.partition = _if_supported(partition)

    def execute(self, context: Any) -> None:
        """Run the job; see `ends` for how it may end."""
        if self.in_cluster and not self.outcomes:
            raise AirflowFailException("deploy_mode cluster: specify outcomes, a location that driver and worker share")
        arguments: list[str] = self.application_args or []  # type: ignore[has-type]
        _refuse_nul({"outcomes": self.outcomes, **{f"argument {at}": word for at, word in enumerate(arguments, 1)}})
        self._as_the_launcher_does()
        if self.makes:
            Path(self.makes).mkdir(parents=True, exist_ok=True)
        own = None if self.outcomes else tempfile.mkdtemp(prefix="spark-assign-")
        # A unique name per try, so that the outcome of an earlier try is never used.
        name = f"{self.job}-try{context['ti'].try_number}-{secrets.token_hex(4)}.json"
        place = f"{(own or self.outcomes).rstrip('/')}/{name}"
        self.application_args = [*arguments, "--outcome", place]
        try:
            self._run(context, place)
            add_partition(context, self.outlets, self.partition)
        finally:
            if own:
                shutil.rmtree(own, ignore_errors=True)

    def _run(self, context: Any, place: str) -> None:
        try:
            super().execute(context)
        except AirflowException as error:
            ended = read(place)
            judge({self.job: ended}, self.alert, _keep(context))
            if ended is not None and ended["exit_code"]:
                raise AirflowException(f"{self.job} failed: {why(ended)}") from error
            raise
        ended = read(place)
        judge({self.job: ended}, self.alert, _keep(context))
        if problem := not_done({self.job: ended}):
            raise AirflowException(f"{problem}\nThe expected outcome file is {place}")

    def _as_the_launcher_does(self) -> None:
        """Sets binary, interpreter, package, and settings as ./spark-submit.sh does; it creates them if necessary."""
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
        # In a cluster, the driver has the cluster's environment; Airflow rejects variables for a standalone cluster.
        self.env_vars = {**({} if self.in_cluster else words.environment), **self.given_variables}


def _keep(context: Any) -> Callable[[str], object]:
    """Returns a function that stores the text of an alert as the XCom `alert` of the task."""
    return lambda said: context["ti"].xcom_push(key=ALERT, value=said)


def _refuse_nul(values: Mapping[str, Any]) -> None:
    """Raises AirflowFailException if a key or a value has a NUL character: no program can be started with it."""
    for key, value in values.items():
        if "\0" in f"{key}{value}":
            raise AirflowFailException(f"{key!r} has a NUL character, which no argument can have. Remove it")


def _if_supported(partition: str) -> str:
    """Returns the partition. Raises ValueError, an import error of the DAG, if this Airflow has no asset partitions."""
    from airflow.sdk.execution_time.context import OutletEventAccessor

    if partition and not hasattr(OutletEventAccessor, "add_partitions"):
        raise ValueError("partitioned_assets needs a newer Airflow, whose asset events have partitions, such as 3.3")
    return partition


def add_partition(context: Any, outlets: Sequence[Any], partition: str) -> None:
    """Gives the events of the outlets a partition. Empty: none."""
    for outlet in outlets if partition else ():
        context["outlet_events"][outlet].add_partitions(partition)


class Launched:
    """A parsed command of spark-submit: `env NAME=VALUE … BINARY --option value … FILE.py`.

    The command starts a line of the text. A quoted value can contain line ends.
    """

    def __init__(self, text: str) -> None:
        words = shlex.split(text[f"\n{text}".index("\nenv ") :])
        at = next(i for i, word in enumerate(words) if i and "=" not in word)
        self.environment = dict(word.split("=", 1) for word in words[1:at])
        at += 4 * (words[at] == "sh")  # which starts a program with = in its path
        self.binary = words[at]
        self.options = list(zip(words[at + 1 :: 2], words[at + 2 :: 2], strict=False))

    def of(self, option: str) -> list[str]:
        """Returns all values of an option."""
        return [value for name, value in self.options if name == option]


def launched(project: str, environment: str, conf: Mapping[str, Any]) -> Launched:
    """Returns the command that ./spark-submit.sh runs for `report`, the job that needs the most extras.

    Raises:
        AirflowFailException: the folder isn't a clone, the environment is unknown, or a value has a NUL.
        AirflowException: the set-up failed.
    """
    launcher = Path(project) / "spark-submit.sh"
    if not launcher.is_file():
        raise AirflowFailException(f"project {project}: no spark-submit.sh found; specify the folder of a clone")
    settings = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    command = [str(launcher), "--env", environment, *settings, "--dry-run", "report"]
    _refuse_nul({**conf, "environment": environment})
    done = subprocess.run(command, capture_output=True, timeout=SET_UP_S, check=False)
    if done.returncode:
        kind = AirflowFailException if done.returncode == 2 else AirflowException
        shown = [word.partition("=")[0] + "=…" if word in settings[1::2] else word for word in command]  # no secrets
        raise kind(f"{shlex.join(shown)} ended with {done.returncode}:\n{os.fsdecode(done.stderr).strip()}")
    return Launched(os.fsdecode(done.stdout))


class SparkAssignDatabricksOperator(DatabricksRunNowOperator):
    """Runs the bundle's job (databricks.yml), with the parameters that differ from its defaults.

    Args:
        alert: effect of an alert of its task `check`: fail or warn (templated).
        partition: partition of the asset events (templated); empty: none.
    """

    template_fields: Sequence[str] = (*DatabricksRunNowOperator.template_fields, "alert", "partition")

    def __init__(self, *, alert: str = "fail", partition: str = "", **kwargs: Any) -> None:
        # Not durable: a cleared task plans the date again instead of reusing the earlier success.
        super().__init__(durable=False, **kwargs)
        self.alert = alert
        self.partition = _if_supported(partition)

    def execute(self, context: Any) -> None:
        """Run the job; see `ends` for how it may end."""
        try:
            super().execute(context)
        except AirflowException:
            self._judge(context, getattr(self, "run_id", None))
            raise
        add_partition(context, self.outlets, self.partition)

    def execute_complete(self, context: Any, event: Any = None) -> None:
        """Continues after Airflow waited in its triggerer."""
        try:
            super().execute_complete(context, event)
        except AirflowException:
            self._judge(context, (event or {}).get("run_id"))
            raise
        add_partition(context, self.outlets, self.partition)

    def _judge(self, context: Any, run_id: Any) -> None:
        """Judges the outcomes that the failed tasks wrote to the volume; other failures are retried."""
        if run_id is not None:
            judge(failed_tasks(self._hook, run_id), self.alert, _keep(context))


def failed_tasks(hook: Any, run_id: Any) -> dict[str, Outcome | None]:
    """Returns the outcomes of the failed tasks of a run, by name; None for tasks that wrote none.

    Args:
        hook: the Databricks hook.
        run_id: run ID of the bundle's job, whose parameter `outcomes` is a folder in a volume: OUTCOMES/RUN/TASK.json.
    """
    run = hook.get_run(run_id)
    # Fields of the answer can be null or missing.
    parameters = {each.get("name"): each.get("value", each.get("default")) for each in run.get("job_parameters") or ()}
    folder = f"{parameters.get('outcomes') or ''}/{run_id}"
    # A repaired task is listed once per attempt; the last attempt counts.
    last = {task.get("task_key"): task.get("state") or {} for task in run.get("tasks") or ()}
    ends = ("FAILED", "TIMEDOUT", "CANCELED")
    failed = [name for name, state in last.items() if name and state.get("result_state") in ends]
    return {name: _in_volume(hook, f"{folder}/{name}.json") for name in failed}


def _in_volume(hook: Any, file: str) -> Outcome | None:
    try:
        found = hook._do_api_call(("GET", f"2.0/fs/files{file}"))
    except AirflowException:  # missing or not readable: Airflow retries
        return None
    return checked(found)
