"""Members that say nothing any more: when the coordinator gives them up, and what they find when they are back."""

from __future__ import annotations

import pytest

from spark_assign.simulation.kernel.settings import TimingConfig
from tests.unit.protocol_plays import COOPERATIVE, EAGER, at, logged, owners, pauses, play, rounds, stage

TWO = {"c1": [0, 1], "c2": [2]}


@pytest.mark.parametrize(("crash", "heard"), [(1_000, 0), (8_999, 6_000), (9_000, 9_000), (11_999, 9_000)])
def test_a_session_lasts_from_the_last_heartbeat(crash: int, heard: int) -> None:
    """Not from the crash, which the coordinator knows nothing of: it sets its timer anew with every heartbeat."""
    played = play(stage(TWO, EAGER), at(crash, "member-crashes", "c2"))
    found = logged(played, "session-timeout")
    assert found == [(heard + 45_000, "coordinator", f"c2 has sent no heartbeat since {heard} ms")]
    # Until then, the next heartbeat of c1, half a second for each of its two partitions, and two seconds to restore.
    assert pauses(played)[2] == heard + 45_000 - crash + 3_000 + 2 * 500 + 2_000


def test_heartbeats_follow_the_answer_to_join_group() -> None:
    """c3 joins at 10 s and is answered at 13 s; its heartbeats are at 16 s, 19 s, …"""
    played = play(stage(TWO, EAGER), at(10_000, "member-starts", "c3"), at(20_500, "member-crashes", "c3"))
    assert [time for time, _, _ in logged(played, "session-timeout")] == [19_000 + 45_000]


def test_who_crashes_while_it_waits_for_its_share_is_found() -> None:
    """The session of a member that waits for SyncGroup's answer begins anew with it (`propagateAssignment`)."""
    played = play(
        stage(TWO, EAGER),
        at(10_000, "member-starts", "c3"),
        at(12_500, "slow-member", "c1", delay_ms=20_000),  # c1 leads, and has the answer to its JoinGroup at 13 s
        at(20_000, "member-crashes", "c2"),
    )
    assert logged(played, "state")[1][0] == 13_000
    assert logged(played, "state")[2] == (32_500, "coordinator", "Stable, generation 2")
    assert [(time, text[:2]) for time, _, text in logged(played, "session-timeout")] == [(32_500 + 45_000, "c2")]
    assert set(owners(played).values()) == {"c1", "c3"}


def test_a_session_may_end_while_a_share_is_waited_for() -> None:
    """Who waits for SyncGroup's answer need not be heard (`hasSatisfiedHeartbeat`), even for longer than a session."""
    played = play(
        stage(TWO, EAGER),
        at(10_000, "member-starts", "c3"),
        at(12_500, "slow-member", "c1", delay_ms=100_000),
        at(20_000, "member-crashes", "c2"),
    )
    assert [(time, text[:2]) for time, _, text in logged(played, "session-timeout")] == [(112_500 + 45_000, "c2")]


def test_a_leader_crashes_before_it_has_decided() -> None:
    """It waits for nothing, so that its session ends as anybody's; the others then rejoin at once."""
    played = play(
        stage(TWO, EAGER),
        at(10_000, "member-starts", "c3"),
        at(12_500, "slow-member", "c1", delay_ms=100_000),
        at(20_000, "member-crashes", "c1"),
    )
    assert logged(played, "session-timeout") == [(64_000, "coordinator", "c1 has sent no heartbeat since 19000 ms")]
    assert [(each.generation_id, each.joined_ms) for each in played.group.coordinator.rebalances] == [
        (2, 13_000),
        (3, 64_000),
    ]
    assert set(owners(played).values()) == {"c2", "c3"}


def test_a_share_that_is_waited_for_is_void_when_a_rebalance_begins() -> None:
    """A crashed member that waited for it is answered REBALANCE_IN_PROGRESS; its session begins anew, too."""
    played = play(
        stage(TWO, EAGER),
        at(10_000, "member-starts", "c3"),
        at(12_500, "slow-member", "c1", delay_ms=100_000),
        at(20_000, "member-crashes", "c2"),
        at(30_000, "member-starts", "c4"),
    )
    assert [(time, text[:2]) for time, _, text in logged(played, "session-timeout")] == [(75_000, "c2")]


def test_who_crashes_while_it_waits_for_others_to_join_is_kept_until_it_is_answered() -> None:
    """The answer to its JoinGroup sets its timer (`rescheduleClassicGroupMemberHeartbeat`)."""
    played = play(
        stage(TWO, EAGER),
        at(5_000, "slow-member", "c1", delay_ms=100_000),
        at(10_000, "member-starts", "c3"),
        at(14_000, "member-crashes", "c2"),
    )
    assert played.group.coordinator.rebalances[0].joined_ms == 105_000 + 2 * 500
    assert [i for i in played.group.trace or () if i.at_ms > 14_000 and "c2" in (i.actor, i.receiver)] == []
    assert [(time, text[:2]) for time, _, text in logged(played, "session-timeout")] == [(106_000 + 45_000, "c2")]


def test_a_static_member_that_polls_again_in_time() -> None:
    """It has reset its generation and id (`resetGenerationOnLeaveGroup`): it is back under a new one, and is told."""
    times = TimingConfig(max_poll_interval_ms=20_000, rebalance_timeout_ms=20_000)
    played = play(stage(TWO, COOPERATIVE, static=True, timing=times), at(10_000, "slow-member", "c2", delay_ms=30_000))
    assert logged(played, "poll-timeout") == [(30_000, "c2", "it sends no more heartbeats")]
    assert logged(played, "lost") == [(40_000, "c2", "t-2")]
    assert logged(played, "SyncGroup response")[-1] == (40_000, "coordinator", "t-2")
    assert rounds(played) == []
    assert owners(played) == {0: "c1", 1: "c1", 2: "c2~2"}
    assert pauses(played) == {0: 0, 1: 0, 2: 0}


def test_a_static_member_that_polls_again_too_late() -> None:
    """Its session has run from its last heartbeat before; the partitions are another's, and it joins anew."""
    times = TimingConfig(max_poll_interval_ms=20_000, rebalance_timeout_ms=20_000)
    played = play(stage(TWO, COOPERATIVE, static=True, timing=times), at(10_000, "slow-member", "c2", delay_ms=80_000))
    assert logged(played, "session-timeout") == [(75_000, "coordinator", "c2 has sent no heartbeat since 30000 ms")]
    assert [each.start_ms for each in played.group.coordinator.rebalances][:2] == [75_000, 90_000]
    assert "c2~2" in owners(played).values()


@pytest.mark.parametrize(("delay", "leaves"), [(20_000, False), (20_001, True)])
def test_who_polls_just_in_time_stays(delay: int, leaves: bool) -> None:
    """`max.poll.interval.ms` is over when more than that has gone by (`Heartbeat.pollTimeoutExpired`)."""
    times = TimingConfig(max_poll_interval_ms=20_000, rebalance_timeout_ms=20_000)
    played = play(stage(TWO, COOPERATIVE, timing=times), at(10_000, "slow-member", "c2", delay_ms=delay))
    assert [time for time, _, _ in logged(played, "LeaveGroup")] == [30_000] * leaves
    # It is back a millisecond later, while the others have not heard of it.
    assert rounds(played)[:1] == [(2, "member c2 didn't poll for 20000 ms; member c2~2 returned")] * leaves
    assert [time for time, _, text in logged(played, "removed") if text.startswith("c2:")] == [30_000] * leaves
    assert ("c2~2" in owners(played).values()) is leaves
