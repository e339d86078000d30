"""The embedded engine and Spark in turns, as whole processes: commands on the sample, and large fleets.

Started as a module, it is the process of a large fleet: `python -m benchmarks.engines WORK PATH REPORT`.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks import fleets
from benchmarks.bench import Bench, Result
from benchmarks.fleets import Shape
from benchmarks.processes import ROOT, Spent, run_process
from benchmarks.processor import used_by
from benchmarks.session import start
from spark_assign import Fleet, plan
from spark_assign.replicas import place
from spark_assign.spark.engine import ENGINE, embedded_session

EMBEDDED, SPARK = ENGINES = ("embedded", "spark")

COMMANDS = {
    "plan": "plan --fleet conf/sample-fleet --output {}",
    "plan --sample": "plan --sample --output {}",
    "compare": "compare --sample --output {}",
    "advise": "advise --sample --output {}",
    "advise size": "advise size --sample",
    "advise membership": "advise membership --sample",
    "advise zones": "advise zones --sample",
    "migrate": "migrate --sample --output {}",
    "simulate": "simulate --sample --output {}",
    "history": "history --sample --output {}",
    "replicas reassign": "replicas reassign --sample --remove 3 --output {}",
    "replicas check": "replicas check --sample",
    "replicas operate": "replicas operate --sample",
    "report": "report --sample --output-file {}.html",
    "check": "check --sample",
    "daily": "daily --sample --output {}",
}
"""Commands by name, with the place for their output."""


def sample(bench: Bench) -> None:
    """Processor time of each command on the sample."""
    names = ["plan"] if bench.quick else list(COMMANDS)
    for name in names:
        spent: dict[str, list[Spent]] = {engine: [] for engine in bench.engines}
        for _ in range(bench.repeats):
            for engine in bench.engines:
                output = bench.folder / f"sample-{engine}"
                job, *words = COMMANDS[name].format(output).split()
                is_embedded = engine == EMBEDDED
                command = [sys.executable, f"jobs/{job}.py"] if is_embedded else ["./spark-submit.sh", job]
                spent[engine].append(_run([*command, *words], engine))
                shutil.rmtree(output, ignore_errors=True)
        _report(bench, name, "sample", spent, "<= 3" if name == "plan" else "<= 6")


def large(bench: Bench) -> None:
    """Plans of 10M and 50M partitions as rows, of a billion as slices, placement with racks, and a second answer."""
    groups = bench.size(2_000, 20)
    shapes = {
        "rows": Shape(groups, 10, 10, 500),
        "many-rows": Shape(groups, 10, 50, 500),
        "slices": Shape(bench.size(20_000, 20), 10, 10, 5_000),
    }
    cpu, wall = ("<= 6", None), (None, "<= 15")
    goals = {"rows": cpu, "many-rows": wall, "slices": (None, "<= 5"), "place": ("<= 3", None), "second": (None, None)}
    for work in ("rows", "second") if bench.quick else goals:
        path = fleets.written(bench.spark, shapes[work], bench.folder) if work in shapes else ROOT / "conf/sample-fleet"
        spent: dict[str, list[Spent]] = {engine: [] for engine in bench.engines}
        seconds: dict[str, list[float]] = {engine: [] for engine in bench.engines}
        report = bench.folder / "seconds.json"
        for _ in range(bench.repeats):
            for engine in bench.engines:
                command = [sys.executable, "-m", "benchmarks.engines", work, str(path), str(report)]
                spent[engine].append(_run(command, engine))
                seconds[engine].append(json.loads(report.read_text(encoding="utf-8")))
        fleet = str(shapes.get(work, "sample"))
        _report(bench, work, fleet, spent, *goals[work])
        if work == "second":
            for engine, of in seconds.items():
                goal = bench.goal("<= 0.5") if engine == EMBEDDED else None
                bench.report(Result(f"second answer, {engine}", fleet, statistics.median(of), "processor s", goal))


def _run(command: list[str], engine: str) -> Spent:
    return run_process(command, **{ENGINE: engine, "SPARK_ASSIGN_LOCAL_FILES": "yes", "PYTHONPATH": str(ROOT)})


def _report(
    bench: Bench,
    name: str,
    fleet: str,
    spent: dict[str, list[Spent]],
    processor_goal: str | None,
    wall_goal: str | None = None,
) -> None:
    """Reports medians; the goals are those of the embedded engine."""
    for engine, of in spent.items():
        processor = statistics.median(each.processor for each in of)
        wall = statistics.median(each.wall for each in of)
        peak = statistics.median(each.peaks["jvm"] + each.peaks["python"] for each in of)
        detail = f"processor {processor:.1f} s, wall {wall:.1f} s, {peak:,.0f} MiB"
        is_wall = wall_goal is not None
        goal = (wall_goal or processor_goal) if engine == EMBEDDED else None
        figure, unit = (wall, "s") if is_wall else (processor, "processor s")
        bench.report(Result(f"{name}, {engine}", fleet, figure, unit, goal and bench.goal(goal), detail))


# --- the process of a large fleet


def _rows(spark: SparkSession, path: str) -> None:
    plan(fleets.read(spark, Path(path)), "range").assignments.write.parquet(f"{path}-out")


def _slices(spark: SparkSession, path: str) -> None:
    plan(fleets.read(spark, Path(path)), "range").assignment_slices.write.parquet(f"{path}-out")


def _place(spark: SparkSession, path: str) -> None:
    rack = F.concat(F.lit("rack"), F.col("id") % 10)
    brokers = spark.range(100).select(
        F.lit("c").alias("cluster"), F.col("id").cast("int").alias("broker_id"), rack.alias("rack_id")
    )
    columns = "cluster string, topic string, partitions int, replication_factor int, start_index int"
    requests = spark.createDataFrame([("c", "t", 1_000_000, 3, 5)], columns)
    place(requests, brokers, "adminutils").placements.write.format("noop").mode("overwrite").save()


def _answer(spark: SparkSession, path: str) -> None:
    plan(Fleet.read(spark, path)).metrics.collect()


WORKS: dict[str, Callable[[SparkSession, str], None]] = {
    "rows": _rows,
    "many-rows": _rows,
    "slices": _slices,
    "place": _place,
    "second": _answer,
}


def main(work: str, path: str, report: str) -> None:
    """Does a work, and `second` twice; writes the processor seconds of the last time."""
    spark = embedded_session() if os.environ[ENGINE] == EMBEDDED else start("4g")
    seconds = 0.0
    for _ in range(2 if work == "second" else 1):
        seconds = used_by(partial(WORKS[work], spark, path))
    shutil.rmtree(f"{path}-out", ignore_errors=True)
    Path(report).write_text(json.dumps(seconds), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
