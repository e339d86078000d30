"""Simulates many Connect clusters from their facts: the same events with each protocol.

Example: cluster c with three events and the protocols eager and sessioned becomes two rows, each with its rebalances
and its costs. A cluster with a fault, or with an event that can't occur, becomes one row with a code and a text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import pyarrow as pa

from spark_assign.connect.kernel import indexed_facts as facts
from spark_assign.connect.kernel.faults import PROTOCOLS
from spark_assign.connect.kernel.indexed_facts import IndexedConnectFacts
from spark_assign.connect.kernel.plan_clusters import ASSIGNORS, ConnectClusters
from spark_assign.connect.kernel.rebalance_input import RebalanceInput
from spark_assign.connect.kernel.simulation import (
    EVENTS,
    WORKER_JOINED,
    ConnectEvent,
    ConnectInitialState,
    ConnectTiming,
    InvalidEventError,
    simulate,
)

_COUNTS = ("assigned", "revoked", "gone", "stopped", "started", "running", "not_running")
ROUND = pa.struct(
    [
        ("round", pa.int32()),
        ("at_ms", pa.int64()),
        ("event", pa.string()),
        ("generation_id", pa.int32()),
        ("workers", pa.int64()),
        *((name, pa.int64()) for name in _COUNTS),
        ("delay_ms", pa.int64()),
    ]
)
COSTS = pa.struct(
    [
        ("rounds", pa.int64()),
        ("connector_starts", pa.int64()),
        ("connector_stops", pa.int64()),
        ("task_starts", pa.int64()),
        ("task_stops", pa.int64()),
        ("gone", pa.int64()),
        ("task_ms_not_running", pa.int64()),
        ("ended_ms", pa.int64()),
    ]
)
PLAYED = pa.schema(
    [
        ("connect_cluster", pa.string()),
        ("protocol", pa.string()),
        ("rounds", pa.list_(ROUND)),
        ("costs", COSTS),
        ("code", pa.string()),
        ("detail", pa.string()),
    ]
)


def simulate_clusters(table: pa.Table, protocols: Sequence[str] | None, timing: ConnectTiming) -> pa.Table:
    """Simulates every Connect cluster of a table of facts.

    Args:
        table: Facts (`indexed_facts`).
        protocols: Protocols to simulate; `None`: each cluster's own.
        timing: Durations of starts, stops, and rebalances.

    Returns:
        One row per cluster and protocol (`PLAYED`).
    """
    indexed = IndexedConnectFacts(table)
    clusters = ConnectClusters(indexed, simulated=True)
    leaders = {
        int(indexed.cluster[row]): int(indexed.name[row])
        for row in indexed.rows[facts.CLUSTER].tolist()
        if indexed.name[row] >= 0
    }
    events: dict[int, list[ConnectEvent]] = defaultdict(list)
    for cluster, fault, event in _read_events(indexed):
        if fault is not None:
            clusters.faults.add(cluster, *fault)
        if event is not None:
            events[cluster].append(event)
    rows: list[dict[str, Any]] = []
    for cluster, own_protocol, rebalance in clusters.rebalances():
        initial = _initial_state(indexed, rebalance, leaders.get(cluster))
        try:
            for protocol in protocols or (own_protocol,):
                rows.append({"protocol": protocol, **_simulate(initial, events[cluster], protocol, timing)})
                rows[-1]["connect_cluster"] = indexed.clusters[cluster]
        except InvalidEventError as error:
            clusters.faults.add(cluster, "bad-event", str(error))
    rejected = {indexed.clusters[cluster]: (code, detail) for cluster, code, detail in clusters.faults.by_cluster()}
    rows = [row for row in rows if row["connect_cluster"] not in rejected]
    rows += [{"connect_cluster": name, "code": code, "detail": detail} for name, (code, detail) in rejected.items()]
    return pa.Table.from_pylist(rows, schema=PLAYED)


def _simulate(
    initial: ConnectInitialState, events: Sequence[ConnectEvent], protocol: str, timing: ConnectTiming
) -> dict[str, Any]:
    """Returns the rebalances and the costs of one cluster with one protocol."""
    assert protocol in PROTOCOLS
    rounds, costs, end_ms = simulate(initial, events, ASSIGNORS[protocol], timing, eager=protocol == "eager")
    return {
        "rounds": [{"round": index, **asdict(round)} for index, round in enumerate(rounds)],
        "costs": {
            "rounds": len(rounds),
            "connector_starts": costs.starts[0],
            "connector_stops": costs.stops[0],
            "task_starts": costs.starts[1],
            "task_stops": costs.stops[1],
            "gone": costs.lost_with_worker,
            "task_ms_not_running": costs.task_ms_not_running,
            "ended_ms": end_ms,
        },
    }


def _initial_state(indexed: IndexedConnectFacts, rebalance: RebalanceInput, leader: int | None) -> ConnectInitialState:
    """Returns the state of a cluster at the start, each worker's items in the order in which it lists them."""
    order = rebalance.report_order
    reports = [order(*report) if order else report for report in rebalance.reported]
    return ConnectInitialState(
        lists=dict(zip(rebalance.workers, reports, strict=True)),
        configured=rebalance.configured,
        generation_id=rebalance.generation_id,
        last_completed_generation_id=rebalance.last_completed_generation_id,
        max_delay_ms=rebalance.max_delay_ms,
        leader=leader,
        state=replace(rebalance.state),
        workers=indexed.workers,
        connectors=indexed.connectors,
        now_ms=rebalance.now_ms,
    )


def _read_events(indexed: IndexedConnectFacts) -> Iterator[tuple[int, tuple[str, str] | None, ConnectEvent | None]]:
    """Yields the cluster of each event with the event, or with its fault."""
    for row in indexed.rows[facts.EVENT].tolist():
        name, (at_ms, tasks) = indexed.text(row), indexed.numbers(row)
        cluster = int(indexed.cluster[row])
        text = f"events: at_ms={at_ms}, event={name}"
        if name is None or at_ms is None:
            yield cluster, ("null-key", text), None
            continue
        if name not in EVENTS:
            yield cluster, ("bad-event", f"{text}: there is no such event; there are {', '.join(EVENTS)}"), None
            continue
        event_type = EVENTS.index(name)
        subject = int((indexed.name if event_type <= WORKER_JOINED else indexed.connector)[row])
        if subject < 0:
            yield cluster, ("null-key", f"{text}, subject=null"), None
        elif tasks is not None and tasks < 0:
            yield cluster, ("bad-event", f"{text}: tasks={tasks}"), None
        else:
            yield cluster, None, ConnectEvent(at_ms, event_type, subject, -1 if tasks is None else tasks)
