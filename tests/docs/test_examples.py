"""The examples in the docstrings of the public API, which the reference shows: each prints what stands under it.

`fleet` and `records` are those that docs/reference.md describes.
"""

from __future__ import annotations

import doctest
import inspect
from typing import Any

import pytest
from pyspark.sql import SparkSession

import spark_assign
from spark_assign import advice, assignors, history
from spark_assign.groups import planning
from tests.docs import given

pytestmark = [pytest.mark.spark, pytest.mark.once]

PUBLIC = {name: getattr(r, name) for r in (spark_assign, advice, assignors, history) for name in r.__all__}
"""The public names that examples use."""


def with_examples() -> dict[str, Any]:
    """What is public and described, and the methods of it that are."""
    found = {}
    for name, public in PUBLIC.items():
        found[name] = public
        if inspect.isclass(public):
            methods = inspect.getmembers(public, lambda each: inspect.isfunction(each) or inspect.ismethod(each))
            found |= {f"{name}.{each}": method for each, method in methods if each in vars(public)}
    return {name: each for name, each in found.items() if ">>> " in (each.__doc__ or "")}


@pytest.mark.parametrize("name", with_examples())
def test_an_example_prints_what_is_shown(name: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run as a reader would, with the public names imported."""
    monkeypatch.setattr(planning, "_registered", {})
    known = PUBLIC | {"spark": spark, "fleet": given.small_fleet(spark), "records": given.sample_records(spark)}
    example = with_examples()[name]
    printed: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for test in doctest.DocTestFinder(recurse=False).find(example, name, globs=known):
        runner.run(test, out=printed.append)
    assert runner.tries > 0
    assert not runner.failures, "".join(printed)
