"""plan_streams on a fleet: what if, rows in any order, what is refused where; and the job."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs import check as check_job
from jobs import compare as compare_job
from jobs import diff as diff_job
from jobs import plan as plan_job
from jobs import report as report_job
from spark_assign import ConfigError, Fleet, FleetError, plan
from spark_assign.groups.alerts import streams_alerts
from spark_assign.report.share_and_streams import streams_rows, summarize_streams_plan
from spark_assign.simulation import Settings
from spark_assign.streams import plan_streams, simulate_streams
from spark_assign.tables.groups import INPUT_TABLES
from spark_assign.tables.simulation import EVENTS, GROUP_SETTINGS, MEMBER_SETTINGS
from tests.frames import frame_of
from tests.spark import fleets
from tests.spark.fleets import shuffled, stored, tuples, written_as_json

pytestmark = pytest.mark.spark

NOTHING = (None,) * 7
ROWS: dict[str, list[tuple[Any, ...]]] = {
    "members": [("c", "app", name, *NOTHING, process) for name, process in (("a", "p"), ("b", "q"))],
    "groups": [("c", "app", None, "streams", None, None, None, None, 1), ("c", "others", "range", "consumer")],
    "subtopologies": [("c", "app", "0", 2, True), ("c", "app", "1", 1, False), ("c", "faulty", "0", -1, True)],
    "tasks": [
        ("c", "app", "a", "0", 0, "active", 7),
        ("c", "app", "a", "0", 1, "active"),
        ("c", "app", "b", "0", 1, "standby"),
    ],
}
ROWS["members"] += [("c", "faulty", "m"), ("c", "others", "m")]


@pytest.fixture(scope="module")
def fleet(spark: SparkSession) -> Fleet:
    """An application of two processes, a faulty one, and a consumer group."""
    return fleets.fleet(spark, **ROWS)


def test_a_plan(fleet: Fleet) -> None:
    """Every streams group is planned or rejected; others are not there."""
    planned = plan_streams(fleet)
    assert tuples(planned.tasks, "group_id", "member_id", "subtopology", "task", "role") == [
        ("app", "a", "0", 0, "active"),
        ("app", "a", "0", 1, "active"),
        ("app", "b", "0", 0, "standby"),
        ("app", "b", "0", 1, "standby"),
        ("app", "b", "1", 0, "active"),
    ]
    moved = tuples(planned.moves, "subtopology", "task", "role", "from_member_id", "to_member_id", "reason", "state")
    assert moved == [("0", 0, "standby", None, "b", "new", "none"), ("1", 0, "active", None, "b", "new", None)]
    assert tuples(planned.metrics, "group_id", "assignor", "members", "tasks") == [("app", "streams-sticky", 2, 3)]
    assert tuples(planned.rejected, "group_id", "code") == [("faulty", "bad-subtopology")]
    planned.unpersist()


def test_what_if(fleet: Fleet) -> None:
    """A member leaves, one joins, more standbys are wanted; all of it is asked of the same fleet."""
    left = plan_streams(fleet.with_members_left(group_id="app", member_id="a"))
    names = ("subtopology", "task", "role", "from_member_id", "to_member_id", "reason", "state", "changelog_offset")
    assert tuples(left.moves, *names) == [
        ("0", 0, "active", "a", "b", "member-left", "none", None),
        ("0", 1, "active", "a", "b", "member-left", "member", None),
        ("0", 1, "standby", "b", None, "promoted", None, None),
        ("1", 0, "active", None, "b", "new", None, None),
    ]
    joined = plan_streams(fleet.with_members_joined(group_id="app", count=1), standby_replicas=0)
    figures = ("members", "processes", "standby_replicas", "max_active", "max_standby", "moved_active")
    assert tuples(joined.metrics, *figures) == [(3, 3, 0, 1, 0, 1)]
    assert plan_streams(fleet.filter_groups(fleet.groups.where("group_id = 'others'"))).metrics.count() == 0  # type: ignore[union-attr]


def test_rows_in_any_order(fleet: Fleet, seed: int) -> None:
    """And in any number of partitions."""
    one, other = plan_streams(fleet), plan_streams(shuffled(fleet, seed))
    assert tuples(one.rows) == tuples(other.rows)


def test_plan_refuses_them_and_says_where_to_go(fleet: Fleet) -> None:
    """By the type of the group, or by its subtopologies."""
    rows = tuples(plan(fleet, "range").rejected)
    assert [(group, code) for _, group, code, _ in rows] == [("app", "streams-group"), ("faulty", "streams-group")]
    assert "spark-assign plan" in rows[0][3]


def test_what_cannot_be_planned_at_all(spark: SparkSession, fleet: Fleet) -> None:
    """Tables, names and numbers that are wrong."""
    with pytest.raises(ConfigError, match=r"streams-sticky@4\.3"):
        plan_streams(fleet, "sticky")
    with pytest.raises(ConfigError, match="-1"):
        plan_streams(fleet, standby_replicas=-1)
    alone = {name: ROWS[name] for name in ("members", "groups")}
    with pytest.raises(FleetError, match=r"subtopologies\.\*: the table is missing"):
        plan_streams(fleets.fleet(spark, **alone))
    with pytest.raises(FleetError, match=r"subtopologies\.\*: the table is missing, but tasks is given"):
        fleets.fleet(spark, **alone, tasks=ROWS["tasks"])
    nameless = fleets.fleet(spark, **{**ROWS, "subtopologies": [("c", None, "0", 1, True)]})
    with pytest.raises(FleetError, match=r"subtopologies\.group_id: null in a key"):
        plan_streams(nameless)


P, Q = "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"
_GROUP = {"cluster": "c", "group_id": "orders"}
CLASSIC: dict[str, list[dict[str, Any]]] = {
    "topics": [{"cluster": "c", "topic": "t", "partitions": 2}],
    "subscriptions": [],
    "groups": [
        _GROUP
        | {"group_type": "classic", "assignor": "stream", "streams_config": ["probing.rebalance.interval.ms=60000"]}
    ],
    "members": [_GROUP | {"member_id": name, "process_id": process} for name, process in (("a", Q), ("b", P))],
    "subtopologies": [_GROUP | {"subtopology": "0", "source_topics": ["t"], "changelog_topics": ["l"]}],
    "tasks": [
        *(_GROUP | {"member_id": "a", "subtopology": "0", "task": at, "role": "active"} for at in range(2)),
        _GROUP | {"member_id": "b", "subtopology": "0", "task": 1, "changelog_offset": 900_000},
    ],
    "changelogs": [
        _GROUP | {"topic": "l", "partition": at, "end_offset": 1_000_000, "bytes": 4_000_000_000} for at in range(2)
    ],
}
"""A classic application of two processes; a runs both tasks, and b has most of the state of one."""


def test_a_classic_application(spark: SparkSession, seed: int) -> None:
    """As it is, after a has left, and followed until all is in its place; its leader plans it, and not `plan`."""
    orders = Fleet(**{name: frame_of(spark, INPUT_TABLES[name], rows) for name, rows in CLASSIC.items()})
    planned = plan_streams(orders, restore_bytes_per_second=1e8)
    assert tuples(planned.tasks, "member_id", "task", "role") == [
        ("a", 0, "active"),
        ("a", 1, "active"),
        ("b", 0, "warmup"),
    ]
    assert tuples(planned.metrics, "assignor", "warmups", "follow_up", "order_dependent") == [
        ("high-availability", 1, "probing", 0)
    ]
    assert tuples(planned.rounds, "round", "start_seconds", "cause", "moved_active", "restore_bytes") == [
        (1, 0.0, None, 0, 4_000_000_000),
        (2, 60.0, "probing", 0, 0),
        (3, 60.0, "at-once", 1, 0),
    ]
    assert tuples(planned.restores, "member_id", "task", "role", "bytes", "restore_seconds") == [
        ("b", 0, "standby", 4_000_000_000, 40.0)
    ]
    totals = "probing_rebalances", "caught_up_seconds", "restored_bytes", "stopped_task_seconds"
    assert tuples(planned.metrics, *totals) == [(1, 60.0, 4_000_000_000, 0.0)]
    late = ("orders", "restore", "caught up after 60 s; the limit is 59 s")
    assert tuples(streams_alerts(planned.metrics, max_restore_ms=59_000), "group_id", "alert", "detail") == [late]
    printed = summarize_streams_plan(planned, 10)
    assert " ".join(printed.splitlines()[-1].split()) == "c/orders 1 60 s 4.00 GB 0"
    assert "\n  c/orders: planned as 4.4, because the release of the leader is unknown\n" in printed
    assert tuples(planned.rows) == tuples(plan_streams(shuffled(orders, seed), restore_bytes_per_second=1e8).rows)
    loads = [{"cluster": "c", "topic": "l", "partition": at, "in_bytes_per_second": 2e8} for at in range(2)]
    growing = plan_streams(
        replace(orders, loads=frame_of(spark, INPUT_TABLES["loads"], loads)), restore_bytes_per_second=1e8
    )
    assert tuples(growing.metrics, *totals, "never_caught_up", "changelog_bytes_per_second") == [
        (1, None, 6_000_000_000, 0.0, 1, 4e8)
    ]
    never = "orders", "caught up never; the limit is 59 s"
    assert tuples(streams_alerts(growing.metrics, max_restore_ms=59_000), "group_id", "detail") == [never]
    assert summarize_streams_plan(growing, 10).splitlines()[-1] == (
        "c/orders: 1 of its standbys and warmups never catch up. Changelogs grow as fast as they are restored "
        "(0.40 GB/s together)."
    )
    left = plan_streams(orders.with_members_left(group_id="orders", member_id="a"))
    assert tuples(left.metrics, *totals) == [(None, None, None, None)]
    assert tuples(left.moves, "task", "role", "from_member_id", "to_member_id", "reason", "state") == [
        (0, "active", "a", "b", "member-left", "none"),
        (1, "active", "a", "b", "member-left", "member"),
    ]
    assert left.rounds.count() == 0
    grown = plan_streams(orders.with_partitions(topic="t", count=3))
    assert tuples(grown.rejected, "group_id", "code") == [("orders", "no-end-offsets")]
    assert tuples(plan(orders, "range").rejected, "group_id", "code") == [("orders", "streams-group")]
    with pytest.raises(ConfigError, match="restore_bytes_per_second is 0"):
        plan_streams(orders, restore_bytes_per_second=0)


def test_a_rolling_restart_of_a_classic_application(spark: SparkSession, seed: int) -> None:
    """a returns at 15 s. b is static, but a waits for its own old session, which ends 10 s after 9 s, so that its tasks
    stop for 9 s each. b restores task 0, gets it after the probing rebalance, and keeps it when it restarts."""
    orders = Fleet(**{name: frame_of(spark, INPUT_TABLES[name], rows) for name, rows in CLASSIC.items()})
    rolling = {"cluster": "c", "at_ms": 10_000, "event": "rolling-restart", "down_ms": 5_000, "pause_ms": 300_000}
    events = frame_of(spark, EVENTS, [rolling])
    settings = Settings(
        poll_interval_ms=0,
        groups=frame_of(spark, GROUP_SETTINGS, [_GROUP | {"session_timeout_ms": 10_000}]),
        members=frame_of(spark, MEMBER_SETTINGS, [_GROUP | {"member_id": "b", "group_instance_id": "i"}]),
    )
    simulated = simulate_streams(orders, events, settings=settings, restore_bytes_per_second=1e8)
    assert simulated.rejected.collect() == []
    costs = "rebalances", "moved_active", "moved_without_state", "stopped_task_seconds", "restored_bytes"
    assert tuples(simulated.steps, "at_ms", "event", "member_ids", *costs) == [
        (10_000, "member-restarts", ["a"], 3, 1, 0, 18.0, 4_000_000_000),
        (315_000, "member-restarts", ["b"], 0, 0, 0, 5.0, 0),
    ]
    assert tuples(simulated.rebalances, "generation_id", "start_ms", "joined_ms", "members", "assignor") == [
        (2, 15_000, 19_000, 2, "stream"),
        (3, 79_000, 82_000, 2, "stream"),
        (4, 82_000, 82_000, 2, "stream"),
    ]
    steps = simulated.steps.withColumn("variant", F.lit("now"))
    (row,) = streams_rows({"steps": steps})["steps"]
    assert (row["variant"], row["steps"], row["rebalances"], row["stopped_task_seconds"]) == ("now", 2, 3, 23.0)
    again = simulate_streams(shuffled(orders, seed), events, settings=settings, restore_bytes_per_second=1e8)
    assert tuples(simulated.rows) == tuples(again.rows)
    with pytest.raises(ConfigError, match="variant 'eager'"):
        simulate_streams(orders, events, "eager", restore_bytes_per_second=1e8)
    with pytest.raises(ConfigError, match="restore_bytes_per_second is 0"):
        simulate_streams(orders, events, restore_bytes_per_second=0)


@pytest.fixture(scope="module")
def folder(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same fleet as json lines."""
    place = tmp_path_factory.mktemp("streams-fleet")
    for name in ("topics", "subscriptions", *ROWS):
        rows = [row.asDict() for row in getattr(fleet, name).collect()]
        if name in ("topics", "subscriptions"):
            (place / f"{name}.csv").write_text(",".join(getattr(fleet, name).columns) + "\n")
        else:
            (place / f"{name}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return place


@pytest.mark.once
def test_the_job(fleet: Fleet, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A summary, the tables, and exit code 1 for the faulty group if asked for."""
    arguments = ["--output", str(tmp_path), "--run-id", "r", "--output-format", "json", "--fail-on", "rejected"]
    arguments += ["--what-if", "leave-members:a", "--standby-replicas", "0"]
    assert plan_job.main(["--fleet", str(folder), *arguments]) == 1
    printed = capsys.readouterr().out
    summary = (
        "1 Streams group planned, 1 rejected: 1 member, 3 tasks; 2 moved, 1 of them without state; 0 standbys moved"
    )
    assert summary in printed
    assert "faulty: bad-subtopology: subtopologies: subtopology=0, partitions=-1" in printed
    active = [row for row in stored(tmp_path, "streams_moves") if row["role"] == "active"]
    assert sorted((row["task"], row["reason"]) for row in active) == [
        (0, "member-left"),
        (0, "new"),
        (1, "member-left"),
    ]
    assert [row["standby_replicas"] for row in stored(tmp_path, "streams_metrics")] == [0]
    thresholds = ["--max-rejected", "1", "--max-moved-without-state", "0", "--max-restore-time", "10m"]
    assert check_job.main(["--plan", str(tmp_path), *thresholds, "--fail-on", "alerts"]) == 1
    assert "1 of 3 tasks move without their state; the limit is 0" in capsys.readouterr().out
    assert check_job.main(["--history", str(tmp_path), "--max-restore-time", "10m"]) == 2
    sides = ["--before", str(folder), "--after", f"{tmp_path}@r", "--output", str(tmp_path / "drift"), "--run-id", "r"]
    assert diff_job.main([*sides, "--output-format", "json", "--fail-on", "changes"]) == 1
    assert "Streams groups: 1 added, removed, or changed; 3 tasks and 0 standbys moved" in capsys.readouterr().out
    (group,) = stored(tmp_path / "drift", "streams_groups")
    assert [group[name] for name in ("change", "members_before", "members_after", "left")] == ["changed", 2, 1, 1]
    tasks = stored(tmp_path / "drift", "streams_tasks")
    moves = sorted((row["subtopology"], row["task"], row["role"], *row["from_members"]) for row in tasks)
    assert moves == [("0", 0, "active", "a"), ("0", 1, "active", "a"), ("0", 1, "standby", "b"), ("1", 0, "active")]
    page = tmp_path / "page.html"
    assert report_job.main(["--drift", str(tmp_path / "drift"), "--output-file", str(page)]) == 0
    assert "Streams groups that changed" in page.read_text(encoding="utf-8")


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--what-if", "leave:app"], "unknown change"),
        (["--streams-assignor", "sticky"], "'sticky' is not one of"),
    ],
)
def test_wrong_usage(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Said before a session is started."""
    assert plan_job.main(["--fleet", "./x", *arguments]) == 2
    assert message in caplog.text + capsys.readouterr().err


@pytest.mark.once
def test_compare_with_and_without_standbys(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A host is lost: 4.4 GB are restored, as b has most of the state of one task; without it, 8 GB are."""
    place, out = written_as_json(tmp_path / "classic", CLASSIC), str(tmp_path / "out")
    arguments = ["--fleet", str(place), "--what-if", "lost=leave-members:a", "--restore-bytes-per-second", "1e8"]
    arguments += ["--output", out, "--run-id", "r", "--output-format", "json", "--fail-on", "rejected"]
    assert compare_job.main(arguments) == 0
    (row,) = stored(tmp_path / "out", "streams_comparison")
    assert (row["what_if"], row["moved_without_state"], row["moved_without_standbys"]) == ("lost", 1, 2)
    assert (row["restored_bytes"], row["restored_bytes_without_standbys"]) == (4_400_000_000, 8_000_000_000)
    assert (row["stopped_task_seconds"], row["stopped_task_seconds_without_standbys"]) == (52, 160)
    assert stored(tmp_path / "out", "comparison") == []
    printed = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "Streams groups, what if lost (in parentheses: without their standbys):" in printed
    assert printed[-1] == "orders 1 2 0 2 1 (2) 44 s 4.40 GB (8.00 GB) 52 (160)"
