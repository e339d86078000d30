"""Writes changes of replicas as JSON for Kafka's tools, in batches that are small enough to run as one reassignment."""

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
    """Partitions that are reassigned together, and the bytes that this moves (None if sizes are unknown)."""

    rows: list[Row] = field(default_factory=list)
    bytes: int | None = None

    def add(self, row: Row, moving: int | None) -> None:
        self.rows.append(row)
        if moving is not None:
            self.bytes = (self.bytes or 0) + moving


def to_tool_files(rows: Iterable[Row], partitions: int | None, limit: int | None) -> Iterator[tuple[Any, ...]]:
    """Yields the files of all clusters, as tuples of `FILE_COLUMNS`.

    Args:
        rows: cluster, topic, partition, previous, replicas, moved, leader_changed, bytes of every changed partition,
            sorted by cluster, topic, and partition.
        partitions: the maximum number of partitions in a batch; None: no limit.
        limit: the maximum number of bytes that a batch moves; a larger partition is a batch of its own; None: no limit.
    """
    for cluster, changed in groupby(rows, key=lambda row: row["cluster"]):
        partition_rows = list(changed)
        for ordinal, batch in enumerate(_batches(partition_rows, partitions, limit), start=1):
            for kind, column in ((REASSIGN, "replicas"), (ROLLBACK, "previous")):
                content = _content([_entry(row) | {"replicas": row[column]} for row in batch.rows], version=1)
                yield cluster, kind, ordinal, f"{kind}-{ordinal:03}.json", len(batch.rows), batch.bytes, content
        led = [_entry(row) for row in partition_rows if row["leader_changed"]]
        if led:
            yield cluster, LEADERS, None, f"{LEADERS}.json", len(led), None, _content(led)


def _batches(rows: list[Row], partitions: int | None, limit: int | None) -> Iterator[_Batch]:
    """Splits rows into batches; expects at least one row."""
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
    """Returns JSON with one partition per line."""
    first = "".join(f"{json.dumps(key)}:{json.dumps(value)}," for key, value in head.items())
    return f'{{{first}"partitions":[\n' + ",\n".join(json.dumps(entry) for entry in entries) + "\n]}\n"
