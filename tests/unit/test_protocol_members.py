"""What members tell, remember and give up (`ConsumerCoordinator`, the assignors' `onAssignment`), played."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_assign.simulation.kernel.assignment_request import AssignmentRequest, code
from spark_assign.simulation.kernel.events import Event, in_order
from spark_assign.simulation.kernel.group_simulation import GroupSimulation
from spark_assign.simulation.kernel.leader import assign
from spark_assign.simulation.kernel.settings import TimingConfig
from spark_assign.simulation.kernel.simulated_group import InitialState
from tests.cases import cases
from tests.unit.protocol_plays import COOPERATIVE, EAGER, STICKY, at, logged, owners, pauses, play, rounds, stage

TWO = {"c1": [0, 1], "c2": [2]}


def _asks(beginning: InitialState, *events: Event) -> list[AssignmentRequest]:
    """What leaders had to decide."""
    going = GroupSimulation(beginning, in_order(events), traced=False, owners=False).run(None)
    asks: list[AssignmentRequest] = []
    try:
        ask = next(going)
        while True:
            asks.append(replace(ask, members=[replace(each) for each in ask.members]))  # as they are now
            ask = going.send(assign([ask])[0])
    except StopIteration:
        return asks


def _reported(ask: AssignmentRequest) -> dict[str, tuple[list[int], int, int | None]]:
    """Of each member what it says it owns, its generation, and the one in its user data."""
    return {e.member_id: (list(e.owned), e.generation_id, e.user_data_generation_id) for e in ask.members}


# --- what sticky remembers (`StickyAssignor.onAssignment`) --------------------------------------------------------


def test_sticky_tells_what_it_was_assigned_last_and_in_which_generation() -> None:
    """In its user data, as the members have given up all they own; a new one remembers nothing."""
    start, again = at(10_000, "member-starts", "c3"), at(60_000, "member-starts", "c4")
    first, second = _asks(stage(TWO, STICKY, partitions=4), start, again)
    assert _reported(first) == {"c1": ([0, 1], 1, 1), "c2": ([2], 1, 1), "c3": ([], -1, None)}
    got = dict(zip(_reported(first), assign([first])[0].assigned, strict=True))
    assert _reported(second) == {**{name: (got[name], 2, 2) for name in ("c1", "c2", "c3")}, "c4": ([], -1, None)}


def test_the_newest_generation_wins_what_two_remember() -> None:
    """c1 is back with what it had in generation 1; c3 was given that in generation 2, and keeps of it what it may."""
    first, second = _asks(
        stage({"c1": [0, 1], "c2": [2, 3]}, STICKY, timing=TimingConfig(rebalance_timeout_ms=10_000)),
        at(5_000, "slow-member", "c1", delay_ms=60_000),
        at(6_000, "member-starts", "c3"),
    )
    assert _reported(first) == {"c2": ([2, 3], 1, 1), "c3": ([], -1, None)}
    assert _reported(second) == {"c2": ([2, 3], 2, 2), "c3": ([0, 1], 2, 2), "c1~2": ([0, 1], -1, 1)}
    answer = dict(zip(_reported(second), assign([second])[0].assigned, strict=True))
    assert set(answer["c2"]) <= {2, 3}
    assert set(answer["c3"]) <= {0, 1}
    assert len(answer["c1~2"]) == 1


def test_sticky_remembers_its_own_generations_only() -> None:
    """Rounds that another assignor decides pass it by."""
    votes = ("range", "sticky")
    asks = _asks(
        stage(TWO, votes),
        at(10_000, "member-starts", "c3", assignors=votes),  # range decides generation 2
        at(60_000, "member-starts", "c4", assignors=("sticky",)),  # sticky 3
        at(110_000, "member-leaves", "c4"),  # range 4
        at(160_000, "member-starts", "c5", assignors=("sticky",)),  # sticky 5
    )
    assert [each.assignor for each in asks] == ["range", "sticky", "range", "sticky"]
    assert {(*owned, generation) for owned, _, generation in _reported(asks[1]).values()} == {(None,)}
    third = dict(zip(_reported(asks[1]), assign([asks[1]])[0].assigned, strict=True))
    reported = _reported(asks[3])
    assert {n: reported[n] for n in ("c1", "c2", "c3")} == {name: (third[name], 4, 3) for name in ("c1", "c2", "c3")}
    assert reported["c5"] == ([], -1, None)


def test_a_new_process_remembers_nothing() -> None:
    """Nor does a static member's."""
    for static in (False, True):
        restart = at(10_000, "member-restarts", "c1", down_ms=60_000)
        assert _reported(_asks(stage(TWO, STICKY, static=static), restart)[-1])["c1~2"] == ([], -1, None)


def test_a_cooperative_member_tells_what_it_owns() -> None:
    """With its generation; one that was struck off tells neither, but its assignor still knows its generation."""
    first, *_, last = _asks(
        stage(TWO, COOPERATIVE, timing=TimingConfig(rebalance_timeout_ms=10_000)),
        at(5_000, "slow-member", "c1", delay_ms=60_000),
        at(6_000, "member-starts", "c3"),
    )
    assert _reported(first) == {"c2": ([2], 1, None), "c3": ([], -1, None)}
    assert _reported(next(each for each in (first, *_, last) if "c1~2" in _reported(each)))["c1~2"] == ([], -1, 1)


# --- giving up (`revoke_ms`, `restore_ms`) ------------------------------------------------------------------------


def _with(beginning: InitialState, **times: dict[int, int]) -> InitialState:
    for name, reported in times.items():
        getattr(beginning, name).update({code(0, partition): value for partition, value in reported.items()})
    return beginning


@cases(
    "revoke_times c1 c2",
    ({}, 1_000, 500),
    ({0: 4_000}, 4_500, 500),
    ({0: 4_000, 1: 1}, 4_001, 500),
    ({2: 0}, 1_000, 0),
    ({0: 0, 1: 0, 2: 7_000}, 0, 7_000),
)
def test_revoking_takes_what_each_partition_takes(revoke_times: dict[int, int], c1: int, c2: int) -> None:
    """One after the other: a member is through with it after the sum; what has no time of its own takes the group's."""
    beginning = _with(stage(TWO, EAGER, timing=TimingConfig(revoke_ms=500)), revoke_ms=revoke_times)
    played = play(beginning, at(10_000, "member-starts", "c3"))
    assert logged(played, "revoked") == sorted([(12_000 + c1, "c1", "t-0 t-1"), (12_000 + c2, "c2", "t-2")])
    assert played.group.coordinator.rebalances[0].joined_ms == 12_000 + max(c1, c2)


def test_a_cooperative_member_revokes_what_it_loses_only() -> None:
    """t-1 goes, and takes 3 s; what t-0 would take does not matter."""
    beginning = _with(stage(TWO, COOPERATIVE, timing=TimingConfig(revoke_ms=500)), revoke_ms={0: 50_000, 1: 3_000})
    assert logged(play(beginning, at(10_000, "member-starts", "c3")), "revoked") == [(15_000, "c1", "t-1")]


def test_closing_revokes_as_well() -> None:
    """LeaveGroup is said when all is given up; a static member is down from then on."""
    for static, message in ((False, "LeaveGroup"), (True, "revoked")):
        beginning = _with(
            stage(TWO, COOPERATIVE, static=static, timing=TimingConfig(revoke_ms=500)), revoke_ms={1: 2_000}
        )
        played = play(beginning, at(10_000, "member-restarts", "c1", down_ms=1_000))
        assert [time for time, who, _ in logged(played, message) if who == "c1"] == [12_500]
        assert min(time for time, who, _ in logged(played, "JoinGroup") if who == "c1~2") == 13_500


def test_restoring_takes_what_each_partition_takes() -> None:
    """Side by side; only of a new owner."""
    beginning = _with(stage(TWO, EAGER, timing=TimingConfig(restore_ms=2_000)), restore_ms={1: 9_000, 0: 50_000})
    played = play(beginning, at(10_000, "member-starts", "c3"))
    assert owners(played) == {0: "c1", 1: "c2", 2: "c3"}
    assert pauses(played) == {0: 0, 1: 9_000, 2: 2_000}


# --- joining ------------------------------------------------------------------------------------------------------


def test_who_is_dropped_while_it_gives_up_joins_again() -> None:
    """It has taken too long; when it is through with it, its member id means nothing any more."""
    times = TimingConfig(revoke_ms=500, rebalance_timeout_ms=10_000)
    beginning = _with(stage(TWO, EAGER, timing=times), revoke_ms={0: 20_000})
    played = play(beginning, at(10_000, "member-starts", "c3"), until=33_000)
    assert logged(played, "removed") == [(20_000, "coordinator", "c1: it didn't join in time")]
    first, second = played.group.coordinator.rebalances[0], played.group.coordinator.rebalance
    assert (first.revoked, first.lost) == (1, 2)  # what c2 gave up; what was taken from c1
    assert logged(played, "revoked")[1] == (32_500, "c1", "t-0 t-1")
    joins = [line for line in logged(played, "JoinGroup") if line[0] == 32_500]
    assert [who for _, who, _ in joins] == ["c1~2", "c1~2"]
    assert (list(second.causes), second.revoked) == (["member c1~2 returned"], 0)


@pytest.mark.parametrize("strategies", [EAGER, COOPERATIVE])
def test_partitions_of_topics_no_longer_subscribed(strategies: tuple[str, ...]) -> None:
    """An eager member gives up all it has before it joins, a cooperative one what it does not subscribe to."""
    beginning = stage({"c1": [0], "c2": [1]}, strategies)
    beginning.members[0].owned.append(code(1, 0))
    beginning.members[0].topics = frozenset([0, 1])
    beginning.partitions[1] = 1
    played = play(beginning, at(10_000, "subscription-changes", "c1", topics=("t",)))
    gone = "t-0 u-0" if strategies == EAGER else "u-0"
    assert logged(played, "revoked")[0] == (10_000 + 500 * len(gone.split()), "c1", gone)
    assert rounds(played)[0] == (2, "c1 rejoined: its subscription changed")


def test_the_same_subscription_again_is_no_change() -> None:
    """`rejoinNeededOrPending` compares what it asks for with what it joined with."""
    played = play(stage(TWO, EAGER), at(10_000, "subscription-changes", "c2", topics=("t",)))
    assert rounds(played) == []
    assert logged(played, "JoinGroup") == []


def _changes(time: int, topics: tuple[str, ...], *, static: bool = False) -> GroupSimulation:
    """c2 has joined with `t` at 12 s, and waits for c1 until 20 s."""
    beginning = stage({"c1": [0], "c2": [1]}, COOPERATIVE, static=static, timing=TimingConfig())
    beginning.partitions[1] = 1
    return play(
        beginning,
        at(5_000, "slow-member", "c1", delay_ms=15_000),
        at(10_000, "member-starts", "c3", topics=("t",)),
        at(time, "subscription-changes", "c2", topics=topics),
    )


def test_a_subscription_that_changes_while_it_waits() -> None:
    """It has joined with the old one, and joins again once it has its share."""
    played = _changes(15_000, ("t", "u"))
    assert [i for i in rounds(played) if "subscription" in i[1]] == [(3, "c2 rejoined: its subscription changed")]
    assert played.group.coordinator.rebalances[1].start_ms == 20_000
    assert code(1, 0) in played.group.members["c2"].owned


def test_an_assignment_to_topics_no_longer_subscribed() -> None:
    """It is not taken (`checkAssignmentMatchedSubscription`); the member joins again for what it asks for now."""
    played = _changes(15_000, ("u",))
    assert rounds(played)[1] == (3, "c2 rejoined: its subscription changed")
    assert played.group.coordinator.rebalances[1].start_ms == 20_000
    assert played.group.members["c2"].owned == [code(1, 0)]
    assert "t-1" not in [detail for time, who, detail in logged(played, "assigned") if who == "c2"]
    assert set(owners(played)) == {0, 1}


def test_a_static_member_that_comes_back_for_other_topics() -> None:
    """It receives its old assignment, which it does not take."""
    beginning = stage({"c1": [0], "c2": [1]}, COOPERATIVE, static=True, timing=TimingConfig())
    beginning.partitions[1] = 1
    played = play(beginning, at(10_000, "member-restarts", "c2", topics=("u",), down_ms=1_000))
    assert logged(played, "SyncGroup response")[0] == (11_000, "coordinator", "t-1")
    assert rounds(played)[0] == (2, "c2~2 rejoined: its subscription changed")
    assert owners(played) == {0: "c1", 1: "c1"}
    assert played.group.members["c2"].owned == [code(1, 0)]
