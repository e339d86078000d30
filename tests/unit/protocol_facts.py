"""Facts of groups (`simulation.kernel.simulation_input`), made by hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from spark_assign.simulation.kernel.settings import GROUP_TIMES
from spark_assign.simulation.kernel.simulation_input import EVENT_NUMBERS

Row = dict[str, Any]

_TEXT = ("event", "group_type", "member_id", "topic", "topic_id", "group_instance_id", "rack_id", "new_member_id")
SCHEMA = pa.schema(
    [
        ("cluster", pa.string()),
        ("group_id", pa.string()),
        ("kind", pa.int8()),
        *((name, pa.string()) for name in _TEXT),
        ("numbers", pa.list_(pa.int64())),
        ("topics", pa.list_(pa.string())),
        ("assignors", pa.list_(pa.string())),
        ("at", pa.list_(pa.int32())),
        ("racks", pa.list_(pa.list_(pa.string()))),
    ]
)
KINDS = ("group", "member", "owned", "topic", "times", "event")


def group(assignors: list[str] | None = None, **settings: int) -> Row:
    """What a group is set to."""
    return {"kind": 0, "assignors": assignors, "numbers": [settings.get(name) for name in GROUP_TIMES]}


def member(
    member_id: str,
    topics: list[str] | None,
    *,
    position: int | None = None,
    generation: int | None = None,
    **other: Any,
) -> Row:
    """A member; `assignors`: its own."""
    return {"kind": 1, "member_id": member_id, "topics": topics, "numbers": [position, generation], **other}


def owned(member_id: str, topic: str, first: int, step: int = 1, count: int = 1) -> Row:
    """A run of partitions that a member owns."""
    return {"kind": 2, "member_id": member_id, "topic": topic, "numbers": [first, step, count]}


def topic(name: str, partitions: int | None, **layout: Any) -> Row:
    """A topic; `at`, `racks`: where replicas of some partitions are."""
    return {"kind": 3, "topic": name, "numbers": [partitions], **layout}


def times(name: str, partition: int, revoke: int | None, restore: int | None) -> Row:
    """Times of a partition."""
    return {"kind": 4, "topic": name, "numbers": [partition, revoke, restore]}


def event(at_ms: int | None, name: str | None, member_id: str | None = None, **other: Any) -> Row:
    """Something that happens."""
    numbers = [at_ms if each == "at_ms" else other.pop(each, None) for each in EVENT_NUMBERS]
    return {"kind": 5, "event": name, "member_id": member_id, "numbers": numbers, **other}


def table(**groups: list[Row]) -> pa.Table:
    """Facts of groups of one cluster, by group id."""
    rows = [{"cluster": "k", "group_id": group_id} | row for group_id, rows in groups.items() for row in rows]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def pair(*more: Row) -> list[Row]:
    """A group in which c1 owns t-0 and t-1, and c2 t-2."""
    members = [member("c1", ["t"], generation=1), member("c2", ["t"], generation=1)]
    return [*members, owned("c1", "t", 0, count=2), owned("c2", "t", 2), topic("t", 3), *more]
