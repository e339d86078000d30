"""User data of random Kafka Streams clients: of its own classes (`java/StreamsUserData.java`), and as we read it."""

from __future__ import annotations

import base64
import random
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from spark_assign.wire import streams_protocol
from spark_assign.wire.reader import WireError
from tests.kafka import live_assignors
from tests.kafka.random_group_records import harmed

Row = dict[str, Any]
TaskOfJson = tuple[int, int, str | None]

PROGRAM = "StreamsUserData"
RECORDED = Path(__file__).parents[1] / "unit" / "streams_user_data.jsonl.gz"
"""Answers, for a test without Java (`python -m tests.kafka.record_group_records`)."""
KINDS = ("subscription", "assignment")
ACTIVE, NEVER = -2, 2**63 - 1


def written(draw: random.Random, each: int, class_path: str) -> list[Row]:
    """Of every version so many, as Streams writes them."""
    requests = [given(draw, kind, version) for kind in KINDS for version in range(1, 12) for _ in range(each)]
    return live_assignors.answered(requests, class_path, PROGRAM)


def read(draw: random.Random, rows: Sequence[Row], damaged: int, class_path: str) -> list[Row]:
    """What Streams reads of them, and of so many that were damaged."""
    requests = [{row["write"]: row["written"]} for row in rows]
    return live_assignors.answered([*requests, *_damaged(draw, rows, damaged)], class_path, PROGRAM)


def _damaged(draw: random.Random, rows: Sequence[Row], number: int) -> Iterator[Row]:
    for _ in range(number):
        row = draw.choice(rows)
        data = base64.b64decode(row["written"])
        for _ in range(draw.choice([1, 1, 2, 5])):
            data = harmed(draw, data)
        yield {row["write"]: base64.b64encode(data).decode()}


def given(draw: random.Random, kind: str, version: int) -> Row:
    """What a client of that version says, or is given."""
    newest = -1 if version < 3 else draw.randint(version, 11)
    row: Row = {"write": kind, "version": version, "newest": newest, "error": draw.randint(0, 5) * (version >= 9)}
    tasks = _tasks(draw, version)
    if kind == "subscription":
        kept = draw.choices([ACTIVE, -3, 0, 100], k=len(tasks))
        return row | {
            "process": str(uuid.UUID(bytes=draw.randbytes(16))),
            "end_point": draw.choice([None, "host:9092"]) if version >= 2 else None,
            "sums": list(zip(tasks, kept, strict=True)),
            "tags": dict(draw.sample([("zone", "a"), ("größe", "ä"), ("", "\U0001f600")], draw.randint(0, 3)))
            if version >= 11
            else {},
        }
    half = draw.randint(0, len(tasks))
    return row | {
        "active": tasks[:half],
        "standby": [(task, _partitions(draw)) for task in tasks[half:]],
        "hosts": [(f"host-{at}", _partitions(draw)) for at in range(draw.randint(0, 3))],
        "standby_hosts": [(f"höst-{at}", _partitions(draw)) for at in range(draw.randint(0, 3))],
        "next": draw.choice([None, 0, 1_750_000_000_000]) if version >= 7 else None,
    }


def _tasks(draw: random.Random, version: int) -> list[TaskOfJson]:
    tasks = [(draw.randint(0, 3), draw.randint(0, 20)) for _ in range(draw.randint(0, 8))]
    names = (None, "topology", "分析") if version >= 10 else (None,)
    return [(*task, draw.choice(names)) for task in dict.fromkeys(tasks)]


def _partitions(draw: random.Random) -> list[tuple[str, int]]:
    return [(draw.choice(["t", "orders", "ä\u0000"]), draw.randint(0, 9)) for _ in range(draw.randint(0, 4))]


def says(row: Row, data: bytes) -> bool:
    """Whether we read what was given to write."""
    decoded = _decoded(row["write"], data)
    if row["write"] == "assignment":
        expected = {
            "active": [_name(task) for task in row["active"]],
            "standby": sorted(_name(task) for task, _ in row["standby"]),
            "error": row["error"] if row["version"] >= 4 else 0,
            "next": NEVER if row["next"] is None else row["next"],
        }
    else:
        expected = {
            "process": row["process"],
            "end_point": row["end_point"],
            "active": sorted(_name(task) for task, kept in row["sums"] if kept == ACTIVE),
            "standby": sorted(_name(task) for task, kept in row["sums"] if kept != ACTIVE),
            "tags": row["tags"],
            "error": row["error"],
        }
    return decoded == expected | {"version": row["version"], "newest": row["newest"]}


def ours(row: Row) -> Row | None:
    """What we read; None: it is refused."""
    kind = next(kind for kind in KINDS if kind in row)
    try:
        return _decoded(kind, base64.b64decode(row[kind]))
    except WireError:
        return None


def theirs(row: Row) -> Row | None:
    """What Streams reads."""
    return None if "refused" in row else {name: decoded for name, decoded in row.items() if name not in KINDS}


def _decoded(kind: str, data: bytes) -> Row:
    if kind == "assignment":
        given = streams_protocol.assignment(data)
        return {
            "version": given.version,
            "newest": given.newest_version,
            "active": [str(task) for task in given.active],
            "standby": sorted(str(task) for task in given.standby),
            "error": given.error,
            "next": NEVER if given.next_rebalance_ms is None else given.next_rebalance_ms,
        }
    subscription = streams_protocol.subscription(data)
    tags = dict(subscription.client_tags)
    return {
        "version": subscription.version,
        "newest": subscription.newest_version,
        "process": subscription.process_id or str(uuid.UUID(int=0)),
        "end_point": subscription.user_end_point,
        "active": sorted(str(task) for task in subscription.active),
        "standby": sorted(str(task) for task in subscription.standby),
        "tags": tags if len(tags) == len(subscription.client_tags) else None,
        "error": subscription.error,
    }


def _name(task: TaskOfJson) -> str:
    return str(streams_protocol.TaskId(*task))
