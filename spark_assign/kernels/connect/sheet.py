"""The facts of many Connect clusters, an Arrow table, as numbers: who is configured, who reports what.

A fact is a row; its `kind` says which columns it uses:

    cluster     names [protocol, leader], numbers [now_ms, generation_id, last_completed_generation_id, max_delay_ms]
    connector   connector
    task        connector, task
    worker      name (worker_id), position
    reported    name (worker_id), connector, task (null: the connector itself), position
    faulty      name, connector, task: a reported row whose `kind` is neither connector nor task, or does not fit
    state       numbers [revoked_in_previous, can_revoke, scheduled_rebalance_ms, delay_ms, generation_id,
                successive_revoking_rebalances], each null where not known
    members     names, of the state
    candidates  names, of the state, in order
    assignment  names (connectors), numbers (tasks, -1 for the connector itself), of the state
    revocation  likewise
    event       name (worker_id) or connector, names [event], numbers [at_ms, tasks]; only to be simulated

Whatever the order of the rows, the numbers are the same: names are numbered as they sort.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_assign.kernels.connect.items import TASK_BITS, Names
from spark_assign.kernels.java_hash import table_order

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

KINDS = (
    "cluster",
    "connector",
    "task",
    "worker",
    "reported",
    "faulty",
    "state",
    "members",
    "candidates",
    "assignment",
    "revocation",
    "event",
)
CLUSTER, CONNECTOR, TASK, WORKER, REPORTED, FAULTY, STATE, MEMBERS, CANDIDATES, ASSIGNMENT, REVOCATION, EVENT = range(
    12
)

TABLES = ("clusters", "connectors", "tasks", "workers", "reported", "reported", *("state",) * 5, "events")
"""From which table a fact of each kind is."""

NO_POSITION = np.iinfo(np.int32).max
NOTHING = -1


class Sheet:
    """The facts as numbers.

    Attributes:
        clusters: names, null for rows that name none.
        workers: worker ids, numbered.
        connectors: names of connectors, numbered.
        kind, cluster, name, connector, task, position: of each fact; -1 (position: `NO_POSITION`) where null.
        no_task: of each fact whether its task is null.
        items: of each fact the connector or task that it names, as one number.
        rows: of each kind its facts.
    """

    def __init__(self, facts: pa.Table) -> None:
        self.kind = facts["kind"].to_numpy()
        self.rows: list[Ints] = [np.flatnonzero(self.kind == kind) for kind in range(len(KINDS))]
        coded = facts["connect_cluster"].combine_chunks().dictionary_encode()
        self.cluster: Ints = (
            coded.indices.fill_null(len(coded.dictionary)).to_numpy(zero_copy_only=False).astype(np.int64)
        )
        self.clusters = [*coded.dictionary.to_pylist(), *([None] if coded.null_count else [])]
        self.task = _numbers(facts["task"], NOTHING)
        self.no_task: Flags = facts["task"].is_null().to_numpy()
        self.position = _numbers(facts["position"], NO_POSITION)
        names = facts["names"].combine_chunks()
        self._lists = {
            kind: _Lists(names, self.rows[kind])
            for kind in (CLUSTER, MEMBERS, CANDIDATES, ASSIGNMENT, REVOCATION, EVENT)
        }
        numbers = facts["numbers"].combine_chunks()
        self._numbers = {
            kind: _Lists(numbers, self.rows[kind]) for kind in (CLUSTER, STATE, ASSIGNMENT, REVOCATION, EVENT)
        }
        self.workers, (self.name, *of_state) = _numbered(
            facts["name"], self._lists[MEMBERS].values, self._lists[CANDIDATES].values
        )
        self._worker_numbers = self.workers.numbers()
        self._lists[MEMBERS].values, self._lists[CANDIDATES].values = of_state
        self.connectors, (self.connector, *of_state) = _numbered(
            facts["connector"], self._lists[ASSIGNMENT].values, self._lists[REVOCATION].values
        )
        self.items: Ints = (self.connector << TASK_BITS) + self.task + 1
        self._items_of_state = {
            kind: (connector << TASK_BITS) + _numbers(self._numbers[kind].values, NOTHING) + 1
            for kind, connector in zip((ASSIGNMENT, REVOCATION), of_state, strict=True)
        }
        self._incomplete_items = {
            kind: (connector < 0) | ~self._numbers[kind].values.is_valid().to_numpy(zero_copy_only=False)
            for kind, connector in zip((ASSIGNMENT, REVOCATION), of_state, strict=True)
        }

    def worker_number(self, worker_id: str) -> int:
        """The number of a worker; -1 if no fact names it."""
        return self._worker_numbers.get(worker_id, NOTHING)

    # --- rows of one cluster -------------------------------------------------------------------------------

    def texts(self, kind: int, at: int) -> list[str | None]:
        """The names of one list: the at-th fact of its kind (`cluster` or `event`)."""
        found: list[str | None] = self._lists[kind].of(at).to_pylist()
        return found

    def figures(self, kind: int, at: int) -> list[int | None]:
        """The numbers of one list: the at-th fact of its kind."""
        found: list[int | None] = self._numbers[kind].of(at).to_pylist()
        return found

    def listed_workers(self, kind: int, at: int) -> list[int]:
        """The workers of one list of the state, as numbers."""
        found: list[int] = self._lists[kind].of(at).tolist()
        return found

    def listed_items(self, kind: int, at: int) -> list[int]:
        """The items of one list of the state."""
        begin, end = self._lists[kind].bounds(at)
        found: list[int] = self._items_of_state[kind][begin:end].tolist()
        return found

    def incomplete(self, kind: int) -> Ints:
        """The clusters (one entry per faulty item) whose state lists an item without connector, or a faulty one."""
        owners: Ints = np.repeat(self.cluster[self.rows[kind]], self._lists[kind].lengths)
        faulty = self._incomplete_items[kind] if kind in self._incomplete_items else self._lists[kind].values < 0
        found: Ints = owners[faulty]
        return found

    # --- orders ---------------------------------------------------------------------------------------------

    def ordered_workers(self) -> Ints:
        """The `worker` facts, cluster after cluster, in the order in which the leader's `HashMap` is walked.

        Workers are put into it sorted by id; where a cluster's workers have positions, those tell the walk itself.
        """
        rows = self.rows[WORKER]
        rows = rows[np.lexsort((self.name[rows], self.cluster[rows]))]
        cluster = self.cluster[rows]
        hashes = np.array(self.workers.spread, np.int64)[self.name[rows]] if len(rows) else np.empty(0, np.int64)
        place = np.empty(len(rows), np.int64)
        place[table_order(hashes, cluster)] = np.arange(len(rows))
        told = np.zeros(len(self.clusters), bool)
        told[cluster[self.position[rows] < NO_POSITION]] = True
        return rows[np.lexsort((np.where(told[cluster], self.position[rows], place), cluster))]

    def positioned_reports(self) -> Flags:
        """Of each cluster whether what its workers report has positions."""
        told = np.zeros(len(self.clusters), bool)
        rows = self.rows[REPORTED]
        told[self.cluster[rows[self.position[rows] < NO_POSITION]]] = True
        return told


class _Lists:
    """The lists of some rows, one after the other; a null list is an empty one."""

    def __init__(self, column: pa.ListArray, rows: Ints) -> None:
        lists = column.take(pa.array(rows))
        self.lengths: Ints = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        self.ends: Ints = np.cumsum(self.lengths)
        self.values = lists.flatten()

    def bounds(self, at: int) -> tuple[int, int]:
        """Where a list begins and ends among `values`."""
        end = int(self.ends[at])
        return end - int(self.lengths[at]), end

    def of(self, at: int) -> pa.Array:
        """One list."""
        begin, end = self.bounds(at)
        return self.values[begin:end]


def _numbers(values: pa.Array | pa.ChunkedArray, missing: int) -> Ints:
    """A column of whole numbers; null becomes `missing`."""
    filled = values.fill_null(missing)
    return np.asarray(filled.to_numpy() if isinstance(filled, pa.ChunkedArray) else filled.to_numpy(False), np.int64)


def _numbered(column: pa.ChunkedArray, *more: pa.Array) -> tuple[Names, list[Ints]]:
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
