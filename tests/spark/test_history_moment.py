"""The fleet of a moment: who was there, what they had, and plans that go on from it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.history import _show as show_history
from spark_assign import Fleet, plan
from spark_assign.history.history import History
from spark_assign.history.schemas import HISTORY_ROWS
from spark_assign.report.history import application_texts
from spark_assign.streams import plan_streams
from spark_assign.tables.errors import ConfigError
from tests.frames import frame_of
from tests.spark.fleets import tuples
from tests.unit.test_classic_members import PROCESSES
from tests.unit.test_history_streams import member as streams_member

pytestmark = [pytest.mark.spark]
Row = dict[str, Any]

TEN, ELEVEN, TWELVE = (datetime(2026, 11, 23, hour, tzinfo=UTC) for hour in (10, 11, 12))
HALF = TEN + timedelta(minutes=30)


def group(group_id: str, group_type: str, since: datetime = TEN, until: datetime = TWELVE, **more: Any) -> Row:
    """A row of GROUPS."""
    protocol_type = "consumer" if group_type == "classic" else None
    row = {"kind": "groups", "group_type": group_type, "protocol_type": protocol_type}
    return {"cluster": "c", "group_id": group_id, **row, "start_time": since, "end_time": until, **more}


def rebalance(group_id: str, generation: int, at: datetime, assignor: str | None, state: str = "Stable") -> Row:
    """A row of REBALANCES."""
    row = {"kind": "rebalances", "generation_id": generation, "time": at, "assignor": assignor, "state": state}
    return {"cluster": "c", "group_id": group_id, **row, "partition": 1, "offset": generation}


def member(
    group_id: str,
    member_id: str,
    since: datetime,
    until: datetime | None = None,
    has: dict[str, tuple[int, int, int]] | None = None,
    session: int | None = 45_000,
    role: str = "partition",
) -> list[Row]:
    """A member that is subscribed to what it has, as long as it is there."""
    common = {"cluster": "c", "group_id": group_id, "member_id": member_id, "start_time": since, "end_time": until}
    client = {"client_id": f"client-{member_id}", "client_host": "/h", "rack_id": "r", "group_instance_id": None}
    rows: list[Row] = [{**common, "kind": "memberships", **client, "session_timeout_ms": session}]
    for topic, (first, step, count) in (has or {}).items():
        rows.append({**common, "kind": "subscriptions_over_time", "topic": topic})
        run = {"first": first, "step": step, "count": count, "generation_id": 1}
        rows.append({**common, "kind": "ownership", "topic": topic, "role": role, **run})
    return rows


def commits(group_id: str, topic: str, partition: int, since: datetime) -> Row:
    """A row of COMMITS."""
    listed = {"partition": partition, "at_ms": int(since.timestamp()) * 1000, "offset": 0}
    row = {"kind": "commits", "topic": topic, "once": [listed]}
    return {"cluster": "c", "group_id": group_id, **row}


def application(group_id: str, members: list[Row], owned: list[dict[str, tuple[int, int, int]]]) -> list[Row]:
    """A classic Streams application from ten to eleven, which then has the streams protocol."""
    rows = [group(group_id, "streams"), rebalance(group_id, 3, TEN, "stream"), rebalance(group_id, 4, ELEVEN, "sticky")]
    for position, (each, has) in enumerate(zip(members, owned, strict=True)):
        rows += member(group_id, each["memberId"], TEN, ELEVEN, has)
        key = {"cluster": "c", "group_id": group_id, "member_id": each["memberId"], "position": position}
        sent = {"subscription": each["subscription"], "assignment": each["assignment"], "generation_id": 3}
        rows.append({**key, **sent, "kind": "streams_members", "start_time": TEN, "end_time": ELEVEN})
    return rows


ROWS: list[Row] = [
    *(group("orders", "classic"), rebalance("orders", 1, TEN, "range")),
    *member("orders", "a", TEN, ELEVEN, {"t": (0, 1, 2)}),
    *member("orders", "b", TEN, ELEVEN, {"t": (2, 1, 2)}),
    rebalance("orders", 2, ELEVEN, "cooperative-sticky"),
    *member("orders", "a2", ELEVEN, None, {"t": (0, 1, 4)}),
    *(commits("orders", "t", 3, TEN), commits("orders", "t", 5, HALF)),
    # It became one of the broker's at half past ten.
    *(group("moved", "consumer"), rebalance("moved", 4, TEN, "range"), rebalance("moved", 5, HALF, "uniform")),
    *member("moved", "x", TEN, HALF, {"u": (1, 2, 3)}),
    *member("moved", "y", HALF, None, {"u": (1, 2, 3)}, session=None),
    *(group("shared", "share"), rebalance("shared", 1, TEN, "simple")),
    *(row for name in "pq" for row in member("shared", name, TEN, None, {"t": (0, 1, 1)}, session=None)),
    *(group("idle", "classic"), rebalance("idle", 7, TEN, None, "Empty")),
    *(group("gone", "classic"), rebalance("gone", 1, TEN, "range"), rebalance("gone", 1, HALF, None, "Dead")),
    *member("gone", "g", TEN, HALF, {"v": (0, 1, 1)}),
    *(group("workers", "classic", protocol_type="connect"), rebalance("workers", 1, TEN, "sessioned")),
    *member("workers", "w", TEN, None, {"sink": (0, 1, 1)}, role="task"),
    *(group("flow", "streams"), rebalance("flow", 1, TEN, "sticky")),
    *member("flow", "s", TEN, None, {"0": (0, 1, 2)}, role="active", session=None),
    *(group("alone", "simple", state=None), commits("alone", "w", 0, TEN)),
    {**group("later", "classic", TWELVE, TWELVE + timedelta(hours=1)), "cluster": "d"},
    {**rebalance("later", 1, TWELVE, "range"), "cluster": "d"},
]


def history_of(spark: SparkSession, rows: list[Row]) -> History:
    """A history with these rows."""
    return History(frame_of(spark, HISTORY_ROWS, rows).coalesce(1))


@pytest.fixture(scope="module")
def history(spark: SparkSession) -> History:
    """What is told of eight groups."""
    return history_of(spark, ROWS)


def test_the_fleet_of_a_moment(history: History) -> None:
    """Who was there then, and not who came in that very moment to another one."""
    fleet = Fleet.as_of(history, TEN)
    assert tuples(fleet.members, "group_id", "member_id", "generation_id", "client_id", "client_host", "rack_id") == [
        ("gone", "g", 1, "client-g", "/h", "r"),
        ("moved", "x", 4, "client-x", "/h", "r"),
        ("orders", "a", 1, "client-a", "/h", "r"),
        ("orders", "b", 1, "client-b", "/h", "r"),
        ("shared", "p", 1, "client-p", "/h", "r"),
        ("shared", "q", 1, "client-q", "/h", "r"),
    ]
    assert fleet.groups is not None
    assert fleet.owned_slices is not None
    assert tuples(fleet.groups, "group_id", "assignor", "group_type", "state") == [
        ("gone", "range", "classic", "Stable"),
        ("idle", None, "classic", "Empty"),
        ("moved", "range", "classic", "Stable"),
        ("orders", "range", "classic", "Stable"),
        ("shared", "simple", "share", "Stable"),
    ]
    assert tuples(fleet.owned_slices, "group_id", "member_id", "topic", "first", "step", "count") == [
        ("gone", "g", "v", 0, 1, 1),
        ("moved", "x", "u", 1, 2, 3),
        ("orders", "a", "t", 0, 1, 2),
        ("orders", "b", "t", 2, 1, 2),
        ("shared", "p", "t", 0, 1, 1),
        ("shared", "q", "t", 0, 1, 1),
    ]
    assert tuples(fleet.topics, "cluster", "topic", "partitions") == [
        *(("c", "t", 4), ("c", "u", 6), ("c", "v", 1), ("c", "w", 1))
    ]


def test_what_was_written_in_a_moment_has_happened(history: History) -> None:
    """A microsecond before, it has not; the zone of a moment is heard."""
    zone = timezone(timedelta(hours=2))
    before = Fleet.as_of(history, (ELEVEN - timedelta(microseconds=1)).astimezone(zone))
    after = Fleet.as_of(history, "2026-11-23T13:00:00+02:00")
    of = [tuples(fleet.subscriptions.where("group_id = 'orders'"), "member_id", "topic") for fleet in (before, after)]
    assert of == [[("a", "t"), ("b", "t")], [("a2", "t")]]
    assert after.groups is not None
    assert tuples(after.groups, "group_id", "assignor", "group_type", "state") == [
        ("idle", None, "classic", "Empty"),
        ("moved", "uniform", "consumer", "Stable"),
        ("orders", "cooperative-sticky", "classic", "Stable"),
        ("shared", "simple", "share", "Stable"),
    ]


def test_streams_applications_of_a_moment(spark: SparkSession) -> None:
    """They are planned like those of a snapshot; what can't be read or isn't on record is named."""
    members = [streams_member("a", 0, [(0, 0), (0, 1), (1, 0)]), streams_member("b", 1, [(1, 1)])]
    rows = application("app", members, [{"t0": (0, 1, 2), "t1": (0, 1, 1)}, {"t1": (1, 1, 1)}])
    rows += application("newer", [streams_member("n", 0, [(0, 0)], version=12)], [{"t0": (0, 1, 1)}])
    history = history_of(spark, rows)
    counts = [("c", "t0", 2), ("c", "t1", 2), ("c", "app-counts-changelog", 2), ("c", "app-eu-sums-changelog", 3)]
    topics = spark.createDataFrame(counts, "cluster string, topic string, partitions int")
    ends = [("c", group_id, "app-counts-changelog", at, 9, 100) for group_id in ("app", "other") for at in (0, 1)]
    schema = "cluster string, group_id string, topic string, partition int, end_offset long, bytes long"
    text = (
        "Sub-topology: 0\n Source: S (topics: [t0])\n Sub-topology: 1\n Source: T (topics: [t1])\n"
        " Processor: P (stores: [counts])"
    )
    changelogs = spark.createDataFrame(ends, schema)
    fleet = Fleet.as_of(history, TEN, topics=topics, changelogs=changelogs, topologies={"app": text})
    assert fleet.groups is not None
    assert tuples(fleet.groups, "group_id", "group_type", "standby_replicas", "problem", "caveats") == [
        ("app", "classic", 0, None, ["end offsets of changelogs are from the given table, not of this time"]),
        ("newer", "classic", None, "member n: SubscriptionInfo: version 12: expected 1 to 11", []),
    ]
    assert application_texts(fleet.groups, 1) == [
        "Classic Streams applications:\n"
        "  c/app: end offsets of changelogs are from the given table, not of this time\n"
        "  … (more in the table groups: problem, caveats)"
    ]
    assert tuples(fleet.members, "member_id", "process_id", "position") == [
        ("a", PROCESSES[0], 0),
        ("b", PROCESSES[1], 1),
        ("n", None, 0),
    ]
    planned = plan_streams(fleet)
    # a has three tasks and b one: one of a's goes to b.
    assert tuples(planned.metrics, "group_id", "tasks", "stateful_tasks", "moved_active") == [("app", 4, 2, 1)]
    unknown = Fleet.as_of(history, TEN).groups
    assert unknown is not None
    ((problem,),) = tuples(unknown.where("group_id = 'app'"), "problem")
    assert problem.startswith("The changelogs of the subtopologies 0, 1 aren't on record. Add the topics")


def test_plans_go_on_from_there(spark: SparkSession, history: History) -> None:
    """By the topics that are given, if they are."""
    counts = [("c", "t", 8), ("c", "u", 6), ("c", "v", 1)]
    topics = spark.createDataFrame(counts, "cluster string, topic string, partitions int")
    fleet = Fleet.as_of(history, "2026-11-23T10:15:00Z", topics=topics)
    orders = plan(fleet, "range").metrics.where("group_id = 'orders'")
    assert tuples(orders, "partitions", "moved", "unassigned") == [(8, 2, 0)]


def owners(group_id: str, *has: tuple[str, int, int, int]) -> list[Row]:
    """A classic group since ten with a member for each slice."""
    rows = [group(group_id, "classic"), rebalance(group_id, 1, TEN, "range")]
    for at, (topic, *run) in enumerate(has):
        rows += member(group_id, f"m{at}", TEN, None, {topic: tuple(run)})  # type: ignore[dict-item]
    return rows


def test_a_leader_that_makes_up_partitions_costs_only_its_group(spark: SparkSession) -> None:
    """The topic has the partitions that the others know, by commits or by an assignment of at least half of them."""
    far, int_range = ("t", 899_999, 1, 1), ("u", -(2**31), 2**31 - 1, 3)
    rows = [
        *owners("honest", ("t", 0, 2, 2), ("t", 1, 2, 2), ("u", 0, 1, 2)),
        *owners("few", ("t", 0, 1, 2)),
        *owners("handover", ("w", 0, 3, 2), ("w", 1, 1, 1)),  # two of five are in nobody's hands
        *owners("liar", ("t", 0, 1, 3), far, ("a", 70, 1, 1), ("b", 500, 1, 1), ("u", 0, 1, 2)),
        *owners("wide", int_range),
        *owners("alone", ("a", 7, 1, 1), ("v", 8, 1, 1)),
        commits("few", "b", 2, TEN),
    ]
    history = history_of(spark, rows)
    fleet = Fleet.as_of(history, TEN)
    sizes = [("a", 8), ("b", 3), ("t", 4), ("u", 2), ("v", 9), ("w", 4)]
    assert tuples(fleet.topics, "topic", "partitions") == sizes
    assert fleet.undescribed is not None
    text = (
        "it owns partition {} of topic {}, which has {} partitions according to commits and other groups. "
        "If it has more, give the table topics, for example with --fleet and a snapshot"
    )
    assert tuples(fleet.undescribed, "group_id", "error") == [
        ("liar", text.format(500, "b", 3)),
        ("wide", text.format(2**31 - 2, "u", 2)),
    ]
    topics = spark.createDataFrame([("c", "t", 900_000)], "cluster string, topic string, partitions int")
    undescribed = Fleet.as_of(history, TEN, topics=topics).undescribed
    assert undescribed is not None
    assert tuples(undescribed, "group_id") == []


def test_a_group_that_is_too_large_is_named(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The fleet lacks it, and the output says why."""
    fault = {"code": "too-many-members", "detail": "5 generations with 3 members"}
    history = history_of(spark, [*ROWS, {"cluster": "c", "group_id": "huge", "kind": "rejected", **fault}])
    options: Any = SimpleNamespace(
        as_of="2026-11-23T10:00:00Z", output_fleet=str(tmp_path / "fleet"), topology=(), top=3, details=(), replay=False
    )
    options.fail_on, options.outcome = "rejected", SimpleNamespace(locations={})
    tables = {"rejected": history.rejected}
    assert show_history(options, history, tables, {}) == 1
    _, rejected = capsys.readouterr().out.split("\n\n")
    assert rejected == "Rejected:\n  c/huge: undescribed: too-many-members: 5 generations with 3 members\n"


def test_a_group_whose_members_are_not_known(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """It is undescribed as long as its newest record can't be read, or a member's bytes can't; then it is rejected."""

    def unreadable(group_id: str | None, number: int, until: datetime | None = None) -> Row:
        place = {"partition": 1, "offset": 5, "timestamp": TEN, "end_time": until, "code": "corrupt", "detail": "short"}
        return {"cluster": "c", "group_id": group_id, "kind": "unreadable", **place, "key": number.to_bytes(2) + b"k"}

    def rejected(group_id: str, code: str) -> Row:
        return {"cluster": "c", "group_id": group_id, "kind": "rejected", "code": code, "detail": f"{group_id}'s"}

    has = {"t": (0, 1, 1)}
    of_another_topic = member("assigned", "a", TEN, None, {"t" * 256: (0, 1, 1)})
    of_another_topic[1]["topic"] = "t"
    topic_without_owner = [row for row in member("unassigned", "m", TEN, None, has) if row["kind"] != "ownership"]
    history = history_of(
        spark,
        [
            *ROWS,
            *(unreadable("orders", 2, HALF), unreadable("shared", 13), unreadable("damaged", 2)),
            *(unreadable("idle", 1), unreadable("moved", 6), unreadable("workers", 2), unreadable(None, 99)),
            *(
                *(group("unread", "classic"), rebalance("unread", 1, TEN, "range")),
                rebalance("unread", 2, ELEVEN, "range"),
            ),
            *(*member("unread", "u", TEN, ELEVEN), *member("unread", "v", ELEVEN, None, has)),
            *(group("unassigned", "classic"), rebalance("unassigned", 1, TEN, "range"), *topic_without_owner),
            *(rejected("unread", "unreadable-subscription"), rejected("unassigned", "unreadable-assignment")),
            *(rejected("workers", "unreadable-assignment"), rejected("orders", "unreadable-subscription")),
            *(group("huge", "classic"), rejected("huge", "too-many-members")),
            *(group("long", "classic"), rebalance("long", 1, TEN, "range")),
            *({**row, "rack_id": "r" * 40_000} for row in member("long", "l", TEN, None, has)),
            *(group("assigned", "classic"), rebalance("assigned", 1, TEN, "range"), *of_another_topic),
            *(
                group("named", "classic"),
                rebalance("named", 1, TEN, "a" * 1_001),
                *member("named", "n", TEN, None, has),
            ),
        ],
    )
    place = "the record in partition 1 of __consumer_offsets, offset 5, can't be read: short"
    later = [
        *(("assigned", "topic has more than 255 bytes"), ("damaged", place), ("huge", "too-many-members: huge's")),
        *(("long", "rack_id has more than 1,000 bytes"), ("named", "assignor has more than 1,000 bytes")),
        ("shared", place),
        ("unassigned", "unreadable-assignment: unassigned's"),
    ]
    fleet = Fleet.as_of(history, TEN)
    assert fleet.undescribed is not None
    unread = ("unread", "unreadable-subscription: unread's")
    assert tuples(fleet.undescribed, "group_id", "error") == sorted([*later, ("orders", place), unread])
    assert fleet.groups is not None
    assert fleet.owned_slices is not None
    for table in (fleet.groups, fleet.members, fleet.subscriptions, fleet.owned_slices):
        assert {group_id for (group_id,) in tuples(table, "group_id")} <= {"gone", "idle", "moved"}
    planned = plan(fleet)
    assert {code for group_id, code in tuples(planned.rejected, "group_id", "code")} == {"undescribed"}
    assert tuples(planned.metrics, "group_id") == [("gone",), ("idle",), ("moved",)]
    of_eleven = Fleet.as_of(history, ELEVEN).undescribed
    assert of_eleven is not None
    assert tuples(of_eleven, "group_id", "error") == later


def test_a_moment_after_now_that_one_late_record_covers(spark: SparkSession) -> None:
    """Nobody knows it."""
    history = history_of(spark, [*ROWS, group("late", "classic", TEN, datetime(9998, 1, 1, tzinfo=UTC))])
    with pytest.raises(ConfigError, match="2990-01-01T00:00:00Z isn't covered by the records"):
        Fleet.as_of(history, "2990-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("timestamp", "message"),
    [
        ("yesterday", "timestamp yesterday isn't valid. Give a date, a time, and a time zone, for example 2026"),
        ("2026-11-23T10:00:00", "timestamp 2026-11-23T10:00:00 isn't valid. Give a date, a time, and a time zone"),
        (datetime(2026, 11, 23, 10), "timestamp 2026-11-23 10:00:00 isn't valid. Give a date, a time, and a time zone"),
        (
            "2026-11-23T09:59:59.999999Z",
            "timestamp 2026-11-23T09:59:59.999999Z isn't covered by the records. The records cover "
            "c from 2026-11-23T10:00:00Z to 2026-11-23T12:00:00Z, d from 2026-11-23T12:00:00Z to 2026-11-23T13:00:00Z.",
        ),
        ("2026-11-24", "timestamp 2026-11-24 isn't valid. Give a date, a time, and a time zone"),
    ],
)
def test_a_moment_that_nobody_knows(history: History, timestamp: datetime | str, message: str) -> None:
    """The message says what would do."""
    with pytest.raises(ConfigError) as raised:
        Fleet.as_of(history, timestamp)
    assert str(raised.value).startswith(message)
