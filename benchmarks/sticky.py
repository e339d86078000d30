"""Sticky plans of fleets whose partitions have owners: against their floor, from runs, and round after round."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from pyspark.sql import functions as F

from benchmarks import fleets
from benchmarks.bench import Bench, Result, to_noop
from benchmarks.fleets import Shape
from benchmarks.plans import plan_and_write
from spark_assign import Fleet, converge, plan
from spark_assign.assignors.release_rules import LIBRARY_ASSIGNORS, RELEASE_LINES, client_assignor
from spark_assign.spark.dataframes import expand
from spark_assign.tables.groups import GROUP_KEY

COOPERATIVE = "cooperative-sticky"


def assignors(bench: Bench) -> tuple[str, ...]:
    """Who is measured; a quick run makes do with one."""
    return ("sticky",) if bench.quick else ("sticky", COOPERATIVE)


def sticky(bench: Bench) -> None:
    """Ownership as rows, a member of each group has left: plan and compute runs or rows, as a multiple of the floor.

    The floor is what no plan of whole groups can do without: read what is owned, bring each group together.
    """
    shape = Shape(bench.size(2_000, 20), 10, 10, 500)
    path = fleets.written_with_owners(bench.spark, shape, bench.folder)
    planned = [(name, what) for name in assignors(bench) for what in ("assignment_slices", "assignments")]
    works = {f"{name}, {what}": partial(plan_and_write, bench, path, name, to_noop, what) for name, what in planned}
    seconds = bench.in_turns(**works, floor=partial(_floor, bench, path))
    for work in works:
        detail = f"{seconds[work]:.2f} s; floor {seconds['floor']:.2f} s"
        ratio = seconds[work] / seconds["floor"]
        goal = bench.goal("<= 2" if work.endswith("assignment_slices") else "<= 2.5")
        bench.report(Result(f"{work} to noop", f"{shape}", ratio, "x floor", goal, detail))


def _floor(bench: Bench, path: Path, owned: str = "owned") -> None:
    to_noop(bench.spark.read.parquet(str(path / owned)).repartition(*GROUP_KEY))


def runs(bench: Bench) -> None:
    """A fleet and one group whose owned runs stand for a billion partitions each: runs in, runs out.

    As a multiple of reading those runs and bringing each group together.
    """
    fleet = Shape(bench.size(20_000, 200), 10, 10, 5_000)
    giant = Shape(1, bench.size(500, 50), bench.size(2_000, 20), bench.size(500_000, 5_000))
    paths = {
        shape: fleets.written_with_owners(bench.spark, shape, bench.folder, form="owned_slices")
        for shape in (fleet, giant)
    }
    for name in assignors(bench):
        works = {
            f"{shape}": partial(plan_and_write, bench, paths[shape], name, to_noop, "assignment_slices")
            for shape in paths
        }
        floors = {f"floor of {shape}": partial(_floor, bench, paths[shape], "owned_slices") for shape in paths}
        seconds = bench.in_turns(**works, **floors)
        for shape in paths:
            ours, least = seconds[f"{shape}"], seconds[f"floor of {shape}"]
            detail = f"{ours:.2f} s for {shape.total:,} partitions; floor {least:.2f} s"
            goal = bench.goal("<= 2")
            bench.report(Result(f"{name}, runs to noop", f"{shape}", ours / least, "x floor", goal, detail))
        for shape in paths:
            _check_total(bench, paths[shape], name, shape)
        _check_sample(bench, paths[fleet], name)


def profiles(bench: Bench) -> None:
    """The rules of other leaders, as a multiple of today's: runs in and out, a member of each group has left.

    Leaders are clients of every older line of releases, and other libraries. Clients before 2.5.1 balance partition by
    partition, whatever members subscribe to: no goal.
    """
    shape = Shape(bench.size(2_000, 20), 10, 10, 500)
    path = fleets.written_with_owners(bench.spark, shape, bench.folder, form="owned_slices")
    names = _profiles(bench)
    today = dict.fromkeys(client_assignor(name) for name in names)
    works = {
        name: partial(plan_and_write, bench, path, name, to_noop, "assignment_slices") for name in (*names, *today)
    }
    seconds = bench.in_turns(**works)
    for name in names:
        least = client_assignor(name)
        detail = f"{seconds[name]:.2f} s; {least} {seconds[least]:.2f} s"
        goal = None if name.endswith("@2.4") else bench.goal("<= 1.1")
        ratio = seconds[name] / seconds[least]
        bench.report(Result(f"{name}, runs to noop", f"{shape}", ratio, f"x {least}", goal, detail))


def _profiles(bench: Bench) -> list[str]:
    """Sticky ones of older lines, and all of other libraries; a quick run makes do with one of each kind."""
    lines = [rules.release_line for _, rules in RELEASE_LINES.values()][:-1]
    releases = [f"{name}@{line}" for name in assignors(bench) for line in lines]
    libraries = [f"{name}@{library}" for library, names in LIBRARY_ASSIGNORS.items() for name in names]
    if bench.quick:
        return [releases[0], "sticky@franz-go", "range@librdkafka"]
    return releases + libraries


def _check_total(bench: Bench, path: Path, assignor: str, shape: Shape) -> None:
    counted = plan(fleets.read(bench.spark, path), assignor).assignment_slices.agg(F.sum("count")).collect()[0][0]
    bench.forget()
    if counted != shape.total:
        raise AssertionError(f"{assignor}'s runs stand for {counted} of {shape.total} partitions")


def _check_sample(bench: Bench, path: Path, assignor: str) -> None:
    """A few groups have to get the same from their runs as from the rows that these stand for."""
    fleet = fleets.read(bench.spark, path)
    some = fleet.filter_groups(fleet.members.where(F.col("group_id").isin("group-0", "group-7", "group-101")))
    assert some.owned_slices is not None
    as_rows = replace(some, owned=expand(some.owned_slices), owned_slices=None)
    by_runs, by_rows = (plan(each, assignor).assignments for each in (some, as_rows))
    differing = by_runs.exceptAll(by_rows).count() + by_rows.exceptAll(by_runs).count()
    if differing or by_rows.isEmpty():
        raise AssertionError(f"{assignor} plans {differing} rows of a sample otherwise from runs than from rows")
    bench.forget()


def rounds(bench: Bench) -> None:
    """All rounds of a cooperative rebalance, as a multiple of planning each round on its own.

    Where a member has left, one round is all; where one has joined, the others give up a part and a second follows.
    """
    shape = Shape(bench.size(2_000, 20), 10, 10, 500)
    for change, left, joined in (("left", 1, 0), ("joined", 0, 1))[1 if bench.quick else 0 :]:
        path = fleets.written_with_owners(bench.spark, shape, bench.folder, left=left, joined=joined)
        number = converge(fleets.read(bench.spark, path), COOPERATIVE).agg(F.max("round")).collect()[0][0]
        bench.forget()
        seconds = bench.in_turns(
            converge=partial(_converge, bench, path), plans=partial(_plans_of_rounds, bench, path, number)
        )
        detail = f"{seconds['converge']:.2f} s; {number} plans {seconds['plans']:.2f} s"
        ratio = seconds["converge"] / seconds["plans"]
        measure = f"{COOPERATIVE}, converge, a member {change}"
        bench.report(Result(measure, f"{shape}", ratio, "x its plans", bench.goal("<= 1.5"), detail))


def _converge(bench: Bench, path: Path) -> None:
    to_noop(converge(fleets.read(bench.spark, path), COOPERATIVE))
    bench.forget()


def _plans_of_rounds(bench: Bench, path: Path, number: int) -> None:
    """As one would go from round to round by hand: write the runs, plan what is owned after them."""
    fleet: Fleet = fleets.read(bench.spark, path)
    for each in range(number):
        planned = plan(fleet, COOPERATIVE)
        written = str(bench.folder / f"round-{each}")
        planned.assignment_slices.write.mode("overwrite").parquet(written)
        bench.forget()
        fleet = replace(fleet.apply(planned), owned_slices=bench.spark.read.parquet(written))
