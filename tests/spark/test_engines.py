"""Every command gives the same on Spark and on the embedded engine: tables, files, texts, and exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_type

from spark_assign.spark.engine import ENGINE
from tests.sizes import drawn
from tests.spark.engine_commands import commands, run, write_fleets

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
DIFFERS = re.compile(
    r"attempt=[\w-]+|[\w-]+\.(?=parquet)|\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|\+00:00)?|\b\d+(\.\d+)? s\b"
)
"""Names of files and attempts, times of day, and how long something has taken."""


def test_the_same_on_both_engines(spark: SparkSession, seed: int, tmp_path: Path) -> None:
    """The sample with every command, drawn groups of all kinds, and fleets with faults."""
    fleets = tmp_path / "fleets"
    write_fleets(fleets, seed, drawn(16, 200))
    # Names of the same length, for the width of printed tables.
    places = {"Spark": tmp_path / "on-spark", "embedded": tmp_path / "embedded"}
    command = [sys.executable, "-m", "tests.spark.engine_commands", str(fleets), str(places["embedded"])]
    with subprocess.Popen(command, cwd=ROOT, env={**os.environ, ENGINE: "embedded"}) as process:
        on_spark = run(places["Spark"], commands(fleets))
        assert process.wait() == 0
    embedded = json.loads((tmp_path / "embedded.json").read_text())
    assert [name for name, (code, *_) in on_spark.items() if code == "exit code 3"] == []
    assert (
        differences(*({name: without_times(lines) for name, lines in said.items()} for said in (on_spark, embedded)))
        == []
    )
    assert differences(*map(contents, places.values())) == []


def differences(spark: dict[str, Any], embedded: dict[str, Any]) -> list[str]:
    """Returns a line for each key that has other values."""
    lines = []
    for key in sorted(spark.keys() | embedded.keys()):
        one, other = spark.get(key), embedded.get(key)
        if one is None or other is None:
            lines.append(f"{key}: only {'embedded' if one is None else 'on Spark'}")
        elif one != other:
            only = [
                next((line for line in these if line not in those), "(another order)")
                for these, those in ((one, other), (other, one))
            ]
            lines.append(f"{key}: Spark {only[0]!r}, embedded {only[1]!r}")
    return lines


def without_times(lines: Iterable[str]) -> list[str]:
    """Returns lines without what differs between two runs."""
    return [DIFFERS.sub("…", line) for line in lines if "gathering the report" not in line]


def contents(folder: Path) -> dict[str, list[str]]:
    """Returns the lines of files, and of tables their schema and their sorted rows."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name[0] not in "._"):
        (name,) = without_times([str(path.relative_to(folder))])
        if path.suffix == ".parquet":
            types, *lines = rows(path)
            found[f"{name}, types"] = [types]
            found[name] = sorted(found[name] + lines)
        else:
            found[name] = without_times(path.read_text().replace(str(folder), ".").splitlines())
    return found


def rows(path: Path) -> list[str]:
    """Returns the types of the columns of a Parquet file, and its rows: each list in its order, null unlike NaN."""
    table = parquet.read_table(path, partitioning=None)
    types = {field.name: from_arrow_type(field.type).simpleString() for field in table.schema}
    return [str(types), *(repr(row) for row in table.to_pylist())]
