"""(e) Below which fleet size a plain Python loop wins: it reads the same tables and writes the same Parquet.

The loop is the tests' oracle, one process; Spark's session is already running.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import fleets
from benchmarks.bench import Bench, Result
from benchmarks.fleets import Shape
from benchmarks.plans import plan_and_write
from tests.oracle import range_assignor, roundrobin_assignor
from tests.oracle.group import Assignment, Group, Member

_Assign = Callable[[Group], Assignment]


def loop(bench: Bench) -> None:
    """Seconds of both for growing fleets, and the size at which Spark overtakes."""
    assigns: dict[str, _Assign] = {"range": range_assignor.assign, "roundrobin": roundrobin_assignor.assign}
    for name in bench.assignors:
        assign = assigns[name]
        wins = None
        for groups in (2, 20) if bench.quick else (2, 20, 60, 200, 600):
            shape = Shape(groups, 10, 10, 500)
            path = fleets.written(bench.spark, shape, bench.folder)
            seconds = bench.in_turns(
                loop=partial(_loop, path, assign, bench.folder / "loop.parquet"),
                spark=partial(plan_and_write, bench, path, name, bench.to_parquet),
            )
            detail = f"loop {seconds['loop']:.2f} s, Spark {seconds['spark']:.2f} s; {shape.total:,} partitions"
            ratio = seconds["loop"] / seconds["spark"]
            bench.report(Result(f"{name}, plain loop to Parquet", f"{shape}", ratio, "x Spark's time", None, detail))
            if ratio >= 1 and wins is None:
                wins = shape.total
        if wins is not None:
            bench.report(Result(f"{name}, Spark first wins", "of the sizes above", wins, "partitions"))


def _loop(path: Path, assign: _Assign, output: Path) -> None:
    columns: dict[str, list[str | int]] = defaultdict(list)
    for (cluster, group_id), group in _groups(path).items():
        for member_id, partitions in assign(group).items():
            columns["cluster"] += [cluster] * len(partitions)
            columns["group_id"] += [group_id] * len(partitions)
            columns["member_id"] += [member_id] * len(partitions)
            columns["topic"] += [topic for topic, _ in partitions]
            columns["partition"] += [partition for _, partition in partitions]
    pq.write_table(pa.table(columns), output)


def _groups(path: Path) -> dict[tuple[str, str], Group]:
    """The fleet's groups as the objects that a loop works on."""
    topics: dict[str, dict[str, int]] = defaultdict(dict)
    for cluster, topic, count in _rows(path / "topics", "cluster", "topic", "partitions"):
        topics[cluster][topic] = count
    subscribed: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    key = ("cluster", "group_id", "member_id")
    for *member, topic in _rows(path / "subscriptions", *key, "topic"):
        subscribed[member[0], member[1], member[2]].append(topic)
    members: dict[tuple[str, str], list[Member]] = defaultdict(list)
    for cluster, group_id, member_id in _rows(path / "members", *key):
        members[cluster, group_id].append(Member(member_id, subscribed[cluster, group_id, member_id]))
    return {(cluster, group_id): Group(topics[cluster], those) for (cluster, group_id), those in members.items()}


def _rows(path: Path, *columns: str) -> Iterator[tuple[Any, ...]]:
    table = pq.read_table(path, columns=list(columns))
    return zip(*(table.column(name).to_pylist() for name in columns), strict=True)
