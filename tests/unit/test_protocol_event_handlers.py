"""Events that meet one another: what is planned is void once something else has happened to the member."""

from __future__ import annotations

from typing import Any

import pytest

from spark_assign.java.hash_map import string_hash
from spark_assign.simulation.kernel.events import InvalidEventError
from spark_assign.simulation.kernel.settings import TimingConfig
from tests.cases import cases
from tests.unit.protocol_plays import COOPERATIVE, EAGER, at, logged, modern, owners, pauses, play, rounds, stage

TWO = {"c1": [0, 1], "c2": [2]}
SLOW = TimingConfig(max_poll_interval_ms=20_000, rebalance_timeout_ms=20_000)


# --- restarts -----------------------------------------------------------------------------------------------------


def test_a_new_id_is_nobodys() -> None:
    """`c1~2` is taken by another member."""
    played = play(stage({"c1": [0], "c1~2": [1]}, COOPERATIVE), at(10_000, "member-restarts", "c1"))
    assert set(owners(played).values()) == {"c1~2", "c1~3"}


def test_an_id_that_the_event_names() -> None:
    """And the next one after it is its own again."""
    played = play(
        stage(TWO, COOPERATIVE, static=True),
        at(10_000, "member-restarts", "c1", new_member_id="x", down_ms=0),
        at(20_000, "member-restarts", "c1", down_ms=0),
    )
    assert [who for _, who, _ in logged(played, "FindCoordinator")] == ["x", "c1~3"]


def test_an_id_of_another_member() -> None:
    """A coordinator can't tell two members with one ID apart."""
    for beginning in (stage(TWO, COOPERATIVE), modern(TWO)):
        with pytest.raises(InvalidEventError, match="new_member_id is c2, which is the ID of the member c2"):
            play(beginning, at(10_000, "member-restarts", "c1", new_member_id="c2"))


def test_a_member_that_comes_back_static() -> None:
    """With another instance id it is another member: it says LeaveGroup as the dynamic one that it was."""
    played = play(
        stage(TWO, COOPERATIVE),
        at(10_000, "member-restarts", "c2", group_instance_id="i", down_ms=1_000),
        at(60_000, "member-restarts", "c2", down_ms=1_000),
    )
    assert [time for time, _, _ in logged(played, "LeaveGroup")] == [10_500]
    assert all(each.start_ms < 60_000 for each in played.group.coordinator.rebalances)
    assert played.event_handlers.restarted == 2


def test_a_static_member_that_returns_does_not_change_the_rebalance_before() -> None:
    """It gets the assignment of the same generation again; the rebalance of c3 has ended long before."""
    joins = at(10_000, "member-starts", "c3")
    (alone,) = play(stage(TWO, EAGER, static=True, partitions=4), joins).group.rebalances
    restarts = at(60_000, "member-restarts", "c2", down_ms=1_000)
    (found,) = play(stage(TWO, EAGER, static=True, partitions=4), joins, restarts).group.rebalances
    numbers = ("start_ms", "end_ms", "revoked", "lost", "assigned", "moved")
    assert [getattr(found, name) for name in numbers] == [getattr(alone, name) for name in numbers]
    assert found.end_ms < 20_000


def test_a_static_member_is_back_after_a_round() -> None:
    """The group is stable again, so that it takes its place without another one."""
    played = play(
        stage(TWO, EAGER, static=True),
        at(10_000, "member-starts", "c3"),
        at(30_000, "member-restarts", "c2", down_ms=1_000),
        at(60_000, "member-restarts", "c2", down_ms=1_000),
    )
    assert rounds(played) == [(2, "member c3 joined")]
    assert owners(played) == {0: "c1", 1: "c2~3", 2: "c3"}


def test_a_static_member_is_back_before_its_session_is_over() -> None:
    """The timer of its old id does nothing any more, nor does that of the process before it."""
    played = play(
        stage(TWO, EAGER, static=True),
        at(10_000, "member-restarts", "c2", down_ms=40_000),
        at(51_000, "member-restarts", "c2", down_ms=40_000),
    )
    assert logged(played, "session-timeout") == []
    assert rounds(played) == []


def test_a_crashed_member_is_started_before_it_is_missed() -> None:
    """A dynamic one joins beside what is left of it, which is waited for until its session is over."""
    played = play(stage(TWO, COOPERATIVE), at(10_000, "member-crashes", "c2"), at(20_000, "member-starts", "c2"))
    assert rounds(played)[0] == (2, "member c2~2 joined; session of c2 timed out")
    first = played.group.coordinator.rebalances[0]
    assert (first.start_ms, first.joined_ms, first.members) == (20_000, 54_000, 2)
    assert owners(played) == {0: "c1", 1: "c1", 2: "c2~2"}


def test_what_is_scheduled_for_a_process_is_not_for_the_next_one() -> None:
    """The old process would have heard of the rebalance with its next heartbeat; the new one has joined by then."""
    played = play(
        stage({"c1": [], "c2": []}, EAGER, partitions=4),
        at(10_000, "member-starts", "c3"),
        at(10_500, "member-crashes", "c2"),
        at(10_600, "member-starts", "c2"),
    )
    joined = played.group.coordinator.rebalances[1].joined_ms
    assert {who for time, who, _ in logged(played, "Heartbeat") if 10_000 < time < joined} == {"c1"}
    assert [time for time, who, _ in logged(played, "JoinGroup") if who == "c2~2" and time < joined] == [10_600] * 2


def test_a_member_that_is_started_before_its_restart_is_over() -> None:
    """It is there already; the restart has nothing left to start."""
    played = play(
        stage(TWO, COOPERATIVE), at(10_000, "member-restarts", "c2", down_ms=30_000), at(20_000, "member-starts", "c2")
    )
    assert len(logged(played, "FindCoordinator")) == 1
    assert set(owners(played).values()) == {"c1", "c2~2"}


def test_a_rolling_restart_passes_over_who_is_gone() -> None:
    """A batch of which nobody is left takes its pause only; those that come later are not restarted."""
    played = play(
        stage({f"c{number}": [number] for number in range(4)}, COOPERATIVE, timing=TimingConfig()),
        at(10_000, "rolling-restart", down_ms=1_000, pause_ms=5_000),
        at(11_000, "member-crashes", "c1"),
        at(11_000, "member-leaves", "c2"),
        at(12_000, "member-starts", "c9"),
    )
    restarts = [(time, detail) for time, _, detail in logged(played, "member-restarts")]
    assert restarts == [(10_000, "member_id=c0 down_ms=1000"), (26_000, "member_id=c3 down_ms=1000")]


def test_a_rolling_restart_takes_who_is_there() -> None:
    """When it begins: who has gone before is in no batch, and nobody waits for it."""
    group = stage({"c0": [0], "c1": [1], "c2": [2]}, COOPERATIVE, timing=TimingConfig())
    played = play(group, at(5_000, "member-crashes", "c0"), at(10_000, "rolling-restart"))
    assert [time for time, _, _ in logged(played, "member-restarts")] == [10_000, 25_000]


def test_a_member_starts_with_what_its_event_says() -> None:
    """Its topics, its assignors, its instance; else all topics that the group asks for."""
    beginning = stage(TWO, COOPERATIVE)
    beginning.partitions[1] = 1
    played = play(
        beginning,
        at(10_000, "member-starts", "c3", topics=("u",), assignors=("cooperative-sticky", "range")),
        at(20_000, "member-starts", "c4", group_instance_id="i"),
    )
    members = played.group.members
    assert (members["c3"].topics, members["c4"].topics) == ({1}, {0, 1})
    assert members["c3"].assignors == ("cooperative-sticky", "range")
    assert (members["c3"].group_instance_id, members["c4"].group_instance_id) == (None, "i")
    assert members["c4"].assignors == COOPERATIVE
    assert [each.exists_from for each, _ in played.group.ownership_log.closed] == [
        *(0, 0, 0, 10_000),
    ]  # somebody misses u now
    static = play(stage(TWO, COOPERATIVE, static=True), at(10_000, "member-starts", "c3"))
    assert static.group.members["c3"].group_instance_id == "c3"


def test_a_rolling_restart_tells_its_defaults_to_nobody() -> None:
    """One at a time, 5 s down, 10 s between two."""
    group = stage({"c1": [0], "c2": [1], "c3": [2]}, COOPERATIVE, timing=TimingConfig())
    played = play(group, at(10_000, "rolling-restart"))
    assert [time for time, _, _ in logged(played, "member-restarts")] == [10_000, 25_000, 40_000]
    assert [time for time, _, _ in logged(played, "FindCoordinator")] == [15_000, 30_000, 45_000]


# --- members that do not poll -------------------------------------------------------------------------------------


@pytest.mark.parametrize("static", [False, True])
def test_a_restart_ends_all_that_a_slow_member_had_before_it(static: bool) -> None:
    """The new process polls, and is not timed out for the old one, nor polls again for it."""
    played = play(
        stage(TWO, COOPERATIVE, static=static, timing=SLOW),
        at(10_000, "slow-member", "c2", delay_ms=60_000),
        at(15_000, "member-restarts", "c2", down_ms=1_000),
    )
    assert logged(played, "poll-timeout") == []
    assert [time for time, _, _ in logged(played, "LeaveGroup")] == ([] if static else [15_000])
    after = play(
        stage(TWO, COOPERATIVE, static=static, timing=SLOW),
        at(10_000, "slow-member", "c2", delay_ms=60_000),
        at(40_000, "member-crashes" if not static else "metadata-refresh", "c2" if not static else None),
    )
    assert [time for time, who, _ in logged(after, "lost") if who == "c2"] == ([70_000] if static else [])


def test_a_leader_that_has_left_decides_nothing() -> None:
    """It did not poll in time; when it polls again it joins, and its assignment is nobody's business."""
    times = TimingConfig(max_poll_interval_ms=20_000, rebalance_timeout_ms=100_000, revoke_ms=500)
    played = play(
        stage(TWO, EAGER, timing=times),
        at(10_000, "member-starts", "c3"),
        at(12_500, "slow-member", "c1", delay_ms=60_000),  # it is to lead, as all have joined at 13 s
    )
    assert [time for time, _, _ in logged(played, "LeaveGroup")] == [32_500]
    decided = [(time, who) for time, who, detail in logged(played, "SyncGroup") if detail == "with the assignment"]
    assert decided[0] == (32_500, "c3")
    assert "c1" not in [who for _, who in decided]
    assert (72_500, "c1~2") in [(time, who) for time, who, _ in logged(played, "JoinGroup")]


def test_two_delays_are_not_added() -> None:
    """The member polls when the longer of them is over."""
    for second, polls in ((1_000, 15_000), (20_000, 31_000)):
        played = play(
            stage(TWO, EAGER, timing=TimingConfig()),
            at(5_000, "slow-member", "c2", delay_ms=10_000),
            at(6_000, "member-starts", "c3"),
            at(11_000, "slow-member", "c2", delay_ms=second),
        )
        assert played.group.coordinator.rebalances[0].joined_ms == polls


def test_a_member_crashes_before_it_has_polled() -> None:
    """It has heard of the rebalance, and does not join any more; nor does one that is busy take its share."""
    polling = TimingConfig(poll_interval_ms=60_000, session_timeout_ms=10_000)
    played = play(
        stage({"c2": [0]}, EAGER, timing=polling), at(1_000, "member-starts", "c3"), at(3_100, "member-crashes", "c2")
    )
    assert string_hash("c2") == 3_119  # when it polls
    assert "c2" not in [who for _, who, _ in logged(played, "JoinGroup")]
    busy = play(
        stage(TWO, COOPERATIVE, timing=TimingConfig()),
        at(10_000, "member-starts", "c3"),
        at(11_500, "slow-member", "c3", delay_ms=10_000),
        at(15_000, "member-crashes", "c3"),
    )
    assert "c3" not in [who for _, who, _ in logged(busy, "assigned")]
    revoking = play(
        stage(TWO, COOPERATIVE, timing=TimingConfig(revoke_ms=9_000)),
        at(10_000, "member-starts", "c3"),
        at(15_000, "member-crashes", "c1"),
    )
    assert logged(revoking, "revoked") == []


# --- a group that goes on -----------------------------------------------------------------------------------------


def test_who_is_dropped_while_it_takes_its_share_hears_of_it() -> None:
    """It revokes too slowly for the next rebalance, and learns with its next heartbeat that it was removed."""
    played = play(
        stage(TWO, COOPERATIVE, timing=TimingConfig(revoke_ms=20_000, rebalance_timeout_ms=10_000)),
        at(10_000, "member-starts", "c3"),
        at(13_000, "member-starts", "c4"),
        until=33_500,
    )
    # c1 gives up t-1 from 12 s to 32 s, and is dropped at 23 s.
    assert logged(played, "removed")[0] == (23_000, "coordinator", "c1: it didn't join in time")
    answers = [(time, text) for time, _, text in logged(played, "Heartbeat response") if time > 32_000]
    assert answers == [(33_000, "UNKNOWN_MEMBER_ID")]
    assert logged(played, "lost") == [(33_000, "c1", "t-0 t-1")]
    assert ("c1~2", "generation -1") in [(who, text[-13:]) for _, who, text in logged(played, "JoinGroup")]


def test_metadata_that_change_while_the_leader_is_busy() -> None:
    """It decides by what it knows when it decides (`onLeaderElected`)."""
    played = play(
        stage({"c1": [0], "c2": [1]}, EAGER, timing=TimingConfig(revoke_ms=1_000)),
        at(10_000, "member-starts", "c3"),
        at(12_500, "slow-member", "c1", delay_ms=5_000),  # it is to lead, as all have joined at 13 s
        at(14_000, "slow-member", "c1", delay_ms=16_000),
        at(25_000, "partitions-added", topic="t", partitions=3),
        at(26_000, "metadata-refresh", "c1"),
    )
    assert rounds(played) == [(2, "member c3 joined")]
    assert logged(played, "assign") == [(30_000, "c1", "range: 3 partitions to 3 members")]
    assert owners(played) == {0: "c1", 1: "c2", 2: "c3"}


def test_a_new_leader_knows_what_it_has_seen() -> None:
    """c2 leads after c1 has left, and has not looked since the partition was added; it does 300 s after it began."""
    played = play(
        stage(TWO, COOPERATIVE),
        at(10_000, "partitions-added", topic="t", partitions=4),
        at(20_000, "member-leaves", "c1"),
    )
    found = [(each.start_ms, each.cause) for each in played.group.coordinator.rebalances]
    assert found[0] == (21_000, "member c1 left")
    assert found[1] == (300_000, "c2 rejoined: it saw other partitions than it had assigned")
    assert pauses(played)[3] == 290_000


def test_a_leader_looks_at_a_new_topic_when_it_asks_for_it() -> None:
    """What is added before it has joined it sees at its next look only."""
    beginning = stage(TWO, EAGER)
    beginning.partitions[1] = 1
    played = play(
        beginning,
        at(10_000, "subscription-changes", "c1", topics=("t", "u")),
        at(10_500, "partitions-added", topic="u", partitions=2),  # c1 gives up until 11 s
    )
    found = [(each.start_ms, each.assigned) for each in played.group.coordinator.rebalances]
    assert found == [(11_000, 4), (301_500, 5)]  # it looks at 300 s, and gives up t-0, t-1 and u-0


def test_a_new_process_looks_when_it_starts() -> None:
    """It leads by what it saw then, and sees what is added during the initial delay 300 s after it."""
    played = play(
        stage({"c1": [0]}, COOPERATIVE, timing=TimingConfig()),
        at(10_000, "member-restarts", "c1", down_ms=5_000),
        at(16_000, "partitions-added", topic="t", partitions=2),
    )
    found = [(each.start_ms, each.joined_ms, each.assigned) for each in played.group.coordinator.rebalances]
    assert found == [(10_000, 10_000, 0), (15_000, 18_000, 1), (315_000, 315_000, 1)]


def test_a_leader_watches_the_topics_of_all() -> None:
    """It does not ask for `u` itself; a look at what is as it was changes nothing."""
    beginning = stage(TWO, COOPERATIVE)
    beginning.partitions[1] = 1
    beginning.members[1].topics = frozenset([0, 1])
    beginning.members[1].owned.append(1 << 32)
    added = at(20_000, "partitions-added", topic="u", partitions=2)
    played = play(beginning, at(15_000, "metadata-refresh"), added, at(30_000, "metadata-refresh"))
    assert [time for time, _, _ in logged(played, "metadata")] == [30_000]


def test_as_many_partitions_as_there_are() -> None:
    """Nothing is added, and nothing is wrong; nobody rebalances for it."""
    played = play(stage(TWO, COOPERATIVE), at(10_000, "partitions-added", topic="t", partitions=3))
    assert rounds(played) == []
    assert len(played.group.ownership_log.closed) == 3


def test_members_look_again_by_their_own_clocks() -> None:
    """Every `metadata.max.age.ms` after they began; who was restarted meanwhile by its new one."""
    times = TimingConfig(metadata_max_age_ms=60_000)
    played = play(
        stage({"c1": [0]}, COOPERATIVE, timing=times),
        at(10_000, "member-restarts", "c1", down_ms=5_000),
        at(30_000, "partitions-added", topic="t", partitions=2),
    )
    assert [time for time, _, _ in logged(played, "metadata")] == [75_000]
    at_once = play(
        stage({"c1": [0]}, COOPERATIVE, timing=times), at(60_000, "partitions-added", topic="t", partitions=2)
    )
    assert [time for time, _, _ in logged(at_once, "metadata")] == [120_000]


@pytest.mark.parametrize("event", ["topic-created", "topic-deleted"])
def test_what_comes_or_goes_is_seen_at_the_next_look(event: str) -> None:
    """300 s after the leader began, when it refreshes its metadata."""
    beginning = stage(TWO, COOPERATIVE, timing=TimingConfig())
    beginning.members[0].topics = beginning.members[1].topics = frozenset([0, 1])
    topic = {"topic": "u", "partitions": 1} if event == "topic-created" else {"topic": "t"}
    assert [time for time, _, _ in logged(play(beginning, at(10_000, event, **topic)), "metadata")] == [300_000]


@pytest.mark.parametrize("strategies", [EAGER, COOPERATIVE])
@pytest.mark.parametrize(("event", "unowned"), [(None, 0), ("member-leaves", 1), ("member-crashes", 1)])
def test_a_topic_is_created_again(strategies: tuple[str, ...], event: str | None, unowned: int) -> None:
    """Classic clients know topics by name: they consume it again at once, except those that are gone by then."""
    between = [at(10_001, event, "c2")] if event else []
    played = play(
        stage(TWO, strategies),
        at(10_000, "topic-deleted", topic="t"),
        *between,
        at(10_600, "topic-created", topic="t", partitions=3),
        until=10_700,
    )
    new = [each for each, _ in played.group.ownership_log.closed if each.exists_from]
    assert [each.code for each in new] == [0, 1, 2]
    assert [each.state == "unowned" for each in new] == [False, False, bool(unowned)]
    assert played.group.ownership_log.unowned_at_end == unowned


def test_a_topic_comes_and_goes() -> None:
    """One that a member waits for; one that nobody asks for is nobody's loss."""
    beginning = stage(TWO, COOPERATIVE)
    beginning.members[0].topics = beginning.members[1].topics = frozenset([0, 1])
    played = play(
        beginning,
        at(10_000, "topic-created", topic="u", partitions=2),
        at(11_000, "metadata-refresh"),
        at(60_000, "topic-deleted", topic="u"),
        at(61_000, "metadata-refresh"),
    )
    assert [
        (each.code & 3, each.exists_from, end) for each, end in played.group.ownership_log.closed if each.code >> 32
    ] == [(0, 10_000, 60_000), (1, 10_000, 60_000)]
    beginning = stage(TWO, COOPERATIVE)
    beginning.members[0].topics = frozenset([0, 1])
    empty = play(beginning, at(10_000, "topic-created", topic="u", partitions=0))
    assert [each.code >> 32 for each, _ in empty.group.ownership_log.closed] == [0, 0, 0]
    nobodys = play(stage(TWO, COOPERATIVE), at(10_000, "topic-created", topic="u", partitions=2))
    assert [each.code >> 32 for each, _ in nobodys.group.ownership_log.closed] == [0, 0, 0]
    later = play(
        stage(TWO, COOPERATIVE),
        at(10_000, "topic-created", topic="u", partitions=2),
        at(20_000, "subscription-changes", "c1", topics=("t", "u")),
    )
    assert [each.exists_from for each, _ in later.group.ownership_log.closed if each.code >> 32] == [20_000, 20_000]


@cases(
    "events why",
    ([at(1, "member-crashes", "c1"), at(2, "member-leaves", "c1")], "the member isn't running"),
    ([at(1, "member-restarts", "c1"), at(2, "slow-member", "c1", delay_ms=1)], "the member isn't running"),
    ([at(1, "partitions-added", topic="u", partitions=1)], "topic u doesn't exist"),
    ([at(1, "partitions-added", topic="t", partitions=2)], "topic t has 3 partitions. Kafka can't reduce them to 2"),
    ([at(1, "partitions-added", topic="t", partitions=0)], "topic t has 3 partitions. Kafka can't reduce them to 0"),
    ([at(1, "topic-created", topic="t", partitions=2)], "topic t already exists"),
    ([at(1, "metadata-refresh", "c9")], "the group has no such member. Use the member's first ID"),
)
def test_what_cannot_happen_then(events: list[Any], why: str) -> None:
    with pytest.raises(InvalidEventError) as refused:
        play(stage(TWO, COOPERATIVE), *events)
    assert str(refused.value).endswith(f": {why}")
