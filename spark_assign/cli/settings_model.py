"""The settings file of a job as a model, made of the job's flags: which keys it has, and what each may be."""

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
"""Of the tables of a file the flags that their keys stand for."""

LOCATION_TYPES = ("location",)
"""Types of flags whose values start from the folder of the file."""

_NOT_OF_FILES = ("config", "help")
_STRICT = ConfigDict(extra="forbid", strict=True)
_SCALARS = {"type": ["string", "number", "boolean"]}


def model_of(parameters: Sequence[click.Parameter]) -> type[BaseModel]:
    """The model of a settings file.

    Args:
        parameters: the job's. A value of the model is as the command line would have it: a list for what is
            repeatable, `A,B` for a list that the flag takes as one word.
    """
    flags = {str(each.name): each for each in parameters if each.name not in _NOT_OF_FILES}
    fields: dict[str, Any] = {}
    for name, flag in flags.items():
        if name not in TABLES:
            fields[name] = _field(flag)
    for name, keys in TABLES.items():
        if name in flags:
            inner: dict[str, Any] = {key: _field(flags[each]) for key, each in keys.items() if each in flags}
            table = create_model(name.capitalize(), __config__=_STRICT, **inner)
            fields[name] = (table | None, Field(None, description=getattr(flags[name], "help", None)))
    config = ConfigDict(**_STRICT, json_schema_extra=_as_files_may_say_it)
    return create_model("Settings", __config__=config, **fields)


def _as_files_may_say_it(schema: dict[str, Any]) -> None:
    """For editors: `fail-on` is `fail_on`, and a fleet may be its place alone."""
    properties = schema["properties"]
    for name in list(properties):
        if name in TABLES:
            properties[name] = {"anyOf": [properties[name], {"type": "string"}]}
        elif "_" in name:
            properties[name.replace("_", "-")] = properties[name]


def _field(flag: click.Parameter) -> Any:
    return (_type(flag) | None, Field(None, description=getattr(flag, "help", None)))


def _type(flag: Any) -> Any:
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
    """A string; a list as the command line has it."""
    if isinstance(value, list):
        return ",".join(map(_scalar, value))
    return _scalar(value)


def _words(value: Any) -> list[str]:
    """What is repeatable: a list, a table of `NAME = VALUE`, or a single one."""
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
