"""Simulations from facts: initial states, leaders that leave, the fields of each rebalance, and all costs."""

from __future__ import annotations

import random
from typing import Any

from spark_assign.connect.kernel.simulated_cluster import ConnectTiming
from spark_assign.tables.connect import REBALANCES
from tests.cases import cases, keyed, tuples
from tests.golden.connect_scripts import Happened
from tests.unit.connect_facts import Tables, cluster, items, merged, simulated
from tests.unit.test_connect_simulation import ADDED, TWO, play

SLOW = ConnectTiming(start_ms=1_000, stop_ms=50, rebalance_ms=100)


def _doubled() -> Tables:
    """Returns a cluster in which both workers run c-0, and w1 everything else."""
    both = cluster("c")
    both["reported"].append({"connect_cluster": "c", "worker_id": "w2", "kind": "task", "connector": "c", "task": 0})
    return both


def _played(*tables: Tables, events: list[Happened], protocols: tuple[str, ...] | None = None) -> list[dict[str, Any]]:
    rows = [{"connect_cluster": "c", "at_ms": a, "event": e, "subject": s, "tasks": t} for a, e, s, t in events]
    return simulated(merged(*tables, {"events": rows}), protocols, SLOW)


def test_duplicated_items_are_not_lost() -> None:
    """One of two owners leaves: the task keeps running."""
    [row] = _played(_doubled(), events=[(5_000, "worker-left", "w2", None)])
    assert [(round["lost_with_worker"], round["not_running"]) for round in row["rebalances"]] == [(1, 0)]
    assert row["costs"]["task_ms_not_running"] == 0


def test_fields_of_a_simulation() -> None:
    """w3 joins a cluster in which w1 runs everything: one rebalance revokes, the next one assigns."""
    [row] = _played(cluster("c"), events=[(5_000, "worker-joined", "w3", None)])
    assert row["rebalances"] == [
        dict(zip(FIELDS, (0, 5_000, "worker-joined w3", 2, 3, 0, 2, 0, 2, 0, 3, 2, 0), strict=True)),
        dict(zip(FIELDS, (1, 5_150, "rejoin", 3, 3, 2, 0, 0, 0, 2, 5, 0, 0), strict=True)),
    ]
    assert row["costs"] == {
        **keyed("rebalances=2 connector_starts=0 connector_stops=0 task_starts=2 task_stops=2 lost_with_worker=0"),
        "task_ms_not_running": 2 * (50 + 100 + 1_000),
        "not_running": 0,
        "ended_ms": 5_250,
    }


FIELDS = REBALANCES.names[2:]


def test_reports_with_positions() -> None:
    """Positions are the order of a worker's list at the start; the number of moved items is the same."""
    placed = cluster("c")
    for at, row in enumerate(reversed(placed["reported"])):
        row["position"] = at
    events: list[Happened] = [(5_000, "worker-joined", "w3", None)]
    assert _played(placed, events=events) == _played(cluster("c"), events=events)


def test_all_protocols_simulate_equal_events() -> None:
    """One row per protocol, from the same initial state; by default, the cluster's own protocol."""
    events: list[Happened] = [(5_000, "worker-joined", "w3", None)]
    rows = _played(cluster("c"), events=events, protocols=("eager", "sessioned", "compatible-2.6", "sessioned"))
    assert [row["protocol"] for row in rows] == ["eager", "sessioned", "compatible-2.6", "sessioned"]
    assert rows[1] == rows[3] == _played(cluster("c"), events=events)[0]
    assert [(round["stopped"], round["started"]) for round in rows[0]["rebalances"]] == [(5, 5)]
    assert rows[0]["costs"]["ended_ms"] == 5_150  # the stop, then the rebalance
    assert rows[0]["costs"]["connector_starts"] == rows[0]["costs"]["connector_stops"] == 1


def test_eager_workers_without_anything_need_no_time_to_stop() -> None:
    """The first round takes as long as a rebalance."""
    _, _, ended = play("eager", TWO, SLOW)
    assert ended == 100


def test_unassigned_tasks_count_from_start_to_end() -> None:
    """No worker runs c-3 at the start; without workers, nothing runs and no rebalance occurs."""
    bare = cluster("c")
    bare["reported"].pop()
    [row] = _played(bare, events=[(5_001, "worker-joined", "w3", None)])
    assert [round["not_running"] for round in row["rebalances"]] == [1, 0]  # it is given, and w1 gives up one
    assert row["costs"]["task_ms_not_running"] == (5_000 + 100 + 1_000) + (50 + 100 + 1_000)
    no_workers = cluster("c") | {"workers": [], "reported": []}
    [row] = _played(no_workers, events=[(2_001, "tasks-changed", "c", 2), (5_001, "connector-added", "d", 1)])
    assert row["rebalances"] == []
    assert row["costs"]["task_ms_not_running"] == 2 * 5_000 + 2 * 2_000
    assert row["costs"]["ended_ms"] == 5_001


def test_the_order_of_events_is_that_of_their_times() -> None:
    """The order of rows is irrelevant; at one time, workers leave and join before connectors change."""
    events: list[Happened] = tuples(
        "0 worker-joined w1 None; 0 connector-added c 2; 0 connector-added d None; "
        "0 tasks-changed c 3; 700 worker-joined w2 None; "
        "9_000 worker-left w2 None; 9_000 worker-joined w2 None; "
        "9_000 connector-removed d None; 9_000 connector-added d 1"
    )
    expected = play("sessioned", events, SLOW)
    assert [round["event"] for round in expected[0]][:2] == [
        "worker-joined w1, connector-added c, connector-added d, tasks-changed c",
        "worker-joined w2",
    ]
    for seed in range(5):
        random.Random(seed).shuffle(events)
        assert play("sessioned", events, SLOW) == expected


def test_a_connector_that_is_removed_has_no_tasks() -> None:
    """The number of tasks in the event is ignored."""
    [row] = _played(cluster("c"), events=[(5_000, "connector-removed", "c", 9)])
    assert (row["costs"]["task_starts"], row["costs"]["task_ms_not_running"]) == (0, 0)


def test_events_at_the_end_of_a_delay() -> None:
    """An event of that millisecond comes first; an event one millisecond later waits for the next rebalance."""
    for at_ms, event_texts in (
        (301_100, ["connector-added d", "rejoin"]),
        (301_101, ["delay-over", "connector-added d"]),
    ):
        events: list[Happened] = [(1_000, "connector-added", "e", 0), (at_ms, "connector-added", "d", 0)]
        [row] = _played(_waiting(), events=events)
        assert [round["delay_ms"] for round in row["rebalances"]][:2] == [300_000, 0]
        assert [round["event"] for round in row["rebalances"]][1:3] == event_texts


def test_workers_with_revoked_items_rejoin_at_once() -> None:
    """A worker and a connector are removed: workers stop its tasks and rejoin, and the delay continues."""
    events: list[Happened] = [
        *TWO,
        ADDED,
        *tuples("0 connector-added d 4; 9_000 worker-left w2 None; 9_000 connector-removed d None"),
    ]
    rounds, _, ended = play("sessioned", events, SLOW)
    expected = tuples("9_000 'worker-left w2, connector-removed d' 300_000; 9_150 rejoin 299_850; 309_100 delay-over 0")
    assert [(round["at_ms"], round["event"], round["delay_ms"]) for round in rounds[1:]] == expected
    assert ended == 309_200


def test_the_shortest_delay() -> None:
    """A maximum of one millisecond, after which the workers rejoin."""
    rounds, _, _ = play("sessioned", [*TWO, ADDED, (9_000, "worker-left", "w2", None)], SLOW, max_delay_ms=1)
    assert [(round["event"], round["delay_ms"]) for round in rounds[1:]] == [("worker-left w2", 1), ("delay-over", 0)]


def test_tasks_that_never_return_have_an_open_cost() -> None:
    """Workers from 3.4.0 to 3.5.1 with a maximum delay of 0 assign nothing, and no rebalance follows (KAFKA-15693)."""
    leaves = [*TWO, ADDED, (9_000, "worker-left", "w2", None)]
    last = {rules: play(rules, leaves, SLOW, max_delay_ms=0)[0][-1] for rules in ("sessioned@3.4", "sessioned")}
    assert {rules: each["not_running"] for rules, each in last.items()} == {"sessioned@3.4": 2, "sessioned": 0}


def test_events_without_workers_are_not_reported_later() -> None:
    """The event of a worker that joins is the only one in its rebalance."""
    events: list[Happened] = tuples(
        "0 connector-added c 1; 10 worker-joined w1 None; 5_000 worker-left w1 None; 6_000 worker-joined w1 None"
    )
    rounds, _, _ = play("sessioned", events, SLOW)
    assert [(r["event"], r["lost_with_worker"]) for r in rounds] == tuples("'worker-joined w1' 0; 'worker-joined w1' 2")


def _waiting(leader: str | None = None) -> Tables:
    """Returns a cluster in which c-3 waits until 301 s for a worker that left."""
    waiting = cluster("c", leader=leader)
    waiting["reported"].pop()
    memory = {"assignment": items("c", "c-0", "c-1", "c-2", "c-3"), "members": ["w1", "w2", "w8"]}
    waiting["state"][0] |= memory | {"scheduled_rebalance_ms": 301_000, "delay_ms": 300_000}
    return waiting


@cases(
    "leader events delay_ms",
    (None, [(5_000, "connector-added", "d", 0)], 296_000),
    ("w2", [(5_000, "connector-added", "d", 0)], 296_000),
    ("w9", [(5_000, "connector-added", "d", 0)], 0),
    ("a", [(5_000, "connector-added", "d", 0)], 0),
    ("w9", [(5_000, "worker-joined", "w9", None)], 296_000),
    ("w2", [(5_000, "worker-left", "w2", None)], 0),
    ("w2", [(5_000, "worker-left", "w2", None), (5_000, "worker-joined", "w2", None)], 0),
    ("w1", [(5_000, "worker-left", "w2", None), (5_000, "worker-joined", "w2", None)], 296_000),
    (None, [(5_000, "worker-left", "w2", None)], 296_000),
)
def test_the_state_is_that_of_the_leader(leader: str | None, events: list[Happened], delay_ms: int) -> None:
    """If the leader leaves or isn't a member, the state is lost: waiting items are new, and assigned at once."""
    [row] = _played(_waiting(leader), events=events)
    assert row["rebalances"][0]["delay_ms"] == delay_ms


def test_a_leader_stays_until_it_leaves() -> None:
    """w2 joins first, so its state has the items of w1; if w2 leaves, w1 starts with an empty state."""
    events: list[Happened] = [(0, "worker-joined", "w2", None), ADDED, (10_000, "worker-joined", "w1", None)]
    for leaves, delay_ms in (("w1", 300_000), ("w2", 0)):
        rounds, _, _ = play("sessioned", [*events, (20_000, "worker-left", leaves, None)], SLOW)
        assert [round["delay_ms"] for round in rounds if round["event"] == f"worker-left {leaves}"] == [delay_ms]
    bounce: list[Happened] = [(20_000, "worker-left", "w2", None), (20_000, "worker-joined", "w2", None)]
    rounds, _, _ = play("sessioned", [*events, *bounce, (30_000, "worker-left", "w1", None)], SLOW)
    assert [round["delay_ms"] for round in rounds[3:]] == [0, 0]  # since then w1 has led
