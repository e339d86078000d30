"""Simulations of one Connect cluster: the recorded 90x10 script, and small cases with costs computed by hand."""

from __future__ import annotations

from typing import Any

import pytest

from spark_assign.assignors.connect.connectors_and_tasks import Names, connector_item, task_item
from spark_assign.assignors.connect.rebalance_input import AssignorState, RebalanceInput
from spark_assign.assignors.connect.release_rules import find_rules
from spark_assign.connect.kernel import simulated_cluster
from spark_assign.connect.kernel.simulated_cluster import (
    EVENTS,
    ConnectCosts,
    ConnectEvent,
    ConnectInitialState,
    ConnectTiming,
    InvalidEventError,
)
from tests.cases import cases, tuples
from tests.golden import connect_rows
from tests.golden.connect_scripts import Happened, events_of, totals

PROTOCOLS = {"connect-eager": "eager", "connect-cooperative": "sessioned", "connect-cooperative-2.6": "compatible-2.6"}
NO_DURATIONS = ConnectTiming(0, 0, 0)


def play(
    protocol: str, happened: list[Happened], timing: ConnectTiming = NO_DURATIONS, *, max_delay_ms: int = 300_000
) -> tuple[list[dict[str, Any]], ConnectCosts, int]:
    """Simulates events of an initially empty cluster."""
    of_workers = [event.startswith("worker") for _, event, _, _ in happened]
    workers = Names(subject for is_worker, (_, _, subject, _) in zip(of_workers, happened, strict=True) if is_worker)
    connectors = Names(subject for i, (_, _, subject, _) in zip(of_workers, happened, strict=True) if not i)
    numbers = {True: workers.indexes(), False: connectors.indexes()}
    events = [
        ConnectEvent(at, EVENTS.index(event), numbers[is_worker][subject], -1 if tasks is None else tasks)
        for is_worker, (at, event, subject, tasks) in zip(of_workers, happened, strict=True)
    ]
    first = RebalanceInput(
        workers=[],
        reported=[],
        configured=set(),
        configured_tasks=0,
        now_ms=0,
        max_delay_ms=max_delay_ms,
        generation_id=1,
        last_completed_generation_id=-1,
        worker_spread_hash=workers.spread_hash,
        state=AssignorState(),
    )
    initial = ConnectInitialState(first, None, workers, connectors)
    return simulated_cluster.simulate(initial, events, find_rules(protocol)[0], timing)


@pytest.mark.parametrize("system", PROTOCOLS)
def test_the_90x10_script_goes_as_recorded(system: str) -> None:
    """Simulated from its events alone: every round's stops, starts and what runs then; and so each phase's totals."""
    rows = [row for row in connect_rows.recorded("connect-90x10") if row["system"] == system]
    rounds, costs, _ = play(PROTOCOLS[system], events_of(rows))
    assert len(rounds) == len(rows)
    for row, played in zip(rows, rounds, strict=True):
        got = (played["stopped"], played["started"], played["running"], played["lost_with_worker"], played["delay_ms"])
        want = (row["stopped"], row["started"], row["running"], row["gone_with_worker"], row["expect"]["delay_ms"])
        assert got == want, row["round"]
    for phase in dict.fromkeys(row["phase"] for row in rows):
        recorded = [row for row in rows if row["phase"] == phase]
        simulated = [played for row, played in zip(rows, rounds, strict=True) if row["phase"] == phase]
        print(f"{system} {phase}: {totals(simulated)}")
        assert totals(simulated) == totals(recorded)
    assert sum(costs.starts) == sum(row["started"] for row in rows)
    assert sum(costs.stops) == sum(row["stopped"] for row in rows)


TWO: list[Happened] = [(0, "worker-joined", "w1", None), (0, "worker-joined", "w2", None)]
ADDED: Happened = (0, "connector-added", "c", 4)


def test_a_bounce_within_the_delay() -> None:
    """The worker's tasks wait for it, and run again 300 s after it left."""
    events = [*TWO, ADDED, (10_000, "worker-left", "w2", None), (70_000, "worker-joined", "w2", None)]
    rounds, costs, end_ms = play("sessioned", events, ConnectTiming(start_ms=2_000, stop_ms=1_000, rebalance_ms=500))
    assert [(row["at_ms"], row["event"]) for row in rounds] == tuples(
        "0 'worker-joined w1, worker-joined w2, connector-added c'; "
        "10_000 'worker-left w2'; 70_000 'worker-joined w2'; 310_500 delay-over"
    )
    assert [row["delay_ms"] for row in rounds] == [0, 300_000, 240_000, 0]
    assert [row["not_running"] for row in rounds] == [0, 2, 2, 0]
    # 4 tasks: a rebalance, a start; 2 of them: 300 s, two rebalances (w2 left, the delay was over), a start.
    assert costs.task_ms_not_running == 4 * 2_500 + 2 * (300_500 + 500 + 2_000)
    assert (costs.starts, costs.stops, costs.lost_with_worker) == ([1, 6], [0, 0], 2)
    assert end_ms == 311_000


def test_moving_tasks_costs_two_rounds_and_eager_everything() -> None:
    """A worker joins: incremental moves two of four tasks, eager restarts all."""
    events: list[Happened] = [TWO[0], ADDED, (10_000, "worker-joined", "w2", None)]
    timing = ConnectTiming(start_ms=2_000, stop_ms=1_000, rebalance_ms=500)
    rounds, costs, _ = play("sessioned", events, timing)
    found = [(row["event"], row["stopped"], row["started"]) for row in rounds[1:]]
    assert found == tuples("'worker-joined w2' 2 0; rejoin 0 2")
    assert rounds[2]["at_ms"] == 11_500  # a rebalance, then the stop
    assert costs.task_ms_not_running == 4 * 2_500 + 2 * (1_000 + 500 + 2_000)
    rounds, costs, _ = play("eager", events, timing)
    assert len(rounds) == 2
    assert costs.task_ms_not_running == 4 * 2_500 + 4 * (1_000 + 500 + 2_000)
    assert (costs.starts, costs.stops) == ([2, 8], [1, 4])


def test_events_while_a_round_runs_wait_for_the_next() -> None:
    """Two connectors come while the workers rebalance: one round takes both."""
    events: list[Happened] = [
        TWO[0],
        *tuples(
            "100 connector-added a 1; 200 connector-added b 1; 250 tasks-changed a 0; 300 connector-removed b None"
        ),
    ]
    rounds, costs, end_ms = play("sessioned", events, ConnectTiming(0, 0, 1_000))
    assert [row["at_ms"] for row in rounds] == [0, 1_000]
    assert rounds[1]["running"] == 1
    assert costs.task_ms_not_running == 150 + 100
    assert end_ms == 2_000


def test_a_cluster_without_workers() -> None:
    """Nothing is decided until a worker comes; its leader then knows nothing of before."""
    events: list[Happened] = [TWO[0], ADDED, (1_000, "worker-left", "w1", None), (9_000, "worker-joined", "w1", None)]
    rounds, costs, _ = play("sessioned", events)
    assert [row["delay_ms"] for row in rounds] == [0, 0]
    assert costs.task_ms_not_running == 4 * 8_000
    _, costs, end_ms = play("sessioned", [*events, (10_000, "worker-left", "w1", None)])
    assert (costs.lost_with_worker, end_ms) == (10, 10_000)


@cases(
    "event reason",
    ((5, "worker-joined", "w1", None), "worker w1 is already a member"),
    ((5, "worker-left", "w9", None), "worker w9 isn't a member"),
    ((5, "connector-added", "c", 1), "connector c exists already"),
    ((5, "connector-removed", "d", None), "connector d doesn't exist"),
    ((5, "tasks-changed", "c", None), "tasks is null, expected the new number of tasks"),
    ((-1, "worker-left", "w1", None), "at_ms is before 0"),
)
def test_events_that_cannot_happen(event: Happened, reason: str) -> None:
    """Each is named with its time and the reason."""
    with pytest.raises(InvalidEventError, match=f"at_ms={event[0]}, event={event[1]}: .*{reason}"):
        play("sessioned", [*TWO, ADDED, event])


def test_a_stop_during_a_start_counts_once() -> None:
    """A start takes longer than it takes to lose the worker."""
    task = task_item(0, 0)
    costs = ConnectCosts(start_ms=1_000)
    costs.add_configured([connector_item(0), task], 0)
    costs.start([task], 100)
    costs.lose([task], 300, {task})
    costs.start([task], 2_000)
    assert costs.task_ms_not_running == 1_100 + (3_000 - 1_100)
