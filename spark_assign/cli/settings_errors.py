"""What is wrong with settings, all of it at once: a line for each fault, with its place and the remedy.

    top is 'ten' (str), expected a whole number
    group_assignor 2: unknown key group. Did you mean groups? Known: groups, assignor

Places are TOML's: names with dots, and of an array of tables (`[[group_assignor]]`) the number of the table, counted
from 1. pydantic finds the faults; here are its findings in our words. Nothing of this project is imported: the provider
of Airflow has this very file (`jobs/airflow/spark_assign_airflow/settings_errors.py` is a link), in an environment
without the rest.
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
    "less_than_equal": "{le:g} or less",
}
_OF_RANGE = ("greater_than_equal", "greater_than", "less_than_equal")


def faults(error: ValidationError, model: type[BaseModel], given: Mapping[str, Any]) -> list[str]:
    """A line for every fault, in the order of the model's keys; unknown keys come last.

    Args:
        error: what validating has raised.
        model: what was validated against.
        given: what was validated.
    """
    return [line for each in error.errors() for line in _lines(each, model, given)]


def listed(origin: str, lines: Sequence[str]) -> str:
    """One message of them: a single fault in its line, several below each other."""
    if len(lines) == 1:
        return f"{origin}: {lines[0]}"
    return f"{origin}: {len(lines)} faults:\n" + "\n".join(f"  - {line}" for line in lines)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Names that there are, the one that is most like this one first."""
    known = list(known)
    close = get_close_matches(name, known, n=1)
    return (f"Did you mean {close[0]}? " if close else "") + f"Known: {', '.join(known)}"


def _lines(fault: Any, model: type[BaseModel], given: Mapping[str, Any]) -> list[str]:
    kind, where, context = fault["type"], list(fault["loc"]), fault.get("ctx", {})
    if where and where[-1] == "[key]":  # of a table whose keys are names
        known = _names(context.get("expected", ""))
        return [f"{_said(where[:-1], given, 'unknown key {}')}. {did_you_mean(str(where[-2]), known)}"]
    annotation = _annotation(model, where)
    if kind == "extra_forbidden":
        inside = _model(_annotation(model, where[:-1]))
        known = [] if inside is None else [field.alias or name for name, field in inside.model_fields.items()]
        return [f"{_said(where, given, 'unknown key {}')}. {did_you_mean(str(where[-1]), known)}"]
    if kind == "missing":
        return [f"{_place(where, given)} is missing"]
    if kind == "value_error":
        text = str(context["error"])
        return [f"{_prefix(where, given)}{line}" for line in text.splitlines()]
    if kind == "literal_error":
        known = _names(context["expected"])
        return [f"{_place(where, given)} is {fault['input']!r}. {did_you_mean(str(fault['input']), known)}"]
    if kind in ("list_type", "tuple_type"):
        inner = _model(annotation)
        expected = "a list of strings" if inner is None else f"tables [[{where[-1]}]]"
    elif kind in ("model_type", "model_attributes_type"):
        inner = _model(annotation)
        expected = "a table" + (f" of {', '.join(inner.model_fields)}" if inner else "")
    else:
        expected = _EXPECTED.get(kind, "").format(**context) or context.get("noun") or fault["msg"]
    of_type = "" if kind in _OF_RANGE else f" ({type(fault['input']).__name__})"
    return [f"{_place(where, given)} is {fault['input']!r}{of_type}, expected {expected}"]


def _names(expected: str) -> list[str]:
    """Of pydantic's `'a', 'b' or 'c'`."""
    return re.findall(r"'([^']*)'", expected)


def _place(where: Sequence[str | int], given: Any) -> str:
    """`output.tables 2`, `group_assignor 1: groups`, `dag 1 (nightly): retries`."""
    return _said(where, given, "{}")


def _prefix(where: Sequence[str | int], given: Any) -> str:
    """What comes before a sentence of its own about a table or a key."""
    place = _place(where, given)
    return f"{place}: " if place else ""


def _said(where: Sequence[str | int], given: Any, last: str) -> str:
    """The place, its last stretch of names (`fleet.format`) as `last` says it."""
    before, names = "", ""
    for part in where:
        if isinstance(part, int):
            given = given[part] if isinstance(given, list | tuple) and part < len(given) else None
            label = given.get("dag_id") if isinstance(given, Mapping) else None
            number = f"{names} {part + 1}" + (f" ({label})" if isinstance(label, str) else "")
            before, names = (f"{before}{number}: ", "")
        else:
            given = given.get(part) if isinstance(given, Mapping) else None
            names = f"{names}.{part}" if names else str(part)
    return f"{before}{last.format(names)}" if names else before.removesuffix(": ")


def _annotation(model: type[BaseModel], where: Sequence[str | int]) -> Any:
    """The type of what stands there."""
    found: Any = model
    for part in where:
        inside = _model(found)
        if not isinstance(part, int) and inside is not None:
            by_name = {field.alias or name: field.annotation for name, field in inside.model_fields.items()}
            found = by_name.get(part)
    return found


def _model(annotation: Any) -> type[BaseModel] | None:
    """The model in a type such as `tuple[Assign, ...]` or `FleetSettings | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for each in get_args(annotation) if (found := _model(each)) is not None), None)
