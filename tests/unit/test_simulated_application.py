"""Classic Streams applications over time. Instances have two tasks of 1 GB, and restore 100 MB per second."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from spark_assign.simulation.kernel.settings import TimingConfig
from spark_assign.spark.dataframes import to_arrow_schema
from spark_assign.streams.kernel.simulate_applications import ApplicationSimulationParams, simulate_applications
from spark_assign.tables.schema_fields import tagged_schema
from spark_assign.tables.streams import SIMULATION_TABLES
from tests.golden.streams_rows import one_table

ROLLING = {"at_ms": 10_000, "event": "rolling-restart", "down_ms": 5_000, "pause_ms": 60_000}
Rows = list[dict[str, Any]]


def facts(
    *events: dict[str, Any],
    threads: int = 1,
    standbys: int = 0,
    config: tuple[str, ...] = (),
    growth: float | None = None,
    settings: Rows | None = None,
    times: Rows | None = None,
    group_type: str = "classic",
) -> pa.Table:
    """Three instances m1 to m3, or m1a and m1b to m3a and m3b, with two tasks per thread."""
    names = [f"m{at}{thread}" for at in (1, 2, 3) for thread in ("ab" if threads > 1 else [""])]
    tasks = range(2 * len(names))
    partition = {"topic": "l", "end_offset": 1_000_000, "bytes": 1_000_000_000, "in_bytes_per_second": growth}
    tables: dict[str, Rows] = {
        "groups": [{"group_type": group_type, "standby_replicas": standbys, "streams_config": config}],
        "subtopologies": [
            {"subtopology": "0", "stateful": True, "source_topics": ["t"], "changelog_topics": ["l"], "partitions": 6}
        ],
        "topics": [{"topic": "t", "partitions": len(tasks)}],
        "members": [{"member_id": name, "process_id": str(UUID(int=int(name[1])))} for name in names],
        "tasks": [
            {"member_id": names[(at + shift) % len(names)], "subtopology": "0", "task": at, "role": role}
            for at in tasks
            for shift, role in [(0, "active"), (threads, "standby")][: 1 + standbys]
        ],
        "changelogs": [partition | {"partition": at} for at in tasks],
        "events": list(events),
        "group_times": times or [],
        "member_settings": settings or [],
    }
    return one_table({"table": name, **row} for name, rows in tables.items() for row in rows)


def simulate(
    table: pa.Table, *, static: bool = False, leaves: bool | None = None, rate: float = 1e8
) -> tuple[Rows, Rows, Rows]:
    """Returns the rows of steps, rebalances, and rejected applications."""
    params = ApplicationSimulationParams(rate, TimingConfig(), static, leaves)
    (result,) = simulate_applications(table, to_arrow_schema(tagged_schema(SIMULATION_TABLES)), params)
    rows: dict[str, Rows] = {"step": [], "rebalance": [], "rejected": []}
    for row in result.to_pylist():
        rows[row["kind"]].append(row)
    return rows["step"], rows["rebalance"], rows["rejected"]


def costs(steps: Rows) -> list[tuple[Any, ...]]:
    names = ("rebalances", "moved_active", "moved_without_state", "stopped_task_seconds", "restored_bytes")
    return [tuple(step[name] for name in names) for step in steps]


# --- rolling restarts -------------------------------------------------------------------------------------------------


def test_static_members_return_without_a_rebalance() -> None:
    """Two tasks stop for 5 s each time."""
    steps, rebalances, _ = simulate(facts(ROLLING), static=True)
    assert costs(steps) == [(0, 0, 0, 10.0, 0)] * 3
    assert [(step["at_ms"], step["member_ids"]) for step in steps] == [
        (10_000, ["m1"]),
        (75_000, ["m2"]),
        (140_000, ["m3"]),
    ]
    assert rebalances == []


def test_dynamic_members_wait_for_their_old_session() -> None:
    """m1 returns at 15 s as a new member. Its old session, last heard at 9 s, ends at 54 s; only then all have joined.

    Its two tasks, which it gets again with their state, stop for 44 s; those of m2 from 75 to 120 s.
    """
    steps, rebalances, _ = simulate(facts(ROLLING))
    assert [(row["start_ms"], row["end_ms"], row["members"]) for row in rebalances] == [
        (15_000, 54_000, 3),
        (80_000, 120_000, 3),
        (145_000, 183_000, 3),
    ]
    assert costs(steps) == [(1, 0, 0, 88.0, 0), (1, 0, 0, 90.0, 0), (1, 0, 0, 86.0, 0)]


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("configured", [False, True])
def test_instances_that_leave(*, static: bool, configured: bool) -> None:
    """m1 leaves at 10 s, and both others join at 12 s, and get one of its tasks each, which they restore until m1 has
    joined at 18 s: 2 tasks stop for 8 s. m1 has their state and gets them back in two more rebalances."""
    config = ("internal.leave.group.on.close=true",) if configured else ()
    table = facts({"at_ms": 10_000, "event": "member-restarts", "member_id": "m1"}, config=config)
    steps, rebalances, _ = simulate(table, static=static, leaves=None if configured else True)
    assert [row["end_ms"] for row in rebalances] == [12_000, 18_000, 18_000]
    assert costs(steps) == [(3, 4, 2, 16.0, 1_200_000_000)]


def test_a_static_member_that_returns_late() -> None:
    """Its session ends at 54 s, as if it had been lost, so that its tasks move to processes without their state."""
    event = {"at_ms": 10_000, "event": "member-restarts", "member_id": "m1", "down_ms": 60_000}
    steps, rebalances, _ = simulate(facts(event), static=True)
    assert rebalances[0]["cause"] == "session of m1 timed out"
    assert (steps[0]["rebalances"], steps[0]["moved_without_state"]) == (3, 2)


def test_instance_ids_and_times_of_single_members_and_groups() -> None:
    """m1 alone is static; the session of m2 is only 10 s long: it closes at 80 s, was heard at 78 s, and is back at
    85 s; all have joined at 88 s."""
    settings = [{"member_id": "m1", "group_instance_id": "i1"}]
    events = [
        {**ROLLING, "event": "member-restarts", "member_id": f"m{at}", "at_ms": 10_000 + 70_000 * (at - 1)}
        for at in (1, 2)
    ]
    steps, rebalances, _ = simulate(facts(*events, settings=settings, times=[{"session_timeout_ms": 10_000}]))
    assert costs(steps) == [(0, 0, 0, 10.0, 0), (1, 0, 0, 16.0, 0)]
    assert [row["end_ms"] for row in rebalances] == [88_000]


def test_the_threads_of_an_instance_restart_together() -> None:
    """Four tasks of two threads stop for 5 s."""
    steps, _, _ = simulate(facts(ROLLING, threads=2), static=True)
    assert costs(steps) == [(0, 0, 0, 20.0, 0)] * 3
    assert [step["member_ids"] for step in steps] == [["m1a", "m1b"], ["m2a", "m2b"], ["m3a", "m3b"]]


# --- other events -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event", ["member-crashes", "member-leaves"])
def test_a_host_is_lost_or_closed(event: str) -> None:
    """Without LeaveGroup, that is the same: the two tasks stop until the others learn at 57 s that the session has
    ended, and for 10 s until they have restored 1 GB each. The final owners of two tasks restore them as well."""
    steps, rebalances, _ = simulate(facts({"at_ms": 10_000, "event": event, "member_id": "m1"}))
    assert [(row["start_ms"], row["end_ms"]) for row in rebalances] == [
        (54_000, 57_000),
        (657_000, 660_000),
        (660_000, 660_000),
    ]
    assert costs(steps) == [(3, 4, 2, 2 * 47 + 2 * 10, 4_000_000_000)]


def test_a_host_with_standbys_is_lost() -> None:
    """Both tasks have a standby, which takes over at 57 s: nothing is restored before they run. One more task moves at
    once and two more after warmups, and the two standbys are restored elsewhere."""
    steps, _, _ = simulate(facts({"at_ms": 10_000, "event": "member-crashes", "member_id": "m1"}, standbys=1))
    assert costs(steps) == [(4, 5, 0, 2 * 47, 4_000_000_000)]


def test_a_member_is_added() -> None:
    """Its first two tasks move after warmups, and stop for a heartbeat interval while m4 waits for the rebalance."""
    steps, rebalances, _ = simulate(facts({"at_ms": 10_000, "event": "member-starts", "member_id": "m4"}))
    assert costs(steps) == [(5, 3, 0, 9.0, 3_000_000_000)]
    assert sum("probing rebalance" in row["cause"] for row in rebalances) == 2


def test_warmups_that_never_catch_up_end_the_probing_rebalances() -> None:
    """Tasks write as fast as a process restores."""
    table = facts({"at_ms": 10_000, "event": "member-starts", "member_id": "m4"}, growth=1e8)
    steps, rebalances, _ = simulate(table)
    assert [step["never_caught_up"] for step in steps] == [2]
    assert [row["start_ms"] for row in rebalances] == [10_000, 612_000]


def test_rejected_applications() -> None:
    """The broker assigns the tasks of streams groups; topics belong to the topology."""
    topic = {"at_ms": 10_000, "event": "topic-created", "topic": "u", "partitions": 1}
    for table, code in (
        (facts(ROLLING, group_type="streams"), "streams-group"),
        (facts(topic), "bad-event"),
        (facts({"at_ms": 10_000, "event": "member-leaves", "member_id": "m9"}), "bad-event"),
        (facts(ROLLING, times=[{"session_timeout_ms": 0}]), "bad-settings"),
        (facts(ROLLING, config=("internal.leave.group.on.close=maybe",)), "bad-streams-config"),
    ):
        steps, rebalances, rejected = simulate(table)
        assert (steps, rebalances, [row["code"] for row in rejected]) == ([], [], [code])


def test_nothing_happens() -> None:
    """The application is listed all the same, with the step 0."""
    steps, rebalances, rejected = simulate(facts())
    assert [(row["step"], row["at_ms"], row["event"], row["member_ids"]) for row in steps] == [(0, 0, "none", [])]
    assert (costs(steps), rebalances, rejected) == ([(0, 0, 0, 0.0, 0)], [], [])
