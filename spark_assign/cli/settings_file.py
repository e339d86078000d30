"""Settings files of jobs: TOML with a key for every flag.

    max_growth = 1.5            # --max-growth 1.5
    what_if = ["leave:*:1"]     # --what-if leave:*:1; a list for a repeatable flag
    [fleet]                     # --fleet, --format, --option, --table
    location = "./fleet"
    [output]                    # --output, --output-format, --output-option
    location = "./compared"

A file for several jobs has a section for each, such as `[compare]` with `[compare.fleet]`, or `[replicas.place]`.
Relative paths start from the file's folder.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from spark_assign.cli.toml_file import TomlError, read_toml
from spark_assign.stores.locations import resolve
from spark_assign.tables.errors import ConfigError

if TYPE_CHECKING:
    import click
    from pydantic import BaseModel

    Model = TypeVar("Model", bound=BaseModel)


SETTINGS_FILE = Path("spark-assign.toml")
"""File that is read if `--config` isn't given, and the working folder has it."""


def defaults(path: Path, job: click.Command) -> dict[str, Any]:
    """Returns values for a job's flags from a settings file, by flag name.

    Args:
        path: the file.
        job: the job. Commands below it may have sections in its section.

    Raises:
        ConfigError: the file can't be read, a key isn't a flag of the job, or a value is invalid.
    """
    from spark_assign.cli.settings_model import LOCATION_TYPES, TABLES, in_words, model_of

    model = model_of(job.params)
    tables = [*TABLES, *(str(each.name) for each in job.params if each.multiple)]
    words, below = (getattr(job, name, ()) for name in ("words", "commands"))
    settings = {k.replace("-", "_"): v for k, v in from_file(path, words, tables).items() if k not in below}
    for name in TABLES:
        if name in model.model_fields and isinstance(settings.get(name), str):
            settings[name] = {"location": settings[name]}
    values = validated(model, settings, str(path)).model_dump(exclude_unset=True)
    for name, keys in TABLES.items():
        values |= {keys[inner]: value for inner, value in values.pop(name, {}).items()}
    values = {name: in_words(value) for name, value in values.items()}
    folder = str(path.absolute().parent)
    locations = {each.name for each in job.params if each.type.name in LOCATION_TYPES}
    for name in locations & values.keys():
        value = values[name]
        values[name] = [resolve(each, folder) for each in value] if isinstance(value, list) else resolve(value, folder)
    return values


def from_file(path: Path, command: Sequence[str] = (), tables: Collection[str] = ("fleet", "output")) -> dict[str, Any]:
    """Returns the settings of a command from a file, with the locations of single tables relative to its folder.

    Args:
        path: the file.
        command: words of the command. If the file has sections, its own is returned, or an empty dict.
        tables: settings of the command that can be tables, and hence aren't sections.

    Raises:
        ConfigError: the file can't be read, is too large, or isn't valid TOML.
    """
    try:
        settings = read_toml(path)
    except TomlError as error:
        raise ConfigError(str(error)) from error
    if command and has_sections(settings, tables):
        for at, word in enumerate(command):
            settings = settings.get(word, {})
            if not isinstance(settings, dict):
                section = ".".join(command[: at + 1])
                raise ConfigError(f"{path}: {section} isn't a table. Start the section with [{section}].")
    folder = str(path.absolute().parent)
    fleet = settings.get("fleet")
    if isinstance(fleet, dict) and isinstance(fleet.get("tables"), dict):
        locations = fleet["tables"].items()
        fleet["tables"] = {k: resolve(v, folder) if isinstance(v, str) else v for k, v in locations}
    return settings


def has_sections(settings: Mapping[str, Any], tables: Collection[str] = ("fleet", "output")) -> bool:
    """Checks whether a settings file has a section per command. Otherwise, all of it is for one command."""
    return bool(settings) and all(isinstance(each, dict) and name not in tables for name, each in settings.items())


def validated(model: type[Model], settings: Mapping[str, Any], origin: str) -> Model:
    """Returns settings as an instance of their pydantic model.

    Args:
        model: the model.
        settings: settings of a file, possibly overridden by flags.
        origin: where the settings come from, for the message.

    Raises:
        ConfigError: settings are invalid. The message lists every fault.
    """
    from pydantic import ValidationError

    from spark_assign.cli.settings_errors import faults, listed

    try:
        return model.model_validate(settings)
    except ValidationError as error:
        raise ConfigError(listed(origin, faults(error, model, settings))) from None
