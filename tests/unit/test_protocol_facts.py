"""From facts to stages: settings and their defaults, members, topics, and groups that cannot be played."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from spark_assign.simulation.facts import facts_of_rows
from spark_assign.simulation.kernel import ownership_log, simulated_group
from spark_assign.simulation.kernel.assignment_request import code
from spark_assign.simulation.kernel.events import Event, InvalidEventError, in_order
from spark_assign.simulation.kernel.member import AsyncMember, ClassicMember
from spark_assign.simulation.kernel.settings import GROUP_TIMES, RELEASES, TimingConfig, is_cooperative
from spark_assign.simulation.kernel.simulate_groups import simulate_in_memory
from spark_assign.simulation.kernel.simulated_consumer_group import AsyncConsumers
from spark_assign.simulation.kernel.simulated_group import InitialState
from spark_assign.simulation.kernel.simulation_input import InvalidGroupError, read_simulation_inputs
from tests.cases import cases
from tests.sizes import drawn
from tests.unit import protocol_facts as facts
from tests.unit.protocol_plays import at

DEFAULTS = TimingConfig(revoke_ms=7, restore_ms=8)


def _stage(*rows: facts.Row, protocol: str = "configured") -> tuple[InitialState, list[Event]]:
    [(key, scene)] = read_simulation_inputs(facts.table(g=list(rows)))
    assert key == ("k", "g")
    return scene.initial_state(protocol, DEFAULTS)


def _refused(*rows: facts.Row) -> tuple[str, str]:
    with pytest.raises(InvalidGroupError) as refused:
        _stage(*rows)
    return refused.value.code, str(refused.value)


# --- groups -------------------------------------------------------------------------------------------------------


def test_groups_stand_in_order_each_with_its_own_facts() -> None:
    """Whatever order their rows come in; a group may lack any kind."""
    of_two = facts.table(h=[facts.topic("t", 1)], g=[facts.member("a", ["t"])])
    found = dict(read_simulation_inputs(of_two.take([1, 0])))
    assert list(found) == [("k", "g"), ("k", "h")]
    assert [row["member_id"] for row in found["k", "g"].rows["members"]] == ["a"]
    assert found["k", "g"].rows["topics"] == []
    assert [(row["topic"], row["partitions"], row["racks"]) for row in found["k", "h"].rows["topics"]] == [
        ("t", 1, None)
    ]


def test_settings_of_a_group() -> None:
    """What is not told is as everywhere; a consumer's rebalance timeout is its max.poll.interval.ms."""
    assert _stage(facts.group())[0].timing == DEFAULTS
    assert _stage(facts.topic("t", 1))[0].timing == DEFAULTS
    timing = _stage(facts.group(session_timeout_ms=9_000, heartbeat_interval_ms=1_000, revoke_ms=0))[0].timing
    assert timing == TimingConfig(session_timeout_ms=9_000, heartbeat_interval_ms=1_000, revoke_ms=0, restore_ms=8)
    polls = _stage(facts.group(max_poll_interval_ms=60_000))[0].timing
    assert (polls.max_poll_interval_ms, polls.rebalance_timeout_ms) == (60_000, 60_000)
    both = _stage(facts.group(max_poll_interval_ms=60_000, rebalance_timeout_ms=50_000))[0].timing
    assert (both.max_poll_interval_ms, both.rebalance_timeout_ms) == (60_000, 50_000)
    alone = _stage(facts.group(rebalance_timeout_ms=50_000))[0].timing
    assert (alone.max_poll_interval_ms, alone.rebalance_timeout_ms) == (300_000, 50_000)
    every = {name: number for number, name in enumerate(GROUP_TIMES, 1)} | {"session_timeout_ms": 99}
    assert _stage(facts.group(**every))[0].timing == TimingConfig(**every)


def test_kafkas_defaults() -> None:
    """As the consumer and the broker have them (`ConsumerConfig`, `GroupCoordinatorConfig`)."""
    assert TimingConfig() == TimingConfig(
        session_timeout_ms=45_000,
        heartbeat_interval_ms=3_000,
        max_poll_interval_ms=300_000,
        rebalance_timeout_ms=300_000,
        group_initial_rebalance_delay_ms=3_000,
        metadata_max_age_ms=300_000,
        poll_interval_ms=0,
        revoke_ms=0,
        restore_ms=0,
        broker_release="4.4",
        group_consumer_heartbeat_interval_ms=5_000,
        group_consumer_session_timeout_ms=45_000,
        group_consumer_assignment_interval_ms=None,
    )


MAY_BE_NOTHING = (
    *("group_initial_rebalance_delay_ms", "poll_interval_ms", "revoke_ms", "restore_ms"),
    "group_consumer_assignment_interval_ms",
)


@pytest.mark.parametrize(("revoke", "restore", "name"), [(-1, None, "revoke_ms"), (0, -1, "restore_ms")])
def test_times_of_a_partition_that_cannot_be(revoke: int | None, restore: int | None, name: str) -> None:
    """They would shorten the pauses of a group below nothing."""
    fault = f"settings: {name} of t-0 is -1, expected 0 or more"
    assert _refused(facts.times("t", 0, revoke, restore)) == ("bad-settings", fault)


@pytest.mark.parametrize("name", GROUP_TIMES)
def test_times_that_cannot_be(name: str) -> None:
    """What may be nothing is 0 or more, everything else 1 or more."""
    least = 0 if name in MAY_BE_NOTHING else 1
    fault = f"{name} is {least - 1}, expected {least} or more milliseconds"
    assert TimingConfig(**{name: least - 1}).fault() == fault
    assert _refused(facts.group(**{name: least - 1})) == ("bad-settings", f"settings: {fault}")
    most = f"{name} is 10,000,000,001, expected at most 10,000,000,000 milliseconds"
    assert _refused(facts.group(**{name: 10**10 + 1})) == ("bad-settings", f"settings: {most}")
    others = {"heartbeat_interval_ms": 1, "session_timeout_ms": 2}
    others |= {f"group_consumer_{each}": value for each, value in others.items()}
    assert TimingConfig(**others | {name: least + name.endswith("session_timeout_ms")}).fault() is None


@pytest.mark.parametrize(("heartbeat", "fine"), [(2_999, True), (3_000, False), (3_001, False)])
def test_a_heartbeat_fits_into_a_session(heartbeat: int, fine: bool) -> None:
    """Kafka's consumer refuses one that is as long or longer (`Heartbeat`)."""
    fault = TimingConfig(heartbeat_interval_ms=heartbeat, session_timeout_ms=3_000).fault()
    assert (fault is None) is fine
    times = {"group_consumer_heartbeat_interval_ms": heartbeat, "group_consumer_session_timeout_ms": 3_000}
    assert (TimingConfig(**times).fault() is None) is fine
    if fault is not None:
        assert fault == (f"heartbeat_interval_ms is {heartbeat}, expected less than session_timeout_ms, 3000")


@cases(
    "own protocol expected",
    (None, "configured", ("range", "cooperative-sticky")),
    (["sticky"], "configured", ("sticky",)),
    (["uniform"], "configured", ("uniform",)),
    (["cooperative-sticky"], "configured", ("cooperative-sticky",)),
    (None, "eager", ("range", "cooperative-sticky")),
    (["sticky"], "eager", ("sticky",)),
    (["uniform"], "eager", ("range", "cooperative-sticky")),
    (["range", "uniform"], "eager", ("range", "cooperative-sticky")),
    (["cooperative-sticky"], "eager", ("range", "cooperative-sticky")),
    (["sticky", "cooperative-sticky"], "eager", ("sticky", "cooperative-sticky")),
    (["sticky"], "cooperative", ("cooperative-sticky",)),
    (["sticky"], "static", ("cooperative-sticky",)),
)
def test_strategies_by_protocol(own: list[str] | None, protocol: str, expected: tuple[str, ...]) -> None:
    """`eager`: a group's own if all are Kafka's and not all cooperative, else Kafka's default, which is range."""
    stage, _ = _stage(facts.group(own), facts.member("a", ["t"], assignors=["roundrobin"]), protocol=protocol)
    assert stage.assignors == expected
    assert stage.members[0].assignors == (("roundrobin",) if protocol == "configured" else expected)
    assert stage.new_members_static is (protocol == "static")
    assert stage.members[0].cooperative is is_cooperative(stage.members[0].assignors)


def test_who_follows_the_cooperative_protocol() -> None:
    """A consumer all of whose assignors support it (the constructor of `ConsumerCoordinator`)."""
    assert is_cooperative(("cooperative-sticky",))
    assert not is_cooperative(("cooperative-sticky", "range"))
    assert not is_cooperative(("sticky",))


# --- members ------------------------------------------------------------------------------------------------------


def test_members_stand_as_the_coordinator_lists_them() -> None:
    """By position; those without one behind them, by id as Java sorts."""
    rows = [
        facts.member("\ue000", ["t"]),
        facts.member("\U0001f600", ["t"]),
        facts.member("b", ["t"], position=1),
        facts.member("c", ["t"], position=0),
        facts.member("a", None, position=1),
    ]
    stage, _ = _stage(*rows)
    assert [each.name for each in stage.members] == ["c", "a", "b", "\U0001f600", "\ue000"]
    assert stage.members[1].topics == frozenset()
    assert stage.members[0].topics is stage.members[2].topics


def test_what_a_member_is() -> None:
    """Its instance, its rack (an empty one is none), its partitions in order."""
    rows = [
        facts.member("a", ["u", "t"], group_instance_id="i", rack_id=""),
        facts.member("b", ["u"], rack_id="r"),
        facts.owned("a", "u", 4),
        facts.owned("a", "t", 1, step=3, count=3),
        facts.owned("a", "t", 0),
        facts.owned("a", "t", 0),
        facts.topic("u", 5),
        facts.topic("t", 8),
    ]
    stage, _ = _stage(*rows)
    a, b = stage.members
    assert (a.group_instance_id, a.rack_id, a.member_id) == ("i", None, "a")
    assert (b.group_instance_id, b.rack_id, b.member_id) == (None, "r", "b")
    assert [stage.topics.names[each] for each in sorted(a.topics)] == ["t", "u"]
    assert [(each >> 32, each & 0xFFFFFFFF) for each in a.owned] == [(0, 0), (0, 0), (0, 1), (0, 4), (0, 7), (1, 4)]
    assert b.owned == []
    static, _ = _stage(*rows, protocol="static")
    assert [each.group_instance_id for each in static.members] == ["i", "b"]


def test_a_partition_has_one_owner() -> None:
    """At rest; of two owners, the first by ID is named first, in whatever order the rows come."""
    two = [facts.member("a", ["t"]), facts.member("b", ["t"]), facts.topic("t", 9)]
    found = _refused(*two, facts.owned("b", "t", 0, step=2, count=3), facts.owned("a", "t", 4))
    assert found == ("owned-twice", "owned: a and b own t-4. In a stable group, a partition has one owner")
    _stage(*two, facts.owned("b", "t", 0, step=2, count=3), facts.owned("a", "t", 6))
    _stage(*two, facts.owned("b", "t", 0, step=2, count=3), facts.owned("a", "t", 3))


@pytest.mark.parametrize(("generations", "expected"), [((), 1), ((None,), 1), ((0,), 1), ((3, None, 5), 5), ((1,), 1)])
def test_a_group_is_in_its_newest_generation(generations: tuple[int | None, ...], expected: int) -> None:
    """At least the first."""
    rows = [facts.member(f"m{number}", ["t"], generation=each) for number, each in enumerate(generations)]
    assert _stage(facts.topic("t", 1), *rows)[0].generation_id == expected


def test_a_generation_that_leaves_none_for_rebalances() -> None:
    """A member can claim any."""
    found = _refused(facts.member("a", ["t"], generation=2**31 - 1))
    assert found == ("bad-generation", "members: generation_id is 2,147,483,647, expected at most 2,146,483,648")


# --- topics -------------------------------------------------------------------------------------------------------


def test_all_topics_that_anything_names() -> None:
    """Those with partitions are there, the others may come."""
    stage, _ = _stage(
        facts.member("a", ["asked"]),
        facts.owned("a", "owned", 0),
        facts.topic("there", 2),
        facts.topic("without", 0),
        facts.topic("unknown", None),
        facts.times("slow", 0, 1, 1),
        facts.event(1, "subscription-changes", "a", topics=["later"]),
        facts.event(1, "topic-created", topic="new", partitions=1),
    )
    names = ("asked", "later", "new", "owned", "slow", "there", "unknown", "without")
    assert stage.topics.names == names
    assert stage.partitions == {names.index("there"): 2}


def test_racks_of_partitions() -> None:
    """Of those that are known; partitions between them have none."""
    layout = {"at": [2, 0, 2**31 - 1], "racks": [["r", "s"], [], ["r"]]}  # the last one is no partition of Kafka
    stage, _ = _stage(facts.topic("t", 4, **layout), facts.topic("u", 1), facts.topic("v", 1, at=[], racks=[]))
    assert stage.topics.racks == {0: [frozenset(), frozenset(), frozenset({"r", "s"})]}


def test_times_of_partitions() -> None:
    """Each of the two by itself; null: as the group's."""
    rows = (facts.times("t", 1, 5, None), facts.times("t", 2, None, 0), facts.times("u", 0, 0, 6))
    stage, _ = _stage(facts.topic("t", 3), *rows)
    assert stage.revoke_ms == {code(0, 1): 5, code(1, 0): 0}
    assert stage.restore_ms == {code(0, 2): 0, code(1, 0): 6}


def test_a_topic_with_too_many_partitions() -> None:
    """Each is kept by itself; the first such topic is named."""
    _stage(facts.topic("t", 1_000_000))
    found = _refused(facts.topic("u", 1_000_002), facts.topic("t", 1_000_001))
    assert found == ("too-many-partitions", "topics: t has 1,000,001 partitions, expected at most 1,000,000")
    found = _refused(*(facts.topic(f"t{number}", 1_000_000) for number in range(6)))
    assert found == ("too-many-partitions", "topics and events: 6,000,000 partitions, expected at most 5,000,000")


# --- events -------------------------------------------------------------------------------------------------------


def test_an_event_with_all_it_may_have() -> None:
    """Every column arrives where it belongs; assignors count only if the group is played as it is set."""
    numbers = {"partitions": 1, "down_ms": 2, "delay_ms": 3, "parallelism": 4, "pause_ms": 5}
    texts = {"topic": "t", "group_instance_id": "i", "new_member_id": "n"}
    row = facts.event(6, "member-starts", "m", topics=["u"], assignors=["range"], **numbers, **texts)
    expected = Event(6, "member-starts", "m", topics=("u",), assignors=("range",), **numbers, **texts)
    assert _stage(row)[1] == [expected]
    for protocol in ("eager", "cooperative", "static"):
        [played] = _stage(row, protocol=protocol)[1]
        assert played.assignors is None
        assert played.topics == ("u",)


@pytest.mark.parametrize(("at_ms", "name"), [(None, "member-leaves"), (5, None)])
def test_an_event_needs_a_time_and_a_name(at_ms: int | None, name: str | None) -> None:
    """Else nobody knows what it is."""
    with pytest.raises(InvalidEventError) as refused:
        _stage(facts.event(at_ms, name, "m"))
    assert str(refused.value) == f"events: at_ms={at_ms}, event={name}: expected both to be set"


def test_events_of_one_instant() -> None:
    """Topics first, then members as the table of events has it; by member, by partition count, by all else."""
    events = [
        at(5, "subscription-changes", "a", topics=("t",)),
        at(5, "slow-member", "a", delay_ms=1),
        at(5, "rolling-restart"),
        at(5, "member-restarts", "a"),
        at(5, "member-crashes", "a"),
        at(5, "member-leaves", "b"),
        at(5, "member-leaves", "a"),
        at(5, "member-starts", "b", new_member_id="y"),
        at(5, "member-starts", "b", new_member_id="x"),
        at(5, "metadata-refresh"),
        at(5, "partitions-added", topic="t", partitions=10),
        at(5, "partitions-added", topic="u", partitions=9),
        at(5, "topic-deleted", topic="t"),
        at(5, "topic-created", topic="t", partitions=1),
        at(4, "subscription-changes", "z", topics=("t",)),
    ]
    expected = [events[14], events[13], events[12], events[11], events[10], events[9], events[8], events[7]]
    expected += [events[6], events[5], events[4], events[3], events[2], events[1], events[0]]
    assert in_order(events) == expected
    assert in_order(reversed(events)) == expected


@cases(
    "event why",
    (("explode", {}), "unknown event. Use one of topic-created, topic-deleted, partitions-added, "),
    (("topic-created", {"partitions": 1}), "topic is null. The event requires it"),
    (("topic-created", {"topic": "t"}), "partitions is null. The event requires it"),
    (("topic-deleted", {}), "topic is null. The event requires it"),
    (("partitions-added", {"partitions": 1}), "topic is null. The event requires it"),
    (("partitions-added", {"topic": "t"}), "partitions is null. The event requires it"),
    (("member-starts", {}), "member_id is null. The event requires it"),
    (("member-leaves", {}), "member_id is null. The event requires it"),
    (("member-crashes", {}), "member_id is null. The event requires it"),
    (("member-restarts", {}), "member_id is null. The event requires it"),
    (("slow-member", {"delay_ms": 1}), "member_id is null. The event requires it"),
    (("slow-member", {"member_id": "m"}), "delay_ms is null. The event requires it"),
    (("subscription-changes", {"topics": ()}), "member_id is null. The event requires it"),
    (("subscription-changes", {"member_id": "m"}), "topics is null. The event requires it"),
    (("rolling-restart", {"down_ms": -1}), "down_ms is -1, expected 0 or more"),
    (("rolling-restart", {"pause_ms": -1}), "pause_ms is -1, expected 0 or more"),
    (("slow-member", {"member_id": "m", "delay_ms": -1}), "delay_ms is -1, expected 0 or more"),
    (("topic-created", {"topic": "t", "partitions": -1}), "partitions is -1, expected 0 or more"),
    (("topic-created", {"topic": "t", "partitions": 1_000_001}), "partitions is 1,000,001, expected at most 1,000"),
    (("rolling-restart", {"down_ms": 2**63 - 1}), "down_ms is 9,223,372,036,854,775,807, expected at most 10,0"),
    (("rolling-restart", {"pause_ms": 10**10 + 1}), "pause_ms is 10,000,000,001, expected at most 10,000,000,000"),
    (("slow-member", {"member_id": "m", "delay_ms": 2**62}), "delay_ms is 4,611,686,018,427,387,904, expected at"),
    (("rolling-restart", {"parallelism": 0}), "parallelism is 0, expected 1 or more"),
    (("subscription-changes", {"member_id": "m", "topics": ("t", None)}), "topics contains null. Remove it"),
    (("rolling-restart", {"assignors": (None,)}), "assignors contains null. Remove it"),
    (("rolling-restart", {"assignors": ()}), "assignors is empty. Name at least one, or use null"),
)
def test_an_event_that_lacks_something(event: tuple[str, dict[str, Any]], why: str) -> None:
    """It says which event, and what is wrong."""
    name, columns = event
    with pytest.raises(InvalidEventError) as refused:
        in_order([Event(5, name, **columns)])
    member = ", member_id=m" if "member_id" in columns else ""
    assert str(refused.value).startswith(f"events: at_ms=5, event={name}{member}: {why}")


def test_events_at_the_edge_of_what_can_be() -> None:
    """Nothing, at 0, one at a time, a million partitions."""
    fine = [
        Event(0, "rolling-restart", down_ms=0, pause_ms=0, parallelism=1, assignors=("range",)),
        Event(0, "topic-created", topic="t", partitions=0),
        Event(0, "topic-created", topic="u", partitions=1_000_000),
        Event(0, "slow-member", "m", delay_ms=0),
        Event(0, "subscription-changes", "m", topics=()),
    ]
    assert len(in_order(fine)) == 5


# --- KIP-848's groups ---------------------------------------------------------------------------------------------


def _of_broker(names: list[str] | None, kind: str | None = "consumer") -> facts.Row:
    return facts.group(names) | {"group_type": kind}


@cases(
    "kind protocol heartbeats",
    ("consumer", "configured", True),
    ("classic", "configured", False),
    (None, "configured", False),
    ("classic", "consumer", True),
    ("consumer", "cooperative", False),
)
def test_who_speaks_which_protocol(kind: str | None, protocol: str, heartbeats: bool) -> None:
    """Groups as they are, or all as they are told to."""
    stage, _ = _stage(_of_broker(None, kind), facts.member("a", ["t"]), protocol=protocol)
    assert stage.is_consumer_protocol is heartbeats
    assert isinstance(stage.members[0], AsyncMember if heartbeats else ClassicMember)


@cases(
    "own kind protocol expected",
    (None, "consumer", "configured", ()),
    (["uniform"], "consumer", "configured", ("uniform",)),
    (["range"], "consumer", "configured", ("range",)),
    (["server-range"], "consumer", "consumer", ("range",)),
    (["range"], "classic", "consumer", ()),  # that is the clients' range
)
def test_the_assignor_of_the_broker(own: list[str] | None, kind: str, protocol: str, expected: tuple[str, ...]) -> None:
    """By its name in the broker; none: the broker's first."""
    stage, _ = _stage(_of_broker(own, kind), facts.member("a", ["t"]), protocol=protocol)
    assert (stage.assignors, stage.members[0].assignors) == (expected, expected)


def test_an_assignor_that_the_broker_has_not() -> None:
    """Named, with those that there are; of a member or of an event as well."""
    message = "the broker has no assignor 'sticky'. Assignors: uniform, range, server-range"
    assert _refused(_of_broker(["sticky"])) == ("unknown-assignor", message)
    assert _refused(_of_broker(None), facts.member("a", ["t"], assignors=["sticky"])) == ("unknown-assignor", message)
    starts = facts.event(1, "member-starts", "a", assignors=["sticky"])
    assert _refused(_of_broker(None), starts) == ("unknown-assignor", message)


def test_ids_of_topics() -> None:
    """All by id, those that are to come last; all by name where the id of one is not known."""
    one, two = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAA"
    rows = [_of_broker(None), facts.topic("t", 1, topic_id=one), facts.topic("u", 1, topic_id=two)]
    comes = facts.event(1, "topic-created", topic="new", partitions=1)
    ids = dict(zip(("new", "t", "u"), _stage(*rows, comes)[0].topic_ids, strict=True))
    assert ids["u"][1] < ids["t"][1] < ids["new"][1]
    assert (ids["t"][0], ids["u"][0]) == (1, 0)
    assert _stage(*rows[:2], facts.topic("u", 1))[0].topic_ids == [(0, 0), (1, 1)]
    bad = facts.topic("t", 1, topic_id="no id")
    message = "topics: topic_id 'no id' of t isn't a topic ID. Kafka's have 22 characters"
    assert _refused(_of_broker(None), bad) == ("bad-topic-id", message)


def test_what_the_broker_is_set_to() -> None:
    """The release's interval, unless it is told; before 4.3 there is none."""
    assert TimingConfig().group_config().assignment_interval_ms == 1_000
    assert TimingConfig(broker_release="4.2").group_config().assignment_interval_ms == 0
    found = TimingConfig(broker_release="4.1", group_consumer_assignment_interval_ms=7).group_config()
    assert found == replace(RELEASES["4.1"], assignment_interval_ms=7)
    fault = TimingConfig(broker_release="3.9").fault()
    assert fault == "broker_release is '3.9', expected one of 4.1, 4.2, 4.3, 4.4, or their patches"
    configs = [TimingConfig(broker_release=release).group_config() for release in ("4.1.1", "4.1.2", "4.2.2", "4.4.0")]
    got = [(each.trims, each.returns_revoked) for each in configs]
    assert got == [*((False, False), (False, True), (True, True), (True, True))]
    assert configs[2] == RELEASES["4.2"]


def test_events_that_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rebalances times members and partitions are bounded, for both protocols; only the group is rejected."""
    monkeypatch.setattr(simulated_group, "MOST_WORK", 50)
    key = {"cluster": "c", "group_id": "g"}
    members = [key | {"member_id": name, "generation_id": 1} for name in ("a", "b")]
    tables = {
        "topics": [{"cluster": "c", "topic": "t", "partitions": 4}],
        "members": members,
        "subscriptions": [member | {"topic": "t"} for member in members],
        "owned_slices": [m | {"topic": "t", "first": at, "step": 2, "count": 2} for at, m in enumerate(members)],
    }
    restarts = [key | {"event": "member-restarts", "member_id": "a", "at_ms": 60_000 * at} for at in range(1, 20)]
    for events, codes in ((restarts[:1], {None}), (restarts, {"too-many-events"})):
        simulated = simulate_in_memory(
            facts_of_rows(tables, events), ("eager", "consumer"), TimingConfig(), ("results",)
        )
        assert {row.get("code") for row in simulated["results"]} == codes


def test_subscriptions_that_differ_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members with the same topics restart; members that lack one topic each are too much, for both protocols."""
    monkeypatch.setattr(simulated_group, "MOST_WORK", 4_000)
    key = {"cluster": "c", "group_id": "g"}
    members = [key | {"member_id": f"m{at}", "generation_id": 1} for at in range(10)]
    events = [key | {"event": "rolling-restart", "at_ms": 60_000, "parallelism": 5}]
    for lacking, expected in ((0, None), (10, "too-many-events")):
        tables = {
            "topics": [{"cluster": "c", "topic": f"t{at}", "partitions": 1} for at in range(100)],
            "members": members,
            "subscriptions": [
                member | {"topic": f"t{at}"}
                for number, member in enumerate(members)
                for at in range(100)
                if number != at or at >= lacking
            ],
            "owned_slices": [
                member | {"topic": f"t{(number + 1) % 10}", "first": 0, "step": 1, "count": 1}
                for number, member in enumerate(members)
            ],
        }
        simulated = simulate_in_memory(
            facts_of_rows(tables, events), ("eager", "consumer"), TimingConfig(), ("results",)
        )
        assert [row.get("code") for row in simulated["results"]] == [expected, expected]


def test_ten_thousand_members_that_join_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take linear time. Changes of topics that as many members notice later are bounded."""
    size = drawn(2_500, 10_000)
    monkeypatch.setattr(simulated_group, "MOST_WORK", simulated_group.MOST_WORK * size // 10_000)
    key = {"cluster": "c", "group_id": "g"}
    tables = {
        "topics": [{"cluster": "c", "topic": "t", "partitions": 4}],
        "members": [key | {"member_id": "a", "generation_id": 1}],
        "subscriptions": [key | {"member_id": "a", "topic": "t"}],
        "owned_slices": [key | {"member_id": "a", "topic": "t", "first": 0, "step": 1, "count": 4}],
    }
    joins = [key | {"event": "member-starts", "member_id": f"m{at}", "at_ms": 10_000} for at in range(size)]
    growth = [
        key | {"event": "partitions-added", "topic": "t", "partitions": at, "at_ms": 20_000 + at}
        for at in range(4, 400)
    ]
    start = time.process_time()
    for events, codes in ((joins, [None, None]), (joins + growth, ["too-many-events", None])):
        simulated = simulate_in_memory(
            facts_of_rows(tables, events), ("eager", "consumer"), TimingConfig(), ("results",)
        )
        assert [row.get("code") for row in simulated["results"]] == codes
    assert time.process_time() - start < 10


def test_the_next_heartbeat_is_remembered(rng: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if all members were searched for it each time."""
    names = ("member-starts", "member-restarts", "slow-member", "subscription-changes")
    groups = {}
    for number in range(80):
        at, story = 0, []
        for joined in range(9):
            at += rng.choice([0, 1, 500, 1_000, 3_000, 5_000])
            name = rng.choice(names)
            member_id = f"m{joined}" if name == "member-starts" else rng.choice(["c1", "c2"])
            more = {
                "slow-member": {"delay_ms": 400_000},
                "subscription-changes": {"topics": rng.choice([["t"], ["u"]])},
            }
            at += 20_000 * (name == "member-restarts")
            story.append(facts.event(at, name, member_id, **more.get(name, {})))
        groups[f"g{number:02d}"] = facts.pair(facts.topic("u", 4), *story)
    times = TimingConfig(revoke_ms=700, poll_interval_ms=500, broker_release=rng.choice(["4.1", "4.4"]))
    remembered = simulate_in_memory(facts.table(**groups), ("consumer",), times, ("results",))
    monkeypatch.setattr(AsyncConsumers, "_next_to_beat", property(lambda _: None, lambda *_: None), raising=False)
    assert simulate_in_memory(facts.table(**groups), ("consumer",), times, ("results",)) == remembered
    assert sum("code" not in row for row in remembered["results"]) > 5


def test_a_story_that_fills_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables of a group have a limit, and say that they end; the figures of the group are the same."""
    tables = ("results", "ownership", "trace")
    restarts = [facts.event(60_000 * at, "member-restarts", "c1") for at in range(1, 9)]
    events = facts.table(g=facts.pair(*restarts))
    full = simulate_in_memory(events, ("eager",), TimingConfig(), tables)
    monkeypatch.setattr(ownership_log, "MAX_INTERVALS", 5)
    monkeypatch.setattr(simulated_group, "MAX_TRACE", 2_000)
    cut = simulate_in_memory(events, ("eager",), TimingConfig(), tables)
    assert cut["results"] == full["results"]
    assert cut["trace"][:-1] == full["trace"][: len(cut["trace"]) - 1]
    assert (len(cut["trace"]) < 20, cut["trace"][-1]["message"]) == (True, "trace-ends")
    for partition in range(3):
        rows = [row for row in cut["ownership"] if row["partition"] == partition]
        assert [row["state"] for row in rows].count("unrecorded") == (rows[-1]["state"] == "unrecorded") == 1
        assert all(before["end_ms"] == after["start_ms"] for before, after in pairwise(rows))
        assert rows[-1]["end_ms"] == cut["results"][0]["availability"]["end_ms"]


@cases(
    "name value limit",
    ("session_timeout_ms", 1_800_000, None),
    ("session_timeout_ms", 5_000, "group.min.session.timeout.ms is changed from 6000"),
    ("group_consumer_session_timeout_ms", 60_000, None),
    ("group_consumer_session_timeout_ms", 90_000, "group.consumer.max.session.timeout.ms is changed from 60000"),
    ("group_consumer_heartbeat_interval_ms", 1_000, "group.consumer.min.heartbeat.interval.ms is changed from 5000"),
)
def test_times_that_brokers_refuse(name: str, value: int, limit: str | None) -> None:
    """By the defaults of Kafka's brokers (GroupCoordinatorConfig)."""
    refused = [] if limit is None else [f"Brokers refuse {name} {value} unless {limit}."]
    assert replace(TimingConfig(), **{name: value}).refusals() == refused
