"""How members went: they said so, their session timed out, or they came back under another id.

The record of a generation says who is in it, never why somebody is not. What tells it is silence: how long nothing had
been committed for what the member owned when the generation without it was written. Kafka's rules (coordinator of 4.1,
`GroupMetadataManager` and `OffsetMetadataManager`; the older `GroupCoordinator` has the same):

Classic groups
    - A member that leaves is taken out at once, and the others rejoin with their next heartbeat (3 s).
    - A member of which nothing is heard for session.timeout.ms is taken out then (`expireClassicGroupMemberHeartbeat`).
      Its commits count as heartbeats (`commitOffset`), and so does joining a generation. So the session of a member
      that committed, or joined, less than its timeout ago cannot have timed out: that much is proven.
    - A dynamic member that does not rejoin within the rebalance timeout is taken out too (`completeClassicGroupJoin`),
      but a Java client that does not poll for so long (max.poll.interval.ms, which is its rebalance timeout) says so
      before, by itself: it has left, after a silence far longer than its session.
    - A static member sends no LeaveGroup. It comes back under a new id and takes its place (`replaceStaticMember`), or
      its session times out, which is what is assumed where nothing tells; an administrator, or a client that was asked
      to (KIP-1092), may take it out all the same.
Consumer groups (KIP-848)
    - Leaving and timing out write the same tombstones, and bump the epoch at once. The session timeout is the broker's
      and not on record (`HistoryThresholds.session_ms`): 45 s to 60 s, unless brokers are configured otherwise. Commits
      are not heartbeats there, which come every 5 s. Who leaves as it should commits once more before, so that a
      silence of more than two commits, but less than a session, is only guessed to be a leave.
    - A static member leaves with epoch -2: it keeps what it has, and is taken out when it is not back in time.
Share and streams groups: what their members do leaves no commits by partition that could tell. Only who came back is
told.

What silence cannot prove: that somebody crashed. The Java client with auto-commit commits all its positions at every
interval, idle partitions included (`SubscriptionState.allConsumed`); librdkafka, franz-go, Sarama and everybody who
commits by hand commit only what has gone on. So a silence counts if it is conspicuous: if the member had committed at
least twice in the time of a session before. And it counts only as far as it is the member's own: while a rebalance
lasts, those who stay are silent too.

Certainty: `sure` where a record says it, `likely` where it follows from what is on record and Kafka's defaults,
`guess` where something else fits as well. Who is gone and of whom none of this can be said is `unknown`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from spark_assign.history.kernel.thresholds import HistoryThresholds
from spark_assign.history.kernel.timeline import CommitInterval, Generation, Owned, RecordedMember, Timeline

LEFT, CRASHED, RESTARTED, IS_THERE, UNKNOWN = "left", "crashed", "restarted", "is-there", "unknown"
SURE, LIKELY, GUESS = "sure", "likely", "guess"

HEARTBEAT_MS = 5_000
"""group.consumer.heartbeat.interval.ms by default; clients have 3 s, and a third of a session at most. A member of a
consumer group may have been heard last so long before its last commit."""


@dataclass(frozen=True)
class Departure:
    """A member that is gone.

    Attributes:
        generation: the first on record that it is not in.
        went: `left`, `crashed`, `restarted` or `unknown`.
        came_back_as: its id now, where it came back: of those that crashed, too.
    """

    member_id: str
    generation: int
    went: str
    certainty: str
    came_back_as: str | None = None


@dataclass(frozen=True)
class _CommitSilence:
    """How long a member had committed nothing, as far as intervals say, and how often it had before that."""

    least_ms: int
    most_ms: int
    beat_ms: float | None


@dataclass(frozen=True)
class _Gone:
    """A member that a generation does not have, and the one before has."""

    member: RecordedMember
    before: Generation
    now: Generation


def departures(timeline: Timeline, asked: HistoryThresholds | None = None) -> list[Departure]:
    """Everybody who went, in the order of generations, then of member ids. Who is still there is not in it."""
    asked = asked or HistoryThresholds()
    gone = list(_gone(timeline.generations))
    told = _CommitEvidence(timeline, asked)
    verdicts = [told.verdict(each) for each in gone]
    back = _came_back(timeline, gone, verdicts, asked)
    return [
        _departure(each, verdict, back.get(number))
        for number, (each, verdict) in enumerate(zip(gone, verdicts, strict=True))
    ]


def _gone(generations: Iterable[Generation]) -> Iterator[_Gone]:
    for before, now in pairwise(generations):
        there = {each.member_id for each in now.members}
        for member in sorted(before.members, key=lambda each: each.member_id):
            if member.member_id not in there:
                yield _Gone(member, before, now)


def _departure(gone: _Gone, verdict: tuple[str, str], back: tuple[RecordedMember, Generation, str] | None) -> Departure:
    """What becomes of the verdict on a silence where somebody came back."""
    departure = Departure(gone.member.member_id, gone.now.number, *verdict)
    if back is None:
        return departure
    member, generation, certainty = back
    departure = replace(departure, came_back_as=member.member_id)
    in_place = certainty == SURE and generation is gone.now
    if departure.went == CRASHED and not in_place:
        return departure
    return replace(departure, went=RESTARTED, certainty=LIKELY if certainty == SURE and not in_place else certainty)


class _CommitEvidence:
    """What commits say of the members of a group."""

    def __init__(self, timeline: Timeline, asked: HistoryThresholds) -> None:
        self.timeline, self.asked = timeline, asked
        self.owned: dict[str, list[Owned]] = defaultdict(list)
        for each in timeline.owned:
            if each.role == "partition":
                self.owned[each.member_id].append(each)
        self.starts: dict[tuple[str, int], list[int]] = {}
        self.stayed: dict[tuple[int, int], int] = {}

    def verdict(self, gone: _Gone) -> tuple[str, str]:
        """How it went and how certain that is, whoever came back."""
        classic = self.timeline.group_type == "classic"
        member, at = gone.member, gone.now.at_ms
        session = member.session_timeout_ms or self.asked.session_ms
        if classic and member.group_instance_id is None and at - gone.before.at_ms < session:
            return LEFT, LIKELY  # It had just joined: its session still ran.
        missing = gone.now.number - gone.before.number > 1
        no_telling = (UNKNOWN, GUESS) if member.group_instance_id is None else (CRASHED, GUESS if missing else LIKELY)
        silence = self._silence(self.owned[member.member_id], at)
        if silence is None:
            return no_telling
        # A member of a consumer group may have been heard last a heartbeat before it committed last.
        timed_out = session if classic else session - min(HEARTBEAT_MS, session // 3)
        if silence.most_ms < timed_out:
            alone = len(gone.before.members) == 1 and classic and member.session_timeout_ms is not None
            # Where the session is not on record, it may be shorter than assumed.
            late = member.session_timeout_ms is None and silence.least_ms > max(
                HEARTBEAT_MS, 2 * (silence.beat_ms or 0)
            )
            return LEFT, GUESS if missing or late else SURE if alone else LIKELY
        if silence.least_ms < timed_out or silence.beat_ms is None or 2 * silence.beat_ms > session:
            return no_telling
        if missing:
            return CRASHED, GUESS
        return self._long_silent(gone, silence, session)

    def _long_silent(self, gone: _Gone, silence: _CommitSilence, session: int) -> tuple[str, str]:
        """A member that used to commit had not for longer than its session."""
        if gone.member.group_instance_id is not None:
            return CRASHED, SURE if gone.member.session_timeout_ms is not None else LIKELY
        own = silence.least_ms - self._silence_of_others(gone, session)
        poll = gone.member.rebalance_timeout_ms
        if poll is not None and poll > session and own >= poll:
            return LEFT, LIKELY  # Its session never timed out, so its heart beat: it did not poll any more.
        return CRASHED, LIKELY if session / 2 <= own <= session * 3 / 2 else GUESS

    def _silence_of_others(self, gone: _Gone, session: int) -> int:
        """For how long those who stayed had committed nothing: so long the rebalance may have lasted."""
        key = gone.before.offset, gone.now.offset
        if key not in self.stayed:
            there = {each.member_id for each in gone.now.members}
            silences = (
                self._silence([own for own in self.owned[each.member_id] if _has(own, gone.now.at_ms)], gone.now.at_ms)
                for each in gone.before.members
                if each.member_id in there
            )
            busy = (each.least_ms for each in silences if each and each.beat_ms and 2 * each.beat_ms <= session)
            self.stayed[key] = max(busy, default=0)
        return self.stayed[key]

    def _silence(self, owned: Iterable[Owned], at: int) -> _CommitSilence | None:
        least: list[int] = []
        most: list[int] = []
        beats: list[float] = []
        for own in owned:
            if own.since_ms >= at:
                continue
            end = at if own.until_ms is None else min(at, own.until_ms)
            for partition in own.partitions:
                commit_intervals = self.timeline.commits.get((own.topic, partition), ())
                number = self._before((own.topic, partition), commit_intervals, end)
                if number < 0:
                    continue
                last = commit_intervals[number]
                # An interval that goes on has a commit within the threshold of any moment.
                newest = min(last.until_ms, end)
                oldest = newest if last.until_ms <= end else max(end - self.asked.gap_ms, last.from_ms)
                beats += _beat(last, commit_intervals[number - 1] if number else None)
                if newest >= own.since_ms:  # What was committed before was somebody else's.
                    least.append(at - newest)
                    most.append(at - max(oldest, own.since_ms))
        if not least:
            return None
        return _CommitSilence(min(least), min(most), min(beats, default=None))

    def _before(self, where: tuple[str, int], commit_intervals: tuple[CommitInterval, ...], at: int) -> int:
        """The number of the last interval that has begun at a moment; -1: none."""
        if where not in self.starts:
            self.starts[where] = [each.from_ms for each in commit_intervals]
        return bisect_right(self.starts[where], at) - 1


def _has(owned: Owned, at: int) -> bool:
    return owned.since_ms < at and (owned.until_ms is None or owned.until_ms >= at)


def _beat(interval: CommitInterval, before: CommitInterval | None) -> list[float]:
    """How often a partition is committed, in milliseconds; nothing where one commit is all there is."""
    if interval.commits > 1:
        return [(interval.until_ms - interval.from_ms) / (interval.commits - 1)]
    return [] if before is None else [interval.from_ms - before.until_ms]


def _came_back(
    timeline: Timeline, gone: list[_Gone], verdicts: list[tuple[str, str]], asked: HistoryThresholds
) -> dict[int, tuple[RecordedMember, Generation, str]]:
    """Who of those that are gone came back as whom, in which generation, and how certain that is.

    Each newcomer is one of them at most: first those that have the instance id of somebody who went, then those with
    the same client id on the same host, then those with a client id that nobody else has in the group (a pod comes back
    with another address), then those with a client id that others have too.
    """
    arrivals = sorted(_arrivals(timeline.generations), key=lambda each: each[1].at_ms)
    times = [generation.at_ms for _, generation in arrivals]
    taken: set[int] = set()
    back: dict[int, tuple[RecordedMember, Generation, str]] = {}
    for known_by, alike, certainty in _ALIKE:
        newcomers: dict[Hashable, list[int]] = defaultdict(list)
        for arrival, (member, _) in enumerate(arrivals):
            newcomers[known_by(member)].append(arrival)
        for number, each in enumerate(gone):
            if number in back or known_by(each.member) is None:
                continue
            # The newcomer of a crashed one may be there before the session of the old one has timed out.
            crashed = verdicts[number][0] == CRASHED
            early = (each.member.session_timeout_ms or asked.session_ms) if crashed else 0
            some = newcomers[known_by(each.member)]
            first = bisect_left(some, bisect_left(times, each.now.at_ms - early))
            until = bisect_left(some, bisect_right(times, each.now.at_ms + asked.together_ms))
            for arrival in some[first:until]:
                member, generation = arrivals[arrival]
                itself = member.member_id == each.member.member_id and generation.at_ms < each.now.at_ms
                if arrival not in taken and not itself and alike(each, member):
                    taken.add(arrival)
                    back[number] = member, generation, certainty
                    break
    return back


def _arrivals(generations: Iterable[Generation]) -> Iterator[tuple[RecordedMember, Generation]]:
    """Members in the generations they first are in, again if they had been gone."""
    for before, now in pairwise(generations):
        there = {each.member_id for each in before.members}
        for member in sorted(now.members, key=lambda each: each.member_id):
            if member.member_id not in there:
                yield member, now


def _instance(member: RecordedMember) -> Hashable:
    return member.group_instance_id


def _client(member: RecordedMember) -> Hashable:
    return member.client_id


def _client_on_host(member: RecordedMember) -> Hashable:
    there = member.client_id is not None and member.client_host is not None
    return (member.client_id, member.client_host) if there else None


def _may_be(gone: _Gone, member: RecordedMember) -> bool:
    """Two static members with different instance ids are different ones."""
    return gone.member.group_instance_id is None or member.group_instance_id is None


def _alone_may_be(gone: _Gone, member: RecordedMember) -> bool:
    clients = Counter(each.client_id for each in gone.before.members)
    return clients[gone.member.client_id] == 1 and _may_be(gone, member)


_ALIKE: tuple[tuple[Callable[[RecordedMember], Hashable], Callable[[_Gone, RecordedMember], bool], str], ...] = (
    (_instance, lambda gone, member: True, SURE),
    (_client_on_host, _may_be, LIKELY),
    (_client, _alone_may_be, LIKELY),
    (_client, _may_be, GUESS),
)
"""What a newcomer has of who went, null where that says nothing, and what else must hold; the surest first."""
