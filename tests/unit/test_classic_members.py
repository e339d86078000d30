"""Classic Streams applications as a snapshot reads them: from the bytes of SubscriptionInfo and AssignmentInfo."""

from __future__ import annotations

import struct
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spark_assign.sources.files.snapshot import SnapshotRows
from spark_assign.sources.kafka import groups as kafka_groups
from spark_assign.sources.kafka import streams_applications
from spark_assign.sources.kafka.group_description import GroupDescription
from spark_assign.sources.kafka.groups import ListedGroup
from spark_assign.sources.kafka.offsets import LeaderOffset
from spark_assign.sources.kafka.streams_applications import ApplicationReader
from spark_assign.streams.classic_members import (
    Application,
    StreamsMember,
    internal_topics,
    read_application,
    starting_with,
)
from spark_assign.tables.errors import ConfigError
from spark_assign.wire import consumer_protocol
from tests.cases import cases, tuples
from tests.unit.test_topology import TEXT

PROCESSES = [str(uuid.UUID(int=number)) for number in range(1, 4)]
TOPICS = {"clicks": 3, "orders": 2, "app-counts-changelog": 2, "app-eu-sums-changelog": 3, "other": 2}
Task = tuple[int, int]


def test_names_of_longer_applications_take_linear_time() -> None:
    """Groups and topics that start with one ID: each topic was compared with each group."""
    groups = [f"app-{number}" for number in range(30_000)]
    topics = {f"app-{number}x-changelog": 1 for number in range(30_000)}
    start = time.process_time()
    assert internal_topics({**topics, "app-7-a-b-changelog": 1, "appx": 1}, "app", groups) == topics
    assert time.process_time() - start < 2


def test_names_of_many_applications_take_linear_time() -> None:
    """Each application has a few topics of many: all names were compared with each ID."""
    ids = [f"app{number}" for number in range(3_000)]
    topics = {f"{each}-{part}-changelog": 1 for each in ids for part in range(10)} | {"app": 1, "app7": 1, "app70": 1}
    reader = ApplicationReader(topics, {}, ids, {"app70-x": "no permission"})
    start = time.process_time()
    found = {each: reader.read(each, GroupDescription("Stable", "stream", [])) for each in ids}
    assert time.process_time() - start < 2
    assert [each for each, group in found.items() if isinstance(group, Exception)] == ["app70"]
    assert starting_with(sorted(topics), "app7-") == [f"app7-{part}-changelog" for part in range(10)]
    assert starting_with(sorted(topics), "b") == starting_with([], "b") == []


def report(process: str, sums: Mapping[Task, int], tags: Mapping[str, str] | None = None, version: int = 11) -> bytes:
    """SubscriptionInfo."""
    data = struct.pack(">ii", version, max(version, 11)) + uuid.UUID(process).bytes + _sized(b"host:1")
    data += struct.pack(">i", len(sums))
    for (subtopology, partition), offset in sums.items():
        data += struct.pack(">iiqh", subtopology, partition, offset, -1)
    data += struct.pack(">bii", 1, 0, len(tags or {}))
    return data + b"".join(_sized(key.encode()) + _sized(value.encode()) for key, value in (tags or {}).items())


def answer(active: Sequence[Task], standby: Sequence[Task] = (), next_ms: int = (1 << 63) - 1) -> bytes:
    """AssignmentInfo; its active tasks are those of the partitions, sorted by topic and partition."""
    data = struct.pack(">iii", 11, 11, len(active)) + b"".join(struct.pack(">iii", *task, -1) for task in active)
    data += struct.pack(">i", len(standby)) + b"".join(struct.pack(">iiii", *task, -1, 0) for task in standby)
    return data + struct.pack(">iiiiq", 0, 0, 0, 0, next_ms)


def _sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _member(
    name: str,
    reported: bytes,
    answered: bytes | None,
    partitions: Sequence[tuple[str, int]],
    owned: Sequence[tuple[str, int]] = (),
    topics: Sequence[str] = ("clicks", "orders"),
) -> StreamsMember:
    subscription = consumer_protocol.Subscription(tuple(topics), reported, tuple(owned), 5, "rack-1")
    assignment = None if answered is None else consumer_protocol.Assignment(tuple(partitions), answered)
    return StreamsMember(name, subscription, assignment)


def members(next_ms: int = (1 << 63) - 1) -> list[StreamsMember]:
    """Subtopology 0 (clicks) has no state, subtopology 1 (orders) has; `b` has state of 1_1 of which it has a standby,
    and of 2_9 and 1_0, which it doesn't have."""
    a = [("orders", 1), ("clicks", 0), ("clicks", 2), ("orders", 0)]
    return [
        _member("a", report(PROCESSES[0], {(1, 0): -2}, {"zone": "x"}), answer([(0, 0), (0, 2), (1, 0), (1, 1)]), a, a),
        _member(
            "b",
            report(PROCESSES[1], {(1, 1): 70, (1, 0): -2, (2, 9): 3}),
            answer([(0, 1)], [(1, 1), (1, 0)], next_ms),
            [("clicks", 1)],
        ),
    ]


def _read(given: Sequence[StreamsMember], **more: Any) -> Application:
    return read_application("app", given, TOPICS, **more)


def test_members_and_tasks() -> None:
    """The process, tags, and tasks of each member, and state of other tasks; nobody reports how far standbys are."""
    application = _read(members(), group_ids=["app", "app-eu"])
    assert application.problem is None
    assert application.members == {
        "a": {"process_id": PROCESSES[0], "client_tags": ["zone=x"], "error_code": None},
        "b": {"process_id": PROCESSES[1], "client_tags": None, "error_code": None},
    }
    tasks = {name: [tuple(row.values()) for row in rows] for name, rows in application.tasks.items()}
    assert tasks["a"] == tuples("'0' 0 active None; '0' 2 active None; '1' 0 active None; '1' 1 active None")
    assert tasks["b"] == tuples("'0' 1 active None; '1' 0 standby None; '1' 1 standby None; '2' 9 None 3")
    assert application.columns == {"leader_process_id": None, "standby_replicas": 1}
    assert "num.standby.replicas is at least 1" in application.caveats[1]


@cases(
    "topology",
    None,
    "Sub-topology: 0\n Source: S (topics: [clicks])\n" + "Sub-topology: 1\n "
    "Source: T (topics: [orders])\n Processor: P (stores: [counts])",
)
def test_topics_without_changelogs(topology: str | None) -> None:
    """Only an application without state has a topology then."""
    known = {"clicks": 3, "orders": 2}
    application = read_application("app", members(), known, topology=topology, lists_changelogs=False)
    assert application.problem == (
        "The changelogs of the subtopologies 1 aren't on record. Add the topics of the cluster, for example a snapshot "
        "(--fleet)"
    )
    assert application.tasks["a"]
    stateless = "Sub-topology: 0\n Source: S (topics: [clicks])\nSub-topology: 1\n Source: T (topics: [orders])"
    application = read_application("app", members(), known, topology=stateless, lists_changelogs=False)
    assert [row["changelog_topics"] for row in application.subtopologies] == [[], []]


def test_while_a_probing_rebalance_is_pending() -> None:
    """Standbys restore from what they last reported, and the leader is in the process that requests the rebalance."""
    application = _read(members(1_750_000_000_000), group_ids=["app-eu"])
    assert [row["changelog_offset"] for row in application.tasks["b"]] == [None, None, 70, 3]
    assert application.columns["leader_process_id"] == PROCESSES[1]
    at_once = _read(members(0))
    assert (at_once.columns["leader_process_id"], at_once.tasks["b"][2]["changelog_offset"]) == (None, None)


def test_state_without_known_offsets() -> None:
    """-3: a task that ran at the last rebalance, or an old version without offsets."""
    moved = replace(members()[1], assignment=consumer_protocol.Assignment((("clicks", 1),), answer([(0, 1)])))
    rows = {(row["subtopology"], row["task"]): row["changelog_offset"] for row in _read([moved]).tasks["b"]}
    assert rows == {("0", 1): None, ("1", 1): 70, ("1", 0): -3, ("2", 9): 3}
    old = struct.pack(">i", 1) + uuid.UUID(PROCESSES[0]).bytes + struct.pack(">iiiiii", 1, 1, 0, 1, 1, 1)
    found = _read([_member("c", old, None, [])]).tasks["c"]
    rows = {(r["subtopology"], r["task"]): r["changelog_offset"] for r in found}
    assert rows == {("1", 0): -3, ("1", 1): -3}


def test_state_of_another_thread() -> None:
    """A task that another member of the process has by now is reported by that one only."""
    a, b = members()
    reported = report(PROCESSES[0], {(1, 1): 70, (1, 0): -2, (2, 9): 3})
    same = replace(b, subscription=replace(b.subscription, user_data=reported))
    standbys = replace(same, assignment=consumer_protocol.Assignment((("clicks", 1),), answer([(0, 1)])))
    rows = [(row["subtopology"], row["task"], row["role"]) for row in _read([a, standbys]).tasks["b"]]
    assert rows == [("0", 1, "active"), ("2", 9, None)]


def test_the_topology_is_derived() -> None:
    """A source topic is in the subtopology of its tasks; a changelog has its size, and the ID of no other group."""
    application = _read(members(), group_ids=["app", "app-eu"])
    assert application.subtopologies == [
        {"subtopology": "0", "partitions": 3, "stateful": False, "source_topics": ["clicks"], "changelog_topics": []},
        {
            "subtopology": "1",
            "partitions": 2,
            "stateful": True,
            "source_topics": ["orders"],
            "changelog_topics": ["app-counts-changelog"],
        },
    ]
    assert "by their names" in application.caveats[0]
    without = {name: count for name, count in TOPICS.items() if "changelog" not in name}
    optimized = read_application("app", members(), without)
    assert [row["changelog_topics"] for row in optimized.subtopologies] == [[], ["orders"]]
    assert not any("by their names" in caveat for caveat in optimized.caveats)


def test_a_given_topology() -> None:
    """It is used if it is that of the members."""
    topics = {"orders": 2, "returns": 2, "app-counts-repartition": 4, "app-counts-changelog": 4}
    subscribed = ["orders", "returns", "app-counts-repartition"]
    partitions = [(topic, 0) for topic in sorted(subscribed)]
    one = _member("a", report(PROCESSES[0], {}), answer([(2, 0), (0, 0), (0, 0)]), partitions, topics=subscribed)
    application = read_application("app", [one], topics, topology=TEXT)
    assert [row["changelog_topics"] for row in application.subtopologies] == [[], ["app-counts-changelog"]]
    assert application.problem is None
    other = _member("a", report(PROCESSES[0], {}), answer([(1, 0), (0, 0), (0, 0)]), partitions, topics=subscribed)
    problem = read_application("app", [other], topics, topology=TEXT).problem
    assert problem is not None
    assert "differs from the members' topology in app-counts-repartition" in problem
    assert "can't be read" in str(read_application("app", [one], topics, topology="?").problem)


def _problem(given: Sequence[StreamsMember], topics: Mapping[str, int] = TOPICS) -> str:
    application = read_application("app", given, topics, group_ids=["app-eu"])
    assert application.subtopologies == []
    assert application.problem is not None
    return application.problem


def test_what_cannot_be_read_is_named() -> None:
    """The member, the version, and what to do."""
    a, b = members()
    user_data = a.subscription.user_data
    unknown = replace(a, subscription=replace(a.subscription, user_data=struct.pack(">ii", 12, 12)))
    assert _problem([unknown, b]) == "member a: SubscriptionInfo: version 12: expected 1 to 11"
    empty = replace(a, subscription=replace(a.subscription, user_data=None))
    assert _problem([empty, b]).startswith("member a: SubscriptionInfo: ")
    assert user_data is not None
    later = replace(a, assignment=consumer_protocol.Assignment((), struct.pack(">ii", 12, 12)))
    assert _problem([later, b]) == "member a: AssignmentInfo: version 12: expected 1 to 11"
    fewer = replace(a, assignment=consumer_protocol.Assignment((("clicks", 0),), answer([])))
    assert _problem([fewer, b]) == "member a: AssignmentInfo: 0 tasks of 1 partition"
    half = struct.pack(">6i", 11, 11, 1, 0, 0, 1) + b"\xd8\x00" + struct.pack(">5iq", *[0] * 6)  # of a surrogate pair
    named = replace(a, assignment=consumer_protocol.Assignment((("clicks", 0),), half))
    assert _problem([named, b]) == "The task \ufffd__0_0 has a named topology, which isn't supported"


def test_two_topologies_are_named() -> None:
    """During an upgrade, members subscribe to different topics, or have a topic in different subtopologies."""
    a, b = members()
    wider = replace(b, subscription=replace(b.subscription, topics=("clicks", "orders", "other")))
    assert _problem([a, wider]).startswith("Two topologies in one group: member b subscribes to other, and member a")
    shifted = replace(b, assignment=consumer_protocol.Assignment((("clicks", 1),), answer([(1, 1)])))
    assert _problem([a, shifted]).startswith("Two topologies in one group: clicks is in the subtopologies 0 and 1")


def test_ambiguous_topologies_are_named() -> None:
    """A source topic without an assigned partition, a changelog of two sizes, and state without a changelog."""
    a, b = members()
    assert _problem([b]).startswith(
        "The subtopology of orders is unknown: no member has a partition. Give the topology"
    )
    new = replace(a, subscription=replace(a.subscription, user_data=report(PROCESSES[0], {})))
    both = {**TOPICS, "clicks": 2}
    no_reports = replace(b, subscription=replace(b.subscription, user_data=report(PROCESSES[1], {})))
    assert "app-counts-changelog can belong to the subtopologies 0, 1" in _problem([new, no_reports], both)
    joined = [("clicks", 0), ("orders", 0)]
    two_sources = _member("a", report(PROCESSES[0], {(0, 0): -2}), answer([(0, 0), (0, 0)]), joined, joined)
    assert "Subtopology 0 has state, but no changelog" in _problem([two_sources], {"clicks": 3, "orders": 2})


def _described(rows: SnapshotRows, **unknown: dict[str, str]) -> list[str]:
    """Adds the application as a broker describes it, and a group of another protocol; returns what is reported."""
    described = []
    for each in members():
        topics = each.subscription.topics
        data = struct.pack(">hi", 1, len(topics)) + b"".join(_string(topic) for topic in topics)
        data += _sized(each.subscription.user_data or b"") + _partitions(each.subscription.owned)
        assert each.assignment is not None
        assigned = struct.pack(">h", 1) + _partitions(each.assignment.partitions)
        described.append(
            SimpleNamespace(
                member_id=each.member_id,
                group_instance_id=None,
                client_id=f"app-{each.member_id}-consumer",
                client_host="/10.0.0.1",
                member_metadata=data,
                member_assignment=assigned + _sized(each.assignment.user_data or b""),
            )
        )
    group = SimpleNamespace(
        error_code=0, group_id="app", group_state="Stable", protocol_data="stream", members=described
    )
    messages: list[str] = []

    class _Broker:
        def send_all(self, requests: Sequence[Any], _: object = None) -> list[Any]:
            return [SimpleNamespace(groups=[group]) for _ in requests]

    connection: Any = _Broker()
    listed = {"app": ListedGroup("app", 1, "classic", "Stable")}
    topics = {name: count for name, count in TOPICS.items() if name != "app-eu-sums-changelog"}
    kafka_groups.describe(connection, listed, topics, rows, messages.append, **unknown)
    return messages


@pytest.mark.parametrize("topic", ["clicks", "app-counts-changelog", "other-changelog"])
def test_an_application_that_uses_a_topic_with_an_error(topic: str) -> None:
    """Without a changelog, it would have no state."""
    rows = SnapshotRows("c")
    _described(rows, unknown={topic: "LeaderNotAvailableError"})
    errors = [row["error"] for row in rows.rows["undescribed"]]
    assert (not rows.rows["tasks"]) is any(f"topic {topic} are not known" in error for error in errors)
    assert bool(errors) is (topic != "other-changelog")


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _partitions(partitions: Sequence[tuple[str, int]]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    data = struct.pack(">i", len(by_topic))
    for topic, numbers in by_topic.items():
        data += _string(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return data


def test_a_snapshot_has_the_application() -> None:
    """In the tables that the plan reads, with the ends and sizes of its changelogs."""
    rows = SnapshotRows("c")
    messages = _described(rows)
    assert [row["process_id"] for row in rows.rows["members"]] == PROCESSES[:2]
    assert len(rows.rows["tasks"]) == 8
    assert [row["source_topics"] for row in rows.rows["subtopologies"]] == [["clicks"], ["orders"]]
    assert [(row["standby_replicas"], row["assignor"]) for row in rows.rows["groups"]] == [(1, "stream")]
    assert rows.rows["undescribed"] == []
    assert any(message.startswith("changelogs of Streams applications") for message in messages)
    assert streams_applications.used_topics(rows) == {"clicks", "orders", "app-counts-changelog"}
    partitions = [("app-counts-changelog", 0), ("app-counts-changelog", 1), ("clicks", 0)]
    changelogs = streams_applications.changelog_partitions(rows, partitions)
    assert changelogs == set(partitions[:2])
    ends = {partitions[0]: LeaderOffset(70, -1, 0.0)}
    streams_applications.add_changelogs(rows, changelogs, {}, ends, {partitions[1]: LeaderOffset(512, -1, 0.0)})
    values = [(row["partition"], row["end_offset"], row["bytes"]) for row in rows.rows["changelogs"]]
    assert values == [(0, 70, None), (1, None, 512)]
    assert rows.tables()["changelogs"].num_rows == 2


def test_a_source_topic_as_changelog_has_its_committed_offset() -> None:
    """Kafka restores up to what the application has read."""
    rows = SnapshotRows("c")
    rows.add("subtopologies", group_id="app", subtopology="0", source_topics=["t"], changelog_topics=["t"])
    ends = {("t", 0): LeaderOffset(70, -1, 0.0), ("t", 1): LeaderOffset(70, -1, 0.0)}
    streams_applications.add_changelogs(rows, [("t", 0), ("t", 1)], {"app": {("t", 0): 40}}, ends, {})
    assert [row["end_offset"] for row in rows.rows["changelogs"]] == [40, None]


@pytest.mark.parametrize("value", ["app", "=topology.txt", "app=", "app=/no/such/file"])
def test_topologies_are_files_of_groups(value: str) -> None:
    """Anything else is a message."""
    from spark_assign.cli.job_tables import read_topologies

    with pytest.raises(ConfigError, match="--topology"):
        read_topologies([value])


def test_a_topology_in_another_encoding(tmp_path: Path) -> None:
    """The message names the line."""
    from spark_assign.cli.job_tables import read_topologies

    (tmp_path / "t").write_bytes(b"Topologies:\n\xff")
    with pytest.raises(ConfigError, match="can't be read: line 2 isn't UTF-8"):
        read_topologies([f"app={tmp_path / 't'}"])
