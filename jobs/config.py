"""Check a settings file, or print its JSON schema for an editor. Doesn't start Spark."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from spark_assign.cli.job import Commands, Job, Options, job
from spark_assign.cli.settings_errors import did_you_mean
from spark_assign.cli.settings_file import defaults, from_file, validated
from spark_assign.tables.errors import ConfigError

if TYPE_CHECKING:
    from pydantic import BaseModel

HERE = Path(__file__).resolve().parent
EXIT_CODES = """JOB is plan (conf/plan.toml), airflow (conf/airflow.toml), or any other job or subcommand (replicas
place). By default, --check treats a file with tables [[dag]] as settings of airflow, and any other file as settings of
plan. To use a schema in an editor, write #:schema ./plan.schema.json in the first line of the file. Exit codes: 0
success; 2 the file has faults, or invalid options."""


CONFIG = click.option("--config", metavar="FILE", type=click.Path(path_type=Path), help="Same as --check FILE.")


@job(__doc__, EXIT_CODES, name="config", config=CONFIG)
@click.argument("of", metavar="[JOB]", required=False)
@click.option("--schema", is_flag=True, help="Print the JSON schema of the settings of JOB (default: plan).")
@click.option(
    "--check", metavar="FILE", type=click.Path(path_type=Path), help="Check a settings file, and list its faults."
)
def main(options: Options) -> int:
    """Prints a schema, or checks a file."""
    file = options.check or options.config
    if options.schema == bool(file):
        raise ConfigError("Use either --schema [JOB] or --check FILE.")
    if options.schema:
        print(json.dumps(schema(options.of or "plan"), indent=2, ensure_ascii=False))
        return 0
    of = options.of or ("airflow" if "dag" in from_file(file) else "plan")
    check(of, file)
    print(f"{file}: valid settings of {of}")
    return 0


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
    elif of == "plan":
        validated(_model(of), from_file(file), str(file))
    else:
        defaults(file, _job(of).params)


def _model(of: str) -> type[BaseModel]:
    if of == "airflow":
        found: type[BaseModel] = _airflow().File
        return found
    if of == "plan":
        from spark_assign.cli.plan_settings import PlanSettings

        return PlanSettings
    from spark_assign.cli.settings_model import model_of

    return model_of(_job(of).params)


def _job(of: str) -> Job:
    """Returns a job by name, such as `compare` or `replicas place`."""
    name, _, below = of.partition(" ")
    names = [file.stem for file in sorted(HERE.glob("*.py")) if not file.stem.startswith("_") and file.stem != "config"]
    if name not in names:
        raise ConfigError(f"No job is called {of}. {did_you_mean(of, ['airflow', *names])}")
    made: Any = import_module(f"{__package__}.{name}" if __package__ else name).main
    if isinstance(made, Commands):
        if below not in made.commands:
            known = [f"{name} {each}" for each in made.commands]
            raise ConfigError(f"No job is called {of}. {did_you_mean(of, known)}")
        made = made.commands[below]
    found: Job = made
    return found


def _airflow() -> ModuleType:
    """Returns the settings module of the Airflow provider, which doesn't need Airflow."""
    sys.path.append(str(HERE / "airflow"))
    return import_module("spark_assign_airflow.settings")


if __name__ == "__main__":
    sys.exit(main())
