"""User data of Kafka Streams: written by its own classes for random clients, fresh at every run, and read by us."""

from __future__ import annotations

import base64
import random
import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from spark_assign.wire import streams_protocol
from spark_assign.wire.reader import WireError
from tests.kafka import live_assignors, maven, random_groups
from tests.kafka.random_group_records import harmed

pytestmark = pytest.mark.kafka

PROGRAM = live_assignors.PROGRAM.with_name("StreamsUserData.java")
EACH, DAMAGED = 40, 5_000
ACTIVE, NEVER = -2, 2**63 - 1
KINDS = ("subscription", "assignment")

Row = dict[str, Any]
TaskOfJson = tuple[int, int, str | None]


@pytest.fixture(scope="module")
def class_path(kafka_jars: str) -> str:
    """With Streams; skips, or fails in CI, where there is no Java."""
    assert kafka_jars
    return maven.applications_classpath()


def test_streams_user_data(class_path: str) -> None:
    """Of every version: what is written is what we read, and so do its classes; damaged, both refuse or read alike."""
    seed = random_groups.seed()
    draw = random.Random(f"streams-{seed}")
    given = [_given(draw, kind, version) for kind in KINDS for version in range(1, 12) for _ in range(EACH)]
    written = live_assignors.answered(given, class_path, PROGRAM)
    assert all("written" in row for row in written), next(row for row in written if "written" not in row)
    wrong = [row for row in written if not _says(row, base64.b64decode(row["written"]))]
    assert not wrong, repeat(seed, wrong)

    asked = [{row["write"]: row["written"]} for row in written]
    for _ in range(DAMAGED):
        row = draw.choice(written)
        data = base64.b64decode(row["written"])
        for _ in range(draw.choice([1, 1, 2, 5])):
            data = harmed(draw, data)
        asked.append({row["write"]: base64.b64encode(data).decode()})
    read = live_assignors.answered(asked, class_path, PROGRAM)
    different = [row for row in read if _ours(row) != _theirs(row)]
    assert not different, repeat(seed, [row | {"ours": _ours(row)} for row in different])
    seen = Counter("refused" in row for row in read)
    assert min(seen.values()) > DAMAGED // 10, seen


def _given(draw: random.Random, kind: str, version: int) -> Row:
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


def _says(row: Row, data: bytes) -> bool:
    """Whether we read what was given to write."""
    told = _told(row["write"], data)
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
    return told == expected | {"version": row["version"], "newest": row["newest"]}


def _ours(row: Row) -> Row | None:
    kind = next(kind for kind in KINDS if kind in row)
    try:
        return _told(kind, base64.b64decode(row[kind]))
    except WireError:
        return None


def _theirs(row: Row) -> Row | None:
    return None if "refused" in row else {name: told for name, told in row.items() if name not in KINDS}


def _told(kind: str, data: bytes) -> Row:
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
    said = streams_protocol.subscription(data)
    tags = dict(said.client_tags)
    return {
        "version": said.version,
        "newest": said.newest_version,
        "process": said.process_id or str(uuid.UUID(int=0)),
        "end_point": said.user_end_point,
        "active": sorted(str(task) for task in said.active),
        "standby": sorted(str(task) for task in said.standby),
        "tags": tags if len(tags) == len(said.client_tags) else None,
        "error": said.error,
    }


def _name(task: TaskOfJson) -> str:
    return str(streams_protocol.Task(*task))


def repeat(seed: int, rows: Sequence[Row]) -> str:
    """What to say of them."""
    return f"repeat with {random_groups.SEED_VARIABLE}={seed}: {len(rows)} differ, {str(rows[0])[:3000]}"
