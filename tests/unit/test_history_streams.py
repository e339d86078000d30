"""The history of a classic Streams application: tasks over time, state, and the rebalances that its leader requests."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.unit.history_log import Log, assignment, classic_member, generation, numbers_bytes, text_bytes
from tests.unit.test_classic_members import PROCESSES, Task, answer, report

NONE = (1 << 63) - 1
MINUTE = 60_000


def _with_user_data(head: bytes, data: bytes) -> bytes:
    """Returns a subscription or an assignment of version 0 with user data."""
    return struct.pack(">h", 0) + head + struct.pack(">i", len(data)) + data


def member(
    name: str,
    process: int,
    tasks: Sequence[Task],
    *,
    reports: Mapping[Task, int] | None = None,
    standby: Sequence[Task] = (),
    next_ms: int = NONE,
    version: int = 11,
) -> dict[str, Any]:
    """A member; task 0_1 is partition 1 of t0, and so on."""
    topics = sorted({f"t{subtopology}" for subtopology, _ in tasks})
    partitions = {topic: [at for of, at in sorted(tasks) if topic == f"t{of}"] for topic in topics}
    listed = b"".join(text_bytes(topic) + numbers_bytes(of) for topic, of in partitions.items())
    reported = report(PROCESSES[process], reports or {}) if version == 11 else struct.pack(">ii", version, version)
    fields = {
        "subscription": _with_user_data(struct.pack(">i", 2) + text_bytes("t0") + text_bytes("t1"), reported),
        "assignment": _with_user_data(struct.pack(">i", len(topics)) + listed, answer(sorted(tasks), standby, next_ms)),
    }
    return classic_member(name, {}, **fields)


def written(*generations: Sequence[Mapping[str, Any]], minutes: int = 1) -> Log:
    """Generations at regular intervals."""
    log = Log()
    for number, members in enumerate(generations, 1):
        log.write(number * minutes * MINUTE, "GroupMetadata", generation(number, members, protocol="stream"))
    return log


SCALED_OUT = (
    # a runs all tasks; those of subtopology 1 have state
    [member("a", 0, [(0, 0), (0, 1), (1, 0), (1, 1)])],
    # b joins and gets 0_1; it restores 1_1 first, and a probing rebalance is due after one minute
    [
        member("a", 0, [(0, 0), (1, 0), (1, 1)], reports={(1, 0): -2, (1, 1): -2}, next_ms=3 * MINUTE),
        member("b", 1, [(0, 1)], standby=[(1, 1)]),
    ],
    # b has the state of 1_1, and a revokes the task; the next rebalance follows at once
    [
        member("a", 0, [(0, 0), (1, 0)], reports={(1, 0): -2, (1, 1): -2}, next_ms=0),
        member("b", 1, [(0, 1)], reports={(1, 1): 70}, standby=[(1, 1)]),
    ],
    [
        member("a", 0, [(0, 0), (1, 0)], reports={(1, 0): -2, (1, 1): 70}),
        member("b", 1, [(0, 1), (1, 1)], reports={(1, 1): 70}),
    ],
)


def test_a_scale_out() -> None:
    """One stateless task moves, and then a task with state, after a probing rebalance and one at once."""
    log = written(*SCALED_OUT)
    columns = "generation_id", "follow_up", "partitions", "moved", "moved_without_state", "cause"
    assert log.table_rows("rebalances", *columns) == [
        (1, None, 4, 0, 0, "first on record"),
        (2, None, 4, 1, 0, "1 joined: b"),
        (3, "probing", 3, 0, 0, "probing rebalance of Kafka Streams: warmups had time to restore their state"),
        (4, "at-once", 4, 1, 0, "tasks that were revoked before are assigned"),
    ]
    assert log.table_rows("deploys", "deploy_type", "rebalances") == [("scale-out", 1)]
    assert log.table_rows("groups", "partitions", "rebalances", "flapping") == [(4, 4, False)]


def test_tasks_over_time() -> None:
    """Each role of each member, with the subtopology as topic, beside the partitions."""
    rows = written(*SCALED_OUT).table_rows(
        "ownership", "member_id", "role", "topic", "first", "count", "generation_id", "end_time"
    )
    assert [row for row in rows if row[0] == "b"] == [
        ("b", "active", "0", 1, 1, 2, None),
        ("b", "partition", "t0", 1, 1, 2, None),
        ("b", "standby", "1", 1, 1, 2, 4 * MINUTE),
        ("b", "active", "1", 1, 1, 4, None),
        ("b", "partition", "t1", 1, 1, 4, None),
    ]


def test_bytes_over_time(log: Log) -> None:
    """Each member in each generation, up to the next one; groups without Streams have none."""
    assert written(*SCALED_OUT[:2]).table_rows(
        "streams_members", *("member_id", "position", "generation_id", "start_time", "end_time")
    ) == [("a", 0, 1, MINUTE, 2 * MINUTE), ("a", 0, 2, 2 * MINUTE, None), ("b", 1, 2, 2 * MINUTE, None)]
    log.write(0, "GroupMetadata", generation(1, [classic_member("a", {"t0": [0]})]))
    assert log.table_rows("streams_members", "member_id") == []


@pytest.mark.parametrize(("process", "lost"), [(1, 2), (0, 0)])
def test_a_task_without_its_state(process: int, lost: int) -> None:
    """a leaves; b gets its tasks, with their state only if a was in its process."""
    first = [member("a", 0, [(1, 0), (1, 1)], reports={(1, 0): -2, (1, 1): -2}), member("b", process, [(0, 0)])]
    second = [member("b", process, [(0, 0), (1, 0), (1, 1)], reports={(1, 0): 5, (1, 1): 6} if process == 0 else {})]
    assert written(first, second).table_rows("rebalances", "moved", "moved_without_state") == [(0, 0), (2, lost)]


def test_probing_rebalances_make_no_group_flap() -> None:
    """Twenty of them, as the warmup takes so long; twenty rebalances without a request do."""
    assert written(
        *[[member("a", 0, [(0, 0)], next_ms=at * MINUTE), member("b", 1, [], standby=[(0, 0)])] for at in range(1, 22)]
    ).table_rows("groups", "rebalances", "flapping") == [(21, False)]
    others = [[member("a", 0, [(0, 0)]), member("b", 1, [])] for _ in range(21)]
    assert written(*others).table_rows("groups", "rebalances", "flapping") == [(21, True)]


def test_a_rebalance_before_the_probing_rebalance() -> None:
    """It has another cause."""
    early = [member("a", 0, [(0, 0)], next_ms=NONE - 1)]
    assert written(early, early).table_rows("rebalances", "follow_up", "cause")[1] == (None, "no cause on record")


def test_bytes_that_are_unknown_or_removed() -> None:
    """A version that doesn't exist yet is named, and the partitions stay; removed user data isn't a fault."""
    newer = written([member("a", 0, [(0, 0)], version=12)])
    ((code, detail),) = newer.table_rows("rejected", "code", "detail")
    assert code == "unreadable-tasks"
    assert "member_id=a, generation=1: member a: SubscriptionInfo: version 12: expected 1 to 11" in detail
    assert newer.table_rows("ownership", "role", "topic") == [("partition", "t0")]
    log = written([classic_member("a", {"t0": [0]}, assignment=assignment({"t0": [0]}))])
    assert log.table_rows("rejected", "code") == []
    assert log.table_rows("rebalances", "partitions", "moved_without_state") == [(1, None)]
