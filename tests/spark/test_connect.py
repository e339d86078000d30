"""Connect clusters through Spark: every recorded round in one call, faulty clusters, and the order of rows."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_assign.connect import ConnectFleet, plan_connect, simulate_connect
from spark_assign.connect.plan import _flatten_items
from spark_assign.connect.simulate import ninety_by_ten
from spark_assign.tables.connect import CLUSTERS, COSTS, PLAN_TABLES, REBALANCES
from spark_assign.tables.errors import ConfigError, FleetError
from tests.frames import dataframe, scenario_tables
from tests.golden import connect_rows, connect_tables
from tests.golden.connect_rows import Row, calls_assignor
from tests.golden.connect_scripts import totals
from tests.spark.fleets import assert_declared
from tests.unit.connect_facts import CODES, faulty_clusters


def expected(row: Row) -> dict[str, Any]:
    """What was recorded and stands in a table of the plan; workers without a share are left out."""
    recorded = connect_rows.expected(row)
    want = {name: recorded[name] for name in ("delay_ms", "state") if name in recorded}
    for name in ("assigned", "revoked"):
        shares = {worker: {kind: set(each) for kind, each in kinds.items()} for worker, kinds in recorded[name].items()}
        want[name] = {worker: kinds for worker, kinds in shares.items() if any(kinds.values())}
    return want


@pytest.mark.spark
def test_every_recorded_round_in_one_call(spark: SparkSession, seed: int) -> None:
    """Zero differences in assigned, revoked, delay and state; the rows shuffled; beside them faulty clusters.

    Every round in which an assignor was asked; what happens in the others is in `test_golden_connect`.
    """
    every = connect_rows.rounds("connect", "connect-2.6")
    rows = [row for row in every if calls_assignor(row)]
    assert (len(rows), len(every) - len(rows)) == (7_310, 71 + 24)  # the leader that is behind asks no assignor
    rows = rows[:: int(os.environ.get("SPARK_ASSIGN_TEST_EVERY", "1"))]
    tables = connect_tables.tables_of(rows)
    broken = faulty_clusters()
    for name, lines in broken.items():
        tables[name] += lines
    for lines in tables.values():
        random.Random(seed).shuffle(lines)
    plan = plan_connect(connect_tables.fleet_of(spark, tables))
    answers = connect_tables.planned(plan)
    wrong = []
    for row in rows:
        want, got = expected(row), answers.pop(connect_tables.name_of(row))
        state = got.pop("state")
        if "state" in want:
            got["state"] = {name: state[name] for name in want["state"]}
        if got != want:
            wrong.append(connect_tables.name_of(row))
    assert not wrong, f"{len(wrong)} rounds differ, e.g. {wrong[:5]}"
    assert set(answers) == {"fine"}

    rejected = {row["connect_cluster"]: row for row in plan.rejected.collect()}
    assert {name: row["code"] for name, row in rejected.items()} == CODES
    assert rejected["duplicate-task"]["detail"] == "tasks: connector=c, task=0. Keep one row per connector and task"
    assert rejected["several"]["detail"].startswith("workers: worker_id=w1. Keep one row per worker; reported: ")
    assert rejected[None]["detail"].startswith("connectors: connect_cluster=null and 1 more")
    metrics = {row["connect_cluster"]: row.asDict() for row in plan.metrics.collect()}
    assert metrics.keys() == {*map(connect_tables.name_of, rows), "fine"}
    assert metrics["fine"] == FIGURES
    assert_declared(plan, PLAN_TABLES)
    plan.unpersist()


FIGURES: dict[str, Any] = {"connect_cluster": "fine", "protocol": "sessioned", "rules": "3.5.2"}
FIGURES |= {"rules_note": "as 3.6.1 to 4.4, because the release is unknown", "note": None}
FIGURES |= {"workers": 2, "connectors": 1, "tasks": 4}
FIGURES |= {"assigned": 0, "revoked": 2, "lost": 0, "waiting": 0, "max_waiting": None, "max_delay_ms": None}
FIGURES |= {f"min_{what}_{when}": 0 for what in ("connectors", "tasks") for when in ("before", "after")}
FIGURES |= {"max_connectors_before": 1, "max_connectors_after": 1, "max_tasks_before": 4, "max_tasks_after": 2}


@pytest.mark.spark
def test_tables_are_checked_at_once(spark: SparkSession) -> None:
    """A missing column and a wrong type are named; optional columns and tables may be left out."""
    tables = {
        "clusters": "connect_cluster string, protocol string, now_ms bigint, generation_id int, "
        "last_completed_generation_id int, max_delay_ms int",
        "connectors": "connect_cluster string, connector string",
        "tasks": "connect_cluster string, connector string, task bigint",
        "workers": "connect_cluster string, worker_id string",
        "reported": "connect_cluster string, worker_id string, kind string, connector string, task int",
    }
    frames = {name: spark.createDataFrame([], schema) for name, schema in tables.items()}
    fleet = ConnectFleet(**frames)
    assert fleet.workers.columns == ["connect_cluster", "worker_id", "position"]
    with pytest.raises(FleetError) as error:
        ConnectFleet(**frames | {"tasks": frames["connectors"], "state": spark.range(1)})
    assert [(fault.table, fault.column) for fault in error.value.faults] == [
        ("tasks", "task"),
        ("state", "connect_cluster"),
    ]
    with pytest.raises(FleetError, match=r"state\.members: the type is string, expected array<string>"):
        ConnectFleet(**frames, state=spark.createDataFrame([], "connect_cluster string, members string"))


PUBLISHED = {
    "eager": {"rebalances": 185, "stopped": 92_565, "started": 93_060},
    "sessioned": {"rebalances": 278, "stopped": 1_451, "started": 1_946},
    "compatible-2.6": {"rebalances": 278, "stopped": 1_236, "started": 1_732},
}


@pytest.mark.spark
def test_the_90x10_scenario_and_faulty_events(spark: SparkSession) -> None:
    """The published totals of all three systems in one call; beside it clusters whose events cannot happen."""
    fleet, events = scenario_tables(spark, ninety_by_ten())
    clocks = [
        ("early", "sessioned", 1_000, 1, 0, 1),
        ("odd", "sessioned", 0, 1, 0, 1),
        ("calm", "sessioned", 0, 1, 0, 1),
    ]
    clusters = dataframe(spark, StructType(CLUSTERS.fields[:-3]), clocks)
    fleet = replace(fleet, clusters=fleet.clusters.unionByName(clusters, allowMissingColumns=True))
    more = [("early", 5, "worker-joined", "w"), ("odd", 5, "worker-gone", "w"), ("stray", 5, "worker-left", "w")]
    more_events = dataframe(spark, "connect_cluster string, at_ms bigint, event string, subject string", more)
    events = events.unionByName(more_events, allowMissingColumns=True)
    played = simulate_connect(
        fleet, events, start_ms=2_000, stop_ms=1_000, rebalance_ms=500, protocols=tuple(PUBLISHED)
    )
    rounds = [row.asDict() for row in played.rebalances.collect()]
    costs = {(row["connect_cluster"], row["protocol"]): row.asDict() for row in played.costs.collect()}
    for protocol, total in PUBLISHED.items():
        sums = totals(row for row in rounds if row["protocol"] == protocol)
        cost = costs["90x10", protocol]
        assert {name: sums[name] for name in total} == total, protocol
        assert cost["connector_stops"] + cost["task_stops"] == total["stopped"]
        assert costs["calm", protocol]["rebalances"] == 0
    waited = {protocol: costs["90x10", protocol]["task_ms_not_running"] for protocol in PUBLISHED}
    assert waited["eager"] > waited["sessioned"] > 2 * 225 * 300_000
    assert {row["connect_cluster"]: row["code"] for row in played.rejected.collect()} == {
        "early": "bad-event",
        "odd": "bad-event",
        "stray": "unknown-cluster",
    }
    assert (played.rebalances.columns, played.costs.columns) == (REBALANCES.names, COSTS.names)
    played.unpersist()


@pytest.mark.spark
def test_wrong_arguments_of_a_simulation(spark: SparkSession) -> None:
    """Each is named before anything runs."""
    fleet, events = scenario_tables(spark, ninety_by_ten(1, 1))
    times = {"start_ms": 0, "stop_ms": 0, "rebalance_ms": 0}
    with pytest.raises(ConfigError, match=r"sticky: no such protocol\. Use one of eager, compatible"):
        simulate_connect(fleet, events, **times, protocols=["sticky"])
    with pytest.raises(ConfigError, match="stop_ms is -1"):
        simulate_connect(fleet, events, **times | {"stop_ms": -1})
    with pytest.raises(FleetError, match=r"events\.subject: the column is missing"):
        simulate_connect(fleet, events.drop("subject"), **times)


@pytest.mark.spark
def test_the_state_of_a_connector_with_many_tasks(spark: SparkSession) -> None:
    """No item has the whole list of tasks, which would be 2.5 billion numbers."""
    listed = F.array(F.struct(F.lit("c").alias("connector"), F.sequence(F.lit(0), F.lit(49_999)).alias("tasks")))
    items = spark.range(1).select(listed.alias("assignment")).select(F.explode(_flatten_items("assignment")).alias("i"))
    counted = items.select("i.*").groupBy("kind", "connector").agg(F.count_distinct("task"), F.max("task"))
    assert [tuple(row) for row in counted.collect()] == [("task", "c", 50_000, 49_999)]
