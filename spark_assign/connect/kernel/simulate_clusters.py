"""From the facts of many Connect clusters, events among them, to plays: what each protocol makes of the same events.

Example: cluster c with three events and the protocols eager and sessioned: two rows, each with all its rounds and its
costs. A cluster with a fault, or with an event that cannot happen, has one row with a code and a text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa

from spark_assign.connect.kernel import indexed_facts as facts
from spark_assign.connect.kernel.faults import PROTOCOLS
from spark_assign.connect.kernel.indexed_facts import IndexedConnectFacts
from spark_assign.connect.kernel.plan_clusters import ASSIGNORS, Clusters
from spark_assign.connect.kernel.rebalance_input import RebalanceInput
from spark_assign.connect.kernel.simulation import (
    EVENTS,
    WORKER_JOINED,
    BadEvent,
    ConnectInitialState,
    Event,
    Timing,
    play,
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


def play_facts(table: pa.Table, protocols: Sequence[str] | None, timing: Timing) -> pa.Table:
    """Play every Connect cluster of a table of facts.

    Args:
        table: as `indexed` describes it.
        protocols: play each cluster with each of these; null: with its own.
        timing: what starts, stops and rebalances take.

    Returns:
        a row per cluster and protocol (`PLAYED`).
    """
    indexed = IndexedConnectFacts(table)
    clusters = Clusters(indexed, simulated=True)
    events = _Events(indexed, clusters)
    rows: list[dict[str, Any]] = []
    for cluster, own, round in clusters.rounds():
        stage = _stage(indexed, round, events.leader.get(cluster))
        try:
            for protocol in protocols or (own,):
                rows.append({"protocol": protocol, **_played(stage, events.of[cluster], protocol, timing)})
                rows[-1]["connect_cluster"] = indexed.clusters[cluster]
        except BadEvent as error:
            clusters.faults.add(cluster, "bad-event", str(error))
    refused = {indexed.clusters[cluster]: (code, detail) for cluster, code, detail in clusters.faults.told()}
    rows = [row for row in rows if row["connect_cluster"] not in refused]
    rows += [{"connect_cluster": name, "code": code, "detail": detail} for name, (code, detail) in refused.items()]
    return pa.Table.from_pylist(rows, schema=PLAYED)


def _played(stage: ConnectInitialState, events: Sequence[Event], protocol: str, timing: Timing) -> dict[str, Any]:
    assert protocol in PROTOCOLS
    rounds, costs, ended = play(stage, events, ASSIGNORS[protocol], timing, eager=protocol == "eager")
    return {
        "rounds": [{"round": number, **asdict(each)} for number, each in enumerate(rounds)],
        "costs": {
            "rounds": len(rounds),
            "connector_starts": costs.starts[0],
            "connector_stops": costs.stops[0],
            "task_starts": costs.starts[1],
            "task_stops": costs.stops[1],
            "gone": costs.gone,
            "task_ms_not_running": costs.task_ms_not_running,
            "ended_ms": ended,
        },
    }


def _stage(indexed: IndexedConnectFacts, round: RebalanceInput, leader: int | None) -> ConnectInitialState:
    """What a play begins with; what workers run, in the order in which they list it."""
    reports = [round.in_order(*each) if round.in_order else each for each in round.reported]
    return ConnectInitialState(
        lists=dict(zip(round.workers, reports, strict=True)),
        configured=round.configured,
        generation_id=round.generation_id,
        last_completed_generation_id=round.last_completed_generation_id,
        max_delay_ms=round.max_delay_ms,
        leader=leader,
        memory=replace(round.memory),
        workers=indexed.workers,
        connectors=indexed.connectors,
        now_ms=round.now_ms,
    )


@dataclass(init=False)
class _Events:
    """The events of every cluster, and the leaders that are named."""

    of: dict[int, list[Event]]
    leader: dict[int, int]

    def __init__(self, indexed: IndexedConnectFacts, clusters: Clusters) -> None:
        self.of, self.leader = defaultdict(list), {}
        for row in indexed.rows[facts.CLUSTER].tolist():
            if indexed.name[row] >= 0:
                self.leader[int(indexed.cluster[row])] = int(indexed.name[row])
        for cluster, fault, event in _read(indexed):
            if fault is not None:
                clusters.faults.add(cluster, *fault)
            if event is not None:
                self.of[cluster].append(event)


def _read(indexed: IndexedConnectFacts) -> Iterator[tuple[int, tuple[str, str] | None, Event | None]]:
    """Each event with its cluster; or what is wrong with it."""
    for row in indexed.rows[facts.EVENT].tolist():
        what, (at_ms, tasks) = indexed.text(row), indexed.figures(row)
        cluster = int(indexed.cluster[row])
        shown = f"events: at_ms={at_ms}, event={what}"
        if what is None or at_ms is None:
            yield cluster, ("null-key", shown), None
            continue
        if what not in EVENTS:
            yield cluster, ("bad-event", f"{shown}: there is no such event; there are {', '.join(EVENTS)}"), None
            continue
        number = EVENTS.index(what)
        subject = int((indexed.name if number <= WORKER_JOINED else indexed.connector)[row])
        if subject < 0:
            yield cluster, ("null-key", f"{shown}, subject=null"), None
        elif tasks is not None and tasks < 0:
            yield cluster, ("bad-event", f"{shown}: tasks={tasks}"), None
        else:
            yield cluster, None, Event(at_ms, number, subject, -1 if tasks is None else tasks)
