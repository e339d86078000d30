"""The facts of many Connect clusters, an Arrow table, as numbers: who is configured, who reports what.

A row of the table holds all that one input table has of a cluster, as lists side by side: what costs on the way from
Spark is rows rather than the lengths of their lists. Its `kind` says which columns it uses:

    cluster     workers [leader], text (protocol), figures [now_ms, generation_id, last_completed_generation_id,
                max_delay_ms]
    connector   connectors
    task        connectors, tasks
    worker      workers, positions
    reported    workers, kinds, connectors, tasks, positions
    state       figures [revoked_in_previous, can_revoke, scheduled_rebalance_ms, delay_ms, generation_id,
                successive_revoking_rebalances]
    member      workers, of the state
    candidate   workers, of the state
    assignment  kinds, connectors, tasks, of the state
    revocation  likewise
    event       workers or connectors [subject], text (event), figures [at_ms, tasks]; only to be simulated

Here every entry of the lists is a fact of its own, but for an assignment and a revocation, which are one each. What
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
from spark_assign.kernels.segments import counted, first_of_each

CLUSTER, CONNECTOR, TASK, WORKER, REPORTED, FAULTY, STATE, MEMBER, CANDIDATE, ASSIGNMENT, REVOCATION, EVENT = range(12)
"""Kinds of facts."""

TABLES = ("clusters", "connectors", "tasks", "workers", "reported", "reported", *("state",) * 5, "events")
"""From which table a fact of each kind is (`faulty`: of reported or of state)."""

PROTOCOL_2_6 = "compatible-2.6"
SEPARATOR = "\x1f"
"""No connector of a state may have it in its name: Connect forbids control characters."""

NO_POSITION = np.iinfo(np.int32).max
NOTHING = -1
_NO_TASK = -(2**40)
_LISTS = ("workers", "kinds", "connectors", "tasks", "positions")

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
        lists = _Lists(facts)
        coded, self.clusters = _clusters(facts["connect_cluster"])
        self.workers, worker = _numbered(lists.values["workers"])
        self.connectors, connector = _numbered(lists.values["connectors"])
        connector = lists.spread("connectors", connector, NOTHING)
        task = lists.spread("tasks", _numbers(lists.values["tasks"].cast(pa.int64()), _NO_TASK), _NO_TASK)
        no_task = task == _NO_TASK
        task[no_task] = NOTHING
        items = (connector << TASK_BITS) + task + 1
        kind = facts["kind"].to_numpy()[lists.row]

        in_lists = np.isin(kind, (ASSIGNMENT, REVOCATION))
        entry = np.flatnonzero(~in_lists | first_of_each(lists.row))
        self._row: Ints = lists.row[entry]
        self.kind, self.cluster = kind[entry], coded[self._row]
        self.name = lists.spread("workers", worker, NOTHING)[entry]
        self.connector, self.task, self.no_task = connector[entry], task[entry], no_task[entry]
        self.position = lists.spread("positions", _numbers(lists.values["positions"], NO_POSITION), NO_POSITION)[entry]
        members = np.isin(self.kind, (MEMBER, CANDIDATE))
        self.position[members] = counted(lists.sizes)[entry][members]
        self.items: Ints = items[entry]
        self._texts, self._figures = facts["text"].combine_chunks(), facts["figures"].combine_chunks()

        fits = (lists.holds("kinds", "connector") & no_task) | (lists.holds("kinds", "task") & (task >= 0))
        separated = np.array([*(SEPARATOR in text for text in self.connectors.texts), True])  # the last one: no name
        broken = np.zeros(len(facts), bool)
        broken[lists.row[in_lists & (~fits | separated[connector])]] = True
        self._at_fault = self._find_faulty(fits[entry], broken)
        self.rows: list[Ints] = [np.flatnonzero(self.kind == kind) for kind in range(len(TABLES))]
        ends = np.cumsum(lists.sizes)
        self.state_items: dict[int, list[list[int]]] = {
            kind: [items[ends[row] - lists.sizes[row] : ends[row]].tolist() for row in self._row[self.rows[kind]]]
            for kind in (ASSIGNMENT, REVOCATION)
        }

    def _find_faulty(self, fits: Flags, broken: Flags) -> dict[int, str]:
        """Give what does not fit the kind `faulty`.

        Args:
            fits: of each fact whether its item is a connector without a task, or a task with its number.
            broken: of each row of the table whether it lists an item of a state that does not.

        Returns:
            of each faulty fact of a state the column at fault.
        """
        faulty = np.isin(self.kind, (ASSIGNMENT, REVOCATION)) & broken[self._row]
        faulty |= np.isin(self.kind, (MEMBER, CANDIDATE)) & (self.name < 0)
        at_fault = {int(fact): _IN_STATE[int(self.kind[fact])] for fact in np.flatnonzero(faulty)}
        self.kind[faulty | ((self.kind == REPORTED) & ~fits)] = FAULTY
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


class _Lists:
    """The lists of all rows, end to end, as columns of entries; a row without any list has one empty entry.

    Attributes:
        values: of each column what its lists hold.
        sizes: of each row how many entries it has.
        row: of each entry its row.
    """

    def __init__(self, facts: pa.Table) -> None:
        columns = {
            name: facts[name].combine_chunks() for name in ("workers", "kinds", "connectors", "tasks", "positions")
        }
        self.values = {name: column.flatten() for name, column in columns.items()}
        self._sizes = {name: _numbers(pc.list_value_length(column), 0) for name, column in columns.items()}
        self.sizes: Ints = np.maximum(1, np.max([*self._sizes.values()], axis=0))
        self.row: Ints = np.repeat(np.arange(len(facts)), self.sizes)

    def spread(self, name: str, numbers: Ints, missing: int) -> Ints:
        """Numbers that stand for the values of a column: one for each entry, `missing` where a row has no such list."""
        spread = np.full(len(self.row), missing, np.int64)
        spread[np.repeat(self._sizes[name] > 0, self.sizes)] = numbers
        return spread

    def holds(self, name: str, text: str) -> Flags:
        """Of each entry whether it has this text there."""
        found = pc.equal(self.values[name], text).fill_null(False).to_numpy(zero_copy_only=False)
        return self.spread(name, found.astype(np.int64), 0) > 0


def _clusters(column: pa.ChunkedArray) -> tuple[Ints, list[str | None]]:
    """Of each row the number of its cluster, and the names of the clusters; null is the last."""
    coded = column.combine_chunks().dictionary_encode()
    numbers = _numbers(coded.indices, len(coded.dictionary))
    return numbers, [*coded.dictionary.to_pylist(), *([None] if coded.null_count else [])]


def _numbers(values: pa.Array | pa.ChunkedArray, missing: int) -> Ints:
    """A column of whole numbers; null becomes `missing`."""
    filled = values.fill_null(missing)
    return np.asarray(filled.to_numpy() if isinstance(filled, pa.ChunkedArray) else filled.to_numpy(False), np.int64)


def _numbered(names: pa.Array) -> tuple[Names, Ints]:
    """Names, and the number of each entry; -1 for null."""
    coded = names.dictionary_encode()
    texts = coded.dictionary.to_pylist()
    found = Names(texts)
    numbers = found.numbers()
    rank = np.array([*(numbers[text] for text in texts), NOTHING], np.int64)
    return found, rank[_numbers(coded.indices, len(texts))]
