"""Connect clusters in a plan and in a report, in the session of the tests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs import diff, plan, report, simulate
from spark_assign.stores.run_store import previous_run, read_run
from spark_assign.stores.targets import FolderTarget
from spark_assign.tables.groups import PLAN_TABLES
from spark_assign.tables.stored_plan import STORED_PLAN_TABLES
from tests.spark.fleets import stored, written_as_json

pytestmark = [pytest.mark.spark, pytest.mark.once]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two Connect clusters as json lines: one sound, one that lists a worker twice."""
    clock = {"protocol": "sessioned", "now_ms": 0, "generation_id": 2, "last_completed_generation_id": 1}
    keys = [{"connect_cluster": name} for name in ("good", "twice")]
    tables: dict[str, list[dict[str, Any]]] = {
        "clusters": [key | clock | {"max_delay_ms": 300_000} for key in keys],
        "connectors": [key | {"connector": "files"} for key in keys],
        "tasks": [key | {"connector": "files", "task": task} for key in keys for task in range(4)],
        "workers": [key | {"worker_id": worker} for key in keys for worker in ("w1", "w2")],
        "reported": [
            key | {"worker_id": "w1", "kind": "task", "connector": "files", "task": task}
            for key in keys
            for task in range(4)
        ],
        "state": [{"connect_cluster": "good", "generation_id": 1, "members": ["w1"], "can_revoke": True}],
    }
    tables["workers"].append({"connect_cluster": "twice", "worker_id": "w1"})
    return written_as_json(tmp_path_factory.mktemp("connect-fleet"), tables)


def test_a_folder_is_planned(
    spark: SparkSession, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A summary, the tables, and exit code 1 for the faulty cluster if asked for."""
    arguments = ["--output", str(tmp_path), "--run-id", "r", "--output-format", "json", "--fail-on", "rejected"]
    assert plan.main(["--fleet", str(folder), *arguments]) == 1
    printed = capsys.readouterr().out
    assert (
        "Plan r: 1 Connect cluster planned, 1 rejected: 2 workers, 1 connector, 4 tasks; 1 assigned, 2 revoked"
        in printed
    )
    assert "twice: duplicate-worker: workers: worker_id=w1." in printed
    revoked = stored(tmp_path, "connect_revoked")
    assert [(row["worker_id"], row["kind"], row["connector"], row["task"]) for row in revoked] == [
        ("w1", "task", "files", task) for task in (0, 1)
    ]


def test_groups_cannot_change_where_there_are_none(
    spark: SparkSession, folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A change of groups is refused for an input with Connect clusters only."""
    arguments = ["--fleet", str(folder), "--output", str(tmp_path / "out"), "--what-if", "leave:*:1"]
    assert plan.main(arguments) == 2
    assert "--what-if leave:*:1 changes groups, but the input has only Connect clusters" in caplog.text


def test_a_plan_without_groups_is_no_previous_one(
    spark: SparkSession, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Changes since a plan of only Connect clusters are those since the plan before, also if Spark reads the runs."""
    output = str(tmp_path / "plans")
    assert plan.main(["--fleet", str(folder), "--output", output, "--run-id", "1"]) == 0
    assert previous_run(spark, output, "2") is None
    assert plan.main(["--sample", "--group", "orders-service", "--output", output, "--run-id", "2"]) == 0
    assert diff.main(["--before", "previous", "--after", f"{output}@2"]) == 0
    assert "From no earlier run to" in capsys.readouterr().out
    assert previous_run(spark, output, "3") == "2"
    groups_only_in_metrics = ["--sample", "--output-tables", "moves", "--run-id", "3"]
    assert plan.main([*groups_only_in_metrics, "--output", output]) == 0
    assert previous_run(spark, output, "4") == "3"
    assert plan.main(["--sample", "--output", output, "--run-id", "4"]) == 0
    assert diff.main(["--before", "previous", "--after", f"{output}@4"]) == 2  # run 3 lacks assignment_slices
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FolderTarget, "manifest_rows", lambda _: None)
        assert [previous_run(spark, output, run_id) for run_id in ("2", "3", "4")] == [None, "2", "3"]


def test_groups_of_every_kind_in_one_run(
    spark: SparkSession,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each kind has tables of its own, also if streams groups and Connect clusters both have a table `tasks`."""
    key = {"cluster": "c"}
    member = {"member_id": "m"}
    tables: dict[str, list[dict[str, Any]]] = {
        "topics": [{"topic": "t", "partitions": 2}],
        "groups": [
            {"group_id": name, "group_type": kind, "assignor": "range"}
            for name, kind in (("k", "classic"), ("s", "share"), ("app", "streams"))
        ],
        "members": [{"group_id": name} | member for name in ("k", "s", "app")],
        "subscriptions": [{"group_id": name, "topic": "t"} | member for name in ("k", "s")],
        "subtopologies": [{"group_id": "app", "subtopology": "0", "partitions": 2, "stateful": False}],
        "tasks": [{"group_id": "app", "subtopology": "0", "task": 0, "role": "active"} | member],
    }
    fleet, output, page = tmp_path / "fleet", str(tmp_path / "plans"), tmp_path / "page.html"
    (fleet / "connect_cluster=good").mkdir(parents=True)
    for file in folder.glob("*.json"):
        (fleet / "connect_cluster=good" / file.name).write_text(file.read_text())
    (fleet / "cluster=c").mkdir()
    written_as_json(fleet / "cluster=c", {name: [key | row for row in rows] for name, rows in tables.items()})
    arguments = ["--fleet", str(fleet), "--output", output, "--run-id", "r", "--fail-on", "rejected"]
    assert plan.main(arguments) == 1  # the Connect cluster that lists a worker twice
    printed = capsys.readouterr().out
    assert "Plan r: 1 group planned, 0 rejected, 1 member, 2 partitions assigned" in printed
    assert "\n\n1 share group planned, 0 rejected" in printed
    assert "\n\n1 Streams group planned, 0 rejected" in printed
    assert "\n\n1 Connect cluster planned, 1 rejected" in printed
    assert "\n  good: planned as 3.6.1 to 4.4, because the release is unknown\n" in printed
    stored_plan = read_run(spark, output, "r")
    assert set(stored_plan.tables) == set(PLAN_TABLES)  # readers of consumer groups don't see the other kinds
    assert set(stored_plan.manifest.rows) == set(STORED_PLAN_TABLES)
    assert report.main(["--plan", f"{output}@r", "--output-file", str(page), "--fail-on", "rejected"]) == 1
    assert "duplicate-worker" in page.read_text()
    assert plan.main(["--fleet", str(fleet / "cluster=c"), "--output", output, "--run-id", "groups"]) == 0
    assert report.main(["--connect", f"{output}@groups", "--output-file", str(page)]) == 2
    assert "the run is a plan without Connect clusters" in caplog.text


def test_events_of_a_fleet_are_simulated(
    spark: SparkSession, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A worker leaves: eager stops everything, sessioned waits; tables are stored, and a faulty cluster is listed."""
    events = tmp_path / "events.csv"
    events.write_text("connect_cluster,at_ms,event,subject,tasks\ngood,60000,worker-left,w2,\n")
    words = ["--fleet", str(folder), "--connect-events", str(events)]
    protocols = ["--compare-protocol", "eager", "--compare-protocol", "sessioned"]
    place = tmp_path / "simulated"
    assert simulate.main([*words, *protocols, "--output", str(place), "--output-format", "json", "--run-id", "r"]) == 0
    printed = capsys.readouterr().out
    assert "twice: duplicate-worker" in printed
    costs = {row["protocol"]: row for row in stored(place, "costs")}
    assert sorted(costs) == ["eager", "sessioned"]
    assert costs["eager"]["task_stops"] == 4
    for hostile, problem in (
        (f"good,{2**63 - 1},worker-left,w2,\n", "a time, or a sum of times, is beyond"),
        ("good,1,tasks-changed,files,100000\n" * 50, "expected a product of at most 200,000,000"),
    ):
        events.write_text(f"connect_cluster,at_ms,event,subject,tasks\n{hostile}")
        assert simulate.main(words) == 0
        assert re.search(f"good: bad-event: events: .*{problem}", capsys.readouterr().out)
    for more, problem in (
        (["--compare"], "--compare can't be used with --connect-events."),
        (["--variant", "static"], "--variant can't be used with --connect-events."),
    ):
        assert simulate.main([*words, *more, "--outcome", str(tmp_path / "outcome.json")]) == 2
        assert problem in (tmp_path / "outcome.json").read_text()
