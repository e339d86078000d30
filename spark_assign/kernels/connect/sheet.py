"""The facts of many Connect clusters, an Arrow table, as numbers: who is configured, who reports what.

A row of the table holds one fact, or a list of facts of one connector, worker or leader; its `kind` says which columns
it uses:

    cluster     name (leader), text (protocol), figures [now_ms, generation_id, last_completed_generation_id,
                max_delay_ms]
    connector   connector
    task        connector, tasks: a row of `tasks` for each
    worker      name (worker_id), position
    reported    name (worker_id), kinds, connectors, tasks, positions, side by side: a row of `reported` for each
    state       figures [revoked_in_previous, can_revoke, scheduled_rebalance_ms, delay_ms, generation_id,
                successive_revoking_rebalances]
    member      names (worker_ids), of the state
    candidate   names (worker_ids), of the state
    assignment  kinds, connectors, tasks, side by side, of the state
    revocation  likewise
    event       name (worker_id) or connector, text (event), figures [at_ms, tasks]; only to be simulated

Here every row of `tasks` and `reported`, every member and candidate is a fact of its own again, but as numbers. What
does not fit becomes a fact of the kind `faulty`: a row of reported whose `kind` is neither connector nor task, or does
not go with its task; in the state a list with such an item, or a member or candidate that is null.

Whatever the order of the rows, the numbers are the same: names are numbered as they sort.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.kernels.arrays import Flags, Ints
from spark_assign.kernels.connect.items import TASK_BITS, Names
from spark_assign.kernels.java_hash import table_orders
from spark_assign.kernels.segments import counted

CLUSTER, CONNECTOR, TASK, WORKER, REPORTED, FAULTY, STATE, MEMBER, CANDIDATE, ASSIGNMENT, REVOCATION, EVENT = range(12)
"""Kinds of facts."""

TABLES = ("clusters", "connectors", "tasks", "workers", "reported", "reported", *("state",) * 5, "events")
"""From which table a fact of each kind is (`faulty`: of reported or of state)."""

PROTOCOL_2_6 = "compatible-2.6"
SEPARATOR = "\x1f"
"""No connector of a state may have it in its name: Connect forbids control characters."""

NO_POSITION = np.iinfo(np.int32).max
NOTHING = -1

_IN_STATE = {MEMBER: "members", CANDIDATE: "candidates", ASSIGNMENT: "assignment", REVOCATION: "revocation"}
"""Columns of the state, by the kind of their facts."""


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
        state_items: of each `assignment` and each `revocation` its items.
    """

    def __init__(self, facts: pa.Table) -> None:
        names, listed = _List(facts, "names"), _ListedItems(facts)
        told = facts["kind"].to_numpy()
        coded, self.clusters = _clusters(facts["connect_cluster"])
        self.workers, (name, member) = _numbered(facts["name"], names.values)
        self.connectors, (connector, item_connector) = _numbered(facts["connector"], listed.names)

        sizes = np.ones(len(told), np.int64)
        for kinds, lists in (((TASK, REPORTED), listed.sizes), ((MEMBER, CANDIDATE), names.sizes)):
            of_these = np.isin(told, kinds)
            sizes[of_these] = lists[of_these]
        self._row: Ints = np.repeat(np.arange(len(told)), sizes)
        self.kind, self.cluster = told[self._row], coded[self._row]
        self.name, self.connector = name[self._row], connector[self._row]
        self.task = np.full(len(self._row), NOTHING, np.int64)
        self.no_task: Flags = np.ones(len(self._row), bool)
        self.position = _numbers(facts["position"], NO_POSITION)[self._row]

        here, there = np.isin(self.kind, (TASK, REPORTED)), np.isin(told[listed.row], (TASK, REPORTED))
        self.task[here], self.no_task[here] = listed.tasks[there], listed.no_task[there]
        here, there = self.kind == REPORTED, told[listed.row] == REPORTED
        self.connector[here], self.position[here] = item_connector[there], listed.positions[there]
        here, there = np.isin(self.kind, (MEMBER, CANDIDATE)), np.isin(told[names.row], (MEMBER, CANDIDATE))
        self.name[here], self.position[here] = member[there], counted(names.sizes)[there]
        self.items: Ints = (self.connector << TASK_BITS) + self.task + 1

        self._texts, self._figures = facts["text"].combine_chunks(), facts["figures"].combine_chunks()
        self._at_fault = self._find_faulty(listed, told, item_connector)
        self.rows: list[Ints] = [np.flatnonzero(self.kind == kind) for kind in range(len(TABLES))]
        every = (item_connector << TASK_BITS) + listed.tasks + 1
        ends = np.cumsum(listed.sizes)
        self.state_items: dict[int, list[list[int]]] = {
            kind: [every[ends[row] - listed.sizes[row] : ends[row]].tolist() for row in self._row[self.rows[kind]]]
            for kind in (ASSIGNMENT, REVOCATION)
        }

    def _find_faulty(self, listed: _ListedItems, told: Ints, connector: Ints) -> dict[int, str]:
        """Give what does not fit the kind `faulty`; returns of such facts of a state the column at fault."""
        reported = self.kind == REPORTED
        spoiled = np.array([SEPARATOR in text for text in self.connectors.texts] + [True])[connector]
        broken = np.bincount(listed.row, ~listed.fits | spoiled, minlength=len(told)) > 0
        faulty = np.isin(self.kind, (ASSIGNMENT, REVOCATION)) & broken[self._row]
        faulty |= np.isin(self.kind, (MEMBER, CANDIDATE)) & (self.name < 0)
        at_fault = {int(fact): _IN_STATE[int(self.kind[fact])] for fact in np.flatnonzero(faulty)}
        faulty[reported] = ~listed.fits[told[listed.row] == REPORTED]
        self.kind[faulty] = FAULTY
        return at_fault

    def text(self, fact: int) -> str | None:
        """The one text that a fact has: a protocol, an event, or the state's column at fault."""
        found: str | None = self._at_fault.get(fact) or self._texts[int(self._row[fact])].as_py()
        return found

    def figures(self, fact: int) -> list[int | None]:
        """The numbers that a fact lists."""
        found: list[int | None] = self._figures[int(self._row[fact])].as_py()
        return found

    # --- orders ---------------------------------------------------------------------------------------------

    def ordered_workers(self) -> Ints:
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

    def _first_map(self) -> Flags:
        """Of each cluster whether its assignor is that of 2.6, which walks the map of what workers have sent."""
        old = np.zeros(len(self.clusters), bool)
        rows = self.rows[CLUSTER]
        old[self.cluster[rows]] = [self.text(row) == PROTOCOL_2_6 for row in rows.tolist()]
        return old

    def positioned_reports(self) -> Flags:
        """Of each cluster whether what its workers report has positions."""
        told = np.zeros(len(self.clusters), bool)
        rows = self.rows[REPORTED]
        told[self.cluster[rows[self.position[rows] < NO_POSITION]]] = True
        return told


@dataclass(frozen=True)
class Slots:
    """All workers of all clusters, cluster after cluster, each in the order in which its leader walks.

    Attributes:
        cluster: of each worker.
        worker: its number.
        begin: of each cluster the first of its workers; one more entry for the end.
    """

    cluster: Ints
    worker: Ints
    begin: list[int]


class _List:
    """A column of lists, one after the other; a null list is an empty one.

    Attributes:
        values: what the lists hold.
        sizes: of each row how many that are.
        row: of each value its row.
    """

    def __init__(self, facts: pa.Table, name: str) -> None:
        lists = facts[name].combine_chunks()
        self.values: pa.Array = lists.flatten()
        self.sizes: Ints = _numbers(pc.list_value_length(lists), 0)
        self.row: Ints = np.repeat(np.arange(len(lists)), self.sizes)


class _ListedItems:
    """The items that rows list, one after the other.

    Attributes:
        sizes: of each row how many it lists.
        row: of each item its row.
        names: its connector, a text or null.
        tasks, no_task: its task's number (-1 where there is none), and whether there is none.
        positions: where the worker lists it.
        fits: whether it is a connector without a task, or a task with its number.
    """

    def __init__(self, facts: pa.Table) -> None:
        tasks, connectors = _List(facts, "tasks"), _List(facts, "connectors")
        kinds, positions = _List(facts, "kinds"), _List(facts, "positions")
        self.sizes, self.row = tasks.sizes, tasks.row
        self.tasks = _numbers(tasks.values, NOTHING)
        self.no_task: Flags = tasks.values.is_null().to_numpy(zero_copy_only=False)
        self.names = _spread(connectors.values, connectors.sizes, tasks.sizes)
        self.positions = _numbers(_spread(positions.values, positions.sizes, tasks.sizes), NO_POSITION)
        kind = _spread(kinds.values, kinds.sizes, tasks.sizes)
        is_connector, is_task = (
            pc.equal(kind, name).fill_null(False).to_numpy(zero_copy_only=False) for name in ("connector", "task")
        )
        self.fits: Flags = (is_connector & self.no_task) | (is_task & (self.tasks >= 0))


def _spread(values: pa.Array, sizes: Ints, wanted: Ints) -> pa.Array:
    """The values of lists that some rows lack, with nulls in place of those."""
    if np.array_equal(sizes, wanted):
        return values
    there = np.repeat(sizes > 0, wanted)
    return values.take(pa.array(np.cumsum(there) - 1, mask=~there))


def _clusters(column: pa.ChunkedArray) -> tuple[Ints, list[str | None]]:
    """Of each row the number of its cluster, and the names of the clusters; null is the last."""
    coded = column.combine_chunks().dictionary_encode()
    numbers = _numbers(coded.indices, len(coded.dictionary))
    return numbers, [*coded.dictionary.to_pylist(), *([None] if coded.null_count else [])]


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
