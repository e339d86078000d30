"""Converts rows of a ConnectFleet's tables to facts without Spark; and faulty clusters."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from spark_assign.connect.kernel.indexed_facts import to_facts
from spark_assign.connect.kernel.plan_clusters import plan_clusters
from spark_assign.connect.kernel.simulate_clusters import simulate_clusters
from spark_assign.connect.kernel.simulated_cluster import ConnectTiming
from spark_assign.connect.plan import PLAN_ROWS
from spark_assign.connect.simulate import SIMULATION_ROWS
from spark_assign.tables.connect import COSTS, DELAYS, METRICS, REBALANCES, STATE

Tables = dict[str, list[dict[str, Any]]]
Result = dict[str, Any]
AT_ONCE = ConnectTiming(0, 0, 0)
PLAN_SCHEMA, SIMULATION_SCHEMA = to_arrow_schema(PLAN_ROWS), to_arrow_schema(SIMULATION_ROWS)


def results(tables: Tables) -> list[Result]:
    """Plans the clusters of the tables; returns a result per cluster: its rows by kind, delays, code, and detail."""
    table = pa.concat_tables(plan_clusters(to_facts(tables), PLAN_SCHEMA))
    assert table.schema == PLAN_SCHEMA
    found: dict[str | None, Result] = {}
    for row in table.to_pylist():
        name, kind = row["connect_cluster"], row["kind"]
        empty = {"connect_cluster": name, "assigned": [], "revoked": [], "code": None, "detail": None}
        result = found.setdefault(name, empty)
        if kind == "rejected":
            result |= {column: row[column] for column in ("code", "detail")}
        elif kind == "state":
            result["state"] = {column: row[column] for column in STATE.names[1:]}
        elif kind == "metrics":
            result["metrics"] = {column: row[column] for column in METRICS.names[1:]}
            result |= {column: row[column] for column in DELAYS.names[1:]}
        else:
            result[kind].append({column: row[column] for column in ("worker_id", "items")})
    return list(found.values())


def simulated(
    tables: Tables, protocols: tuple[str, ...] | None = None, timing: ConnectTiming = AT_ONCE
) -> list[Result]:
    """Simulates the clusters of the tables; returns rebalances, costs, code, and detail per cluster and protocol."""
    table = pa.concat_tables(simulate_clusters(to_facts(tables), SIMULATION_SCHEMA, protocols, timing))
    assert table.schema == SIMULATION_SCHEMA
    rows = table.to_pylist()
    costs = [row for row in rows if row["kind"] == "costs"]
    rebalances = iter([row for row in rows if row["kind"] == "rebalances"])
    key = ("connect_cluster", "protocol")
    return [{c: row[c] for c in ("connect_cluster", "code", "detail")} for row in rows if row["kind"] == "rejected"] + [
        {column: row[column] for column in key}
        | {"code": None, "costs": {column: row[column] for column in COSTS.names[2:]}}
        | {"rebalances": [_columns(next(rebalances), row, key) for _ in range(row["rebalances"])]}
        for row in costs
    ]


def _columns(rebalance: Result, cost: Result, key: tuple[str, ...]) -> Result:
    assert [rebalance[column] for column in key] == [cost[column] for column in key]
    return {column: rebalance[column] for column in REBALANCES.names[2:]}


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
        lists[name] = [
            {"kind": "connector" if task is None else "task", "connector": connector, "task": task}
            for connector, task in [(row["connector"], task) for row in state[name] for task in row["tasks"]]
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
