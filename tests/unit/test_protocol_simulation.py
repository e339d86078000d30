"""The group protocol in time: textbook cases message by message, and what must hold whatever happens."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from spark_assign.simulation.kernel.events import Event, InvalidEventError
from spark_assign.simulation.kernel.group_simulation import GroupSimulation
from spark_assign.simulation.kernel.ownership_log import merged
from spark_assign.simulation.kernel.settings import TimingConfig
from tests.cases import cases
from tests.sizes import drawn
from tests.unit.protocol_plays import (
    COOPERATIVE,
    EAGER,
    STICKY,
    at,
    figures,
    logged,
    messages,
    owners,
    pauses,
    play,
    rounds,
    stage,
)

TWO = {"c1": [0, 1], "c2": [2]}
"""The textbook's group: c1 owns the first two of three partitions, c2 the third."""


def test_a_member_joins_an_eager_group() -> None:
    """Everybody stops: each gives up all it has, and gets it anew when all have joined."""
    played = play(stage(TWO, EAGER), at(10_000, "member-starts", "c3"))
    assert messages(played) == [
        "10000 event: member-starts member_id=c3",
        "10000 c3: FindCoordinator",
        "10000 c3: JoinGroup without a member ID",
        "10000 coordinator: JoinGroup response MEMBER_ID_REQUIRED",
        "10000 c3: JoinGroup assignors range; generation -1",
        "10000 coordinator: state PreparingRebalance: member c3 joined",
        "12000 c1: Heartbeat",
        "12000 coordinator: Heartbeat response REBALANCE_IN_PROGRESS",
        "12000 c2: Heartbeat",
        "12000 coordinator: Heartbeat response REBALANCE_IN_PROGRESS",
        "12500 c2: revoked t-2",
        "12500 c2: JoinGroup assignors range; generation 1",
        "13000 c1: revoked t-0 t-1",
        "13000 c1: JoinGroup assignors range; generation 1",
        "13000 coordinator: state CompletingRebalance, generation 2: 3 members, leader c1, range",
        "13000 coordinator: JoinGroup response generation 2; range; leads 3 members",
        "13000 coordinator: JoinGroup response generation 2; range; leader c1",
        "13000 c2: SyncGroup",
        "13000 coordinator: JoinGroup response generation 2; range; leader c1",
        "13000 c3: SyncGroup",
        "13000 c1: assign range: 3 partitions to 3 members",
        "13000 c1: SyncGroup with the assignment",
        "13000 coordinator: state Stable, generation 2",
        "13000 coordinator: SyncGroup response t-0",
        "13000 c1: assigned t-0",
        "13000 coordinator: SyncGroup response t-1",
        "13000 c2: assigned t-1",
        "13000 coordinator: SyncGroup response t-2",
        "13000 c3: assigned t-2",
    ]
    assert pauses(played) == {0: 1_000, 1: 3_000, 2: 3_000}  # t-0 stays with c1, so that nothing is restored


def test_a_member_joins_a_cooperative_group() -> None:
    """Only what moves is given up, in a first round; a second one hands it over."""
    played = play(stage(TWO, COOPERATIVE), at(10_000, "member-starts", "c3"))
    assert messages(played)[5:] == [
        "10000 coordinator: state PreparingRebalance: member c3 joined",
        "12000 c1: Heartbeat",
        "12000 coordinator: Heartbeat response REBALANCE_IN_PROGRESS",
        "12000 c1: JoinGroup assignors cooperative-sticky; generation 1; owned t-0 t-1",
        "12000 c2: Heartbeat",
        "12000 coordinator: Heartbeat response REBALANCE_IN_PROGRESS",
        "12000 c2: JoinGroup assignors cooperative-sticky; generation 1; owned t-2",
        "12000 coordinator: state CompletingRebalance, generation 2: 3 members, leader c1, cooperative-sticky",
        "12000 coordinator: JoinGroup response generation 2; cooperative-sticky; leads 3 members",
        "12000 coordinator: JoinGroup response generation 2; cooperative-sticky; leader c1",
        "12000 c2: SyncGroup",
        "12000 coordinator: JoinGroup response generation 2; cooperative-sticky; leader c1",
        "12000 c3: SyncGroup",
        "12000 c1: assign cooperative-sticky: 2 partitions to 3 members",
        "12000 c1: SyncGroup with the assignment",
        "12000 coordinator: state Stable, generation 2",
        "12000 coordinator: SyncGroup response t-0",
        "12000 coordinator: SyncGroup response t-2",
        "12000 coordinator: SyncGroup response nothing",
        "12500 c1: revoked t-1",
        "12500 c1: JoinGroup assignors cooperative-sticky; generation 2; owned t-0",
        "12500 coordinator: state PreparingRebalance: c1 rejoined: it gave up partitions",
        "15000 c2: Heartbeat",
        "15000 coordinator: Heartbeat response REBALANCE_IN_PROGRESS",
        "15000 c2: JoinGroup assignors cooperative-sticky; generation 2; owned t-2",
        "15000 c3: Heartbeat",
        "15000 coordinator: Heartbeat response REBALANCE_IN_PROGRESS",
        "15000 c3: JoinGroup assignors cooperative-sticky; generation 2",
        "15000 coordinator: state CompletingRebalance, generation 3: 3 members, leader c1, cooperative-sticky",
        "15000 coordinator: JoinGroup response generation 3; cooperative-sticky; leads 3 members",
        "15000 coordinator: JoinGroup response generation 3; cooperative-sticky; leader c1",
        "15000 c2: SyncGroup",
        "15000 coordinator: JoinGroup response generation 3; cooperative-sticky; leader c1",
        "15000 c3: SyncGroup",
        "15000 c1: assign cooperative-sticky: 3 partitions to 3 members",
        "15000 c1: SyncGroup with the assignment",
        "15000 coordinator: state Stable, generation 3",
        "15000 coordinator: SyncGroup response t-0",
        "15000 coordinator: SyncGroup response t-2",
        "15000 coordinator: SyncGroup response t-1",
        "15000 c3: assigned t-1",
    ]
    assert pauses(played) == {0: 0, 1: 5_000, 2: 0}


def test_a_crash_is_found_by_the_session_timeout() -> None:
    """Nobody consumes the partitions from the crash on; the others hear of it at their next heartbeat."""
    played = play(stage(TWO, COOPERATIVE), at(10_000, "member-crashes", "c1"))
    assert logged(played, "session-timeout") == [(54_000, "coordinator", "c1 has sent no heartbeat since 9000 ms")]
    assert rounds(played) == [(2, "session of c1 timed out")]
    assert pauses(played) == {0: 49_000, 1: 49_000, 2: 0}  # until 57 s, and two more to restore
    assert owners(played) == {0: "c2", 1: "c2", 2: "c2"}


@pytest.mark.parametrize("strategies", [EAGER, STICKY, COOPERATIVE])
def test_a_static_member_restarts_within_its_session(strategies: tuple[str, ...]) -> None:
    """No rebalance: it gets back what it had under a new member id; as the leader it skips the assignment (KIP-814)."""
    played = play(stage(TWO, strategies, static=True), at(10_000, "member-restarts", "c1", down_ms=20_000))
    assert rounds(played) == []
    assert logged(played, "LeaveGroup") == []
    answers = logged(played, "JoinGroup response")
    assert answers == [(31_000, "coordinator", f"generation 1; {strategies[0]}; leads 2 members; skip assignment")]
    assert owners(played) == {0: "c1~2", 1: "c1~2", 2: "c2"}
    assert pauses(played) == {0: 21_000, 1: 21_000, 2: 0}  # what it had last needs no restoring


def test_a_static_member_is_away_too_long() -> None:
    """Its session times out, counted from its last heartbeat; when it is back it joins as anybody else."""
    played = play(stage(TWO, COOPERATIVE, static=True), at(10_000, "member-restarts", "c1", down_ms=60_000))
    assert [generation for generation, _ in rounds(played)] == [2, 3, 4]
    assert rounds(played)[0] == (2, "session of c1 timed out")
    assert logged(played, "session-timeout")[0][0] == 54_000


def test_a_static_member_leaves_for_good() -> None:
    """LeaveGroup takes a static member out at once."""
    played = play(stage(TWO, COOPERATIVE, static=True), at(10_000, "member-leaves", "c2"))
    assert rounds(played) == [(2, "member c2 left")]
    assert owners(played) == {0: "c1", 1: "c1", 2: "c1"}


def test_a_static_member_that_is_away_holds_up_a_rebalance() -> None:
    """A rebalance that begins in the meantime waits for it, as long as its session lasts."""
    played = play(
        stage(TWO, EAGER, static=True),
        at(10_000, "member-restarts", "c1", down_ms=20_000),
        at(15_000, "member-starts", "c3"),
    )
    assert [(each.generation_id, each.joined_ms) for each in played.group.coordinator.rebalances] == [(2, 31_000)]
    assert owners(played) == {0: "c1~2", 1: "c2", 2: "c3"}


def test_an_empty_group_waits_for_more_members() -> None:
    """`group.initial.rebalance.delay.ms` begins anew whenever somebody has come in the meantime."""
    empty = stage({"a": [], "b": []}, EAGER, partitions=4)
    played = play(empty, at(2_000, "member-starts", "c"), at(5_000, "member-starts", "d"))
    assert [(each.generation_id, each.joined_ms) for each in played.group.coordinator.rebalances] == [(1, 9_000)]
    alone = play(stage({"a": []}, EAGER, partitions=4))
    assert [(each.generation_id, each.joined_ms) for each in alone.group.coordinator.rebalances] == [(1, 3_000)]


def test_a_member_that_does_not_poll_leaves() -> None:
    """KIP-62: after max.poll.interval.ms it says LeaveGroup; when it polls again it has lost what it had."""
    played = play(stage(TWO, COOPERATIVE), at(10_000, "slow-member", "c1", delay_ms=400_000))
    assert logged(played, "LeaveGroup") == [(310_000, "c1", "member c1 didn't poll for 300000 ms")]
    assert logged(played, "lost") == [(410_000, "c1", "t-0 t-1")]
    assert "c1~2" in owners(played).values()


def test_a_static_member_that_does_not_poll_falls_silent() -> None:
    """It says nothing, and is out when its session is over."""
    played = play(stage(TWO, COOPERATIVE, static=True), at(10_000, "slow-member", "c1", delay_ms=400_000))
    assert logged(played, "LeaveGroup") == []
    assert [time for time, _, _ in logged(played, "session-timeout")] == [354_000]


def test_a_slow_member_holds_up_everybody() -> None:
    """It joins late; within the rebalance timeout it is waited for, after it it is dropped."""
    waited = play(stage(TWO, EAGER), at(5_000, "slow-member", "c1", delay_ms=60_000), at(6_000, "member-starts", "c3"))
    assert [each.joined_ms for each in waited.group.coordinator.rebalances] == [66_000]
    impatient = stage(TWO, EAGER, timing=TimingConfig(rebalance_timeout_ms=10_000))
    dropped = play(impatient, at(5_000, "slow-member", "c1", delay_ms=60_000), at(6_000, "member-starts", "c3"))
    assert dropped.group.coordinator.rebalances[0].joined_ms == 16_000
    assert ("coordinator", "c1: it didn't join in time") in [line[1:] for line in logged(dropped, "removed")]
    assert set(owners(dropped).values()) == {"c1~2", "c2", "c3"}


def test_the_leader_sees_new_partitions_at_its_next_look() -> None:
    """Others that look change nothing; nobody consumes the partitions before."""
    added = at(10_000, "partitions-added", topic="t", partitions=5)
    played = play(stage(TWO, COOPERATIVE), added, at(20_000, "metadata-refresh", "c2"))
    assert [each.start_ms for each in played.group.coordinator.rebalances] == [300_000]
    sooner = play(stage(TWO, COOPERATIVE), added, at(20_000, "metadata-refresh", "c1"))
    assert [each.start_ms for each in sooner.group.coordinator.rebalances] == [20_000]
    assert pauses(sooner)[4] == 11_000  # until c2 has heard of it at 21 s; there is nothing to restore


@cases(
    "library assignor sees",
    ("librdkafka", "range", False),
    ("librdkafka", "cooperative-sticky", True),
    (None, "range", True),
)
def test_a_leader_of_librdkafka_sees_its_own_topics(library: str | None, assignor: str, sees: bool) -> None:
    """New partitions of another topic stay without an owner, and their cost is open (tried with 2.12 and 2.16)."""
    state = stage(TWO, (assignor,))
    state.members[1].topics = frozenset([0, 1])
    added = [at(5_000, "topic-created", topic="u", partitions=1), at(10_000, "member-restarts", "c2", down_ms=1_000)]
    added += [at(600_000, "partitions-added", topic="u", partitions=3), at(2_000_000, "metadata-refresh", "c2")]
    played = play(replace(state, leader_library=library), *added)
    assert any(each.start_ms > 600_000 for each in played.group.coordinator.rebalances) == sees
    assert played.group.ownership_log.unowned_at_end == (0 if sees else 2)


@cases("library revoked", ("franz-go", [24, 24, 24, 15, 6, 6, 6, 6]), ("Java", [24, 24, 24, 24, 24, 23, 14, 6]))
def test_members_of_franz_go_follow_the_vote(library: str, revoked: list[int]) -> None:
    """From range to cooperative-sticky by two rolling restarts of four members with three partitions each.

    Members of franz-go 1.22.2 gave up as many on a broker: they are cooperative once the fourth restart has changed the
    vote. Those of Java stay eager as long as their list has range.
    """
    state = replace(
        stage({f"c{n}": [3 * n, 3 * n + 1, 3 * n + 2] for n in range(4)}, ("range",)), leader_library=library
    )
    restarts = [(f"c{n}", a) for a in (("cooperative-sticky", "range"), ("cooperative-sticky",)) for n in range(4)]
    events = [at(600_000 * (step + 1), "member-restarts", name, assignors=n) for step, (name, n) in enumerate(restarts)]
    found = [0] * len(events)
    for each in play(state, *events).group.coordinator.rebalances:
        found[each.start_ms // 600_000 - 1] += each.revoked
    assert found == revoked


def test_a_static_leader_that_is_away_does_not_see_new_partitions() -> None:
    """As in Kafka: back again it skips the assignment, and takes what it sees for what it assigned by (KIP-814)."""
    added = at(15_000, "partitions-added", topic="t", partitions=4)
    restart = at(10_000, "member-restarts", "c1", down_ms=20_000)
    played = play(stage(TWO, COOPERATIVE, static=True), restart, added, at(100_000, "metadata-refresh"))
    assert rounds(played) == []
    assert 3 not in owners(played)


def test_metadata_that_change_during_a_rebalance_cause_another() -> None:
    """The leader compares what it assigned by with what it knows once it has its own assignment."""
    played = play(
        stage({"c1": [0], "c2": [1]}, EAGER),
        at(10_000, "slow-member", "c1", delay_ms=10_000),
        at(11_000, "member-starts", "c3"),
        at(20_500, "partitions-added", topic="t", partitions=3),
        at(20_600, "metadata-refresh"),
    )
    assert len(played.group.coordinator.rebalances) == 2
    assert owners(played)[2] is not None


def test_a_topic_is_deleted() -> None:
    """Its partitions are no longer missed; the leader takes them out of the assignment."""
    played = play(stage(TWO, COOPERATIVE), at(10_000, "topic-deleted", topic="t"), at(11_000, "metadata-refresh", "c1"))
    assert pauses(played) == {0: 0, 1: 0, 2: 0}
    assert [each.assigned for each in played.group.coordinator.rebalances][:1] == [0]


def test_a_subscription_changes() -> None:
    """A cooperative member gives up what it no longer asks for before it joins."""
    played = play(
        stage(TWO, COOPERATIVE),
        at(5_000, "topic-created", topic="u", partitions=1),
        at(10_000, "subscription-changes", "c1", topics=("u",)),
    )
    assert logged(played, "revoked") == [(11_000, "c1", "t-0 t-1")]
    assert owners(played) == {0: "c2", 1: "c2", 2: "c2"}
    assert rounds(played)[0] == (2, "c1 rejoined: its subscription changed")


def test_members_act_when_they_poll() -> None:
    """An eager group stands still until the last member has polled; a cooperative one consumes meanwhile."""
    polling = TimingConfig(poll_interval_ms=2_000)
    eager = play(stage(TWO, EAGER, timing=polling), at(10_000, "member-starts", "c3"))
    joins = [time for time, _, detail in logged(eager, "JoinGroup") if "generation 1" in detail]
    assert len(set(joins)) == 2
    assert eager.group.coordinator.rebalances[0].joined_ms == max(joins)
    assert sorted(pauses(eager).values())[-1] > 0
    cooperative = play(stage(TWO, COOPERATIVE, timing=polling), at(10_000, "member-starts", "c3"))
    assert [pauses(cooperative)[each] for each in (0, 2)] == [0, 0]


def test_members_without_a_common_assignor() -> None:
    """The coordinator refuses the member; its process ends, and the group goes on without it."""
    played = play(stage(TWO, EAGER), at(10_000, "member-restarts", "c1", assignors=COOPERATIVE))
    assert logged(played, "JoinGroup response")[-1][2] == "INCONSISTENT_GROUP_PROTOCOL"
    assert owners(played) == {0: "c2", 1: "c2", 2: "c2"}


def test_a_vote_decides_between_assignors() -> None:
    """Each member votes for the first of its own that all support."""
    played = play(
        stage(TWO, ("range", "roundrobin")),
        at(10_000, "member-starts", "c3", assignors=("roundrobin", "range")),
        at(40_000, "member-starts", "c4", assignors=("roundrobin", "range")),
        at(70_000, "member-starts", "c5", assignors=("roundrobin", "range")),
    )
    # Two against two: the first in Java's hash order, which is range.
    assert [each.assignor for each in played.group.coordinator.rebalances] == ["range", "range", "roundrobin"]


def test_a_rolling_restart_waits_for_each_batch() -> None:
    """So many at once; the next ones a pause after the processes of the last ones are up."""
    group = stage({f"c{number}": [number] for number in range(5)}, COOPERATIVE)
    played = play(group, at(10_000, "rolling-restart", down_ms=1_000, parallelism=2, pause_ms=30_000))
    assert [time for time, _, _ in logged(played, "member-restarts")] == [10_000, 10_000, 41_500, 41_500, 73_000]
    assert played.event_handlers.restarted == 5


@cases(
    "event why",
    (at(1, "member-leaves", "nobody"), "no such member"),
    (at(1, "member-starts", "c1"), "already running"),
    (at(1, "member-explodes", "c1"), "unknown event"),
    (at(1, "slow-member", "c1"), "delay_ms is null"),
    (at(-1, "member-leaves", "c1"), "at_ms is -1"),
    (at(1, "partitions-added", topic="t", partitions=1), "has 3 partitions"),
    (at(1, "topic-created", topic="t", partitions=1), "already exists"),
    (at(1, "topic-deleted", topic="u"), "topic u doesn't exist"),
    (at(1, "rolling-restart", parallelism=0), "parallelism is 0"),
)
def test_an_event_that_cannot_happen(event: Event, why: str) -> None:
    with pytest.raises(InvalidEventError, match=why):
        play(stage(TWO, COOPERATIVE), event)


# --- whatever happens -------------------------------------------------------------------------------------------


def _random_events(chance: random.Random, names: list[str], *, static: bool) -> list[Event]:
    """Events that can happen, many of them while a rebalance goes on.

    No partitions are added to a group of static members: its leader may be away then, and never see them.
    """
    now, free, partitions, gone = 5_000, dict.fromkeys(names, 0), 8, set[str]()
    events: list[Event] = []
    for number in range(chance.randrange(3, 12)):
        now += chance.choice([0, 500, 1_000, 3_000, 20_000, 70_000])
        able = [name for name, since in free.items() if since <= now and name not in gone]
        what = chance.choice(
            ["starts", "leaves", "crashes", "restarts", "restarts", "slow", "asks", "starts" if static else "grows"]
        )
        if what == "starts":
            name = f"n{number}"
            free[name] = now + 120_000
            events.append(at(now, "member-starts", name))
        elif what == "grows":
            partitions += 1
            events += [at(now, "partitions-added", topic="t", partitions=partitions), at(now, "metadata-refresh")]
        elif able:
            name = chance.choice(able)
            free[name] = now + 500_000
            if what in ("leaves", "crashes"):
                gone.add(name)
                events.append(at(now, f"member-{what}", name))
            elif what == "restarts":
                events.append(at(now, "member-restarts", name, down_ms=chance.choice([0, 2_000, 50_000])))
            elif what == "slow":
                events.append(at(now, "slow-member", name, delay_ms=chance.choice([1_000, 30_000, 400_000])))
            else:
                events.append(at(now, "subscription-changes", name, topics=chance.choice([("t",), ("t", "u"), ("u",)])))
    return events


def _holds(played: GroupSimulation) -> None:
    """Every partition has one state at every instant, from its beginning to its end, and pauses add up."""
    intervals: dict[int, list[tuple[int, int, str]]] = {}
    for code, begin, end, state, _ in merged(played.group.ownership_log.intervals or ()):
        intervals.setdefault(code, []).append((begin, end, state))
    for partition, end in played.group.ownership_log.closed:
        mine = intervals.get(partition.code, [])
        assert sum(b - a for a, b, _ in mine) == end - partition.exists_from
        assert all(one[1] == other[0] for one, other in pairwise(mine))
        assert sum(b - a for a, b, state in mine if state != "consumed") == partition.paused_ms
        assert partition.longest_pause_ms <= partition.paused_ms
    members = [each for each in played.group.members.values() if each.running]
    held = [code for each in members for code in each.owned]
    assert len(held) == len(set(held))
    subscribed = frozenset[int]().union(*(each.topics for each in members))
    there = {code for code in played.group.ownership_log.existing if code >> 32 in subscribed}
    assert there <= set(held), "the group has come to rest, and somebody has every partition"
    group = played.group.coordinator.group
    assert set(group.members) == {each.member_id for each in members}
    coordinator = played.group.coordinator
    assert set(coordinator.metadata) == set(coordinator.assignment) == set(group.members)
    for each in played.group.coordinator.rebalances:
        assert each.start_ms <= each.joined_ms <= each.end_ms


@pytest.mark.parametrize("strategies", [EAGER, STICKY, COOPERATIVE, ("cooperative-sticky", "range")])
@pytest.mark.parametrize("static", [False, True])
def test_nothing_is_lost_whatever_happens(strategies: tuple[str, ...], static: bool) -> None:
    chance = random.Random(f"{strategies}{static}")
    for _ in range(drawn(20, 40)):
        owned = {"c1": [0, 1, 2], "c2": [3, 4], "c3": [5, 6, 7]}
        times = TimingConfig(revoke_ms=chance.choice([0, 700]), restore_ms=chance.choice([0, 1_500]))
        group = stage(owned, strategies, static=static, timing=times)
        _holds(play(group, *_random_events(chance, list(owned), static=static)))


@pytest.mark.parametrize("static", [False, True])
def test_one_step_does_what_messages_do(static: bool) -> None:
    """Members that a rebalance doesn't change, whoever else stops, comes back, gives up partitions, or is too late."""
    for number in range(drawn(30, 200)):
        chance = random.Random(f"{number}{static}")
        owned = {"c1": [0, 1, 2], "c2": [3, 4], "c3": [5], "c4": [6], "c5": [7]}
        beat, late = chance.choice([1_000, 3_000]), chance.choice([1_000, 4_000, 300_000])
        times = TimingConfig(rebalance_timeout_ms=late, heartbeat_interval_ms=beat, revoke_ms=chance.choice([0, 700]))
        events = _random_events(chance, list(owned), static=static)
        groups = [stage(owned, COOPERATIVE, static=static, timing=times) for _ in range(2)]
        one, other = (play(each, *events, until=100_000, traced=each is groups[0]) for each in groups)
        assert figures(one) == figures(other)
