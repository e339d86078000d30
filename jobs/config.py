"""Check a settings file, show where each setting comes from, print a JSON schema for an editor, or remove old runs.
Starts Spark only to remove runs of a catalog.

A setting comes from a flag, else from the environment variable SPARK_ASSIGN_JOB_FLAG (SPARK_ASSIGN_PLAN_OUTPUT for plan
--output), else from the file --config (default: spark-assign.toml in the working folder), else it is the default. A
file for several jobs has a section for each, such as [compare] or [replicas.place].
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import click
from click.core import ParameterSource

from spark_assign.cli.job import Commands, Job, Options, check_value, job, spark_session
from spark_assign.cli.options import INPUT, PATH, parameter_options
from spark_assign.cli.settings_errors import did_you_mean
from spark_assign.cli.settings_file import defaults, from_file, has_sections
from spark_assign.report.formatting import DASH, aligned, count, listed
from spark_assign.report.views import View
from spark_assign.stores.locations import is_path, without_credentials
from spark_assign.tables.errors import ConfigError, SourceError
from spark_assign.tables.parameters import Param

if TYPE_CHECKING:
    from pydantic import BaseModel

HERE = Path(__file__).resolve().parent
EXIT_CODES = """JOB is plan (conf/plan.toml), airflow (conf/airflow.toml), or any other job or subcommand (replicas
place). By default, --check checks all sections of a file, treats a file with tables [[dag]] as settings of airflow, and
any other file as settings of plan. To use a schema in an editor, write #:schema ./plan.schema.json in the first line of
the file. Exit codes: 0 success; 2 the file has faults, or invalid options."""
_VALUES = (int, float, list, tuple, dict)


CONFIG = click.option(
    "--config",
    metavar="FILE",
    type=PATH,
    help="With --show: settings file (default: spark-assign.toml, if it exists). Otherwise the same as --check FILE.",
)


@dataclass(frozen=True)
class Actions:
    """What the job does.

    Attributes:
        show: print the settings of JOB (default: plan), and where each comes from.
        schema: print the JSON schema of the settings of JOB (default: plan).
        check: check a settings file, and list its faults.
        prune: remove runs older than --keep from LOCATION (folder, URI, or catalog prefix); the newest run stays.
        keep_ms: with --prune: age of the oldest run to keep, such as 30d.
        dry_run: with --prune: list the runs, and remove none.
    """

    show: Annotated[bool, Param()] = False
    schema: Annotated[bool, Param()] = False
    check: Annotated[Path | None, Param(kind=PATH, metavar="FILE")] = None
    prune: Annotated[str | None, Param(kind=INPUT, metavar="LOCATION")] = None
    keep_ms: Annotated[int | None, Param(least=0)] = None
    dry_run: Annotated[bool, Param()] = False


@job(
    __doc__,
    EXIT_CODES,
    name="config",
    config=CONFIG,
    usage=("--prune needs --keep", "--keep, --dry-run needs --prune"),
)
@click.argument("of", metavar="[JOB]", nargs=-1)
@parameter_options(Actions, defaults=True)
def main(options: Options) -> int:
    """Prints a schema or settings, checks a file, or removes runs."""
    of = " ".join(options.of)
    file: Path | None = options.check or (None if options.show or options.prune else options.config)
    if [options.schema, options.show, file is not None, options.prune is not None].count(True) != 1:
        raise ConfigError("Use one of --schema [JOB], --show [JOB], --check FILE, and --prune LOCATION.")
    if options.prune:
        prune(options)
        return 0
    if options.schema:
        print(json.dumps(schema(of or "plan"), indent=2, ensure_ascii=False))
    elif options.show:
        header, *rows = shown(_job(of or "plan"), options.config)
        listed("settings", [dict(zip(header, row, strict=True)) for row in rows])
        print("\n".join(aligned([header, *rows], words=(0, 1, 2))))
    elif file:
        names = [of] if of else _jobs_of(file)
        for name in names:
            check(name, file)
        print(f"{file}: valid settings of {', '.join(names)}")
    return 0


def prune(options: Options) -> None:
    """Removes the runs of a location that are older than `--keep`, or lists them only, and prints them.

    Raises:
        SourceError: the location has no runs, or can't be read or changed. Folders in it with a damaged manifest are
            errors after the others are done.
    """
    from spark_assign.stores import retention

    spark = None if is_path(options.prune) else spark_session("config", options)
    problems: list[str] = []
    attempts = retention.stored_attempts(spark, options.prune, problems)
    old = retention.expired(attempts, timedelta(milliseconds=options.keep), datetime.now(UTC))
    retention.remove(spark, [] if options.dry_run else old)
    action = "to remove" if options.dry_run else "removed"
    rows = [
        {
            "location": each.location,
            "run": each.run_id,
            "finished": each.finished_at and f"{each.finished_at:%Y-%m-%d %H:%M:%S}",
            "bytes": each.size,
            "action": action if each in old else "kept",
        }
        for each in attempts
    ]
    size, kept = (sum(each.size or 0 for each in attempts if (each in old) is is_old) for is_old in (True, False))
    total = f"{len(old):,} of {count(len(attempts), 'run')} {action}: {count(size, 'byte')}; {count(kept, 'byte')} kept"
    print(*View("", "runs").lines(listed("runs", rows), len(rows))[2:], total, sep="\n")
    if problems:
        raise SourceError("\n".join(problems))


def shown(of: Job, file: Path | None) -> list[list[str]]:
    """Returns rows of a table: a heading, then flag, value, and origin of each setting of a job, and its engine.

    Args:
        of: the job.
        file: the value of `--config`.

    Raises:
        ConfigError: a value of the file or the environment is invalid.
    """
    ctx = click.Context(of, info_name=" ".join(of.words), auto_envvar_prefix=of.environment)
    given = {"config": file} if file else {}
    rows = [["setting", "value", "from"]]
    config = next(each for each in of.params if each.name == "config")
    try:
        read, _ = config.handle_parse_result(ctx, given, [])
    except click.UsageError as error:
        raise ConfigError(error.message) from error
    for each in of.params:
        if getattr(each, "hidden", False):
            continue
        value, source = each.consume_value(ctx, given)
        name = f"{of.environment}_{each.name}".upper()
        if source is ParameterSource.ENVIRONMENT:
            try:
                check_value(ctx, each, each.process_value(ctx, value))
            except click.UsageError as error:
                raise ConfigError(f"{name}: {error.message}") from error
        origins = {
            ParameterSource.COMMANDLINE: f"--{each.name}",
            ParameterSource.ENVIRONMENT: name,
            ParameterSource.DEFAULT_MAP: str(read),
        }
        value = "[hidden]" if value and each.name == "notify" else value  # the URL of a webhook is a secret
        is_text = isinstance(value, str | Path)
        text = str(value) if is_text else json.dumps(value) if isinstance(value, _VALUES) else DASH
        text = without_credentials(text)
        rows.append([f"--{str(each.name).replace('_', '-')}", text, origins.get(source, "default")])
    return [*rows, ["engine", *_engine()]]


def _engine() -> tuple[str, str]:
    """Returns the engine that a job would run on, and why."""
    import pyspark

    from spark_assign.spark.engine import choose, engine_name

    engine, why = choose()
    return engine_name() if engine == "embedded" else f"Spark {pyspark.__version__}", why


def _jobs_of(file: Path) -> list[str]:
    """Returns the names of the jobs that have settings in a file."""
    content = from_file(file)
    if not has_sections(content):
        return ["airflow" if "dag" in content else "plan"]
    names = []
    for name, section in content.items():
        made = _job_or_jobs(name)
        below = made.commands if isinstance(made, Job) else section
        names += [name] * isinstance(made, Job) + [f"{name} {each}" for each in section if each in below]
    return names


def schema(of: str) -> Mapping[str, Any]:
    """Returns the JSON schema of the settings of a job, or of Airflow.

    Raises:
        ConfigError: there is no such job.
    """
    dialect, title = "https://json-schema.org/draft/2020-12/schema", f"spark_assign: settings of {of}"
    return {"$schema": dialect, **_model(of).model_json_schema(), "title": title}


def check(of: str, file: Path) -> None:
    """Checks whether a file has valid settings of a job, or of Airflow.

    Raises:
        ConfigError: it has faults, all of which are listed, or there is no such job.
    """
    if of == "airflow":
        settings = _airflow()
        try:
            settings.load(file)
        except settings.SettingsError as error:
            raise ConfigError(str(error)) from None
    else:
        defaults(file, _job(of))


def _model(of: str) -> type[BaseModel]:
    if of == "airflow":
        found: type[BaseModel] = _airflow().File
        return found
    from spark_assign.cli.settings_model import model_of

    return model_of(_job(of).params)


def _job(of: str) -> Job:
    """Returns a job by name, such as `compare` or `replicas place`."""
    name, _, below = of.partition(" ")
    made = _job_or_jobs(name)
    if below or isinstance(made, Commands):
        if below not in made.commands:
            known = [f"{name} {each}" for each in made.commands]
            raise ConfigError(f"No job is called {of}. {did_you_mean(of, known)}")
        made = made.commands[below]
    found: Job = made
    return found


def _job_or_jobs(name: str) -> Any:
    """Returns a job, or the group of jobs with this name."""
    names = [file.stem for file in sorted(HERE.glob("*.py")) if not file.stem.startswith("_") and file.stem != "config"]
    if name not in names:
        raise ConfigError(f"No job is called {name}. {did_you_mean(name, ['airflow', *names])}")
    return import_module(f"{__package__}.{name}" if __package__ else name).main


def _airflow() -> ModuleType:
    """Returns the settings module of the Airflow provider, which doesn't need Airflow."""
    sys.path.append(str(HERE / "airflow"))
    return import_module("spark_assign_airflow.settings")


if __name__ == "__main__":
    main()
