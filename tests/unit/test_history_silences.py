"""Gaps and pauses: by hand, and against every commit and every millisecond looked at one by one."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from itertools import accumulate, pairwise
from statistics import median
from typing import Any

import pyarrow as pa
import pytest

from spark_assign.history.kernel import pauses
from spark_assign.history.kernel.pauses import CommitPause, PauseSummary, find_nearby, find_pauses
from spark_assign.history.kernel.timeline import CommitInterval, HistoryThresholds, Timeline
from tests.cases import tuples
from tests.unit.history_pasts import generation, member, past

A, B = member("a"), member("b")


def all_pauses(timeline: Timeline) -> list[CommitPause]:
    """Returns the pauses of a group with the default thresholds."""
    return list(find_pauses(timeline, HistoryThresholds()).pauses)


def beats(since: int, until: int, every: int = 5_000) -> list[int]:
    """Commits at every interval."""
    return list(range(since, until + 1, every))


def test_a_crash_and_what_it_stopped() -> None:
    """The partition of the one that crashed is silent for its session, the other one is not."""
    timeline = past(
        generation(6, 0, [(A, [0]), (B, [1])]),
        generation(7, 246_000, [(A, [0, 1])]),
        commits={0: beats(0, 400_000), 1: beats(0, 200_000) + beats(250_000, 400_000)},
    )
    assert all_pauses(timeline) == [
        CommitPause(7, 200_000, 250_000, 1, 50_000, 50_000, generation_index=1, topics=("t",))
    ]
    assert find_pauses(timeline, HistoryThresholds()).around(0) == (0, 0)
    assert find_pauses(timeline, HistoryThresholds()).around(1) == (50_000, 50_000)


def test_a_gap_over_several_rebalances_is_divided() -> None:
    """Each rebalance has the gap until the next one. The longest pause of a partition is the sum."""
    generations = [generation(number, at, [(A, [0])]) for number, at in ((1, 0), (2, 110_000), (3, 118_000))]
    timeline = past(*generations, commits={0: beats(0, 100_000) + beats(125_000, 200_000)})
    summary = find_pauses(timeline, HistoryThresholds())
    assert summary.pauses == (
        CommitPause(2, 100_000, 118_000, 1, 18_000, 18_000, generation_index=1, topics=("t",)),
        CommitPause(3, 118_000, 125_000, 1, 7_000, 7_000, generation_index=2, topics=("t",)),
    )
    assert (summary.paused_partition_ms, summary.longest_pause_ms) == (25_000, 25_000)


def test_what_hung_long_before_is_without_a_generation() -> None:
    """An hour of silence, and then somebody restarts it."""
    timeline = past(
        generation(1, 0, [(A, [0])]),
        generation(2, 3_700_000, [(B, [0])]),
        commits={0: beats(0, 100_000) + beats(3_710_000, 3_800_000)},
    )
    assert all_pauses(timeline) == [
        CommitPause(None, 100_000, 3_700_000, 1, 3_600_000, 3_600_000, topics=("t",)),
        CommitPause(2, 3_700_000, 3_710_000, 1, 10_000, 10_000, generation_index=1, topics=("t",)),
    ]


@pytest.mark.parametrize(("earlier_ms", "around"), [(0, True), (1, False)])
def test_a_rebalance_can_pause_from_a_session_and_a_late_rejoin_before(earlier_ms: int, *, around: bool) -> None:
    """The session timeout of a member that crashed, and then the rebalance timeout, to the millisecond."""
    patient = member("a", session_timeout_ms=40_000, rebalance_timeout_ms=60_000)
    start = 1_000_000 - 40_000 - 60_000 - earlier_ms
    timeline = past(
        generation(1, 0, [(patient, [0])]),
        generation(2, 1_000_000, [(B, [0])]),
        commits={0: [*beats(0, start), start, *beats(1_010_000, 1_100_000)]},
    )
    assert all_pauses(timeline) == (
        [CommitPause(2, start, 1_010_000, 1, 110_000, 110_000, generation_index=1, topics=("t",))]
        if around
        else [
            CommitPause(None, start, 1_000_000, 1, 100_001, 100_001, topics=("t",)),
            CommitPause(2, 1_000_000, 1_010_000, 1, 10_000, 10_000, generation_index=1, topics=("t",)),
        ]
    )


def test_generations_count_in_the_order_of_their_times() -> None:
    """A coordinator that took over can have a clock that is behind: its records are later, and their times earlier."""
    generations = [generation(number, at, [(A, [0])]) for number, at in ((1, 0), (2, 118_000), (3, 105_000))]
    assert all_pauses(past(*generations, commits={0: beats(0, 100_000) + beats(125_000, 200_000)})) == [
        CommitPause(3, 100_000, 118_000, 1, 18_000, 18_000, generation_index=2, topics=("t",)),
        CommitPause(2, 118_000, 125_000, 1, 7_000, 7_000, generation_index=1, topics=("t",)),
    ]


def test_pauses_without_a_rebalance_are_united_where_they_overlap() -> None:
    """A broker is away for two partitions, and later one hangs."""
    timeline = past(
        generation(1, 0, [(A, [0, 1])]),
        commits={
            0: beats(1_000, 100_000) + beats(131_000, 400_000),
            1: beats(2_000, 112_000) + beats(142_000, 200_000) + beats(230_000, 400_000),
        },
    )
    assert all_pauses(timeline) == [
        CommitPause(None, 96_000, 142_000, 2, 65_000, 35_000, topics=("t",)),
        CommitPause(None, 197_000, 230_000, 1, 33_000, 33_000, topics=("t",)),
    ]


def offsets_of(commits: dict[int, list[tuple[int, int]]]) -> Timeline:
    """A group of one member, with the time and the offset of each commit of a partition of t."""
    member_of_all = generation(1, -1_000_000, [(A, list(commits))])
    timeline = past(member_of_all, commits={p: [at for at, _ in each] for p, each in commits.items()})
    offsets = {p: dict(each) for p, each in commits.items()}
    intervals = {
        (t, p): tuple(
            CommitInterval(*e[:3], *(offsets[p][at] for at in (e.start_ms, e.end_ms, e.next_offset))) for e in f
        )
        for (t, p), f in timeline.commits.items()
    }
    return replace(timeline, commits=intervals)


def steady(since: int, until: int, records: int, offset: int = 0, every: int = 5_000) -> list[tuple[int, int]]:
    """Commits at every interval, in each of which there are these records."""
    return [(at, offset + records * (index + 1)) for index, at in enumerate(beats(since, until, every))]


BUSY = steady(0, 900_000, 100)
"""A partition that is always committed."""
NOTHING_PRODUCED = steady(0, 300_000, 100) + steady(360_000, 900_000, 100, offset=6_100)
"""For a minute there is nothing to read. Then there is as much as always."""
STOPPED = steady(0, 300_000, 100) + steady(360_000, 900_000, 100, offset=7_200)
"""For a minute nothing is read. Then the first commit is of all that has waited."""
POLLED = steady(0, 300_000, 100) + steady(360_000, 900_000, 100, offset=6_500)
"""For a minute nothing is read. Then 500 records are read in the first poll."""
CATCHES_UP = [*steady(0, 300_000, 100), (360_000, 6_100), *steady(365_000, 900_000, 100, offset=7_300)]
"""For a minute nothing is read. Then a Java client commits the position that it had, and next, all that has waited."""
FULL_POLLS = steady(0, 300_000, 5_000) + steady(360_000, 900_000, 5_000, offset=305_000)
"""For a minute there is nothing to read. Then there is as much as always, more than a poll returns."""
ALWAYS_COMMITTED = [(at, 7) for at in beats(0, 300_000) + beats(360_000, 900_000)]
"""Of a client that commits its position again and again, of a topic without records."""


@pytest.mark.parametrize(
    ("commits", "idle"),
    [
        ({0: NOTHING_PRODUCED, 1: BUSY, 2: BUSY}, True),
        ({0: NOTHING_PRODUCED}, True),
        ({0: NOTHING_PRODUCED, 1: NOTHING_PRODUCED}, True),
        ({0: STOPPED, 1: BUSY, 2: BUSY}, False),
        ({0: POLLED, 1: BUSY, 2: BUSY}, False),
        ({0: FULL_POLLS, 1: BUSY, 2: BUSY}, True),
        ({0: STOPPED, 1: NOTHING_PRODUCED, 2: BUSY}, False),
        ({0: ALWAYS_COMMITTED, 1: ALWAYS_COMMITTED, 2: [(at, 7) for at in beats(0, 900_000)]}, False),
        ({0: ALWAYS_COMMITTED, 1: BUSY, 2: BUSY}, True),
        ({0: [(0, 5), (60_000, 6)]}, True),
        ({0: CATCHES_UP, 1: CATCHES_UP, 2: BUSY}, False),
        ({0: CATCHES_UP, 1: BUSY, 2: BUSY}, True),
    ],
    ids=[
        "one of three partitions has no records",
        "the only partition has none",
        "nor has any other",
        "one of three has records that wait",
        "a poll returns only some of those that wait",
        "one of three has no records, and then as many as always",
        "most stop, and records wait in one of them",
        "most stop, in a group that commits without records",
        "one stops, in a group that might commit without records",
        "two commits in all",
        "most stop, and catch up after their first commit",
        "one of three catches up after its first commit",
    ],
)
def test_it_is_idle_where_nothing_says_that_anything_stopped(
    commits: dict[int, list[tuple[int, int]]], *, idle: bool
) -> None:
    """A partition without commits is an outage only if records waited, or most partitions say so."""
    (pause,) = all_pauses(offsets_of(commits))
    assert (pause.generation_id, pause.start_ms % 300_000, pause.idle) == (None, 0, idle)


def test_idle_partitions_are_not_part_of_a_stop() -> None:
    """One partition has nothing to read for longer than another one stops."""
    quiet = steady(0, 250_000, 100) + steady(400_000, 900_000, 100, offset=5_100)
    assert [
        (each.start_ms, each.end_ms, each.partitions, each.idle)
        for each in all_pauses(offsets_of({0: quiet, 1: STOPPED, 2: BUSY, 3: BUSY, 4: BUSY}))
    ] == [(250_000, 400_000, 1, True), (300_000, 360_000, 1, False)]


def test_a_group_that_is_empty_for_longer_than_a_deploy_is_absent() -> None:
    """A batch of every night: what is not there does not stop."""
    day = 86_400_000
    timeline = past(
        generation(1, 0, [(A, [0])]),
        generation(2, 112_000, []),
        generation(3, day, [(B, [0])]),
        commits={0: beats(0, 100_000) + beats(day + 11_000, day + 100_000)},
    )
    assert [(e.generation_id, e.paused_partition_ms) for e in all_pauses(timeline)] == tuples("2 12_000; 3 11_000")
    short = past(
        generation(1, 0, [(A, [0])]),
        generation(2, 112_000, []),
        generation(3, 400_000, [(B, [0])]),
        commits={0: beats(0, 100_000) + beats(411_000, 500_000)},
    )
    assert [(each.generation_id, each.paused_partition_ms) for each in all_pauses(short)] == [(2, 300_000), (3, 11_000)]


def test_a_member_that_joins_and_leaves_in_one_millisecond_does_not_end_an_absence() -> None:
    """Two generations are written in the same millisecond, the first with a member and the second without."""
    timeline = past(
        generation(1, 0, [(A, [0])]),
        generation(2, 112_000, []),
        generation(3, 300_000, [(B, [0])]),
        generation(4, 300_000, []),
        generation(5, 500_000, [(B, [0])]),
        commits={0: beats(0, 100_000) + beats(511_000, 600_000)},
    )
    assert [(e.generation_id, e.paused_partition_ms) for e in all_pauses(timeline)] == tuples("2 12_000; 5 11_000")


def test_who_commits_once_a_minute_does_not_pause_every_minute() -> None:
    """A rebalance that keeps it from two of them does."""
    timeline = past(
        generation(1, 0, [(A, [0])]),
        generation(2, 610_000, [(B, [0])]),
        generation(3, 1_230_000, [(A, [0])]),
        commits={0: beats(0, 1_200_000, 60_000) + beats(1_330_000, 2_000_000, 60_000)},
    )
    assert all_pauses(timeline) == [
        CommitPause(3, 1_200_000, 1_330_000, 1, 130_000, 130_000, generation_index=2, topics=("t",))
    ]


def test_a_group_of_the_broker_pauses_until_it_has_settled() -> None:
    """What is given up is given up a heartbeat after the epoch."""
    timeline = past(
        generation(1, 0, [(A, [0, 1])]),
        generation(2, 100_000, [(A, [0]), (B, [1])], stable_ms=108_000),
        commits={0: beats(0, 200_000), 1: [*beats(0, 100_000), 104_000, *beats(116_000, 200_000)]},
        group_type="consumer",
    )
    assert all_pauses(timeline) == [
        CommitPause(2, 104_000, 116_000, 1, 12_000, 12_000, generation_index=1, topics=("t",))
    ]


def test_many_gaps_and_many_absences() -> None:
    """In linear time; a sum of pauses ends at the largest long."""
    times = list(accumulate([11_000, 11_000, 26_000] * 10_000))
    nights = [generation(at, 400_000 * at, [(A, [0])] if at % 2 else []) for at in range(8_000)]
    start = time.process_time()
    assert len(find_pauses(past(generation(1, 0, [(A, [0])]), commits={0: times}), HistoryThresholds()).pauses) > 9_000
    find_pauses(past(*nights, commits={0: [800_000 * at for at in range(4_000)]}), HistoryThresholds())
    assert time.process_time() - start < 3
    far = past(generation(1, 0, [(A, [0])]), commits={number: [0, 1 << 60] for number in range(9)})
    assert find_pauses(far, HistoryThresholds()).paused_partition_ms == (1 << 63) - 1


def test_many_gaps_at_one_time() -> None:
    """Each overlaps all others, and the times at which most partitions stop are as many."""
    commits = {number: [number, 1_000_000 + number] for number in range(8_000)}
    timeline = past(generation(1, -(10**9), [(A, [0])]), commits=commits)
    start = time.process_time()
    (found,) = find_pauses(timeline, HistoryThresholds()).pauses
    assert time.process_time() - start < 3
    assert (found.start_ms, found.end_ms, found.partitions, found.idle) == (0, 1_007_999, 8_000, True)


def test_groups_that_stop_near_each_other(rng: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """As each pause compared with each other one; thousands at one time in linear time."""
    names = ("cluster", "start", "end", "idle", "counts", "group_id", "topics")

    def nearby(rows: list[tuple[Any, ...]]) -> list[tuple[int, bool]]:
        table = pa.table({name: pa.array(each) for name, each in zip(names, zip(*rows, strict=True), strict=True)})
        (found,) = find_nearby(table)
        assert found.column_names == [*names[:-1], "groups", "several"]
        return list(zip(found["groups"].to_pylist(), found["several"].to_pylist(), strict=True))

    rows = [
        (
            *(rng.choice("xy"), rng.randrange(99), rng.randrange(99), rng.random() < 0.5),
            *(rng.choice((True, True, False)), rng.choice("abcd"), rng.choice((["t"], ["u"], ["t", "u"], []))),
        )
        for _ in range(150)
    ]
    expected = []
    for cluster, start, end, idle, _, group, topics in rows:
        near = [
            (each[5], each[6])
            for each in rows
            if each[0] == cluster and abs(each[1] - start) <= 30 and each[4] and (not idle or abs(each[2] - end) <= 30)
        ]
        several = any(other != group and not set(topics) & set(read) for other, read in near)
        expected.append((len({other for other, _ in near}), several))
    assert nearby(rows) == expected
    many = [("x", 0, number % 40, number % 2 == 0, True, f"g{number}", ["t", f"t{number}"]) for number in range(1_000)]
    begun = time.process_time()
    assert nearby(many)[1] == (1_000, False)
    assert time.process_time() - begun < 2
    monkeypatch.setattr(pauses, "_MAX_COMPARED", 999)
    assert nearby(many)[1] == (1_000, True)  # too many to compare: the cluster has stopped


def test_a_group_that_commits_nothing_has_no_figures() -> None:
    """Null is not 0."""
    summary = find_pauses(past(generation(1, 0, [(A, [0])])), HistoryThresholds())
    assert summary == PauseSummary((), None, None)
    assert summary.around(0) == (None, None)


# --- against all commits, one by one --------------------------------------------------------------------


@pytest.mark.parametrize("turn", range(25))
def test_pauses_are_those_of_every_millisecond(rng: random.Random, turn: int) -> None:
    """Every millisecond of every gap is somebody's, once."""
    thresholds = HistoryThresholds(commit_gap_ms=rng.randint(1, 5), deploy_gap_ms=rng.randint(1, 25))
    small = member("a", session_timeout_ms=rng.randint(1, 9), rebalance_timeout_ms=rng.randint(1, 9))
    generations = [
        generation(number, at, [(small, [0])] if rng.random() < 0.7 else [], stable_ms=at + rng.choice([0, 0, 3, 9]))
        for number, at in enumerate(sorted(rng.randint(0, 100) for _ in range(rng.randint(0, 8))))
    ]
    commits = {p: sorted(rng.choices(range(100), k=rng.randint(1, 40))) for p in range(rng.randint(1, 4))}
    timeline = past(*generations, commits=commits, gap=thresholds.commit_gap_ms)
    found = find_pauses(timeline, thresholds)
    expected = by_millisecond(timeline, commits, thresholds)
    assert {
        each.generation_index: (each.paused_partition_ms, each.partitions, each.start_ms, each.end_ms)
        for each in found.pauses
        if each.generation_index is not None
    } == {place: each for place, each in expected.items() if place is not None}
    free = [each for each in found.pauses if each.generation_index is None]
    assert sum(each.paused_partition_ms for each in free) == (expected[None][0] if None in expected else 0)
    for idle in (False, True):
        assert all(a.end_ms <= b.start_ms for a, b in pairwise(each for each in free if each.idle == idle))


def by_millisecond(
    timeline: Timeline, commits: dict[int, list[int]], thresholds: HistoryThresholds
) -> dict[int | None, tuple[int, int, int, int]]:
    """Whose each millisecond [t, t + 1) of silence is, and how many, of how many partitions, from when to when."""
    generations = timeline.generations

    def touching(span: tuple[int, int]) -> list[int]:
        gap_ms = thresholds.commit_gap_ms
        return [i for i, g in enumerate(generations) if g.at_ms <= span[1] and g.stable_ms + gap_ms >= span[0]]

    empty = [not generations[last].members if (last := newest(timeline, t)) is not None else False for t in range(101)]
    absent = [False] * 101
    for t in range(101):
        run = [s for s in range(101) if all(empty[min(s, t) : max(s, t) + 1])]
        absent[t] = empty[t] and until_of(empty, t, timeline.last_ms) - run[0] > thresholds.deploy_gap_ms
    silent_ms: dict[int | None, list[tuple[int, int]]] = {}
    for partition, times in commits.items():
        gaps = [(a, b) for a, b in pairwise(times) if b - a > thresholds.commit_gap_ms]
        touch = {gap: touching(gap) for gap in gaps}
        free = [b - a for a, b in gaps if not touch[a, b]]
        silent = sum(b - a for a, b in gaps) - sum(free)
        usual = median(free) if len(free) >= 2 and 4 * sum(free) > times[-1] - times[0] - silent else 0
        for a, b in gaps:
            if b - a <= 2 * usual:
                continue
            for start, end in runs([t for t in range(a, b) if not absent[t]]):
                near = touching((start, end))
                for t in range(start, end):
                    silent_ms.setdefault(pausing_rebalance(timeline, near, start, t), []).append((t, partition))
    return {
        place: (len(each), len({p for _, p in each}), min(t for t, _ in each), max(t for t, _ in each) + 1)
        for place, each in silent_ms.items()
    }


def newest(timeline: Timeline, t: int) -> int | None:
    """The last generation that has begun."""
    return max((i for i, each in enumerate(timeline.generations) if each.at_ms <= t), default=None)


def until_of(empty: list[bool], t: int, end: int) -> int:
    """Until when a group that is empty now is so."""
    following = [s for s in range(t, 101) if not empty[s]]
    return following[0] if following else end


def pausing_rebalance(timeline: Timeline, near: list[int], start: int, t: int) -> int | None:
    """The newest of the rebalances a gap touches; before the first of them its, if that may have begun by then."""
    begun = [i for i in near if timeline.generations[i].at_ms <= t]
    if begun:
        return max(begun)
    if not near:
        return None
    first = near[0]
    before = timeline.generations[first - 1].members if first else ()
    session = max((each.session_timeout_ms or 0 for each in before), default=45_000)
    rejoin = max((each.rebalance_timeout_ms or 0 for each in before), default=300_000)
    return first if start >= timeline.generations[first].at_ms - session - rejoin else None


def runs(moments: list[int]) -> list[tuple[int, int]]:
    """Milliseconds in a row."""
    found: list[tuple[int, int]] = []
    for t in moments:
        if found and found[-1][1] == t:
            found[-1] = found[-1][0], t + 1
        else:
            found.append((t, t + 1))
    return found
