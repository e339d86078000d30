"""Marks tests as tests/selection.toml lists them, and `spark` if they start a session.

Tests that are marked `classic` are skipped on the embedded engine.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

FILE = Path(__file__).with_suffix(".toml")
SPARK = Path(__file__).parent / "spark"
"""Its tests belong to the Spark part even if they need no session."""


def listed() -> dict[str, dict[str, str]]:
    """Returns, for each mark, the listed tests and the reason for each."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def is_embedded() -> bool:
    """Whether the tests share a session of the embedded engine, and not one of Spark."""
    by_default = "spark" if os.environ.get("SPARK_ASSIGN_TEST_REMOTE") else "embedded"
    return os.environ.get("SPARK_ASSIGN_TEST_ENGINE", by_default) == "embedded"


def mark(items: Iterable[pytest.Item]) -> None:
    """Adds the marks to the collected tests."""
    marks = listed()
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) or item.path.is_relative_to(SPARK):
            item.add_marker(pytest.mark.spark)
        for name, tests in marks.items():
            if reason := reason_of(item.nodeid, tests):
                item.add_marker(getattr(pytest.mark, name)(reason))
        if is_embedded() and item.get_closest_marker("classic"):
            item.add_marker(pytest.mark.skip("needs Spark: SPARK_ASSIGN_TEST_ENGINE=spark"))


def reason_of(test: str, tests: Mapping[str, str]) -> str | None:
    """Returns the reason of the entry that names the test, its function, or its file."""
    file, _, function = test.partition("::")
    for name in (test, f"{file}::{function.partition('[')[0]}", file):
        if name in tests:
            return tests[name]
    return None
