"""Reads the settings: a TOML file with a table [[dag]] per DAG. conf/airflow.toml has a comment for every key.

This module doesn't import Airflow, so that `spark-assign config` can check a file without it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from spark_assign_airflow.settings_errors import faults, listed
from spark_assign_airflow.toml_file import TomlError, read_toml

CLONE = Path(__file__).resolve().parents[3]
"""Folder of the clone that contains this file. An installed package isn't in a clone; users then set `project`."""
IS_CLONE = (CLONE / "spark-submit.sh").is_file()
VARIABLE = "SPARK_ASSIGN_AIRFLOW"
"""Environment variable with the path of the file. Default: conf/airflow.toml of the clone."""

Alert = Literal["fail", "warn"]
ALERTS = get_args(Alert)
"""Effect of an alert: the task fails, or the task is skipped and the run succeeds."""

Step = Literal["snapshot", "plan", "compare", "diff", "history", "report", "check", "daily"]
_PLACES = (
    "fleet",
    "clusters",
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
_TABLES = ("plans", "comparisons", "drifts", "histories", "reports")
_OF_HISTORY = ("max_rebalances_per_day", "max_pause", "max_unreadable")
_ONLY_ON_SPARK = (
    *("bootstrap_server", "parallel", "snapshots", "project", "environment", "conf", "arguments", "deploy_mode"),
    *("records", "histories", "history_lookback", *_OF_HISTORY),
)


MOST, MOST_GROWTH, MOST_SECONDS = 1_000_000_000, 100_000_000_000_000, 36_500 * 86_400
"""Maximum values of the numbers. Job options have such maximums. Airflow can store these values and calculate dates."""


class SettingsError(ValueError):
    """The file is invalid. The message lists every error with the DAG, the key, and the expected value."""


def _tuple(given: Any) -> Any:
    return tuple(given) if isinstance(given, list) else given


def _time(given: Any) -> Any:
    """Converts a date to midnight UTC."""
    if isinstance(given, date):
        at = given if isinstance(given, datetime) else datetime(given.year, given.month, given.day)
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        try:
            at.astimezone(UTC)
        except OverflowError:
            raise ValueError(f"in UTC, {at} is outside the years 1 to 9999. Use a year such as 2026") from None
        return at
    return given


AsTuple = BeforeValidator(_tuple)


class Table(BaseModel):
    """A table that rejects unknown keys and values of other types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Settings(Table):
    """One DAG. Locations are folders, URIs, or catalog prefixes; `reports` is a folder that the driver can write to.

    The default location is OUTPUT/NAME on Spark, and that of the bundle's job on Databricks.
    """

    dag_id: str
    runs_on: Literal["spark", "databricks"] = "spark"
    steps: Literal["watch", "daily"] = Field(default="watch", description="watch: plan to check; daily: the page")
    schedule: str | None = Field(default=None, description="cron or a preset such as @daily; default: only manual runs")
    start_date: Annotated[datetime, BeforeValidator(_time)] = datetime(2026, 1, 1, tzinfo=UTC)
    catchup: bool = False
    retries: int = Field(
        default=2, ge=0, le=MOST, description="after failures; alerts and wrong input are never retried"
    )
    retry_delay_s: float = Field(default=300, ge=0, le=MOST_SECONDS)
    tags: Annotated[tuple[str, ...], AsTuple] = ("kafka", "spark_assign")
    notify: dict[str, Any] = Field(default={}, description="an Airflow notifier: its class and its arguments")
    conn_id: str = Field(default="", description="default: spark_default, or databricks_default")
    fleet: str = Field(default="", description="tables that another process maintains")
    bootstrap_server: str = Field(default="", description="or a cluster: the first task takes a snapshot of it")
    clusters: str = Field(default="", description="or a file of clusters: a mapped task takes a snapshot of each")
    parallel: int = Field(default=8, ge=1, le=MOST, description="maximum number of snapshots at the same time")
    records: str = Field(default="", description="records that history --follow maintains; default: read the cluster")
    output: str = Field(default="", description="a folder for all results")
    plans: str = ""
    comparisons: str = ""
    drifts: str = ""
    histories: str = ""
    reports: str = ""
    snapshots: str = ""
    outcomes: str = Field(default="", description="outcomes of jobs; a location that worker and driver share")
    assignor: str = "configured"
    assignors: Annotated[tuple[str, ...], AsTuple] = ("range", "roundrobin", "sticky", "cooperative-sticky")
    max_growth: float = Field(default=1.25, ge=1, le=MOST_GROWTH)
    max_rejected: int = Field(default=0, ge=0, le=MOST)
    max_rebalances_per_day: int | None = Field(
        default=None, ge=0, le=MOST, description="with one of these three, a task history runs"
    )
    max_pause: str = Field(default="", pattern=r"^(\d+(\.\d+)?\s*(ms|s|m|min|h|d))?$", description="such as 10m")
    max_unreadable: int | None = Field(default=None, ge=0, le=MOST)
    history_lookback: str = Field(
        default="1d",
        pattern=r"^\d+(\.\d+)?\s*(ms|s|m|min|h|d)$",
        description="period of the history that alerts consider",
    )
    alert: Alert = Field(default="fail", description="fail: the task and the run; warn: the task is skipped")
    project: str = Field(default=str(CLONE) if IS_CLONE else "", description="the clone on the workers")
    environment: str = Field(default="local", description="NAME of conf/spark/NAME.conf in the clone")
    deploy_mode: Literal["client", "cluster"] = Field(
        default="client", description="where the driver runs: worker or cluster"
    )
    conf: dict[str, Any] = Field(default={}, description="Spark settings")
    arguments: dict[Step, list[str]] = Field(default={}, description="additional arguments per job")
    partitioned_assets: bool = Field(
        default=False, description="asset events have the run ID as their partition; only partition-aware DAGs run then"
    )
    deferrable: bool = Field(default=False, description="databricks: wait in the triggerer instead of a worker")
    job_name: str = Field(default="", description="default: spark_assign watch, or spark_assign daily")

    def place(self, name: str) -> str:
        """Returns the location of a job's tables."""
        given: str = getattr(self, name)
        return given or (f"{self.output.rstrip('/')}/{name}" if self.output else "")

    @property
    def past(self) -> dict[str, str]:
        """Returns the thresholds of the history that are set, as flags of the job check."""
        given = {f"--{name.replace('_', '-')}": getattr(self, name) for name in _OF_HISTORY}
        return {flag: str(value) for flag, value in given.items() if value not in (None, "")}

    def cluster_file(self) -> dict[str, Any]:
        """Returns the content of the file of clusters.

        Raises:
            SettingsError: the file can't be read, or has no table [clusters.NAME].
        """
        try:
            content = read_toml(Path(self.clusters))
        except TomlError as error:
            raise SettingsError(f"clusters: {error}") from error
        if not isinstance(content.get("clusters"), dict) or not content["clusters"]:
            raise SettingsError(f"clusters: {self.clusters} has no table [clusters.NAME]")
        return content

    def more(self, step: str) -> list[str]:
        """Returns the additional arguments of a job."""
        return next((words for name, words in self.arguments.items() if name == step), [])

    @model_validator(mode="after")
    def _fits_together(self) -> Settings:
        if problems := list(self._problems()):
            raise ValueError("\n".join(problems))
        return self

    def _problems(self) -> Iterator[str]:
        """Yields contradictions between keys."""
        yield from self._problems_for_airflow()
        if self.runs_on == "databricks":
            unknown = {"fleet", "plans", "reports"} if self.steps == "daily" else {"clusters"}
            if misplaced := sorted(self.model_fields_set & {*_ONLY_ON_SPARK, "output", *unknown}):
                yield f"{', '.join(misplaced)}: not allowed with databricks, where the bundle specifies this"
            return
        if self.deferrable:
            yield "deferrable: only allowed with databricks; the worker waits for spark-submit"
        if [self.fleet, self.bootstrap_server, self.clusters].count("") != 2:
            yield (
                "specify one of fleet (tables that another process maintains), bootstrap_server (a cluster for a "
                "snapshot), and clusters (a file of clusters)"
            )
        if self.clusters:
            try:
                self.cluster_file()
            except SettingsError as error:
                yield str(error)
        if self.steps == "daily":
            yield from self._problems_of_daily()
            return
        if self.past and not (self.records or self.bootstrap_server):
            yield "specify records (maintained by history --follow) or bootstrap_server: the history needs records"
        if (self.records or self.histories) and not self.past:
            yield f"records, histories: only used if one of {', '.join(_OF_HISTORY)} is set"
        needed = ["plans", "comparisons", "drifts", "reports"]
        needed += ["histories"] * bool(self.past)
        needed += ["snapshots"] * bool(self.bootstrap_server or self.clusters) + ["outcomes"] * (
            self.deploy_mode == "cluster"
        )
        if lacking := [name for name in needed if not self.place(name)]:
            yield f"specify output, a folder for all results, or each of {', '.join(lacking)}"
        files = [name for name in ("reports", "snapshots", "outcomes") if self.place(name)]
        if tables := [name for name in files if "/" not in self.place(name)]:
            yield f"{', '.join(tables)}: these are files; specify a folder, such as /data/{tables[0]}"

    def _problems_for_airflow(self) -> Iterator[str]:
        """Yields what Airflow would reject when it imports the file. It would then import no DAG of the file."""
        if not re.fullmatch(r"[\w.-]{1,250}", self.dag_id):
            yield "dag_id: use 1 to 250 letters, digits, dashes, dots, and underscores"
        if any(len(tag) > 100 for tag in self.tags):
            yield "tags: a tag can have at most 100 characters"
        # Airflow limits the name of an asset, which contains the location, to 1,500 characters.
        if wrong := [name for name in _PLACES if (place := getattr(self, name)).isspace() or len(place) > 1_450]:
            yield f"{', '.join(wrong)}: use a location of at most 1,450 characters that isn't blank"
        parts = str(self.notify.get("class", "")).replace(":", ".", 1).split(".")
        if self.notify and not (len(parts) > 1 and all(map(str.isidentifier, parts))):
            yield "notify: set class, such as airflow.providers.smtp.notifications.smtp.SmtpNotifier"

    def _problems_of_daily(self) -> Iterator[str]:
        """Yields what `daily` lacks or can't use."""
        if self.bootstrap_server:
            yield "bootstrap_server: daily needs clusters, a file with a table [clusters.NAME], or fleet"
        if not self.output:
            yield "specify output, a folder for the pages and all results"
        unused = ("assignor", "assignors", "max_rejected", "max_unreadable", *_TABLES)
        if misplaced := [name for name in unused if name in self.model_fields_set]:
            yield f"{', '.join(misplaced)}: not used by daily"


class File(Table):
    """The file: a table [[dag]] per DAG."""

    dag: Annotated[tuple[Settings, ...], AsTuple]

    @model_validator(mode="after")
    def _each_has_a_name_of_its_own(self) -> File:
        ids = [each.dag_id for each in self.dag]
        if twice := {each for each in ids if ids.count(each) > 1}:
            raise ValueError(f"dag_id {', '.join(sorted(twice))} is used twice; give each DAG its own name")
        return self


def load(file: Path | None = None) -> list[Settings]:
    """Returns the DAGs of the file. Default: the file in the environment variable.

    Raises:
        SettingsError: the file can't be read, or keys are unknown, missing, or invalid; the message lists all of them.
    """
    named = os.environ.get(VARIABLE)
    if file is None and not named and not IS_CLONE:
        raise SettingsError(f"no settings: for every Airflow process, set {VARIABLE}=/path/to/airflow.toml")
    file = file or Path(named or CLONE / "conf" / "airflow.toml")
    try:
        given = read_toml(file)
    except TomlError as error:
        raise SettingsError(str(error)) from error
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
    """Resolves a location that starts with a dot relative to the folder of the file."""
    return os.path.normpath(folder / place) if place.startswith(("./", "../")) else place
