"""Kafka's benchmarks of share groups and Streams groups: cells drawn from their grids, kernel against class.

As `grid`, on the groups of `ShareGroupAssignorBenchmark` and `StreamsStickyAssignorBenchmark`: nobody has anything yet
(FULL), or a member joins a group in which the other members have what the assignor gave them (INCREMENTAL).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from random import Random
from typing import Any

import numpy as np

from benchmarks.bench import Bench
from benchmarks.grid import (
    Figures,
    build_in_java,
    checksum,
    keep_memory,
    measure_in_turns,
    report_bounds,
    report_slowest,
    warm_up,
)
from benchmarks.kafka_grid import Cell, draw, topic_ids
from benchmarks.kafka_process import KafkaProcess
from spark_assign.assignors.server.coordinator_order import coordinator_previous_order, read_topic_ids, set_order
from spark_assign.assignors.share.share_group_input import ShareGroupSpecs
from spark_assign.assignors.share.simple_assignor import KEPT, assign_simple
from spark_assign.assignors.streams.sticky_task_assignor import assign_tasks
from spark_assign.assignors.streams.task_assignor_api import StreamsGroupAssignment, StreamsGroupSpec, StreamsMemberSpec
from spark_assign.java.hash_map import java_key, string_hashes, table_order, text_ranks
from spark_assign.numeric.arrays import IntArray, PartitionSlices, invert, ranges_by_length
from spark_assign.streams.kernel.streams_group_input import process_hash_order

CELLS, SEED, WARM_UP = 24, 27, 5.0
_SHARE: Mapping[str, Sequence[int | str]] = {
    "members": (10, 100, 1_000),
    "topics": (1, 10, 100),
    "partitions": (1, 10, 100),  # of each topic
    "distribution": ("EQUAL",),
    "subscription": ("HOMOGENEOUS", "HETEROGENEOUS_DISJOINT"),
    "rack": ("NONE",),
    "assignor": ("SIMPLE",),
    "event": ("FULL", "JOIN_ONE"),
}
_EMPTY = PartitionSlices(*(np.empty(0, np.int64) for _ in range(5)))


def share(bench: Bench) -> None:
    """The broker's `SimpleAssignor`: speed as a multiple of Kafka's class, for different numbers of everything."""
    values = {**_SHARE, "members": (10,), "topics": (1, 10)} if bench.quick else _SHARE
    cells = [
        replace(cell, partitions=cell.topics * cell.partitions) for cell in draw(bench.size(CELLS, 4), SEED, values)
    ]
    measured: dict[Cell, Figures] = {}
    keep_memory()
    with KafkaProcess("1g" if bench.quick else "6g", "GridBenchmark") as kafka:
        build_in_java(kafka, cells[0])
        warm_up(kafka, 0 if bench.quick else WARM_UP)
        for cell in cells:
            theirs, before = build_in_java(kafka, cell), _EMPTY
            if cell.event != "FULL":
                before = _assigned(cell, cell.members_before, _EMPTY)
                _check(cell, "before", checksum(before), int(theirs["before"]))
            _check(cell, "now", checksum(_assigned(cell, cell.members, before)), int(theirs["now"]))
            specs = share_specs(cell, cell.members, before)
            measured[cell] = measure_in_turns(bench, kafka, partial(_share_work, specs))
    report_bounds(bench, "share groups", measured)
    report_slowest(bench, "share groups", measured, 5)


def _check(cell: object, name: str, mine: int, theirs: int) -> None:
    if mine != theirs:
        raise AssertionError(f"{cell}: our answer {name} adds up to {mine}, Kafka's to {theirs}")


def _share_work(specs: ShareGroupSpecs, copies: int) -> Callable[[], object]:
    members, topics, groups = (len(each) for each in (specs.member_group, specs.topic_group, specs.homogeneous))
    offset = {"group": groups, "member": members, "topic": topics, "subscriber": members}

    def side_by_side(name: str, values: IntArray) -> IntArray:
        shift = next((size for end, size in offset.items() if name.endswith(f"_{end}") or name == end), 0)
        return np.concatenate([values + copy * shift if shift else values for copy in range(copies)])

    columns: dict[str, Any] = {name: side_by_side(name, values) for name, values in vars(specs).items()}
    tiled = ShareGroupSpecs(**columns)
    return lambda: assign_simple(tiled)


def share_specs(cell: Cell, members: int, before: PartitionSlices) -> ShareGroupSpecs:
    """Returns the group of a cell, of which `before` has what its members own, numbered as in their names."""
    names, ids = [f"member{member}" for member in range(members)], read_topic_ids(topic_ids(cell.topics))
    order = table_order(string_hashes(names), text_ranks(names))
    buckets, counts = cell.buckets, np.array(cell.partitions_now, np.int64)
    topics = [f"topic-{topic}" for topic in range(cell.topics)]
    by_name = set_order(string_hashes(topics), text_ranks(topics), np.zeros(cell.topics, np.int64))
    mine = [by_name[np.isin(by_name, buckets[member % len(buckets)])] for member in order.tolist()]
    previous = before.renumber(invert(order, members), np.arange(cell.topics)).expand()
    previous = previous.take(np.lexsort((previous.first, previous.topic, previous.member)))
    previous = coordinator_previous_order(previous, ids.hash, ids.rank)[0]
    subscribed = np.unique(np.concatenate(mine))
    return ShareGroupSpecs(
        member_group=np.zeros(members, np.int64),
        has_subscription=np.ones(members, bool),
        homogeneous=np.array([cell.subscription == "HOMOGENEOUS"]),
        topic_group=np.zeros(cell.topics, np.int64),
        topic_hash=ids.hash,
        subscriber=np.repeat(np.arange(members), [len(each) for each in mine]),
        subscribed_topic=np.concatenate(mine),
        assignable_topic=np.repeat(subscribed, counts[subscribed]),
        assignable_partition=ranges_by_length(counts[subscribed]),
        previous_member=previous.member,
        previous_topic=previous.topic,
        previous_partition=previous.first,
    )


def _assigned(cell: Cell, members: int, before: PartitionSlices) -> PartitionSlices:
    """Returns the assignment, numbered as in the names."""
    names = [f"member{member}" for member in range(members)]
    specs = share_specs(cell, members, before)
    target, order = assign_simple(specs), table_order(string_hashes(names), text_ranks(names))
    kept = target.reason == KEPT
    member = np.append(specs.previous_member[kept], target.member)
    topic = np.append(specs.previous_topic[kept], target.topic)
    partition = np.append(specs.previous_partition[kept], target.partition)
    ones = np.ones_like(member)
    return PartitionSlices(order[member], topic, partition, ones, ones)


# --- Streams groups -------------------------------------------------------------------------------------------------

_STREAMS = ((100, 1_000), (10, 100), (10, 100), (0, 1), (1, 50), ("FULL", "INCREMENTAL"))
"""Members, partitions, subtopologies, standbys, members of a process, event."""
_STREAMS_QUICK = ((10,), (5,), (4,), (0, 1), (1, 5), ("FULL", "INCREMENTAL"))

StreamsCell = tuple[int, int, int, int, int, str]


def streams(bench: Bench) -> None:
    """The broker's `StickyTaskAssignor`: speed as a multiple of Kafka's class."""
    every: list[StreamsCell] = list(product(*(_STREAMS_QUICK if bench.quick else _STREAMS)))  # type: ignore[arg-type]
    cells = sorted(Random(SEED).sample(every, bench.size(16, 4)))
    measured: dict[str, Figures] = {}
    with KafkaProcess("1g" if bench.quick else "4g", "StreamsBenchmark") as kafka:
        kafka.ask(" ".join(map(str, cells[0])))
        warm_up(kafka, 0 if bench.quick else WARM_UP)
        for cell in cells:
            name = " ".join(map(str, cell))
            theirs, before = kafka.ask(name), StreamsGroupAssignment()
            if cell[-1] != "FULL":
                group = streams_group(cell, before)
                before = assign_tasks(group)
                _check(name, "before", _checksum(group, before), int(theirs["before"]))
            group = streams_group(cell, before, joins=cell[-1] != "FULL")
            _check(name, "now", _checksum(group, assign_tasks(group)), int(theirs["now"]))
            measured[name] = measure_in_turns(bench, kafka, partial(_streams_work, group))
    report_bounds(bench, "streams groups", measured)
    report_slowest(bench, "streams groups", measured, 5)


def _streams_work(group: StreamsGroupSpec, copies: int) -> Callable[[], object]:
    return lambda: [assign_tasks(group) for _ in range(copies)]


def streams_group(cell: StreamsCell, before: StreamsGroupAssignment, *, joins: bool = False) -> StreamsGroupSpec:
    """Returns the group of a cell; its members have what `before` says of them, in the order of their map."""
    members, partitions, subtopologies, standbys, of_process, event = cell
    number = members - (event != "FULL")
    earlier = streams_group(cell, StreamsGroupAssignment()).members if joins else ()
    process = {f"member-{member}": f"process-{member // of_process}" for member in range(number)}
    process |= {"newMember": "process-newMember"} if joins else {}
    names = list(process)
    order = [names[at] for at in table_order(string_hashes(names), text_ranks(names)).tolist()]
    active: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
    standby: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
    for task, member in before.active.items():
        active[earlier[member].member_id].append(task)
    for task, owners in before.standby.items():
        for member in owners:
            standby[earlier[member].member_id].append(task)
    ids = sorted((f"topic{each}_subtopology" for each in range(subtopologies)), key=java_key)
    return StreamsGroupSpec(
        [StreamsMemberSpec(name, process[name], active[name], standby[name]) for name in order],
        process_hash_order(order, [process[name] for name in order]),
        ids,
        [partitions] * subtopologies,
        [int(each[5:].split("_")[0]) % 2 == 0 for each in ids],
        standbys,
    )


def _checksum(group: StreamsGroupSpec, target: StreamsGroupAssignment) -> int:
    number = [-1 if member.member_id == "newMember" else int(member.member_id[7:]) for member in group.members]
    rows = [(number[member] * 2, *task) for task, member in target.active.items()]
    rows += [(number[member] * 2 + 1, *task) for task, owners in target.standby.items() for member in owners]
    member, subtopology, task = np.array(rows, np.int64).T
    ones = np.ones_like(task)
    return checksum(PartitionSlices(member, subtopology, task, ones, ones))
