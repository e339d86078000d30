"""Converts rows of a ConnectFleet's tables to facts without Spark; and faulty clusters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from spark_assign.connect.kernel import indexed_facts as kinds

Tables = dict[str, list[dict[str, Any]]]

FACTS = pa.schema(
    [
        ("connect_cluster", pa.string()),
        ("kind", pa.int8()),
        ("name", pa.string()),
        ("connector", pa.string()),
        ("task", pa.int32()),
        ("position", pa.int32()),
        ("names", pa.string()),
        ("numbers", pa.string()),
        ("items", pa.list_(pa.struct([("kind", pa.string()), ("connector", pa.string()), ("task", pa.int32())]))),
    ]
)
_CLOCK = ("now_ms", "generation_id", "last_completed_generation_id", "max_delay_ms")
_STATE = (
    *("revoked_in_previous", "can_revoke", "scheduled_rebalance_ms", "delay_ms", "generation_id"),
    *("successive_revoking_rebalances",),
)


def facts(tables: Tables) -> pa.Table:
    """Returns the facts as `connect.plan.gather_facts` and `connect.simulate` do."""
    rows: list[dict[str, Any]] = []

    def add(kind: int, row: dict[str, Any], **columns: Any) -> None:
        rows.append({"connect_cluster": row["connect_cluster"], "kind": kind} | columns)

    for row in tables.get("clusters", ()):
        add(kinds.CLUSTER, row, name=row.get("leader"), names=row["protocol"], numbers=_listed(row, _CLOCK))
    for row in tables.get("connectors", ()):
        add(kinds.CONNECTOR, row, connector=row["connector"])
    for row in tables.get("tasks", ()):
        add(kinds.TASK, row, connector=row["connector"], task=row["task"])
    for row in tables.get("workers", ()):
        add(kinds.WORKER, row, name=row["worker_id"], position=row.get("position"))
    for row in tables.get("reported", ()):
        item = {name: row.get(name) for name in ("connector", "task", "position")}
        add(kinds.REPORTED if _fits(row) else kinds.FAULTY, row, name=row["worker_id"], **item)
    for row in tables.get("state", ()):
        _add_state(add, row)
    for row in tables.get("events", ()):
        column = "name" if row["event"] and row["event"].startswith("worker-") else "connector"
        numbers = _listed(row, ("at_ms", "tasks"))
        add(kinds.EVENT, row, names=row["event"], numbers=numbers, **{column: row["subject"]})
    return pa.Table.from_pylist(rows, schema=FACTS)


def _add_state(add: Any, row: dict[str, Any]) -> None:
    add(kinds.STATE, row, numbers=_listed(row, _STATE))
    for name, kind in (("assignment", kinds.ASSIGNMENT), ("revocation", kinds.REVOCATION)):
        if items := row.get(name):
            add(kind, row, items=items)
    for name, kind in (("members", kinds.MEMBER), ("candidates", kinds.CANDIDATE)):
        for position, worker in enumerate(row.get(name) or []):
            if worker is None:
                add(kinds.FAULTY, row, names=name, position=position)
            else:
                add(kind, row, name=worker, position=position)


def _fits(row: dict[str, Any]) -> bool:
    task = row.get("task")
    return task is None if row["kind"] == "connector" else row["kind"] == "task" and task is not None and task >= 0


def _listed(row: dict[str, Any], columns: Iterable[str]) -> str:
    return ",".join("" if row.get(name) is None else str(int(row[name])) for name in columns)


def items(*names: str) -> list[dict[str, Any]]:
    """Connectors and tasks from their names: `c` and `c-0`."""
    found = []
    for name in names:
        connector, _, task = name.rpartition("-")
        if connector:
            found.append({"kind": "task", "connector": connector, "task": int(task)})
        else:
            found.append({"kind": "connector", "connector": name, "task": None})
    return found


def unfolded(state: dict[str, Any]) -> dict[str, Any]:
    """Returns a state of a result with its items as in the plan's table."""
    lists = {}
    for name in ("assignment", "revocation"):
        every = [(row["connector"], task) for row in state[name] for task in row["tasks"]]
        lists[name] = [
            {"kind": "connector" if task is None else "task", "connector": connector, "task": task}
            for connector, task in every
        ]
    return state | lists


def merged(*tables: Tables) -> Tables:
    """The rows of several clusters."""
    every: Tables = defaultdict(list)
    for row in tables:
        for name, rows in row.items():
            every[name] += rows
    return every


def cluster(name: str | None, **more: Any) -> Tables:
    """A Connect cluster w1, w2 with connector c and its tasks 0 to 3, which all run on w1."""
    key = {"connect_cluster": name}
    clock = {"protocol": "sessioned", "now_ms": 1, "generation_id": 2, "last_completed_generation_id": 1}
    return {
        "clusters": [key | clock | {"max_delay_ms": 300_000} | more],
        "connectors": [key | {"connector": "c"}],
        "tasks": [key | {"connector": "c", "task": task} for task in range(4)],
        "workers": [key | {"worker_id": worker} for worker in ("w1", "w2")],
        "reported": [key | {"worker_id": "w1"} | item for item in items("c", "c-0", "c-1", "c-2", "c-3")],
        "state": [key | {"generation_id": 1}],
    }


SEVERE = (
    *("bad-clock", "bad-item", "bad-state", "bad-task", "duplicate-cluster", "duplicate-connector"),
    *("duplicate-reported", "duplicate-state", "duplicate-task", "duplicate-worker", "no-workers"),
    *("unknown-cluster", "unknown-connector", "unknown-leader", "unknown-protocol", "unknown-worker"),
)
CODES: dict[str | None, str] = (
    dict(zip(SEVERE, SEVERE, strict=True))
    | dict.fromkeys((None, "null-protocol", "null-task"), "null-key")
    | {"several": "duplicate-worker"}
)
"""The most severe code of each faulty cluster."""


def faulty_clusters() -> Tables:
    """Returns one valid cluster, `fine`, and many with a fault, named after it."""
    made: dict[str, Tables] = {name: cluster(name) for name in (*filter(None, CODES), "fine")}
    made["bad-clock"] = cluster("bad-clock", now_ms=-1)
    made["unknown-protocol"] = cluster("unknown-protocol", protocol="range")
    made["null-protocol"] = cluster("null-protocol", protocol=None)
    made["unknown-leader"] = cluster("unknown-leader", leader="w3")
    made["unknown-cluster"]["clusters"] = []
    made["no-workers"] |= {"workers": [], "reported": []}
    for name, table, row in (
        ("bad-item", "reported", {"worker_id": "w1", "kind": "tasks", "connector": "c"}),
        ("bad-task", "tasks", {"connector": "c", "task": -2}),
        ("duplicate-connector", "connectors", {"connector": "c"}),
        ("duplicate-reported", "reported", {"worker_id": "w1", "kind": "connector", "connector": "c"}),
        ("duplicate-state", "state", {}),
        ("duplicate-task", "tasks", {"connector": "c", "task": 0}),
        ("duplicate-worker", "workers", {"worker_id": "w1"}),
        ("null-task", "tasks", {"connector": "c", "task": None}),
        ("several", "workers", {"worker_id": "w1"}),
        ("several", "reported", {"worker_id": "w9", "kind": "task", "connector": "c", "task": 0}),
        ("unknown-connector", "tasks", {"connector": "d", "task": 0}),
        ("unknown-worker", "reported", {"worker_id": "w9", "kind": "task", "connector": "c", "task": 0}),
    ):
        made[name][table].append({"connect_cluster": name} | row)
    made["duplicate-cluster"]["clusters"] *= 2
    made["bad-state"]["state"][0]["assignment"] = [{"kind": "task", "connector": "c", "task": None}]
    tables = merged(*made.values())
    for table in ("connectors", "workers"):
        tables[table].append({"connect_cluster": None, "connector": "c", "worker_id": "w1"})
    return tables
