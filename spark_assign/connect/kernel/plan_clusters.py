"""Plans many Connect clusters: facts to rebalances, and results to tagged rows.

The `kind` of a result row determines which columns it uses, beside connect_cluster:

    assigned, revoked  worker_id, items (connector, and task or null): one row per worker with at least one item
    state              the leader's state after the rebalance (`tables.connect.STATE`), except that assignment and
                       revocation are lists of a connector and its tasks, in which the connector itself is a null task
    metrics            `tables.connect.METRICS` and `tables.connect.DELAYS`
    rejected           code, detail

Results are nested, because most of them are never read as rows.

Example: a cluster with the facts connector c, task c-0, workers w1 and w2 becomes RebalanceInput(workers=[0, 1],
configured={c, c-0}, …); its result becomes the rows assigned w1 [(c, null)] and assigned w2 [(c, 0)], a state, and
metrics.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import chain

import numpy as np
import pyarrow as pa

from spark_assign.assignors.connect.connectors_and_tasks import (
    TASK_BITS,
    ConnectorsAndTasks,
    connector_of,
    is_task,
    serialized_order,
)
from spark_assign.assignors.connect.rebalance_input import AssignorState, RebalanceInput, RebalanceResult
from spark_assign.assignors.connect.release_rules import EAGER, ConnectRules, find_rules
from spark_assign.connect.kernel.faults import ClusterFaults, describe, find_faults, repeated_keys
from spark_assign.connect.kernel.indexed_facts import CLOCK, NO_INDEX, TABLES, IndexedConnectFacts, WorkerColumns
from spark_assign.groups.kernel.tagged_rows import tagged_rows, tagged_table
from spark_assign.numeric.arrays import BoolArray, IntArray, KeyIndex, mask_from_indexes, starts_new_key
from spark_assign.tables.errors import count
from spark_assign.tables.quoting import in_text

_UNEVEN = 2
"""Tasks of a connector that one worker has above an even share, from which the connector is uneven."""

ASSIGNED, REVOKED, STATE, METRICS, REJECTED = "assigned", "revoked", "state", "metrics", "rejected"
"""Kinds of result rows."""


def plan_clusters(table: pa.Table, schema: pa.Schema) -> Iterator[pa.Table]:
    """Plans one rebalance of every Connect cluster of a table of facts (`indexed_facts`); yields tagged rows."""
    indexed = IndexedConnectFacts(table)
    clusters = ConnectClusters(indexed)
    results = _ResultColumns(indexed, clusters.workers)
    for cluster, protocol, rebalance in clusters.rebalances():
        assign = find_rules(protocol)[0].assign
        result, remembered = assign(rebalance), None
        if rebalance.remembered is not None:
            remembered = assign(replace(rebalance, state=rebalance.remembered))
        results.add(cluster, protocol, rebalance, result, remembered)
    for kind, rows in results.tables(clusters.num_reported):
        yield tagged_table(kind, rows, schema)
    yield tagged_rows(REJECTED, clusters.rejected(), schema)


# --- facts to rebalances ------------------------------------------------------------------------------------------


class _Grouped:
    """Values sorted by group, and the start of each group; the last entry of `start` is the end."""

    def __init__(self, values: IntArray, group: IntArray, groups: int) -> None:
        self.values: list[int] = values[np.argsort(group, kind="stable")].tolist()
        self.start: list[int] = [0, *np.cumsum(np.bincount(group, minlength=groups)).tolist()]

    def of(self, group: int) -> list[int]:
        """Returns the values of one group."""
        return self.values[self.start[group] : self.start[group + 1]]


class ConnectClusters:
    """The facts by cluster.

    Attributes:
        workers: Workers of all clusters.
        faults: Faults found so far; `rebalances` might add more.
    """

    def __init__(self, indexed: IndexedConnectFacts, *, simulated: bool = False) -> None:
        self._indexed = indexed
        self.faults: ClusterFaults = find_faults(indexed, simulated=simulated)
        num_clusters = len(indexed.clusters)
        rows = indexed.ordered_workers()
        cluster = indexed.cluster[rows]
        start = [0, *np.cumsum(np.bincount(cluster, minlength=num_clusters)).tolist()]
        self.workers = WorkerColumns(cluster, indexed.name[rows], start)
        rows = np.concatenate([indexed.rows["connectors"], indexed.rows["tasks"]])
        self._item_states: dict[int, dict[int, str]] = {}
        for row, text in indexed.states(rows):
            self._item_states.setdefault(int(indexed.cluster[row]), {})[int(indexed.items[row])] = text
        self._configured = _Grouped(indexed.items[rows], indexed.cluster[rows], num_clusters)
        self._num_tasks = np.bincount(indexed.cluster[indexed.rows["tasks"]], minlength=num_clusters).tolist()
        self._is_ordered = indexed.has_positions("reported").tolist()
        self._connectors, self._tasks = self._reports()

    def rejected(self) -> list[dict[str, str | None]]:
        """Returns connect_cluster, code, and detail of the clusters with faults."""
        return [
            {"connect_cluster": self._indexed.clusters[cluster], "code": code, "detail": detail}
            for cluster, code, detail in self.faults.by_cluster()
        ]

    @property
    def num_reported(self) -> list[IntArray]:
        """Number of connectors, and number of tasks, that each worker reports."""
        return [np.diff(reports.start) for reports in (self._connectors, self._tasks)]

    def _reports(self) -> tuple[_Grouped, _Grouped]:
        """Returns the reported connectors and tasks by worker, sorted by position if positions are known."""
        indexed, workers = self._indexed, self.workers
        rows = indexed.rows["reported"]
        if any(self._is_ordered):
            rows = rows[np.lexsort((indexed.items[rows], indexed.position[rows]))]
        size = len(indexed.workers.texts) + 1
        keys = workers.cluster * size + workers.worker
        distinct, first = np.unique(keys, return_index=True)
        index = KeyIndex(distinct).lookup(indexed.cluster[rows] * size + indexed.name[rows])
        rows, worker = rows[index >= 0], first[index[index >= 0]]
        is_task = indexed.task[rows] >= 0
        connectors, tasks = (
            _Grouped(indexed.items[rows[kind]], worker[kind], len(keys)) for kind in (~is_task, is_task)
        )
        return connectors, tasks

    def rebalances(self) -> Iterator[tuple[int, str, RebalanceInput]]:
        """Yields the index, the protocol, and the rebalance of every cluster without a fault."""
        indexed = self._indexed
        states = self._states()
        spread_hash = indexed.connectors.spread_hash

        def report_order(connectors: list[int], tasks: list[int]) -> ConnectorsAndTasks:
            return serialized_order(sorted(connectors), sorted(tasks), spread_hash)

        cluster_rows = zip(
            indexed.cluster[indexed.rows["clusters"]].tolist(),
            indexed.protocols,
            indexed.records["clusters"],
            strict=True,
        )
        for cluster, protocol, columns in cluster_rows:
            if cluster in self.faults:
                continue
            items = self._configured.of(cluster)
            configured = set(items)
            start, end = self.workers.start[cluster], self.workers.start[cluster + 1]
            reported = [(self._connectors.of(worker), self._tasks.of(worker)) for worker in range(start, end)]
            active = set().union(*chain.from_iterable(reported))
            num_reported = sum(reports.start[end] - reports.start[start] for reports in (self._connectors, self._tasks))
            if len(configured) < len(items):
                self._add_repeated(cluster, "tasks", "duplicate-task")
            elif len(active) < num_reported:  # an item is reported twice, perhaps by several workers
                self._add_repeated(cluster, "reported", "duplicate-reported")
            if cluster in self.faults:
                continue
            now, generation, last_completed, max_delay, delay = (columns[name] or 0 for name in CLOCK)
            state, remembered = states.get(cluster), None
            unassigned = set() if state or not max_delay else self._unassigned(cluster, configured, active)
            if unassigned and find_rules(protocol)[0] is not EAGER:
                remembered = AssignorState(active | unassigned, generation_id=last_completed, members=[NO_INDEX])
                if delay > 0:
                    remembered.delay_ms = min(delay, max_delay)
                    remembered.scheduled_rebalance_ms = now + remembered.delay_ms
                    state, remembered = remembered, None
            yield (
                cluster,
                protocol,
                RebalanceInput(
                    workers=self.workers.worker[start:end].tolist(),
                    reported=reported,
                    configured=configured,
                    configured_tasks=self._num_tasks[cluster],
                    now_ms=now,
                    max_delay_ms=max_delay,
                    generation_id=generation,
                    last_completed_generation_id=last_completed,
                    worker_spread_hash=indexed.workers.spread_hash,
                    state=state or AssignorState(),
                    remembered=remembered,
                    report_order=None if self._is_ordered[cluster] else report_order,
                    active=active,
                ),
            )

    def _unassigned(self, cluster: int, configured: set[int], active: set[int]) -> set[int]:
        """Returns the configured items that a worker might have run, and that none runs.

        If the states of a cluster's items are known, they are the `UNASSIGNED` ones: the others are new. If not, an
        item can have been lost only if others run.
        """
        states = self._item_states.get(cluster)
        if states is not None:
            return {item for item, text in states.items() if text == "UNASSIGNED"} & configured - active
        return configured - active if active else set()

    def _add_repeated(self, cluster: int, table: str, code: str) -> None:
        """Adds a fault for each repeated task of a cluster, or for each repeated report of its workers."""
        indexed = self._indexed
        rows = indexed.rows[table]
        for row in repeated_keys(indexed.name, indexed.items, rows[indexed.cluster[rows] == cluster]).tolist():
            self.faults.add(cluster, code, describe(indexed, table, row))

    def _states(self) -> dict[int, AssignorState]:
        """Returns the leader's state of each cluster that has one; null fields are as in a new state."""
        indexed = self._indexed
        states: dict[int, AssignorState] = {}
        for row, columns in zip(indexed.rows["state"].tolist(), indexed.records["state"], strict=True):
            known = {name: columns[name] for name in TABLES["state"].values if columns[name] is not None}
            states[int(indexed.cluster[row])] = AssignorState(**known)
        return states


# --- results to rows ----------------------------------------------------------------------------------------------


class _ResultColumns:
    """The results of the planned clusters, as columns.

    A *worker row* is an index into `workers`, the workers of all clusters.
    """

    def __init__(self, indexed: IndexedConnectFacts, workers: WorkerColumns) -> None:
        self._indexed, self._workers = indexed, workers
        self._planned: list[int] = []
        self._protocols: list[str] = []
        self._rules: list[tuple[ConnectRules, str | None]] = []
        self._results: list[RebalanceResult] = []
        self._notes: list[str | None] = []
        self._later: list[RebalanceResult | None] = []
        self._sizes: list[tuple[int, int, int]] = []
        self._assigned_to: list[int] = []
        self._revoked_from: list[int] = []
        self._is_reported: list[bool] = []

    def add(
        self,
        cluster: int,
        protocol: str,
        rebalance: RebalanceInput,
        result: RebalanceResult,
        remembered: RebalanceResult | None = None,
    ) -> None:
        """Adds the result of a cluster, and that of a leader that remembers more (`RebalanceInput.remembered`)."""
        self._planned.append(cluster)
        self._protocols.append(protocol.partition("@")[0])
        self._rules.append(find_rules(protocol))
        self._results.append(result)
        later = remembered if remembered is not None and remembered.waiting > result.waiting else None
        uneven = _uneven_note(self._indexed.connectors.texts, rebalance, result, self._rules[-1][0] is EAGER)
        waiting = _delay_note(rebalance, result) if later is None else _state_note(later)
        self._notes.append("; ".join(filter(None, (waiting, uneven))) or None)
        self._later.append(later)
        tasks = rebalance.configured_tasks
        self._sizes.append((len(rebalance.workers), len(rebalance.configured) - tasks, tasks))
        start = self._workers.start[cluster]
        for worker_row, items in enumerate(result.assigned, start):
            self._assigned_to += [worker_row] * len(items)
        if result.revoked:
            position = {worker: index for index, worker in enumerate(rebalance.workers)}
            for worker, revoked in result.revoked.items():
                reported = set(chain(*rebalance.reported[position[worker]]))
                self._revoked_from += [start + position[worker]] * len(revoked)
                # An item that was assigned and revoked in the same rebalance isn't reported.
                self._is_reported += [item in reported for item in revoked]

    def tables(self, num_reported: Sequence[IntArray]) -> Iterator[tuple[str, pa.Table]]:
        """Yields the rows of the planned clusters by kind.

        Args:
            num_reported: Number of connectors, and number of tasks, that each worker reports.
        """
        assigned = _flatten(chain.from_iterable(result.assigned) for result in self._results)
        revoked = _flatten(chain.from_iterable(result.revoked.values()) for result in self._results)
        yield ASSIGNED, self._shares(assigned[0], self._assigned_to)
        yield REVOKED, self._shares(revoked[0], self._revoked_from)
        yield STATE, self._states()
        counts = {ASSIGNED: np.diff(assigned[1]), REVOKED: np.diff(revoked[1])}
        yield METRICS, self._metrics(counts | self._extremes(num_reported, assigned[0], revoked[0]))

    def _table(self, cluster: Sequence[int] | IntArray, columns: dict[str, object]) -> pa.Table:
        return pa.table({"connect_cluster": _take(self._indexed.clusters, cluster)} | columns)

    def _shares(self, items: IntArray, worker_rows: Sequence[int]) -> pa.Table:
        """Returns the assigned or revoked items of each worker with at least one."""
        rows = np.array(worker_rows, np.int64)
        starts = np.flatnonzero(starts_new_key(rows))  # the items of a worker are consecutive
        connectors, tasks = self._item_columns(items)
        structs = pa.StructArray.from_arrays([connectors, tasks], names=["connector", "task"])
        workers, clusters = self._workers.worker[rows[starts]], self._workers.cluster[rows[starts]]
        columns = {"worker_id": _take(self._indexed.workers.texts, workers), "items": _lists(starts, structs)}
        return self._table(clusters, columns)

    def _states(self) -> pa.Table:
        """Returns the leader's state of each cluster."""
        states = [result.state for result in self._results]
        columns = {field.name: [getattr(state, field.name) for state in states] for field in fields(AssignorState)}
        lists: dict[str, object] = {}
        for name in ("assignment", "revocation"):
            lists[name] = self._tasks_by_connector(*_flatten(map(sorted, columns[name])))
        for name in ("candidates", "members"):
            workers, ends = _flatten(columns[name])
            lists[name] = _lists(ends[:-1], _take(self._indexed.workers.texts, workers))
        return self._table(self._planned, columns | lists)

    def _tasks_by_connector(self, items: IntArray, ends: IntArray) -> pa.Array:
        """Returns the sorted items of each cluster as a list of tasks per connector."""
        cluster = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
        starts = np.flatnonzero(starts_new_key(items >> TASK_BITS) | starts_new_key(cluster))
        columns = [self._item_columns(items[starts])[0], _lists(starts, self._item_columns(items)[1])]
        structs = pa.StructArray.from_arrays(columns, names=["connector", "tasks"])
        return _lists(np.searchsorted(starts, ends[:-1]), structs)

    def _item_columns(self, items: IntArray) -> tuple[pa.Array, pa.Array]:
        """Returns the connector and the task of each item."""
        task = (items & ((1 << TASK_BITS) - 1)) - 1
        return _take(self._indexed.connectors.texts, items >> TASK_BITS), pa.array(task.astype(np.int32), mask=task < 0)

    def _metrics(self, counts: dict[str, IntArray]) -> pa.Table:
        """Returns the metrics and the delay of each cluster."""
        workers, connectors, tasks = np.array(self._sizes, np.int64).reshape(-1, 3).T
        results = list(zip(self._protocols, self._results, strict=True))
        columns: dict[str, object] = {
            "protocol": pa.array(self._protocols, pa.string()),
            "rules": pa.array([None if rules is EAGER else rules.name for rules, _ in self._rules], pa.string()),
            "rules_note": pa.array([note for _, note in self._rules], pa.string()),
            "note": pa.array(self._notes, pa.string()),
            "max_waiting": pa.array([each and each.waiting for each in self._later], pa.int64()),
            "max_delay_ms": pa.array([each and each.delay_ms for each in self._later], pa.int64()),
            "delay_ms": [result.delay_ms for _, result in results],
            "scheduled_rebalance_ms": [
                0 if name == "eager" else result.state.scheduled_rebalance_ms for name, result in results
            ],
            "lost": [result.lost for _, result in results],
            "waiting": [result.waiting for _, result in results],
        }
        return self._table(
            self._planned, columns | {"workers": workers, "connectors": connectors, "tasks": tasks} | counts
        )

    def _extremes(self, num_reported: Sequence[IntArray], assigned: IntArray, revoked: IntArray) -> dict[str, IntArray]:
        """Returns the minimum and maximum of a worker's connectors and tasks, before and after the rebalance."""
        planned = np.array(self._planned, np.int64)
        num_workers = np.diff(self._workers.start)[planned]
        ends = np.cumsum(num_workers)
        starts = np.array(self._workers.start, np.int64)[planned]
        rows = np.repeat(starts - (ends - num_workers), num_workers) + np.arange(int(num_workers.sum()))
        eager = mask_from_indexes(planned[np.array(self._protocols, str) == "eager"], len(self._indexed.clusters))
        extremes: dict[str, IntArray] = {}
        for kind, (name, before) in enumerate(zip(("connectors", "tasks"), num_reported, strict=True)):
            is_reported = np.array(self._is_reported, bool)
            gained = _count_kind(assigned, self._assigned_to, kind, len(before))
            lost = _count_kind(revoked, self._revoked_from, kind, len(before), is_reported)
            # Eager workers stop everything first.
            after = np.where(eager[self._workers.cluster], 0, before - lost) + gained
            for time, counts in (("before", before), ("after", after)):
                for bound, extreme in (("min", np.minimum), ("max", np.maximum)):
                    values = extreme.reduceat(counts[rows], ends - num_workers) if len(rows) else counts[rows]
                    extremes[f"{bound}_{name}_{time}"] = values
        return extremes


def _delay_note(rebalance: RebalanceInput, result: RebalanceResult) -> str | None:
    """Returns what the maximum delay decides about lost connectors and tasks; None if it decides nothing."""
    if result.waiting and result.delay_ms:
        lost, what = result.waiting, f"wait up to {result.delay_ms / 1000:,.0f} s for the workers that left"
    elif result.waiting:
        lost, what = result.waiting, "aren't assigned"
    elif result.lost and not rebalance.max_delay_ms:
        lost, what = result.lost, "are assigned at once"
    else:
        return None
    setting = f"scheduled.rebalance.max.delay.ms is {rebalance.max_delay_ms:,}"
    return f"{setting}, so the lost connectors and tasks ({lost:,}) {what}"


def _state_note(later: RebalanceResult) -> str:
    """Returns what depends on the leader's state, which isn't known."""
    return (
        "the leader's state isn't known: a new leader assigns all connectors and tasks at once, as planned here; one "
        f"that remembers who ran {later.waiting:,} of them lets these wait up to {later.delay_ms / 1000:,.0f} s "
        "(scheduled.rebalance.max.delay.ms)"
    )


def _uneven_note(names: Sequence[str], rebalance: RebalanceInput, result: RebalanceResult, eager: bool) -> str | None:
    """Returns the connector of which one worker has `_UNEVEN` tasks more than an even share after the rebalance; None
    if there is none. Connect's assignors balance the sum over all connectors, not the tasks of each.

    Example: workers [0, 1], tasks [[c-0, c-1, c-2, c-3], [d-0, d-1, d-2, d-3]]: worker 0 has 4, an even share is 2.
    """
    tasks: dict[int, Counter[int]] = defaultdict(Counter)
    for worker, reported, assigned in zip(rebalance.workers, rebalance.reported, result.assigned, strict=True):
        kept = set() if eager else set(reported[1]) - result.revoked.get(worker, set())
        for item in kept.union(filter(is_task, assigned)):
            tasks[connector_of(item)][worker] += 1
    size = len(rebalance.workers)
    above = {each: max(counts.values()) + counts.total() // -size for each, counts in tasks.items()}
    over, worst = max(((over, -each) for each, over in above.items()), default=(0, 0))
    if over < _UNEVEN:
        return None
    of, total = tasks[-worst], tasks[-worst].total()
    even = f". With tasks.max={total + -total % size:,}, each worker can have the same number" if total % size else ""
    return (
        f"one worker has {max(of.values()):,} of {count(total, 'task')} of {in_text(names[-worst])}, which are on "
        f"{len(of):,} of {count(size, 'worker')}: Connect balances the sum over all connectors. Stop and resume the "
        f"connector (Kafka 3.5 and later), and each of its tasks is assigned to the worker with the fewest{even}"
    )


def _flatten(lists: Iterable[Iterable[int]]) -> tuple[IntArray, IntArray]:
    """Returns the values of all lists, and the end of each list after a 0."""
    values: list[int] = []
    ends = [0]
    for items in lists:
        values.extend(items)
        ends.append(len(values))
    return np.array(values, np.int64), np.array(ends, np.int64)


def _lists(starts: IntArray, values: pa.Array) -> pa.Array:
    """Returns the values as lists that start at these positions."""
    return pa.ListArray.from_arrays(pa.array(np.append(starts, len(values)), pa.int32()), values)


def _take(texts: Sequence[str | None], indexes: Sequence[int] | IntArray) -> pa.Array:
    return pa.array(texts, pa.string()).take(pa.array(indexes, pa.int64()))


def _count_kind(
    items: IntArray, worker_rows: Sequence[int], kind: int, num_workers: int, mask: BoolArray | bool = True
) -> IntArray:
    """Returns the number of connectors (kind 0) or tasks (kind 1) of each worker, among the items in the mask."""
    counted = (((items & ((1 << TASK_BITS) - 1)) != 0) == bool(kind)) & mask
    return np.bincount(np.array(worker_rows, np.int64)[counted], minlength=num_workers)
