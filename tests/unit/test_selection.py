"""tests/selection.toml names tests that exist, each with a reason; and so does mutation/faults.toml."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

from mutation import fault_list
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


def test_every_listed_parameter_is_collected() -> None:
    """A test whose parameters get other names would silently leave both lists, or end `mutation/faults`."""
    lists = [*selection.listed().values(), *(fault.tests for fault in fault_list.read())]
    names = {test for tests in lists for test in tests if "[" in test}
    files = sorted({test.partition("::")[0] for test in names})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert names - {*done.stdout.splitlines()} == set()


@cache
def _functions(name: str) -> frozenset[str]:
    """Returns the names of the functions of a test file."""
    tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_nothing_is_selected_in_code() -> None:
    """What only the full run includes is in tests/selection.toml, with its reason."""
    word = "mark" + ".full"
    assert [str(path) for path in (ROOT / "tests").rglob("*.py") if word in path.read_text(encoding="utf-8")] == []
