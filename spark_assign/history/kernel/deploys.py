"""Classifies bursts of rebalances as deploys: restarts, scaling, crashes, flapping.

Rebalances of a group that are no further apart than the threshold (`HistoryThresholds.deploy_gap_ms`) are one burst.
Its type is the first of these that applies:

    flapping         at least `HistoryThresholds.flapping_per_day` rebalances within 24 hours, and more than a deploy of
                     all members that joined or left takes: four per member (one for leaving, one for joining, and one
                     after each of them if cooperative members release partitions first)
    scale-out        members joined, and none departed
    scale-in         members left, and none joined or crashed
    crash            all departed members crashed, whether they returned or not, and no other member joined; but not if
                     they did so one after the other and at least half of the members returned: that is a rolling
                     restart without a shutdown
    restart          none of the members before is a member after, and all departed at once, in one generation
    rolling-restart  none of the members before is a member after, there are no fewer members, and no more than twice as
                     many are members or joined; or at least half of the members returned, and no other member joined or
                     departed
    mixed            anything else: one of many returned, some were replaced, members joined and others left

Rebalances that the leader of a classic Streams application requests (probing rebalances, and those in which revoked
tasks are assigned) follow from others. They aren't counted.

A burst in which no member joined or departed (topics or subscriptions changed, or a member requested the rebalance) is
no deploy.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress, pairwise

from spark_assign.history.kernel.departures import CRASHED, GUESS, Departure
from spark_assign.history.kernel.pauses import PauseSummary
from spark_assign.history.kernel.timeline import Generation, HistoryThresholds, Timeline
from spark_assign.tables.errors import count

ROLLING, RESTART, SCALE_OUT, SCALE_IN = "rolling-restart", "restart", "scale-out", "scale-in"
CRASH, FLAPPING, MIXED = "crash", "flapping", "mixed"
_INTENTIONAL = (ROLLING, RESTART, SCALE_OUT, SCALE_IN)

DAY_MS = 86_400_000
_MAX_REBALANCES_PER_MEMBER = 4
"""Largest number of rebalances that a deploy takes per member that joins or departs."""


@dataclass(frozen=True)
class Deploy:
    """A row of `tables.history.DEPLOYS`, with times in milliseconds.

    Attributes:
        joined: number of new members as which no departed member returned.
        left: number of members that departed without a return, so that before + joined - left = after.
        crashed: number of members that crashed, whether they returned or not.
        restarted: number of members that returned, whether they crashed or not.
    """

    deploy_type: str
    start_ms: int
    end_ms: int
    first_generation_id: int
    last_generation_id: int
    rebalances: int
    members_before: int
    members_after: int
    joined: int
    left: int
    crashed: int
    restarted: int
    paused_partition_ms: int | None
    detail: str


@dataclass(frozen=True)
class _RebalanceBurst:
    """Consecutive generations, and the members that joined and departed in them.

    Attributes:
        generation_indexes: indexes of the generations in the timeline.
        rebalance_times: when its rebalances were written, ascending.
        before: ids of the members before.
        after: ids of the members after.
        joined: ids of new members, in order.
        departures: departures, in order.
        all_departed_at_once: whether a generation has none of the members before it.
        crashed_at_once: whether several members departed in one generation, and all of them crashed.
    """

    generation_indexes: range
    rebalance_times: list[int]
    before: frozenset[str]
    after: frozenset[str]
    joined: list[str]
    departures: list[Departure]
    all_departed_at_once: bool
    crashed_at_once: bool

    @property
    def num_returned(self) -> int:
        """The number of members that returned."""
        joined = set(self.joined)
        return sum(departure.new_member_id in joined for departure in self.departures)

    @property
    def num_crashed(self) -> int:
        """The number of members that crashed."""
        return sum(departure.leave_type == CRASHED for departure in self.departures)


def find_deploys(
    timeline: Timeline, departures: Sequence[Departure], pauses: PauseSummary, thresholds: HistoryThresholds
) -> list[Deploy]:
    """Returns the deploys of a group, in order.

    Args:
        timeline: the group.
        departures: its `departures.find_departures`.
        pauses: its `pauses.find_pauses`.
        thresholds: the thresholds.
    """
    return [
        _to_deploy(timeline, burst, deploy_type, pauses)
        for burst in _find_bursts(timeline, departures, thresholds)
        if (deploy_type := _classify(burst, thresholds)) is not None
    ]


def is_flapping(timeline: Timeline, deploys: Sequence[Deploy], thresholds: HistoryThresholds) -> bool:
    """Checks whether a group has at least `HistoryThresholds.flapping_per_day` rebalances within 24 hours.

    An intentional deploy (restarts and scaling) counts once, however many rebalances it took: nobody intends to deploy
    ten times a day.
    """
    intentional = [deploy for deploy in deploys if deploy.deploy_type in _INTENTIONAL]
    starts = [deploy.start_ms for deploy in intentional]
    times = _rebalance_times(timeline.generations, _is_change(timeline))
    outside = [at_ms for at_ms in times if not _is_within(intentional, starts, at_ms)]
    return count_max_per_day(sorted(starts + outside)) >= thresholds.flapping_per_day


def find_rebalance_times(timeline: Timeline) -> list[int]:
    """Returns when a group rebalanced, ascending. An idle epoch is no rebalance."""
    return _rebalance_times(timeline.generations, _stops(timeline))


def _stops(timeline: Timeline) -> list[bool]:
    """Returns whether each generation is a rebalance, and not just an idle epoch."""
    return [new and not idle for new, idle in zip(timeline.is_rebalance, timeline.is_idle, strict=True)]


def _is_change(timeline: Timeline) -> list[bool]:
    """Returns whether each generation is a rebalance, and not one that a leader of Kafka Streams requested before."""
    return [stops and follow_up is None for stops, follow_up in zip(_stops(timeline), timeline.follow_ups, strict=True)]


def count_max_per_day(times: Sequence[int]) -> int:
    """Returns the largest number of times, which must be ascending, within 24 hours."""
    return max((bisect_left(times, at_ms + DAY_MS) - index for index, at_ms in enumerate(times)), default=0)


def _rebalance_times(generations: Sequence[Generation], is_rebalance: Sequence[bool]) -> list[int]:
    """Returns when those generations that are rebalances were written, ascending."""
    return sorted(generation.at_ms for generation in compress(generations, is_rebalance))


def _is_within(deploys: Sequence[Deploy], starts: Sequence[int], at_ms: int) -> bool:
    index = bisect_right(starts, at_ms) - 1
    return index >= 0 and at_ms <= deploys[index].end_ms


def _find_bursts(
    timeline: Timeline, departures: Sequence[Departure], thresholds: HistoryThresholds
) -> list[_RebalanceBurst]:
    """Returns the generations of a timeline in bursts, separated by pauses without a rebalance."""
    by_member = {(departure.member_id, departure.generation_id): departure for departure in departures}
    generations, is_rebalance = timeline.generations, _is_change(timeline)
    starts = [
        index
        for index in range(1, len(generations))  # What happened before the first generation is unknown.
        if index == 1 or generations[index].at_ms - generations[index - 1].at_ms > thresholds.deploy_gap_ms
    ]
    ends = [*starts[1:], len(generations)]
    return [
        _build_burst(generations, range(first, end), is_rebalance, by_member)
        for first, end in zip(starts, ends, strict=bool(starts))
    ]


def _build_burst(
    generations: Sequence[Generation],
    generation_indexes: range,
    is_rebalance: Sequence[bool],
    departure_by_member: dict[tuple[str, int], Departure],
) -> _RebalanceBurst:
    """Returns what happens in consecutive generations: the members before and after, and who joins and departs."""
    first, end = generation_indexes.start, generation_indexes.stop
    ids = [frozenset(member.member_id for member in generation.members) for generation in generations[first - 1 : end]]
    joined: list[str] = []
    departures: list[Departure] = []
    all_departed_at_once = crashed_at_once = False
    for generation, (before, after) in zip(generations[first:end], pairwise(ids), strict=True):
        joined += sorted(after - before)
        departed = [departure_by_member[member_id, generation.generation_id] for member_id in sorted(before - after)]
        departures += departed
        all_departed_at_once |= bool(before) and not before & after
        crashed_at_once |= len(departed) > 1 and all(departure.leave_type == CRASHED for departure in departed)
    return _RebalanceBurst(
        generation_indexes,
        _rebalance_times(generations[first:end], is_rebalance[first:end]),
        ids[0],
        ids[-1],
        joined,
        departures,
        all_departed_at_once,
        crashed_at_once,
    )


def _classify(burst: _RebalanceBurst, thresholds: HistoryThresholds) -> str | None:
    """Returns the type of a burst; None if it is no deploy."""
    is_frequent = count_max_per_day(burst.rebalance_times) >= thresholds.flapping_per_day
    if is_frequent and len(burst.rebalance_times) > _MAX_REBALANCES_PER_MEMBER * _count_members_involved(burst):
        return FLAPPING
    joined, departed = len(burst.joined), len(burst.departures)
    returned, crashed = burst.num_returned, burst.num_crashed
    if not departed:
        return SCALE_OUT if joined else None
    if not joined and not crashed:
        return SCALE_IN
    half_returned = joined == departed == returned and 2 * returned >= len(burst.before)
    one_by_one = departed > 1 and not burst.crashed_at_once
    if crashed == departed and joined == returned and not (half_returned and one_by_one):
        return CRASH
    replaced = bool(burst.before) and bool(burst.after) and not burst.before & burst.after
    if replaced and burst.all_departed_at_once:
        return RESTART
    if half_returned or (replaced and len(burst.before) <= len(burst.after) and joined <= 2 * len(burst.before)):
        return ROLLING
    return MIXED


def _count_members_involved(burst: _RebalanceBurst) -> int:
    """Returns the number of members that joined or departed; all ids of a member that returned count once."""
    old_ids = {
        departure.new_member_id: departure.member_id
        for departure in burst.departures
        if departure.new_member_id is not None
    }
    first_ids: dict[str, str] = {}
    ids = [*burst.joined, *(departure.member_id for departure in burst.departures)]
    for member_id in ids:
        first_id, path = member_id, dict[str, None]()
        while first_id in old_ids and first_id not in path and first_id not in first_ids:
            path[first_id] = None
            first_id = old_ids[first_id]
        first_id, is_circle = first_ids.get(first_id, first_id), False
        for each in path:  # of IDs that were each other's old ones, each counts
            is_circle |= each == first_id
            first_ids[each] = each if is_circle else first_id
        first_ids.setdefault(member_id, first_id)
    return len({first_ids[member_id] for member_id in ids})


def _to_deploy(timeline: Timeline, burst: _RebalanceBurst, deploy_type: str, pauses: PauseSummary) -> Deploy:
    """Returns a burst of rebalances as a row of the table `deploys`."""
    first = timeline.generations[burst.generation_indexes[0]]
    last = timeline.generations[burst.generation_indexes[-1]]
    returned, crashed = burst.num_returned, burst.num_crashed
    return Deploy(
        deploy_type=deploy_type,
        start_ms=first.at_ms,
        end_ms=last.at_ms,
        first_generation_id=first.generation_id,
        last_generation_id=last.generation_id,
        rebalances=len(burst.rebalance_times),
        members_before=len(burst.before),
        members_after=len(burst.after),
        joined=len(burst.joined) - returned,
        left=len(burst.departures) - returned,
        crashed=crashed,
        restarted=returned,
        paused_partition_ms=pauses.sum_around(burst.generation_indexes),
        detail=_format_detail(burst),
    )


def _format_detail(burst: _RebalanceBurst) -> str:
    """Returns a sentence about the members that joined, departed, and returned."""
    returned, before = burst.num_returned, len(burst.before)
    joined, departed = len(burst.joined), len(burst.departures)
    clauses = []
    if returned > before:
        clauses.append(f"members returned {returned:,} times")
    elif returned:
        clauses.append(f"{returned} of {count(before, 'member')} returned")
    if joined > returned:
        clauses.append(f"{count(joined - returned, 'member')} joined")
    if departed > returned:
        clauses.append(f"{count(departed - returned, 'member')} left permanently")
    if burst.num_crashed:
        clauses.append(f"{burst.num_crashed} crashed")
    times = burst.rebalance_times
    rebalances = f"in {count(len(times), 'rebalance')}" if times else "without a rebalance"
    guessed = sum(departure.confidence == GUESS for departure in burst.departures)
    doubt = f"; for {guessed} of {departed} departures, the type is a guess" if guessed else ""
    return f"{', '.join(clauses) or 'no members joined or left'} {rebalances}{doubt}"
