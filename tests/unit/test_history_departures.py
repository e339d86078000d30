"""How members went: by what their silence proves, and who came back."""

from __future__ import annotations

import time

import pytest

from spark_assign.history.kernel.departures import Departure, find_departures
from spark_assign.history.kernel.timeline import HistoryThresholds, RecordedMember
from tests.unit.history_pasts import SESSION, generation, member, past

A, B, C = (member(name) for name in "abc")
BEAT = 5_000


def beats(since: int, until: int, every: int = BEAT) -> list[int]:
    """Commits at every interval."""
    return list(range(since, until + 1, every))


def story(
    silent_since: int,
    gone_at: int,
    who: RecordedMember = B,
    then: list[tuple[RecordedMember, list[int]]] | None = None,
    **timeline: object,
) -> list[Departure]:
    """A and somebody are there from 0 on; one falls silent, and is gone later; A goes on."""
    first = generation(1, 0, [(A, [0]), (who, [1])])
    second = generation(2, gone_at, then or [(A, [0, 1])])
    commits = {
        0: beats(1_000, gone_at + 60_000),
        1: beats(2_000, silent_since) + beats(gone_at + 4_000, gone_at + 60_000),
    }
    return find_departures(past(first, second, commits=commits, **timeline))  # type: ignore[arg-type]


def test_who_committed_just_before_has_left() -> None:
    """Its session cannot have timed out."""
    assert story(200_000, 203_000) == [Departure("b", 2, "left", "likely")]


def test_who_was_silent_for_a_session_has_crashed() -> None:
    """It used to commit, and the others went on."""
    assert story(200_000, 248_000) == [Departure("b", 2, "crashed", "likely")]


def test_the_edge_is_the_session_timeout() -> None:
    """A commit is a heartbeat: a millisecond less, and the session still ran."""
    last = 197_000
    assert [story(last, last + SESSION + by)[0].leave_type for by in (-1, 0)] == ["left", "crashed"]


def test_who_has_just_joined_has_left() -> None:
    """Its session began with the generation before, whatever is committed."""
    timeline = past(generation(1, 0, [(A, [0]), (B, [1])]), generation(2, 44_999, [(A, [0, 1])]))
    assert find_departures(timeline) == [Departure("b", 2, "left", "likely")]


def test_without_commits_nobody_knows() -> None:
    """Nothing is proven by nothing."""
    timeline = past(generation(1, 0, [(A, [0]), (B, [1])]), generation(2, 90_000, [(A, [0, 1])]))
    assert find_departures(timeline) == [Departure("b", 2, "unknown", "guess")]


def test_an_idle_partition_tells_nothing() -> None:
    """Committed once a minute, a silence of 50 s is nothing."""
    first, second = generation(1, 0, [(A, [0]), (B, [1])]), generation(2, 290_000, [(A, [0, 1])])
    timeline = past(first, second, commits={0: beats(0, 400_000), 1: beats(0, 240_000, 60_000)})
    assert find_departures(timeline) == [Departure("b", 2, "unknown", "guess")]


@pytest.mark.parametrize(
    ("every", "leave_type", "confidence"), [(22_500, "crashed", "likely"), (22_501, "unknown", "guess")]
)
def test_a_member_that_commits_twice_per_session_is_missed(every: int, leave_type: str, confidence: str) -> None:
    """Also if its commits are so far apart that each of them is an interval of its own."""
    gone_at = 8 * every + 48_000
    first, second = generation(1, 0, [(A, [0]), (B, [1])]), generation(2, gone_at, [(A, [0, 1])])
    timeline = past(first, second, commits={0: beats(0, gone_at + 60_000), 1: beats(0, 8 * every, every)})
    assert find_departures(timeline) == [Departure("b", 2, leave_type, confidence)]


def test_the_arrival_of_a_member_is_not_its_return() -> None:
    """A crash can be recorded sooner after the arrival than the longest time by which a return precedes it."""
    crashed = member("b", session_timeout_ms=None)
    timeline = past(
        generation(1, 0, [(A, [0, 1])]),
        generation(2, 200_000, [(A, [0]), (crashed, [1])]),
        generation(3, 243_000, [(A, [0, 1])]),
        commits={
            0: beats(0, 300_000),
            1: [*beats(0, 195_000), *beats(200_500, 201_500, 500), *beats(247_000, 300_000)],
        },
        group_type="consumer",
    )
    assert find_departures(timeline) == [Departure("b", 3, "crashed", "likely")]


@pytest.mark.parametrize(("poll_ms", "leave_type"), [(45_000, "crashed"), (45_001, "left")])
def test_a_poll_timeout_that_is_no_longer_than_the_session_explains_no_silence(poll_ms: int, leave_type: str) -> None:
    """The session would have timed out as well."""
    slow = member("b", rebalance_timeout_ms=poll_ms)
    assert story(200_000, 260_000, slow) == [Departure("b", 2, leave_type, "likely")]


def test_who_did_not_poll_has_left_by_itself() -> None:
    """Silent for max.poll.interval.ms while its session did not time out: the client says that it leaves."""
    assert story(200_000, 502_000) == [Departure("b", 2, "left", "likely")]


def test_a_long_rebalance_silences_all() -> None:
    """Those who stayed were as silent: the silence is not its own."""
    first, second = generation(1, 0, [(A, [0]), (B, [1])]), generation(2, 260_000, [(A, [0, 1])])
    commits = {0: [*beats(0, 200_000), 262_000], 1: [*beats(0, 200_000), 262_000]}
    assert find_departures(past(first, second, commits=commits)) == [Departure("b", 2, "crashed", "guess")]


@pytest.mark.parametrize(
    ("others_ms", "own_ms", "confidence"),
    [(25_500, 22_500, "likely"), (25_501, 22_499, "guess"), (0, 67_500, "likely"), (0, 67_501, "guess")],
)
def test_a_crash_is_likely_if_the_silence_is_about_a_session(others_ms: int, own_ms: int, confidence: str) -> None:
    """From a half to one and a half, without the time for which the others were silent as well."""
    gone_at = 200_000 + others_ms + own_ms
    last = gone_at - others_ms
    first, second = generation(1, 0, [(A, [0]), (B, [1])]), generation(2, gone_at, [(A, [0, 1])])
    commits = {0: [*beats(0, last), last, gone_at + 20_000], 1: [*beats(0, 200_000), gone_at + 20_000]}
    assert find_departures(past(first, second, commits=commits)) == [Departure("b", 2, "crashed", confidence)]


def test_the_last_one_that_leaves_is_sure() -> None:
    """Nobody else is there whom it could have kept waiting."""
    timeline = past(generation(1, 0, [(A, [0])]), generation(2, 90_000, []), commits={0: beats(0, 90_000)})
    assert find_departures(timeline) == [Departure("a", 2, "left", "sure")]


def test_missing_generations_make_it_a_guess() -> None:
    """It may have gone in any of them."""
    first, fourth = generation(1, 0, [(A, [0]), (B, [1])]), generation(4, 250_000, [(A, [0, 1])])
    timeline = past(first, fourth, commits={0: beats(0, 300_000), 1: beats(0, 200_000)})
    assert find_departures(timeline) == [Departure("b", 4, "crashed", "guess")]


def test_a_static_member_is_replaced_in_its_place() -> None:
    """The same instance id under a new member id: the record says it; the number of the generation may stay."""
    old, new = member("b-1", group_instance_id="b"), member("b-2", group_instance_id="b")
    for number in (1, 2):
        timeline = past(generation(1, 0, [(A, [0]), (old, [1])]), generation(number, 100_000, [(A, [0]), (new, [1])]))
        assert find_departures(timeline) == [Departure("b-1", number, "restarted", "sure", "b-2")]


def test_a_static_member_that_is_gone_has_timed_out() -> None:
    """It never says that it leaves."""
    static = member("b", group_instance_id="b")
    assert story(200_000, 248_000, static) == [Departure("b", 2, "crashed", "sure")]
    timeline = past(generation(1, 0, [(A, [0]), (static, [1])]), generation(2, 90_000, [(A, [0, 1])]))
    assert find_departures(timeline) == [Departure("b", 2, "crashed", "likely")]


def test_a_static_member_taken_out_has_left() -> None:
    """By an administrator, or by KIP-1092: its session still ran."""
    assert story(200_000, 203_000, member("b", group_instance_id="b")) == [Departure("b", 2, "left", "likely")]


@pytest.mark.parametrize(
    ("host", "client", "confidence"),
    [("/10.0.0.9", "worker", "likely"), ("/10.0.0.10", "worker", "likely"), ("/10.0.0.10", "shared", "guess")],
)
def test_a_dynamic_member_comes_back_under_another_id(host: str, client: str, confidence: str) -> None:
    """The same client on the same host; with another address if the client id is its own, or as a guess if not."""
    other_members = member("a", client_id="shared")
    old = member("b-1", client_id=client, client_host="/10.0.0.9")
    new = member("b-2", client_id=client, client_host=host)
    timeline = past(
        generation(1, 0, [(other_members, [0]), (old, [1])]),
        generation(2, 100_000, [(other_members, [0, 1])]),
        generation(3, 130_000, [(other_members, [0]), (new, [1])]),
        commits={0: beats(0, 200_000), 1: beats(0, 200_000)},
    )
    assert find_departures(timeline) == [Departure("b-1", 2, "restarted", confidence, "b-2")]
    assert find_departures(timeline, HistoryThresholds(deploy_gap_ms=29_999)) == [Departure("b-1", 2, "left", "likely")]


def test_a_crash_remains_one_when_it_is_back() -> None:
    """A member that was silent for a session did not shut down. Its replacement is reported all the same."""
    new = member("b-2", client_id=B.client_id, client_host=B.client_host)
    assert story(200_000, 248_000, then=[(A, [0]), (new, [1])]) == [Departure("b", 2, "crashed", "likely", "b-2")]


def test_a_newcomer_is_one_of_those_that_went() -> None:
    """Three threads of one host with one client id; two come back."""
    threads = [member(name, client_id="app", client_host="/h") for name in ("x", "y", "z")]
    new = [member(name, client_id="app", client_host="/h") for name in ("p", "q")]
    timeline = past(
        generation(1, 0, [(each, [number]) for number, each in enumerate(threads)]),
        generation(2, 1_000, []),
        generation(3, 9_000, [(each, [number]) for number, each in enumerate(new)]),
    )
    assert find_departures(timeline) == [
        Departure("x", 2, "restarted", "likely", "p"),
        Departure("y", 2, "restarted", "likely", "q"),
        Departure("z", 2, "left", "likely"),
    ]


def test_a_consumer_group_by_the_brokers_session() -> None:
    """Not on record: 45 s, and the last heartbeat may be 5 s older than the last commit."""
    unknown = member("b", session_timeout_ms=None)
    timeline = [story(197_000, 197_000 + silent, unknown, group_type="consumer") for silent in (39_999, 40_000)]
    assert [(each.leave_type, each.confidence) for (each,) in timeline] == [("left", "guess"), ("crashed", "likely")]
    assert story(197_000, 201_000, unknown, group_type="consumer") == [Departure("b", 2, "left", "likely")]


def test_the_session_timeout_of_the_broker_can_be_set() -> None:
    """Where it is configured to another one."""
    old = member("b", session_timeout_ms=None)
    first, second = generation(1, 0, [(A, [0]), (old, [1])]), generation(2, 208_000, [(A, [0, 1])])
    commits = {0: beats(0, 300_000, 1_000), 1: beats(0, 200_000, 1_000)}
    timeline = past(first, second, commits=commits, group_type="consumer")
    sessions = (12_000, 15_000, 45_000)
    found = [find_departures(timeline, HistoryThresholds(session_timeout_ms=each))[0].leave_type for each in sessions]
    assert found == ["crashed", "left", "left"]


def test_the_newcomer_of_a_crash_may_be_there_before() -> None:
    """A consumer group takes it in at once, while the session of the old one still runs."""
    old = member("b-1", client_id="w", client_host="/h", session_timeout_ms=None)
    new = member("b-2", client_id="w", client_host="/h", session_timeout_ms=None)
    timeline = past(
        generation(1, 0, [(A, [0]), (old, [1])]),
        generation(2, 210_000, [(A, [0]), (old, [1]), (new, [])]),
        generation(3, 246_000, [(A, [0]), (new, [1])]),
        commits={0: beats(0, 300_000), 1: beats(0, 200_000) + beats(247_000, 300_000)},
        group_type="consumer",
    )
    assert find_departures(timeline) == [Departure("b-1", 3, "crashed", "likely", "b-2")]


def test_who_is_there_has_not_departed() -> None:
    """Nor has anybody in the first generation on record."""
    assert find_departures(past(generation(5, 0, [(A, [0])]), generation(6, 9, [(A, [0]), (C, [1])]))) == []


def test_many_members_of_one_client_id() -> None:
    """Each looks at the others that return, but not at all members for each of them."""
    old, new = ([member(f"{name}{n}", client_id="app", client_host=f"/{name}{n}") for n in range(600)] for name in "hk")
    generations = [generation(1, 0, [(each, [number]) for number, each in enumerate(old)]), generation(2, 1_000, [])]
    timeline = past(*generations, generation(3, 9_000, [(each, [number]) for number, each in enumerate(new)]))
    start = time.process_time()
    assert {each.new_member_id for each in find_departures(timeline)} == {each.member_id for each in new}
    assert time.process_time() - start < 4
    again = [
        generation(n, 3_000 * n, [(member("a", session_timeout_ms=None), range(50))] if n % 2 else [])
        for n in range(4_000)
    ]
    timeline = past(*again, commits={number: [0, 12_000_000] for number in range(50)}, group_type="consumer")
    assert len(find_departures(timeline)) == 1_999
    assert time.process_time() - start < 8


def test_many_generations_at_one_time() -> None:
    """A member that returns thousands of times at once, and static members that none of as many others can be."""
    again = [generation(n, 1_000, [(A, [0])] if n % 2 else []) for n in range(16_000)]
    start = time.process_time()
    assert {each.new_member_id for each in find_departures(past(*again))} == {"a"}
    old, new = (
        [member(f"{name}{n}", group_instance_id=f"{name}{n}", client_id="app") for n in range(4_000)] for name in "hk"
    )
    timeline = past(*(generation(n, 9_000, [(each, []) for each in members]) for n, members in enumerate((old, new))))
    assert {each.new_member_id for each in find_departures(timeline)} == {None}
    assert time.process_time() - start < 3
