"""The facts of many Connect clusters, an Arrow table, as NumPy columns.

A fact is one row. Its `kind` determines which columns it uses:

    cluster     name (leader), text (protocol, or protocol@version), numbers (`CLUSTER_NUMBERS`)
    connector   connector, text (state)
    task        connector, task, text (state)
    worker      name (worker_id), position
    reported    name (worker_id), connector, task (null: the connector itself), position
    faulty      a row of reported whose `kind` is neither connector nor task, or contradicts `task`: name, connector,
                task; or a null in a list of state: text (its column)
    state       numbers (`STATE_NUMBERS`)
    member      name (worker_id), of the state
    candidate   name (worker_id), of the state, position
    assignment  items, of the state
    revocation  items, of the state
    event       name (worker_id) or connector, text (event), numbers (`EVENT_NUMBERS`); only for simulations

Numbers are text joined by commas, and an empty text is null: few facts have numbers, and each column costs space in
every row. Names are indexed in sort order, so that the result doesn't depend on the order of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.connect.kernel.connectors_and_tasks import TASK_BITS, Names
from spark_assign.connect.kernel.release_rules import find_rules
from spark_assign.java.hash_map import string_hashes, table_orders
from spark_assign.java.key_index import NameIndex, to_int_array
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import mask_from_indexes
from spark_assign.numeric.segmented_arrays import starts_new_key

CLUSTER, CONNECTOR, TASK, WORKER, REPORTED, FAULTY, STATE, MEMBER, CANDIDATE, ASSIGNMENT, REVOCATION, EVENT = range(12)
"""Kinds of facts."""

FACTS = pa.schema(
    {
        "connect_cluster": pa.string(),
        "kind": pa.int8(),
        "name": pa.string(),
        "connector": pa.string(),
        "task": pa.int32(),
        "position": pa.int32(),
        "text": pa.string(),
        "numbers": pa.string(),
        "items": pa.list_(pa.struct({"kind": pa.string(), "connector": pa.string(), "task": pa.int32()})),
    }
)
CLUSTER_NUMBERS = ("now_ms", "generation_id", "last_completed_generation_id", "max_delay_ms", "delay_ms")
EVENT_NUMBERS = ("at_ms", "tasks")
STATE_NUMBERS = (
    *("revoked_in_previous", "can_revoke", "scheduled_rebalance_ms"),
    *("delay_ms", "generation_id", "successive_revoking_rebalances"),
)
"""Columns of `clusters`, `events`, and `state` that are in `numbers`."""

STATE_LISTS = {ASSIGNMENT: "assignment", REVOCATION: "revocation"}
"""Kinds of facts with items, and the columns of `state` that they are."""

TABLES = ("clusters", "connectors", "tasks", "workers", "reported", "reported", *("state",) * 5, "events")
"""Table of each kind of fact (`faulty`: reported or state)."""

NO_POSITION = np.iinfo(np.int32).max
NO_INDEX = -1


class IndexedConnectFacts:
    """The facts as NumPy columns; -1 if null.

    Attributes:
        clusters: Names of the clusters; the last one is null if a row has no cluster.
        workers: Worker ids.
        connectors: Names of connectors.
        kind: Kind of each fact.
        cluster: Index into `clusters` of each fact.
        name: Index into `workers` of each fact.
        connector: Index into `connectors` of each fact.
        task: Task number of each fact.
        position: Position of each fact; `NO_POSITION` if null.
        is_task_null: Whether the task of each fact is null.
        items: Connector or task of each fact, as an item.
        rows: Facts of each kind.
        state_items: Items of the facts of the kinds `STATE_LISTS`, by fact.
        invalid_lists: Facts of these kinds with invalid items.
    """

    def __init__(self, facts: pa.Table) -> None:
        self.kind = facts["kind"].to_numpy()
        self.rows: list[IntArray] = [np.flatnonzero(self.kind == kind) for kind in range(len(TABLES))]
        encoded = facts["connect_cluster"].combine_chunks().dictionary_encode()
        self.cluster: IntArray = (
            encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False).astype(np.int64)
        )
        self.clusters = [*encoded.dictionary.to_pylist(), *([None] if encoded.null_count else [])]
        self.task = to_int_array(facts["task"], NO_INDEX)
        self.is_task_null: BoolArray = facts["task"].is_null().to_numpy()
        self.position = to_int_array(facts["position"], NO_POSITION)
        self._texts = facts["text"].combine_chunks()
        self._numbers = facts["numbers"].combine_chunks()
        list_rows = np.concatenate([self.rows[kind] for kind in STATE_LISTS])
        lists = _Items(facts, list_rows)
        workers = NameIndex(facts["name"])
        connectors = NameIndex(facts["connector"], lists.names)
        self.workers, self.connectors = Names(workers.names.to_pylist()), Names(connectors.names.to_pylist())
        (self.name,), (self.connector, item_connectors) = workers.columns, connectors.columns
        self.items: IntArray = (self.connector << TASK_BITS) + self.task + 1
        self.state_items = dict(zip(list_rows.tolist(), lists.items(item_connectors), strict=True))
        self.invalid_lists: IntArray = list_rows[lists.is_invalid]

    def text(self, row: int) -> str | None:
        """Returns the text of a fact: a protocol, an event, or a faulty column."""
        text: str | None = self._texts[row].as_py()
        return text

    def texts(self, rows: IntArray) -> list[tuple[int, str]]:
        """Returns the facts among the rows that have a text, and their texts."""
        given = rows[self._texts.is_valid().to_numpy(zero_copy_only=False)[rows]]
        return list(zip(given.tolist(), self._texts.take(pa.array(given)).to_pylist(), strict=True))

    def numbers(self, row: int) -> list[int | None]:
        """Returns the numbers of a fact."""
        return [int(number) if number else None for number in self._numbers[row].as_py().split(",")]

    def ordered_workers(self) -> IntArray:
        """Returns the `worker` facts sorted by cluster, then in iteration order of the leader's `HashMap`.

        Workers are inserted sorted by id. If the workers of a cluster have positions, these are the iteration order,
        and the ids decide between equal positions. The leader copies the map (`memberAssignments`) and iterates the
        copy since Kafka 3.3. Null ids and repeated ids, which are faults, are left out: a map has neither.
        """
        rows = self.rows[WORKER]
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
        has_positions = self.has_positions(WORKER)[cluster]
        return rows[np.lexsort((np.where(has_positions, self.position[rows], rank), cluster))]

    def has_positions(self, kind: int) -> BoolArray:
        """Checks which clusters have a position in any fact of this kind."""
        rows = self.rows[kind]
        return mask_from_indexes(self.cluster[rows[self.position[rows] < NO_POSITION]], len(self.clusters))

    def _copies_workers(self) -> BoolArray:
        """Checks in which clusters the leader iterates a copy of the map of received metadata."""
        copies = np.ones(len(self.clusters), bool)
        rows = self.rows[CLUSTER]
        copies[self.cluster[rows]] = [find_rules(self.text(row) or "")[0].copies_workers for row in rows.tolist()]
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


class _Items:
    """The lists of items of these rows, flattened.

    Attributes:
        names: Connector of each item, as text or null.
        is_invalid: Whether each row has an item that is neither a connector nor a task with a number.
    """

    def __init__(self, facts: pa.Table, rows: IntArray) -> None:
        lists = facts["items"].combine_chunks().take(pa.array(rows))
        self._lengths = to_int_array(lists.value_lengths(), 0)
        kind, self.names, task = lists.flatten().flatten()
        self._tasks = to_int_array(task, NO_INDEX)
        is_connector = pc.and_(pc.equal(kind, "connector"), task.is_null())
        is_task = pc.and_(pc.equal(kind, "task"), pc.greater_equal(task, 0))
        is_valid = pc.and_kleene(pc.or_kleene(is_connector, is_task), self.names.is_valid()).fill_null(False)
        row = np.repeat(np.arange(len(rows)), self._lengths)
        invalid_rows = row[~is_valid.to_numpy(zero_copy_only=False)]
        self.is_invalid: BoolArray = np.bincount(invalid_rows, minlength=len(rows)) > 0

    def items(self, connectors: IntArray) -> list[list[int]]:
        """Returns the items of each row; `connectors` are the indexes of `names`."""
        items = (connectors << TASK_BITS) + self._tasks + 1
        ends = np.cumsum(self._lengths)
        return [row_items.tolist() for row_items in np.split(items, ends[:-1])] if len(ends) else []
