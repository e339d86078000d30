"""Every command gives the same on Spark and on the embedded engine: tables, files, texts, and exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_type

from spark_assign.spark.engine import ENGINE, shares_files
from tests.sizes import drawn
from tests.spark.engine_commands import FAULTY, OF_THE_SAMPLE, commands, run, write_fleets

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
DIFFERS = re.compile(
    r'^engine: .*|"attempt": ?"[^"]*"|"duration_s": ?[\d.]+|ed_at\\?": ?\\?"[^"\\]*|\\"spark\\": \\"[^\\]*'
    r'|timestamp_seconds{run="r"} \S+|[Ff]inished(</dt><dd>)? ?\d{4}[-\d :]+UTC'
    r'|</time></td><td class="n">[\d.]+|\b\d+(\.\d+)? s\b'
)
"""What manifests, pages, and metrics say about the time of a run, the age of a snapshot, and the engine."""


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
    codes = {name: code for name, (code, *_) in on_spark.items()}
    assert {name: codes[name] for name in OF_THE_SAMPLE.keys() & codes if codes[name] != "exit code 0"} == {}
    assert "exit code 3" not in codes.values()
    if not shares_files(spark):  # the server's readers word the faults of files otherwise; the exit codes are the same
        on_spark, embedded = (
            {name: lines[:1] if name.partition(",")[0] in FAULTY else lines for name, lines in each.items()}
            for each in (on_spark, embedded)
        )
    texts = ({name: without_times(lines) for name, lines in each.items()} for each in (on_spark, embedded))
    assert differences(*texts) == []
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
    return [DIFFERS.sub("…", line) for line in lines]


def contents(folder: Path) -> dict[str, list[str]]:
    """Returns the lines of files by path, and the sorted rows of tables by the path without the attempt."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name[0] not in "._"):
        place = path.relative_to(folder)
        names = [name for name in place.parent.parts if not name.startswith("attempt=")]
        if path.suffix == ".parquet":
            found["/".join(names)] += rows(path)
        else:
            name = "manifest" if names[-1:] == ["manifest"] else path.name
            found["/".join([*names, name])] += without_times(path.read_text().replace(str(folder), ".").splitlines())
    return {name: lines if "." in name or "manifest" in name else sorted(lines) for name, lines in found.items()}


def rows(path: Path) -> list[str]:
    """Returns the rows of a Parquet file, with types: each list in its order, null unlike NaN."""
    table = parquet.ParquetFile(path, coerce_int96_timestamp_unit="us").read()
    types = [from_arrow_type(field.type).simpleString().removesuffix("_ntz") for field in table.schema]
    return [
        ", ".join(f"{name} {kind} {_text(value)}" for (name, value), kind in zip(row.items(), types, strict=True))
        for row in table.to_pylist()
    ]


def _text(value: Any) -> str:
    return repr(value.replace(tzinfo=None) if isinstance(value, datetime) else value)
