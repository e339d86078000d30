"""Faults in the facts of Connect clusters.

A cluster with a faulty row is rejected; all other clusters are planned. Inputs for which Kafka has rules are valid: an
item that several workers run, an item that runs and isn't configured, and a state with deleted items.

Example: two rows for worker w1 of cluster c: `duplicate-worker`, "workers: worker_id=w1. Keep one row per worker".
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from spark_assign.assignors.connect.release_rules import PROTOCOLS
from spark_assign.assignors.group_facts import join_faults
from spark_assign.connect.kernel.indexed_facts import CLOCK, FAULTY, NO_INDEX, STATE_LISTS, TABLES, IndexedConnectFacts
from spark_assign.numeric.arrays import IntArray, KeyIndex
from spark_assign.tables.errors import ROW_REMEDY
from spark_assign.tables.schema_fields import MAX_ID_BYTES, is_too_long

_LONGEST_DELAY = 2**31 - 1
_LATEST = 2**63 - 1 - _LONGEST_DELAY
"""The last time after which a delay ends at a long."""

_MAX_LONG_ID_BYTES = 64 << 20
"""Maximum size of the longest ID of a Connect cluster's workers times the cluster's rows: a plan has the ID once for
each connector and task."""

REMEDIES = {
    "null-key": ROW_REMEDY,
    "unknown-cluster": "Add the Connect cluster to clusters, or remove its rows",
    "duplicate-cluster": "Keep one row per Connect cluster",
    "unknown-protocol": f"Use one of {', '.join(PROTOCOLS)}",
    "bad-clock": f"now_ms must be from 0 to {_LATEST}, and max_delay_ms from 0 to {_LONGEST_DELAY}",
    "no-workers": "A rebalance needs at least one worker, the leader. Add the workers, or remove the Connect cluster",
    "duplicate-worker": "Keep one row per worker",
    "long-worker-id": "Shorten the ID. Above 1,000 bytes, its size times the rows of its cluster is at most 64 MiB",
    "unknown-leader": "The leader must be one of the workers, or null",
    "duplicate-connector": "Keep one row per connector",
    "bad-task": "Task numbers start at 0",
    "duplicate-task": "Keep one row per connector and task",
    "unknown-connector": "Add the connector to connectors, or remove its tasks",
    "unknown-worker": "Add the worker to workers, or remove its rows from reported",
    "bad-item": "kind must be connector, with a null task, or task, with a task of 0 or more",
    "duplicate-reported": "Keep one row per worker and connector or task",
    "duplicate-state": "Keep one row per Connect cluster, the state of its leader",
    "bad-event": "Correct the event. Events can't occur before the now_ms of their Connect cluster",
    "bad-state": "Each item needs kind and connector, and a task its number; members and candidates can't have nulls",
}
"""Remedy of each code, the most severe code first."""


class ClusterFaults:
    """Faulty rows by cluster and code."""

    def __init__(self) -> None:
        self._rows: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))

    def add(self, cluster: int, code: str, row: str) -> None:
        """Adds the text of a faulty row."""
        self._rows[cluster][code].append(row)

    def __contains__(self, cluster: int) -> bool:
        return cluster in self._rows

    def by_cluster(self) -> list[tuple[int, str, str]]:
        """Returns the most severe code of each faulty cluster, and a text about all codes."""
        return [(cluster, *join_faults(rows, REMEDIES)) for cluster, rows in sorted(self._rows.items())]


def find_faults(indexed: IndexedConnectFacts, *, simulated: bool) -> ClusterFaults:
    """Returns the faults of all clusters, except repeated tasks and repeated reports.

    A simulated cluster may start without workers, and its leader may join later.
    """
    faults = ClusterFaults()
    _find_cluster_faults(indexed, faults, simulated)
    _find_long_ids(indexed, faults)
    connector, task, worker, reported = (indexed.rows[name] for name in ("connectors", "tasks", "workers", "reported"))
    has_task = ~indexed.is_task_null
    for code, table, rows in (
        ("null-key", "connectors", connector[indexed.connector[connector] < 0]),
        ("null-key", "tasks", task[(indexed.connector[task] < 0) | ~has_task[task]]),
        ("null-key", "workers", worker[indexed.name[worker] < 0]),
        ("null-key", "reported", reported[(indexed.connector[reported] < 0) | (indexed.name[reported] < 0)]),
        ("bad-task", "tasks", task[has_task[task] & (indexed.task[task] < 0)]),
        ("bad-item", "reported", indexed.rows[FAULTY]),
        ("duplicate-worker", "workers", repeated_keys(indexed.cluster, indexed.name, worker)),
        ("duplicate-connector", "connectors", repeated_keys(indexed.cluster, indexed.connector, connector)),
        ("unknown-connector", "tasks", _unknown_keys(indexed.cluster, indexed.connector, task, connector)),
        ("unknown-worker", "reported", _unknown_keys(indexed.cluster, indexed.name, reported, worker)),
    ):
        for row in rows.tolist():
            faults.add(int(indexed.cluster[row]), code, describe(indexed, table, row))
    for row, columns in zip(indexed.rows["state"].tolist(), indexed.records["state"], strict=True):
        for name in (name for name in STATE_LISTS if NO_INDEX in columns[name]):
            faults.add(int(indexed.cluster[row]), "bad-state", f"state: {name}")
    return faults


def _find_long_ids(indexed: IndexedConnectFacts, faults: ClusterFaults) -> None:
    """Adds clusters with a worker's ID that is too long for a row of a plan for each connector and task."""
    texts = indexed.workers.texts
    sizes = np.array([*(len(text.encode()) if is_too_long(text, MAX_ID_BYTES) else 0 for text in texts), 0])
    if not sizes.any():
        return
    longest, num_rows = (np.zeros(len(indexed.clusters), np.int64) for _ in range(2))
    np.maximum.at(longest, indexed.cluster, sizes[indexed.name])  # the last size is that of no name
    np.add.at(num_rows, indexed.cluster, 1)
    for cluster in np.flatnonzero(longest * num_rows > _MAX_LONG_ID_BYTES).tolist():
        row = f"workers: an ID of {longest[cluster]:,} bytes, in a Connect cluster of {num_rows[cluster]:,} rows"
        faults.add(cluster, "long-worker-id", row)


def _find_cluster_faults(indexed: IndexedConnectFacts, faults: ClusterFaults, simulated: bool) -> None:
    """Adds faults of the rows of `clusters` and `state`."""
    num_rows, workers, states = (
        np.bincount(indexed.cluster[indexed.rows[name]], minlength=len(indexed.clusters))
        for name in ("clusters", "workers", "state")
    )
    for cluster, name in enumerate(indexed.clusters):
        if name is None:
            for row in np.flatnonzero(indexed.cluster == cluster).tolist():
                faults.add(cluster, "null-key", f"{list(TABLES)[indexed.table[row]]}: connect_cluster=null")
            continue
        if num_rows[cluster] != 1:
            code = "unknown-cluster" if num_rows[cluster] == 0 else "duplicate-cluster"
            faults.add(cluster, code, f"clusters: connect_cluster={name}")
        if workers[cluster] == 0 and not simulated:
            faults.add(cluster, "no-workers", f"workers: connect_cluster={name}")
        if states[cluster] > 1:
            faults.add(cluster, "duplicate-state", f"state: connect_cluster={name}")
    _find_value_faults(indexed, faults, simulated)


def _find_value_faults(indexed: IndexedConnectFacts, faults: ClusterFaults, simulated: bool) -> None:
    """Adds faults of protocols, clocks, and leaders."""
    workers = indexed.rows["workers"]
    known = set(zip(indexed.cluster[workers].tolist(), indexed.name[workers].tolist(), strict=True))
    for row, columns in zip(indexed.rows["clusters"].tolist(), indexed.records["clusters"], strict=True):
        cluster, leader = int(indexed.cluster[row]), int(indexed.name[row])
        protocol = (columns["protocol"] or "").partition("@")[0] or None
        for name, value in ({"protocol": protocol} | {name: columns[name] for name in CLOCK}).items():
            if value is None and name != "delay_ms":  # unknown
                faults.add(cluster, "null-key", f"clusters: {name}=null")
        now, delay = columns["now_ms"], columns["max_delay_ms"]
        if protocol is not None and protocol not in PROTOCOLS:
            faults.add(cluster, "unknown-protocol", f"clusters: protocol={protocol}")
        if (now is not None and not 0 <= now <= _LATEST) or (delay is not None and not 0 <= delay <= _LONGEST_DELAY):
            faults.add(cluster, "bad-clock", f"clusters: now_ms={now}, max_delay_ms={delay}")
        if leader >= 0 and not simulated and (cluster, leader) not in known:
            faults.add(cluster, "unknown-leader", f"clusters: leader={indexed.workers.texts[leader]}")


def describe(indexed: IndexedConnectFacts, table: str, row: int) -> str:
    """Returns the text of a row, such as `tasks: connector=c, task=0`."""
    texts = {
        "worker_id": indexed.workers.texts[indexed.name[row]] if indexed.name[row] >= 0 else "null",
        "connector": indexed.connectors.texts[indexed.connector[row]] if indexed.connector[row] >= 0 else "null",
        "task": "null" if indexed.is_task_null[row] else str(indexed.task[row]),
    }
    return f"{table}: " + ", ".join(f"{name}={texts[name]}" for name in TABLES[table].key)


def repeated_keys(first: IntArray, second: IntArray, rows: IntArray) -> IntArray:
    """Returns the rows with the key (`first`, `second`) of an earlier row."""
    order = rows[np.lexsort((second[rows], first[rows]))]
    is_equal = (first[order][1:] == first[order][:-1]) & (second[order][1:] == second[order][:-1])
    repeated: IntArray = order[1:][is_equal]
    return repeated


def _unknown_keys(cluster: IntArray, name: IntArray, rows: IntArray, known: IntArray) -> IntArray:
    """Returns the rows whose (cluster, name) is that of none of the `known` rows."""
    if not len(known):
        return rows
    keys = cluster * (int(name.max(initial=0)) + 2) + name
    unknown: IntArray = rows[(KeyIndex(keys[known]).lookup(keys[rows]) < 0) & (name[rows] >= 0)]
    return unknown
