"""The results of many Connect clusters as one Arrow table, one row per cluster.

Example: cluster c, in which w2 gets task 0 of connector k: connect_cluster c, assigned [(w2, [(k, 0)])], revoked [],
delay_ms 0, the leader's state, and the metrics. A rejected cluster has only a code and a text.

Results are nested, because most of them are never read as rows: the items that a worker gets, or that are revoked from
it, are one list, and the leader's state has a list of tasks per connector. In both, a connector is a null task.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.connect.kernel.connectors_and_tasks import TASK_BITS
from spark_assign.connect.kernel.indexed_facts import IndexedConnectFacts, WorkerColumns
from spark_assign.connect.kernel.rebalance_input import AssignorState, RebalanceInput, RebalanceResult
from spark_assign.numeric.array_types import IntArray
from spark_assign.numeric.segmented_arrays import starts_new_key

ITEM = pa.struct([("connector", pa.string()), ("task", pa.int32())])
SHARE = pa.struct([("worker_id", pa.string()), ("items", pa.list_(ITEM))])
REMEMBERED = pa.struct([("connector", pa.string()), ("tasks", pa.list_(pa.int32()))])
STATE = pa.struct(
    [
        ("assignment", pa.list_(REMEMBERED)),
        ("revocation", pa.list_(REMEMBERED)),
        ("revoked_in_previous", pa.bool_()),
        ("can_revoke", pa.bool_()),
        ("candidates", pa.list_(pa.string())),
        ("scheduled_rebalance_ms", pa.int64()),
        ("delay_ms", pa.int64()),
        ("generation_id", pa.int32()),
        ("members", pa.list_(pa.string())),
        ("successive_revoking_rebalances", pa.int32()),
    ]
)
_KINDS = ("connectors", "tasks")
_SPREADS = [f"{bound}_{kind}_{time}" for time in ("before", "after") for kind in _KINDS for bound in ("min", "max")]
_COUNTS = ["workers", *_KINDS, "assigned", "revoked", "lost", "waiting"]
METRICS = pa.struct([("protocol", pa.string()), *((name, pa.int64()) for name in (*_COUNTS, *_SPREADS))])
DECIDED = pa.schema(
    [
        ("connect_cluster", pa.string()),
        ("assigned", pa.list_(SHARE)),
        ("revoked", pa.list_(SHARE)),
        ("delay_ms", pa.int64()),
        ("scheduled_rebalance_ms", pa.int64()),
        ("state", STATE),
        ("metrics", METRICS),
        ("code", pa.string()),
        ("detail", pa.string()),
    ]
)


class _Column:
    """Lists of integers, one per planned cluster, concatenated."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self.ends: list[int] = [0]

    def add(self, values: Any) -> None:
        """Adds the list of a cluster."""
        self.values.extend(values)
        self.ends.append(len(self.values))

    def lists(self, values: pa.Array) -> pa.Array:
        """Returns lists of `values`, which are parallel to the integers."""
        return pa.ListArray.from_arrays(pa.array(self.ends, pa.int32()), values)

    def counts(self) -> IntArray:
        """Returns the length of each list."""
        ends = np.array(self.ends, np.int64)
        return ends[1:] - ends[:-1]


class ResultColumns:
    """The results of the planned clusters, as columns.

    A *worker row* is an index into `workers`, the workers of all clusters.
    """

    def __init__(self, indexed: IndexedConnectFacts, workers: WorkerColumns) -> None:
        self._indexed, self._workers = indexed, workers
        self._planned: list[int] = []
        self._protocols: list[str] = []
        self._columns = {
            name: _Column() for name in ("assigned", "revoked", "assignment", "revocation", "candidates", "members")
        }
        self._assigned_to: list[int] = []
        self._revoked_from: list[int] = []
        self._is_reported: list[bool] = []
        self._states: list[AssignorState] = []
        self._delays: list[int] = []
        self._counts: list[tuple[int, ...]] = []

    def add(self, cluster: int, protocol: str, rebalance: RebalanceInput, result: RebalanceResult) -> None:
        """Adds the result of a cluster."""
        state, columns = result.state, self._columns
        start = self._workers.start[cluster]
        columns["assigned"].add(chain.from_iterable(result.assigned))
        for worker_row, items in enumerate(result.assigned, start):
            if items:
                self._assigned_to += [worker_row] * len(items)
        columns["revoked"].add(chain.from_iterable(result.revoked.values()))
        if result.revoked:
            position = {worker: index for index, worker in enumerate(rebalance.workers)}
            for worker, revoked in result.revoked.items():
                reported = set(chain(*rebalance.reported[position[worker]]))
                self._revoked_from += [start + position[worker]] * len(revoked)
                # An item that was assigned and revoked in the same rebalance isn't reported.
                self._is_reported += [item in reported for item in revoked]
        columns["assignment"].add(sorted(state.assignment))  # the same array for every order of the facts
        columns["revocation"].add(sorted(state.revocation))
        columns["candidates"].add(state.candidates)
        columns["members"].add(state.members)
        self._planned.append(cluster)
        self._protocols.append(protocol)
        self._states.append(state)
        self._delays.append(result.delay_ms)
        tasks = rebalance.configured_tasks
        connectors = len(rebalance.configured) - tasks
        self._counts.append((len(rebalance.workers), connectors, tasks, result.lost, result.waiting))

    def table(self, num_reported: Sequence[IntArray], rejected: Sequence[tuple[int, str, str]]) -> pa.Table:
        """Returns the results of all clusters (`DECIDED`).

        Args:
            num_reported: Number of connectors, and number of tasks, that each worker reports.
            rejected: Rejected clusters, each with a code and a text.
        """
        if not self._planned and not rejected:
            return DECIDED.empty_table()
        names = pa.array(self._indexed.clusters, pa.string())
        delays = pa.array(self._delays, pa.int64())
        schedules = [
            0 if protocol == "eager" else state.scheduled_rebalance_ms
            for protocol, state in zip(self._protocols, self._states, strict=True)
        ]
        planned = [
            names.take(pa.array(self._planned, pa.int64())),
            self._shares("assigned", self._assigned_to),
            self._shares("revoked", self._revoked_from),
            delays,
            pa.array(schedules, pa.int64()),
            self._state_structs(),
            self._metrics(num_reported),
            pa.nulls(len(delays), pa.string()),
            pa.nulls(len(delays), pa.string()),
        ]
        tables = [pa.table(planned, schema=DECIDED)]
        if rejected:
            rows = [
                {"connect_cluster": self._indexed.clusters[cluster], "code": code, "detail": detail}
                for cluster, code, detail in rejected
            ]
            tables.append(pa.Table.from_pylist(rows, schema=DECIDED))
        return pa.concat_tables(tables)

    def _shares(self, name: str, worker_rows: Sequence[int]) -> pa.Array:
        """Returns the assigned or revoked items of each worker with at least one, by cluster."""
        column, rows = self._columns[name], np.array(worker_rows, np.int64)
        starts = np.flatnonzero(starts_new_key(rows))  # the items of a worker are consecutive
        items = pa.StructArray.from_arrays([*self._item_columns(np.array(column.values, np.int64))], fields=list(ITEM))
        columns = [self._worker_ids(self._workers.worker[rows[starts]]), _lists(starts, items)]
        shares = pa.StructArray.from_arrays(columns, fields=list(SHARE))
        return _lists(np.searchsorted(starts, column.ends[:-1]), shares)

    def _tasks_by_connector(self, name: str) -> pa.Array:
        """Returns the sorted items of each cluster as a list of tasks per connector."""
        column = self._columns[name]
        items, cluster = np.array(column.values, np.int64), np.repeat(np.arange(len(self._planned)), column.counts())
        starts = np.flatnonzero(starts_new_key(items >> TASK_BITS) | starts_new_key(cluster))
        connectors, _ = self._item_columns(items[starts])
        columns = [connectors, _lists(starts, self._item_columns(items)[1])]
        structs = pa.StructArray.from_arrays(columns, fields=list(REMEMBERED))
        return _lists(np.searchsorted(starts, column.ends[:-1]), structs)

    def _item_columns(self, items: IntArray) -> tuple[pa.Array, pa.Array]:
        """Returns the connector and the task of each item."""
        task = (items & ((1 << TASK_BITS) - 1)) - 1
        connectors = pa.array(self._indexed.connectors.texts, pa.string()).take(pa.array(items >> TASK_BITS))
        return connectors, pa.array(task.astype(np.int32), mask=task < 0)

    def _worker_ids(self, workers: Sequence[int] | IntArray) -> pa.Array:
        return pa.array(self._indexed.workers.texts, pa.string()).take(pa.array(workers, pa.int64()))

    def _state_structs(self) -> pa.Array:
        """Returns the leader's state of each cluster."""
        columns = self._columns
        fields = {name: self._tasks_by_connector(name) for name in ("assignment", "revocation")}
        for name in ("candidates", "members"):
            fields[name] = columns[name].lists(self._worker_ids(columns[name].values))
        for field in STATE:
            if field.name not in fields:
                fields[field.name] = pa.array([getattr(state, field.name) for state in self._states], field.type)
        return pa.StructArray.from_arrays([fields[field.name] for field in STATE], fields=list(STATE))

    def _metrics(self, num_reported: Sequence[IntArray]) -> pa.Array:
        """Returns the metrics of each cluster."""
        workers, connectors, tasks, lost, waiting = np.array(self._counts, np.int64).reshape(-1, 5).T
        counts = {"workers": workers, "connectors": connectors, "tasks": tasks, "lost": lost, "waiting": waiting}
        counts |= {name: self._columns[name].counts() for name in ("assigned", "revoked")}
        counts |= self._extremes(num_reported, workers)
        protocols = pa.array(self._protocols, pa.string())
        columns = [protocols, *(pa.array(counts[field.name]) for field in list(METRICS)[1:])]
        return pa.StructArray.from_arrays(columns, fields=list(METRICS))

    def _extremes(self, num_reported: Sequence[IntArray], workers: IntArray) -> dict[str, IntArray]:
        """Returns the minimum and maximum of a worker's connectors and tasks, before and after the rebalance."""
        num_workers = len(self._workers.cluster)
        eager = np.zeros(len(self._indexed.clusters), bool)
        eager[[row for row, name in zip(self._planned, self._protocols, strict=True) if name == "eager"]] = True
        starts = np.array([self._workers.start[cluster] for cluster in self._planned], np.int64)
        ends = np.cumsum(workers)
        rows = np.repeat(starts - (ends - workers), workers) + np.arange(int(workers.sum()))
        extremes: dict[str, IntArray] = {}
        for kind, (name, before) in enumerate(zip(_KINDS, num_reported, strict=True)):
            assigned = _count_kind(self._columns["assigned"].values, self._assigned_to, kind, num_workers)
            revoked = _count_kind(
                self._columns["revoked"].values, self._revoked_from, kind, num_workers, self._is_reported
            )
            # Eager workers stop everything first.
            after = np.where(eager[self._workers.cluster], 0, before - revoked) + assigned
            for time, counts in (("before", before), ("after", after)):
                for bound, extreme in (("min", np.minimum), ("max", np.maximum)):
                    values = extreme.reduceat(counts[rows], ends - workers) if len(rows) else counts[rows]
                    extremes[f"{bound}_{name}_{time}"] = values
        return extremes


def _lists(starts: IntArray, values: pa.Array) -> pa.Array:
    """Returns the values as lists that start at these positions."""
    return pa.ListArray.from_arrays(pa.array(np.append(starts, len(values)), pa.int32()), values)


def _count_kind(
    items: Sequence[int], worker_rows: Sequence[int], kind: int, num_workers: int, mask: Sequence[bool] = ()
) -> IntArray:
    """Returns the number of connectors (kind 0) or tasks (kind 1) of each worker, among the items in the mask."""
    is_task = (np.array(items, np.int64) & ((1 << TASK_BITS) - 1)) != 0
    counted = (is_task == bool(kind)) & (np.array(mask, bool) if mask else True)
    return np.bincount(np.array(worker_rows, np.int64)[counted], minlength=num_workers)
