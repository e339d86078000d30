"""Every recorded step by the state machine alone, and what the recorded ones do not show."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from spark_assign.java.hash_map import HashTable, string_hash, string_hashes, text_order
from spark_assign.simulation.kernel.classic_group import ClassicGroup
from spark_assign.simulation.kernel.classic_group_member import ClassicGroupMember, IllegalArgument, IllegalState, State
from tests.cases import cases
from tests.golden import classic_group_rows
from tests.golden.classic_group_calls import run_call, run_calls

ADD = {"op": "add", "protocol_type": "consumer", "protocols": ["range"], "topics": ["t"], "rebalance_timeout_ms": 1000}


def add(member_id: str, **other: Any) -> dict[str, Any]:
    """A member that joins and waits."""
    return {**ADD, "id": member_id, "instance": None, "awaiting_join": True, **other}


def played(*ops: dict[str, Any]) -> list[dict[str, Any]]:
    """The results of these steps, by one group."""
    group = ClassicGroup("g")
    return [run_call(group, **op) for op in ops]


def test_every_recorded_step() -> None:
    """15,402 steps of 242 sequences, no difference, none left out; the keys come in the recorded order as well."""
    rows = classic_group_rows.recorded()
    results = list(run_calls(rows))
    assert classic_group_rows.differences(rows, map(json.dumps, results)) == []
    assert [*results[0]] == [*rows[0]["expect"]]
    assert len(rows) == 15_402


# --- Java's order -------------------------------------------------------------------------------------------


def test_a_table_walks_as_a_map_of_its_largest_size() -> None:
    """Filled key by key, it walks as `table_order` says; after taking keys out it keeps its buckets."""
    draw = random.Random(6)
    for size in (0, 1, 12, 13, 24, 25, 300):
        texts = list(dict.fromkeys(f"member-{draw.random()}-é😀"[draw.randrange(8) :] for _ in range(size)))
        table: HashTable[str] = HashTable()
        for text in texts:
            table.add(text, string_hash(text))
        hashes = string_hashes(texts)
        assert [string_hash(text) for text in texts] == hashes.tolist()
        assert table.iteration_order() == [texts[at] for at in text_order(texts)]
        assert size < 13 or table.capacity > size
        before = table.iteration_order()
        for text in texts[: size // 2]:
            table.remove(text)
        assert table.iteration_order() == [text for text in before if text not in texts[: size // 2]]


def test_one_that_comes_back_stands_behind_its_bucket() -> None:
    """AaAa, AaBB, BBAa and BBBB share a hash; a leader is elected by that order."""
    table: HashTable[str] = HashTable()
    for text in ("BBBB", "AaAa", "AaBB"):
        table.add(text, string_hash(text))
    table.add("BBBB", string_hash("BBBB"))
    assert table.iteration_order() == ["BBBB", "AaAa", "AaBB"]
    table.remove("BBBB")
    table.add("BBBB", string_hash("BBBB"))
    assert table.iteration_order() == ["AaAa", "AaBB", "BBBB"]


def test_the_next_leader_hangs_on_the_largest_size() -> None:
    """Of q (bucket 1 of 16, 17 of 32) and b (bucket 2 of both) q is first only as long as the map is small."""
    assert [string_hash(text) % 32 for text in "qb"] == [17, 2]
    small = played(add("zz"), add("q"), add("b"), {"op": "remove", "id": "zz"})[-1]
    assert (small["leader"], small["members"]) == ("q", ["q", "b"])
    others = [f"other-{number}" for number in range(10)]
    grown = [add("zz"), *map(add, others), add("q"), add("b"), *({"op": "remove", "id": each} for each in others)]
    large = played(*grown, {"op": "remove", "id": "zz"})[-1]
    assert (large["leader"], large["members"]) == ("b", ["b", "q"])


# --- the machine --------------------------------------------------------------------------------------------


def test_one_id_twice_is_counted_twice() -> None:
    """Kafka's `add` puts the member over the old one and counts both, so that nothing is supported by all."""
    first, second, _ = played(add("m", protocols=["range", "range"]), add("m"), {"op": "select_protocol"})
    assert first["supported_protocols"] == {"range": 2}
    assert (second["members"], second["num_awaiting_join"], second["all_members_joined"]) == (["m"], 2, False)
    assert played(add("m"), add("m"), {"op": "select_protocol"})[-1]["error"]["class"] == "IllegalArgumentException"


def test_a_group_of_members_as_the_simulation_drives_it() -> None:
    """Methods, without JSON: two join, sync, and one leaves."""
    group = ClassicGroup("g")
    a, b = (ClassicGroupMember(name, protocols=("cooperative-sticky",), topics=("t",)) for name in "ab")
    group.add(a, awaiting_join=True)
    group.transition_to(State.PREPARING_REBALANCE)
    group.add(b, awaiting_join=True)
    assert group.has_all_members_joined()
    assert group.maybe_elect_new_joined_leader()
    group.init_next_generation()
    assert (group.leader_id, group.generation_id, group.protocol_name) == ("a", 1, "cooperative-sticky")
    for member in (a, b):
        assert group.complete_join(member)
        assert group.add_pending_sync_member(member.member_id)
    assert [group.remove_pending_sync_member(each) for each in "ab"] == [True, True]
    assert group.has_received_sync_from_all_members()
    group.transition_to(State.STABLE)
    assert group.can_rebalance()
    group.remove("a")
    assert (group.leader_id, group.subscribed_topics) == ("b", frozenset("t"))
    assert group.not_yet_rejoined_members() == [b]


def _group(*members: ClassicGroupMember, waiting: bool = False) -> ClassicGroup:
    group = ClassicGroup("g")
    for member in members:
        group.add(member, awaiting_join=waiting)
    return group


def _member(member_id: str, *protocols: str, **other: Any) -> ClassicGroupMember:
    return ClassicGroupMember(member_id, protocols=protocols or ("range",), **other)


def test_a_new_group() -> None:
    """Empty, in no generation; it was nothing before, which Kafka calls Dead."""
    group = ClassicGroup("g")
    assert (group.state, group.previous_state, group.generation_id) == (State.EMPTY, State.DEAD, 0)
    assert (group.protocol_type, group.protocol_name, group.leader_id) == (None, None, None)
    assert (group.new_member_added, group.subscribed_topics, group.rebalance_timeout_ms()) == (False, None, 0)
    assert group.all_members() == []
    assert group.compute_subscribed_topics() is None
    member = _member("m")
    assert (member.rebalance_timeout_ms, member.topics) == (0, ())
    assert (member.protocol_type, member.group_instance_id, member.is_static_member) == ("consumer", None, False)
    assert (member.awaiting_join, member.awaiting_sync, member.hash_code) == (False, False, 109)


def test_a_member_waits_only_on_request() -> None:
    """Added or updated without a JoinGroup to answer."""
    group = _group(a := _member("a"))
    assert (a.awaiting_join, group.num_members_awaiting_join_response) == (False, 0)
    request = {"protocols": ["sticky"], "topics": ["t"], "rebalance_timeout_ms": 5}
    group.update(a, **request, awaiting_join=True)
    assert (a.protocols, a.topics, a.rebalance_timeout_ms) == (("sticky",), ("t",), 5)
    assert (group.supported_protocols, group.num_members_awaiting_join_response) == ({"range": 0, "sticky": 1}, 1)
    group.update(a, **request)
    assert (a.awaiting_join, group.num_members_awaiting_join_response) == (False, 0)


def test_who_joins_or_goes_is_not_pending_any_more() -> None:
    """An id that was given out, and a SyncGroup that was waited for."""
    group = ClassicGroup("g")
    assert [group.add_pending_member(each) for each in ("a", "a", "b")] == [True, False, True]
    group.add(_member("a"), awaiting_join=True)
    assert (group.pending_join_members, group.has_all_members_joined()) == ({"b"}, False)
    group.remove("b")
    assert (group.pending_join_members, group.has_all_members_joined()) == (set(), True)
    assert [group.add_pending_sync_member("a") for _ in range(2)] == [True, False]
    assert not group.has_received_sync_from_all_members()
    group.remove("a")
    assert group.pending_sync_members == set()
    assert (group.leader_id, group.members) == (None, {})
    group.remove("nobody")


def test_who_may_be_pending() -> None:
    """Only who is no member waits to join, only a member to sync; Kafka says the same of both."""
    group = _group(_member("a"))
    with pytest.raises(IllegalState, match="Attempt to add pending member a which is already a stable member of the"):
        group.add_pending_member("a")
    with pytest.raises(IllegalState, match="Attempt to add pending sync member b which is already a stable member of"):
        group.add_pending_sync_member("b")
    with pytest.raises(IllegalState, match="Attempt to add pending member b which is already a stable member of the"):
        group.remove_pending_sync_member("b")
    assert group.remove_pending_sync_member("a") is False


def test_what_the_members_subscribe_to() -> None:
    """Unknown before there is a protocol, or of another type than `consumer`; a member has to support it."""
    group = _group(_member("a", topics=("t", "u")), _member("b", topics=("t",)))
    assert group.compute_subscribed_topics() is None
    group.protocol_name = "range"
    assert group.compute_subscribed_topics() == {"t", "u"}
    group.protocol_name = "sticky"
    with pytest.raises(IllegalArgument, match="Member does not support protocol sticky"):
        group.compute_subscribed_topics()
    group.remove("a")
    group.remove("b")
    assert group.compute_subscribed_topics() == frozenset()
    assert _group(_member("w", protocol_type="connect")).compute_subscribed_topics() is None


def test_a_static_member_comes_back() -> None:
    """What the old one waits for is answered; the new one is like it, waits for nothing, and leads in its place."""
    old = _member("a", "range", "sticky", group_instance_id="i", topics=("t",), rebalance_timeout_ms=7)
    group = _group(old, _member("b"), waiting=True)
    old.awaiting_sync = True
    new = group.replace_static_member("i", "a", "a2")
    assert (old.awaiting_join, old.awaiting_sync, new.awaiting_join, new.awaiting_sync) == (False,) * 4
    assert group.num_members_awaiting_join_response == 1
    assert (new.member_id, new.protocols, new.topics, new.group_instance_id) == ("a2", ("range", "sticky"), ("t",), "i")
    assert (new.rebalance_timeout_ms, new.protocol_type) == (7, "consumer")
    assert (group.leader_id, group.static_members, set(group.members)) == ("a2", {"i": "a2"}, {"a2", "b"})
    assert group.supported_protocols == {"range": 2, "sticky": 1}
    group.replace_static_member("i", "b", "b2")
    assert group.leader_id == "a2"
    with pytest.raises(IllegalArgument, match="Cannot replace non-existing member id gone"):
        group.replace_static_member("i", "gone", "a3")


def test_where_a_group_was_before() -> None:
    """An initial rebalance is known by it."""
    group = ClassicGroup("g")
    for state in (State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE, State.STABLE, State.PREPARING_REBALANCE):
        before = group.state
        group.transition_to(state)
        assert (group.previous_state, group.state) == (before, state)
    group.transition_to(State.DEAD)
    assert not group.can_rebalance()
    group.transition_to(State.DEAD)


@cases(
    "op method null",
    ("update", "ClassicGroupMember.supportedProtocols()", '"member"'),
    ("complete_join", "ClassicGroupMember.isAwaitingJoin()", '"member"'),
    ("complete_sync", "ClassicGroupMember.isAwaitingSync()", '"member"'),
    (
        *("await_sync", "ClassicGroupMember.setAwaitingSyncFuture(java.util.concurrent.CompletableFuture)"),
        'the return value of "org.apache.kafka.coordinator.group.classic.ClassicGroup.member(String)"',
    ),
)
def test_of_one_that_is_not_there_kafka_asks_in_vain(op: str, method: str, null: str) -> None:
    """Java then throws a NullPointerException, and nothing changes."""
    joined = {"awaiting_join": True, **{name: ADD[name] for name in ("protocols", "topics", "rebalance_timeout_ms")}}
    step = {"op": op, "id": "gone", **(joined if op == "update" else {})}
    before, after = played(add("m"), step)
    call = f'"org.apache.kafka.coordinator.group.classic.{method}"'
    assert after.pop("error") == {
        "class": "NullPointerException",
        "message": f"Cannot invoke {call} because {null} is null",
    }
    assert after == {key: value for key, value in before.items() if key != "returned"}


def test_errors_name_the_group() -> None:
    """By its ID."""
    message = played({"op": "transition", "to": "STABLE"})[0]["error"]["message"]
    assert message.startswith("Group g should be in one of [CompletingRebalance] states")
