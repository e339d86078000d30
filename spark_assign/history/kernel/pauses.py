"""Finds the pauses of a group: times without commits, around rebalances and without one.

A gap is the time between two commits of a partition that are further apart than the threshold
(`HistoryThresholds.commit_gap_ms`). Facts have intervals, within which no two commits are that far apart, so gaps are
exact, and shorter silences are invisible: a rebalance that kept no member from committing for longer than the threshold
paused nothing.

A pause consists of gaps of a group's partitions:
    around a rebalance     gaps that touch it, from its record until a heartbeat (5 s) after all members were stable. A
                           gap over several rebalances is divided among them: each has the time until the next one
                           starts, and the first one also the time before, so nothing is counted twice. A gap that
                           started longer before than a crash and a rebalance can take (the session and the rebalance
                           timeout of the members before) has another cause: up to that rebalance, it is a pause without
                           a generation.
    without a rebalance    all other gaps, merged if they overlap: consumers that hang, or an unavailable broker. Idle
                           gaps are merged on their own: no evidence says that anything stopped, and many clients commit
                           nothing if nothing was produced.

A gap without a rebalance isn't idle if one of these is true:
    records waited         the partition would usually have been committed four times, and the first commit after the
                           gap advances by at least half of what is usual in that time, or by a full poll and twice as
                           much as a commit usually does.
    most stopped           more than half of the partitions that the group commits at that time have no commits at the
                           same moment, and records waited in one of them, or the group is known to commit without new
                           records, or it catches up: soon after the gap (`CommitInterval.next_offset`), the partitions
                           together advance by half of what is usual in the gap, beyond what is usual in that time. The
                           Java client first commits the positions that it had before the gap.

Two kinds of gaps are no pauses:
    absence                times without members that are longer than the time between two rebalances of one deploy
                           (`HistoryThresholds.deploy_gap_ms`): a nightly batch doesn't pause during the day. Other
                           times of such a gap count.
    habit                  the usual gaps of a partition that has no commits for more than a quarter of its time,
                           repeatedly and without a rebalance: its group commits once a minute, or there is nothing to
                           read at night. Its gaps count only if they are longer than twice their median.

Example: t0 is committed every 5 s up to 12:00:00 and from 12:00:50 on, and generation 7 is written at 12:00:46. Its
pause is 50 s of one partition: 50,000 partition-milliseconds.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby, pairwise
from operator import attrgetter
from statistics import median
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from spark_assign.history.kernel.commit_intervals import TopicPartition, partitions_with_gaps
from spark_assign.history.kernel.departures import HEARTBEAT_MS
from spark_assign.history.kernel.timeline import CommitInterval, HistoryThresholds, HistoryTooLargeError, Timeline
from spark_assign.numeric.arrays import values_by_key

REBALANCE_MS = 300_000
"""Default rebalance timeout of Java clients (max.poll.interval.ms), if the record has none."""

MIN_REGULAR_GAPS = 2
"""Smallest number of gaps without a rebalance that make a habit."""

MAX_POLL_RECORDS = 500
"""Default of Java's max.poll.records. The first commit after a gap might advance by no more, although more wait."""

_MAX_LONG = (1 << 63) - 1
_MAX_TOUCHED = 100_000_000
"""Maximum number of rebalances that all gaps of a group touch together."""

Span = tuple[int, int]
"""Start and end of a time, in milliseconds since 1970."""

_Commits = Mapping[TopicPartition, tuple[CommitInterval, ...]]
"""The intervals of each partition, in order of time."""


@dataclass(frozen=True)
class CommitPause:
    """A time in which partitions weren't committed.

    Attributes:
        generation_id: the generation around which the pause is; None without a rebalance.
        start_ms: start of the first gap.
        end_ms: end of the last gap.
        partitions: number of paused partitions.
        paused_partition_ms: partition-milliseconds.
        longest_pause_ms: longest gap of one partition.
        generation_index: index of the generation in the timeline. The id alone isn't unique: it remains when a static
            member is replaced.
        idle: whether the pause has no generation, and no evidence that anything stopped.
        topics: topics of the partitions, sorted.
    """

    generation_id: int | None
    start_ms: int
    end_ms: int
    partitions: int
    paused_partition_ms: int
    longest_pause_ms: int
    generation_index: int | None = None
    idle: bool = False
    topics: tuple[str, ...] = ()


@dataclass(frozen=True)
class PauseSummary:
    """All pauses of a group.

    Attributes:
        pauses: sorted by start.
        paused_partition_ms: partition-milliseconds around rebalances; None if the group commits nothing.
        longest_pause_ms: longest pause of one partition around rebalances, possibly over several of them; None if the
            group commits nothing.
    """

    pauses: tuple[CommitPause, ...]
    paused_partition_ms: int | None
    longest_pause_ms: int | None

    def around(self, generation_index: int) -> tuple[int | None, int | None]:
        """Returns partition-milliseconds and the longest pause of a partition around a generation."""
        if self.paused_partition_ms is None:
            return None, None
        pause = self._by_generation_index.get(generation_index)
        return (0, 0) if pause is None else (pause.paused_partition_ms, pause.longest_pause_ms)

    def sum_around(self, generation_indexes: Iterable[int]) -> int | None:
        """Returns partition-milliseconds around several generations."""
        if self.paused_partition_ms is None:
            return None
        return min(sum(self.around(index)[0] or 0 for index in generation_indexes), _MAX_LONG)

    @cached_property
    def _by_generation_index(self) -> dict[int | None, CommitPause]:
        return {pause.generation_index: pause for pause in self.pauses}


def find_pauses(timeline: Timeline, thresholds: HistoryThresholds) -> PauseSummary:
    """Returns all pauses of a group. Raises HistoryTooLargeError."""
    if not timeline.commits:
        return PauseSummary((), None, None)
    rebalances, absences = _Rebalances(timeline, thresholds), sorted(_find_absences(timeline, thresholds))
    absence_ends = list(accumulate((end for _, end in absences), max))
    rebalance_spans: dict[int, _Spans] = defaultdict(_Spans)
    unrelated: list[_UnrelatedGap] = []
    longest = 0
    for partition, intervals in partitions_with_gaps(timeline.commits):
        num_commits = sum(interval.commits for interval in intervals)
        for gap in _irregular_gaps(intervals, rebalances):
            for present in _subtract(gap, absences, absence_ends):
                paused = 0
                for generation_index, span in rebalances.divide(present):
                    if generation_index is None:
                        unrelated.append(
                            _unrelated_gap(span, partition, gap, intervals, num_commits, thresholds.commit_gap_ms)
                        )
                    else:
                        rebalance_spans[generation_index].add(partition, span)
                        paused += span[1] - span[0]
                longest = max(longest, paused)
    around = [
        spans.to_pause(timeline.generations[index].generation_id, index) for index, spans in rebalance_spans.items()
    ]
    pauses = sorted([*around, *_find_unrelated_pauses(unrelated, timeline.commits)], key=_sort_key)
    paused_partition_ms = sum(pause.paused_partition_ms for pause in pauses if pause.generation_index is not None)
    return PauseSummary(tuple(pauses), min(paused_partition_ms, _MAX_LONG), longest)


class _Spans:
    """The times without commits of a pause, added up: each gap of each partition can be around thousands of
    rebalances.
    """

    def __init__(self) -> None:
        self.start_ms, self.end_ms, self.total_ms, self.longest_ms, self.partitions = 1 << 63, -1 << 63, 0, 0, 0
        self.topics: set[str] = set()
        self._last: TopicPartition | None = None

    def add(self, partition: TopicPartition, span: Span) -> None:
        """Adds a time; those of a partition are added one after the other."""
        length = span[1] - span[0]
        self.start_ms, self.end_ms = min(self.start_ms, span[0]), max(self.end_ms, span[1])
        self.total_ms, self.longest_ms = self.total_ms + length, max(self.longest_ms, length)
        if partition != self._last:
            self._last, self.partitions = partition, self.partitions + 1
            self.topics.add(partition[0])

    def to_pause(
        self, generation_id: int | None = None, index: int | None = None, *, idle: bool = False
    ) -> CommitPause:
        """Returns the pause that consists of the times; `index` is that of its generation."""
        total_ms, topics = min(self.total_ms, _MAX_LONG), tuple(sorted(self.topics))
        return CommitPause(
            generation_id, self.start_ms, self.end_ms, self.partitions, total_ms, self.longest_ms, index, idle, topics
        )


def _sort_key(pause: CommitPause) -> tuple[int, int, int]:
    return pause.start_ms, pause.end_ms, -1 if pause.generation_index is None else pause.generation_index


def _irregular_gaps(intervals: Sequence[CommitInterval], rebalances: _Rebalances) -> list[Span]:
    """Returns the gaps of a partition that are no habit."""
    gaps = [(before.end_ms, after.start_ms) for before, after in pairwise(intervals)]
    untouched_ms = [end - start for start, end in gaps if not rebalances.touched_by((start, end))]
    touched_ms = sum(end - start for start, end in gaps) - sum(untouched_ms)
    elapsed_ms = intervals[-1].end_ms - intervals[0].start_ms - touched_ms
    is_habit = len(untouched_ms) >= MIN_REGULAR_GAPS and 4 * sum(untouched_ms) > elapsed_ms
    usual_ms = median(untouched_ms) if is_habit else 0
    return [(start, end) for start, end in gaps if end - start > 2 * usual_ms]


def _find_absences(timeline: Timeline, thresholds: HistoryThresholds) -> list[Span]:
    """Returns the times without members that are longer than the time between two rebalances of one deploy."""
    absences: list[Span] = []
    start = None
    for generation in timeline.generations:
        at_ms = generation.at_ms
        if generation.members and start is not None:
            absences.append((start, at_ms))
            start = None
        elif not generation.members and start is None:
            # Members that were present for less than a millisecond don't end an absence.
            start = absences.pop()[0] if absences and absences[-1][1] == at_ms else at_ms
    if start is not None:
        absences.append((start, max(start, timeline.last_ms)))
    return [(start, end) for start, end in absences if end - start > thresholds.deploy_gap_ms]


def _subtract(gap: Span, absences: Sequence[Span], latest_ends: Sequence[int]) -> list[Span]:
    """Returns the times of a gap that are in no absence. `latest_ends`: the latest end up to each absence."""
    present, start = [], gap[0]
    for index in range(bisect_right(latest_ends, start), len(absences)):
        absence_start, absence_end = absences[index]
        if absence_start >= gap[1]:
            break
        if absence_end <= start:
            continue
        present.append((start, absence_start))
        start = absence_end
    present.append((start, gap[1]))
    return [span for span in present if span[1] > span[0]]


class _Rebalances:
    """The generations of a group in the order of time.

    Attributes:
        generation_indexes: index of each generation in the timeline.
        at: when each generation was written.
        ends: when each rebalance ended.
        latest_end: the latest end up to each rebalance.
        max_early: how long before its record each rebalance might have paused a partition.
    """

    def __init__(self, timeline: Timeline, thresholds: HistoryThresholds) -> None:
        generations = timeline.generations
        self.generation_indexes = sorted(range(len(generations)), key=lambda index: generations[index].at_ms)
        self.at = [generations[index].at_ms for index in self.generation_indexes]
        # Cooperative members, and those of the broker's protocols, release partitions a moment later.
        grace = min(thresholds.commit_gap_ms, HEARTBEAT_MS)
        stable = [generations[index].stable_ms for index in self.generation_indexes]
        self.ends = [max(at, stable_at or at) + grace for at, stable_at in zip(self.at, stable, strict=True)]
        self.latest_end = list(accumulate(self.ends, max))
        self.max_early = [_max_early_ms(timeline, index, thresholds) for index in self.generation_indexes]
        self._num_touched = 0

    def touched_by(self, span: Span) -> list[int]:
        """Returns the rebalances that a span touches, as indexes in the order of time."""
        first, end = bisect_left(self.latest_end, span[0]), bisect_right(self.at, span[1])
        self._num_touched += max(end - first, 0)
        if self._num_touched > _MAX_TOUCHED:
            problem = f"Its partitions have no commits around more than {_MAX_TOUCHED:,} rebalances in all"
            raise HistoryTooLargeError(f"{problem}. Give records of a shorter time")
        return [index for index in range(first, end) if self.ends[index] >= span[0]]

    def divide(self, gap: Span) -> list[tuple[int | None, Span]]:
        """Divides a gap among rebalances; returns a generation index, None without a rebalance, for each span."""
        touched = self.touched_by(gap)
        if not touched:
            return [(None, gap)]
        start, end = gap
        spans: list[tuple[int | None, Span]] = []
        first = touched[0]
        if start < self.at[first] - self.max_early[first]:
            spans.append((None, (start, self.at[first])))
            start = self.at[first]
        bounds = [start, *(max(start, self.at[index]) for index in touched[1:]), end]
        for index, span in zip(touched, pairwise(bounds), strict=True):
            spans.append((self.generation_indexes[index], span))
        return [(generation_index, span) for generation_index, span in spans if span[1] > span[0]]


def _max_early_ms(timeline: Timeline, generation_index: int, thresholds: HistoryThresholds) -> int:
    """Returns how long before its record a rebalance can have effects: a session timeout and a late rejoin."""
    members = timeline.generations[generation_index - 1].members if generation_index else ()
    session = max(
        (member.session_timeout_ms or thresholds.session_timeout_ms for member in members),
        default=thresholds.session_timeout_ms,
    )
    rejoin = max((member.rebalance_timeout_ms or REBALANCE_MS for member in members), default=REBALANCE_MS)
    return session + rejoin


# --- without a rebalance ------------------------------------------------------------------------------------------


class _UnrelatedGap(NamedTuple):
    """A gap without a rebalance.

    Attributes:
        span: its time.
        partition: the partition that wasn't committed.
        waited: whether records waited at its end.
        expected: half of the usual number of records in this time; 0 if fewer than four commits would be usual.
        caught_up: the number of records that were committed soon after it, beyond the usual number in that time.
    """

    span: Span
    partition: TopicPartition
    waited: bool
    expected: float
    caught_up: float


def _unrelated_gap(
    span: Span,
    partition: TopicPartition,
    gap: Span,
    intervals: Sequence[CommitInterval],
    num_commits: int,
    gap_ms: int,
) -> _UnrelatedGap:
    """Returns a part of a gap, and whether commits after the gap advance as far as after a time without consumption.
    `num_commits` is the number of commits in all intervals.

    Example: 20 records/s, committed every 5 s, and no commit for 60 s. The next commit advances by 1,200 if the
    consumer stopped, and by at most 100 if nothing was produced.
    """
    index = bisect_left(intervals, gap[0], key=lambda interval: interval.end_ms)
    first, last = intervals[0], intervals[-1]
    advance = intervals[index + 1].first_offset - intervals[index].last_offset
    usual_advance, usual_ms = last.last_offset - first.first_offset - advance, last.end_ms - first.start_ms
    usual_ms = max(usual_ms - (gap[1] - gap[0]), 1)
    expected = usual_advance * (gap[1] - gap[0]) / usual_ms / 2
    per_commit = usual_advance / num_commits
    is_usual = expected > max(2 * per_commit, 0)
    waited = is_usual and advance >= min(expected, max(2 * per_commit, MAX_POLL_RECORDS))
    after = intervals[index + 1]
    soon_ms = min(after.next_cell_ms(gap_ms), after.end_ms) - after.start_ms
    caught_up = after.next_offset - intervals[index].last_offset - usual_advance * soon_ms / usual_ms
    return _UnrelatedGap(span, partition, waited, expected if is_usual else 0.0, caught_up)


def _find_unrelated_pauses(gaps: Sequence[_UnrelatedGap], commits: _Commits) -> Iterator[CommitPause]:
    """Yields the pauses without a rebalance: gaps that stopped, and idle gaps, each merged if they overlap."""
    times = [] if all(gap.waited for gap in gaps) else _find_times_most_stopped(gaps, commits)
    starts, ends = [start for start, _ in times], [end for _, end in times]
    touched = [range(bisect_right(ends, gap.span[0]), bisect_left(starts, gap.span[1])) for gap in gaps]
    sums = np.zeros((3, len(times) + 1), np.int64)
    for gap, indexes in zip(gaps, touched, strict=True):
        if gap.expected and indexes:  # It is expected if records waited.
            amounts = np.array([gap.waited, gap.expected, max(gap.caught_up, 0.0)])
            change = amounts.clip(max=2.0**40).round().astype(np.int64)
            sums[:, indexes.start] += change
            sums[:, indexes.stop] -= change
    waited, expected, caught_up = sums.cumsum(axis=1)
    stops = (waited > 0) | ((expected > 0) & (expected <= caught_up))
    if not waited[:-1].all() and _commits_without_records(commits):
        stops[:] = True
    stops_before = [0, *stops.cumsum().tolist()]
    by_idle: dict[bool, list[_UnrelatedGap]] = {False: [], True: []}
    for gap, indexes in zip(gaps, touched, strict=True):
        has_stop = bool(indexes) and stops_before[indexes.stop] > stops_before[indexes.start]
        by_idle[not gap.waited and not has_stop].append(gap)
    for idle, idle_or_stopped in by_idle.items():
        yield from _merge_overlapping(idle_or_stopped, idle=idle)


def _find_times_most_stopped(gaps: Sequence[_UnrelatedGap], commits: _Commits) -> list[Span]:
    """Returns the times, in order, at which more than half of the partitions that are committed before and after have
    no commits."""
    starts, ends = (sorted(gap.span[side] for gap in gaps) for side in (0, 1))
    first = sorted(intervals[0].start_ms for intervals in commits.values())
    last = sorted(intervals[-1].end_ms for intervals in commits.values())
    return [
        (start, end)
        for start, end in pairwise(sorted({*starts, *ends}))
        if 2 * (bisect_right(starts, start) - bisect_right(ends, start))
        > bisect_right(first, start) - bisect_left(last, end)
    ]


def _commits_without_records(commits: _Commits) -> bool:
    """Checks whether a group commits even if there are no new records: one partition more often than all advance."""
    advances = sum(interval.last_offset - interval.first_offset for each in commits.values() for interval in each)
    return advances < max(sum(interval.commits - 1 for interval in each) for each in commits.values())


def _merge_overlapping(gaps: Iterable[_UnrelatedGap], *, idle: bool) -> Iterator[CommitPause]:
    """Yields pauses without a rebalance: gaps merged if they overlap."""
    merged: list[_UnrelatedGap] = []
    end = 0
    for gap in sorted(gaps):
        if merged and gap.span[0] >= end:
            yield _to_unrelated_pause(merged, idle=idle)
            merged = []
        end = max(end, gap.span[1]) if merged else gap.span[1]
        merged.append(gap)
    if merged:
        yield _to_unrelated_pause(merged, idle=idle)


def _to_unrelated_pause(gaps: Iterable[_UnrelatedGap], *, idle: bool) -> CommitPause:
    spans = _Spans()
    for gap in sorted(gaps, key=attrgetter("partition")):
        spans.add(gap.partition, gap.span)
    return spans.to_pause(idle=idle)


# --- of several groups --------------------------------------------------------------------------------------------


_NEAR_S = 30
_MAX_COMPARED = 10_000
"""Maximum number of lists of topics with which the topics of a pause are compared. If more stop within a minute, the
cluster has stopped."""


class _Pause(NamedTuple):
    """A pause without a rebalance, with times in seconds. Those that don't count are near no other."""

    cluster: str
    start: int
    end: int
    idle: bool
    counts: bool | None
    group_id: str
    topics: frozenset[str]

    @property
    def window(self) -> tuple[str, int, bool, int]:
        """What decides which pauses are near."""
        return self.cluster, self.start, self.idle, self.end if self.idle else 0


def find_nearby(rows: pa.Table) -> Iterator[pa.Table]:
    """Yields the pauses of complete clusters with `groups`, how many groups have a pause near it, and `several`,
    whether one of the other groups reads none of its topics, or too many are near to compare them.

    Near is a pause that starts within 30 s; near an idle one, it must also end within 30 s.

    Args:
        rows: cluster, group_id, topics, idle, counts, and start and end in seconds.
    """
    *columns, topics = (rows[name].to_pylist() for name in _Pause._fields)
    lists: dict[frozenset[str], frozenset[str]] = {}
    shared = (lists.setdefault(each, each) for each in (frozenset(each or ()) for each in topics))
    pauses = list(map(_Pause, *columns, shared))
    counted = sorted((pause for pause in pauses if pause.counts), key=attrgetter("end"))
    by_start = values_by_key(((pause.cluster, pause.start), pause) for pause in counted)
    groups, several = np.zeros(len(pauses), np.int64), np.zeros(len(pauses), bool)
    order = sorted(range(len(pauses)), key=lambda at: pauses[at].window)
    for (cluster, start, idle, end), same in groupby(order, key=lambda at: pauses[at].window):
        readers: dict[frozenset[str], set[str]] = defaultdict(set)
        for second in range(start - _NEAR_S, start + _NEAR_S + 1):
            listed: Sequence[_Pause] = by_start.get((cluster, second), ())
            first = bisect_left(listed, end - _NEAR_S, key=attrgetter("end")) if idle else 0
            last = bisect_right(listed, end + _NEAR_S, key=attrgetter("end")) if idle else len(listed)
            for near in listed[first:last]:
                readers[near.topics].add(near.group_id)
        num_groups = len(set[str]().union(*readers.values()))
        for at in same:
            pause = pauses[at]
            groups[at] = num_groups
            several[at] = len(readers) > _MAX_COMPARED or any(
                of != {pause.group_id} and pause.topics.isdisjoint(each) for each, of in readers.items()
            )
    rows = rows.drop_columns("topics").append_column("groups", pa.array(groups))
    yield rows.append_column("several", pa.array(several))
