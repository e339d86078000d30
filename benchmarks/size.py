"""How many consumers each group of a fleet needs, over many numbers of members."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from pyspark.sql import functions as F

from benchmarks import fleets
from benchmarks.bench import Bench, Result, to_noop
from benchmarks.fleets import Shape
from spark_assign import Fleet
from spark_assign.advice import SizingParams, size_groups

ASSIGNORS = ("range", "cooperative-sticky")
CAPACITY = 1_000.0


def sweep(bench: Bench) -> None:
    """All groups with 1 to 50 members, all rows to noop; each partition has a rate of its own."""
    shape = Shape(bench.size(2_000, 10), 50, 4, 50)
    path = fleets.written_with_owners(bench.spark, shape, bench.folder, left=0)
    works = {name: partial(_size, bench, path, name) for name in ASSIGNORS}
    seconds = bench.in_turns(**works)
    for name in ASSIGNORS:
        detail = f"{shape.groups * 50 / seconds[name]:,.0f} groups a second"
        bench.report(Result(f"size by {name}, 50 numbers", f"{shape}", seconds[name], "s", bench.goal("<= 60"), detail))


def _size(bench: Bench, path: Path, assignor: str) -> None:
    fleet = _with_loads(fleets.read(bench.spark, path))
    to_noop(size_groups(fleet, SizingParams([assignor], member_counts=range(1, 51))).rows)
    bench.forget()


def _with_loads(fleet: Fleet) -> Fleet:
    rate = F.pmod(F.xxhash64("topic", "partition"), F.lit(100)).cast("double")
    each = fleet.topics.select(
        "cluster", "topic", F.explode(F.sequence(F.lit(0), F.col("partitions") - 1)).alias("partition")
    )
    return replace(fleet, loads=each.withColumn("in_messages_per_second", rate)).with_capacity(CAPACITY)
