"""Check a settings file, or print its JSON schema for an editor; starts no Spark."""

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
EXIT_CODES = """OF is plan (conf/plan.toml), airflow (conf/airflow.toml), any other job, or a part of one (replicas
place). By default --check takes a file with tables [[dag]] for airflow, any other for plan. For editors that know TOML,
write #:schema ./plan.schema.json as the first line of the file. Exit codes: 0 done; 2 the file is wrong, or wrong
usage."""


def without_config(function: Any) -> Any:
    """`--config`: none, as the file to check is the argument; here it names what this job is called with."""
    return click.option("--config", metavar="FILE", type=click.Path(path_type=Path), help="the same as --check FILE")(
        function
    )


@job(__doc__, EXIT_CODES, name="config", config=without_config)
@click.argument("of", metavar="[OF]", required=False)
@click.option("--schema", is_flag=True, help="print the JSON schema of the settings of OF (default: plan)")
@click.option("--check", metavar="FILE", type=click.Path(path_type=Path), help="say whether a settings file is right")
def main(options: Options) -> int:
    """Print a schema, or a verdict."""
    file = options.check or options.config
    if options.schema == bool(file):
        raise ConfigError("give --schema [OF] or --check FILE, one of the two")
    if options.schema:
        print(json.dumps(schema(options.of or "plan"), indent=2, ensure_ascii=False))
        return 0
    of = options.of or ("airflow" if "dag" in from_file(file) else "plan")
    check(of, file)
    print(f"{file}: right, as settings of {of}")
    return 0


def schema(of: str) -> Mapping[str, Any]:
    """The JSON schema of the settings of a job, or of Airflow.

    Raises:
        ConfigError: there is no such job.
    """
    found = dict(_model(of).model_json_schema())
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **found,
        "title": f"spark_assign: settings of {of}",
    }


def check(of: str, file: Path) -> None:
    """Whether a file can be used as settings of a job, or of Airflow.

    Raises:
        ConfigError: it cannot, or there is no such job; names every fault.
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
    """The job of these words, such as `compare` or `replicas place`."""
    name, _, below = of.partition(" ")
    names = [file.stem for file in sorted(HERE.glob("*.py")) if not file.stem.startswith("_") and file.stem != "config"]
    if name not in names:
        raise ConfigError(f"there are no settings of {of}. {did_you_mean(of, ['airflow', *names])}")
    made: Any = import_module(f"{__package__}.{name}" if __package__ else name).main
    if isinstance(made, Commands):
        if below not in made.commands:
            known = [f"{name} {each}" for each in made.commands]
            raise ConfigError(f"there are no settings of {of}. {did_you_mean(of, known)}")
        made = made.commands[below]
    found: Job = made
    return found


def _airflow() -> ModuleType:
    """The settings of Airflow's part, which has no need of Airflow for them."""
    sys.path.append(str(HERE / "airflow"))
    return import_module("spark_assign_airflow.settings")


if __name__ == "__main__":
    sys.exit(main())
