"""Rows of a snapshot, gathered one by one, as the tables of `tables.groups.SNAPSHOT_TABLES`, and `loads`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from spark_assign.numeric.partition_slices import compress_sorted
from spark_assign.tables.groups import LOADS, SNAPSHOT_TABLES

_SCHEMAS = {**SNAPSHOT_TABLES, "loads": LOADS}


@dataclass
class SnapshotRows:
    """Rows of every table of a snapshot of one cluster, in the order in which they were added.

    `loads` is among them only where it was read.
    """

    cluster: str
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {table: [] for table in SNAPSHOT_TABLES})

    def add(self, table: str, **values: Any) -> None:
        """One row; `cluster` is filled in, columns not given are null."""
        self.rows.setdefault(table, []).append({"cluster": self.cluster, **values})

    def add_owned(
        self, group_id: str, member_id: str, partitions: Iterable[tuple[str, int]], *, in_order: bool = False
    ) -> None:
        """What a member owns, as `owned_runs`.

        With `in_order` their `position` says in which order they come, unless that is by topic and partition.
        """
        by_topic: dict[str, list[int]] = defaultdict(list)
        for topic, partition in partitions:
            by_topic[topic].append(partition)
        topics = sorted(by_topic)
        in_order &= topics != list(by_topic) or any(some != sorted(some) for some in by_topic.values())
        position = 0
        for topic in by_topic if in_order else topics:
            for first, step, count in runs_in_order(by_topic[topic]) if in_order else runs(by_topic[topic]):
                self.add(
                    "owned_runs",
                    group_id=group_id,
                    member_id=member_id,
                    topic=topic,
                    first=first,
                    step=step,
                    count=count,
                    position=position if in_order else None,
                )
                position += count

    def tables(self) -> dict[str, pa.Table]:
        """Every table, with the schema that `schemas.py` gives it."""
        return {
            name: pa.Table.from_pylist(rows, schema=to_arrow_schema(_SCHEMAS[name])) for name, rows in self.rows.items()
        }


def runs(partitions: Iterable[int]) -> list[tuple[int, int, int]]:
    """Partitions of one topic as (first, step, count), losslessly."""
    ascending = np.unique(np.fromiter(partitions, dtype=np.int64))
    _, first, step, count = compress_sorted(np.zeros_like(ascending), ascending)
    return list(zip(first.tolist(), step.tolist(), count.tolist(), strict=True))


def runs_in_order(partitions: Iterable[int]) -> list[tuple[int, int, int]]:
    """The same of partitions whose order matters: a run ends where they go down, or where the step changes."""
    found: list[tuple[int, int, int]] = []
    for each in partitions:
        first, step, count = found[-1] if found else (0, 0, 0)
        to_next = each - (first + step * (count - 1))
        if count == 0 or to_next <= 0 or (count > 1 and to_next != step):
            found.append((each, 1, 1))
        else:
            found[-1] = (first, to_next, count + 1)
    return found
