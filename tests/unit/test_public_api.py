"""The public API: its names, what every result has, and the errors that functions raise."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

import spark_assign
from spark_assign import assignors
from spark_assign.report import results
from spark_assign.stores.result import Result

ROOMS = ("advice", "connect", "assignors", "history", "replicas", "share", "simulation", "streams")
NAMESPACES = ("spark_assign", *(f"spark_assign.{name}" for name in ROOMS))
MEMBERS = ("tables", "write", "read", "show", "to_html")
TABLES_ONLY = {"ConnectSimulation"}
"""Results that no command prints: `show` prints the first rows of their tables."""


def public() -> Iterator[tuple[str, Any]]:
    """Every public class and function, by namespace and name."""
    for namespace in NAMESPACES:
        module = import_module(namespace)
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                yield f"{namespace}.{name}", value


def is_error(value: Any) -> bool:
    """Whether a public name is an exception."""
    return isinstance(value, type) and issubclass(value, Exception)


def result_classes() -> list[type[Result]]:
    """The public classes of results."""
    return [value for _, value in public() if isinstance(value, type) and issubclass(value, Result)]


def test_public_names_are_few() -> None:
    """A new name is a decision: it is covered by the stability policy."""
    assert len(spark_assign.__all__) == 26


@pytest.mark.parametrize("kind", result_classes(), ids=lambda kind: kind.__name__)
def test_every_result_has_the_five_members(kind: type[Result]) -> None:
    """From one base class; every declared table is an attribute with a description."""
    for member in MEMBERS:
        assert inspect.getattr_static(kind, member) is inspect.getattr_static(Result, member), member
    fields = getattr(kind, "__dataclass_fields__", {})
    for table in kind.schemas:
        described = table in fields or getattr(inspect.getattr_static(kind, table), "__doc__", None)
        assert described, f"{kind.__name__}.{table}"


def test_every_result_is_printed_and_has_a_page() -> None:
    """A result without a summary of a command is listed here; a result without sections has a page of its tables."""
    names = {kind.__name__ for kind in result_classes()}
    assert len(names) >= 19
    assert set(results.SUMMARIES) == names - TABLES_ONLY
    assert set(results.SECTIONS) < names


def test_documented_errors_are_of_one_hierarchy() -> None:
    """What a docstring lists under Raises is a SparkAssignError that the package exports."""
    errors = {name.rpartition(".")[2]: value for name, value in public() if is_error(value)}
    assert set(errors) == {"SparkAssignError", "ConfigError", "FleetError", "SourceError", "TaskAssignorError"}
    assert all(issubclass(each, spark_assign.SparkAssignError) for each in errors.values())
    found = {}
    for name, value in public():
        for inner, each in [("", value), *(vars(value).items() if isinstance(value, type) else ())]:
            text = inspect.getdoc(getattr(each, "__func__", each)) or ""
            raises = (
                re.search(r"^Raises:\n((?:    .*\n?|\n)+)", text, re.MULTILINE) if callable(each) or inner else None
            )
            named = re.findall(r"^    ([A-Z]\w+(?:, [A-Z]\w+)*):", raises[1], re.MULTILINE) if raises else []
            wrong = {one for names in named for one in names.split(", ")} - set(errors)
            if wrong:
                found[f"{name}.{inner}"] = wrong
    assert found == {}


def test_a_former_place_of_public_names() -> None:
    """An assignor of a user that was written for it still works."""
    assert import_module("spark_assign.groups.assignors").GroupAssignor is assignors.GroupAssignor
