"""Snapshots of clusters that there are none of, for tests of where they are written to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from spark_assign.sources.connect.cluster_snapshot import ConnectRows, to_tables
from spark_assign.sources.files.snapshot import Snapshot, SnapshotRows
from spark_assign.tables.groups import ALTERNATIVES, REQUIRED_TABLES

TAKEN_AT = datetime(2026, 1, 2, tzinfo=UTC)


def of_kafka(cluster: str, members: int = 2, undescribed: Sequence[str] = ()) -> Snapshot:
    """A cluster with a topic of twelve partitions and a group `g`, whose first member owns all of it."""
    rows = SnapshotRows(cluster)
    rows.add("topics", topic="orders", partitions=12)
    for partition in range(12):
        rows.add("replicas", topic="orders", partition=partition, replicas=[1])
    rows.add("brokers", broker_id=1)
    rows.add("groups", group_id="g", assignor="range", group_type="classic", state="Stable")
    for number in range(members):
        rows.add("members", group_id="g", member_id=f"m{number}", generation_id=1)
    rows.add_subscriptions("g", {f"m{number}": ["orders"] for number in range(members)})
    rows.add_owned("g", "m0", [("orders", partition) for partition in range(12)])
    for group_id in undescribed:
        rows.add("undescribed", group_id=group_id, error="no permission")
    return Snapshot(cluster, {"kind": "test"}, TAKEN_AT, rows.tables())


def of_required_tables(cluster: str, members: int = 2, undescribed: Sequence[str] | None = None) -> Snapshot:
    """The same with no more tables than a fleet must have, and `undescribed` if given: each takes a catalog seconds."""
    taken = of_kafka(cluster, members, undescribed or ())
    tables = [ALTERNATIVES.get(table, table) for table in REQUIRED_TABLES] + ["undescribed"] * (undescribed is not None)
    return replace(taken, tables={table: taken.tables[table] for table in tables})


def subscriptions(tables: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of `subscriptions` that the rows of `subscription_lists` stand for."""
    return [
        {name: row[name] for name in ("cluster", "group_id") if name in row} | {"member_id": member, "topic": topic}
        for row in tables["subscription_lists"]
        for member in row["member_ids"]
        for topic in row["topics"]
    ]


def owned_slices(tables: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of `owned_slices` that the rows of `owned_lists` stand for."""
    lists = {"topic": "topics", "first": "firsts", "step": "steps", "count": "counts", "position": "positions"}
    return [
        {name: row[name] for name in ("cluster", "group_id", "member_id") if name in row}
        | {name: row[each][at] if row.get(each) else None for name, each in lists.items()}
        for row in tables["owned_lists"]
        for at in range(len(row["topics"]))
    ]


def of_connect(clusters: Sequence[str], tasks: int = 2, unread: Sequence[str] = ()) -> Snapshot:
    """Connect clusters with a connector `files` on one worker; of some only that they could not be read."""
    readable, unreadable = ([ConnectRows(name) for name in names] for names in (clusters, unread))
    for rows in readable:
        ids = {"generation_id": 1, "last_completed_generation_id": 0}
        rows.add("clusters", protocol="sessioned", now_ms=0, max_delay_ms=0, **ids)
        rows.add("connectors", connector="files")
        rows.add("workers", worker_id="w1")
        for task in range(tasks):
            rows.add("tasks", connector="files", task=task)
    for rows in unreadable:
        rows.add("unreadable", error="no answer")
    tables = to_tables([*readable, *unreadable])
    return Snapshot(", ".join([*clusters, *unread]), {"kind": "connect"}, TAKEN_AT, tables)
