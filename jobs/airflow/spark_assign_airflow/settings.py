"""What a user sets: a TOML file with a table [[dag]] for every DAG. conf/airflow.toml has every key with a comment."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from spark_assign_airflow.ends import ALERTS

CLONE = Path(__file__).resolve().parents[3]
VARIABLE = "SPARK_ASSIGN_AIRFLOW"
"""The environment variable that names the file; without it the clone's conf/airflow.toml is read."""

RUNS_ON = ("spark", "databricks")
STEPS = ("snapshot", "plan", "compare", "drift", "report", "check")
_PLACES = ("fleet", "plans", "comparisons", "drifts", "reports", "snapshots", "project")
_ONLY_ON_SPARK = ("bootstrap_server", "snapshots", "project", "environment", "conf", "arguments")


class SettingsError(ValueError):
    """The file cannot be used; says which key of which DAG, and what was expected."""


@dataclass(frozen=True)
class Settings:
    """One DAG. Places are folders, URIs or catalog prefixes; `reports` is a folder that the driver can write to.

    A place that is empty is OUTPUT/NAME on Spark, and the default of the bundle's job on Databricks.
    """

    dag_id: str
    runs_on: str = "spark"
    schedule: str | None = None
    start_date: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    catchup: bool = False
    retries: int = 2
    retry_delay_s: float = 300
    tags: tuple[str, ...] = ("kafka", "spark_assign")
    notify: Mapping[str, Any] = field(default_factory=dict)
    conn_id: str = ""
    fleet: str = ""
    bootstrap_server: str = ""
    output: str = ""
    plans: str = ""
    comparisons: str = ""
    drifts: str = ""
    reports: str = ""
    snapshots: str = ""
    assignor: str = "configured"
    assignors: tuple[str, ...] = ("range", "roundrobin", "sticky", "cooperative-sticky")
    max_growth: float = 1.25
    max_rejected: int = 0
    alert: str = "fail"
    project: str = str(CLONE)
    environment: str = "local"
    conf: Mapping[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, list[str]] = field(default_factory=dict)
    job_name: str = "spark_assign watch"

    def place(self, name: str) -> str:
        """Where a job's tables are."""
        given: str = getattr(self, name)
        return given or (f"{self.output.rstrip('/')}/{name}" if self.output else "")


def load(file: Path | None = None) -> list[Settings]:
    """The DAGs of the file, by default of the one that the environment names.

    Raises:
        SettingsError: it cannot be read, or a key is unknown, is missing, or has a value that cannot be.
    """
    file = file or Path(os.environ.get(VARIABLE) or CLONE / "conf" / "airflow.toml")
    try:
        with file.open("rb") as opened:
            tables = tomllib.load(opened)
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{file}: cannot be read: {error}") from error
    if set(tables) != {"dag"} or not isinstance(tables["dag"], list):
        raise SettingsError(f"{file}: expected tables [[dag]] and nothing else; found {', '.join(tables) or 'nothing'}")
    found = [_settings(f"{file}, dag {number}", table, file.parent) for number, table in enumerate(tables["dag"], 1)]
    ids = [each.dag_id for each in found]
    if twice := {each for each in ids if ids.count(each) > 1}:
        raise SettingsError(f"{file}: dag_id {', '.join(sorted(twice))} twice; give each DAG a name of its own")
    return found


def _settings(where: str, table: Mapping[str, Any], folder: Path) -> Settings:
    known = {each.name: each for each in fields(Settings)}
    if unknown := sorted(set(table) - set(known)):
        raise SettingsError(f"{where}: unknown key {', '.join(unknown)}; there are {', '.join(known)}")
    if "dag_id" not in table:
        raise SettingsError(f"{where}: dag_id is missing")
    given = {key: _value(where, key, value, _default(known[key])) for key, value in table.items()}
    for key in {*_PLACES, "output"} & set(given):
        given[key] = _from(folder, given[key])
    settings = Settings(**given)
    if problem := _problem(settings, set(given)):
        raise SettingsError(f"{where} ({settings.dag_id}): {problem}")
    return settings


def _default(field_: Any) -> Any:
    if field_.default is not MISSING:
        return field_.default
    return "" if field_.default_factory is MISSING else field_.default_factory()


def _value(where: str, key: str, value: Any, default: Any) -> Any:
    """The value in the type of the default; a date is midnight in UTC."""
    if isinstance(default, datetime) and isinstance(value, date):
        at = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
        return at if at.tzinfo else at.replace(tzinfo=UTC)
    if isinstance(default, tuple) and isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(value)
    expected = {float: (float, int), dict: (dict,), type(None): (str,)}.get(type(default), (type(default),))
    if not isinstance(value, expected) or (isinstance(value, bool) and not isinstance(default, bool)):
        wanted = {tuple: "a list of strings", datetime: "a date", dict: "a table", type(None): "a string"}
        raise SettingsError(
            f"{where}: {key} is {value!r}; expected {wanted.get(type(default), type(default).__name__)}"
        )
    return value


def _from(folder: Path, place: str) -> str:
    """A place that starts with a dot starts from the folder of the file."""
    return os.path.normpath(folder / place) if place.startswith(("./", "../")) else place


def _problem(given: Settings, keys: set[str]) -> str | None:
    """What is wrong between the keys, if anything."""
    if given.runs_on not in RUNS_ON:
        return f"runs_on is {given.runs_on!r}: expected {' or '.join(RUNS_ON)}"
    if given.alert not in ALERTS:
        return f"alert is {given.alert!r}: expected {' or '.join(ALERTS)}"
    if given.max_growth < 1 or given.max_rejected < 0:
        return "expected max_growth of 1 or more, max_rejected of 0 or more"
    if given.notify and not isinstance(given.notify.get("class"), str):
        return "notify: give the notifier as class, such as airflow.providers.smtp.notifications.smtp.SmtpNotifier"
    if given.runs_on == "databricks":
        if misplaced := sorted(keys & {*_ONLY_ON_SPARK, "output"}):
            return f"{', '.join(misplaced)}: not for databricks, where the bundle says how and where"
        return None
    if bool(given.fleet) == bool(given.bootstrap_server):
        return "give fleet (tables that something else keeps) or bootstrap_server (a cluster to take a snapshot of)"
    needed = [*_PLACES[1:5], *(["snapshots"] if given.bootstrap_server else [])]
    if lacking := [name for name in needed if not given.place(name)]:
        return f"give output, a folder for everything, or each of {', '.join(lacking)}"
    if tables := [name for name in ("reports", "snapshots") if given.place(name) and "/" not in given.place(name)]:
        return f"{', '.join(tables)}: these are files; give a folder, such as /data/{tables[0]}"
    if unknown := sorted(set(given.arguments) - set(STEPS)):
        return f"arguments: there is no job {', '.join(unknown)}; there are {', '.join(STEPS)}"
    return None
