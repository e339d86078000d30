"""KIP-848's protocol in time: when members send heartbeats, when they give up and take, and who is out.

Of members that are there at the beginning c1 sends its heartbeats at 149 ms, 5,149 ms, …; c2 at 3,240 ms, …; c3 at
1,330 ms, …: moments that hang on their ids.
"""

from __future__ import annotations

from typing import Any

import pytest

from spark_assign.simulation.kernel import simulated_group
from spark_assign.simulation.kernel.events import in_order
from spark_assign.simulation.kernel.group_simulation import GroupSimulation
from spark_assign.simulation.kernel.ownership_log import merged
from spark_assign.simulation.kernel.settings import TimingConfig
from spark_assign.simulation.kernel.simulate_groups import simulate_in_memory
from spark_assign.simulation.kernel.simulated_group import TooManyEventsError
from tests.unit import protocol_facts as facts
from tests.unit.protocol_plays import at, logged, modern, names, owners, pauses, play, rounds, run

TWO = {"c1": [0, 1], "c2": [2]}
JOINS = at(10_000, "member-starts", "c3")
REQUEST, RESPONSE = "ConsumerGroupHeartbeat", "ConsumerGroupHeartbeat response"


def _beats(played: GroupSimulation, member: str) -> list[tuple[int, str]]:
    """When the member sends a heartbeat, and what it says."""
    return [(time, text) for time, actor, text in logged(played, REQUEST) if actor == member]


def _answers(played: GroupSimulation, member: str) -> list[tuple[int, str]]:
    lines = played.group.trace or ()
    return [(each.at_ms, each.detail) for each in lines if each.message == RESPONSE and each.receiver == member]


def _calls(played: GroupSimulation) -> list[tuple[int, str, str, str]]:
    """All calls of rebalance listeners: when, whose, which, with what."""
    kinds = ("revoked", "assigned", "lost")
    return [(e.at_ms, e.actor, e.message, e.detail) for e in played.group.trace or () if e.message in kinds]


# --- joining ------------------------------------------------------------------------------------------------------


def test_a_member_joins() -> None:
    """It reports everything with epoch 0 and is answered at once, c1 with its next heartbeat; c1's report frees t-1."""
    played = play(modern(TWO), JOINS)
    assert _beats(played, "c3") == [
        (10_000, "epoch 0; topics t; owned nothing"),
        (10_000, "epoch 2; owned nothing"),  # it has come to its first assignment, which is empty
        (15_000, "epoch 2"),  # an interval after its last one
        (15_000, "epoch 2; owned t-1"),
    ]
    assert _answers(played, "c3") == [
        (10_000, "epoch 2; nothing"),
        (10_000, "epoch 2"),
        (15_000, "epoch 2; t-1"),
        (15_000, "epoch 2"),
    ]
    assert _beats(played, "c1") == [(10_149, "epoch 1"), (10_649, "epoch 1; owned t-0")]
    assert _answers(played, "c1") == [(10_149, "epoch 1; t-0"), (10_649, "epoch 2")]  # first give up, then the epoch
    assert _calls(played) == [(10_649, "c1", "revoked", "t-1"), (15_000, "c3", "assigned", "t-1")]
    assert pauses(played) == {0: 0, 1: 15_000 - 10_149 + 2_000, 2: 0}
    assert rounds(played) == [(2, "member c3 joined")]


def test_a_member_that_keeps_its_partitions_receives_only_the_epoch() -> None:
    """And says nothing of its partitions."""
    played = play(modern(TWO), JOINS)
    assert (_beats(played, "c2"), _answers(played, "c2")) == ([(13_240, "epoch 1")], [(13_240, "epoch 2")])


def test_all_start_at_once() -> None:
    """The first one is assigned everything; within a second nobody else is assigned anything (4.3 and later)."""
    played = play(modern({"c1": [], "c2": []}, partitions=4))
    targets = [(time, text.split(";")[0]) for time, _, text in logged(played, "target")]
    assert targets == [(0, "uniform: epoch 2"), (5_000, "uniform: epoch 3")]
    assert [each for each in _calls(played) if each[0] == 0] == [(0, "c1", "assigned", names(range(4)))]
    assert _answers(played, "c2")[0] == (0, "epoch 2; nothing")
    assert sorted(owners(played).values()) == ["c1", "c1", "c2", "c2"]


@pytest.mark.parametrize("release", ["4.1", "4.2"])
def test_all_start_at_once_at_an_older_broker(release: str) -> None:
    """Every heartbeat finds a target, and epochs begin with 1."""
    played = play(modern({"c1": [], "c2": []}, partitions=4, timing=TimingConfig(broker_release=release)))
    assert [(time, text.split(";")[0]) for time, _, text in logged(played, "target")] == [
        (0, "uniform: epoch 1"),
        (0, "uniform: epoch 2"),
    ]


def test_the_assignment_interval() -> None:
    """Two that join within it share a target: the second one waits for the first heartbeat after it."""
    joins = (JOINS, at(10_500, "member-starts", "c4"))
    shared = play(modern(TWO, partitions=8), *joins)
    assert [time for time, _, _ in logged(shared, "target")] == [10_000, 13_240]  # of c1's at 10,149 it is too early
    times = TimingConfig(group_consumer_assignment_interval_ms=0)
    assert [time for time, _, _ in logged(play(modern(TWO, partitions=8, timing=times), *joins), "target")] == [
        10_000,
        10_500,
    ]


def test_the_broker_sets_the_interval() -> None:
    """Not `heartbeat.interval.ms` of the consumer."""
    times = TimingConfig(heartbeat_interval_ms=500, group_consumer_heartbeat_interval_ms=2_000)
    played = play(modern(TWO, timing=times), JOINS)
    assert [time for time, _ in _beats(played, "c3")] == [10_000, 10_000, 12_000, 12_000]
    # 149 / 5,000 of 2,000 ms is where c1's are.
    assert next(time for time, _ in _beats(played, "c1")) == 10_059


def test_the_broker_assigns_by_what_members_prefer() -> None:
    """`group.remote.assignor`; uniform leaves t-0 with c1, range orders by member id."""
    ranged = play(modern({"c2": [0, 1], "c1": [2]}, assignor="range"), JOINS)
    assert owners(ranged) == {0: "c1", 1: "c2", 2: "c3"}
    assert [each.assignor for each in ranged.group.rebalances] == ["server-range"]
    assert owners(play(modern({"c2": [0, 1], "c1": [2]}), JOINS))[2] == "c1"


# --- poll ---------------------------------------------------------------------------------------------------------


def test_callbacks_are_called_in_poll() -> None:
    """A member acts on its assignment when it polls, and then reports that."""
    played = play(modern(TWO), JOINS, at(10_100, "slow-member", "c1", delay_ms=3_000))
    assert _answers(played, "c1")[0] == (10_149, "epoch 1; t-0")
    assert _calls(played)[0] == (13_100 + 500, "c1", "revoked", "t-1")
    assert _beats(played, "c1")[1] == (13_600, "epoch 1; owned t-0")


def test_a_target_that_changes_before_the_poll() -> None:
    """c3 is gone again before c1 polls: c1 still revokes t-1, which c2 is assigned."""
    played = play(
        modern(TWO, timing=TimingConfig(revoke_ms=500, group_consumer_assignment_interval_ms=0)),
        JOINS,
        at(10_100, "slow-member", "c1", delay_ms=8_000),
        at(11_000, "member-leaves", "c3"),
    )
    # The coordinator waits for what c1 gives up, and sends it nothing else before.
    assert _calls(played) == [(18_600, "c1", "revoked", "t-1"), (23_240, "c2", "assigned", "t-1")]
    assert _answers(played, "c1") == [(10_149, "epoch 1; t-0"), (18_600, "epoch 3")]


def test_a_target_that_is_what_the_member_has_needs_no_poll() -> None:
    """c2 is assigned t-3, but before it polls, c4 is: c2 acknowledges t-2 at once (`maybeReconcile`)."""
    played = play(
        modern({"c1": [0, 1], "c2": [2], "c3": [3]}, timing=TimingConfig(group_consumer_assignment_interval_ms=0)),
        at(10_000, "member-leaves", "c3"),
        at(10_050, "slow-member", "c2", delay_ms=30_000),
        at(14_000, "member-starts", "c4"),
    )
    assert _answers(played, "c2") == [(13_240, "epoch 2; t-2 t-3"), (18_240, "epoch 2; t-2"), (18_240, "epoch 3")]
    assert _beats(played, "c2") == [(13_240, "epoch 1"), (18_240, "epoch 2"), (18_240, "epoch 2; owned t-2")]
    assert _calls(played)[1:] == [(19_000, "c4", "assigned", "t-3")]


def test_a_member_does_not_poll_for_too_long() -> None:
    """It leaves by itself, and loses its partitions when it polls; then it joins again, under its id."""
    times = TimingConfig(max_poll_interval_ms=20_000, rebalance_timeout_ms=20_000)
    played = play(modern(TWO, timing=times), at(10_000, "slow-member", "c1", delay_ms=30_000))
    why = "member c1 didn't poll for 20000 ms"
    assert _beats(played, "c1")[:2] == [(30_000, f"epoch -1: {why}"), (40_000, "epoch 0; topics t; owned nothing")]
    assert _calls(played)[:2] == [(33_240, "c2", "assigned", "t-0 t-1"), (40_000, "c1", "lost", "t-0 t-1")]
    assert rounds(played) == [(2, why), (3, "member c1 returned")]
    assert played.group.rebalances[0].lost == 2


# --- leaving ------------------------------------------------------------------------------------------------------


def test_a_member_leaves() -> None:
    """It gives up first and says so with epoch -1; the next heartbeat of anybody finds the target."""
    played = play(modern(TWO), at(10_000, "member-leaves", "c1"))
    assert _calls(played) == [(11_000, "c1", "revoked", "t-0 t-1"), (13_240, "c2", "assigned", "t-0 t-1")]
    assert _beats(played, "c1") == [(11_000, "epoch -1: member c1 left")]
    assert [time for time, _, _ in logged(played, "target")] == [13_240]
    assert pauses(played) == {0: 13_240 - 10_000 + 2_000, 1: 13_240 - 10_000 + 2_000, 2: 0}


def test_a_restart() -> None:
    """Two rebalances; the new process has a new id."""
    played = play(modern(TWO), at(10_000, "member-restarts", "c1", down_ms=20_000))
    assert rounds(played) == [(2, "member c1 left"), (3, "member c1~2 joined")]
    assert set(owners(played).values()) == {"c1~2", "c2"}


def test_a_static_member_restarts() -> None:
    """It says -2 and is back under another id within its session: nobody else hears of it."""
    played = play(modern(TWO, static=True), at(10_000, "member-restarts", "c1", down_ms=20_000))
    assert rounds(played) == []
    assert _beats(played, "c1") == [(11_000, "epoch -2: it is down")]
    assert _answers(played, "c1~2")[0] == (31_000, "epoch 1; t-0 t-1")
    assert _calls(played) == [(11_000, "c1", "revoked", "t-0 t-1"), (31_000, "c1~2", "assigned", "t-0 t-1")]
    assert pauses(played) == {0: 21_000, 1: 21_000, 2: 0}  # its own partitions it has no need to restore


def test_a_static_member_is_away_for_too_long() -> None:
    """One session timeout after it was heard of last its partitions go to others."""
    played = play(modern(TWO, static=True), at(10_000, "member-restarts", "c1", down_ms=100_000))
    assert logged(played, "fenced") == [(10_149 + 45_000, "coordinator", "c1 sent no heartbeat in time")]
    assert _calls(played)[1] == (58_240, "c2", "assigned", "t-0 t-1")


def test_a_static_member_that_was_killed_is_refused() -> None:
    """Its instance id belongs to the old process until that one's session is over; the consumer fails."""
    killed = (at(10_000, "member-crashes", "c1"), at(20_000, "member-starts", "c1"))
    played = play(modern(TWO, static=True), *killed)
    assert _answers(played, "c1~2") == [(20_000, "UNRELEASED_INSTANCE_ID")]
    assert set(owners(played).values()) == {"c2"}


# --- being out ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("crash", "heard"), [(5_148, 149), (5_149, 5_149), (10_148, 5_149)])
def test_a_crash(crash: int, heard: int) -> None:
    """`group.consumer.session.timeout.ms` after its last heartbeat, not `session.timeout.ms`."""
    times = TimingConfig(session_timeout_ms=10_000, group_consumer_session_timeout_ms=20_000)
    played = play(modern(TWO, timing=times), at(crash, "member-crashes", "c1"))
    assert logged(played, "fenced") == [(heard + 20_000, "coordinator", "c1 sent no heartbeat in time")]
    assert rounds(played) == [(2, "c1 sent no heartbeat in time")]
    assert played.group.rebalances[0].lost == 2


def test_the_others_are_heard_of_all_the_time() -> None:
    """Long quiet times fence nobody."""
    played = play(modern({**TWO, "c3": [3]}), at(500_000, "member-crashes", "c1"), at(900_000, "member-crashes", "c2"))
    assert [t for _, _, t in logged(played, "fenced")] == [f"{name} sent no heartbeat in time" for name in ("c1", "c2")]
    assert set(owners(played).values()) == {"c3"}


def test_giving_up_takes_too_long() -> None:
    """The rebalance timeout runs from the request to revoke. A fenced member returns after its next heartbeat."""
    played = play(modern(TWO, timing=TimingConfig(revoke_ms=30_000, rebalance_timeout_ms=12_000)), JOINS, until=45_000)
    [fenced] = logged(played, "fenced")
    assert fenced == (22_149, "coordinator", "c1 didn't give up its partitions in time")
    assert (25_149, "UNKNOWN_MEMBER_ID") in _answers(played, "c1")
    lost = [each for each in _calls(played) if each[2] == "lost"]
    assert lost == [(40_149, "c1", "lost", "t-0 t-1")]  # it was giving up until then, and called no other callback
    assert (40_149, "epoch 0; topics t; owned nothing") in _beats(played, "c1")
    assert [cause for _, cause in rounds(played)][1:] == [fenced[2], "member c1 returned"]


def test_others_wait_for_what_nobody_gives_up() -> None:
    """c3 asks with every heartbeat; c1, which is to give up nothing, is not held up."""
    played = play(modern({"c1": [0, 1], "c2": [2, 3]}), JOINS, at(10_100, "slow-member", "c2", delay_ms=14_000))
    assert _answers(played, "c1") == [(10_149, "epoch 2")]
    assert [time for time, _ in _beats(played, "c3")] == [10_000, 10_000, 15_000, 20_000, 25_000, 25_000]


# --- topics -------------------------------------------------------------------------------------------------------


def test_partitions_are_added() -> None:
    """The broker knows at once; the next heartbeat of anybody finds the target."""
    played = play(modern(TWO), at(10_000, "partitions-added", topic="t", partitions=4))
    assert rounds(played) == [(2, "topics have changed")]
    assert [time for time, _, _ in logged(played, "target")] == [10_149]
    assert owners(played) == {0: "c1", 1: "c1", 2: "c2", 3: "c2"}
    assert pauses(played)[3] == 3_240  # nobody had it before: no need to restore it


def test_a_topic_is_deleted() -> None:
    """Members revoke the partitions that no longer exist."""
    played = play(modern(TWO), at(10_000, "topic-deleted", topic="t"))
    assert _calls(played) == [(11_149, "c1", "revoked", "t-0 t-1"), (13_740, "c2", "revoked", "t-2")]
    assert owners(played) == {}


@pytest.mark.parametrize("partitions", [1, 3, 5])
@pytest.mark.parametrize("asks", [None, {"c2": [0, 1]}])
@pytest.mark.parametrize("assignor", ["uniform", "server-range"])
def test_a_topic_is_created_again(partitions: int, asks: dict[str, list[int]] | None, assignor: str) -> None:
    """It has another ID, so members give up its old partitions and get the new ones, although the names are equal."""
    played = play(
        modern(TWO, asks=asks, assignor=assignor),
        at(10_000, "topic-deleted", topic="t"),
        at(10_001, "topic-created", topic="t", partitions=partitions),
    )
    calls = _calls(played)
    assert [each for each in calls if each[2] == "revoked"] == [
        (11_149, "c1", "revoked", "t-0 t-1"),
        (13_740, "c2", "revoked", "t-2"),
    ]
    assigned = " ".join(text for _, _, message, text in calls if message == "assigned").split()
    assert sorted(assigned) == [f"t-{each}" for each in range(partitions)]
    log = played.group.ownership_log
    assert (len(log.closed), log.unowned_at_end) == (3 + partitions, 0)
    assert {played.group.cluster.names[each.code >> 32] for each, _ in log.closed} == {"t"}


def test_times_of_a_topic_that_is_created_again() -> None:
    """Those of its partitions hold; a claim to one that doesn't exist isn't one to it later."""
    beginning = modern({"c1": [0, 1, 5], "c2": []}, partitions=2)
    beginning.revoke_ms = {0: 7_000}
    beginning.restore_ms = {0: 9_000}
    played = play(
        beginning,
        at(10_000, "topic-deleted", topic="t"),
        at(10_001, "topic-created", topic="t", partitions=1),
        at(60_000, "member-leaves", "c2"),
        at(90_000, "partitions-added", topic="t", partitions=6),
    )
    spans = [
        (state, end - start)
        for code, start, end, state, _ in merged(played.group.ownership_log.intervals or ())
        if code == 2 << 32 and state in ("revoking", "restoring")
    ]
    assert spans == [("revoking", 7_000), ("restoring", 9_000)]
    (last,) = [each for each, _ in played.group.ownership_log.closed if each.code == 2 << 32 | 5]
    assert last.pauses == 1


def test_a_topic_that_nobody_asks_for() -> None:
    """Nothing follows from it."""
    played = play(modern(TWO), at(10_000, "topic-created", topic="u", partitions=4))
    assert (rounds(played), logged(played, "state")) == ([], [])


def test_a_subscription_changes() -> None:
    """The member says so with its next regular heartbeat, and consumes until then what it had."""
    played = play(modern(TWO), at(10_000, "subscription-changes", "c2", topics=("u",)))
    assert _beats(played, "c2")[0] == (13_240, "epoch 1; topics u")
    assert _calls(played) == [(13_740, "c2", "revoked", "t-2"), (15_149, "c1", "assigned", "t-2")]
    assert rounds(played) == [(2, "c2 changed its subscription")]


def test_metadata_of_members_does_not_matter() -> None:
    """It is the broker that looks at topics."""
    assert rounds(play(modern(TWO), at(10_000, "metadata-refresh"))) == []


def test_what_a_reader_sees_changes_nothing() -> None:
    """Where nobody reads the trace, heartbeats that only raise a member's epoch are passed over."""
    owned = {f"c{number:02}": [2 * number, 2 * number + 1] for number in range(20)}
    events = (
        at(10_000, "rolling-restart", parallelism=3, down_ms=4_000, pause_ms=7_000),
        at(50_000, "slow-member", "c07", delay_ms=9_000),
        at(70_000, "member-crashes", "c19"),
        at(90_000, "partitions-added", topic="t", partitions=50),
    )
    times = TimingConfig(revoke_ms=100, restore_ms=2_000, poll_interval_ms=500)
    seen, unseen = (
        GroupSimulation(modern(owned, timing=times), in_order(events), traced=t, owners=True) for t in (True, False)
    )
    for played in (seen, unseen):
        run(played)
    assert seen.group.ownership_log.intervals == unseen.group.ownership_log.intervals
    assert seen.group.rebalances == unseen.group.rebalances
    assert len(seen.group.rebalances) > 10
    assert seen.end_ms == unseen.end_ms


def test_groups_of_both_protocols_side_by_side() -> None:
    """Leaders and brokers assign in the same calls; each group has the rows that it has alone."""
    restart = facts.event(10_000, "rolling-restart", down_ms=4_000)
    groups = {
        name: [*facts.pair(restart), facts.group(None) | {"group_type": kind}, facts.topic("u", 2)]
        for name, kind in {"modern": "consumer", "classic": "classic", "again": "consumer"}.items()
    }

    def played(**some: list[facts.Row]) -> dict[str, list[dict[str, Any]]]:
        found = simulate_in_memory(
            facts.table(**some), ("configured", "consumer"), TimingConfig(restore_ms=1_000), ("results", "trace")
        )
        return {name: sorted(map(str, rows)) for name, rows in found.items()}

    together = played(**groups)
    alone = [played(**{name: rows}) for name, rows in groups.items()]
    for write in together:
        assert together[write] == sorted(row for each in alone for row in each[write])
    messages = "".join(together["trace"])
    assert "JoinGroup" in messages
    assert "ConsumerGroupHeartbeat" in messages


def test_a_member_that_owns_what_it_does_not_subscribe_to() -> None:
    """A static member that returns doesn't get it back. It has nothing to wait for, and the simulation ends."""
    played = play(modern(TWO, static=True, asks={"c2": [1]}), at(1_000, "member-restarts", "c2"), until=600_000)
    assert [time for time, _ in _beats(played, "c2~2")] == [6_500, 6_500]


def test_members_that_fence_each_other_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same instance ID, the one that joins is unknown at its next heartbeat: that much work is too much."""
    monkeypatch.setattr(simulated_group, "MOST_WORK", 10_000)
    beginning = modern(TWO)
    for member in beginning.members:
        member.group_instance_id = "i"
    with pytest.raises(TooManyEventsError, match="a group of 2 members and 3 partitions too often"):
        play(beginning, at(1_000, "rolling-restart"), traced=False)
