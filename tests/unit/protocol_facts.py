"""Facts of groups (`simulation.kernel.simulation_input`), made by hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from spark_assign.simulation.kernel.simulation_input import TABLES
from tests.golden.streams_rows import one_table

Row = dict[str, Any]


def group(assignors: list[str] | None = None, **settings: int) -> Row:
    """What a group is set to."""
    return {"table": "groups", "assignors": assignors, **settings}


def member(
    member_id: str,
    topics: list[str] | None,
    *,
    position: int | None = None,
    generation: int | None = None,
    **other: Any,
) -> Row:
    """A member; `assignors`: its own."""
    numbers = {"position": position, "generation_id": generation}
    return {"table": "members", "member_id": member_id, "topics": topics, **numbers, **other}


def owned(member_id: str, topic: str, first: int, step: int = 1, count: int = 1) -> Row:
    """A run of partitions that a member owns."""
    return {"table": "owned", "member_id": member_id, "topic": topic, "first": first, "step": step, "count": count}


def topic(name: str, partitions: int | None, **layout: Any) -> Row:
    """A topic; `at`, `racks`: where replicas of some partitions are."""
    return {"table": "topics", "topic": name, "partitions": partitions, **layout}


def times(name: str, partition: int, revoke: int | None, restore: int | None) -> Row:
    """Times of a partition."""
    return {"table": "times", "topic": name, "partition": partition, "revoke_ms": revoke, "restore_ms": restore}


def event(at_ms: int | None, name: str | None, member_id: str | None = None, **other: Any) -> Row:
    """Something that happens."""
    return {"table": "events", "at_ms": at_ms, "event": name, "member_id": member_id, **other}


def table(**groups: list[Row]) -> pa.Table:
    """Facts of groups of one cluster, by group id."""
    return one_table(({"group_id": name} | row for name, rows in groups.items() for row in rows), TABLES, "k")


def pair(*more: Row) -> list[Row]:
    """A group in which c1 owns t-0 and t-1, and c2 t-2."""
    members = [member("c1", ["t"], generation=1), member("c2", ["t"], generation=1)]
    return [*members, owned("c1", "t", 0, count=2), owned("c2", "t", 2), topic("t", 3), *more]
