"""Slices expanded: rows with `first`, `step` and `count` as the partitions that they stand for, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Partition = tuple[str, int]


def partitions(row: Any) -> Sequence[int]:
    """Returns the partitions of a row with a slice, or of a row with a single `partition`."""
    if "partition" in row:
        return [row["partition"]]
    return range(row["first"], row["first"] + row["step"] * row["count"], row["step"])


def topic_partitions(rows: Iterable[Any]) -> set[Partition]:
    """Returns every topic and partition of the rows."""
    return {(row["topic"], partition) for row in rows for partition in partitions(row)}


def by_owner(rows: Iterable[Any], *names: str) -> dict[Any, set[Partition]]:
    """Returns the topics and partitions of the rows by the values of these columns; of one column by its value."""
    found: dict[Any, set[Partition]] = {}
    for row in rows:
        key = tuple(row[name] for name in names) if len(names) > 1 else row[names[0]]
        found.setdefault(key, set()).update(topic_partitions([row]))
    return found
