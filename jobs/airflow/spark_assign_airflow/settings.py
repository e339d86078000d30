"""What a user sets: a TOML file with a table [[dag]] for every DAG. conf/airflow.toml has every key with a comment.

Of Airflow nothing is imported, so that `spark-assign config` can check a file where there is none.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from spark_assign_airflow.settings_errors import faults, listed

CLONE = Path(__file__).resolve().parents[3]
"""Where this file is part of a clone; installed as a package it is none, and file and project have to be named."""
IS_CLONE = (CLONE / "spark-submit.sh").is_file()
VARIABLE = "SPARK_ASSIGN_AIRFLOW"
"""The environment variable that names the file; without it the clone's conf/airflow.toml is read."""

Alert = Literal["fail", "warn"]
ALERTS = get_args(Alert)
"""What an alert does to the task: it fails, or is skipped and the run stays a success."""

Step = Literal["snapshot", "plan", "compare", "drift", "history", "report", "check"]
_PLACES = (
    "fleet",
    "records",
    "plans",
    "comparisons",
    "drifts",
    "histories",
    "reports",
    "snapshots",
    "outcomes",
    "project",
    "output",
)
_OF_HISTORY = ("max_rebalances_per_day", "max_pause", "max_unreadable")
_ONLY_ON_SPARK = (
    *("bootstrap_server", "snapshots", "project", "environment", "conf", "arguments", "deploy_mode"),
    *("records", "histories", "history_lookback", *_OF_HISTORY),
)


class SettingsError(ValueError):
    """The file cannot be used; says which key of which DAG, and what was expected, of every fault."""


def _tuple(given: Any) -> Any:
    return tuple(given) if isinstance(given, list) else given


def _time(given: Any) -> Any:
    """A date is midnight in UTC."""
    if isinstance(given, date):
        at = given if isinstance(given, datetime) else datetime(given.year, given.month, given.day)
        return at if at.tzinfo else at.replace(tzinfo=UTC)
    return given


AsTuple = BeforeValidator(_tuple)


class Table(BaseModel):
    """No keys but its own, no value of another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Settings(Table):
    """One DAG. Places are folders, URIs or catalog prefixes; `reports` is a folder that the driver can write to.

    A place that is empty is OUTPUT/NAME on Spark, and the default of the bundle's job on Databricks.
    """

    dag_id: str
    runs_on: Literal["spark", "databricks"] = "spark"
    schedule: str | None = Field(default=None, description="cron, or @daily and the like; without it only by hand")
    start_date: Annotated[datetime, BeforeValidator(_time)] = datetime(2026, 1, 1, tzinfo=UTC)
    catchup: bool = False
    retries: int = Field(default=2, ge=0, description="of what may pass; alerts and wrong input are never tried again")
    retry_delay_s: float = Field(default=300, ge=0)
    tags: Annotated[tuple[str, ...], AsTuple] = ("kafka", "spark_assign")
    notify: dict[str, Any] = Field(default={}, description="a notifier of Airflow: its class, and its arguments")
    conn_id: str = Field(default="", description="default: spark_default, or databricks_default")
    fleet: str = Field(default="", description="tables that something else keeps")
    bootstrap_server: str = Field(default="", description="or a cluster, of which the first task takes a snapshot")
    records: str = Field(default="", description="records that history --follow keeps; else bootstrap_server has them")
    output: str = Field(default="", description="a folder for everything")
    plans: str = ""
    comparisons: str = ""
    drifts: str = ""
    histories: str = ""
    reports: str = ""
    snapshots: str = ""
    outcomes: str = Field(default="", description="how jobs ended; a place that worker and driver both see")
    assignor: str = "configured"
    assignors: Annotated[tuple[str, ...], AsTuple] = ("range", "roundrobin", "sticky", "cooperative-sticky")
    max_growth: float = Field(default=1.25, ge=1)
    max_rejected: int = Field(default=0, ge=0)
    max_rebalances_per_day: int | None = Field(
        default=None, ge=0, description="with one of these three: a task history"
    )
    max_pause: str = Field(default="", pattern=r"^(\d+(\.\d+)?\s*(ms|s|m|min|h|d))?$", description="such as 10m")
    max_unreadable: int | None = Field(default=None, ge=0)
    history_lookback: str = Field(
        default="1d",
        pattern=r"^\d+(\.\d+)?\s*(ms|s|m|min|h|d)$",
        description="how far back an alert of the past is one",
    )
    alert: Alert = Field(default="fail", description="fail: the task and the run; warn: the task is skipped")
    project: str = Field(default=str(CLONE) if IS_CLONE else "", description="the clone on the workers")
    environment: str = Field(default="local", description="NAME of conf/spark/NAME.conf in it")
    deploy_mode: Literal["client", "cluster"] = Field(
        default="client", description="where the driver runs: worker or cluster"
    )
    conf: dict[str, Any] = Field(default={}, description="settings of Spark")
    arguments: dict[Step, list[str]] = Field(default={}, description="more arguments by job")
    deferrable: bool = Field(default=False, description="databricks: wait in the triggerer and not in a worker")
    job_name: str = "spark_assign watch"

    def place(self, name: str) -> str:
        """Where a job's tables are."""
        given: str = getattr(self, name)
        return given or (f"{self.output.rstrip('/')}/{name}" if self.output else "")

    @property
    def with_history(self) -> bool:
        """Whether the history of groups is told: there is a threshold for it."""
        return bool(self.past)

    @property
    def past(self) -> dict[str, str]:
        """The thresholds of the history that are set, as the job check takes them."""
        given = {f"--{name.replace('_', '-')}": getattr(self, name) for name in _OF_HISTORY}
        return {flag: str(value) for flag, value in given.items() if value not in (None, "")}

    def more(self, step: str) -> list[str]:
        """The arguments that a job gets besides."""
        return next((words for name, words in self.arguments.items() if name == step), [])

    @model_validator(mode="after")
    def _fits_together(self) -> Settings:
        if problems := list(self._problems()):
            raise ValueError("\n".join(problems))
        return self

    def _problems(self) -> Iterator[str]:
        """What is wrong between the keys."""
        if self.notify and not isinstance(self.notify.get("class"), str):
            yield "notify: give the notifier as class, such as airflow.providers.smtp.notifications.smtp.SmtpNotifier"
        if self.runs_on == "databricks":
            if misplaced := sorted(self.model_fields_set & {*_ONLY_ON_SPARK, "output"}):
                yield f"{', '.join(misplaced)}: not for databricks, where the bundle says how and where"
            return
        if self.deferrable:
            yield "deferrable: only for databricks; spark-submit is waited for by the worker"
        if bool(self.fleet) == bool(self.bootstrap_server):
            yield "give fleet (tables that something else keeps) or bootstrap_server (a cluster to take a snapshot of)"
        if self.with_history and not (self.records or self.bootstrap_server):
            yield "give records (what history --follow keeps) or bootstrap_server: a history is told from records"
        if (self.records or self.histories) and not self.with_history:
            yield f"records, histories: the history of groups is told where one of {', '.join(_OF_HISTORY)} is set"
        needed = ["plans", "comparisons", "drifts", "reports"]
        needed += ["histories"] * self.with_history
        needed += ["snapshots"] * bool(self.bootstrap_server) + ["outcomes"] * (self.deploy_mode == "cluster")
        if lacking := [name for name in needed if not self.place(name)]:
            yield f"give output, a folder for everything, or each of {', '.join(lacking)}"
        files = [name for name in ("reports", "snapshots", "outcomes") if self.place(name)]
        if tables := [name for name in files if "/" not in self.place(name)]:
            yield f"{', '.join(tables)}: these are files; give a folder, such as /data/{tables[0]}"


class File(Table):
    """The file: a table [[dag]] for every DAG."""

    dag: Annotated[tuple[Settings, ...], AsTuple]

    @model_validator(mode="after")
    def _each_has_a_name_of_its_own(self) -> File:
        ids = [each.dag_id for each in self.dag]
        if twice := {each for each in ids if ids.count(each) > 1}:
            raise ValueError(f"dag_id {', '.join(sorted(twice))} twice; give each DAG a name of its own")
        return self


def load(file: Path | None = None) -> list[Settings]:
    """The DAGs of the file, by default of the one that the environment names.

    Raises:
        SettingsError: it cannot be read, or keys are unknown, missing, or have values that cannot be; names them all.
    """
    named = os.environ.get(VARIABLE)
    if file is None and not named and not IS_CLONE:
        raise SettingsError(f"no settings: give every process of Airflow {VARIABLE}=/path/to/airflow.toml")
    file = file or Path(named or CLONE / "conf" / "airflow.toml")
    try:
        with file.open("rb") as opened:
            given = tomllib.load(opened)
    except (OSError, ValueError) as error:
        raise SettingsError(f"{file}: cannot be read: {error}") from error
    tables = given.get("dag")
    for table in tables if isinstance(tables, list) else ():
        for key in _PLACES:
            if isinstance(table, dict) and isinstance(place := table.get(key), str):
                table[key] = _from(file.parent, place)
    try:
        return list(File.model_validate(given).dag)
    except ValidationError as error:
        raise SettingsError(listed(str(file), faults(error, File, given))) from None


def _from(folder: Path, place: str) -> str:
    """A place that starts with a dot starts from the folder of the file."""
    return os.path.normpath(folder / place) if place.startswith(("./", "../")) else place
