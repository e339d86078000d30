"""Commands of the pages that compute the same share it: a job's function with the same arguments is called once.

Every command still parses its words, reads its fleet, writes and prints.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from spark_assign import Fleet
from spark_assign.spark.engine import is_embedded

FUNCTIONS = {
    "advise": "spark_assign.cli.advice_modes",
    "measure_zone_traffic": "spark_assign.cli.advice_modes",
    "plan_migration": "jobs.migrate",
    "plan_upgrade": "jobs.migrate",
}
"""Functions that several commands of a page call with the same arguments, and the module that calls each."""


@contextmanager
def recalled() -> Iterator[None]:
    """Within it the fleets that the jobs read, and what they compute of them, are kept for the next command."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Fleet, "read", _fleets_by_content(Fleet.read))
        for function, name in FUNCTIONS.items():
            module = importlib.import_module(name)
            patch.setattr(module, function, _called_once(getattr(module, function)))
        yield


def _fleets_by_content(read_fleet: Callable[..., Fleet]) -> Callable[..., Fleet]:
    known: dict[str, Fleet] = {}

    def read(spark: Any, place: str | None, **how: Any) -> Fleet:
        tables = how.get("tables") or {}
        files = [_content(each) for each in (place, *tables.values())]
        key = repr((files, list(tables), [how.get(name) for name in ("format", "options")]))
        if None in files:
            return read_fleet(spark, place, **how)
        if key not in known:
            known[key] = read_fleet(spark, place, **how)
        return known[key]

    return read


def _content(place: str | None) -> str | None:
    """The digest of a local file, or of a folder with the paths in it; None for any other place."""
    if place is None:
        return ""
    path = Path(place).resolve()
    if not path.exists():
        return None
    digest = hashlib.sha256()
    for file in [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file()):
        digest.update(f"{file.relative_to(path)}\0{file.stat().st_size}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def _called_once(function: Callable[..., Any]) -> Callable[..., Any]:
    known: list[tuple[Any, Any, Any]] = []

    def call(*arguments: Any, **named: Any) -> Any:
        for before, before_named, result in known:
            if _same(before, arguments) and _same(before_named, named):
                return result
        result = function(*arguments, **named)
        known.append((arguments, named, result))
        return result

    return call


def _same(one: Any, other: Any) -> bool:
    """Whether two arguments are equal; tables are if Spark finds that they always have the same rows.

    The embedded engine doesn't compare tables.
    """
    if isinstance(one, DataFrame) and isinstance(other, DataFrame):
        return one is other or (not is_embedded(one.sparkSession) and one.sameSemantics(other))
    if isinstance(one, Fleet) and isinstance(other, Fleet):
        names = [field.name for field in dataclasses.fields(Fleet)]
        return all(_same(getattr(one, name), getattr(other, name)) for name in names)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return bool(one == other)
