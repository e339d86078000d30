"""Plans against the floor: rows to Parquet and to nowhere, runs only, and one giant group."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks import fleets
from benchmarks.bench import Bench, Result, to_noop
from benchmarks.fleets import Shape
from spark_assign import plan

Write = Callable[[DataFrame], None]


def plan_and_write(bench: Bench, path: Path, assignor: str, write: Write, what: str = "assignments") -> None:
    """What a user waits for: read the tables, check them, plan, write one of the plan's tables."""
    write(getattr(plan(fleets.read(bench.spark, path), assignor), what))
    bench.forget()


def floor(bench: Bench) -> None:
    """(a) plan and write all rows, as a multiple of writing as many rows of the same columns."""
    for topics in (10,) if bench.quick else (10, 50):
        shape = Shape(bench.size(2_000, 20), 10, topics, 500)
        _floor_to(bench, shape, "Parquet", bench.to_parquet, "<= 1.3")
        _floor_to(bench, shape, "noop", to_noop, "<= 2")
        _check(bench, shape)


def _floor_to(bench: Bench, shape: Shape, sink: str, write: Write, bound: str) -> None:
    path = fleets.written(bench.spark, shape, bench.folder)
    works = {name: partial(plan_and_write, bench, path, name, write) for name in bench.assignors}
    works["floor"] = partial(write, fleets.floor(bench.spark, shape))
    works["bare"] = partial(write, fleets.bare_floor(bench.spark, shape))
    seconds = bench.in_turns(**works)
    for name in bench.assignors:
        detail = (
            f"{seconds[name]:.2f} s; floor {seconds['floor']:.2f} s; "
            f"{seconds[name] / seconds['bare']:.2f} x constant strings ({seconds['bare']:.2f} s)"
        )
        ratio = seconds[name] / seconds["floor"]
        bench.report(Result(f"{name} to {sink}", f"{shape}", ratio, "x floor", bench.goal(bound), detail))


def _check(bench: Bench, shape: Shape) -> None:
    """How many seconds of a plan the check of its input takes; and whether it planned every partition."""
    path = fleets.written(bench.spark, shape, bench.folder)
    for name in bench.assignors:
        planned = plan(fleets.read(bench.spark, path), name).assignments
        rows = planned.count()
        if rows != shape.total:
            raise AssertionError(f"{name} planned {rows} rows for {shape.total} partitions")
    seconds = bench.in_turns(check=partial(_plan_only, bench, path))["check"]
    bench.report(Result("of that, the check of the tables (in plan())", f"{shape}", seconds, "s"))


def _sinks(bench: Bench) -> list[tuple[str, Write]]:
    sinks: list[tuple[str, Write]] = [("noop", to_noop), ("Parquet", bench.to_parquet)]
    return sinks[:1] if bench.quick else sinks


def _plan_only(bench: Bench, path: Path) -> None:
    plan(fleets.read(bench.spark, path), "range")
    bench.forget()


def runs(bench: Bench) -> None:
    """(b) a billion partitions as runs: never expanded."""
    shape = Shape(bench.size(20_000, 200), 10, 10, 5_000)
    path = fleets.written(bench.spark, shape, bench.folder)
    for name in bench.assignors:
        for sink, write in _sinks(bench):
            seconds = bench.in_turns(plan=partial(plan_and_write, bench, path, name, write, "assignment_slices"))[
                "plan"
            ]
            detail = f"stands for {shape.total:,} partitions"
            bench.report(Result(f"{name}, runs to {sink}", f"{shape}", seconds, "s", bench.goal("<= 5"), detail))
        counted = plan(fleets.read(bench.spark, path), name).assignment_slices.agg(F.sum("count")).collect()[0][0]
        if counted != shape.total:
            raise AssertionError(f"{name}'s runs stand for {counted} of {shape.total} partitions")


def giant(bench: Bench) -> None:
    """(c) one group against a fleet of as many partitions and subscriptions."""
    scale = bench.size(1, 100)
    one = Shape(1, 2_000 // scale, 100, 100_000 // scale)
    many = Shape(2_000 // scale, 10, 10, 500)
    paths = {
        "one": fleets.written(bench.spark, one, bench.folder),
        "many": fleets.written(bench.spark, many, bench.folder),
    }
    for name in bench.assignors:
        for sink, write in _sinks(bench):
            works = {key: partial(plan_and_write, bench, path, name, write) for key, path in paths.items()}
            seconds = bench.in_turns(**works)
            detail = f"{seconds['one']:.2f} s; the fleet {many} {seconds['many']:.2f} s"
            ratio = seconds["one"] / seconds["many"]
            bench.report(
                Result(f"{name}, one group to {sink}", f"{one}", ratio, "x fleet", bench.goal("<= 1.5"), detail)
            )


def growth(bench: Bench) -> None:
    """(g) fleets that grow, by partitions and by groups: runs to noop, against growing in line with the size."""
    by_partitions = [Shape(groups, 10, 10, 500) for groups in (200, 2_000, 10_000)]
    by_groups = [Shape(groups, 5, 2, 10) for groups in (1_000, 10_000, 100_000)]
    for shapes in (by_partitions[:1] if bench.quick else by_partitions, by_groups[:1] if bench.quick else by_groups):
        for name in bench.assignors[:1]:
            paths = {f"{shape}": fleets.written(bench.spark, shape, bench.folder) for shape in shapes}
            works = {fleet: partial(plan_and_write, bench, path, name, to_noop) for fleet, path in paths.items()}
            seconds = bench.in_turns(**works)
            for fleet in paths:
                bench.report(Result(f"{name} to noop", fleet, seconds[fleet], "s"))
            for small, large in itertools.pairwise(shapes):
                ratio = seconds[f"{large}"] / seconds[f"{small}"] / (large.total / small.total)
                measure = f"{name}, growth from {small.total:,} to {large.total:,} partitions"
                bench.report(Result(measure, f"{large}", ratio, "x linear", bench.goal("<= 1.1")))
