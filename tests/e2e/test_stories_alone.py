"""Stories are told without Spark and without Java, in a process of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "arguments",
    [
        "simulate textbook-join --picture png",
        "simulate crash --variant static --variant static",
        "simulate 90x10 --run-id one",
    ],
)
def test_a_story_starts_neither_spark_nor_java(arguments: str, tmp_path: Path) -> None:
    """In a process of its own, in which no other process can be started."""
    pytest.importorskip("vl_convert", reason="drawing is an extra")
    job, *words = arguments.split()
    check = (
        f"import subprocess, sys; subprocess.Popen.__init__ = None; from jobs import {job}; "
        f"code = {job}.main(sys.argv[1:]); "
        "from pyspark import SparkContext; assert SparkContext._gateway is None; sys.exit(code)"
    )
    command = [sys.executable, "-c", check, *words, "--pictures-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"Drawn to {tmp_path}" in done.stdout
    assert done.stdout.count("static ") <= 1, "a protocol that is given twice is played once"
