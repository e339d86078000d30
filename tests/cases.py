"""Tables of cases and of expectations, written compactly: a decorator for parametrized tests, and rows as text."""

from __future__ import annotations

import ast
import re
from typing import Any

import pytest

_VALUE = re.compile(r"'[^']*'|\S+")


def cases(names: str, *rows: Any) -> pytest.MarkDecorator:
    """Runs a test once for each row, with the row's values as the arguments that `names` lists, separated by blanks.

    A row is a tuple or a `pytest.param`; if there is only one name, a row is its value.
    """
    arguments = names.split()
    return pytest.mark.parametrize(arguments if len(arguments) > 1 else arguments[0], rows)


def tuples(text: str) -> list[tuple[Any, ...]]:
    """Returns rows, with semicolons between them, as tuples: `tuples("a 1; b None") == [("a", 1), ("b", None)]`.

    A value is a Python literal without blanks, or else text. Text with blanks, or that is a literal, is in quotes.
    """
    return [tuple(map(_value, _VALUE.findall(row))) for row in text.split(";")]


def keyed(text: str) -> dict[str, Any]:
    """Returns a row by name: `keyed("member=a count=1") == {"member": "a", "count": 1}`, with values as in `tuples`."""
    return {name: _value(value) for name, value in re.findall(r"(\w+)=('[^']*'|\S+)", text)}


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
