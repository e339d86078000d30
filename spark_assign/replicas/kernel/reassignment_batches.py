"""Changes of replicas as the JSON files of Kafka's tools, in batches small enough to be in flight together."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

REASSIGN, ROLLBACK, LEADERS = "reassign", "rollback", "preferred-leaders"

FILE_COLUMNS = ("cluster", "kind", "batch", "name", "partitions", "bytes", "content")
Row = dict[str, Any]


@dataclass
class _Batch:
    """Partitions that are reassigned together, and the bytes that this moves (null where sizes are unknown)."""

    rows: list[Row] = field(default_factory=list)
    bytes: int | None = None

    def add(self, row: Row, moving: int | None) -> None:
        self.rows.append(row)
        if moving is not None:
            self.bytes = (self.bytes or 0) + moving


def to_tool_files(rows: Iterable[Row], partitions: int | None, limit: int | None) -> Iterator[tuple[Any, ...]]:
    """The files of some clusters, as `FILE_COLUMNS`.

    Args:
        rows: cluster, topic, partition, previous, replicas, moved, leader_changed, bytes of every changed partition,
            sorted by cluster, topic and partition.
        partitions: how many may be in a batch; null: any number.
        limit: how many bytes a batch may move; a partition above that is a batch of its own; null: any number.
    """
    for cluster, changed in groupby(rows, key=lambda row: row["cluster"]):
        listed = list(changed)
        for number, batch in enumerate(_batches(listed, partitions, limit), start=1):
            for kind, column in ((REASSIGN, "replicas"), (ROLLBACK, "previous")):
                content = _content([_entry(row) | {"replicas": row[column]} for row in batch.rows], version=1)
                yield cluster, kind, number, f"{kind}-{number:03}.json", len(batch.rows), batch.bytes, content
        led = [_entry(row) for row in listed if row["leader_changed"]]
        if led:
            yield cluster, LEADERS, None, f"{LEADERS}.json", len(led), None, _content(led)


def _batches(rows: list[Row], partitions: int | None, limit: int | None) -> Iterator[_Batch]:
    """At least one row is given."""
    batch = _Batch()
    for row in rows:
        moving = None if row["bytes"] is None else row["bytes"] * row["moved"]
        full = partitions is not None and len(batch.rows) >= partitions
        heavy = limit is not None and moving is not None and moving > 0 and (batch.bytes or 0) + moving > limit
        if batch.rows and (full or heavy):
            yield batch
            batch = _Batch()
        batch.add(row, moving)
    yield batch


def _entry(row: Row) -> Row:
    return {"topic": row["topic"], "partition": row["partition"]}


def _content(entries: list[Row], **head: int) -> str:
    """JSON with a partition a line."""
    first = "".join(f"{json.dumps(key)}:{json.dumps(value)}," for key, value in head.items())
    return f'{{{first}"partitions":[\n' + ",\n".join(json.dumps(each) for each in entries) + "\n]}\n"
