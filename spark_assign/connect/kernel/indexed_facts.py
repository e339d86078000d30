"""The facts of many Connect clusters, an Arrow table, as numbers: who is configured, who reports what.

A fact is a row; its `kind` says which columns it uses:

    cluster     name (leader), names [protocol], numbers [now_ms, generation_id, last_completed_generation_id,
                max_delay_ms]
    connector   connector
    task        connector, task
    worker      name (worker_id), position
    reported    name (worker_id), connector, task (null: the connector itself), position
    faulty      a row of reported whose `kind` is neither connector nor task, or does not fit: name, connector, task; or
                something in a row of state: names [its column]
    state       numbers [revoked_in_previous, can_revoke, scheduled_rebalance_ms, delay_ms, generation_id,
                successive_revoking_rebalances], each empty where not known
    member      name (worker_id), of the state
    candidate   name (worker_id), of the state, position
    assignment  items [kind, connector, task], of the state
    revocation  likewise
    event       name (worker_id) or connector, names [event], numbers [at_ms, tasks]; only to be simulated

Numbers are text, joined by commas: few facts have any, and a column costs every row.

Whatever the order of the rows, the numbers are the same: names are numbered as they sort.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.connect.kernel.connector_task_ids import TASK_BITS, Names
from spark_assign.java.hash_map import table_orders
from spark_assign.numeric.array_types import BoolArray, IntArray

CLUSTER, CONNECTOR, TASK, WORKER, REPORTED, FAULTY, STATE, MEMBER, CANDIDATE, ASSIGNMENT, REVOCATION, EVENT = range(12)
"""Kinds of facts."""

TABLES = ("clusters", "connectors", "tasks", "workers", "reported", "reported", *("state",) * 5, "events")
"""From which table a fact of each kind is (`faulty`: of reported or of state)."""

PROTOCOL_2_6 = "compatible-2.6"
NO_POSITION = np.iinfo(np.int32).max
NOTHING = -1


class IndexedConnectFacts:
    """The facts as numbers.

    Attributes:
        clusters: names, null for rows that name none.
        workers: worker ids, numbered.
        connectors: names of connectors, numbered.
        kind, cluster, name, connector, task, position: of each fact; -1 (position: `NO_POSITION`) where null.
        no_task: of each fact whether its task is null.
        items: of each fact the connector or task that it names, as one number.
        rows: of each kind its facts.
        state_items: of each `assignment` and each `revocation` its items.
        broken_lists: those facts among them that hold what is no item.
    """

    def __init__(self, facts: pa.Table) -> None:
        self.kind = facts["kind"].to_numpy()
        self.rows: list[IntArray] = [np.flatnonzero(self.kind == kind) for kind in range(len(TABLES))]
        coded = facts["connect_cluster"].combine_chunks().dictionary_encode()
        self.cluster: IntArray = (
            coded.indices.fill_null(len(coded.dictionary)).to_numpy(zero_copy_only=False).astype(np.int64)
        )
        self.clusters = [*coded.dictionary.to_pylist(), *([None] if coded.null_count else [])]
        self.task = _numbers(facts["task"], NOTHING)
        self.no_task: BoolArray = facts["task"].is_null().to_numpy()
        self.position = _numbers(facts["position"], NO_POSITION)
        self._texts = facts["names"].combine_chunks()
        self._figures = facts["numbers"].combine_chunks()
        listed = [_Items(facts, self.rows[kind]) for kind in (ASSIGNMENT, REVOCATION)]
        self.workers, (self.name,) = _numbered(facts["name"])
        self.connectors, (self.connector, *numbers) = _numbered(facts["connector"], *(each.names for each in listed))
        self.items: IntArray = (self.connector << TASK_BITS) + self.task + 1
        self.state_items: dict[int, list[list[int]]] = {
            kind: each.items(connectors)
            for kind, each, connectors in zip((ASSIGNMENT, REVOCATION), listed, numbers, strict=True)
        }
        self.broken_lists: dict[int, IntArray] = {
            kind: self.rows[kind][each.broken] for kind, each in zip((ASSIGNMENT, REVOCATION), listed, strict=True)
        }

    def text(self, row: int) -> str | None:
        """The one name that a fact lists: a protocol, an event, or a column at fault."""
        found: str | None = self._texts[row].as_py()
        return found

    def figures(self, row: int) -> list[int | None]:
        """The numbers that a fact lists."""
        return [int(each) if each else None for each in self._figures[row].as_py().split(",")]

    # --- orders ---------------------------------------------------------------------------------------------

    def ordered_workers(self) -> IntArray:
        """The `worker` facts, cluster after cluster, in the order in which the leader's `HashMap` is walked.

        Workers are put into it sorted by id; where a cluster's workers have positions, those tell the walk itself. The
        leader makes a second map from it (`memberAssignments`), whose walk is the one that counts, but for 2.6.
        """
        rows = self.rows[WORKER]
        rows = rows[np.lexsort((self.name[rows], self.cluster[rows]))]
        cluster = self.cluster[rows]
        hashes = np.array(self.workers.spread, np.int64)[self.name[rows]] if len(rows) else np.empty(0, np.int64)
        order, again = table_orders(hashes, self.name[rows], cluster)
        if again is not order:
            again = np.where(self._first_map()[cluster[order]], order, again)
        place = np.empty(len(rows), np.int64)
        place[again] = np.arange(len(rows))
        told = np.zeros(len(self.clusters), bool)
        told[cluster[self.position[rows] < NO_POSITION]] = True
        return rows[np.lexsort((np.where(told[cluster], self.position[rows], place), cluster))]

    def _first_map(self) -> BoolArray:
        """Of each cluster whether its assignor is that of 2.6, which walks the map of what workers have sent."""
        old = np.zeros(len(self.clusters), bool)
        rows = self.rows[CLUSTER]
        old[self.cluster[rows]] = [self.text(row) == PROTOCOL_2_6 for row in rows.tolist()]
        return old

    def positioned_reports(self) -> BoolArray:
        """Of each cluster whether what its workers report has positions."""
        told = np.zeros(len(self.clusters), bool)
        rows = self.rows[REPORTED]
        told[self.cluster[rows[self.position[rows] < NO_POSITION]]] = True
        return told


@dataclass(frozen=True)
class WorkerColumns:
    """All workers of all clusters, cluster after cluster, each in the order in which its leader walks.

    Attributes:
        cluster: of each worker.
        worker: its number.
        begin: of each cluster the first of its workers; one more entry for the end.
    """

    cluster: IntArray
    worker: IntArray
    begin: list[int]


class _Items:
    """The lists of items of some rows, one after the other.

    Attributes:
        names: of each item its connector, a text or null.
        broken: of each row whether it lists what is neither a connector nor a task with its number.
    """

    def __init__(self, facts: pa.Table, rows: IntArray) -> None:
        lists = facts["items"].combine_chunks().take(pa.array(rows))
        self._lengths = _lengths(lists)
        kind, self.names, task = lists.flatten().flatten()
        self._tasks = _numbers(task, NOTHING)
        is_connector = pc.and_(pc.equal(kind, "connector"), task.is_null())
        is_task = pc.and_(pc.equal(kind, "task"), pc.greater_equal(task, 0))
        fits = pc.and_kleene(pc.or_kleene(is_connector, is_task), self.names.is_valid()).fill_null(False)
        row = np.repeat(np.arange(len(rows)), self._lengths)
        self.broken: BoolArray = np.bincount(row[~fits.to_numpy(zero_copy_only=False)], minlength=len(rows)) > 0

    def items(self, connectors: IntArray) -> list[list[int]]:
        """The items of each row, given the number of each of `names`."""
        items = (connectors << TASK_BITS) + self._tasks + 1
        return [each.tolist() for each in np.split(items, np.cumsum(self._lengths)[:-1])] if len(self._lengths) else []


def _lengths(lists: pa.ListArray) -> IntArray:
    return np.asarray(pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False), np.int64)


def _numbers(values: pa.Array | pa.ChunkedArray, missing: int) -> IntArray:
    """A column of whole numbers; null becomes `missing`."""
    filled = values.fill_null(missing)
    return np.asarray(filled.to_numpy() if isinstance(filled, pa.ChunkedArray) else filled.to_numpy(False), np.int64)


def _numbered(column: pa.ChunkedArray, *more: pa.Array) -> tuple[Names, list[IntArray]]:
    """Texts of several columns numbered together; -1 for null."""
    parts = [column.combine_chunks(), *more]
    coded = pa.concat_arrays(parts).dictionary_encode()
    texts = coded.dictionary.to_pylist()
    names = Names(texts)
    numbers = names.numbers()
    rank = np.array([*(numbers[text] for text in texts), NOTHING], np.int64)
    codes = rank[coded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)]
    ends = np.cumsum([len(part) for part in parts])
    return names, np.split(codes, ends[:-1])
