"""Snapshots of several clusters in Delta tables, with Delta's own jars from Maven Central."""

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


@pytest.fixture(scope="module")
def jars() -> str:
    """Delta's, comma-separated."""
    release = ".".join(pyspark.__version__.split(".")[:2])
    if release != maven.DELTA_FOR_SPARK:
        pytest.skip(f"Delta {maven.DELTA_VERSION} is for Spark {maven.DELTA_FOR_SPARK}, this is {release}")
    with fetched.or_skipped():
        return ",".join(maven.delta_jars())


@pytest.mark.parametrize("kind", ["classic", "connect"])
def test_three_clusters_in_delta_tables(jars: str, kind: str, tmp_path: Path) -> None:
    """At once into tables that are made then; again after one was taken anew; a fault in one; tables as they were."""
    command = [sys.executable, "-m", "tests.spark.delta", jars, str(tmp_path / "warehouse"), kind]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    done = subprocess.run(
        command,
        cwd=tmp_path,
        # Any free port for Spark Connect: the tests beside this one have the usual one.
        env=environment | {"PYTHONPATH": str(ROOT), "SPARK_TESTING": "1"},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines()[-1] == "done"
