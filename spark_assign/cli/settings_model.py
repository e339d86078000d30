"""Builds the pydantic model of a job's settings file from the job's flags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import click
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, create_model
from pydantic_core import PydanticCustomError

TABLES = {
    "fleet": {"location": "fleet", "format": "format", "options": "option", "tables": "table"},
    "output": {"location": "output", "format": "output_format", "options": "output_option"},
}
"""Tables of a settings file, and the flag of each of their keys."""

LOCATION_TYPES = ("location",)
"""Types of flags whose relative paths start from the folder of the file."""

_NOT_OF_FILES = ("config", "help")
_STRICT = ConfigDict(extra="forbid", strict=True)
_SCALARS = {"type": ["string", "number", "boolean"]}


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
    if flag.multiple:
        element = Literal[tuple(kind.choices)] if isinstance(kind, click.Choice) else str
        return Annotated[list[element], BeforeValidator(_words), WithJsonSchema(_LISTS)]  # type: ignore[valid-type]
    if isinstance(kind, click.Choice):
        return Literal[tuple(kind.choices)]
    if isinstance(kind, click.types.IntParamType):
        return Annotated[int, Field(ge=getattr(kind, "min", None), le=getattr(kind, "max", None))]
    if isinstance(kind, click.types.FloatParamType):
        return float
    return Annotated[str, BeforeValidator(_word), WithJsonSchema(_WORD)]


_WORD = {"anyOf": [_SCALARS, {"type": "array", "items": _SCALARS}]}
_LISTS = {"anyOf": [*_WORD["anyOf"], {"type": "object", "additionalProperties": _SCALARS}]}


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
    raise PydanticCustomError("word", "a word", {"noun": "a string or a list of strings"})
