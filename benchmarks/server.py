"""The broker's assignors (KIP-848): uniform against Kafka's own class, and fleets of runs against sticky."""

from __future__ import annotations

import time
from functools import partial

import numpy as np
from pyspark.sql import functions as F

from benchmarks import fleets
from benchmarks.bench import Bench, Result, to_noop
from benchmarks.fleets import Shape
from benchmarks.kafka_process import KafkaProcess
from benchmarks.plans import plan_and_write
from spark_assign import plan
from spark_assign.assignors.server.uniform import TargetAssignments, assign_homogeneous
from spark_assign.numeric.arrays import IntArray, PartitionSlices

STATES = ("nothing", "steady", "gone")
WARM_UP = 10.0  # seconds


def uniform(bench: Bench) -> None:
    """One group of equal subscriptions, the kernel alone: speed as a multiple of theirs, for what its members have.

    Nothing; an even share each; the same, but for one member that has left.
    """
    members, topics, partitions = bench.size(10_000, 50), bench.size(500, 5), bench.size(1_000, 100)
    shape = Shape(1, members, topics, partitions)
    with KafkaProcess("1g" if bench.quick else "6g", "ServerAssignorsBenchmark", members, topics, partitions) as kafka:
        for state in STATES:
            end = time.perf_counter() + (0 if bench.quick else WARM_UP)
            theirs = kafka.ask(state)
            while time.perf_counter() < end:
                kafka.ask(state)
            arguments, present = _group(shape, state)
            _check_same(assign_homogeneous(*arguments), present, int(theirs["checksum"]))
            seconds = bench.in_turns(ours=partial(_ours, arguments), theirs=partial(_theirs, kafka, state))
            detail = f"ours {1e3 * seconds['ours']:.2f} ms, theirs {1e3 * seconds['theirs']:.2f} ms"
            ratio, goal = seconds["theirs"] / seconds["ours"], bench.goal(">= 1")
            bench.report(
                Result(f"uniform, members have {state}, kernel", f"{shape}", ratio, "x their speed", goal, detail)
            )


def _group(shape: Shape, state: str) -> tuple[tuple[IntArray, IntArray, IntArray, PartitionSlices], IntArray]:
    """The group as the kernel takes it, and the numbers of its members."""
    share = shape.topics * shape.partitions // shape.members
    present = np.arange(shape.members)
    if state == "gone":
        present = np.delete(present, shape.members // 2)
    first = np.arange(0, shape.members * share, dtype=np.int64)
    first = first[(first % share == 0) | (first % shape.partitions == 0)]
    member = first // share
    end = np.minimum(np.append(first[1:], shape.members * share), (member + 1) * share)
    place = np.full(shape.members, -1, np.int64)
    place[present] = np.arange(len(present))
    some = (place[member] >= 0) & (state != "nothing")
    previous = PartitionSlices(
        place[member], first // shape.partitions, first % shape.partitions, np.ones_like(first), end - first
    ).take(some)
    group, topics = np.zeros(len(present), np.int64), np.zeros(shape.topics, np.int64)
    return (group, topics, np.full(shape.topics, shape.partitions), previous), present


def _ours(arguments: tuple[IntArray, IntArray, IntArray, PartitionSlices]) -> float:
    since = time.thread_time()
    assign_homogeneous(*arguments)
    return time.thread_time() - since


def _theirs(kafka: KafkaProcess, state: str) -> float:
    return float(kafka.ask(state)["seconds"])


def _check_same(ours: TargetAssignments, present: IntArray, theirs: int) -> None:
    """By the sum that their program makes, in which every partition and its owner has a part."""
    rows = ours.slices.expand()
    at = (present[rows.member] * 1_000_003 + rows.topic) * 1_000_003 + rows.first
    at = at.astype(np.uint64)
    mine = int((at * at >> np.uint64(20)).sum().astype(np.int64))
    if mine != theirs or not len(rows):
        raise AssertionError(f"uniform: our answer adds up to {mine}, Kafka's to {theirs}")


def runs(bench: Bench) -> None:
    """A fleet whose owned runs stand for 100M partitions, a member of each group gone: uniform against sticky."""
    shape = Shape(bench.size(20_000, 200), 10, 10, 500)
    path = fleets.written_with_owners(bench.spark, shape, bench.folder, form="owned_slices")
    names = ("uniform",) if bench.quick else ("uniform", "server-range")
    works = {
        name: partial(plan_and_write, bench, path, name, to_noop, "assignment_slices") for name in (*names, "sticky")
    }
    seconds = bench.in_turns(**works)
    for name in names:
        detail = f"{seconds[name]:.2f} s for {shape.total:,} partitions; sticky {seconds['sticky']:.2f} s"
        ratio = seconds[name] / seconds["sticky"]
        bench.report(Result(f"{name}, runs to noop", f"{shape}", ratio, "x sticky", bench.goal("<= 1.5"), detail))
        counted = plan(fleets.read(bench.spark, path), name).target.agg(F.sum("count")).collect()[0][0]
        bench.forget()
        if counted != shape.total:
            raise AssertionError(f"{name}'s runs stand for {counted} of {shape.total} partitions")
