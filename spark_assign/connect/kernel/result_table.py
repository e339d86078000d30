"""The results of many Connect clusters as one Arrow table, a row per cluster.

Example: cluster c, in which w2 gets task 0 of connector k: connect_cluster c, assigned [(w2, [(k, 0)])], revoked [],
delay_ms 0, the leader's state, and the metrics. A faulty cluster has nothing but a code and a text.

Answers are folded, as most of them are never asked for as rows: what a worker gets or gives up is one list, what the
leader remembers is a list of tasks for each connector. In both a connector itself is a task that is null.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.connect.kernel.assignor_state import AssignorState
from spark_assign.connect.kernel.connector_task_ids import TASK_BITS
from spark_assign.connect.kernel.indexed_facts import IndexedConnectFacts, WorkerColumns
from spark_assign.connect.kernel.rebalance_input import RebalanceInput, RebalanceResult
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
_SPREADS = [f"{bound}_{kind}_{when}" for when in ("before", "after") for kind in _KINDS for bound in ("min", "max")]
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
    """Lists of numbers, one for each planned cluster, end to end."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self.ends: list[int] = [0]

    def add(self, values: Any) -> None:
        """The list of one more cluster."""
        self.values.extend(values)
        self.ends.append(len(self.values))

    def lists(self, values: pa.Array) -> pa.Array:
        """The lists of these values, which stand for the numbers."""
        return pa.ListArray.from_arrays(pa.array(self.ends, pa.int32()), values)

    def counts(self) -> IntArray:
        """How long the lists are."""
        ends = np.array(self.ends, np.int64)
        return ends[1:] - ends[:-1]


class ResultColumns:
    """What is to be told of the clusters that are planned."""

    def __init__(self, indexed: IndexedConnectFacts, slots: WorkerColumns) -> None:
        self._indexed, self._slots = indexed, slots
        self._planned: list[int] = []
        self._protocols: list[str] = []
        self._columns = {
            name: _Column() for name in ("assigned", "revoked", "assignment", "revocation", "candidates", "members")
        }
        self._assigned_to: list[int] = []
        self._revoked_from: list[int] = []
        self._held: list[bool] = []
        self._memories: list[AssignorState] = []
        self._delays: list[int] = []
        self._figures: list[tuple[int, ...]] = []

    def add(self, cluster: int, protocol: str, round: RebalanceInput, result: RebalanceResult) -> None:
        """The result of one cluster."""
        memory, columns = result.memory, self._columns
        begin = self._slots.begin[cluster]
        columns["assigned"].add(chain.from_iterable(result.assigned))
        for slot, items in enumerate(result.assigned, begin):
            if items:
                self._assigned_to += [slot] * len(items)
        columns["revoked"].add(chain.from_iterable(result.revoked.values()))
        if result.revoked:
            at = {worker: place for place, worker in enumerate(round.workers)}
            for worker, gone in result.revoked.items():
                held = set(chain(*round.reported[at[worker]]))
                self._revoked_from += [begin + at[worker]] * len(gone)
                self._held += [item in held for item in gone]  # not what it would have got in this very round
        columns["assignment"].add(sorted(memory.assignment))  # the same array whatever the order of the rows
        columns["revocation"].add(sorted(memory.revocation))
        columns["candidates"].add(memory.candidates)
        columns["members"].add(memory.members)
        self._planned.append(cluster)
        self._protocols.append(protocol)
        self._memories.append(memory)
        self._delays.append(result.delay_ms)
        tasks = round.configured_tasks
        self._figures.append((len(round.workers), len(round.configured) - tasks, tasks, result.lost, result.waiting))

    def table(self, reported: Sequence[IntArray], refused: Sequence[tuple[int, str, str]]) -> pa.Table:
        """All answers (`DECIDED`).

        Args:
            reported: of every worker slot how many connectors, and how many tasks, it reports.
            refused: faulty clusters, each with a code and a text.
        """
        if not self._planned and not refused:
            return DECIDED.empty_table()
        names = pa.array(self._indexed.clusters, pa.string())
        delays = pa.array(self._delays, pa.int64())
        schedules = [
            0 if protocol == "eager" else memory.scheduled_rebalance_ms
            for protocol, memory in zip(self._protocols, self._memories, strict=True)
        ]
        planned = [
            names.take(pa.array(self._planned, pa.int64())),
            self._shares("assigned", self._assigned_to),
            self._shares("revoked", self._revoked_from),
            delays,
            pa.array(schedules, pa.int64()),
            self._states(),
            self._metrics(reported),
            pa.nulls(len(delays), pa.string()),
            pa.nulls(len(delays), pa.string()),
        ]
        tables = [pa.table(planned, schema=DECIDED)]
        if refused:
            told = [
                {"connect_cluster": self._indexed.clusters[cluster], "code": code, "detail": detail}
                for cluster, code, detail in refused
            ]
            tables.append(pa.Table.from_pylist(told, schema=DECIDED))
        return pa.concat_tables(tables)

    def _shares(self, name: str, slots: Sequence[int]) -> pa.Array:
        """Which worker gets, or gives up, which items; workers without any are left out."""
        column, slot = self._columns[name], np.array(slots, np.int64)
        begins = np.flatnonzero(starts_new_key(slot))  # a worker's items stand together
        items = pa.StructArray.from_arrays([*self._items(np.array(column.values, np.int64))], fields=list(ITEM))
        parts = [self._workers(self._slots.worker[slot[begins]]), _lists(begins, items)]
        shares = pa.StructArray.from_arrays(parts, fields=list(SHARE))
        return _lists(np.searchsorted(begins, column.ends[:-1]), shares)

    def _remembered(self, name: str) -> pa.Array:
        """The items of each cluster, which are sorted, as a list of tasks for each connector."""
        column = self._columns[name]
        items, cluster = np.array(column.values, np.int64), np.repeat(np.arange(len(self._planned)), column.counts())
        begins = np.flatnonzero(starts_new_key(items >> TASK_BITS) | starts_new_key(cluster))
        connectors, _ = self._items(items[begins])
        parts = [connectors, _lists(begins, self._items(items)[1])]
        return _lists(
            np.searchsorted(begins, column.ends[:-1]), pa.StructArray.from_arrays(parts, fields=list(REMEMBERED))
        )

    def _items(self, items: IntArray) -> tuple[pa.Array, pa.Array]:
        """The connectors and the tasks of items."""
        task = (items & ((1 << TASK_BITS) - 1)) - 1
        connectors = pa.array(self._indexed.connectors.texts, pa.string()).take(pa.array(items >> TASK_BITS))
        return connectors, pa.array(task.astype(np.int32), mask=task < 0)

    def _workers(self, numbers: Sequence[int] | IntArray) -> pa.Array:
        return pa.array(self._indexed.workers.texts, pa.string()).take(pa.array(numbers, pa.int64()))

    def _states(self) -> pa.Array:
        """The memories after the round."""
        columns = dict(self._columns)
        parts = {name: self._remembered(name) for name in ("assignment", "revocation")}
        parts |= {name: columns[name].lists(self._workers(columns[name].values)) for name in ("candidates", "members")}
        for field in STATE:
            if field.name not in parts:
                parts[field.name] = pa.array([getattr(each, field.name) for each in self._memories], field.type)
        return pa.StructArray.from_arrays([parts[field.name] for field in STATE], fields=list(STATE))

    def _metrics(self, reported: Sequence[IntArray]) -> pa.Array:
        """The figures of each planned cluster."""
        workers, connectors, tasks, lost, waiting = np.array(self._figures, np.int64).reshape(-1, 5).T
        counts = {"workers": workers, "connectors": connectors, "tasks": tasks, "lost": lost, "waiting": waiting}
        counts |= {name: self._columns[name].counts() for name in ("assigned", "revoked")}
        counts |= self._sizes(reported, workers)
        parts = [pa.array(self._protocols, pa.string()), *(pa.array(counts[field.name]) for field in list(METRICS)[1:])]
        return pa.StructArray.from_arrays(parts, fields=list(METRICS))

    def _sizes(self, reported: Sequence[IntArray], workers: IntArray) -> dict[str, IntArray]:
        """The least and the most connectors and tasks of a worker, before and after the round."""
        number = len(self._slots.cluster)
        eager = np.zeros(len(self._indexed.clusters), bool)
        eager[[each for each, name in zip(self._planned, self._protocols, strict=True) if name == "eager"]] = True
        starts = np.array([self._slots.begin[cluster] for cluster in self._planned], np.int64)
        ends = np.cumsum(workers)
        slots = np.repeat(starts - (ends - workers), workers) + np.arange(int(workers.sum()))
        figures: dict[str, IntArray] = {}
        for kind, (name, before) in enumerate(zip(_KINDS, reported, strict=True)):
            got = _of_kind(self._columns["assigned"].values, self._assigned_to, kind, number)
            gone = _of_kind(self._columns["revoked"].values, self._revoked_from, kind, number, self._held)
            after = np.where(eager[self._slots.cluster], 0, before - gone) + got  # eager workers stop everything first
            for when, sizes in (("before", before), ("after", after)):
                for bound, pick in (("min", np.minimum), ("max", np.maximum)):
                    found = pick.reduceat(sizes[slots], ends - workers) if len(slots) else sizes[slots]
                    figures[f"{bound}_{name}_{when}"] = found
        return figures


def _lists(begins: IntArray, values: pa.Array) -> pa.Array:
    """The values as lists that begin at these places; the last one ends with the values."""
    return pa.ListArray.from_arrays(pa.array(np.append(begins, len(values)), pa.int32()), values)


def _of_kind(
    items: Sequence[int], slots: Sequence[int], kind: int, number: int, count: Sequence[bool] = ()
) -> IntArray:
    """How many connectors (kind 0) or tasks (kind 1) each worker slot has among these."""
    tasks = (np.array(items, np.int64) & ((1 << TASK_BITS) - 1)) != 0
    chosen = (tasks == bool(kind)) & (np.array(count, bool) if count else True)
    return np.bincount(np.array(slots, np.int64)[chosen], minlength=number)
