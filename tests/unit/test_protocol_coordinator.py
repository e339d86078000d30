"""The coordinator's timers by Kafka's rules (`GroupMetadataManager`): how long it waits, for whom, and what then."""

from __future__ import annotations

from typing import Any

import pytest

from spark_assign.simulation.kernel.settings import TimingConfig
from tests.cases import cases
from tests.unit.protocol_plays import COOPERATIVE, EAGER, at, logged, owners, play, rounds, stage

TWO = {"c1": [0, 1], "c2": [2]}
EMPTY: dict[str, list[int]] = {"a": []}


def _joined(*starts: int, **times: Any) -> list[tuple[int, int, int]]:
    """Generation, join and members of every round of an empty group: `a` joins at 0, the others then."""
    events = [at(time, "member-starts", f"m{number}") for number, time in enumerate(starts)]
    played = play(stage(EMPTY, EAGER, partitions=4, timing=TimingConfig(**times)), *events)
    return [(each.generation_id, each.joined_ms, each.members) for each in played.group.coordinator.rebalances]


# --- an empty group (`group.initial.rebalance.delay.ms`) ----------------------------------------------------------


@cases(
    "starts joined",
    ((), 3_000),
    ((1_000,), 6_000),
    ((2_999,), 6_000),
    ((1_000, 2_000), 6_000),  # one that joins and two that join delay it once
    ((2_000, 5_000), 9_000),
    ((2_000, 5_000, 8_000), 12_000),
)
def test_the_initial_delay_begins_again_if_somebody_joined_meanwhile(starts: tuple[int, ...], joined: int) -> None:
    """Whoever begins the rebalance does not count for it; the delay is looked at when it is over, not before."""
    assert _joined(*starts) == [(1, joined, 1 + len(starts))]


def test_a_member_may_join_until_the_delay_is_over() -> None:
    """Behind it it begins the next rebalance."""
    assert _joined(3_001) == [(1, 3_000, 1), (2, 6_000, 2)]


@cases(
    "timeout joined",
    # What remains is the timeout less one delay, then less the delay before; a delay is no longer than it.
    (7_000, 7_000),  # 3 s, remaining 4; 3 s, remaining 1; 1 s, remaining 0
    (6_000, 6_000),  # 3 s, remaining 3; 3 s, remaining 0
    (4_000, 4_000),  # 3 s, remaining 1; 1 s, remaining 0
    (3_000, 3_000),  # 3 s, remaining 0
    (9_500, 9_500),
)
def test_the_initial_delays_end_with_the_rebalance_timeout(timeout: int, joined: int) -> None:
    """Members come every 900 ms without end; nobody is waited for any longer than the longest timeout."""
    starts = range(900, 12_000, 900)
    assert _joined(*starts, rebalance_timeout_ms=timeout)[0] == (1, joined, 1 + sum(each <= joined for each in starts))


def test_the_initial_delay_may_be_longer_than_the_rebalance_timeout() -> None:
    """What remains is nothing then; the delay itself is not cut (`prepareRebalance`)."""
    assert _joined(1_000, rebalance_timeout_ms=2_000) == [(1, 3_000, 2)]


def test_the_last_delay_is_what_remains() -> None:
    """Each delay is taken from what remains, and is no longer than that."""
    # 2 s, remaining 3; 2 s, remaining 1; 1 s, remaining nothing.
    starts = (500, 2_500, 4_500)
    assert _joined(*starts, group_initial_rebalance_delay_ms=2_000, rebalance_timeout_ms=5_000) == [(1, 5_000, 4)]


def test_without_an_initial_delay() -> None:
    """0: the group begins with whoever is first."""
    assert _joined(1_000, group_initial_rebalance_delay_ms=0) == [(1, 0, 1), (2, 3_000, 2)]


def test_a_group_that_was_empty_is_delayed_again() -> None:
    """And by whoever joined when the first delay could no longer be prolonged: Kafka forgets that only when it is."""
    times = TimingConfig(group_initial_rebalance_delay_ms=3_000, rebalance_timeout_ms=4_000)
    played = play(
        stage(EMPTY, EAGER, partitions=4, timing=times),
        at(1_000, "member-starts", "b"),
        at(3_500, "member-starts", "c"),  # the delay is 1 s now, and nothing remains
        at(10_000, "member-leaves", "a"),
        at(10_000, "member-leaves", "b"),
        at(10_000, "member-leaves", "c"),
        at(20_000, "member-starts", "d"),
    )
    found = [(each.generation_id, each.start_ms, each.joined_ms) for each in played.group.coordinator.rebalances]
    assert found[0] == (1, 0, 4_000)
    assert found[-1] == (3, 20_000, 24_000)
    assert logged(played, "state")[-3:-2] == [(20_000, "coordinator", "PreparingRebalance: member d joined")]


def test_all_have_joined_and_the_initial_delay_goes_on() -> None:
    """`maybeCompleteJoinPhase` does nothing in an initial rebalance, whoever joins or leaves."""
    played = play(stage({"a": [], "b": []}, EAGER, partitions=2), at(1_000, "member-leaves", "b"))
    assert [(each.joined_ms, each.members) for each in played.group.coordinator.rebalances] == [(6_000, 1)]


# --- a rebalance of members (`completeClassicGroupJoin`) ----------------------------------------------------------


def test_static_members_stay_at_the_rebalance_timeout() -> None:
    """Dynamic ones that have not joined are dropped; static ones keep their place, and get their share."""
    times = TimingConfig(rebalance_timeout_ms=10_000, session_timeout_ms=200_000)
    for static, members in ((True, 3), (False, 2)):
        played = play(
            stage(TWO, EAGER, static=static, timing=times),
            at(5_000, "slow-member", "c2", delay_ms=60_000),
            at(6_000, "member-starts", "c3"),
        )
        first = played.group.coordinator.rebalances[0]
        assert (first.joined_ms, first.members) == (16_000, members)
        assert logged(played, "rebalance-timeout") == [(16_000, "coordinator", "not all members have joined")]
        # Whoever does not ask for its share in time is dropped, static or not.
        late = (26_000, "c2: members didn't send SyncGroup in time")
        dropped = late if static else (16_000, "c2: it didn't join in time")
        assert [(time, text) for time, _, text in logged(played, "removed")] == [dropped]
        # A static member's share waits for it; c1 and c3 have all if c2 was dropped.
        shares = {who: text for time, who, text in logged(played, "assigned") if time == 16_000}
        assert shares == ({"c1": "t-0", "c3": "t-2"} if static else {"c1": "t-0 t-1", "c3": "t-2"})


def test_a_group_of_static_members_that_are_all_away_waits_again() -> None:
    """Nobody has joined, so that nobody can lead: another rebalance timeout, until sessions end or somebody comes."""
    played = play(
        stage(TWO, EAGER, static=True, timing=TimingConfig(rebalance_timeout_ms=10_000, session_timeout_ms=100_000)),
        at(5_000, "member-restarts", "c1", down_ms=38_000),
        at(6_000, "member-restarts", "c2", down_ms=50_000),
        at(7_000, "member-starts", "c3"),
        at(8_000, "member-leaves", "c3"),
    )
    assert [time for time, _, _ in logged(played, "rebalance-timeout")] == [17_000, 27_000, 37_000, 47_000]
    assert played.group.coordinator.rebalances[0].joined_ms == 47_000
    assert owners(played) == {0: "c1~2", 1: "c1~2", 2: "c2~2"}


def test_the_timeout_counts_from_the_beginning_of_the_rebalance() -> None:
    """Somebody who joins meanwhile does not prolong it, nor is it over twice."""
    played = play(
        stage(TWO, EAGER, timing=TimingConfig(rebalance_timeout_ms=10_000)),
        at(5_000, "slow-member", "c1", delay_ms=60_000),
        at(6_000, "member-starts", "c3"),
        at(11_000, "member-starts", "c4"),
    )
    assert [time for time, _, _ in logged(played, "rebalance-timeout")] == [16_000]


def test_who_was_dropped_is_not_dropped_again() -> None:
    """Its LeaveGroup is answered UNKNOWN_MEMBER_ID, and nothing happens for it."""
    played = play(
        stage(TWO, COOPERATIVE, timing=TimingConfig(rebalance_timeout_ms=10_000, max_poll_interval_ms=20_000)),
        at(5_000, "slow-member", "c1", delay_ms=60_000),
        at(6_000, "member-starts", "c3"),
    )
    assert [time for time, _, _ in logged(played, "LeaveGroup")] == [25_000]
    assert [time for time, _, _ in logged(played, "removed")] == [16_000]


@pytest.mark.parametrize("strategies", [EAGER, COOPERATIVE])
def test_what_is_lost_with_a_member(strategies: tuple[str, ...]) -> None:
    """What it had not given up: by a crash all it has, at a timeout what it still owns then."""
    crash = play(stage(TWO, strategies), at(10_000, "member-crashes", "c1"))
    found = [(each.lost, each.revoked) for each in crash.group.coordinator.rebalances][:1]
    assert found == [(2, 1 if strategies == EAGER else 0)]
    first = play(stage(TWO, strategies), at(10_000, "member-leaves", "c1")).group.coordinator.rebalances[0]
    assert (first.lost, first.revoked) == (0, 2 + (strategies == EAGER))
    late = play(
        stage(TWO, strategies, timing=TimingConfig(rebalance_timeout_ms=10_000, revoke_ms=500)),
        at(10_000, "member-starts", "c3"),
        at(12_500 if strategies == EAGER else 11_000, "slow-member", "c1", delay_ms=5_000),
        at(14_000, "slow-member", "c1", delay_ms=100_000),
    )
    first, second = late.group.coordinator.rebalances[:2]
    dropped = next((time, text.partition(" ")[2]) for time, _, text in logged(late, "removed"))
    if strategies == EAGER:  # c1 has given up all, and does not decide
        assert dropped == (23_000, "members didn't send SyncGroup in time")
        assert (first.lost, first.revoked, second.lost) == (0, 3, 0)
    else:  # c1 has not joined
        assert dropped == (20_000, "it didn't join in time")
        assert (first.lost, first.revoked) == (2, 0)


def test_a_leader_that_is_dropped_takes_what_it_owned() -> None:
    """A cooperative one has kept it all until it decides; the round that its going causes counts it as lost."""
    times = TimingConfig(rebalance_timeout_ms=10_000, poll_interval_ms=0)
    played = play(
        stage(TWO, COOPERATIVE, timing=times),
        at(10_000, "slow-member", "c2", delay_ms=3_000),  # all have joined at 13 s
        at(10_500, "member-starts", "c3"),
        at(12_500, "slow-member", "c1", delay_ms=100_000),
    )
    assert logged(played, "removed")[0] == (23_000, "coordinator", "c1: members didn't send SyncGroup in time")
    first, second = played.group.coordinator.rebalances[:2]
    assert (first.lost, second.lost) == (0, 2)


def test_all_causes_of_a_round() -> None:
    """In their order, each once, three of them and how many more."""
    played = play(stage(TWO, EAGER), *(at(10_000 + number, "member-starts", f"m{number}") for number in range(5)))
    assert rounds(played) == [(2, "member m0 joined; member m1 joined; member m2 joined; 2 more")]
    three = play(stage(TWO, EAGER), *(at(10_000 + number, "member-starts", f"m{number}") for number in range(3)))
    assert rounds(three) == [(2, "member m0 joined; member m1 joined; member m2 joined")]
    again = play(
        stage(TWO, COOPERATIVE, timing=TimingConfig()),
        at(10_000, "member-restarts", "c1", new_member_id="c1", down_ms=0),
        at(10_500, "member-restarts", "c1", new_member_id="c1", down_ms=0),
    )
    assert rounds(again)[0] == (2, "member c1 left; member c1 joined")


@pytest.mark.parametrize(("overtaken", "end"), [(60_000, 22_700), (15_000, 13_000)])
def test_a_round_ends_when_the_last_share_is_taken(overtaken: int, end: int) -> None:
    """If the next begins before that, its last one was that of the others."""
    played = play(
        stage(TWO, EAGER),
        at(10_000, "member-starts", "c3"),
        at(12_700, "slow-member", "c2", delay_ms=10_000),  # it has joined, and takes its share at 22.7 s
        at(overtaken, "member-starts", "c4"),
    )
    found = [(each.start_ms, each.joined_ms, each.end_ms) for each in played.group.coordinator.rebalances]
    assert found[0] == (10_000, 13_000, end)
    assert found[1][0] == overtaken


def test_a_timer_of_a_rebalance_that_is_complete_does_nothing() -> None:
    """The next one has its own: two rebalances within one timeout, the second of which waits."""
    played = play(
        stage(TWO, EAGER, timing=TimingConfig(rebalance_timeout_ms=10_000)),
        at(5_000, "member-starts", "c3"),
        at(10_000, "slow-member", "c1", delay_ms=8_000),
        at(10_500, "member-starts", "c4"),
    )
    assert logged(played, "rebalance-timeout") == []
    assert [each.joined_ms for each in played.group.coordinator.rebalances] == [6_000, 18_000]


@pytest.mark.parametrize(("poll", "dropped"), [(15_999, False), (16_000, True)])
def test_the_last_moment_to_join(poll: int, dropped: bool) -> None:
    """The timer of the coordinator was there first."""
    played = play(
        stage(TWO, COOPERATIVE, timing=TimingConfig(rebalance_timeout_ms=10_000, max_poll_interval_ms=100_000)),
        at(5_000, "slow-member", "c1", delay_ms=poll - 5_000),
        at(6_000, "member-starts", "c3"),
    )
    assert bool(logged(played, "removed")) is dropped


# --- SyncGroup (`expirePendingSync`, `classicGroupSync`) ----------------------------------------------------------


def test_who_does_not_ask_for_its_share_is_dropped() -> None:
    """A leader that does not send the assignment within the rebalance timeout is out, and the others join again."""
    played = play(
        stage(TWO, EAGER, timing=TimingConfig(rebalance_timeout_ms=10_000, revoke_ms=500)),
        at(10_000, "member-starts", "c3"),
        at(12_500, "slow-member", "c1", delay_ms=100_000),
    )
    why = "members didn't send SyncGroup in time"
    assert logged(played, "removed") == [(23_000, "coordinator", f"c1: {why}")]
    assert rounds(played)[:2] == [(2, "member c3 joined"), (3, why)]
    second = played.group.coordinator.rebalances[1]
    assert (second.start_ms, second.joined_ms, second.members) == (23_000, 23_000, 2)
    assert second.leader == "c3"  # its hash, 3120, is in the first of 16 buckets; c2's, 3119, in the last
    # The leader learns of it with its next heartbeat, and joins again when it polls.
    assert (25_000, "coordinator", "UNKNOWN_MEMBER_ID") in logged(played, "Heartbeat response")
    assert logged(played, "JoinGroup")[-4:-2] == [
        (112_500, "c1~2", "without a member ID"),
        (112_500, "c1~2", "assignors range; generation -1"),
    ]


def test_a_waiting_member_learns_of_a_rebalance_at_once() -> None:
    """SyncGroup is answered REBALANCE_IN_PROGRESS, when the rebalance begins and no heartbeat later."""
    played = play(
        stage(TWO, EAGER),
        at(10_000, "member-starts", "c3"),
        at(12_500, "slow-member", "c1", delay_ms=20_000),
        at(20_000, "member-starts", "c4"),
    )
    answers = [line for line in logged(played, "SyncGroup response") if line[2] == "REBALANCE_IN_PROGRESS"]
    # c1, which leads, is busy; it learns of it when it sends the assignment.
    assert [time for time, _, _ in answers] == [20_000, 20_000, 32_500]
    assert [time for time, _, _ in logged(played, "Heartbeat")] == [12_000, 12_000]
    joins = [(time, who) for time, who, _ in logged(played, "JoinGroup") if time > 13_000]
    assert joins == [(20_000, "c4"), (20_000, "c4"), (20_000, "c2"), (20_000, "c3"), (32_500, "c1")]
    assert [each.joined_ms for each in played.group.coordinator.rebalances] == [13_000, 32_500]


def test_a_busy_leader_is_overtaken_by_the_next_generation() -> None:
    """A static one stays in the group; its assignment is of a generation that is over, and another leads by now."""
    times = TimingConfig(rebalance_timeout_ms=10_000, revoke_ms=500, max_poll_interval_ms=100_000)
    played = play(
        stage(TWO, EAGER, static=True, timing=times),
        at(10_000, "member-starts", "c3"),
        at(12_500, "slow-member", "c1", delay_ms=20_500),  # until 33 s
        at(20_000, "member-starts", "c4"),
        at(29_500, "slow-member", "c2", delay_ms=10_000),  # leads the second generation
    )
    assert logged(played, "rebalance-timeout")[0][0] == 30_000
    assert (33_000, "c1", "with the assignment") in logged(played, "SyncGroup")
    assert (33_000, "coordinator", "ILLEGAL_GENERATION") in logged(played, "SyncGroup response")
    assert rounds(played)[2] == (4, "c1 rejoined: ILLEGAL_GENERATION")
    assert owners(played) == {0: "c1", 1: "c2", 2: "c3"}


def test_static_members_are_replaced_in_every_state() -> None:
    """In a stable group without a rebalance, in the middle of one by another one (`updateStaticMemberThen…`)."""
    played = play(
        stage(TWO, EAGER, static=True),
        at(10_000, "member-starts", "c3"),
        at(12_500, "slow-member", "c1", delay_ms=30_000),
        at(20_000, "member-restarts", "c2", down_ms=1_000),  # while it waits for its share
    )
    assert rounds(played) == [(2, "member c3 joined"), (3, "member c2~2 joined")]
    assert played.group.coordinator.rebalances[1].start_ms == 21_000
    assert owners(played) == {0: "c1", 1: "c2~2", 2: "c3"}


def test_a_static_member_that_changes_the_vote_causes_a_rebalance() -> None:
    """Another assignor wins with what it comes back with; the same assignor: no rebalance."""
    votes = ("range", "roundrobin")
    beginning = stage(TWO, votes, static=True)
    assert rounds(play(beginning, at(10_000, "member-restarts", "c2", down_ms=1_000, assignors=votes))) == []
    alone = at(10_000, "member-restarts", "c2", down_ms=1_000, assignors=("roundrobin",))
    changed = play(stage(TWO, votes, static=True), alone)
    assert [each.assignor for each in changed.group.coordinator.rebalances] == ["roundrobin"]
    assert rounds(changed) == [(2, "member c2~2 joined")]
