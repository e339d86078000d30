"""tests/selection.toml names tests that exist, each with a reason."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests import selection

ROOT = Path(__file__).parents[2]


def test_every_listed_test_exists_and_has_a_reason() -> None:
    """A key is a file, or `file::function`, with or without parameters in brackets."""
    for mark, tests in selection.listed().items():
        assert mark in ("full", "classic", "repeated", "connect")
        for key, reason in tests.items():
            assert reason.strip(), f"{mark}: {key} has no reason"
            name, _, function = key.partition("::")
            assert (ROOT / name).is_file(), f"{mark}: {name} isn't a file"
            if function:
                assert function.partition("[")[0] in _functions(name), f"{mark}: {key} isn't a test"


@cache
def _functions(name: str) -> frozenset[str]:
    """Returns the names of the functions of a test file."""
    tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_nothing_is_selected_in_code() -> None:
    """What only the full run includes is in tests/selection.toml, with its reason."""
    word = "mark" + ".full"
    assert [str(path) for path in (ROOT / "tests").rglob("*.py") if word in path.read_text(encoding="utf-8")] == []
