"""Kafka's own benchmark of the broker's assignors (`kafka_grid`): cells drawn from its grid, kernel against class.

Both sides run on one thread with objects in memory, take turns, and are measured by the processor time of that thread.
Their members, maps and sets lie in memory in the orders in which Kafka's class iterates over them; ours are arrays in
the same orders. A cell that takes Kafka's class less than 10 ms has 200 copies: its class is called 200 times, our
kernels get 200 groups, and both again until it has taken 10 ms.
"""

from __future__ import annotations

import ctypes
import json
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, cast

import numpy as np

from benchmarks.bench import Bench, Result
from benchmarks.kafka_grid import RACKS, VALUES, Cell, draw, topic_ids
from benchmarks.kafka_process import KafkaProcess
from spark_assign.assignors.group_specs import (
    ALL_MEMBERS,
    GroupSpecs,
    MemberColumns,
    TopicColumns,
    assignment_order,
)
from spark_assign.assignors.range import assign_ranges
from spark_assign.assignors.server.coordinator_order import (
    TopicIds,
    coordinator_previous_order,
    read_topic_ids,
    set_order,
)
from spark_assign.assignors.server.uniform import assign_heterogeneous, assign_homogeneous, compute_quotas
from spark_assign.java.hash_map import string_hashes, table_order, text_ranks
from spark_assign.numeric.arrays import EMPTY_SLICES, IntArray, PartitionSlices, compress, compress_in_order, invert

CELLS, SEED = 250, 27
COPIES, SHORT, LONG, LEAST = 200, 0.01, 0.5, 0.01
WARM_UP, WARM_UP_OF_CELL = 10.0, 0.5
"""Seconds of processor time of their class: before the first cell, and before each."""
_UNIT = "x their speed"
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt, in malloc.h
_QUICK = {
    **VALUES,
    "members": (5, 50),
    "topics": (5, 50),
    "partitions": (200,),
    "event": ("FULL", "JOIN_MANY", "LEAVE_ONE", "PARTITIONS_ADDED"),
}


def grid(bench: Bench) -> None:
    """Each cell: speed as a multiple of Kafka's class; quantiles for each value of a parameter, and the worst cells."""
    cells = draw(bench.size(CELLS, 12), SEED, _QUICK if bench.quick else VALUES)
    keep_memory()
    with KafkaProcess("1g" if bench.quick else "6g", "GridBenchmark") as kafka:
        build_in_java(kafka, cells[0])
        warm_up(kafka, 0 if bench.quick else WARM_UP)
        measured = {cell: _measure(bench, kafka, cell) for cell in cells}
    _report(bench, measured)


def keep_memory() -> None:
    """Sets what `conf/spark/local.conf` sets for Python workers: memory that is freed stays with the process."""
    libc = ctypes.CDLL(None)
    for option in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
        libc.mallopt(option, 1 << 30)


@dataclass(frozen=True)
class Figures:
    """Seconds of one call or group."""

    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """Our speed as a multiple of theirs."""
        return self.theirs / self.ours


def _measure(bench: Bench, kafka: KafkaProcess, cell: Cell) -> Figures:
    theirs = build_in_java(kafka, cell)
    before, now = build_groups(cell)
    for name, group in (("before", before), ("now", now)):
        mine = checksum(group.assign(1)) if group else 0
        if mine != int(theirs[name]):
            raise AssertionError(f"{cell}: our answer {name} adds up to {mine}, Kafka's to {theirs[name]}")
    return measure_in_turns(bench, kafka, now.prepare)


def measure_in_turns(bench: Bench, kafka: KafkaProcess, prepare: Callable[[int], Callable[[], object]]) -> Figures:
    """Measures the group that their process has; `prepare` returns our work for a number of copies of it."""
    one = float(kafka.ask("1")["seconds"])
    warm_up(kafka, 0 if bench.quick or one > LONG else WARM_UP_OF_CELL)
    calls = COPIES if one < SHORT and not bench.quick else 1
    work = prepare(calls)
    work()  # the process gets its memory
    # Both are warm, and a cell that takes seconds is measured once. Microseconds are measured again and again: our
    # arrays leave the processor's cache while their process runs.
    bench = replace(bench, cold=True, repeats=1 if one > LONG else bench.repeats)
    rounds = 1 if bench.quick else math.ceil(LEAST / max(one * calls, 1e-6))
    theirs = str(calls * rounds)
    seconds = bench.in_turns(
        ours=partial(_thread_time, work, rounds), theirs=lambda: float(kafka.ask(theirs)["seconds"])
    )
    calls *= rounds
    return Figures(seconds["ours"] / calls, seconds["theirs"] / calls)


def build_in_java(kafka: KafkaProcess, cell: Cell) -> dict[str, Any]:
    """Builds the group of a cell in their process; returns the checksums of its assignments."""
    type_of_group = "HOMOGENEOUS" if cell.subscription == "HOMOGENEOUS" else "HETEROGENEOUS"
    group = {
        "assignor": cell.assignor,
        "ids": topic_ids(cell.topics),
        "racks": RACKS,
        "with_racks": cell.rack == "PROVIDED",
        "type": type_of_group,
        "buckets": [(topics.start, topics.stop) for topics in cell.buckets],
        "now": {"members": cell.members, "partitions": cell.partitions_now},
    }
    if cell.event != "FULL":
        group["before"] = {"members": cell.members_before, "partitions": cell.partitions_before}
    return kafka.ask(json.dumps(group))


def warm_up(kafka: KafkaProcess, seconds: float) -> None:
    """Calls their class again and again: the JVM compiles what it runs often."""
    calls, used = 1, 0.0
    while used < seconds:
        used += float(kafka.ask(str(calls))["seconds"])
        calls = min(2 * calls, COPIES) if used < seconds / 4 else calls


def _thread_time(work: Callable[[], object], rounds: int) -> float:
    since = time.thread_time()
    for _ in range(rounds):
        work()
    return time.thread_time() - since


# --- our groups -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GridGroup:
    """A group as arrays.

    Attributes:
        cell: its cell.
        members: members in the order in which the assignor iterates over them.
        partitions: number of partitions of each topic.
        buckets: topics of each bucket.
        previous: what the members have.
    """

    cell: Cell
    members: IntArray
    partitions: IntArray
    buckets: Sequence[range]
    previous: PartitionSlices

    def prepare(self, copies: int) -> Callable[[], PartitionSlices]:
        """Returns the function that is measured. It assigns this number of copies and returns all slices."""
        if self.cell.assignor == "RANGE":
            return self._range(copies)
        return self._homogeneous(copies) if self.cell.subscription == "HOMOGENEOUS" else self._heterogeneous(copies)

    def assign(self, copies: int) -> PartitionSlices:
        """Returns the assignment, with numbers of members and topics as in their names."""
        slices = self.prepare(copies)()
        if self.cell.assignor == "RANGE":
            by_id = np.array(sorted(range(len(self.members)), key=lambda member: f"member{member}"), np.int64)
            return slices.renumber(by_id, np.arange(len(self.partitions)))
        return slices.renumber(self.members, self._topic_order if self._is_homogeneous else self._subscribed)

    @property
    def _is_homogeneous(self) -> bool:
        return self.cell.subscription == "HOMOGENEOUS"

    @property
    def _ids(self) -> TopicIds:
        return read_topic_ids(topic_ids(len(self.partitions)))

    @property
    def _subscribers(self) -> dict[int, IntArray]:
        """Returns the members, in numbers, of the set of buckets (as bits) that subscribe to a topic."""
        bucket = np.arange(len(self.members)) % len(self.buckets)
        sets = np.unique(self._bucket_sets).tolist()
        return {each: np.flatnonzero(each >> bucket & 1) for each in sets}

    @property
    def _bucket_sets(self) -> IntArray:
        """Returns the buckets with members that subscribe to each topic, as bits."""
        sets = np.zeros(len(self.partitions), np.int64)
        for bucket, topics in enumerate(self.buckets[: len(self.members)]):
            sets[topics.start : topics.stop] |= 1 << bucket
        return sets

    @property
    def _subscribed(self) -> IntArray:
        return np.flatnonzero(self._bucket_sets)

    @property
    def _topic_order(self) -> IntArray:
        """Returns the topics in the order of the set of the ids of a subscription."""
        zeros = np.zeros(len(self.partitions), np.int64)
        names = [f"topic-{topic}" for topic in range(len(zeros))]
        by_name = set_order(string_hashes(names), text_ranks(names), zeros)
        return by_name[set_order(self._ids.hash[by_name], self._ids.rank[by_name], zeros)]

    def _range(self, copies: int) -> Callable[[], PartitionSlices]:
        """Members are sorted by id, as specs always are; their lists are made in the time that counts."""
        by_id = np.array(sorted(range(len(self.members)), key=lambda member: f"member{member}"), np.int64)
        position, size, topics = invert(by_id, len(by_id)), len(by_id), len(self.partitions)
        sets = {each: np.sort(position[members]) for each, members in self._subscribers.items() if each}
        whole = next((each for each, members in sets.items() if len(members) == size), 0)
        number = {each: at for at, each in enumerate(each for each in sets if each != whole)}
        subscriber_set = np.array([number.get(each, ALL_MEMBERS) for each in self._bucket_sets.tolist()], np.int64)
        group, copy = np.repeat(np.arange(copies), size), np.repeat(np.arange(copies), topics)
        tiled = np.tile(subscriber_set, copies)
        columns = dict.fromkeys([field.name for field in fields(MemberColumns)], np.zeros(copies * size, np.int64))
        partitions = np.tile(np.where(self._bucket_sets > 0, self.partitions, 0), copies)
        specs = GroupSpecs(
            cast(Any, None),
            np.arange(copies),
            MemberColumns(**columns | {"group": group}),  # type: ignore[arg-type]
            TopicColumns(
                copy, tiled, partitions, partitions > 0, np.where(tiled < 0, tiled, tiled + copy * len(number))
            ),
            [sets[each] + at * size for at in range(copies) for each in number],
            *(EMPTY_SLICES, EMPTY_SLICES, None, [], [], {}),
        )
        name, instance = np.arange(copies * size), np.full(copies * size, -1)

        def work() -> PartitionSlices:
            return assign_ranges(specs.list_subscribers(assignment_order(group, name, instance)), partitions)

        return work

    def _homogeneous(self, copies: int) -> Callable[[], PartitionSlices]:
        order, ids, size = self._topic_order, self._ids, len(self.members)
        partitions = self.partitions[order]
        previous = self.previous.renumber(invert(self.members, size), invert(order, len(order)))
        previous = previous.take(np.lexsort((previous.first, previous.topic, previous.member)))
        zeros, topic_group = np.zeros(size, np.int64), np.zeros(len(order), np.int64)
        owned = np.bincount(previous.member, previous.count, size).astype(np.int64)
        loses = (owned > compute_quotas(zeros, topic_group, partitions, owned))[previous.member]
        losing = coordinator_previous_order(previous.take(loses), ids.hash[order], ids.rank[order])[0]
        previous = previous.take(~loses).concat(compress_in_order(losing))
        previous = previous.take(np.argsort(previous.member, kind="stable"))
        shifted = [previous.shift(copy * size, copy * len(order)) for copy in range(copies)]
        arguments = (
            np.repeat(np.arange(copies), size),
            np.repeat(np.arange(copies), len(order)),
            np.tile(partitions, copies),
            EMPTY_SLICES.concat(*shifted),
        )
        return lambda: assign_homogeneous(*arguments).slices

    def _heterogeneous(self, copies: int) -> Callable[[], PartitionSlices]:
        topics, position, size = self._subscribed, invert(self.members, len(self.members)), len(self.members)
        sets = {each: np.sort(position[members]) for each, members in self._subscribers.items() if each}
        number = {each: at for at, each in enumerate(sets)}
        subscriber_set = np.array([number[each] for each in self._bucket_sets[topics].tolist()], np.int64)
        previous = self.previous.renumber(position, invert(topics, len(self.partitions)))
        group = np.repeat(np.arange(copies), len(topics))
        arguments = (
            copies * size,
            group,
            np.tile(self.partitions[topics], copies),
            np.tile(self._ids.rank[topics], copies),
            np.tile(subscriber_set, copies) + group * len(sets),
            [members + copy * size for copy in range(copies) for members in sets.values()],
            EMPTY_SLICES.concat(*(previous.shift(copy * size, copy * len(topics)) for copy in range(copies))),
        )
        return lambda: assign_heterogeneous(*arguments).slices


def build_groups(cell: Cell) -> tuple[GridGroup | None, GridGroup]:
    """Returns the group of a cell before the event (None: nobody had anything), and now."""
    before = None
    previous = EMPTY_SLICES
    if cell.event != "FULL":
        before = _group(cell, cell.members_before, cell.partitions_before, previous)
        rows = before.assign(1).expand()
        rows = rows.take(rows.member < cell.members)
        previous = compress(rows.member, rows.topic, rows.first)
    return before, _group(cell, cell.members, cell.partitions_now, previous)


def _group(cell: Cell, members: int, partitions: Sequence[int], previous: PartitionSlices) -> GridGroup:
    names = [f"member{member}" for member in range(members)]
    order = table_order(string_hashes(names), text_ranks(names))
    return GridGroup(cell, order, np.array(partitions, np.int64), cell.buckets, previous)


def checksum(slices: PartitionSlices) -> int:
    """Returns the sum that their program makes, in which every partition and its owner has a part."""
    rows = slices.expand()
    at = ((rows.member * 1_000_003 + rows.topic) * 1_000_003 + rows.first).astype(np.uint64)
    return int((at * at >> np.uint64(20)).sum().astype(np.int64))


# --- results --------------------------------------------------------------------------------------------------------


def _report(bench: Bench, measured: dict[Cell, Figures]) -> None:
    report_bounds(bench, "grid", measured, ">= 5")
    for name in VALUES:
        for value in VALUES[name]:
            some = sorted(each.ratio for cell, each in measured.items() if getattr(cell, name) == value)
            if some:
                detail = f"min {some[0]:.2f}, quartiles {some[len(some) // 4]:.1f} to {some[3 * len(some) // 4]:.1f}"
                measure, median = f"grid, {name} {value}", statistics.median(some)
                bench.report(Result(measure, f"{len(some)} cells", median, _UNIT, None, detail, on_page=False))
    report_slowest(bench, "grid", measured, 10)


def report_bounds(bench: Bench, name: str, measured: Mapping[Any, Figures], median: str | None = None) -> None:
    """Reports the lowest and the median ratio, with their goals, and the number of cells below 1."""
    ratios, cells = sorted(figures.ratio for figures in measured.values()), f"{len(measured)} cells"
    bench.report(Result(f"{name}, the slowest cell", cells, ratios[0], _UNIT, bench.goal(">= 1")))
    goal = bench.goal(median) if median else None
    bench.report(Result(f"{name}, median", cells, statistics.median(ratios), _UNIT, goal))
    bench.report(Result(f"{name}, cells below 1", cells, sum(ratio < 1 for ratio in ratios), "cells"))


def report_slowest(bench: Bench, name: str, measured: Mapping[Any, Figures], number: int) -> None:
    """Reports the cells with the lowest ratios."""
    for cell, figures in sorted(measured.items(), key=lambda item: item[1].ratio)[:number]:
        detail = f"ours {1e3 * figures.ours:.3f} ms, theirs {1e3 * figures.theirs:.3f} ms"
        measure = f"{name}, one of the slowest cells"
        bench.report(Result(measure, f"{cell}", figures.ratio, _UNIT, None, detail, on_page=False))
