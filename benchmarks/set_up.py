"""The first use: how long `./spark-submit.sh --set-up` takes in a folder without an environment."""

from __future__ import annotations

import shutil
import statistics

from benchmarks.bench import Bench, Result
from benchmarks.processes import run_process

WAYS = {
    "with uv": {"SPARK_ASSIGN_INSTALLER": "uv"},
    "with pip": {"SPARK_ASSIGN_INSTALLER": "pip"},
    "with pip, no lock": {"SPARK_ASSIGN_INSTALLER": "pip", "SPARK_ASSIGN_LOCK": "no"},
}


def set_up(bench: Bench) -> None:
    """Each way from the same package index, in turns, with nothing kept from before; a quick run takes the first."""
    place, kept = bench.folder / "set-up", bench.folder / "packages-of-uv"
    spent: dict[str, list[float]] = {name: [] for name in (list(WAYS)[:1] if bench.quick else WAYS)}
    for _ in range(bench.repeats):
        for name in spent:
            variables = {"SPARK_ASSIGN_VENV": str(place), "SPARK_ASSIGN_CLASS_DATA": "no"}
            fresh = {"UV_CACHE_DIR": str(kept), "PIP_NO_CACHE_DIR": "1"}
            took = run_process(["./spark-submit.sh", "--set-up"], **variables, **fresh, **WAYS[name])
            spent[name].append(took.wall)
            for folder in (place, kept):
                shutil.rmtree(folder, ignore_errors=True)
    for name, seconds in spent.items():
        bench.report(Result(f"set-up {name}", "spark,kafka", statistics.median(seconds), "s"))
