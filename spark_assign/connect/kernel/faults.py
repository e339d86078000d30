"""What can be wrong with the facts of one Connect cluster.

Principle: a faulty row spoils the cluster that it names, which is not planned; the others are. What Kafka has rules
for (an item that several workers run, a worker that runs what is not configured, a memory of items that are gone) is
no fault.

Example: two rows for worker w1 of cluster c: `duplicate-worker`, "workers: worker_id=w1. Keep one row per worker".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from spark_assign.connect.kernel import indexed_facts as facts
from spark_assign.connect.kernel.indexed_facts import PROTOCOL_2_6, IndexedConnectFacts
from spark_assign.numeric.array_types import IntArray

PROTOCOLS = ("eager", "compatible", "sessioned", PROTOCOL_2_6)
_LONGEST_DELAY = 2**31 - 1

REMEDIES = {
    "null-key": "Fill it in or leave the row out",
    "unknown-cluster": "Add the Connect cluster to clusters, or take its rows out",
    "duplicate-cluster": "Keep one row per Connect cluster",
    "unknown-protocol": f"Use one of {', '.join(PROTOCOLS)}",
    "bad-clock": f"now_ms is 0 or more, max_delay_ms from 0 to {_LONGEST_DELAY}",
    "no-workers": "Without a worker there is no leader and no rebalance; add its workers or leave the cluster out",
    "duplicate-worker": "Keep one row per worker",
    "unknown-leader": "The leader is one of the workers; name one, or none",
    "duplicate-connector": "Keep one row per connector",
    "bad-task": "Tasks count from 0",
    "duplicate-task": "Keep one row per connector and task",
    "unknown-connector": "Add the connector to connectors, or take its tasks out",
    "unknown-worker": "Only workers of the cluster can report; add it to workers, or take what it reports out",
    "bad-item": "kind is connector (then task is null) or task (then task is 0 or more)",
    "duplicate-reported": "A worker reports a connector or a task once",
    "duplicate-state": "Keep one row per Connect cluster; the memory is the leader's alone",
    "bad-event": "Give events that can happen, in time order, from the now_ms of their cluster on",
    "bad-state": "Items need kind, connector and, for a task, task; members and candidates hold no null",
}
"""By code, the gravest first."""


class Faults:
    """The faults found so far, by cluster."""

    def __init__(self) -> None:
        self._rows: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))

    def add(self, cluster: int, code: str, row: str) -> None:
        """One more faulty row, as text."""
        self._rows[cluster][code].append(row)

    def __contains__(self, cluster: int) -> bool:
        return cluster in self._rows

    def told(self) -> list[tuple[int, str, str]]:
        """Of each faulty cluster the gravest code and a text about all."""
        order = list(REMEDIES)
        return [
            (
                cluster,
                min(codes, key=order.index),
                "; ".join(_text(code, codes[code]) for code in order if code in codes),
            )
            for cluster, codes in sorted(self._rows.items())
        ]


def _text(code: str, rows: list[str]) -> str:
    more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    return f"{min(rows)}{more}. {REMEDIES[code]}"


def find_faults(indexed: IndexedConnectFacts, *, simulated: bool) -> Faults:
    """Everything that can be seen without looking at a cluster as a whole.

    A cluster that is to be simulated may begin without workers, and name a leader that joins later.
    """
    faults = Faults()
    _of_clusters(indexed, faults, simulated)
    connector, task, worker, reported = (
        indexed.rows[kind] for kind in (facts.CONNECTOR, facts.TASK, facts.WORKER, facts.REPORTED)
    )
    known = ~indexed.no_task
    faulty = indexed.rows[facts.FAULTY].tolist()
    for code, table, rows in (
        ("null-key", "connectors", connector[indexed.connector[connector] < 0]),
        ("null-key", "tasks", task[(indexed.connector[task] < 0) | ~known[task]]),
        ("null-key", "workers", worker[indexed.name[worker] < 0]),
        ("null-key", "reported", reported[(indexed.connector[reported] < 0) | (indexed.name[reported] < 0)]),
        ("bad-task", "tasks", task[known[task] & (indexed.task[task] < 0)]),
        ("bad-item", "reported", np.array([row for row in faulty if indexed.text(row) is None], np.int64)),
        ("duplicate-worker", "workers", _twice(indexed.cluster, indexed.name, worker)),
        ("duplicate-connector", "connectors", _twice(indexed.cluster, indexed.connector, connector)),
        ("unknown-connector", "tasks", _strange(indexed.cluster, indexed.connector, task, connector)),
        ("unknown-worker", "reported", _strange(indexed.cluster, indexed.name, reported, worker)),
    ):
        for row in rows.tolist():
            faults.add(int(indexed.cluster[row]), code, describe(indexed, table, row))
    for row in (row for row in faulty if indexed.text(row) is not None):
        faults.add(int(indexed.cluster[row]), "bad-state", f"state: {indexed.text(row)}")
    for kind, name in ((facts.ASSIGNMENT, "assignment"), (facts.REVOCATION, "revocation")):
        for row in indexed.broken_lists[kind].tolist():
            faults.add(int(indexed.cluster[row]), "bad-state", f"state: {name}")
    return faults


def _of_clusters(indexed: IndexedConnectFacts, faults: Faults, simulated: bool) -> None:
    """Faults of clusters, of their rows in `clusters` and in `state`."""
    number = len(indexed.clusters)
    listed = np.bincount(indexed.cluster[indexed.rows[facts.CLUSTER]], minlength=number)
    workers = np.bincount(indexed.cluster[indexed.rows[facts.WORKER]], minlength=number)
    states = np.bincount(indexed.cluster[indexed.rows[facts.STATE]], minlength=number)
    for cluster, name in enumerate(indexed.clusters):
        if name is None:
            for row in np.flatnonzero(indexed.cluster == cluster).tolist():
                faults.add(cluster, "null-key", f"{facts.TABLES[indexed.kind[row]]}: connect_cluster=null")
            continue
        if listed[cluster] != 1:
            code = "unknown-cluster" if listed[cluster] == 0 else "duplicate-cluster"
            faults.add(cluster, code, f"clusters: connect_cluster={name}")
        if workers[cluster] == 0 and not simulated:
            faults.add(cluster, "no-workers", f"workers: connect_cluster={name}")
        if states[cluster] > 1:
            faults.add(cluster, "duplicate-state", f"state: connect_cluster={name}")
    _of_values(indexed, faults, simulated)


def _of_values(indexed: IndexedConnectFacts, faults: Faults, simulated: bool) -> None:
    """Protocols, clocks and leaders."""
    workers = indexed.rows[facts.WORKER]
    known = set(zip(indexed.cluster[workers].tolist(), indexed.name[workers].tolist(), strict=True))
    for row in indexed.rows[facts.CLUSTER].tolist():
        cluster, leader = int(indexed.cluster[row]), int(indexed.name[row])
        protocol, figures = indexed.text(row), indexed.figures(row)
        columns = dict(zip(_CLOCK, figures, strict=True))
        for name, value in {"protocol": protocol, **columns}.items():
            if value is None:
                faults.add(cluster, "null-key", f"clusters: {name}=null")
        now, delay = columns["now_ms"], columns["max_delay_ms"]
        if protocol is not None and protocol not in PROTOCOLS:
            faults.add(cluster, "unknown-protocol", f"clusters: protocol={protocol}")
        if (now is not None and now < 0) or (delay is not None and not 0 <= delay <= _LONGEST_DELAY):
            faults.add(cluster, "bad-clock", f"clusters: now_ms={now}, max_delay_ms={delay}")
        if leader >= 0 and not simulated and (cluster, leader) not in known:
            faults.add(cluster, "unknown-leader", f"clusters: leader={indexed.workers.texts[leader]}")


_CLOCK = ("now_ms", "generation_id", "last_completed_generation_id", "max_delay_ms")


def describe(indexed: IndexedConnectFacts, table: str, row: int) -> str:
    """A row as a person reads it: `tasks: connector=c, task=0`."""
    texts = {
        "worker_id": indexed.workers.texts[indexed.name[row]] if indexed.name[row] >= 0 else "null",
        "connector": indexed.connectors.texts[indexed.connector[row]] if indexed.connector[row] >= 0 else "null",
        "task": "null" if indexed.no_task[row] else str(indexed.task[row]),
    }
    shown = {
        "connectors": ("connector",),
        "tasks": ("connector", "task"),
        "workers": ("worker_id",),
        "reported": ("worker_id", "connector", "task"),
    }[table]
    return f"{table}: " + ", ".join(f"{name}={texts[name]}" for name in shown)


def _twice(cluster: IntArray, number: IntArray, rows: IntArray) -> IntArray:
    """Rows that repeat the key of another; one of each is left out."""
    order = rows[np.lexsort((number[rows], cluster[rows]))]
    same = (cluster[order][1:] == cluster[order][:-1]) & (number[order][1:] == number[order][:-1])
    again: IntArray = order[1:][same]
    return again


def _strange(cluster: IntArray, number: IntArray, rows: IntArray, known: IntArray) -> IntArray:
    """Rows whose key stands in none of the `known` rows."""
    size = int(number.max(initial=0)) + 2
    keys = np.unique(cluster[known] * size + number[known])
    wanted = cluster[rows] * size + number[rows]
    if not len(keys):
        return rows
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    unknown: IntArray = rows[(keys[at] != wanted) & (number[rows] >= 0)]
    return unknown


def repeated(rows: Iterable[int], items: IntArray) -> list[int]:
    """Of these rows those whose item stands in an earlier one."""
    seen: set[int] = set()
    again = []
    for row in rows:
        if items[row] in seen:
            again.append(row)
        seen.add(items[row])
    return again
