"""Deploys by hand, and what must hold of any past."""

from __future__ import annotations

import random
import time
from types import SimpleNamespace

import pytest

from spark_assign.history.kernel.build_history import group_row
from spark_assign.history.kernel.departures import find_departures
from spark_assign.history.kernel.deploys import (
    Deploy,
    _count_members_involved,
    count_max_per_day,
    find_deploys,
    is_flapping,
)
from spark_assign.history.kernel.pauses import find_pauses
from spark_assign.history.kernel.timeline import HistoryThresholds, RecordedMember, Timeline
from tests.cases import keyed
from tests.unit.history_pasts import generation, member, past

THRESHOLDS = HistoryThresholds()
HOUR = 3_600_000


def beats(since: int, until: int, every: int = 5_000) -> list[int]:
    """Commits at every interval."""
    return list(range(since, until + 1, every))


def deploys(timeline: Timeline, thresholds: HistoryThresholds = THRESHOLDS) -> list[Deploy]:
    """The deploys of a past."""
    return find_deploys(timeline, find_departures(timeline, thresholds), find_pauses(timeline, thresholds), thresholds)


def worker(number: int, life: int, **fields: object) -> RecordedMember:
    """A worker with a client id of its own, in its first life, its second one, …"""
    return member(f"w{number}-{life}", client_id=f"w{number}", client_host=f"/10.0.0.{number}", **fields)


def in_turn(*groups: list[RecordedMember], since: int = 1_000_000, every: int = 10_000, before: int = 1) -> Timeline:
    """Generations a few seconds apart; the first one long before the others."""
    moments = [0, *(since + every * number for number in range(len(groups) - 1))]
    return past(
        *(
            generation(before + number, at, [(each, [place]) for place, each in enumerate(group)])
            for number, (at, group) in enumerate(zip(moments, groups, strict=True))
        ),
        commits={place: beats(0, 2_000_000) for place in range(3)},
    )


A, B, C = (worker(number, 1) for number in range(3))
A2, B2, C2 = (worker(number, 2) for number in range(3))


def what(*groups: list[RecordedMember], **fields: int) -> list[str]:
    """The type of each deploy in a burst of generations."""
    return [each.deploy_type for each in deploys(in_turn(*groups, **fields))]


def test_a_rolling_restart() -> None:
    """One leaves and comes back, then the next one."""
    (deploy,) = deploys(in_turn([A, B, C], [B, C], [A2, B, C], [A2, C], [A2, B2, C], [A2, B2], [A2, B2, C2]))
    assert deploy == Deploy(
        deploy_type="rolling-restart",
        start_ms=1_000_000,
        end_ms=1_050_000,
        first_generation_id=2,
        last_generation_id=7,
        rebalances=6,
        members_before=3,
        members_after=3,
        joined=0,
        left=0,
        crashed=0,
        restarted=3,
        paused_partition_ms=0,
        detail="3 of 3 members returned in 6 rebalances",
    )


def test_static_members_restart_without_a_rebalance() -> None:
    """Their ids change in the generation there is."""
    static = [[worker(number, life, group_instance_id=f"w{number}") for number in range(2)] for life in (1, 2)]
    (a, b), (a2, b2) = static
    timeline = past(
        *(
            generation(7, at, [(each, [place]) for place, each in enumerate(group)])
            for at, group in zip((0, 1_000_000, 1_020_000), ([a, b], [a2, b], [a2, b2]), strict=True)
        )
    )
    (deploy,) = deploys(timeline)
    expected = ("rolling-restart", 0, 2, None)
    assert (deploy.deploy_type, deploy.rebalances, deploy.restarted, deploy.paused_partition_ms) == expected
    assert deploy.detail == "2 of 2 members returned without a rebalance"


def test_a_restart_of_all_at_once() -> None:
    """The group is empty for a moment."""
    assert what([A, B, C], [], [A2, B2, C2]) == ["restart"]
    assert what([A], [], [A2]) == ["restart"]


def test_replaced_by_others_is_a_restart_too() -> None:
    """Pods have other names each time."""
    new = [member(name) for name in "xyz"]
    assert what([A, B, C], [], new) == ["restart"]
    assert what([A, B, C], [B, C, new[0]], [C, *new[:2]], new) == ["rolling-restart"]
    assert what([A, B, C], [C, new[0]], new[:1]) == ["mixed"]


def test_scaling() -> None:
    """Somebody joins, or leaves for good."""
    assert what([A], [A, B], [A, B, C]) == ["scale-out"]
    assert what([A, B, C], [A, B], [A]) == ["scale-in"]
    assert what([A, B], [B], [B, C]) == ["mixed"]


def test_one_of_many_that_comes_back_is_no_deploy_of_all() -> None:
    """Half of the members at least."""
    assert what([A, B, C], [B, C], [A2, B, C]) == ["mixed"]
    assert what([A, B], [B], [A2, B]) == ["rolling-restart"]


def crash(*groups: list[RecordedMember], since: int = 1_050_000, every: int = 60_000) -> Timeline:
    """What w0, w1, … have is silent for a minute before the generation they are gone in."""
    moments = [0, *(since + every * number for number in range(len(groups) - 1))]
    commits = {}
    for place in range(3):
        there = [any(each.member_id == f"w{place}-1" for each in group) for group in groups]
        gone = moments[there.index(False)] if False in there else 2_000_000
        commits[place] = beats(0, gone - 50_000) + beats(gone + 5_000, 2_000_000)
    return past(
        *(
            generation(1 + number, at, [(each, [int(each.member_id[1])]) for each in group])
            for number, (at, group) in enumerate(zip(moments, groups, strict=True))
        ),
        commits=commits,
    )


def test_crashes() -> None:
    """Gone or back; one after the other and all are back, it is a rolling restart that does not shut down."""
    (gone,) = deploys(crash([A, B, C], [B, C]))
    assert (gone.deploy_type, gone.crashed, gone.left, gone.paused_partition_ms) == ("crash", 1, 1, 55_000)
    assert gone.detail == "1 member left permanently, 1 crashed in 1 rebalance"
    (back,) = deploys(crash([A, B, C], [B, C], [A2, B, C]))
    assert (back.deploy_type, back.crashed, back.left, back.restarted) == ("crash", 1, 0, 1)
    (rolling,) = deploys(crash([A, B, C], [A2, B, C], [A2, B2, C], [A2, B2, C2]))
    assert (rolling.deploy_type, rolling.crashed, rolling.restarted) == ("rolling-restart", 3, 3)
    (node,) = deploys(crash([A, B, C], [C], [A2, B2, C]))
    assert (node.deploy_type, node.crashed, node.restarted) == ("crash", 2, 2)


def test_nothing_that_anybody_did_is_no_deploy() -> None:
    """Topics have grown, say."""
    assert what([A], [A], [A]) == []


def test_bursts_are_apart_by_the_threshold() -> None:
    """5 minutes, to the millisecond."""
    assert what([A], [A, B], [A, B, C], every=300_000) == ["scale-out"]
    assert what([A], [A, B], [A, B, C], every=300_001) == ["scale-out", "scale-out"]


def flaps(number: int, every: int) -> Timeline:
    """One of two members is thrown out and back again and again."""
    groups: list[list[RecordedMember]] = [[A, worker(1, 0)]]
    for life in range(1, number + 1):
        groups += [[A], [A, worker(1, life)]]
    return in_turn(*groups, every=every)


def test_a_burst_of_too_many_rebalances_flaps() -> None:
    """More than four for each that came and went, and ten in a day."""
    timeline = flaps(5, 30_000)
    (deploy,) = deploys(timeline)
    assert (deploy.deploy_type, deploy.rebalances, deploy.restarted) == ("flapping", 10, 5)
    assert deploy.detail == "members returned 5 times in 10 rebalances"
    assert is_flapping(timeline, [deploy], THRESHOLDS)
    assert [each.deploy_type for each in deploys(flaps(4, 30_000))] == ["rolling-restart"]


def test_a_deploy_takes_four_rebalances_per_member() -> None:
    """One for leaving, one for joining, and one after each of them in which cooperative members release partitions."""
    often = HistoryThresholds(flapping_per_day=4)
    four = [[A, B], [A], [A], [A, B2], [A, B2]]
    assert [each.deploy_type for each in deploys(in_turn(*four), often)] == ["rolling-restart"]
    assert [each.deploy_type for each in deploys(in_turn(*four, [A, B2]), often)] == ["flapping"]
    eight = [*four, [B2], [B2], [A2, B2], [A2, B2]]
    assert [each.deploy_type for each in deploys(in_turn(*eight), often)] == ["rolling-restart"]
    assert [each.deploy_type for each in deploys(in_turn(*eight, [A2, B2]), often)] == ["flapping"]


@pytest.mark.parametrize(("hours", "flapping"), [(1.0, True), (3.0, False)])
def test_a_group_flaps_by_what_happens_in_24_hours(hours: float, flapping: bool) -> None:
    """A restart every hour is no deploy either, however few rebalances each takes."""
    timeline = flaps(12, int(hours * HOUR))
    assert is_flapping(timeline, deploys(timeline), THRESHOLDS) == flapping


@pytest.mark.parametrize(("session_timeout_ms", "flapping"), [(None, False), (45_000, True)])
def test_idle_epochs_make_no_group_flap(session_timeout_ms: int | None, flapping: bool) -> None:
    """A reassignment across racks bumps epochs; members of the classic protocol rejoin at each of them."""
    only = worker(0, 1, session_timeout_ms=session_timeout_ms)
    epochs = [generation(number, number * HOUR, [(only, [0, 1])]) for number in range(1, 13)]
    timeline = past(*epochs, group_type="consumer")
    assert is_flapping(timeline, deploys(timeline), THRESHOLDS) == flapping
    assert sum(timeline.is_idle) == (0 if flapping else 11)
    assert not any(past(*epochs).is_idle)
    moved = [*epochs, generation(13, 13 * HOUR, [(only, [0, 1, 2])]), generation(15, 14 * HOUR, [(only, [0, 1, 2])])]
    assert past(*moved, group_type="consumer").is_idle[-2:] == (False, False)


def test_a_deploy_counts_once() -> None:
    """Thirty members that restart one after the other do not flap."""
    old = [worker(number, 1) for number in range(30)]
    groups = [old]
    for number in range(30):
        rest = [each for each in groups[-1] if each is not old[number]]
        groups += [rest, [*rest, worker(number, 2)]]
    timeline = in_turn(*groups)
    deployed = deploys(timeline)
    assert [(each.deploy_type, each.rebalances) for each in deployed] == [("rolling-restart", 60)]
    assert not is_flapping(timeline, deployed, THRESHOLDS)


def test_the_worst_day() -> None:
    """24 hours from any moment on, its end left out."""
    day = 24 * HOUR
    assert count_max_per_day([]) == 0
    assert count_max_per_day([0, 1, day - 1, day, day + 1, day + 1]) == 4


def test_the_row_of_a_group() -> None:
    """At the end, and as a whole."""
    timeline = crash([A, B, C], [B, C], [A2, B, C])
    deployed = deploys(timeline)
    row = group_row(timeline, find_departures(timeline), find_pauses(timeline, THRESHOLDS), deployed, 2, THRESHOLDS)
    assert row == {
        **keyed(
            "group_type=classic protocol_type=consumer assignor=range state=Stable start_time=0 end_time=2_000_000"
        ),
        "records": row["records"],
        **keyed(
            "rebalances=3 idle_epochs=0 missing_generations=2 max_rebalances_per_day=3 members=3 "
            "partitions=3 deploys=1 crashes=1 paused_partition_ms=55_000 longest_pause_ms=55_000 "
            "flapping=False"
        ),
    }
    simple = past(commits={0: [1, 2]}, group_type="simple")
    row = group_row(simple, [], find_pauses(simple, THRESHOLDS), [], 0, THRESHOLDS)
    assert [row[name] for name in ("state", "assignor", "rebalances", "members", "partitions")] == [None, None, 0, 0, 0]


@pytest.mark.parametrize("turn", range(20))
def test_members_add_up(rng: random.Random, turn: int) -> None:
    """Before and joined less left is after, of each deploy; and no rebalance is in two."""
    lives = [0] * 5
    at, there, generations = 0, [], []
    for number in range(1, rng.randint(2, 30)):
        at += rng.choice([1_000, 20_000, 60_000, 400_000])
        for place in range(5):
            if rng.random() < 0.3:
                here = [each for each in there if each.client_id == f"w{place}"]
                there = [each for each in there if each not in here]
                if not here or rng.random() < 0.3:
                    lives[place] += 1
                    static = {"group_instance_id": f"i{place}"} if place == 4 else {}
                    there = [*there, worker(place, lives[place], **static)]
        generations.append(generation(number, at, [(each, [place]) for place, each in enumerate(there)]))
    timeline = past(*generations, commits={0: beats(0, at), 1: [x for x in beats(0, at) if rng.random() < 0.1]})
    found = deploys(timeline, HistoryThresholds(deploy_gap_ms=rng.choice([20_000, 100_000])))
    assert all(each.members_before + each.joined - each.left == each.members_after for each in found)
    assert all(min(each.joined, each.left, each.restarted) >= 0 for each in found)
    assert sum(each.rebalances for each in found) <= len(generations)


def test_a_member_that_returns_all_day_counts_once() -> None:
    """In linear time, however often; IDs that are each other's old ones count each."""
    back = [SimpleNamespace(member_id=str(n), new_member_id=str(n + 1)) for n in range(50_000)]
    start = time.process_time()
    assert _count_members_involved(SimpleNamespace(joined=[each.new_member_id for each in back], departures=back)) == 1  # type: ignore[arg-type]
    assert time.process_time() - start < 2
    circle = [SimpleNamespace(member_id=old, new_member_id=new) for old, new in ("ab", "ba", "bc")]
    assert _count_members_involved(SimpleNamespace(joined=[], departures=circle)) == 2  # type: ignore[arg-type]
