"""Plans many Connect clusters: facts to rebalances, and results to one row per cluster.

Example: a cluster with the facts connector c, task c-0, workers w1 and w2 becomes RebalanceInput(workers=[0, 1],
configured={c, c-0}, …); its result becomes a row with assigned = [(w1, connector, c, null), (w2, task, c, 0)].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np
import pyarrow as pa

from spark_assign.connect.kernel import (
    eager_assignor,
    incremental_cooperative_assignor,
    incremental_cooperative_assignor_2_6,
)
from spark_assign.connect.kernel import indexed_facts as facts
from spark_assign.connect.kernel.connectors_and_tasks import ConnectorsAndTasks, serialized_order
from spark_assign.connect.kernel.faults import ClusterFaults, describe, find_faults, repeated_items
from spark_assign.connect.kernel.indexed_facts import IndexedConnectFacts, WorkerColumns
from spark_assign.connect.kernel.rebalance_input import AssignorState, RebalanceInput, RebalanceResult
from spark_assign.connect.kernel.result_table import ResultColumns
from spark_assign.numeric.array_types import IntArray

ASSIGNORS: dict[str, Callable[[RebalanceInput], RebalanceResult]] = {
    "eager": eager_assignor.assign,
    "compatible": incremental_cooperative_assignor.assign,
    "sessioned": incremental_cooperative_assignor.assign,
    facts.PROTOCOL_2_6: incremental_cooperative_assignor_2_6.assign,
}


def plan_clusters(table: pa.Table) -> pa.Table:
    """Plans one rebalance of every Connect cluster of a table of facts (`indexed_facts`).

    Returns:
        One row per cluster (`result_table.DECIDED`).
    """
    indexed = IndexedConnectFacts(table)
    clusters = ConnectClusters(indexed)
    results = ResultColumns(indexed, clusters.workers)
    for cluster, protocol, rebalance in clusters.rebalances():
        results.add(cluster, protocol, rebalance, ASSIGNORS[protocol](rebalance))
    return results.table(clusters.num_reported, clusters.faults.by_cluster())


class _Grouped:
    """Values sorted by group, and the start of each group; the last entry of `start` is the end."""

    def __init__(self, values: IntArray, group: IntArray, groups: int) -> None:
        order = np.argsort(group, kind="stable")
        self.values: list[int] = values[order].tolist()
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
        rows = np.concatenate([indexed.rows[facts.CONNECTOR], indexed.rows[facts.TASK]])
        self._configured = _Grouped(indexed.items[rows], indexed.cluster[rows], num_clusters)
        self._num_tasks = np.bincount(indexed.cluster[indexed.rows[facts.TASK]], minlength=num_clusters).tolist()
        self._is_ordered = indexed.has_report_positions().tolist()
        self._connectors, self._tasks = self._reports()

    @property
    def num_reported(self) -> list[IntArray]:
        """Number of connectors, and number of tasks, that each worker reports."""
        starts = [np.array(reports.start, np.int64) for reports in (self._connectors, self._tasks)]
        return [start[1:] - start[:-1] for start in starts]

    def _reports(self) -> tuple[_Grouped, _Grouped]:
        """Returns the reported connectors and tasks by worker, sorted by position if positions are known."""
        indexed, workers = self._indexed, self.workers
        rows = indexed.rows[facts.REPORTED]
        if any(self._is_ordered):
            rows = rows[np.lexsort((indexed.items[rows], indexed.position[rows]))]
        size = len(indexed.workers.texts) + 1
        keys = workers.cluster * size + workers.worker
        order = np.argsort(keys, kind="stable")
        reporters = indexed.cluster[rows] * size + indexed.name[rows]
        index = np.searchsorted(keys[order], reporters)
        is_known = index < len(keys)
        is_known[is_known] = keys[order][index[is_known]] == reporters[is_known]
        rows, worker = rows[is_known], order[index[is_known]]
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

        for row in indexed.rows[facts.CLUSTER].tolist():
            cluster = int(indexed.cluster[row])
            if cluster in self.faults:
                continue
            items = self._configured.of(cluster)
            configured = set(items)
            start, end = self.workers.start[cluster], self.workers.start[cluster + 1]
            reported = [(self._connectors.of(worker), self._tasks.of(worker)) for worker in range(start, end)]
            if len(configured) < len(items):
                self._add_duplicate_tasks(cluster)
                continue
            active = set().union(*chain.from_iterable(reported))
            if self._has_duplicate_reports(cluster, len(active), start, end):
                continue
            now, generation, last_completed, max_delay = (number or 0 for number in indexed.numbers(row))
            yield (
                cluster,
                indexed.text(row) or "",
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
                    state=states.get(cluster) or AssignorState(),
                    report_order=None if self._is_ordered[cluster] else report_order,
                    active=active,
                ),
            )

    def _add_duplicate_tasks(self, cluster: int) -> None:
        """Adds a fault for each repeated task of the cluster."""
        indexed = self._indexed
        rows = indexed.rows[facts.TASK]
        for row in repeated_items(rows[indexed.cluster[rows] == cluster].tolist(), indexed.items):
            self.faults.add(cluster, "duplicate-task", describe(indexed, "tasks", row))

    def _has_duplicate_reports(self, cluster: int, num_distinct: int, start: int, end: int) -> bool:
        """Checks whether a worker reports an item twice; looks at workers only if any item is reported twice."""
        if num_distinct == sum(
            reports.start[end] - reports.start[start] for reports in (self._connectors, self._tasks)
        ):
            return False
        indexed = self._indexed
        rows = indexed.rows[facts.REPORTED]
        rows = rows[indexed.cluster[rows] == cluster]
        for worker in np.unique(indexed.name[rows]).tolist():
            for row in repeated_items(rows[indexed.name[rows] == worker].tolist(), indexed.items):
                self.faults.add(cluster, "duplicate-reported", describe(indexed, "reported", row))
        return cluster in self.faults

    def _states(self) -> dict[int, AssignorState]:
        """Returns the leader's state of each cluster that has one; null fields are as in a new state."""
        indexed = self._indexed
        states: dict[int, AssignorState] = {}
        for row in indexed.rows[facts.STATE].tolist():
            revoked, can_revoke, schedule, delay, generation, successive = indexed.numbers(row)
            states[int(indexed.cluster[row])] = AssignorState(
                revoked_in_previous=bool(revoked),
                can_revoke=can_revoke is None or bool(can_revoke),
                scheduled_rebalance_ms=schedule or 0,
                delay_ms=delay or 0,
                generation_id=-1 if generation is None else generation,
                successive_revoking_rebalances=successive or 0,
            )
        for kind, name in ((facts.ASSIGNMENT, "assignment"), (facts.REVOCATION, "revocation")):
            clusters = indexed.cluster[indexed.rows[kind]].tolist()
            for cluster, items in zip(clusters, indexed.state_items[kind], strict=True):
                setattr(states[cluster], name, items)
        for kind in (facts.MEMBER, facts.CANDIDATE):
            rows = indexed.rows[kind]
            rows = rows[np.lexsort((indexed.position[rows], indexed.cluster[rows]))]
            for cluster, worker in zip(indexed.cluster[rows].tolist(), indexed.name[rows].tolist(), strict=True):
                state = states[cluster]
                (state.candidates if kind == facts.CANDIDATE else state.members).append(worker)
        return states
