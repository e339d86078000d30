"""Several assignors compared at once, against the slowest of them planned alone."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pyspark.sql import functions as F

from benchmarks import fleets
from benchmarks.bench import Bench, Result, to_noop
from benchmarks.fleets import Shape
from spark_assign import compare, plan

ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")


def comparison(bench: Bench) -> None:
    """Four assignors over a fleet that owns rows, a member of each group gone: all figures to noop.

    Held against plan and metrics of each assignor alone, from the tables, as `compare` begins with them too.
    """
    shape = Shape(bench.size(2_000, 20), 10, 10, 100)
    path = fleets.written_with_owners(bench.spark, shape, bench.folder)
    works = {name: partial(_plan, bench, path, name) for name in ASSIGNORS}
    seconds = bench.in_turns(**works, compare=partial(_compare, bench, path))
    slowest = max(ASSIGNORS, key=lambda name: seconds[name])
    alone = ", ".join(f"{name} {seconds[name]:.2f} s" for name in ASSIGNORS)
    ratio = seconds["compare"] / seconds[slowest]
    detail = f"{seconds['compare']:.2f} s; {alone}"
    bench.report(Result("compare, four assignors", f"{shape}", ratio, f"x {slowest}", bench.goal("<= 2.5"), detail))
    _check(bench, path, shape)


def _plan(bench: Bench, path: Path, assignor: str) -> None:
    to_noop(plan(fleets.read(bench.spark, path), assignor).metrics)
    bench.forget()


def _compare(bench: Bench, path: Path) -> None:
    to_noop(compare(fleets.read(bench.spark, path), ASSIGNORS).comparison)
    bench.forget()


def _check(bench: Bench, path: Path, shape: Shape) -> None:
    """Every assignor gives away every partition."""
    compared = compare(fleets.read(bench.spark, path), ASSIGNORS).comparison
    counted = compared.agg(F.sum("partitions"), F.sum("unassigned"))
    found = tuple(counted.collect()[0])
    bench.forget()
    if found != (len(ASSIGNORS) * shape.total, 0):
        raise AssertionError(f"{found} of {len(ASSIGNORS)} x {shape.total} partitions are assigned, unassigned")
