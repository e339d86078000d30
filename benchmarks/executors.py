"""(h) Growth from one executor to four, on one machine: processor time and shuffled bytes, not wall time.

Each size runs in a process of its own, with a cluster of executors of one core (`local-cluster`): every executor is a
JVM with Python workers, as in a large cluster. The executors share the machine's cores, so that wall time says nothing.
A round counts once the executors are warm; what they take to get there is a fixed cost of each.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.bench import Bench, Result, first_of, to_noop
from benchmarks.fleets import Shape, read, written, written_with_owners
from benchmarks.processes import ROOT, Usage, watched
from benchmarks.processor import used_by
from benchmarks.session import local_settings, start
from spark_assign import plan

EXECUTORS = (1, 4)
WARM_UPS, ROUNDS = 3, 5
"""Rounds that don't count, for each executor as each gets its share of the tasks; rounds that do."""
DRIVER_HEAP, EXECUTOR_MIB = "1g", 1024


def executors(bench: Bench) -> None:
    """Processor time and shuffled bytes of a plan on four executors, compared with one; sizes in turns."""
    rows = Shape(bench.size(2_000, 20), 10, 10, 500)
    slices = Shape(bench.size(5_000, 20), 10, 10, 500)
    owned = written_with_owners(bench.spark, slices, bench.folder, form="owned_slices")
    fleets = {
        "range": (rows, written(bench.spark, rows, bench.folder), "assignments"),
        "sticky": (slices, owned, "assignment_slices"),
    }
    for assignor, (shape, path, table) in list(fleets.items())[: bench.size(2, 1)]:
        found: dict[int, list[dict[str, float]]] = {size: [] for size in EXECUTORS}
        for _ in range(bench.repeats):
            for size in EXECUTORS[:1] if bench.quick else EXECUTORS:
                found[size].append(_measured(bench, path, assignor, table, size))
        medians = {size: _medians(measured) for size, measured in found.items() if measured}
        _report(bench, f"{assignor}, {table} to noop", f"{shape}", medians)


def _report(bench: Bench, name: str, fleet: str, medians: dict[int, dict[str, float]]) -> None:
    for size, found in medians.items():
        detail = (
            f"{found['shuffled'] / 1e6:.1f} MB shuffled in {found['tasks']:.0f} tasks; session and first plan "
            f"{found['first']:.1f} s; largest Python worker {found['worker']:.0f} MiB"
        )
        bench.report(Result(f"{name}, executors: {size}", fleet, found["seconds"], "s processor", None, detail))
    if bench.quick:
        return
    few, many = (medians[size] for size in EXECUTORS)
    shuffled = many["shuffled"] / few["shuffled"]
    ratio = many["seconds"] / few["seconds"]
    bench.report(Result("of that, growth of processor time", fleet, ratio, "x", bench.goal("<= 1.25")))
    bench.report(Result("of that, growth of shuffled bytes", fleet, shuffled, "x", bench.goal("<= 1.1")))


def _medians(measured: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(each[name] for each in measured) for name in measured[0]}


def _measured(bench: Bench, path: Path, assignor: str, table: str, size: int) -> dict[str, float]:
    """Figures of a plan on this number of executors (`_measure`), in a process of its own."""
    rounds = "1" if bench.quick else str(ROUNDS)
    command = [sys.executable, "-m", "benchmarks.executors", str(path), assignor, table, str(size), rounds]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"planning {path.name} on {size} executors failed:\n{done.stderr[-2000:]}")
    return next(first_of(done.stdout))


# --- in the process of its own ------------------------------------------------------------------------------------


def _measure(path: Path, assignor: str, table: str, size: int, rounds: int) -> dict[str, float]:
    """Processor seconds and shuffled bytes of a round, of the first one with its session, and the peak of a worker."""
    usage = Usage(os.getpid())
    sessions: list[SparkSession] = []

    def work() -> None:
        to_noop(getattr(plan(read(sessions[0], path), assignor), table))
        sessions[0].catalog.clearCache()

    def first() -> None:
        sessions.append(_start(size))
        work()

    with _spark_home() as folder, watched(usage.look):
        os.environ["SPARK_HOME"] = folder
        took_first = used_by(first)
        for _ in range(WARM_UPS * size if rounds > 1 else 0):
            work()
        before = _shuffled(sessions[0])
        seconds = [used_by(work) for _ in range(rounds)]
        after = _shuffled(sessions[0])
        shuffled, tasks = ((late - early) / rounds for early, late in zip(before, after, strict=True))
        sessions[0].stop()
    took = {"first": took_first, "seconds": statistics.median(seconds), "shuffled": shuffled, "tasks": tasks}
    return took | usage.peaks


def _start(size: int) -> SparkSession:
    settings = {
        "spark.master": f"local-cluster[{size},1,{EXECUTOR_MIB}]",
        "spark.executor.memory": f"{EXECUTOR_MIB}m",
        "spark.executor.defaultJavaOptions": local_settings()["spark.driver.defaultJavaOptions"],
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        "spark.scheduler.minRegisteredResourcesRatio": "1",
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
    }
    return start(DRIVER_HEAP, **settings)


@contextmanager
def _spark_home() -> Iterator[str]:
    """PySpark's own Spark under a temporary folder, as the workers of a local cluster write to the home of Spark."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations
    with tempfile.TemporaryDirectory() as folder:
        for path in Path(spec.submodule_search_locations[0]).iterdir():
            (Path(folder) / path.name).symlink_to(path)
        yield folder


def _shuffled(spark: SparkSession) -> tuple[int, int]:
    """Bytes that all stages have written to shuffles, and their tasks: from the interface of Spark's UI."""
    context = spark.sparkContext
    address = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages?status=complete"
    with urllib.request.urlopen(address, timeout=60) as response:
        stages = json.load(response)
    return sum(stage["shuffleWriteBytes"] for stage in stages), sum(stage["numCompleteTasks"] for stage in stages)


if __name__ == "__main__":
    _, location, planned_by, columns, num_executors, counted = sys.argv
    print(json.dumps(_measure(Path(location), planned_by, columns, int(num_executors), int(counted))))
