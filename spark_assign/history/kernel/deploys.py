"""Deploys: rebalances that follow each other, told as what somebody did.

Rebalances of a group that are no further apart than the threshold (`HistoryThresholds.together_ms`) are one burst. What
it was is the first of these that holds:

    flapping         at least `HistoryThresholds.flapping_a_day` rebalances within 24 hours, and more than a deploy of
    all that came
                     and went takes: four for each (one for leaving, one for joining, and one after each of them where
                     cooperative members give up first)
    scale-out        members joined, and nobody went
    scale-in         members left, and nobody came or crashed
    crash            all that went crashed, gone or back, and nobody else joined; but not if they did so one after the
                     other and at least half of the members were back: that is a rolling restart that does not shut down
    restart          nobody is there who was, and all were gone at once, in one generation
    rolling-restart  nobody is there who was, no fewer are, and no more than twice as many are or came; or at least half
                     of the members came back, and nobody else came or went
    mixed            anything else: one of many came back, some were replaced, members joined and others left

A burst in which nobody came or went (topics or subscriptions changed, somebody asked for it) is no deploy.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from spark_assign.history.kernel.departures import CRASHED, GUESS, Departure
from spark_assign.history.kernel.pauses import PauseSummary
from spark_assign.history.kernel.thresholds import HistoryThresholds
from spark_assign.history.kernel.timeline import Timeline

ROLLING, RESTART, SCALE_OUT, SCALE_IN = "rolling-restart", "restart", "scale-out", "scale-in"
CRASH, FLAPPING, MIXED = "crash", "flapping", "mixed"
_MEANT = (ROLLING, RESTART, SCALE_OUT, SCALE_IN)

DAY_MS = 86_400_000
_MOST_FOR_EACH = 4
"""Rebalances that a deploy takes for each that comes or goes."""


@dataclass(frozen=True)
class Deploy:
    """A row of DEPLOYS; times in milliseconds. Its columns are described there.

    Attributes:
        joined: newcomers that nobody came back as.
        left: those that are gone for good, so that before + joined - left = after.
        crashed: all that crashed, gone for good or back.
        restarted: all that came back, crashed or not.
    """

    what: str
    since_ms: int
    until_ms: int
    first_generation: int
    last_generation: int
    rebalances: int
    members_before: int
    members_after: int
    joined: int
    left: int
    crashed: int
    restarted: int
    stopped_ms: int | None
    detail: str


@dataclass(frozen=True)
class _Burst:
    """Generations in a row, by their places in the timeline, and who came and went in them."""

    places: range
    moments: list[int]
    before: frozenset[str]
    after: frozenset[str]
    arrived: list[str]
    gone: list[Departure]
    all_at_once: bool
    crashed_at_once: bool

    @property
    def back(self) -> int:
        """How many came back."""
        arrived = set(self.arrived)
        return sum(each.came_back_as in arrived for each in self.gone)

    @property
    def crashed(self) -> int:
        """How many crashed."""
        return sum(each.went == CRASHED for each in self.gone)


def deploys(
    timeline: Timeline, gone: Sequence[Departure], stopped: PauseSummary, asked: HistoryThresholds
) -> list[Deploy]:
    """The deploys of a group, in their order.

    Args:
        gone: its `departures.departures`.
        stopped: its `silences.stops`.
    """
    told = ((burst, _what(burst, asked)) for burst in _bursts(timeline, gone, asked))
    return [_deploy(timeline, burst, what, stopped) for burst, what in told if what is not None]


def is_flapping(timeline: Timeline, told: Sequence[Deploy], asked: HistoryThresholds) -> bool:
    """Whether a group rebalances again and again: within some 24 hours as often as `HistoryThresholds.flapping_a_day`.

    What somebody meant (restarts and scaling) counts once, however many rebalances it took: nobody means to deploy ten
    times a day.
    """
    meant = [each for each in told if each.what in _MEANT]
    begins = [each.since_ms for each in meant]
    alone = [at for at in rebalanced(timeline) if not _within(meant, begins, at)]
    return most_in_a_day(sorted(begins + alone)) >= asked.flapping_a_day


def rebalanced(timeline: Timeline) -> list[int]:
    """When a group rebalanced, ascending."""
    return sorted(at for at in _moments(timeline) if at is not None)


def most_in_a_day(moments: Sequence[int]) -> int:
    """How many of these moments, which ascend, are within the worst 24 hours."""
    return max((bisect_left(moments, at + DAY_MS) - place for place, at in enumerate(moments)), default=0)


def _moments(timeline: Timeline) -> list[int | None]:
    """Of each generation when it was written; null: it is none of its own."""
    if not timeline.generations:
        return []
    told = zip(timeline.generations, timeline.rebalanced, strict=True)
    return [each.at_ms if new else None for each, new in told]


def _within(meant: Sequence[Deploy], begins: Sequence[int], at: int) -> bool:
    number = bisect_right(begins, at) - 1
    return number >= 0 and at <= meant[number].until_ms


def _bursts(timeline: Timeline, gone: Sequence[Departure], asked: HistoryThresholds) -> list[_Burst]:
    went = {(each.member_id, each.generation): each for each in gone}
    generations, moments = timeline.generations, _moments(timeline)
    begins = [
        place
        for place in range(1, len(generations))  # Nobody knows what came before the first one on record.
        if place == 1 or generations[place].at_ms - generations[place - 1].at_ms > asked.together_ms
    ]
    ends = [*begins[1:], len(generations)]
    return [_burst(timeline, range(first, end), moments, went) for first, end in zip(begins, ends, strict=bool(begins))]


def _burst(
    timeline: Timeline, places: range, moments: Sequence[int | None], went: dict[tuple[str, int], Departure]
) -> _Burst:
    ids = {place: _ids(timeline, place) for place in range(places[0] - 1, places[-1] + 1)}
    arrived: list[str] = []
    gone: list[Departure] = []
    all_at_once = crashed_at_once = False
    for place in places:
        old, new = ids[place - 1], ids[place]
        arrived += sorted(new - old)
        here = [went[each, timeline.generations[place].number] for each in sorted(old - new)]
        gone += here
        all_at_once |= bool(old) and not old & new
        crashed_at_once |= len(here) > 1 and all(each.went == CRASHED for each in here)
    return _Burst(
        places,
        sorted(at for at in moments[places.start : places.stop] if at is not None),
        ids[places[0] - 1],
        ids[places[-1]],
        arrived,
        gone,
        all_at_once,
        crashed_at_once,
    )


def _ids(timeline: Timeline, place: int) -> frozenset[str]:
    return frozenset(each.member_id for each in timeline.generations[place].members)


def _what(burst: _Burst, asked: HistoryThresholds) -> str | None:
    """What a burst was; null: nothing that anybody did."""
    often = most_in_a_day(burst.moments) >= asked.flapping_a_day
    if often and len(burst.moments) > _MOST_FOR_EACH * _touched(burst):
        return FLAPPING
    came, went, back, crashed = len(burst.arrived), len(burst.gone), burst.back, burst.crashed
    if not went:
        return SCALE_OUT if came else None
    if not came and not crashed:
        return SCALE_IN
    half_is_back = came == went == back and 2 * back >= len(burst.before)
    one_by_one = went > 1 and not burst.crashed_at_once
    if crashed == went and came == back and not (half_is_back and one_by_one):
        return CRASH
    replaced = bool(burst.before) and bool(burst.after) and not burst.before & burst.after
    if replaced and burst.all_at_once:
        return RESTART
    if half_is_back or (replaced and len(burst.before) <= len(burst.after) and came <= 2 * len(burst.before)):
        return ROLLING
    return MIXED


def _touched(burst: _Burst) -> int:
    """How many came or went, each once however often it did: an id that somebody came back as is the same one."""
    same = {each.came_back_as: each.member_id for each in burst.gone if each.came_back_as is not None}
    touched = set()
    for each in [*burst.arrived, *(gone.member_id for gone in burst.gone)]:
        seen = set()
        while each in same and each not in seen:
            seen.add(each)
            each = same[each]
        touched.add(each)
    return len(touched)


def _deploy(timeline: Timeline, burst: _Burst, what: str, stopped: PauseSummary) -> Deploy:
    first, last = timeline.generations[burst.places[0]], timeline.generations[burst.places[-1]]
    parts = [stopped.around(place)[0] for place in burst.places]
    back, crashed = burst.back, burst.crashed
    return Deploy(
        what=what,
        since_ms=first.at_ms,
        until_ms=last.at_ms,
        first_generation=first.number,
        last_generation=last.number,
        rebalances=len(burst.moments),
        members_before=len(burst.before),
        members_after=len(burst.after),
        joined=len(burst.arrived) - back,
        left=len(burst.gone) - back,
        crashed=crashed,
        restarted=back,
        stopped_ms=None if stopped.stopped_ms is None else sum(each or 0 for each in parts),
        detail=_detail(burst),
    )


def _detail(burst: _Burst) -> str:
    """In words who came and went."""
    back, before = burst.back, len(burst.before)
    said = []
    if back > before:
        said.append(f"members came back {back:,} times")
    elif back:
        said.append(f"{back} of {_many(before, 'member')} came back")
    if len(burst.arrived) > back:
        said.append(f"{_many(len(burst.arrived) - back, 'member')} joined")
    if len(burst.gone) > back:
        said.append(f"{_many(len(burst.gone) - back, 'member')} left for good")
    if burst.crashed:
        said.append(f"{burst.crashed} crashed")
    often = f"in {_many(len(burst.moments), 'rebalance')}" if burst.moments else "without a rebalance"
    guessed = sum(each.certainty == GUESS for each in burst.gone)
    doubt = f"; of {guessed} of {len(burst.gone)} that went it is a guess how" if guessed else ""
    return f"{', '.join(said) or 'nobody came or went'} {often}{doubt}"


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
