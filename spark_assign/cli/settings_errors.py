"""Formats the faults of settings: one line per fault, with its location and the remedy.

    top is 'ten' (str), expected a whole number
    group_assignor 2: unknown key group. Did you mean groups? Known: groups, assignor

Locations are dotted key names, and the number of the table, from 1, in an array of tables (`[[group_assignor]]`).
pydantic finds the faults. This file imports nothing of this project: the Airflow provider links to it
(`jobs/airflow/spark_assign_airflow/settings_errors.py`), in an environment without the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

_EXPECTED = {
    "string_type": "a string",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "a table",
    "mapping_type": "a table",
    "datetime_type": "a date",
    "greater_than_equal": "{ge:g} or more",
    "greater_than": "more than {gt:g}",
    "less_than_equal": "{le:,.15g} or less",
    "less_than": "less than {lt:g}",
}
_MAX_FAULTS, _MAX_CHARACTERS = 50, 200
_RANGE_KINDS = ("greater_than_equal", "greater_than", "less_than_equal", "less_than")


def faults(error: ValidationError, model: type[BaseModel], settings: Mapping[str, Any]) -> list[str]:
    """Returns one line per fault, in the order of the model's keys; unknown keys come last.

    Args:
        error: the validation error.
        model: the model of the settings.
        settings: the validated settings.
    """
    found = error.errors(include_url=False)
    more = [f"… and {len(found) - _MAX_FAULTS:,} more"] if len(found) > _MAX_FAULTS else []
    return [*(line for fault in found[:_MAX_FAULTS] for line in _lines(fault, model, settings)), *more]


def listed(origin: str, lines: Sequence[str]) -> str:
    """Returns one message: a single fault on the same line, several faults as a list."""
    if len(lines) == 1:
        return f"{origin}: {lines[0]}"
    return f"{origin}: {len(lines)} faults:\n" + "\n".join(f"  - {line}" for line in lines)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns the known names, preceded by the most similar one."""
    known = list(known)
    close = get_close_matches(name, known, n=1)
    return (f"Did you mean {close[0]}? " if close else "") + f"Known: {', '.join(known)}"


def _lines(fault: Any, model: type[BaseModel], settings: Mapping[str, Any]) -> list[str]:
    """Returns the sentences about one error in a settings file."""
    kind, path, context = fault["type"], list(fault["loc"]), fault.get("ctx", {})
    if path and path[-1] == "[key]":  # a table whose keys are names
        known = _names(context.get("expected", ""))
        return [f"{_location(path[:-1], settings, 'unknown key {}')}. {did_you_mean(str(path[-2]), known)}"]
    location = _location(path, settings)
    if kind == "extra_forbidden":
        parent = _model(_annotation(model, path[:-1]))
        known = [] if parent is None else [field.alias or name for name, field in parent.model_fields.items()]
        return [f"{_location(path, settings, 'unknown key {}')}. {did_you_mean(str(path[-1]), known)}"]
    if kind == "missing":
        return [f"{location} is missing"]
    if kind == "value_error":
        return [f"{location}: {line}" if location else line for line in str(context["error"]).splitlines()]
    if kind == "literal_error":
        remedy = did_you_mean(_cut(str(fault["input"])), _names(context["expected"]))
        return [f"{location} is {_shown(fault['input'])}. {remedy}"]
    inner = _model(_annotation(model, path))
    if kind in ("list_type", "tuple_type"):
        expected = "a list of strings" if inner is None else f"tables [[{path[-1]}]]"
    elif kind in ("model_type", "model_attributes_type"):
        expected = "a table" + (f" of {', '.join(inner.model_fields)}" if inner else "")
    else:
        expected = _EXPECTED.get(kind, "").format(**context) or context.get("noun") or fault["msg"]
    type_name = "" if kind in _RANGE_KINDS else f" ({type(fault['input']).__name__})"
    return [f"{location} is {_shown(fault['input'])}{type_name}, expected {expected}"]


def _shown(value: Any) -> str:
    """Returns the start of a value as Python writes it."""
    return _cut(repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}…"


def _names(expected: str) -> list[str]:
    """Returns the names in pydantic's text `'a', 'b' or 'c'`."""
    return re.findall(r"'([^']*)'", expected)


def _location(path: Sequence[str | int], settings: Any, last: str = "{}") -> str:
    """Returns the location of a key: `output.tables 2`, `group_assignor 1: groups`, `dag 1 (nightly): retries`.

    `last` formats the last dotted name.
    """
    before, names = "", ""
    for part in path:
        if isinstance(part, int):
            settings = settings[part] if isinstance(settings, list | tuple) and part < len(settings) else None
            label = settings.get("dag_id") if isinstance(settings, Mapping) else None
            number = f"{names} {part + 1}" + (f" ({label})" if isinstance(label, str) else "")
            before, names = (f"{before}{number}: ", "")
        else:
            settings = settings.get(part) if isinstance(settings, Mapping) else None
            names = f"{names}.{_cut(part)}" if names else _cut(part)
    return f"{before}{last.format(names)}" if names else before.removesuffix(": ")


def _annotation(model: type[BaseModel], path: Sequence[str | int]) -> Any:
    """Returns the type of the value at a path."""
    annotation: Any = model
    for part in path:
        parent = _model(annotation)
        if not isinstance(part, int) and parent is not None:
            by_name = {field.alias or name: field.annotation for name, field in parent.model_fields.items()}
            annotation = by_name.get(part)
    return annotation


def _model(annotation: Any) -> type[BaseModel] | None:
    """Returns the model in a type such as `tuple[LeaderClientSettings, ...]` or `FleetSettings | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for each in get_args(annotation) if (found := _model(each)) is not None), None)
