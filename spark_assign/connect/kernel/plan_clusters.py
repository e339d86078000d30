"""From the facts of many Connect clusters to their rounds, to results, and to one row of answers per cluster.

Example: a cluster with the facts connector c, task c-0, workers w1 and w2 becomes Round(workers=[0, 1], configured={c,
c-0}, …); its result becomes a row with assigned = [(w1, connector, c, null), (w2, task, c, 0)].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np
import pyarrow as pa

from spark_assign.connect.kernel import eager, incremental, incremental_2_6
from spark_assign.connect.kernel import indexed_facts as facts
from spark_assign.connect.kernel.assignor_state import AssignorState
from spark_assign.connect.kernel.faults import Faults, describe, find_faults, repeated
from spark_assign.connect.kernel.indexed_facts import IndexedConnectFacts, WorkerColumns
from spark_assign.connect.kernel.rebalance_input import Listed, RebalanceInput, RebalanceResult
from spark_assign.connect.kernel.result_table import ResultColumns
from spark_assign.connect.kernel.serialized_order import over_the_wire
from spark_assign.numeric.array_types import IntArray

ASSIGNORS: dict[str, Callable[[RebalanceInput], RebalanceResult]] = {
    "eager": eager.rebalance,
    "compatible": incremental.rebalance,
    "sessioned": incremental.rebalance,
    facts.PROTOCOL_2_6: incremental_2_6.rebalance,
}


def plan_facts(table: pa.Table) -> pa.Table:
    """Plan one round of every Connect cluster of a table of facts (`indexed`).

    Returns:
        a row per cluster (`answers.DECIDED`).
    """
    indexed = IndexedConnectFacts(table)
    clusters = Clusters(indexed)
    answers = ResultColumns(indexed, clusters.slots)
    for cluster, protocol, round in clusters.rounds():
        answers.add(cluster, protocol, round, ASSIGNORS[protocol](round))
    return answers.table(clusters.reported, clusters.faults.told())


class _Grouped:
    """Numbers of many groups as one list, and where each group begins."""

    def __init__(self, values: IntArray, group: IntArray, groups: int) -> None:
        order = np.argsort(group, kind="stable")
        self.values: list[int] = values[order].tolist()
        self.begin: list[int] = [0, *np.cumsum(np.bincount(group, minlength=groups)).tolist()]

    def of(self, group: int) -> list[int]:
        """The numbers of one group."""
        return self.values[self.begin[group] : self.begin[group + 1]]


class Clusters:
    """The facts, cluster by cluster.

    Attributes:
        slots: all workers.
        faults: what is wrong; more may be found while the rounds are made.
    """

    def __init__(self, indexed: IndexedConnectFacts, *, simulated: bool = False) -> None:
        self._indexed = indexed
        self.faults: Faults = find_faults(indexed, simulated=simulated)
        number = len(indexed.clusters)
        workers = indexed.ordered_workers()
        cluster = indexed.cluster[workers]
        begin = [0, *np.cumsum(np.bincount(cluster, minlength=number)).tolist()]
        self.slots = WorkerColumns(cluster, indexed.name[workers], begin)
        rows = np.concatenate([indexed.rows[facts.CONNECTOR], indexed.rows[facts.TASK]])
        self._configured = _Grouped(indexed.items[rows], indexed.cluster[rows], number)
        self._tasks = np.bincount(indexed.cluster[indexed.rows[facts.TASK]], minlength=number).tolist()
        self._in_order = indexed.positioned_reports().tolist()
        self._connectors, self._reported_tasks = self._reports()

    @property
    def reported(self) -> list[IntArray]:
        """How many connectors, and how many tasks, each worker slot reports."""
        begins = [np.array(each.begin, np.int64) for each in (self._connectors, self._reported_tasks)]
        return [begin[1:] - begin[:-1] for begin in begins]

    def _reports(self) -> tuple[_Grouped, _Grouped]:
        """What each worker reports: connectors and tasks, by position where positions are known."""
        indexed, slots = self._indexed, self.slots
        rows = indexed.rows[facts.REPORTED]
        if any(self._in_order):
            rows = rows[np.lexsort((indexed.items[rows], indexed.position[rows]))]
        size = len(indexed.workers.texts) + 1
        keys = slots.cluster * size + slots.worker
        order = np.argsort(keys, kind="stable")
        wanted = indexed.cluster[rows] * size + indexed.name[rows]
        at = np.searchsorted(keys[order], wanted)
        fits = at < len(keys)
        fits[fits] = keys[order][at[fits]] == wanted[fits]
        rows, slot = rows[fits], order[at[fits]]
        is_task = indexed.task[rows] >= 0
        connectors, tasks = (_Grouped(indexed.items[rows[kind]], slot[kind], len(keys)) for kind in (~is_task, is_task))
        return connectors, tasks

    def rounds(self) -> Iterator[tuple[int, str, RebalanceInput]]:
        """Every cluster without a fault: its number, its protocol, its round."""
        indexed = self._indexed
        memories = self._memories()
        spread = indexed.connectors.spread

        def by_wire(connectors: list[int], tasks: list[int]) -> Listed:
            return over_the_wire(sorted(connectors), sorted(tasks), spread)

        for row in indexed.rows[facts.CLUSTER].tolist():
            cluster = int(indexed.cluster[row])
            if cluster in self.faults:
                continue
            listed = self._configured.of(cluster)
            configured = set(listed)
            begin, end = self.slots.begin[cluster], self.slots.begin[cluster + 1]
            reported = [(self._connectors.of(slot), self._reported_tasks.of(slot)) for slot in range(begin, end)]
            if len(configured) < len(listed):
                self._task_twice(cluster)
                continue
            active = set().union(*chain.from_iterable(reported))
            if self._reported_twice(cluster, len(active), begin, end):
                continue
            now, generation, completed, max_delay = (figure or 0 for figure in indexed.figures(row))
            yield (
                cluster,
                indexed.text(row) or "",
                RebalanceInput(
                    workers=self.slots.worker[begin:end].tolist(),
                    reported=reported,
                    configured=configured,
                    configured_tasks=self._tasks[cluster],
                    now_ms=now,
                    max_delay_ms=max_delay,
                    generation_id=generation,
                    last_completed_generation_id=completed,
                    worker_spread=indexed.workers.spread,
                    memory=memories.get(cluster) or AssignorState(),
                    in_order=None if self._in_order[cluster] else by_wire,
                    active=active,
                ),
            )

    def _task_twice(self, cluster: int) -> None:
        indexed = self._indexed
        rows = indexed.rows[facts.TASK]
        for row in repeated(rows[indexed.cluster[rows] == cluster].tolist(), indexed.items):
            self.faults.add(cluster, "duplicate-task", describe(indexed, "tasks", row))

    def _reported_twice(self, cluster: int, distinct: int, begin: int, end: int) -> bool:
        """Whether a worker reports an item twice; looked at closely only where any item comes twice."""
        number = self._connectors.begin[end] - self._connectors.begin[begin]
        number += self._reported_tasks.begin[end] - self._reported_tasks.begin[begin]
        if distinct == number:
            return False
        indexed = self._indexed
        rows = indexed.rows[facts.REPORTED]
        rows = rows[indexed.cluster[rows] == cluster]
        for worker in np.unique(indexed.name[rows]).tolist():
            for row in repeated(rows[indexed.name[rows] == worker].tolist(), indexed.items):
                self.faults.add(cluster, "duplicate-reported", describe(indexed, "reported", row))
        return cluster in self.faults

    def _memories(self) -> dict[int, AssignorState]:
        """Of each cluster that has one its leader's memory; what is null is as in the beginning."""
        indexed = self._indexed
        memories: dict[int, AssignorState] = {}
        for row in indexed.rows[facts.STATE].tolist():
            revoked, can_revoke, schedule, delay, generation, successive = indexed.figures(row)
            memories[int(indexed.cluster[row])] = AssignorState(
                revoked_in_previous=bool(revoked),
                can_revoke=can_revoke is None or bool(can_revoke),
                scheduled_rebalance_ms=schedule or 0,
                delay_ms=delay or 0,
                generation_id=-1 if generation is None else generation,
                members=[],
                successive_revoking_rebalances=successive or 0,
            )
        for kind in (facts.ASSIGNMENT, facts.REVOCATION):
            for cluster, items in zip(
                indexed.cluster[indexed.rows[kind]].tolist(), indexed.state_items[kind], strict=True
            ):
                if kind == facts.ASSIGNMENT:
                    memories[cluster].assignment = items
                else:
                    memories[cluster].revocation = items
        for kind in (facts.MEMBER, facts.CANDIDATE):
            rows = indexed.rows[kind]
            rows = rows[np.lexsort((indexed.position[rows], indexed.cluster[rows]))]
            for cluster, worker in zip(indexed.cluster[rows].tolist(), indexed.name[rows].tolist(), strict=True):
                memory = memories[cluster]
                (memory.candidates if kind == facts.CANDIDATE else memory.members).append(worker)
        return memories
