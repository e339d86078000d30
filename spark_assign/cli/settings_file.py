"""A job's settings as a TOML file: a key for every flag, under the flag's name.

    max_growth = 1.5            # --max-growth 1.5
    change = ["leave:*:1"]      # --change leave:*:1; a list for what is repeatable
    [fleet]                     # --fleet, --format, --option, --table
    location = "./fleet"
    [output]                    # --output, --output-format, --output-option
    location = "./compared"

Relative paths start from the file's folder. The file of the job plan has keys of its own (`config`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from spark_assign.stores.locations import resolve
from spark_assign.tables.errors import ConfigError

if TYPE_CHECKING:
    import click
    from pydantic import BaseModel

    Model = TypeVar("Model", bound=BaseModel)


def defaults(path: Path, parameters: Sequence[click.Parameter]) -> dict[str, Any]:
    """Values for a job's flags, by the flags' names.

    Args:
        path: the file.
        parameters: the job's.

    Raises:
        ConfigError: the file cannot be read, a key is none of the job's flags, or a value none that it takes.
    """
    from spark_assign.cli.settings_model import LOCATION_TYPES, TABLES, model_of

    model = model_of(parameters)
    given = {key.replace("-", "_"): value for key, value in from_file(path).items()}
    for name in TABLES:
        if name in model.model_fields and isinstance(given.get(name), str):
            given[name] = {"location": given[name]}
    said = validated(model, given, str(path)).model_dump(exclude_unset=True)
    for name, keys in TABLES.items():
        said |= {keys[inner]: value for inner, value in said.pop(name, {}).items()}
    folder = str(path.absolute().parent)
    places = {each.name for each in parameters if each.type.name in LOCATION_TYPES}
    return {name: resolve(value, folder) if name in places else value for name, value in said.items()}


def from_file(path: Path) -> dict[str, Any]:
    """What a settings file says; places under fleet and output start from its folder.

    Raises:
        ConfigError: it cannot be read, or is no TOML.
    """
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: is not valid TOML: {error}") from error
    folder = str(path.absolute().parent)
    for name in ("fleet", "output"):
        table = settings.get(name)
        if isinstance(table, dict) and isinstance(table.get("location"), str):
            table["location"] = resolve(table["location"], folder)
    fleet = settings.get("fleet")
    if isinstance(fleet, dict) and isinstance(fleet.get("tables"), dict):
        tables = fleet["tables"].items()
        fleet["tables"] = {k: resolve(v, folder) if isinstance(v, str) else v for k, v in tables}
    return settings


def validated(model: type[Model], settings: Mapping[str, Any], origin: str) -> Model:
    """Settings as their model.

    Args:
        model: of pydantic.
        settings: what a file says, or what it says with the flags laid over.
        origin: where they come from, for the message.

    Raises:
        ConfigError: they are wrong; names every fault.
    """
    from pydantic import ValidationError

    from spark_assign.cli.settings_errors import faults, listed

    try:
        return model.model_validate(settings)
    except ValidationError as error:
        raise ConfigError(listed(origin, faults(error, model, settings))) from None
