"""The tables of one cluster, read from the cluster or from the output of Kafka's tools."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.numeric.arrays import compress_sorted, values_by_key
from spark_assign.spark.dataframes import to_arrow_schema
from spark_assign.stores.locations import KEYS
from spark_assign.tables.groups import OPTIONAL_SNAPSHOT_TABLES, SCHEMA_VERSION, SNAPSHOT_TABLES, is_own_group
from spark_assign.tables.schema_fields import within_bytes


@dataclass(frozen=True)
class Snapshot:
    """The tables of `tables.groups.SNAPSHOT_TABLES` of one cluster, and their source and time. `loads` is a table only
    if it was read, and `changelogs` only if there are classic Streams applications with state.

    A snapshot of Connect has the tables of `connect.cluster_snapshot.TABLES`, which can have several clusters.
    `cluster` then lists their names.
    """

    cluster: str
    source: dict[str, Any]
    taken_at: datetime
    tables: dict[str, pa.Table]

    @property
    def key(self) -> str:
        """Returns the name of the cluster column."""
        return KEYS[1] if "unreadable" in self.tables else KEYS[0]

    def rows(self) -> dict[str, int]:
        """Returns the number of rows of each table."""
        return {name: table.num_rows for name, table in self.tables.items()}

    def summary(self) -> dict[str, Any]:
        """Returns the content of `snapshot.json`: schema version, cluster, time, source, and row counts; no secrets."""
        return {
            "schema_version": SCHEMA_VERSION,
            "cluster": self.cluster,
            "taken_at": self.taken_at.isoformat(timespec="milliseconds"),
            "source": self.source,
            "rows": self.rows(),
        }

    def readable(self) -> list[Snapshot]:
        """Returns one snapshot per cluster that was read."""
        return [self] if self.key == KEYS[0] else self._by_cluster("clusters")

    def unreadable(self) -> list[Snapshot]:
        """Returns one snapshot per unreadable Connect cluster. It has only the row with the error."""
        return [] if self.key == KEYS[0] else self._by_cluster("unreadable")

    def problems(self) -> dict[str, str]:
        """Returns the error of each unreadable Connect cluster, by its name."""
        rows = [] if self.key == KEYS[0] else self.tables["unreadable"].to_pylist()
        return {row[KEYS[1]]: row["error"] for row in rows}

    def _by_cluster(self, table: str) -> list[Snapshot]:
        """Returns one snapshot per cluster of a table."""
        return [self._select(name) for name in pc.unique(self.tables[table][self.key]).to_pylist()]

    def _select(self, name: str) -> Snapshot:
        """Returns the snapshot of one cluster."""
        tables = {table: rows.filter(pc.equal(rows[self.key], name)) for table, rows in self.tables.items()}
        urls = self.source.get("urls", {})
        source = {**self.source, "urls": {name: urls[name]}} if name in urls else self.source
        return replace(self, cluster=name, source=source, tables=tables)


_SCHEMAS = {**SNAPSHOT_TABLES, **OPTIONAL_SNAPSHOT_TABLES}


@dataclass
class SnapshotRows:
    """The rows of every table of a snapshot of one cluster, in insertion order.

    `loads` and `changelogs` are tables only if they were read.
    """

    cluster: str
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {table: [] for table in SNAPSHOT_TABLES})

    def add(self, table: str, **values: Any) -> None:
        """Adds a row with the name of the cluster, unless it is of a group of Spark's Kafka source. Omitted columns are
        null.
        """
        if not is_own_group(values.get("group_id", "")):
            self.rows.setdefault(table, []).append({"cluster": self.cluster, **values})

    def add_subscriptions(self, group_id: str, topics: Mapping[str, Collection[str]]) -> None:
        """Adds the topics of each member to `subscription_lists`: one row for all members with the same topics."""
        lists: dict[int, tuple[Collection[str], list[str]]] = {}  # one that members share is read once
        for member_id, names in topics.items():
            lists.setdefault(id(names), (names, []))[1].append(member_id)
        members_by_topics: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for names, member_ids in lists.values():
            if names:
                members_by_topics[tuple(sorted(set(names)))] += member_ids
        for names, member_ids in members_by_topics.items():
            self.add("subscription_lists", group_id=group_id, member_ids=member_ids, topics=list(names))

    def add_owned(
        self, group_id: str, member_id: str, partitions: Iterable[tuple[str, int]], *, in_order: bool = False
    ) -> None:
        """Adds the partitions of a member, if it has any, as a row of `owned_lists`.

        With `in_order`, `positions` gives their order, unless they are sorted by topic and partition.
        """
        by_topic = values_by_key(partitions)
        topics = sorted(by_topic)
        in_order &= topics != list(by_topic) or any(numbers != sorted(numbers) for numbers in by_topic.values())
        slices = [
            (topic, *run)
            for topic in (by_topic if in_order else topics)
            for run in (to_slices_in_order if in_order else to_slices)(by_topic[topic])
        ]
        if slices:
            names, firsts, steps, counts = map(list, zip(*slices, strict=True))
            positions = [0, *accumulate(counts[:-1])] if in_order else None
            self.add(
                "owned_lists",
                group_id=group_id,
                member_id=member_id,
                topics=names,
                firsts=firsts,
                steps=steps,
                counts=counts,
                positions=positions,
            )

    def tables(self) -> dict[str, pa.Table]:
        """Returns every table with its schema in `tables.groups`, without the ends of long errors."""
        for row in self.rows["undescribed"]:
            row["error"] = within_bytes(row["error"])
        return {
            name: pa.Table.from_pylist(rows, schema=to_arrow_schema(_SCHEMAS[name])) for name, rows in self.rows.items()
        }


_MAX_STEP = (1 << 31) - 1
"""Largest step of a slice. Two numbers below and above 0, as damaged bytes can have, are further apart."""


def to_slices(partitions: Iterable[int]) -> list[tuple[int, int, int]]:
    """Returns partitions of one topic as slices (first, step, count), losslessly, in ascending order."""
    ascending = np.unique(np.fromiter(partitions, dtype=np.int64))
    _, first, step, count = compress_sorted(np.zeros_like(ascending), ascending)
    slices = zip(first.tolist(), step.tolist(), count.tolist(), strict=True)
    return [
        part
        for first, step, count in slices
        for part in ([(first, step, count)] if step <= _MAX_STEP else [(first, 1, 1), (first + step, 1, 1)])
    ]


def to_slices_in_order(partitions: Iterable[int]) -> list[tuple[int, int, int]]:
    """Returns partitions whose order matters as slices. A slice ends if the partitions descend or the step changes."""
    slices: list[tuple[int, int, int]] = []
    for partition in partitions:
        first, step, count = slices[-1] if slices else (0, 0, 0)
        to_next = partition - (first + step * (count - 1))
        if count == 0 or not 0 < to_next <= _MAX_STEP or (count > 1 and to_next != step):
            slices.append((partition, 1, 1))
        else:
            slices[-1] = (first, to_next, count + 1)
    return slices
