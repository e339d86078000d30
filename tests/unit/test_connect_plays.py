"""Plays from facts: what a play begins with, leaders that go, what is told of each round, and the whole bill."""

from __future__ import annotations

import random
from typing import Any

import pytest

from spark_assign.connect.kernel.simulate_clusters import PLAYED, simulate_clusters
from spark_assign.connect.kernel.simulation import ConnectTiming
from tests.golden.connect_scripts import Happened
from tests.unit.connect_facts import Tables, cluster, facts, items, merged
from tests.unit.test_connect_simulation import ADDED, TWO, play

SLOW = ConnectTiming(start_ms=1_000, stop_ms=50, rebalance_ms=100)


def _doubled() -> Tables:
    """Both workers run c-0, and w1 the rest."""
    both = cluster("c")
    both["reported"].append({"connect_cluster": "c", "worker_id": "w2", "kind": "task", "connector": "c", "task": 0})
    return both


def _played(*tables: Tables, events: list[Happened], protocols: tuple[str, ...] | None = None) -> list[dict[str, Any]]:
    rows = [
        {"connect_cluster": "c", "at_ms": at, "event": event, "subject": subject, "tasks": tasks}
        for at, event, subject, tasks in events
    ]
    table = simulate_clusters(facts(merged(*tables, {"events": rows})), protocols, SLOW)
    assert table.schema == PLAYED
    return table.to_pylist()


def test_what_another_worker_runs_too_is_not_lost() -> None:
    """One of two holders leaves: the task goes on."""
    [row] = _played(_doubled(), events=[(5_000, "worker-left", "w2", None)])
    assert [(round["gone"], round["not_running"]) for round in row["rounds"]] == [(1, 0)]
    assert row["costs"]["task_ms_not_running"] == 0


def test_figures_of_a_play() -> None:
    """w3 joins a cluster in which w1 runs everything: a round that takes, a round that gives, each with its figures."""
    [row] = _played(cluster("c"), events=[(5_000, "worker-joined", "w3", None)])
    assert row["rounds"] == [
        dict(zip(FIGURES, (0, 5_000, "worker-joined w3", 2, 3, 0, 2, 0, 2, 0, 3, 2, 0), strict=True)),
        dict(zip(FIGURES, (1, 5_150, "rejoin", 3, 3, 2, 0, 0, 0, 2, 5, 0, 0), strict=True)),
    ]
    assert row["costs"] == {
        "rounds": 2,
        "connector_starts": 0,
        "connector_stops": 0,
        "task_starts": 2,
        "task_stops": 2,
        "gone": 0,
        "task_ms_not_running": 2 * (50 + 100 + 1_000),
        "ended_ms": 5_250,
    }


FIGURES = (
    "round",
    "at_ms",
    "event",
    "generation_id",
    "workers",
    "assigned",
    "revoked",
    "gone",
    "stopped",
    "started",
    "running",
    "not_running",
    "delay_ms",
)


def test_reports_with_positions() -> None:
    """They say in which order a worker lists what it runs when the play begins; as many move."""
    placed = cluster("c")
    for at, row in enumerate(reversed(placed["reported"])):
        row["position"] = at
    events: list[Happened] = [(5_000, "worker-joined", "w3", None)]
    assert _played(placed, events=events) == _played(cluster("c"), events=events)


def test_each_protocol_plays_the_same_events() -> None:
    """A row each, from the same beginning; without a choice the cluster's own."""
    events: list[Happened] = [(5_000, "worker-joined", "w3", None)]
    rows = _played(cluster("c"), events=events, protocols=("eager", "sessioned", "compatible-2.6", "sessioned"))
    assert [row["protocol"] for row in rows] == ["eager", "sessioned", "compatible-2.6", "sessioned"]
    assert rows[1] == rows[3] == _played(cluster("c"), events=events)[0]
    assert [(round["stopped"], round["started"]) for round in rows[0]["rounds"]] == [(5, 5)]
    assert rows[0]["costs"]["ended_ms"] == 5_150  # the stop, then the rebalance
    assert rows[0]["costs"]["connector_starts"] == rows[0]["costs"]["connector_stops"] == 1


def test_eager_workers_without_anything_need_no_time_to_stop() -> None:
    """The first round takes as long as a rebalance."""
    _, _, ended = play("eager", TWO, SLOW)
    assert ended == 100


def test_what_nobody_runs_counts_from_the_beginning_until_the_end() -> None:
    """c-3 runs nowhere when the play begins; without workers nothing ever runs, and nothing is decided."""
    bare = cluster("c")
    bare["reported"].pop()
    [row] = _played(bare, events=[(5_001, "worker-joined", "w3", None)])
    assert [round["not_running"] for round in row["rounds"]] == [1, 0]  # it is given, and w1 gives up one
    assert row["costs"]["task_ms_not_running"] == (5_000 + 100 + 1_000) + (50 + 100 + 1_000)
    no_workers = cluster("c") | {"workers": [], "reported": []}
    [row] = _played(no_workers, events=[(2_001, "tasks-changed", "c", 2), (5_001, "connector-added", "d", 1)])
    assert row["rounds"] == []
    assert row["costs"]["task_ms_not_running"] == 2 * 5_000 + 2 * 2_000
    assert row["costs"]["ended_ms"] == 5_001


def test_the_order_of_events_is_that_of_their_times() -> None:
    """However they are listed; at one time workers leave, join, then connectors go, come and change."""
    events: list[Happened] = [
        (0, "worker-joined", "w1", None),
        (0, "connector-added", "c", 2),
        (0, "connector-added", "d", None),
        (0, "tasks-changed", "c", 3),
        (700, "worker-joined", "w2", None),
        (9_000, "worker-left", "w2", None),
        (9_000, "worker-joined", "w2", None),
        (9_000, "connector-removed", "d", None),
        (9_000, "connector-added", "d", 1),
    ]
    expected = play("sessioned", events, SLOW)
    assert [round["event"] for round in expected[0]][:2] == [
        "worker-joined w1, connector-added c, connector-added d, tasks-changed c",
        "worker-joined w2",
    ]
    for seed in range(5):
        random.Random(seed).shuffle(events)
        assert play("sessioned", events, SLOW) == expected


def test_a_connector_that_is_removed_has_no_tasks() -> None:
    """Whatever number the event tells."""
    [row] = _played(cluster("c"), events=[(5_000, "connector-removed", "c", 9)])
    assert (row["costs"]["task_starts"], row["costs"]["task_ms_not_running"]) == (0, 0)


def test_what_happens_when_the_delay_ends_is_in_its_round() -> None:
    """An event of that very millisecond comes first; one of the next waits for the round to end."""
    for at_ms, event_texts in (
        (301_100, ["connector-added d", "rejoin"]),
        (301_101, ["delay-over", "connector-added d"]),
    ):
        events: list[Happened] = [(1_000, "connector-added", "e", 0), (at_ms, "connector-added", "d", 0)]
        [row] = _played(_waiting(), events=events)
        assert [round["delay_ms"] for round in row["rounds"]][:2] == [300_000, 0]
        assert [round["event"] for round in row["rounds"]][1:3] == event_texts


def test_who_has_to_give_up_something_does_not_wait() -> None:
    """A worker goes and a connector, too: the others stop its tasks and join again, and the delay goes on."""
    events: list[Happened] = [
        *TWO,
        ADDED,
        (0, "connector-added", "d", 4),
        (9_000, "worker-left", "w2", None),
        (9_000, "connector-removed", "d", None),
    ]
    rounds, _, ended = play("sessioned", events, SLOW)
    assert [(round["at_ms"], round["event"], round["delay_ms"]) for round in rounds[1:]] == [
        (9_000, "worker-left w2, connector-removed d", 300_000),
        (9_150, "rejoin", 299_850),
        (309_100, "delay-over", 0),
    ]
    assert ended == 309_200


def test_the_shortest_delay() -> None:
    """A maximum of a millisecond: the workers join again after it."""
    rounds, _, _ = play("sessioned", [*TWO, ADDED, (9_000, "worker-left", "w2", None)], SLOW, max_delay_ms=1)
    assert [(round["event"], round["delay_ms"]) for round in rounds[1:]] == [("worker-left w2", 1), ("delay-over", 0)]


def test_what_happened_while_nobody_was_there_is_not_told_later() -> None:
    """The round of a worker that comes follows from its coming."""
    events: list[Happened] = [
        (0, "connector-added", "c", 1),
        (10, "worker-joined", "w1", None),
        (5_000, "worker-left", "w1", None),
        (6_000, "worker-joined", "w1", None),
    ]
    rounds, _, _ = play("sessioned", events, SLOW)
    assert [(round["event"], round["gone"]) for round in rounds] == [("worker-joined w1", 0), ("worker-joined w1", 2)]


def _waiting(leader: str | None = None) -> Tables:
    """c-3 waits until 301 s for a worker that is gone."""
    waiting = cluster("c", leader=leader)
    waiting["reported"].pop()
    memory = {"assignment": items("c", "c-0", "c-1", "c-2", "c-3"), "members": ["w1", "w2", "w8"]}
    waiting["state"][0] |= memory | {"scheduled_rebalance_ms": 301_000, "delay_ms": 300_000}
    return waiting


@pytest.mark.parametrize(
    ("leader", "events", "delay_ms"),
    [
        (None, [(5_000, "connector-added", "d", 0)], 296_000),
        ("w2", [(5_000, "connector-added", "d", 0)], 296_000),
        ("w9", [(5_000, "connector-added", "d", 0)], 0),
        ("a", [(5_000, "connector-added", "d", 0)], 0),
        ("w9", [(5_000, "worker-joined", "w9", None)], 296_000),
        ("w2", [(5_000, "worker-left", "w2", None)], 0),
        ("w2", [(5_000, "worker-left", "w2", None), (5_000, "worker-joined", "w2", None)], 0),
        ("w1", [(5_000, "worker-left", "w2", None), (5_000, "worker-joined", "w2", None)], 296_000),
        (None, [(5_000, "worker-left", "w2", None)], 296_000),
    ],
)
def test_the_memory_is_that_of_the_leader(leader: str | None, events: list[Happened], delay_ms: int) -> None:
    """With a leader that is gone, or not there, the memory goes: what waited is new, and handed out at once."""
    [row] = _played(_waiting(leader), events=events)
    assert row["rounds"][0]["delay_ms"] == delay_ms


def test_a_leader_stays_until_it_leaves() -> None:
    """w2 was there first, so that it remembers what w1 ran; when it leaves, w1 knows nothing of before."""
    events: list[Happened] = [
        (0, "worker-joined", "w2", None),
        ADDED,
        (10_000, "worker-joined", "w1", None),
    ]
    for leaves, delay_ms in (("w1", 300_000), ("w2", 0)):
        rounds, _, _ = play("sessioned", [*events, (20_000, "worker-left", leaves, None)], SLOW)
        assert [round["delay_ms"] for round in rounds if round["event"] == f"worker-left {leaves}"] == [delay_ms]
    bounce: list[Happened] = [(20_000, "worker-left", "w2", None), (20_000, "worker-joined", "w2", None)]
    rounds, _, _ = play("sessioned", [*events, *bounce, (30_000, "worker-left", "w1", None)], SLOW)
    assert [round["delay_ms"] for round in rounds[3:]] == [0, 0]  # since then w1 has led
