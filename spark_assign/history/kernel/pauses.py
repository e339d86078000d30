"""When nothing was committed: the rhythm of partitions, its gaps, and the pauses of a group.

A gap is the time between two commits of a partition that are further apart than the threshold
(`HistoryThresholds.gap_ms`). Facts have intervals, within which no two commits are, so gaps are exact, and shorter
silences are not seen at all: a rebalance that kept nobody from committing for longer than the threshold stopped
nothing.

A pause is made of the gaps of a group's partitions:
    around a rebalance  gaps that touch it: from its record on until a heartbeat (5 s) after everybody had settled. A
                        gap that goes on over several rebalances is divided among them: each has it until the next one
                        begins, and the first one what was before, so that nothing is counted twice. What began longer
                        before than a crash and a rebalance can take (the session and the rebalance timeout of the
                        members before) was there anyway, and is a pause without a generation up to that rebalance.
    without one         the other gaps, united where they overlap: consumers that hang, a broker that is away, or
                        nothing to read for those who commit only what they have read.

Two things are no pauses:
    absence             nobody was a member for longer than rebalances of one deploy are apart
    (`HistoryThresholds.together_ms`): a
                        batch that runs at night does not stop by day. The rest of such a gap counts.
    habit               a partition that is silent for more than a quarter of its time, again and again and without a
                        rebalance, is so by nature: its group commits once a minute, or there is nothing to read at
                        night. Its gaps count only if they are longer than two of its usual ones (their median).

Example: t0 is committed every 5 s up to 12:00:00 and from 12:00:50 on, and generation 7 is written at 12:00:46. Its
pause is 50 s long, of one partition: 50,000 partition-milliseconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from statistics import median

from spark_assign.history.kernel.commit_columns import silent
from spark_assign.history.kernel.departures import HEARTBEAT_MS
from spark_assign.history.kernel.thresholds import HistoryThresholds
from spark_assign.history.kernel.timeline import CommitInterval, Timeline

REBALANCE_MS = 300_000
"""The rebalance timeout of Java clients by default (max.poll.interval.ms), where the record has none."""

HABIT = 2
"""Fewer gaps without a rebalance are no habit."""

Partition = tuple[str, int]
Span = tuple[int, int]


@dataclass(frozen=True)
class CommitPause:
    """Partitions were not committed.

    Attributes:
        generation: around this one; null: without a rebalance.
        place: of that generation in the timeline: the number alone stays when a static member is replaced.
        from_ms, until_ms: from the first silence to the last.
        partitions: how many of them.
        stopped_ms: partition-milliseconds.
        longest_ms: of one partition.
    """

    generation: int | None
    from_ms: int
    until_ms: int
    partitions: int
    stopped_ms: int
    longest_ms: int
    place: int | None = None


@dataclass(frozen=True)
class PauseSummary:
    """All pauses of a group, by their begin.

    Attributes:
        longest_ms: the longest that one partition stopped around rebalances, also over several of them; null, as
            `stopped_ms`, of groups that commit nothing.
        stopped_ms: partition-milliseconds around rebalances.
    """

    pauses: tuple[CommitPause, ...]
    stopped_ms: int | None
    longest_ms: int | None

    def around(self, place: int) -> tuple[int | None, int | None]:
        """Partition-milliseconds and the longest stop around the generation at a place of the timeline."""
        if self.stopped_ms is None:
            return None, None
        found = self._by_place.get(place)
        return (0, 0) if found is None else (found.stopped_ms, found.longest_ms)

    @cached_property
    def _by_place(self) -> dict[int | None, CommitPause]:
        return {each.place: each for each in self.pauses}


def pauses(timeline: Timeline, asked: HistoryThresholds) -> list[CommitPause]:
    """All pauses of a group, by their begin."""
    return list(stops(timeline, asked).pauses)


def stops(timeline: Timeline, asked: HistoryThresholds) -> PauseSummary:
    """All pauses of a group, and what its rebalances stopped."""
    if not timeline.commits:
        return PauseSummary((), None, None)
    rebalances, absences = _Rebalances(timeline, asked), _absences(timeline, asked)
    around: dict[int, dict[Partition, list[Span]]] = defaultdict(lambda: defaultdict(list))
    free: list[tuple[Span, Partition]] = []
    longest = 0
    for partition, commit_intervals in silent(timeline.commits):
        for gap in _beyond_habit(commit_intervals, rebalances):
            for part in _without(gap, absences):
                stopped = 0
                for place, piece in rebalances.divide(part):
                    if place is None:
                        free.append((piece, partition))
                    else:
                        around[place][partition].append(piece)
                        stopped += piece[1] - piece[0]
                longest = max(longest, stopped)
    found = [_around(timeline, place, pieces) for place, pieces in around.items()] + _united(free)
    told = sorted(found, key=lambda each: (each.from_ms, each.until_ms, -1 if each.place is None else each.place))
    return PauseSummary(tuple(told), sum(each.stopped_ms for each in told if each.place is not None), longest)


def _gaps(commit_intervals: Sequence[CommitInterval]) -> list[Span]:
    return [(before.until_ms, after.from_ms) for before, after in pairwise(commit_intervals)]


def _beyond_habit(commit_intervals: Sequence[CommitInterval], rebalances: _Rebalances) -> list[Span]:
    """The gaps of a partition that are not what it always does."""
    gaps = _gaps(commit_intervals)
    free = [until - since for since, until in gaps if not rebalances.touched_by((since, until))]
    touched = sum(until - since for since, until in gaps) - sum(free)
    settled = commit_intervals[-1].until_ms - commit_intervals[0].from_ms - touched
    usual = median(free) if len(free) >= HABIT and 4 * sum(free) > settled else 0
    return [(since, until) for since, until in gaps if until - since > 2 * usual]


def _absences(timeline: Timeline, asked: HistoryThresholds) -> list[Span]:
    """From when to when nobody was a member, where that was longer than a deploy."""
    found: list[Span] = []
    since = None
    for each in timeline.generations:
        if each.members and since is not None:
            found.append((since, each.at_ms))
            since = None
        elif not each.members and since is None:
            # Members that were there for no millisecond do not end an absence.
            since = found.pop()[0] if found and found[-1][1] == each.at_ms else each.at_ms
    if since is not None:
        found.append((since, max(since, timeline.last_ms)))
    return [(since, until) for since, until in found if until - since > asked.together_ms]


def _without(gap: Span, absences: Sequence[Span]) -> list[Span]:
    """What is left of a gap without these times."""
    left, since = [], gap[0]
    for begin, end in absences:
        if end <= since or begin >= gap[1]:
            continue
        left.append((since, begin))
        since = end
    left.append((since, gap[1]))
    return [part for part in left if part[1] > part[0]]


class _Rebalances:
    """The generations of a group in the order of time: from when to when each lasted, and how early it may begin."""

    def __init__(self, timeline: Timeline, asked: HistoryThresholds) -> None:
        told = timeline.generations
        self.places = sorted(range(len(told)), key=lambda place: told[place].at_ms)
        self.at = [told[place].at_ms for place in self.places]
        # Cooperative members, and those of the broker, give up what they lose a moment later.
        grace = min(asked.gap_ms, HEARTBEAT_MS)
        settled = [told[place].settled_ms for place in self.places]
        self.ends = [max(at, end or at) + grace for at, end in zip(self.at, settled, strict=True)]
        self.latest = list(accumulate(self.ends, max))
        self.early = [_early(timeline, place, asked) for place in self.places]

    def touched_by(self, span: Span) -> list[int]:
        """The rebalances that a span touches, by their numbers in the order of time."""
        number = bisect_right(self.at, span[1]) - 1
        found = []
        while number >= 0 and self.latest[number] >= span[0]:
            if self.ends[number] >= span[0]:
                found.append(number)
            number -= 1
        return found[::-1]

    def divide(self, part: Span) -> list[tuple[int | None, Span]]:
        """Whose the pieces of a gap are: places of generations; null: nobody's."""
        touched = self.touched_by(part)
        if not touched:
            return [(None, part)]
        since, until = part
        pieces: list[tuple[int | None, Span]] = []
        first = touched[0]
        if since < self.at[first] - self.early[first]:
            pieces.append((None, (since, self.at[first])))
            since = self.at[first]
        begins = [since, *(max(since, self.at[number]) for number in touched[1:]), until]
        for number, piece in zip(touched, pairwise(begins), strict=True):
            pieces.append((self.places[number], piece))
        return [(place, piece) for place, piece in pieces if piece[1] > piece[0]]


def _early(timeline: Timeline, place: int, asked: HistoryThresholds) -> int:
    """How long before its record a rebalance may have been felt: a session times out, and somebody rejoins late."""
    members = timeline.generations[place - 1].members if place else ()
    session = max((each.session_timeout_ms or asked.session_ms for each in members), default=asked.session_ms)
    rejoin = max((each.rebalance_timeout_ms or REBALANCE_MS for each in members), default=REBALANCE_MS)
    return session + rejoin


def _around(timeline: Timeline, place: int, pieces: dict[Partition, list[Span]]) -> CommitPause:
    spans = [span for each in pieces.values() for span in each]
    return _pause(timeline.generations[place].number, spans, len(pieces), place)


def _united(free: Iterable[tuple[Span, Partition]]) -> list[CommitPause]:
    """Gaps without a rebalance, united where they overlap."""
    told: list[CommitPause] = []
    spans: list[Span] = []
    partitions: set[Partition] = set()
    until = 0
    for span, partition in sorted(free):
        if spans and span[0] >= until:
            told.append(_pause(None, spans, len(partitions), None))
            spans, partitions = [], set()
        until = max(until, span[1]) if spans else span[1]
        spans.append(span)
        partitions.add(partition)
    return [*told, _pause(None, spans, len(partitions), None)] if spans else told


def _pause(generation: int | None, spans: Sequence[Span], partitions: int, place: int | None) -> CommitPause:
    lengths = [until - since for since, until in spans]
    begin, end = min(since for since, _ in spans), max(until for _, until in spans)
    return CommitPause(generation, begin, end, partitions, sum(lengths), max(lengths), place)
