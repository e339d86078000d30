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
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_assign.errors import ConfigError
from spark_assign.places import resolve

if TYPE_CHECKING:
    import click

_TABLES = {
    "fleet": {"location": "fleet", "format": "format", "options": "option", "tables": "table"},
    "output": {"location": "output", "format": "output_format", "options": "output_option"},
}
"""Of the tables of a file the flags that their keys stand for."""

_NOT_OF_FILES = ("config", "help")


def defaults(path: Path, parameters: Sequence[click.Parameter]) -> dict[str, Any]:
    """Values for a job's flags, by the flags' names.

    Args:
        path: the file.
        parameters: the job's.

    Raises:
        ConfigError: the file cannot be read, or a key is none of the job's flags.
    """
    flags = {each.name: each for each in parameters if each.name not in _NOT_OF_FILES}
    found: dict[str, Any] = {}
    for key, value in from_file(path).items():
        if key in _TABLES and isinstance(value, dict):
            known = {inner: flag for inner, flag in _TABLES[key].items() if flag in flags}
            for inner, each in value.items():
                if inner not in known:
                    raise ConfigError(f"{path}: unknown key {key}.{inner}. {did_you_mean(inner, known)}")
                found[known[inner]] = each
        elif key.replace("-", "_") in flags:
            found[key.replace("-", "_")] = value
        else:
            raise ConfigError(f"{path}: unknown key {key}. {did_you_mean(key, [*filter(None, flags)])}")
    folder = str(path.absolute().parent)
    return {name: _as_words(value, flags[name], folder) for name, value in found.items()}


def _as_words(value: Any, flag: click.Parameter, folder: str) -> Any:
    """A value as the command line would have it; places are resolved."""
    if isinstance(value, dict):
        value = [f"{name}={each}" for name, each in value.items()]
    if flag.multiple:  # type: ignore[attr-defined]  # an option
        value = value if isinstance(value, list) else [value]
        return [str(each) for each in value]
    if isinstance(value, list):
        return ",".join(map(str, value))
    return resolve(value, folder) if flag.type.name == "place" and isinstance(value, str) else value


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


def did_you_mean(name: str, known: Any) -> str:
    """Names that there are, the one that is most like this one first."""
    close = get_close_matches(name, list(known), n=1)
    return (f"Did you mean {close[0]}? " if close else "") + f"Known: {', '.join(known)}"
