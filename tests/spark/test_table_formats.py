"""Snapshots, plans, and a history in Delta and Iceberg tables, with their own jars from Maven Central."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.kafka import fetched, maven

pytestmark = [pytest.mark.spark, pytest.mark.once]

ROOT = Path(__file__).parents[2]


def jars(table_format: str) -> str:
    """Returns the jars of a format, comma-separated; skips the test if they are for another Spark."""
    release = ".".join(pyspark.__version__.split(".")[:2])
    if release != maven.FORMATS_FOR_SPARK:
        pytest.skip(f"the jars are for Spark {maven.FORMATS_FOR_SPARK}, this is {release}")
    with fetched.or_skipped():
        return ",".join(maven.delta_jars() if table_format == "delta" else maven.iceberg_jars())


@pytest.mark.parametrize("kind", ["classic", "connect"])
@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_tables_of_a_format(table_format: str, kind: str, tmp_path: Path) -> None:
    """Concurrent writers create the tables; rows are replaced and removed; a faulty snapshot; added columns."""
    arguments = [jars(table_format), str(tmp_path / "warehouse"), table_format, kind]
    command = [sys.executable, "-m", "tests.spark.table_formats", *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    done = subprocess.run(
        command,
        cwd=tmp_path,
        # Any free port for Spark Connect: the tests beside this one have the usual one.
        env=environment | {"PYTHONPATH": str(ROOT), "SPARK_TESTING": "1", "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines()[-1] == "done"
