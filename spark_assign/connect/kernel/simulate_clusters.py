"""Simulates many Connect clusters from their facts: the same events with each protocol.

The `kind` of a result row is `rebalances`, `costs`, or `rejected`; its columns are those of the table of that name
(`tables.connect.SIMULATION_TABLES`).

Example: cluster c with three events and the protocols eager and sessioned becomes two rows of costs, and a row per
rebalance. A cluster with a fault, or with an event that can't occur, becomes one row of rejected.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from spark_assign.assignors.connect.rebalance_input import RebalanceInput
from spark_assign.assignors.connect.release_rules import find_rules
from spark_assign.connect.kernel.faults import ClusterFaults
from spark_assign.connect.kernel.indexed_facts import IndexedConnectFacts
from spark_assign.connect.kernel.plan_clusters import REJECTED, ConnectClusters
from spark_assign.connect.kernel.simulated_cluster import (
    EVENTS,
    WORKER_JOINED,
    ConnectEvent,
    ConnectInitialState,
    ConnectTiming,
    InvalidEventError,
    simulate,
)
from spark_assign.groups.kernel.tagged_rows import tagged_rows
from spark_assign.tables.errors import failure_of_code

MAX_TASKS = 100_000
"""Maximum number of tasks that an event gives a connector. The simulation keeps an object per task."""

MAX_WORK = 200_000_000
"""Maximum number of events times connectors, tasks, and workers of a cluster: a rebalance assigns all of them. A worker
counts as ten, and each protocol takes two to three minutes."""
_WORKER_WORK = 10
_MAX_MS, _MAX_INT = 2**63 - 1, 2**31 - 1
"""The largest long, and the largest int."""

REBALANCES, COSTS = "rebalances", "costs"
"""Kinds of result rows, beside `REJECTED`."""


def simulate_clusters(
    table: pa.Table, schema: pa.Schema, protocols: Sequence[str] | None, timing: ConnectTiming
) -> Iterator[pa.Table]:
    """Simulates every Connect cluster of a table of facts; yields tagged rows.

    Args:
        table: Facts (`indexed_facts`).
        schema: Schema of the tagged rows.
        protocols: Protocols to simulate; `None`: each cluster's own.
        timing: Durations of starts, stops, and rebalances.
    """
    indexed = IndexedConnectFacts(table)
    clusters = ConnectClusters(indexed, simulated=True)
    leaders = {
        int(indexed.cluster[row]): int(indexed.name[row])
        for row in indexed.rows["clusters"].tolist()
        if indexed.name[row] >= 0
    }
    events = _read_events(indexed, clusters.faults)
    rows: dict[str, list[dict[str, Any]]] = {REBALANCES: [], COSTS: []}
    failed: list[dict[str, Any]] = []
    for cluster, own_protocol, rebalance in clusters.rebalances():
        initial = _initial_state(indexed, rebalance, leaders.get(cluster))
        own_name, _, version = own_protocol.partition("@")
        simulated_protocols = protocols or (own_name,)
        versions = [f"{name}@{version}" if version and "@" not in name else name for name in simulated_protocols]
        try:
            joined = sum(event.event_type == WORKER_JOINED for event in events[cluster])
            items = len(initial.rebalance.configured) + _WORKER_WORK * (len(initial.rebalance.workers) + joined)
            items += sum(1 + max(event.tasks, 0) for event in events[cluster])
            if items * len(events[cluster]) > MAX_WORK:
                text = f"events: {len(events[cluster]):,} of a cluster with {items:,} connectors, tasks, and workers"
                text += f" (a worker counts as {_WORKER_WORK})"
                raise InvalidEventError(f"{text}, expected a product of at most {MAX_WORK:,}")
            results = [_simulate(initial, events[cluster], protocol, timing) for protocol in versions]
            if any(costs["ended_ms"] > _MAX_MS or costs["task_ms_not_running"] > _MAX_MS for _, costs in results):
                raise InvalidEventError(f"events: a time, or a sum of times, is beyond {_MAX_MS:,} ms")
            if any(row["generation_id"] > _MAX_INT for rebalances, _ in results for row in rebalances[-1:]):
                raise InvalidEventError(f"clusters: generation_id is {_MAX_INT:,} before the last rebalance")
        except InvalidEventError as error:
            clusters.faults.add(cluster, "bad-event", str(error))
            continue
        except Exception as error:  # one cluster must not affect the others
            fault = {"code": "assignor-failed", "detail": failure_of_code(error)}
            failed.append({"connect_cluster": indexed.clusters[cluster], **fault})
            continue
        for protocol, (rebalances, costs) in zip(simulated_protocols, results, strict=True):
            key = {"connect_cluster": indexed.clusters[cluster], "protocol": protocol}
            rows[REBALANCES] += (key | row for row in rebalances)
            rows[COSTS].append(key | costs)
    for kind, simulated in rows.items():
        yield tagged_rows(kind, simulated, schema)
    yield tagged_rows(REJECTED, [*clusters.rejected(), *failed], schema)


def _simulate(
    initial: ConnectInitialState, events: Sequence[ConnectEvent], protocol: str, timing: ConnectTiming
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Returns the rebalances and the costs of one cluster with one protocol, as rows."""
    rebalances, costs, end_ms = simulate(initial, events, find_rules(protocol)[0], timing)
    return rebalances, {
        "rebalances": len(rebalances),
        "connector_starts": costs.starts[0],
        "connector_stops": costs.stops[0],
        "task_starts": costs.starts[1],
        "task_stops": costs.stops[1],
        "lost_with_worker": costs.lost_with_worker,
        "task_ms_not_running": costs.task_ms_not_running,
        "not_running": rebalances[-1]["not_running"] if rebalances else 0,
        "ended_ms": end_ms,
    }


def _initial_state(indexed: IndexedConnectFacts, rebalance: RebalanceInput, leader: int | None) -> ConnectInitialState:
    """Returns the state of a cluster at the start, each worker's items in the order in which it lists them."""
    order = rebalance.report_order
    reports = [order(*report) if order else report for report in rebalance.reported]
    first = replace(rebalance, reported=reports, report_order=None, active=None)
    return ConnectInitialState(first, leader, indexed.workers, indexed.connectors)


def _read_events(indexed: IndexedConnectFacts, faults: ClusterFaults) -> dict[int, list[ConnectEvent]]:
    """Returns the events of each cluster, and adds the faults of the others."""
    events: dict[int, list[ConnectEvent]] = defaultdict(list)
    for row, columns in zip(indexed.rows["events"].tolist(), indexed.records["events"], strict=True):
        name, at_ms, tasks = columns["event"], columns["at_ms"], columns["tasks"]
        cluster = int(indexed.cluster[row])
        text = f"events: at_ms={at_ms}, event={name}"
        if name is None or at_ms is None:
            faults.add(cluster, "null-key", text)
            continue
        if name not in EVENTS:
            faults.add(cluster, "bad-event", f"{text}: no such event. Use one of {', '.join(EVENTS)}")
            continue
        event_type = EVENTS.index(name)
        subject = int((indexed.name if event_type <= WORKER_JOINED else indexed.connector)[row])
        if subject < 0:
            faults.add(cluster, "null-key", f"{text}, subject=null")
        elif tasks is not None and not 0 <= tasks <= MAX_TASKS:
            faults.add(cluster, "bad-event", f"{text}: tasks={tasks}, expected 0 to {MAX_TASKS:,}")
        else:
            events[cluster].append(ConnectEvent(at_ms, event_type, subject, -1 if tasks is None else tasks))
    return events
