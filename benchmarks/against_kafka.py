"""(d) Kafka's own classes in a warm JVM, everything they read prebuilt in memory, two threads.

Ours reads its tables from Parquet, checks them, and computes every row; theirs drop what they have computed.
"""

from __future__ import annotations

from functools import partial

from benchmarks import fleets
from benchmarks.bench import Bench, Result, to_noop
from benchmarks.fleets import Shape
from benchmarks.kafka_process import rate_of
from benchmarks.plans import plan_and_write
from tests.kafka import maven

THREADS = 2
LONGEST_REPEAT = 15  # seconds; a repeat is cut between groups, so one group always runs to its end


def kafka(bench: Bench) -> None:
    """Rates (partitions a second), ours as a multiple of theirs, for a fleet and for one giant group."""
    fleet = Shape(bench.size(2_000, 20), 10, 50, 500)
    giant = Shape(1, bench.size(2_000, 50), bench.size(5_000, 100), bench.size(1_000, 100))
    for name in bench.assignors:
        ours = _our_rate(bench, fleet, name)
        for metadata, clusters in (("own metadata", fleet.groups), ("shared metadata", 4))[: 1 if bench.quick else 2]:
            theirs = _their_rate(bench, fleet, name, clusters)
            bound = ">= 1.2" if clusters > 4 else None
            bench.report(_result(bench, f"{name}, Kafka's class with {metadata}", fleet, ours, theirs, bound))
    for name in bench.assignors:
        ours, theirs = _our_rate(bench, giant, name), _their_rate(bench, giant, name, 1)
        bench.report(_result(bench, f"{name}, Kafka's class", giant, ours, theirs, ">= 4"))


def _result(bench: Bench, measure: str, shape: Shape, ours: float, theirs: float, bound: str | None) -> Result:
    detail = f"ours {ours / 1e6:.2f} M/s, theirs {theirs / 1e6:.2f} M/s"
    return Result(measure, f"{shape}", ours / theirs, "x their rate", bench.goal(bound) if bound else None, detail)


def _our_rate(bench: Bench, shape: Shape, assignor: str) -> float:
    path = fleets.written(bench.spark, shape, bench.folder)
    seconds = bench.in_turns(plan=partial(plan_and_write, bench, path, assignor, to_noop))
    return shape.total / seconds["plan"]


def _their_rate(bench: Bench, shape: Shape, assignor: str, clusters: int) -> float:
    sizes = [shape.groups, shape.members, shape.topics, shape.partitions, clusters]
    arguments = [*sizes, THREADS, bench.repeats, 1 if bench.quick else LONGEST_REPEAT]
    return rate_of("AssignorsBenchmark", maven.kafka_classpath(), "1g" if bench.quick else "10g", assignor, *arguments)
