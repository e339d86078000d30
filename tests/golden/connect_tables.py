"""Recorded rounds of Kafka Connect as one ConnectFleet, every round a Connect cluster: one Spark call plans all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark_assign.connect import ConnectFleet, ConnectPlan
from spark_assign.spark.dataframes import dataframe_of_rows
from spark_assign.tables.connect import INPUT_TABLES
from tests.frames import merged
from tests.golden.connect_rows import Listed, Row

VERSIONS = {"connect-cooperative-2.6": "3.2.3"}
"""Release of the workers, by the system that was recorded; null for today's."""
Tables = dict[str, list[dict[str, Any]]]


def name_of(row: Row) -> str:
    """The Connect cluster that a round becomes."""
    return f"{row['system']}/{row['sequence']}/{row['round']}"


def items(listed: Listed) -> list[dict[str, Any]]:
    """Connectors and tasks as kind, connector and task."""
    tasks = [item.rpartition("-") for item in listed["tasks"]]
    return [
        *({"kind": "connector", "connector": name, "task": None} for name in listed["connectors"]),
        *({"kind": "task", "connector": name, "task": int(number)} for name, _, number in tasks),
    ]


def table_rows(row: Row) -> Tables:
    """One round as rows of the fleet's tables, orders included."""
    key = {"connect_cluster": name_of(row)}
    sessioned = "sessioned" if row["protocol_version"] == 2 else "compatible"
    clock = {name: row[name] for name in ("now_ms", "max_delay_ms", "leader")} | {
        "protocol": "eager" if row["system"] == "connect-eager" else sessioned,
        "version": VERSIONS.get(row["system"]),
        "generation_id": row["generation"],
        "last_completed_generation_id": row["last_completed_generation"],
    }
    tables: Tables = {
        "clusters": [key | clock],
        "connectors": [key | {"connector": n} for n in row["configured"]],
        "tasks": [
            key | {"connector": i["connector"], "task": i["task"]}
            for t in row["configured"].values()
            for i in items({"connectors": [], "tasks": t})
        ],
        "workers": [key | {"worker_id": w, "position": a} for a, w in enumerate(row["member_order"])],
        "reported": [
            key | {"worker_id": o, "position": x} | e for o, s in row["members"].items() for x, e in enumerate(items(s))
        ],
        "state": [],
    }
    if "previous" in row:
        before = row["previous"]
        state = {name: items(before[name]) for name in ("assignment", "revocation")}
        state |= {"generation_id": before["generation"]}
        state |= {name: value for name, value in before.items() if name not in (*state, "generation")}
        tables["state"] = [key | state]
    return tables


def tables_of(rows: Iterable[Row]) -> Tables:
    """Many rounds as rows of the tables."""
    return merged(map(table_rows, rows))


def fleet_of(spark: SparkSession, tables: Tables) -> ConnectFleet:
    """Rows of tables as a fleet."""
    return ConnectFleet(**{name: dataframe(spark, name, rows) for name, rows in tables.items()})


def dataframe(spark: SparkSession, name: str, rows: list[dict[str, Any]]) -> DataFrame:
    """Rows of one table; columns that they lack are null."""
    return dataframe_of_rows(spark, rows, INPUT_TABLES[name])


def planned(plan: ConnectPlan) -> dict[str, dict[str, Any]]:
    """What was planned for each round, as `connect_rows.expected` has it; workers without a share are left out."""
    results: dict[str, dict[str, Any]] = {}
    for row in plan.delays.toArrow().to_pylist():
        results[row["connect_cluster"]] = {"assigned": {}, "revoked": {}, "delay_ms": row["delay_ms"]}
    for name in ("assigned", "revoked"):
        for row in getattr(plan, name).toArrow().to_pylist():
            kinds = results[row["connect_cluster"]][name].setdefault(
                row["worker_id"], {"connectors": set(), "tasks": set()}
            )
            _add(kinds, row)
    for row in plan.state.toArrow().to_pylist():
        state = {name: value for name, value in row.items() if name not in ("connect_cluster", "generation_id")}
        for name in ("assignment", "revocation"):
            state[name] = {"connectors": set(), "tasks": set()}
            for item in row[name]:
                _add(state[name], item)
        results[row["connect_cluster"]]["state"] = state | {
            "generation": row["generation_id"],
            "members": set(row["members"]),
        }
    return results


def _add(kinds: dict[str, set[str]], item: dict[str, Any]) -> None:
    kind = kinds["connectors" if item["kind"] == "connector" else "tasks"]
    name = item["connector"] if item["kind"] == "connector" else f"{item['connector']}-{item['task']}"
    assert name not in kind, f"{name} comes twice"
    kind.add(name)
