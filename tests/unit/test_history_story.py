"""The past of groups as their records tell it: generations, members and owners in time."""

from __future__ import annotations

import random
import struct
from itertools import permutations

import pytest

from spark_assign.history.kernel import record_parser
from spark_assign.history.kernel.build_history import IDLE, to_slices
from spark_assign.history.kernel.build_timelines import BrokerGroupTracker
from spark_assign.history.kernel.timeline import RecordedMember
from spark_assign.wire.group_records import write_key
from tests.cases import cases, tuples
from tests.unit.history_connect import worker, worker_assignment
from tests.unit.history_log import (
    ID,
    Log,
    assignment,
    classic_member,
    current,
    generation,
    join,
    metadata,
    numbers_bytes,
    owners,
    streams_metadata,
    subscription,
    subtopology,
    tasks_of,
    text_bytes,
    tombstones,
    topics,
)

GROUP = "GroupMetadata"
REBALANCE = (
    *("generation_id", "state", "members", "joined", "left", "restarted", "missing_generations", "partitions"),
    *("moved", "cause"),
)


def test_a_group_from_its_first_member_to_its_last(log: Log) -> None:
    """A row for each generation; what a member keeps is one row of ownership."""
    log.write(1_000, GROUP, generation(1, [classic_member("a", {"t": [0, 1, 2]})]))
    log.write(2_000, GROUP, generation(2, [classic_member("a", {"t": [0, 1]}), classic_member("b", {"t": [2]})]))
    log.write(3_000, GROUP, generation(3, [classic_member("b", {"t": [0, 1, 2]})]))
    log.write(9_000, GROUP, generation(4, []))
    assert log.table_rows("rebalances", *REBALANCE) == [
        (1, "Stable", 1, 0, 0, 0, 0, 3, 0, "first on record"),
        (2, "Stable", 2, 1, 0, 0, 0, 3, 1, "1 joined: b"),
        (3, "Stable", 1, 0, 1, 0, 0, 3, 2, "1 left: a"),
        (4, "Empty", 0, 0, 1, 0, 0, 0, 0, "1 left: b; no members remain"),
    ]
    assert log.table_rows(
        "memberships", "member_id", "first_generation_id", "last_generation_id", "start_time", "end_time", "join_type"
    ) == [("a", 1, 2, 1_000, 3_000, "first-on-record"), ("b", 2, 3, 2_000, 9_000, "joined")]
    assert log.table_rows(
        "ownership", "member_id", "topic", "role", "first", "step", "count", "generation_id", "start_time", "end_time"
    ) == tuples(
        "a t partition 0 1 2 1 1_000 3_000; a t partition 2 1 1 1 1_000 2_000; "
        "b t partition 2 1 1 2 2_000 9_000; b t partition 0 1 2 3 3_000 9_000"
    )
    found = log.table_rows("subscriptions_over_time", "member_id", "topic", "start_time", "end_time")
    assert found == tuples("a t 1_000 3_000; b t 2_000 9_000")


def test_a_static_member_that_comes_back_makes_no_rebalance(log: Log) -> None:
    """The coordinator writes the group once more, with the new id and the same generation."""
    stays = classic_member("b", {"t": [1]}, groupInstanceId="two")
    for at, member_id in ((1_000, "a-1"), (5_000, "a-2")):
        log.write(at, GROUP, generation(3, [classic_member(member_id, {"t": [0]}, groupInstanceId="one"), stays]))
    both = [classic_member("a-2", {"t": [0]}, groupInstanceId="one"), classic_member("b", {"t": [1]})]
    log.write(9_000, GROUP, generation(4, both))
    found = log.table_rows("rebalances", "generation_id", "time", "cause")
    assert found == tuples("3 1_000 'first on record'; 4 9_000 'no cause on record'")
    assert log.table_rows(
        *("memberships", "member_id", "first_generation_id", "last_generation_id", "start_time", "end_time"),
        *("join_type", "leave_type"),
    ) == tuples(
        "a-1 3 3 1_000 5_000 first-on-record restarted; b 3 4 1_000 None first-on-record active; "
        "a-2 3 4 5_000 None restarted active"
    )
    got = log.table_rows("ownership", "member_id", "first", "generation_id", "start_time", "end_time")
    assert got == tuples("a-1 0 3 1_000 5_000; b 1 3 1_000 None; a-2 0 3 5_000 None")
    assert log.timeline().is_rebalance == (True, False, True)


def test_a_group_that_was_deleted_begins_again(log: Log) -> None:
    """Numbers start with 1 again. The same number on both sides of a tombstone is not the same generation; the record
    of a group that has no generation yet is none."""
    log.write(1_000, GROUP, generation(1, [classic_member("a", {"t": [0]})]))
    log.write(2_000, GROUP, None)
    log.write(3_000, GROUP, generation(0, [], protocolType=""))
    log.write(4_000, GROUP, generation(1, [classic_member("a", {"t": [0]})]))
    log.write(5_000, GROUP, generation(4, [classic_member("a", {"t": [0]})]))
    assert log.table_rows("rebalances", "generation_id", "time", "state", "joined", "missing_generations", "cause") == [
        (1, 1_000, "Stable", 0, 0, "first on record"),
        (1, 2_000, "Dead", 0, 0, "1 left: a; the group was deleted, or its last records expired"),
        (1, 4_000, "Stable", 0, 0, "a returned"),
        (4, 5_000, "Stable", 0, 2, "no cause on record; 2 generations before it not on record"),
    ]
    assert log.table_rows("ownership", "member_id", "start_time", "end_time") == tuples("a 1_000 2_000; a 4_000 None")


def test_two_lives_in_one_millisecond_are_two(log: Log) -> None:
    """The log may have the time of the broker's append for all records of a batch."""
    for at in (1_000, 1_000):
        log.write(at, GROUP, generation(1, [classic_member("a", {"t": [0]})]))
        log.write(at, GROUP, None)
    assert [each.state for each in log.timeline().generations] == ["Stable", "Dead"] * 2
    assert log.timeline().ownership == ()  # For no time.
    log = Log()
    for at in (1_000, 1_000):
        join(log, at, 1, "a", {"a": {"t": [0]}}, t=[0])
        tombstones(log, at, "a")
        log.write(at, "ConsumerGroupMetadata", None)
    assert [each.state for each in log.timeline().generations] == ["Stable", "Dead"] * 2


def test_what_moves(log: Log) -> None:
    """Neither what a static member takes with it nor what nobody had before; what was withheld in between does."""
    at = iter(range(1_000, 9_000, 1_000))
    for number, has in enumerate(
        (
            {"a": [0, 1], "b": [2]},
            {"a": [0, 1], "c": [2]},  # c is b's instance.
            {"a": [0], "c": [2]},
            {"a": [0], "c": [1, 2]},
            {},
            {"d": [0, 1, 2]},
        ),
        start=1,
    ):
        instance = {"b": "i", "c": "i"}
        members = [classic_member(each, {"t": own}, groupInstanceId=instance.get(each)) for each, own in has.items()]
        log.write(next(at), GROUP, generation(number, members))
    assert [moved for (moved,) in log.table_rows("rebalances", "moved")] == [0, 0, 0, 1, 0, 0]


def test_an_epoch_that_is_overtaken_is_never_settled(log: Log) -> None:
    """The next one began before everybody had reached it."""
    join(log, 1_000, 1, "a", {"a": {"t": [0, 1]}}, t=[0, 1])
    join(log, 2_000, 2, "b", {"a": {"t": [0]}, "b": {"t": [1]}})
    join(log, 3_000, 3, "c", {})
    log.write(4_000, "ConsumerGroupCurrentMemberAssignment", current(3, {"t": [0]}), memberId="a")
    log.write(5_000, "ConsumerGroupCurrentMemberAssignment", current(3, {"t": [1]}), memberId="b")
    assert log.table_rows("rebalances", "generation_id", "stable_time") == [(1, 1_000), (2, None), (3, 5_000)]


def test_an_epoch_can_begin_without_a_change_of_members(log: Log) -> None:
    """Topics of the group have changed: the epoch is bumped, and targets follow. What a member receives is of the
    epoch that it has reached; a static member that leaves (epoch -2) keeps what it has in the epoch of the group."""
    now = "ConsumerGroupCurrentMemberAssignment"
    join(log, 1_000, 1, "a", {"a": {"t": [0, 1]}}, t=[0])
    log.write(2_000, "ConsumerGroupMetadata", {"epoch": 2, "metadataHash": 1})
    log.write(3_000, now, current(1, {"t": [0, 1]}), memberId="a")
    log.write(4_000, "ConsumerGroupTargetAssignmentMember", {"topicPartitions": topics({"t": [0, 1, 2]})}, memberId="a")
    log.write(5_000, now, current(2, {"t": [0, 1, 2]}), memberId="a")
    log.write(6_000, "ConsumerGroupMetadata", {"epoch": 3, "metadataHash": 2})
    log.write(7_000, now, current(-2, {"t": [0, 1, 2, 3]}), memberId="a")
    assert log.table_rows("rebalances", "generation_id", "time", "stable_time", "members", "partitions", "cause") == [
        (1, 1_000, 1_000, 1, 2, "first on record"),
        (2, 2_000, 5_000, 1, 3, f"partitions of {ID['t']}: 3, before 2"),
        (3, 6_000, None, 1, 3, IDLE),
    ]
    assert log.timeline().is_idle == (False, False, True)
    assert log.table_rows("groups", "rebalances", "idle_epochs", "max_rebalances_per_day") == [(2, 1, 2)]
    found = log.table_rows("ownership", "member_id", "first", "generation_id", "start_time", "end_time")
    assert found == tuples("a 0 1 1_000 None; a 1 1 3_000 None; a 2 2 5_000 None; a 3 3 7_000 None")


def test_an_epoch_is_settled_when_nobody_waits(log: Log) -> None:
    """Who has reached it may still wait for what others have to give up."""
    join(log, 1_000, 1, "a", {"a": {"t": [0, 1]}}, t=[0])
    log.rows.pop()
    log.write(1_000, "ConsumerGroupCurrentMemberAssignment", {**current(1, {"t": [0]}), "state": 2}, memberId="a")
    log.write(3_000, "ConsumerGroupCurrentMemberAssignment", current(1, {"t": [0, 1]}), memberId="a")
    assert log.table_rows("rebalances", "generation_id", "stable_time") == [(1, 3_000)]


def test_a_compacted_log_knows_members_by_what_they_have(log: Log) -> None:
    """Their metadata was written again later, so that the first of it is gone."""
    log.write(1_000, "ConsumerGroupCurrentMemberAssignment", current(4, {"t": [0]}), memberId="a")
    log.write(2_000, "ConsumerGroupMetadata", {"epoch": 5, "metadataHash": 0})
    log.write(3_000, "ConsumerGroupTargetAssignmentMember", {"topicPartitions": topics({"t": [1]})}, memberId="b")
    log.write(4_000, "ConsumerGroupMemberMetadata", metadata("a", "t"), memberId="a")
    found = log.table_rows("memberships", "member_id", "client_id", "start_time", "join_type")
    assert found == tuples("a client-a 2_000 first-on-record; b None 3_000 joined")
    got = log.table_rows("ownership", "member_id", "generation_id", "start_time", "end_time")
    assert got == [("a", 4, 1_000, None)]


def test_numbers_that_go_down_are_a_group_that_was_deleted(log: Log) -> None:
    """Also where the tombstone is gone."""
    log.write(1_000, GROUP, generation(7, [classic_member("a", {"t": [0]})]))
    log.write(4_000, GROUP, generation(3, [classic_member("b", {"t": [0]})]))
    assert log.table_rows("rebalances", "generation_id", "missing_generations") == [(7, 0), (3, 2)]


def test_why_a_generation_came(log: Log) -> None:
    """What changed is said: subscriptions, assignor, leader, numbers of partitions, what had been taken away."""
    a, b = classic_member("a", {"t": [0, 1]}), classic_member("b", {"t": [2, 3]})
    cooperative = {"protocol": "cooperative-sticky"}
    log.write(1_000, GROUP, generation(1, [a, b]))
    log.write(2_000, GROUP, generation(2, [classic_member("a", {"t": [0, 1]}, ["t", "u"]), b]))
    log.write(3_000, GROUP, generation(3, [a, b], leader="b"))
    log.write(4_000, GROUP, generation(4, [a, b], leader="b", **cooperative))
    log.write(5_000, GROUP, generation(5, [a, classic_member("b", {"t": [2]})], leader="b", **cooperative))
    log.write(
        6_000,
        GROUP,
        generation(
            6, [classic_member("a", {"t": [0, 1, 3]}), classic_member("b", {"t": [2]})], leader="b", **cooperative
        ),
    )
    log.write(
        7_000,
        GROUP,
        generation(
            7, [classic_member("a", {"t": [0, 1, 3, 4]}), classic_member("b", {"t": [2, 5]})], leader="b", **cooperative
        ),
    )
    has_u = classic_member("b", {"t": [2, 5], "u": [0]}, ["t"])
    all_of_t = classic_member("a", {"t": [0, 1, 3, 4]})
    log.write(8_000, GROUP, generation(8, [all_of_t, has_u], leader="b", **cooperative))
    log.write(9_000, GROUP, generation(9, [all_of_t, classic_member("b", {"t": [2, 5]})], leader="b", **cooperative))
    assert log.table_rows("rebalances", "generation_id", "moved", "cause") == [
        (1, 0, "first on record"),
        (2, 0, "1 changed subscription: a"),
        (3, 0, "1 changed subscription: a; leader changed from a to b"),
        (4, 0, "assignor changed from range to cooperative-sticky"),
        (5, 0, "partitions of t: 3, before 4"),
        (6, 1, "partitions that were revoked before are assigned"),
        (7, 0, "partitions of t: 6, before 4"),
        (8, 0, "partitions of u: 1, before 0"),
        (9, 0, "partitions of u: 0, before 1"),
    ]
    found = log.table_rows("subscriptions_over_time", "member_id", "topic", "start_time", "end_time")
    assert found == tuples("a t 1_000 None; b t 1_000 None; a u 2_000 3_000")


def test_bytes_that_nobody_can_read_cost_no_group(log: Log) -> None:
    """The member is there, its topics are not."""
    broken = [
        classic_member("b", {}, subscription=b"\0\1\0\0", assignment=b"\0"),
        classic_member("c", {}, subscription=b"\0"),
    ]
    log.write(1_000, GROUP, generation(1, [classic_member("a", {"t": [0]}), *broken]))
    log.write(2_000, GROUP, generation(2, [classic_member("a", {"t": [0]}), *broken]))
    log.write(3_000, GROUP, b"\0\3\0")
    assert log.table_rows("rebalances", "generation_id", "members", "partitions") == [(1, 3, 1), (2, 3, 1)]
    assert [code for (code,) in log.table_rows("rejected", "code")] == [
        "unreadable-subscription",
        "unreadable-assignment",
    ]
    ((first,), (second,)) = log.table_rows("rejected", "detail")
    assert first.startswith("member_id=b, generation=1: ")
    assert " and 1 more. " in first
    assert second.startswith("member_id=b, generation=1: ")
    assert "more" not in second
    key = write_key(2, {"group": "g"})
    found = log.table_rows("unreadable", "code", "partition", "offset", "timestamp", "key", "value")
    assert found == [("corrupt", 7, 2, 3_000, key, b"\0\3\0")]


def test_an_unreadable_record_lasts_until_another_replaces_it(log: Log) -> None:
    """The next one with its key, or the end of the group. The history builds on the others."""
    columns = ("code", "timestamp", "end_time")
    log.write(1_000, GROUP, b"\0\3\0")
    log.write(2_000, GROUP, generation(2, [classic_member("a", {"t": [0]})]))
    log.write(3_000, GROUP, b"\0\3\0")
    assert log.table_rows("unreadable", *columns) == [("corrupt", 1_000, 2_000), ("corrupt", 3_000, None)]
    log.write(4_000, GROUP, None)
    assert log.table_rows("unreadable", *columns) == [("corrupt", 1_000, 2_000), ("corrupt", 3_000, 4_000)]
    other = Log()
    join(other, 1_000, 1, "a", {"a": {"t": [0]}}, t=[0])
    for member_id in "ab":
        other.write(2_000, "ConsumerGroupMemberMetadata", b"\0\0\1", memberId=member_id)
    other.write(3_000, "ConsumerGroupMemberMetadata", metadata("b", "t"), memberId="b")
    assert other.table_rows("unreadable", *columns) == [("corrupt", 2_000, None), ("corrupt", 2_000, 3_000)]
    other.write(4_000, "ConsumerGroupMetadata", None)
    assert other.table_rows("unreadable", *columns) == [("corrupt", 2_000, 4_000), ("corrupt", 2_000, 3_000)]


@cases(
    "name group_type key",
    (GROUP, "classic", {}),
    ("ShareGroupMemberMetadata", "share", {"memberId": "m"}),
)
def test_a_group_of_which_no_record_can_be_read_has_the_type_of_its_keys(
    log: Log, name: str, group_type: str, key: dict[str, str]
) -> None:
    """It isn't simple, even if it commits. A record of an unknown version is one, too."""
    log.write(1_000, name, b"\0\1\0", **key)
    log.commits("t", 0, 1_000, 2_000)
    assert log.table_rows("groups", "group_type", "protocol_type", "rebalances") == [(group_type, None, 0)]
    log.rows[0] |= {"code": "newer-version", "detail": "unknown"}
    assert log.table_rows("groups", "group_type", "records") == [(group_type, 2)]
    assert log.table_rows("unreadable", "code", "detail") == [("newer-version", "unknown")]


def test_members_of_a_classic_group_are_read_completely(log: Log) -> None:
    """Sorted by id, with their positions in the record; a rack is in subscriptions of version 3 (KIP-881)."""
    with_rack = subscription("t", "u", version=3) + struct.pack(">ih", -1, 2) + b"r1"
    twice = struct.pack(">hi", 1, 2) + 2 * (text_bytes("t") + numbers_bytes([3, 1])) + struct.pack(">i", -1)
    given = [
        classic_member("b", {}, ["t"], rebalanceTimeout=-1, sessionTimeout=6_000),
        classic_member("a", {}, groupInstanceId="i", subscription=with_rack, assignment=twice, clientHost="/h"),
    ]
    log.write(1_000, GROUP, generation(1, given))
    (found,) = log.timeline().generations
    assert (found.assignor, found.leader, found.partition, found.offset) == ("range", "b", 7, 0)
    assert found.members == (
        RecordedMember(
            *("a", "i", "client-a", "/h", "r1", 45_000, 300_000, ("t", "u"), with_rack),
            *({("partition", "t"): (1, 3)}, twice, 1),
        ),
        RecordedMember(
            *("b", None, "client-b", "/10.0.0.1", None, 6_000, None, ("t",), subscription("t")), *({}, b"", 0)
        ),
    )


def test_bytes_are_decoded_once_while_they_are_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group of many generations repeats its bytes; those that it no longer uses are forgotten."""
    decoded: list[bytes] = []

    def count(data: bytes) -> list[tuple[str, tuple[int, ...]]]:
        decoded.append(data)
        return list(assigned(data))

    assigned = record_parser.consumer_protocol.assigned
    monkeypatch.setattr(record_parser.consumer_protocol, "assigned", count)
    reader = record_parser.EmbeddedProtocolReader()

    def read(*partitions: int) -> None:
        (member,) = reader.read_members(generation(1, [classic_member("a", {"t": partitions})]))
        assert member.assignment == {("partition", "t"): partitions}

    for _ in range(3):
        read(0)
        read(0, 1)
    assert len(decoded) == 2
    for number in range(2, 52):
        read(number)
    read(0)
    assert len(decoded) == 2 + 50
    for number in range(100, 300):
        read(number)
    read(0)
    assert len(decoded) == 2 + 50 + 200 + 1


def test_connect_workers_run_what_is_assigned_until_it_is_revoked(log: Log) -> None:
    """Assignments of the incremental protocol (KIP-415) are changes."""
    first = worker("w", None, worker_assignment(connectors=["c"], tasks=[("c", 0), ("c", 1)]))
    log.write(1_000, GROUP, generation(1, [first], protocolType="connect", protocol="sessioned"))
    ran = worker_assignment(connectors=["c"], tasks=[("c", 0), ("c", 1)])
    again = worker("w", ran, worker_assignment(tasks=[("d", 0)], revoked=[("c", 1)]))
    log.write(2_000, GROUP, generation(2, [again], protocolType="connect", protocol="sessioned"))
    assert log.table_rows("ownership", "role", "topic", "first", "step", "count", "start_time", "end_time") == tuples(
        "connector c 0 1 1 1_000 None; task c 0 1 1 1_000 None; task c 1 1 1 1_000 2_000; task d 0 1 1 2_000 None"
    )


def test_clients_with_a_protocol_of_their_own_are_members_only(log: Log) -> None:
    """What their bytes mean nobody knows."""
    log.write(1_000, GROUP, generation(1, [classic_member("a", {"t": [0]})], protocolType="leader-election"))
    timeline = log.timeline()
    assert timeline.protocol_type == "leader-election"
    assert [each.members[0].topics for each in timeline.generations] == [()]
    assert timeline.ownership == ()
    assert timeline.rejected == ()


def consumer_group() -> Log:
    """A joins and has all; b joins and gets 1 when a has given it up; a leaves."""
    log = Log()
    now = "ConsumerGroupCurrentMemberAssignment"
    join(log, 1_000, 1, "a", {"a": {"t": [0, 1]}}, t=[0, 1])
    join(log, 2_000, 2, "b", {"a": {"t": [0]}, "b": {"t": [1]}})
    log.write(3_000, now, current(1, {"t": [0]}, {"t": [1]}), memberId="a")
    log.write(4_000, now, current(2, {"t": [0]}), memberId="a")
    log.write(5_000, now, current(2, {"t": [1]}), memberId="b")
    tombstones(log, 6_000, "a")
    log.write(6_000, "ConsumerGroupMetadata", {"epoch": 3, "metadataHash": 0})
    log.write(7_000, "ConsumerGroupTargetAssignmentMember", {"topicPartitions": topics({"t": [0, 1]})}, memberId="b")
    log.write(7_000, "ConsumerGroupTargetAssignmentMetadata", {"assignmentEpoch": 3, "assignmentTimestamp": 0})
    log.write(7_000, now, current(3, {"t": [0, 1]}), memberId="b")
    return log


def test_a_consumer_group_owns_what_its_members_acknowledge() -> None:
    """A partition is the old owner's until it has given it up. Epochs are settled when the last member is there."""
    log = consumer_group()
    assert log.table_rows(
        "rebalances", "generation_id", "time", "stable_time", "members", "joined", "left", "partitions", "moved"
    ) == [(1, 1_000, 1_000, 1, 0, 0, 2, 0), (2, 2_000, 4_000, 2, 1, 0, 2, 1), (3, 6_000, 7_000, 1, 0, 1, 2, 1)]
    assert log.table_rows(
        "ownership", "member_id", "topic", "first", "count", "generation_id", "start_time", "end_time"
    ) == [
        ("a", ID["t"], 0, 1, 1, 1_000, 6_000),
        ("a", ID["t"], 1, 1, 1, 1_000, 4_000),
        ("b", ID["t"], 1, 1, 2, 5_000, None),
        ("b", ID["t"], 0, 1, 3, 7_000, None),
    ]
    assert log.timeline().group_type == "consumer"


def test_topics_are_named_where_a_record_names_them() -> None:
    """Partition metadata of 4.0, and commits of 4.1."""
    log = consumer_group()
    log.write(
        8_000,
        "ConsumerGroupPartitionMetadata",
        {"topics": [{"topicId": ID["t"], "topicName": "t", "numPartitions": 2, "partitionMetadata": []}]},
    )
    assert {topic for (topic,) in log.table_rows("ownership", "topic")} == {"t"}
    log.write(9_000, "ConsumerGroupPartitionMetadata", b"\0\0\1")
    assert {topic for (topic,) in log.table_rows("ownership", "topic")} == {"t"}
    assert log.table_rows("unreadable", "code", "timestamp") == [("corrupt", 9_000)]
    log = consumer_group()
    log.commits("t", 0, 1_000, 2_000, topic_id=ID["t"])
    assert {topic for (topic,) in log.table_rows("ownership", "topic")} == {"t"}


def test_a_static_member_of_a_consumer_group_keeps_its_partitions_while_it_is_away(log: Log) -> None:
    """It leaves with epoch -2 and comes back under a new id: no new epoch."""
    join(log, 1_000, 1, "a", {"a": {"t": [0, 1]}}, t=[0, 1])
    log.write(2_000, "ConsumerGroupCurrentMemberAssignment", current(-2, {"t": [0, 1]}), memberId="a")
    tombstones(log, 3_000, "a")
    log.write(3_000, "ConsumerGroupMemberMetadata", metadata("b", "t"), memberId="b")
    log.write(3_000, "ConsumerGroupTargetAssignmentMember", {"topicPartitions": topics({"t": [0, 1]})}, memberId="b")
    for epoch in (0, 1):
        log.write(3_000, "ConsumerGroupCurrentMemberAssignment", current(epoch, {"t": [0, 1]}), memberId="b")
    assert log.table_rows("rebalances", "generation_id", "time") == [(1, 1_000)]
    found = log.table_rows("memberships", "member_id", "first_generation_id", "start_time", "end_time")
    assert found == tuples("a 1 1_000 3_000; b 1 3_000 None")
    got = log.table_rows("ownership", "member_id", "count", "generation_id", "start_time", "end_time")
    assert got == tuples("a 2 1 1_000 3_000; b 2 1 3_000 None")


def test_an_upgrade_and_a_downgrade_go_on_with_the_same_group(log: Log) -> None:
    """Tombstones of the one type and records of the other are one step; nobody loses anything by it."""
    log.write(
        500,
        "ConsumerGroupPartitionMetadata",
        {"topics": [{"topicId": ID["t"], "topicName": "t", "numPartitions": 2, "partitionMetadata": []}]},
    )
    log.write(1_000, GROUP, generation(5, [classic_member("a", {"t": [0, 1]})]))
    log.write(2_000, GROUP, None)
    join(log, 2_000, 5, "a", {"a": {"t": [0, 1]}}, t=[0, 1])
    join(log, 2_000, 6, "b", {"a": {"t": [0]}, "b": {"t": [1]}})
    log.write(3_000, "ConsumerGroupCurrentMemberAssignment", current(6, {"t": [0]}), memberId="a")
    log.write(4_000, "ConsumerGroupCurrentMemberAssignment", current(6, {"t": [1]}), memberId="b")
    tombstones(log, 5_000, "a")
    tombstones(log, 5_000, "b")
    log.write(5_000, "ConsumerGroupTargetAssignmentMetadata", None)
    log.write(5_000, "ConsumerGroupMetadata", None)
    log.write(5_000, GROUP, generation(6, [classic_member("a", {"t": [0]})]))
    log.write(6_000, GROUP, generation(7, [classic_member("a", {"t": [0, 1]})]))
    found = log.table_rows("rebalances", "generation_id", "time", "state", "joined", "left", "missing_generations")
    assert found == tuples("5 1_000 Stable 0 0 0; 6 2_000 Stable 1 0 0; 7 6_000 Stable 0 0 0")
    assert log.table_rows("memberships", "member_id", "start_time", "end_time") == tuples("a 1_000 None; b 2_000 5_000")
    got = log.table_rows("ownership", "member_id", "topic", "first", "count", "start_time", "end_time")
    assert got == tuples("a t 0 1 1_000 None; a t 1 1 1_000 3_000; b t 1 1 4_000 5_000; a t 1 1 6_000 None")
    timeline = log.timeline()
    assert timeline.group_type == "classic"
    assert timeline.generations[0].members[0].subscription is not None


MEMBERSHIP = (
    *("member_id", "group_instance_id", "client_id", "client_host", "rack_id", "session_timeout_ms"),
    *("rebalance_timeout_ms", "first_generation_id", "last_generation_id", "start_time", "end_time", "join_type"),
)


def test_what_members_of_a_consumer_group_report(log: Log) -> None:
    """Everything that is on record. A member that uses the classic protocol has a session timeout; a timeout of -1
    means that the member didn't say it."""
    given: dict[str, dict[str, object]] = {
        "a": {"rebalanceTimeoutMs": -1},
        "b": {"rebalanceTimeoutMs": 0, "rackId": "r1"},
        "c": {"classicMemberMetadata": {"sessionTimeoutMs": 6_000, "supportedProtocols": []}, "instanceId": "i"},
    }
    for member_id, fields in given.items():
        log.write(1_000, "ConsumerGroupMemberMetadata", metadata(member_id, "t", **fields), memberId=member_id)
    log.write(1_000, "ConsumerGroupMetadata", {"epoch": 1, "metadataHash": 0})
    moved = metadata("a", "t", rackId="r2", clientHost="/10.0.0.2", rebalanceTimeoutMs=7)
    log.write(2_000, "ConsumerGroupMemberMetadata", moved, memberId="a")
    log.write(2_000, "ConsumerGroupMetadata", {"epoch": 2, "metadataHash": 0})
    assert log.table_rows("memberships", *MEMBERSHIP) == [
        ("a", None, "client-a", "/10.0.0.2", "r2", None, 7, 1, 2, 1_000, None, "first-on-record"),
        ("b", None, "client-b", "/10.0.0.1", "r1", None, 0, 1, 2, 1_000, None, "first-on-record"),
        ("c", "i", "client-c", "/10.0.0.1", None, 6_000, 300_000, 1, 2, 1_000, None, "first-on-record"),
    ]
    first, second = log.timeline().generations
    found = first.members[0]
    assert found == second.members[0]._replace(client_host="/10.0.0.1", rack_id=None, rebalance_timeout_ms=None)
    assert first.members[1:] == second.members[1:]


def test_subscriptions_to_patterns_are_the_topics_that_matched(log: Log) -> None:
    """The coordinator writes the topics of each regular expression (KIP-848); without such a record there are none."""
    for member_id, regex in {"a": "t.*", "b": "u|v", "c": "x"}.items():
        member = metadata(member_id, *("t" if member_id == "b" else ""), subscribedTopicRegex=regex)
        log.write(1_000, "ConsumerGroupMemberMetadata", member, memberId=member_id)
    log.write(1_000, "ConsumerGroupMetadata", {"epoch": 1, "metadataHash": 0})
    for at, epoch, regex, names in (
        (2_000, 2, "t.*", ["t", "t2"]),
        (2_000, 2, "u|v", ["t", "u"]),
        (3_000, 3, "t.*", ["t2"]),
        (4_000, 4, "u|v", None),
    ):
        matched = None if names is None else {"topics": names, "version": 1, "timestamp": at}
        log.write(at, "ConsumerGroupRegularExpression", matched, regularExpression=regex)
        log.write(at, "ConsumerGroupMetadata", {"epoch": epoch, "metadataHash": 0})
    found = log.table_rows("subscriptions_over_time", "member_id", "topic", "start_time", "end_time")
    assert found == tuples("b t 1_000 None; a t 2_000 3_000; a t2 2_000 None; b u 2_000 4_000")
    expected = tuples("2 '2 changed subscription: a, b'; 3 '1 changed subscription: a'; 4 '1 changed subscription: b'")
    assert log.table_rows("rebalances", "generation_id", "cause")[1:] == expected


def test_the_assignor_of_a_consumer_group_is_the_one_that_most_members_request(log: Log) -> None:
    """Kafka's `ConsumerGroup.preferredServerAssignor`. A member that requests none doesn't count."""
    for epoch, assignor in enumerate((None, "uniform", "range", "range", "uniform", "uniform"), 1):
        member = metadata(f"m{epoch}", "t", serverAssignor=assignor)
        log.write(1_000 * epoch, "ConsumerGroupMemberMetadata", member, memberId=f"m{epoch}")
        log.write(1_000 * epoch, "ConsumerGroupMetadata", {"epoch": epoch, "metadataHash": 0})
    assert [assignor for (assignor,) in log.table_rows("rebalances", "assignor")] == [
        *(None, "uniform"),
        "range",  # One each: the broker may choose either.
        *("range", "range", "uniform"),
    ]
    assert log.table_rows("groups", "assignor") == [("uniform",)]


@cases(
    "group_type epoch reached state stable",
    ("consumer", 5, 5, 0, True),
    ("consumer", 5, 4, 0, False),
    ("consumer", 5, 5, 1, False),  # It has yet to release partitions.
    ("consumer", 0, 0, 0, True),
    ("share", 5, 5, 0, True),
    ("share", 5, 4, 0, False),
    ("streams", 5, 5, 1, True),
    ("streams", 5, 5, 2, False),
    ("streams", 5, 4, 1, False),
)
def test_a_group_is_stable_when_all_members_have_reached_its_epoch(
    group_type: str, epoch: int, reached: int, state: int, *, stable: bool
) -> None:
    """In any order of the records; a member that has left is not waited for, and neither is one without metadata."""
    records: list[tuple[str, dict[str, str], dict[str, object] | None]] = [
        ("MemberMetadata", {"memberId": "a"}, {}),
        ("CurrentMemberAssignment", {"memberId": "a"}, {"memberEpoch": reached, "state": state}),
        ("Metadata", {}, {"epoch": epoch}),
    ]
    for order in permutations(records):
        group = BrokerGroupTracker(group_type, {})
        for record in order:
            group.apply(*record)
        assert group.is_stable == stable, order
        group.apply("MemberMetadata", {"memberId": "b"}, {})
        assert not group.is_stable
        group.apply("MemberMetadata", {"memberId": "b"}, None)
        assert group.is_stable == stable
        group.apply("CurrentMemberAssignment", {"memberId": "c"}, {"memberEpoch": 1, "state": state})
        assert group.is_stable == stable
        group.apply("MemberMetadata", {"memberId": "a"}, None)
        assert group.is_stable


def test_a_group_of_another_type_owns_only_what_its_own_records_say(log: Log) -> None:
    """The tombstone of the classic group can be gone, too: its members are no members of the new group."""
    log.write(1_000, GROUP, generation(5, [classic_member("a", {"t": [0]}), classic_member("b", {"t": [1]})]))
    join(log, 4_000, 8, "b", {"b": {"t": [0, 1]}}, t=[0, 1])
    assert log.table_rows("ownership", "member_id", "topic", "first", "count", "start_time", "end_time") == [
        ("a", "t", 0, 1, 1_000, 4_000),
        ("b", "t", 1, 1, 1_000, 4_000),
        ("b", ID["t"], 0, 2, 4_000, None),
    ]
    found = log.table_rows("rebalances", "generation_id", "time", "members", "left", "missing_generations")
    assert found == tuples("5 1_000 2 0 0; 8 4_000 1 1 2")


def test_tasks_of_streams_have_roles(log: Log) -> None:
    """Active, standby and warmup ones; standbys own nothing."""
    log.write(
        1_000, "StreamsGroupTopology", {"epoch": 1, "subtopologies": [subtopology("0", ["in", "made"], ["made"])]}
    )
    log.write(1_000, "StreamsGroupMemberMetadata", streams_metadata("a"), memberId="a")
    log.write(1_000, "StreamsGroupMetadata", {"epoch": 1, "metadataHash": 0})
    tasks = {"activeTasks": tasks_of("0", [0, 1]), "standbyTasks": tasks_of("0", [2]), "warmupTasks": []}
    log.write(1_000, "StreamsGroupTargetAssignmentMember", tasks, memberId="a")
    pending = {f"{name}PendingRevocation": [] for name in tasks}
    has = {"memberEpoch": 1, "previousMemberEpoch": 0, "state": 1, **tasks, **pending}
    log.write(1_000, "StreamsGroupCurrentMemberAssignment", has, memberId="a")
    assert log.table_rows("ownership", "role", "topic", "first", "count") == tuples("active '0' 0 2; standby '0' 2 1")
    assert log.table_rows("subscriptions_over_time", "topic") == [("in",)]
    assert log.table_rows("rebalances", "stable_time", "partitions") == [(1_000, 2)]
    log.write(2_000, "StreamsGroupMemberMetadata", streams_metadata("b"), memberId="b")
    log.write(2_000, "StreamsGroupMetadata", {"epoch": 2, "metadataHash": 0})
    for member_id, active, standby in (("a", [0], [1]), ("b", [1], [2])):
        moved = {"activeTasks": tasks_of("0", active), "standbyTasks": tasks_of("0", standby), "warmupTasks": []}
        log.write(2_000, "StreamsGroupTargetAssignmentMember", moved, memberId=member_id)
    assert log.table_rows("rebalances", "generation_id", "partitions", "moved") == [(1, 2, 0), (2, 2, 1)]
    kept = {"activeTasks": tasks_of("0", [0]), "standbyTasks": [], "warmupTasks": tasks_of("0", [5])}
    gives = {
        "activeTasksPendingRevocation": tasks_of("0", [1]),
        "standbyTasksPendingRevocation": tasks_of("0", [2]),
        "warmupTasksPendingRevocation": tasks_of("1", [0]),
    }
    log.write(3_000, "StreamsGroupCurrentMemberAssignment", {**has, **kept, **gives, "state": 2}, memberId="a")
    assert log.table_rows("ownership", "role", "topic", "first", "count", "start_time", "end_time") == [
        ("active", "0", 0, 2, 1_000, None),  # Task 1 is active until the member has released it.
        ("standby", "0", 2, 1, 1_000, None),
        ("warmup", "0", 5, 1, 3_000, None),
        ("warmup", "1", 0, 1, 3_000, None),
    ]


def test_members_of_share_groups_share(log: Log) -> None:
    """A partition has as many owners as the record says; it moves when they change."""
    for epoch, members in ((1, {"a": [0, 1]}), (2, {"a": [0, 1], "b": [1]})):
        at = 1_000 * epoch
        for member_id in members:
            who = {"rackId": None, "clientId": member_id, "clientHost": "/", "subscribedTopicNames": ["t"]}
            log.write(at, "ShareGroupMemberMetadata", who, memberId=member_id)
        log.write(at, "ShareGroupMetadata", {"epoch": epoch, "metadataHash": 0})
        for member_id, has in members.items():
            target = {"topicPartitions": topics({"t": has})}
            log.write(at, "ShareGroupTargetAssignmentMember", target, memberId=member_id)
            now = {"memberEpoch": epoch, "previousMemberEpoch": 0, "state": 0, "assignedPartitions": topics({"t": has})}
            log.write(at, "ShareGroupCurrentMemberAssignment", now, memberId=member_id)
    assert log.table_rows("rebalances", "generation_id", "partitions", "moved") == [(1, 2, 0), (2, 2, 1)]
    assert owners(log.timeline().ownership, 2_500) == {(ID["t"], 0): {"a"}, (ID["t"], 1): {"a", "b"}}


def test_who_only_commits_is_a_simple_group(log: Log) -> None:
    """Also where its tombstone is there: coordinators write one for such groups, too."""
    log.commits("t", 0, 1_000, 2_000)
    log.commits("t", 0, 2_500, 9_000)
    assert (log.timeline().group_type, log.timeline().records) == ("simple", 4)
    log.write(20_000, GROUP, None)
    assert log.timeline().group_type == "simple"
    assert log.table_rows("rebalances", "generation_id", "state") == [(0, "Dead")]
    for name, group_type in (
        (GROUP, "classic"),
        ("ConsumerGroupMetadata", "consumer"),
        ("ShareGroupMetadata", "share"),
    ):
        log = Log()
        log.write(20_000, name, None)  # All else is gone.
        assert log.timeline().group_type == group_type


def test_no_order_of_facts_matters(seed: int) -> None:
    """And what is there twice counts once."""
    log = consumer_group()
    log.commits("t", 0, 1_000, 2_000)
    log.commits("t", 0, 2_500, 9_000)
    first = log.timeline()
    assert log.timeline(random.Random(seed)) == first
    twice = Log([*log.rows, *(row for row in log.rows if row["kind"] == "record")])
    assert twice.timeline().generations == first.generations


def test_runs(rng: random.Random) -> None:
    """First, step and count."""
    assert list(to_slices([])) == []
    assert list(to_slices([4])) == [(4, 1, 1)]
    assert list(to_slices([0, 2, 4, 5, 6, 9])) == [(0, 2, 3), (5, 1, 2), (9, 1, 1)]
    largest = 2**31 - 1  # A larger step is no int32.
    assert list(to_slices([0, largest])) == [(0, largest, 2)]
    assert list(to_slices([-1, largest])) == [(-1, 1, 1), (largest, 1, 1)]
    for _ in range(20):
        partitions = sorted(rng.sample(range(60), 30))
        expanded = [first + step * place for first, step, count in to_slices(partitions) for place in range(count)]
        assert expanded == partitions


def test_the_oldest_records_are_read() -> None:
    """Versions 0 to 4 of GroupMetadata."""
    for version in range(5):
        log = Log()
        member = classic_member("a", {}, subscription=subscription("t"), assignment=assignment({"t": [0]}))
        log.write(1_000, GROUP, generation(1, [member]), version=version)
        (recorded,) = log.timeline().generations
        assert recorded.members[0].rebalance_timeout_ms == (None if version == 0 else 300_000)
        assert recorded.members[0].assignment == {("partition", "t"): (0,)}
