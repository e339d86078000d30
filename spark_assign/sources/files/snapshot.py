"""What was read of one cluster, whichever way: from the cluster itself, or from its tools' text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema

from spark_assign.numeric.partition_slices import compress_sorted
from spark_assign.stores.cluster_folders import KEYS
from spark_assign.tables.groups import LOADS, SNAPSHOT_TABLES


@dataclass(frozen=True)
class Snapshot:
    """The tables of `tables.groups.SNAPSHOT_TABLES` of one cluster, `loads` where it was read, and where and when that
    was.

    Of Connect it has the tables of `connect_tables.TABLES`, and there may be several clusters in them; `cluster` is
    then their names.
    """

    cluster: str
    source: dict[str, Any]
    taken_at: datetime
    tables: dict[str, pa.Table]

    @property
    def key(self) -> str:
        """The column that says of which cluster a row is."""
        return KEYS[1] if "unreadable" in self.tables else KEYS[0]

    def rows(self) -> dict[str, int]:
        """Rows of each table."""
        return {name: table.num_rows for name, table in self.tables.items()}

    def summary(self) -> dict[str, Any]:
        """What `snapshot.json` says: cluster, when, from where and with what, row counts. No secrets."""
        return {
            "cluster": self.cluster,
            "taken_at": self.taken_at.isoformat(timespec="milliseconds"),
            "source": self.source,
            "rows": self.rows(),
        }

    def read(self) -> list[Snapshot]:
        """A snapshot for each cluster that could be read."""
        if self.key == KEYS[0]:
            return [self]
        return [self._only(name) for name in _distinct(self.tables["clusters"], self.key)]

    def unread(self) -> list[Snapshot]:
        """A snapshot for each Connect cluster that could not be read: why not, and no other row."""
        return (
            [self._only(name) for name in _distinct(self.tables["unreadable"], self.key)] if self.key != KEYS[0] else []
        )

    def _only(self, name: str) -> Snapshot:
        tables = {table: rows.filter(pc.equal(rows[self.key], name)) for table, rows in self.tables.items()}
        urls = self.source.get("urls", {})
        source = {**self.source, "urls": {name: urls[name]}} if name in urls else self.source
        return replace(self, cluster=name, source=source, tables=tables)


def _distinct(table: pa.Table, column: str) -> list[str]:
    names: list[str] = pc.unique(table[column]).to_pylist()
    return names


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
            for first, step, count in to_slices_in_order(by_topic[topic]) if in_order else to_slices(by_topic[topic]):
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


def to_slices(partitions: Iterable[int]) -> list[tuple[int, int, int]]:
    """Partitions of one topic as (first, step, count), losslessly."""
    ascending = np.unique(np.fromiter(partitions, dtype=np.int64))
    _, first, step, count = compress_sorted(np.zeros_like(ascending), ascending)
    return list(zip(first.tolist(), step.tolist(), count.tolist(), strict=True))


def to_slices_in_order(partitions: Iterable[int]) -> list[tuple[int, int, int]]:
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
