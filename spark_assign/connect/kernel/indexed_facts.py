"""The facts of many Connect clusters, an Arrow table, as NumPy columns.

A fact is a row of a table of `TABLES`: those of a fleet, and the events of a simulation. `table` is the index of its
table, and the columns of other tables are null or empty lists. A list per table, as in other passes, costs a fifth of
the processor time of millions of rows. Names are indexed in sort order, so that the result doesn't depend on the order
of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.assignors.connect.connectors_and_tasks import TASK_BITS, Names
from spark_assign.assignors.connect.release_rules import find_rules
from spark_assign.assignors.group_facts import NameIndex
from spark_assign.groups.kernel.tagged_rows import InputTable
from spark_assign.java.hash_map import string_hashes, table_orders
from spark_assign.numeric.arrays import BoolArray, IntArray, mask_from_indexes, starts_new_key, to_int_array

CLOCK = ("now_ms", "generation_id", "last_completed_generation_id", "max_delay_ms", "delay_ms")
_ITEMS = pa.list_(pa.struct({"kind": pa.string(), "connector": pa.string(), "task": pa.int32()}))
STATE_LISTS = dict.fromkeys(("assignment", "revocation"), _ITEMS) | dict.fromkeys(
    ("members", "candidates"), pa.list_(pa.string())
)
"""Columns of `state` that are lists of connectors and tasks, or lists of workers."""

_DELAYS = ("scheduled_rebalance_ms", "delay_ms", "generation_id", "successive_revoking_rebalances")

TABLES = {
    "clusters": InputTable((), ("leader", "protocol", "version", *CLOCK)),
    "connectors": InputTable(("connector",), ("state",)),
    "tasks": InputTable(("connector", "task"), ("state",)),
    "workers": InputTable(("worker_id",), ("position",)),
    "reported": InputTable(("worker_id", "connector", "task"), ("kind", "position")),
    "state": InputTable((), ("revoked_in_previous", "can_revoke", *_DELAYS, *STATE_LISTS)),
    "events": InputTable((), ("event", "subject", "at_ms", "tasks")),
}
"""The tables of the input. Only simulations have `events`."""

FAULTY = "faulty"
"""Rows of `reported` whose `kind` is neither connector nor task, or contradicts `task`."""

KEY, TABLE = ("connect_cluster",), "table"
NO_POSITION = np.iinfo(np.int32).max
NO_INDEX = -1
_NO_NAME = pa.scalar(None, pa.string())


def to_facts(tables: Mapping[str, Iterable[Mapping[str, Any]]]) -> pa.Table:
    """Returns the facts of rows, by table."""
    names = {name for table in TABLES.values() for name in table}
    return pa.Table.from_pylist(
        [
            {name: row.get(name) for name in (*KEY, *names)} | {TABLE: at}
            for at, table in enumerate(TABLES)
            for row in tables.get(table, ())
        ]
    )


class IndexedConnectFacts:
    """The facts as NumPy columns; -1 if null.

    Attributes:
        clusters: Names of the clusters; the last one is null if a row has no cluster.
        workers: Worker ids.
        connectors: Names of connectors.
        table: Index into `TABLES` of each row.
        rows: Rows of each table, and of `FAULTY`, which are none of `reported`.
        records: Rows of `clusters`, `state`, and `events`, as dictionaries. The lists of `state` have items, or indexes
            into `workers`; an invalid entry is `NO_INDEX`.
        protocols: Protocol, or protocol@version, of each row of `clusters`; empty if null.
        cluster: Index into `clusters` of each row.
        name: Index into `workers` of each row: a worker, the leader of a cluster, or the subject of an event.
        connector: Index into `connectors` of each row.
        task: Task number of each row.
        position: Position of each row; `NO_POSITION` if null.
        is_task_null: Whether the task of each row is null.
        items: Connector or task of each row, as an item.
    """

    def __init__(self, facts: pa.Table) -> None:
        def column(name: str, kind: pa.DataType) -> pa.Array:
            return facts[name].combine_chunks().cast(kind) if name in facts.column_names else pa.nulls(len(facts), kind)

        def text(name: str) -> pa.Array:
            return column(name, pa.string())

        self.table = column(TABLE, pa.int8()).to_numpy()
        self.rows: dict[str, IntArray] = {name: np.flatnonzero(self.table == at) for at, name in enumerate(TABLES)}
        task, reported = column("task", pa.int32()), self.rows["reported"]
        is_item = _are_items(text("kind"), task)[reported]
        self.rows |= {"reported": reported[is_item], FAULTY: reported[~is_item]}
        self.records = {name: _read_records(facts, name, self.rows[name]) for name in ("clusters", "state", "events")}
        named = [(row["protocol"] or "", row["version"]) for row in self.records["clusters"]]
        self.protocols = [f"{name}@{version}" if name and version is not None else name for name, version in named]
        encoded = text("connect_cluster").dictionary_encode()
        self.cluster: IntArray = (
            encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False).astype(np.int64)
        )
        self.clusters = [*encoded.dictionary.to_pylist(), *([None] if encoded.null_count else [])]
        self.task = to_int_array(task, NO_INDEX)
        self.is_task_null: BoolArray = task.is_null().to_numpy(zero_copy_only=False)
        self.position = to_int_array(column("position", pa.int32()), NO_POSITION)
        self._states = text("state")
        lists = [column(name, kind).take(pa.array(self.rows["state"])) for name, kind in STATE_LISTS.items()]
        parts = [listed.flatten().flatten() for listed in lists[:2]]
        subject, is_worker = text("subject"), pc.starts_with(text("event"), "worker-")
        worker = pc.coalesce(text("worker_id"), text("leader"), pc.if_else(is_worker, subject, _NO_NAME))
        connector = pc.coalesce(text("connector"), pc.if_else(is_worker, _NO_NAME, subject))
        workers = NameIndex(worker, *(listed.flatten() for listed in lists[2:]))
        connectors = NameIndex(connector, *(names for _, names, _ in parts))
        self.workers, self.connectors = Names(workers.names.to_pylist()), Names(connectors.names.to_pylist())
        (self.name, *list_workers), (self.connector, *list_connectors) = workers.columns, connectors.columns
        self.items = _items(self.connector, self.task)
        values = [
            np.where(_are_items(kind, number) & (name >= 0), _items(name, to_int_array(number, NO_INDEX)), NO_INDEX)
            for (kind, _, number), name in zip(parts, list_connectors, strict=True)
        ]
        for name, listed, entries in zip(STATE_LISTS, lists, (*values, *list_workers), strict=True):
            ends = np.cumsum(to_int_array(listed.value_lengths(), 0))
            for record, part in zip(self.records["state"], np.split(entries, ends), strict=False):
                record[name] = part.tolist()

    def states(self, rows: IntArray) -> list[tuple[int, str]]:
        """Returns the rows of `connectors` and `tasks` that have a state, and their states."""
        given = rows[self._states.is_valid().to_numpy(zero_copy_only=False)[rows]]
        return list(zip(given.tolist(), self._states.take(pa.array(given)).to_pylist(), strict=True))

    def ordered_workers(self) -> IntArray:
        """Returns the rows of `workers` sorted by cluster, then in iteration order of the leader's `HashMap`.

        Workers are inserted sorted by id. If the workers of a cluster have positions, these are the iteration order,
        and the ids decide between equal positions. The leader copies the map (`memberAssignments`) and iterates the
        copy since Kafka 3.3. Null ids and repeated ids, which are faults, are left out: a map has neither.
        """
        rows = self.rows["workers"]
        rows = rows[self.name[rows] >= 0]
        rows = rows[np.lexsort((self.name[rows], self.cluster[rows]))]
        rows = rows[starts_new_key(self.cluster[rows]) | starts_new_key(self.name[rows])]
        cluster = self.cluster[rows]
        hashes = string_hashes(self.workers.texts)[self.name[rows]]
        order, copy_order = table_orders(hashes, self.name[rows], cluster)
        if copy_order is not order:
            copy_order = np.where(self._copies_workers()[cluster[order]], copy_order, order)
        rank = np.empty(len(rows), np.int64)
        rank[copy_order] = np.arange(len(rows))
        has_positions = self.has_positions("workers")[cluster]
        return rows[np.lexsort((np.where(has_positions, self.position[rows], rank), cluster))]

    def has_positions(self, table: str) -> BoolArray:
        """Checks which clusters have a position in any row of this table."""
        rows = self.rows[table]
        return mask_from_indexes(self.cluster[rows[self.position[rows] < NO_POSITION]], len(self.clusters))

    def _copies_workers(self) -> BoolArray:
        """Checks in which clusters the leader iterates a copy of the map of received metadata."""
        copies = np.ones(len(self.clusters), bool)
        copies[self.cluster[self.rows["clusters"]]] = [find_rules(each)[0].copies_workers for each in self.protocols]
        return copies


@dataclass(frozen=True)
class WorkerColumns:
    """All workers, sorted by cluster, then in iteration order of the cluster's leader.

    Attributes:
        cluster: Cluster index of each worker.
        worker: Index of each worker's id.
        start: First worker of each cluster, and the number of workers.
    """

    cluster: IntArray
    worker: IntArray
    start: list[int]


def _read_records(facts: pa.Table, table: str, rows: IntArray) -> list[dict[str, Any]]:
    """Returns the rows of a table as dictionaries, without lists; missing columns are None."""
    columns = [name for name in TABLES[table].values if name not in STATE_LISTS]
    records = facts.select([name for name in columns if name in facts.column_names]).take(pa.array(rows)).to_pylist()
    return [dict.fromkeys(columns) | record for record in records]


def _items(connector: IntArray, task: IntArray) -> IntArray:
    return (connector << TASK_BITS) + task + 1


def _are_items(kind: pa.Array, task: pa.Array) -> BoolArray:
    """Checks which rows are a connector without a task, or a task with a number of 0 or more."""
    is_connector = pc.and_(pc.equal(kind, "connector"), task.is_null())
    is_task = pc.and_(pc.equal(kind, "task"), pc.greater_equal(task, 0))
    are_items: BoolArray = pc.or_kleene(is_connector, is_task).fill_null(False).to_numpy(zero_copy_only=False)
    return are_items
