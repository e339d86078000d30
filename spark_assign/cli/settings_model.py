"""Builds the pydantic model of a job's settings file from the job's flags."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal

import click
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, create_model
from pydantic_core import PydanticCustomError

from spark_assign.tables.parameters import largest

TABLES = {
    "fleet": {"location": "fleet", "format": "format", "options": "option", "tables": "table"},
    "output": {
        "location": "output",
        "format": "output_format",
        "options": "output_option",
        "tables": "output_tables",
    },
}
"""Tables of a settings file, and the flag of each of their keys."""

LOCATION_TYPES = ("location",)
"""Types of flags whose relative paths start from the folder of the file."""

_NOT_OF_FILES = ("config", "help")
_STRICT = ConfigDict(extra="forbid", strict=True)
_SCALARS: dict[str, Any] = {"type": ["string", "number", "boolean"]}
_PLACE = re.compile("DIR|FILE|HOST|LOCATION|URL")
"""A part of the metavar of a flag for files or servers, which no number and no boolean names."""


def model_of(parameters: Sequence[click.Parameter]) -> type[BaseModel]:
    """Returns the model of a settings file.

    Args:
        parameters: parameters of the job. A value of the model has the form of the command line: a list for a
            repeatable flag, `A,B` for a flag that takes a list as one word.
    """
    flags = {str(each.name): each for each in parameters if each.name not in _NOT_OF_FILES}
    fields: dict[str, Any] = {name: _field(flag) for name, flag in flags.items() if name not in TABLES}
    for name, keys in TABLES.items():
        if name in flags:
            inner: dict[str, Any] = {key: _field(flags[each]) for key, each in keys.items() if each in flags}
            table = create_model(name.capitalize(), __config__=_STRICT, **inner)
            fields[name] = (table | None, Field(None, description=getattr(flags[name], "help", None)))
    config = ConfigDict(**_STRICT, json_schema_extra=_allow_file_forms)
    return create_model("Settings", __config__=config, **fields)


def _allow_file_forms(schema: dict[str, Any]) -> None:
    """Adds to the schema for editors: `fail-on` for `fail_on`, and a location instead of the table `fleet`."""
    properties = schema["properties"]
    for name in list(properties):
        if name in TABLES:
            properties[name] = {"anyOf": [properties[name], {"type": "string"}]}
        elif "_" in name:
            properties[name.replace("_", "-")] = properties[name]


def _field(flag: click.Parameter) -> Any:
    return (_type(flag) | None, Field(None, description=getattr(flag, "help", None)))


def _type(flag: Any) -> Any:
    """Returns the type that a setting has in a settings file, from the type of its flag."""
    kind = flag.type
    if getattr(flag, "is_flag", False):
        return bool
    if keys := getattr(flag, "keys", ()):
        entries: Any = {**dict.fromkeys(keys[:2], (str, ...)), **dict.fromkeys(keys[2:], (str | None, None))}
        entry: Any = create_model("Entry", __config__=_STRICT, **entries)
        return Annotated[list[entry], BeforeValidator(partial(_entries, keys))]
    if names := getattr(flag, "names", ()):
        return dict[Literal[tuple(names)], str]  # type: ignore[misc]
    is_place = _PLACE.search(flag.metavar or "")
    checks, scalars = ([BeforeValidator(_strings)], {"type": "string"}) if is_place else ([], _SCALARS)
    if flag.multiple:
        if isinstance(kind, click.Choice):
            one: Any = Literal[tuple(kind.choices)]
            lists = WithJsonSchema({"anyOf": [{"enum": [*kind.choices]}, {"items": {"enum": [*kind.choices]}}]})
            return Annotated[list[one], BeforeValidator(_words), lists]
        return Annotated[list[str], BeforeValidator(_words), *checks, WithJsonSchema(_lists(scalars))]
    if kind.name in LOCATION_TYPES:
        return str
    if isinstance(kind, click.Choice):
        return Literal[tuple(kind.choices)]
    if isinstance(choices := getattr(kind, "element", None), click.Choice):
        return Annotated[list[Literal[tuple(choices.choices)]], BeforeValidator(_words)]  # type: ignore[misc]
    for click_type, python_type in ((click.types.IntParamType, int), (click.types.FloatParamType, float)):
        if isinstance(kind, click_type):
            low = "gt" if getattr(kind, "min_open", False) else "ge"
            high = "lt" if getattr(kind, "max_open", False) else "le"
            least, most = getattr(kind, "min", None), getattr(kind, "max", None)
            end = largest(f"{flag.name} {flag.metavar}", is_whole=python_type is int)
            bounds: dict[str, Any] = {low: -end if least is None else least, high: end if most is None else most}
            return Annotated[python_type, Field(**bounds)]  # type: ignore[valid-type]
    return Annotated[str, BeforeValidator(_word), *checks, WithJsonSchema(_word_or_list(scalars))]


def _strings(value: Any) -> Any:
    """Checks that a value, or each of a list or table, is a string."""
    values = [*value.values()] if isinstance(value, dict) else value if isinstance(value, list) else [value]
    if not all(isinstance(each, str) for each in values):
        raise _not_a_word()
    return value


def _entries(keys: Sequence[str], value: Any) -> Any:
    """Returns tables with these keys for values of the form `NAME=VALUE`, as a list or as a table."""
    if isinstance(value, dict) and all(isinstance(each, str) for each in value.values()):
        value = [f"{name}={each}" for name, each in value.items()]
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list):
        return value
    parts = [each.partition("=")[::2] if isinstance(each, str) and "=" in each else None for each in values]
    return [each if part is None else _entry(keys, *part) for each, part in zip(values, parts, strict=True)]


def _entry(keys: Sequence[str], name: str, value: str) -> dict[str, str]:
    """Returns the table of a value, of which a third key is what follows an `@`."""
    first, _, last = value.partition("@") if keys[2:] else (value, "", "")
    return dict(zip(keys, (name, first, last) if last else (name, first), strict=False))


def in_words(values: Any) -> Any:
    """Returns a value of the model in the form of the command line: names and values of tables as `NAME=VALUE`."""
    if isinstance(values, dict):
        return [f"{name}={value}" for name, value in values.items()]
    if not isinstance(values, list) or not values or not isinstance(values[0], dict):
        return values
    entries = ([part for part in each.values() if part is not None] for each in values)
    return [f"{name}={'@'.join(value)}" for name, *value in entries]


def _word_or_list(scalars: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [scalars, {"type": "array", "items": scalars}]}


def _lists(scalars: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [*_word_or_list(scalars)["anyOf"], {"type": "object", "additionalProperties": scalars}]}


def _word(value: Any) -> str:
    """Returns a string; a list in the form of the command line."""
    if isinstance(value, list):
        return ",".join(map(_scalar, value))
    return _scalar(value)


def _words(value: Any) -> list[str]:
    """Returns the values of a repeatable flag: a list, a table of `NAME = VALUE`, or a single value."""
    if isinstance(value, dict):
        return [f"{name}={_scalar(each)}" for name, each in value.items()]
    return [_scalar(each) for each in (value if isinstance(value, list) else [value])]


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    raise _not_a_word()


def _not_a_word() -> PydanticCustomError:
    return PydanticCustomError("word", "a word", {"noun": "a string or a list of strings"})
