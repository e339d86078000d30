"""Faults in the facts of Connect clusters: codes, rows in the text, and order of severity."""

from __future__ import annotations

import random
from typing import Any

import pytest

from spark_assign.connect.kernel import simulate_clusters
from spark_assign.connect.kernel.faults import REMEDIES, ClusterFaults
from tests.cases import cases
from tests.unit.connect_facts import (
    CODES,
    Tables,
    cluster,
    faulty_clusters,
    items,
    merged,
    results,
    simulated,
    unfolded,
)

FAULTS = {
    None: "connectors: connect_cluster=null and 1 more",
    "bad-clock": "clusters: now_ms=-1, max_delay_ms=300000",
    "bad-item": "reported: worker_id=w1, connector=c, task=null",
    "bad-state": "state: assignment",
    "bad-task": "tasks: connector=c, task=-2",
    "duplicate-cluster": "clusters: connect_cluster=duplicate-cluster",
    "duplicate-connector": "connectors: connector=c",
    "duplicate-reported": "reported: worker_id=w1, connector=c, task=null",
    "duplicate-state": "state: connect_cluster=duplicate-state",
    "duplicate-task": "tasks: connector=c, task=0",
    "duplicate-worker": "workers: worker_id=w1",
    "no-workers": "workers: connect_cluster=no-workers",
    "null-protocol": "clusters: protocol=null",
    "null-task": "tasks: connector=c, task=null",
    "unknown-cluster": "clusters: connect_cluster=unknown-cluster",
    "unknown-connector": "tasks: connector=d, task=0",
    "unknown-leader": "clusters: leader=w3",
    "unknown-protocol": "clusters: protocol=range",
    "unknown-worker": "reported: worker_id=w9, connector=c, task=0",
}
"""Of each cluster with one fault its row."""


def rejected(tables: Tables, seed: int = 7) -> dict[str | None, tuple[str, str]]:
    """Code and text of each faulty cluster; the order of the rows has no say."""
    for rows in tables.values():
        random.Random(seed).shuffle(rows)
    found = results(tables)
    named = {row["connect_cluster"] for rows in tables.values() for row in rows}
    assert sorted(row["connect_cluster"] or "" for row in found) == sorted(name or "" for name in named)
    return {row["connect_cluster"]: (row["code"], row["detail"]) for row in found if row["code"]}


def test_every_fault_has_its_code_and_names_its_row() -> None:
    """A cluster for each fault; a sound one beside them is planned."""
    found = rejected(faulty_clusters())
    assert {name: code for name, (code, _) in found.items()} == CODES
    for name, row in FAULTS.items():
        assert found.pop(name) == (CODES[name], f"{row}. {REMEDIES[CODES[name]]}")
    worker, report = FAULTS["duplicate-worker"], FAULTS["unknown-worker"]
    both = f"{worker}. {REMEDIES['duplicate-worker']}; {report}. {REMEDIES['unknown-worker']}"
    assert found == {"several": ("duplicate-worker", both)}


def test_the_gravest_code_and_a_text_about_all() -> None:
    """By the order of the remedies, in whatever order they were found; of several rows the first as text."""
    faults = ClusterFaults()
    for code in reversed(REMEDIES):
        faults.add(3, code, "x")
    faults.add(1, "bad-state", "b")
    faults.add(1, "bad-state", "a")
    faults.add(1, "bad-state", "c")
    first, second = faults.by_cluster()
    assert first == (1, "bad-state", f"a and 2 more. {REMEDIES['bad-state']}")
    assert second[:2] == (3, "null-key")
    assert second[2] == "; ".join(f"x. {remedy}" for remedy in REMEDIES.values())
    assert (1 in faults, 2 in faults) == (True, False)


def _with(name: str, table: str, *rows: dict[str, Any], **more: Any) -> Tables:
    return merged(cluster(name, **more), {table: [{"connect_cluster": name} | row for row in rows]})


@cases(
    "tables code text",
    (cluster("c", max_delay_ms=2**31), "bad-clock", "clusters: now_ms=1, max_delay_ms=2147483648"),
    (cluster("c", max_delay_ms=-1), "bad-clock", "clusters: now_ms=1, max_delay_ms=-1"),
    (cluster("c", now_ms=None), "null-key", "clusters: now_ms=null"),
    (cluster("c", max_delay_ms=None), "null-key", "clusters: max_delay_ms=null"),
    (cluster("c", generation_id=None), "null-key", "clusters: generation_id=null"),
    (cluster("c", last_completed_generation_id=None), "null-key", "clusters: last_completed_generation_id=null"),
    (_with("c", "connectors", {"connector": None}), "null-key", "connectors: connector=null"),
    (_with("c", "tasks", {"connector": None, "task": 1}), "null-key", "tasks: connector=null, task=1"),
    (_with("c", "workers", {"worker_id": None}), "null-key", "workers: worker_id=null"),
    (
        _with("c", "reported", {"worker_id": None, "kind": "task", "connector": "c", "task": 0}),
        "null-key",
        "reported: worker_id=null, connector=c, task=0",
    ),
    (
        _with("c", "reported", {"worker_id": "w2", "kind": "task", "connector": None, "task": 0}),
        "null-key",
        "reported: worker_id=w2, connector=null, task=0",
    ),
    (
        _with("c", "reported", {"worker_id": "w2", "kind": "connector", "connector": "c", "task": 0}),
        "bad-item",
        "reported: worker_id=w2, connector=c, task=0",
    ),
    (_with("c", "tasks", {"connector": "c", "task": -1}), "bad-task", "tasks: connector=c, task=-1"),
    (_with("c", "connectors", *2 * [{"connector": "d"}]), "duplicate-connector", "connectors: connector=d"),
    (_with("c", "tasks", {"connector": "d", "task": 0}), "unknown-connector", "tasks: connector=d, task=0"),
    (_with("c", "tasks", {"connector": "a", "task": 0}), "unknown-connector", "tasks: connector=a, task=0"),
    (
        _with("c", "reported", {"worker_id": "w9", "kind": "connector", "connector": "c"}),
        "unknown-worker",
        "reported: worker_id=w9, connector=c, task=null",
    ),
    (cluster("c", leader="a"), "unknown-leader", "clusters: leader=a"),
)
def test_single_faults(tables: Tables, code: str, text: str) -> None:
    """Bounds, what may not be null, and names at either end of the order."""
    assert rejected(tables) == {"c": (code, f"{text}. {REMEDIES[code]}")}


@cases(
    "tables",
    cluster("c", now_ms=0, max_delay_ms=0, leader="w2"),
    cluster("c", max_delay_ms=2**31 - 1),
    _with("c", "reported", {"worker_id": "w2", "kind": "task", "connector": "gone", "task": 5}),
    _with("c", "reported", *({"worker_id": "w2"} | item for item in items("c", "c-0"))),
    _with("c", "connectors", {"connector": "d"}),
    merged(cluster("c"), cluster("d")),
)
def test_valid_inputs(tables: Tables) -> None:
    """The bounds themselves; what is not configured, or run twice; the names of one cluster in another."""
    assert rejected(tables) == {}


def test_names_are_of_their_cluster() -> None:
    """A worker or a connector of another cluster is as unknown as any."""
    key = {"connect_cluster": "d"}
    second = cluster("d") | {
        "workers": [key | {"worker_id": "x"}],
        "reported": [],
        "connectors": [key | {"connector": "x"}],
    }
    tables = merged(cluster("c"), second, {"reported": [key | {"worker_id": "w1"} | item for item in items("c")]})
    found = rejected(tables)
    assert found.keys() == {"d"}
    assert found["d"][0] == "unknown-connector"
    assert "; reported: worker_id=w1, connector=c, task=null. " in found["d"][1]


def test_reports_without_any_worker() -> None:
    """Both faults are in the text."""
    code, text = rejected(cluster("c") | {"workers": []})["c"]
    assert code == "no-workers"
    assert f"; reported: worker_id=w1, connector=c, task=0 and 4 more. {REMEDIES['unknown-worker']}" in text


@pytest.mark.parametrize("workers", [["w1"] * 12, [None] * 12, ["w1", *["w3"] * 12, *[None] * 12]])
def test_many_equal_workers_reject_only_their_cluster(workers: list[str | None]) -> None:
    """That many equal ids would be a tree of Java's map, where they can't be ordered."""
    faulty = cluster("c") | {"workers": [{"connect_cluster": "c", "worker_id": worker} for worker in workers]}
    assert rejected(merged(faulty, cluster("b"))).keys() == {"c"}
    assert rejected(merged(faulty)).keys() == {"c"}
    assert [r for r in results(merged(faulty, cluster("b"))) if r["connect_cluster"] == "b"] == results(cluster("b"))


def test_workers_whose_ids_are_all_null() -> None:
    """No worker has a name in these facts."""
    tables = cluster("c") | {"workers": [{"connect_cluster": "c", "worker_id": None}], "reported": []}
    assert rejected(tables) == {"c": ("null-key", f"workers: worker_id=null. {REMEDIES['null-key']}")}


@pytest.mark.parametrize("worker", ["a", "zz", None])
def test_faulty_reports_belong_to_no_valid_cluster(worker: str | None) -> None:
    """Neither the cluster before nor the one after takes them for its own."""
    row = {"worker_id": worker, "kind": "task", "connector": "c", "task": 9}
    tables = merged(cluster("b"), _with("c", "reported", row), _with("d", "workers", {"worker_id": None}))
    tables = merged(tables, _with("a", "reported", row | {"worker_id": "zz"}), cluster("e"))
    assert rejected(tables).keys() == {"a", "c", "d"}
    together = {row["connect_cluster"]: row for row in results(tables)}
    for name in ("b", "e"):
        assert [together[name]] == results(cluster(name))


@cases(
    "state name",
    ({"revocation": [{"kind": "connector", "connector": None, "task": None}]}, "revocation"),
    ({"members": ["w1", None]}, "members"),
    ({"candidates": [None]}, "candidates"),
    ({"assignment": [{"kind": "task", "connector": "a", "task": -1}]}, "assignment"),
    ({"assignment": [None]}, "assignment"),
    ({"revocation": [*items("c-0"), {"kind": "connector", "connector": "a", "task": 0}]}, "revocation"),
    ({"revocation": [*items("c-0"), {"kind": None, "connector": "a", "task": None}, *items("c-1")]}, "revocation"),
)
def test_faults_of_a_state(state: dict[str, Any], name: str) -> None:
    """The text has the column. A valid state of another cluster is read."""
    memory = {"generation_id": 1, "assignment": items("c", "c-0"), "revocation": items("c-1", "c-2", "d")}
    valid = cluster("b", protocol="eager") | {"state": [{"connect_cluster": "b"} | memory]}
    tables = merged(cluster("c") | {"state": [{"connect_cluster": "c"} | state]}, valid)
    assert rejected(tables) == {"c": ("bad-state", f"state: {name}. {REMEDIES['bad-state']}")}
    [planned] = [row for row in results(tables) if row["connect_cluster"] == "b"]
    state = unfolded(planned["state"])
    assert {column: state[column] for column in memory} == memory


@pytest.mark.parametrize("size", [1_000, 32_000])
def test_a_worker_with_an_id_that_a_plan_cannot_repeat(size: int) -> None:
    """It would have the ID once for each task, in gigabytes. One of 1,000 bytes, which a snapshot can have, may."""
    tasks = [{"connect_cluster": "c", "connector": "c", "task": at} for at in range(68_000 if size == 1_000 else 2_100)]
    worker = {"connect_cluster": "c", "worker_id": "w" * size}
    tables = merged(cluster("c") | {"tasks": tasks, "reported": []}, cluster("d"), {"workers": [worker]})
    found = rejected(tables)
    if size == 1_000:
        assert found == {}
    else:
        row = "workers: an ID of 32,000 bytes, in a Connect cluster of 2,106 rows"
        assert found == {"c": ("long-worker-id", f"{row}. {REMEDIES['long-worker-id']}")}


def test_numbers_beyond_a_long_or_an_int() -> None:
    """A delay would end after the largest long; a rebalance would have a generation after the largest int; and five
    thousand workers that join one by one take too long."""
    tables = merged(cluster("c"), cluster("late", now_ms=2**63 - 1))
    assert {name: code for name, (code, _) in rejected(tables).items()} == {"late": "bad-clock"}
    joins = [
        {"connect_cluster": name, "at_ms": 5 + at, "event": "worker-joined", "subject": f"x{at}", "tasks": None}
        for name, count in (("old", 2), ("many", 5_000))
        for at in range(count)
    ]
    tables = merged(cluster("old", generation_id=2**31 - 1), cluster("many"), cluster("c"), {"events": joins})
    played = {row["connect_cluster"]: row["code"] for row in simulated(tables)}
    assert played == {"old": "bad-event", "many": "bad-event", "c": None}


def test_a_fault_of_our_own_costs_only_its_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other cluster is simulated."""
    play = simulate_clusters.simulate

    def broken(initial: Any, events: Any, *more: Any) -> Any:
        return 1 / (len(events) - 1) and play(initial, events, *more)

    monkeypatch.setattr(simulate_clusters, "simulate", broken)
    event = {"connect_cluster": "b", "at_ms": 5, "event": "worker-left", "subject": "w1", "tasks": None}
    played = simulated(merged(cluster("b"), cluster("c"), {"events": [event]}))
    found = {row["connect_cluster"]: (row["code"], row.get("detail")) for row in played}
    assert found == {"b": ("assignor-failed", "ZeroDivisionError: division by zero"), "c": (None, None)}


def test_faults_of_a_simulation() -> None:
    """A simulation may start without workers, and its leader may join later; events can be invalid."""
    empty = cluster("empty", leader="w3") | {"workers": [], "reported": []}
    events = [
        {"connect_cluster": name, "at_ms": at, "event": event, "subject": subject, "tasks": tasks}
        for name, at, event, subject, tasks in (
            ("odd", 5, "worker-gone", "w1", None),
            ("no-time", None, "worker-left", "w1", None),
            ("no-event", 5, None, "w1", None),
            ("no-subject", 5, "worker-left", None, None),
            ("fewer-than-none", 5, "tasks-changed", "c", -1),
            ("twice", 5, "worker-joined", "w1", None),
            ("no-number", 5, "tasks-changed", "c", None),
            ("endless", 5, "tasks-changed", "c", 2**31 - 1),
            ("fine", 5, "worker-left", "w1", None),
            ("fine", 6, "connector-added", "d", None),
            (None, 5, "worker-left", "w1", None),
        )
    ]
    tables = merged(empty, *map(cluster, {row["connect_cluster"] for row in events} - {None}), {"events": events})
    played = simulated(tables)
    by_code = {row["connect_cluster"]: (row["code"], row["detail"]) for row in played if row["code"]}
    assert {name: code for name, (code, _) in by_code.items()} == {
        "odd": "bad-event",
        "no-time": "null-key",
        "no-event": "null-key",
        "no-subject": "null-key",
        "fewer-than-none": "bad-event",
        "endless": "bad-event",
        "twice": "bad-event",
        "no-number": "bad-event",
        None: "null-key",
    }
    assert by_code[None][1].startswith("events: connect_cluster=null. ")
    assert by_code["odd"][1].startswith("events: at_ms=5, event=worker-gone: no such event. Use one of worker-left")
    assert by_code["no-time"][1] == f"events: at_ms=None, event=worker-left. {REMEDIES['null-key']}"
    assert by_code["no-event"][1] == f"events: at_ms=5, event=None. {REMEDIES['null-key']}"
    assert by_code["no-subject"][1].startswith("events: at_ms=5, event=worker-left, subject=null. ")
    assert by_code["fewer-than-none"][1].startswith(
        "events: at_ms=5, event=tasks-changed: tasks=-1, expected 0 to 100,000. "
    )
    assert by_code["twice"][1].startswith("events: at_ms=5, event=worker-joined: worker w1 is already a member. ")
    assert sorted(row["connect_cluster"] for row in played if not row["code"]) == ["empty", "fine"]
