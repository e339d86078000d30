"""Finds out how members departed: they left, their session timed out, or they returned with another member id.

The record of a generation says who its members are, but never why a member is missing. The evidence is commit silence:
how long nothing had been committed for the member's partitions when the generation without it was written. Kafka's
rules (coordinator of 4.1, `GroupMetadataManager` and `OffsetMetadataManager`; the older `GroupCoordinator` has the
same):

Classic groups
    - A member that leaves is removed at once, and the remaining members rejoin with their next heartbeat (3 s).
    - A member without a sign of life for session.timeout.ms is removed then (`expireClassicGroupMemberHeartbeat`). Its
      commits count as heartbeats (`commitOffset`), and so does joining a generation. So the session of a member that
      committed, or joined, less than its timeout ago can't have timed out: that much is proven.
    - A dynamic member that doesn't rejoin within the rebalance timeout is removed, too (`completeClassicGroupJoin`).
      But a Java client that doesn't poll for that long (max.poll.interval.ms, which is its rebalance timeout) sends a
      LeaveGroup before: it has left, after a silence far longer than its session.
    - A static member sends no LeaveGroup. Either it returns with a new member id and replaces the old one
      (`replaceStaticMember`), or its session times out, which is assumed without other evidence. An administrator, or a
      client that is configured to leave (KIP-1092), can remove it nevertheless.
Consumer groups (KIP-848)
    - Leaving and timing out write the same tombstones, and bump the epoch at once. The session timeout is the broker's
      and not on record (`HistoryThresholds.session_timeout_ms`): 45 s to 60 s, unless brokers are configured
      otherwise. Commits are not heartbeats, which are sent every 5 s. A member that closes normally commits before it
      leaves, so after a silence of more than two commits, but less than a session, a leave is only a guess.
    - A static member leaves with epoch -2: it keeps its partitions, and is removed if it doesn't return in time.
Share and streams groups
    - What their members do leaves no commits by partition as evidence. Only returns are recognized.

Silence can't prove a crash. The Java client with auto-commit commits all positions at every interval, idle partitions
included (`SubscriptionState.allConsumed`); librdkafka, franz-go, Sarama, and clients that commit manually commit only
partitions with progress. So a silence counts only if it is conspicuous: if the member had committed at least twice per
session before. And it counts only as far as it is the member's own: during a rebalance, the remaining members are
silent, too.

Certainty is `sure` if a record proves it, `likely` if it follows from the records and Kafka's defaults, and `guess` if
another cause fits as well. A member that departed without any such evidence is `unknown`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import NamedTuple

from spark_assign.history.kernel.timeline import (
    CommitInterval,
    Generation,
    HistoryThresholds,
    HistoryTooLargeError,
    OwnershipInterval,
    RecordedMember,
    Timeline,
)
from spark_assign.numeric.arrays import values_by_key

LEFT, CRASHED, RESTARTED, STILL_MEMBER, UNKNOWN = "left", "crashed", "restarted", "active", "unknown"
SURE, LIKELY, GUESS = "sure", "likely", "guess"

HEARTBEAT_MS = 5_000
"""Default of group.consumer.heartbeat.interval.ms; classic clients default to 3 s, and a third of a session at most.
The last heartbeat of a member of a consumer group can be this long before its last commit."""

_MAX_READ = 200_000_000
"""Maximum number of partitions of which the last commits are read, for all departures. Each takes a microsecond."""


@dataclass(frozen=True, slots=True)
class Departure:
    """A member that departed.

    Attributes:
        member_id: the member.
        generation_id: the first generation on record without the member.
        leave_type: `left`, `crashed`, `restarted`, or `unknown`.
        confidence: `sure`, `likely`, or `guess`.
        new_member_id: the id with which the member returned, also after a crash; None if it didn't return.
    """

    member_id: str
    generation_id: int
    leave_type: str
    confidence: str
    new_member_id: str | None = None


@dataclass(frozen=True)
class _CommitSilence:
    """Bounds of how long a member had committed nothing, and its commit interval before that; None if unknown."""

    min_ms: int
    max_ms: int
    commit_interval_ms: float | None


@dataclass(frozen=True, slots=True)
class _MissingMember:
    """A member that the previous generation has, and `generation` doesn't have; and whether it was the only one there
    with its client ID."""

    member: RecordedMember
    previous: Generation
    generation: Generation
    has_unique_client_id: bool


@dataclass(frozen=True)
class _Return:
    """A member as which a departed member returned, the first generation with it, and how certain that is."""

    member: RecordedMember
    generation: Generation
    confidence: str


def find_departures(timeline: Timeline, thresholds: HistoryThresholds | None = None) -> list[Departure]:
    """Returns all departures, sorted by generation, then by member id. Raises HistoryTooLargeError."""
    thresholds = thresholds or HistoryThresholds()
    missing_members = [
        _MissingMember(member, previous, generation, client_ids[member.client_id] == 1)
        for previous, generation in pairwise(timeline.generations)
        for client_ids in [Counter(each.client_id for each in previous.members)]
        for member in _members_without(previous, generation)
    ]
    evidence = _CommitEvidence(timeline, thresholds)
    verdicts = [evidence.judge(missing) for missing in missing_members]
    returns = _find_returns(timeline, missing_members, verdicts, thresholds)
    return [
        _to_departure(missing, verdict, returns.get(index))
        for index, (missing, verdict) in enumerate(zip(missing_members, verdicts, strict=True))
    ]


def _members_without(generation: Generation, other: Generation) -> list[RecordedMember]:
    """Returns the members of a generation that the other generation doesn't have, sorted by member id."""
    other_ids = {member.member_id for member in other.members}
    members = (member for member in generation.members if member.member_id not in other_ids)
    return sorted(members, key=attrgetter("member_id"))


def _to_departure(missing: _MissingMember, verdict: tuple[str, str], returned: _Return | None) -> Departure:
    """Combines the verdict on a silence with the return of the member."""
    leave_type, confidence = verdict
    if returned is not None:
        is_replaced = returned.confidence == SURE and returned.generation is missing.generation
        if leave_type != CRASHED or is_replaced:
            leave_type = RESTARTED
            confidence = LIKELY if returned.confidence == SURE and not is_replaced else returned.confidence
    new_member_id = None if returned is None else returned.member.member_id
    return Departure(missing.member.member_id, missing.generation.generation_id, leave_type, confidence, new_member_id)


class _CommitEvidence:
    """What the commits of a group prove about its members."""

    def __init__(self, timeline: Timeline, thresholds: HistoryThresholds) -> None:
        self.timeline, self.thresholds, self.num_read = timeline, thresholds, 0
        ownership = values_by_key((each.member_id, each) for each in timeline.ownership if each.role == "partition")
        self.commits = {name: _MemberCommits(owned, self._find_last) for name, owned in ownership.items()}
        self.remaining_silence: dict[tuple[int, int], int] = {}

    def judge(self, missing: _MissingMember) -> tuple[str, str]:
        """Returns leave type and confidence of a departure, regardless of a return."""
        classic = self.timeline.group_type == "classic"
        member, at_ms = missing.member, missing.generation.at_ms
        session = member.session_timeout_ms or self.thresholds.session_timeout_ms
        if classic and member.group_instance_id is None and at_ms - missing.previous.at_ms < session:
            return LEFT, LIKELY  # It had just joined: its session was still running.
        skips_generations = missing.generation.generation_id - missing.previous.generation_id > 1
        if member.group_instance_id is None:
            without_evidence = UNKNOWN, GUESS
        else:
            without_evidence = CRASHED, GUESS if skips_generations else LIKELY
        silence = self._find_silence(member.member_id, at_ms)
        if silence is None:
            return without_evidence
        # The last heartbeat of a member of a consumer group can be one interval before its last commit.
        timeout = session if classic else session - min(HEARTBEAT_MS, session // 3)
        if silence.max_ms < timeout:
            is_proven = len(missing.previous.members) == 1 and classic and member.session_timeout_ms is not None
            # A session timeout that isn't on record might be shorter than assumed.
            is_late = member.session_timeout_ms is None and silence.min_ms > max(
                HEARTBEAT_MS, 2 * (silence.commit_interval_ms or 0)
            )
            return LEFT, GUESS if skips_generations or is_late else SURE if is_proven else LIKELY
        if silence.min_ms < timeout or silence.commit_interval_ms is None or 2 * silence.commit_interval_ms > session:
            return without_evidence
        if skips_generations:
            return CRASHED, GUESS
        return self._judge_long_silence(missing, silence, session)

    def _judge_long_silence(self, missing: _MissingMember, silence: _CommitSilence, session: int) -> tuple[str, str]:
        """Judges a member that used to commit and was silent for longer than its session."""
        if missing.member.group_instance_id is not None:
            return CRASHED, SURE if missing.member.session_timeout_ms is not None else LIKELY
        own_silence = silence.min_ms - self._find_remaining_silence(missing, session)
        poll_timeout = missing.member.rebalance_timeout_ms
        if poll_timeout is not None and poll_timeout > session and own_silence >= poll_timeout:
            return LEFT, LIKELY  # Its session never timed out, so it sent heartbeats: it had stopped polling.
        return CRASHED, LIKELY if session / 2 <= own_silence <= session * 3 / 2 else GUESS

    def _find_remaining_silence(self, missing: _MissingMember, session: int) -> int:
        """Returns how long the remaining members had committed nothing: the longest possible rebalance."""
        generation, previous, at_ms = missing.generation, missing.previous, missing.generation.at_ms
        key = previous.offset, generation.offset
        if key not in self.remaining_silence:
            current_ids = {member.member_id for member in generation.members}
            silences = (
                self._find_silence(member.member_id, at_ms, is_owner=True)
                for member in previous.members
                if member.member_id in current_ids
            )
            regular = (
                silence.min_ms
                for silence in silences
                if silence and silence.commit_interval_ms and 2 * silence.commit_interval_ms <= session
            )
            self.remaining_silence[key] = max(regular, default=0)
        return self.remaining_silence[key]

    def _find_silence(self, member_id: str, at_ms: int, *, is_owner: bool = False) -> _CommitSilence | None:
        """Returns the silence of a member at `at_ms`; None if nothing was committed for what it owned before.

        Args:
            is_owner: only partitions that it owns at that time count.
        """
        if member_id not in self.commits:
            return None
        last = self.commits[member_id].before(at_ms, is_owner=is_owner)
        if last.newest_ms == _NEVER:
            return None
        return _CommitSilence(at_ms - last.newest_ms, at_ms - last.oldest_ms, last.interval_ms)

    def _find_last(self, owned: OwnershipInterval, end: int) -> _LastCommits:
        """Returns the last commits up to `end` of the partitions in an interval of ownership."""
        self.num_read += len(owned.partitions)
        if self.num_read > _MAX_READ:
            problem = f"Its departures are judged by more than {_MAX_READ:,} partitions in all"
            raise HistoryTooLargeError(f"{problem}. Give records of a shorter time")
        found = _LastCommits()
        for partition in owned.partitions:
            intervals = self.timeline.commits.get((owned.topic, partition), ())
            index = bisect_right(intervals, end, key=attrgetter("start_ms")) - 1
            if index < 0:
                continue
            last = intervals[index]
            # An interval that continues has a commit within the threshold of any moment.
            newest = min(last.end_ms, end)
            oldest = newest if last.end_ms <= end else max(end - self.thresholds.commit_gap_ms, last.start_ms)
            mean_ms = _mean_commit_interval(last, intervals[index - 1] if index else None)
            is_own = newest >= owned.start_ms  # Earlier commits were another owner's.
            times = (newest, max(oldest, owned.start_ms)) if is_own else (_NEVER, _NEVER)
            found = _both(found, _LastCommits(*times, mean_ms))
        return found


_NEVER = -1 << 63


class _LastCommits(NamedTuple):
    """The last commits of some partitions: the latest one was at `oldest_ms` or later, and at `newest_ms` or earlier.

    `interval_ms` is the shortest mean time between their commits; None if none has several.
    """

    newest_ms: int = _NEVER
    oldest_ms: int = _NEVER
    interval_ms: float | None = None


def _both(one: _LastCommits, other: _LastCommits) -> _LastCommits:
    intervals = [each for each in (one.interval_ms, other.interval_ms) if each is not None]
    return _LastCommits(
        max(one.newest_ms, other.newest_ms), max(one.oldest_ms, other.oldest_ms), min(intervals, default=None)
    )


class _MemberCommits:
    """The last commits of a member at any time. A member can return ten thousand times, so what it owned until then is
    read once."""

    def __init__(
        self, ownership: Sequence[OwnershipInterval], find_last: Callable[[OwnershipInterval, int], _LastCommits]
    ) -> None:
        self._owned, self._find_last = sorted(ownership, key=attrgetter("start_ms")), find_last
        self._latest_ends = [*accumulate((_end(each) for each in self._owned), max)]
        ended = sorted((each for each in ownership if each.end_ms is not None), key=_end)
        self._ends = [_end(each) for each in ended]
        self._of_ended = [*accumulate((find_last(each, _end(each)) for each in ended), _both, initial=_LastCommits())]

    def before(self, at_ms: int, *, is_owner: bool) -> _LastCommits:
        """Returns the last commits for what the member owned before `at_ms`, or still owned then (`is_owner`)."""
        first = bisect_left(self._latest_ends, at_ms)
        started = self._owned[first : bisect_left(self._owned, at_ms, key=attrgetter("start_ms"))]
        still = (self._find_last(each, at_ms) for each in started if _end(each) >= at_ms)
        ended = _LastCommits() if is_owner else self._of_ended[bisect_left(self._ends, at_ms)]
        return reduce(_both, still, ended)


def _end(owned: OwnershipInterval) -> int:
    return -_NEVER if owned.end_ms is None else owned.end_ms


def _mean_commit_interval(interval: CommitInterval, previous: CommitInterval | None) -> float | None:
    """Returns the mean time between commits of a partition, in milliseconds; None if there is a single commit."""
    if interval.commits > 1:
        return (interval.end_ms - interval.start_ms) / (interval.commits - 1)
    return None if previous is None else interval.start_ms - previous.end_ms


# --- returns ------------------------------------------------------------------------------------------------------


def _find_returns(
    timeline: Timeline,
    missing_members: list[_MissingMember],
    verdicts: list[tuple[str, str]],
    thresholds: HistoryThresholds,
) -> dict[int, _Return]:
    """Returns, by index into `missing_members`, the return of each member that returned.

    Each new member matches at most one departed member: first by instance id, then by client id and host, then by a
    client id that no other member of the group has (a pod returns with another address), then by a shared client id.
    """
    # A member that returns after an absence arrives again.
    arrivals = [
        (member, generation)
        for previous, generation in pairwise(timeline.generations)
        for member in _members_without(generation, previous)
    ]
    arrivals.sort(key=lambda arrival: arrival[1].at_ms)
    times = [generation.at_ms for _, generation in arrivals]
    matched: set[int] = set()
    returns: dict[int, _Return] = {}
    for get_identity, can_match, confidence in _MATCHERS:
        candidates: dict[tuple[Hashable, bool], _Candidates] = defaultdict(lambda: _Candidates(matched))
        for arrival, (member, _) in enumerate(arrivals):
            candidates[get_identity(member), False].add(arrival)
            if member.group_instance_id is None:
                candidates[get_identity(member), True].add(arrival)
        for index, missing in enumerate(missing_members):
            old_member, at_ms = missing.member, missing.generation.at_ms
            identity = get_identity(old_member)
            if index in returns or identity is None or not can_match(missing):
                continue
            # After a crash, the new member can join before the session of the old one has timed out.
            crashed = verdicts[index][0] == CRASHED
            max_early_ms = (old_member.session_timeout_ms or thresholds.session_timeout_ms) if crashed else 0
            # Members that are both static differ, as their instance IDs do.
            is_dynamic = confidence != SURE and old_member.group_instance_id is not None
            first, end = bisect_left(times, at_ms - max_early_ms), bisect_right(times, at_ms + thresholds.deploy_gap_ms)
            for arrival in candidates[identity, is_dynamic].between(first, end):
                member, generation = arrivals[arrival]
                if member.member_id != old_member.member_id or generation.at_ms >= at_ms:  # It isn't its own arrival.
                    matched.add(arrival)
                    returns[index] = _Return(member, generation, confidence)
                    break
    return returns


class _Candidates:
    """Arrivals, ascending. Those that were matched are skipped at once: thousands can be at one time."""

    def __init__(self, matched: set[int]) -> None:
        self._matched = matched
        self._arrivals: list[int] = []
        self._next: list[int] = []

    def add(self, arrival: int) -> None:
        """Adds the next arrival."""
        self._arrivals.append(arrival)
        self._next.append(len(self._arrivals))

    def between(self, first: int, end: int) -> Iterator[int]:
        """Yields the arrivals from `first` to before `end` that are not matched."""
        index = bisect_left(self._arrivals, first)
        while True:
            skipped = []
            while index < len(self._arrivals) and self._arrivals[index] in self._matched:
                skipped.append(index)
                index = self._next[index]
            for each in skipped:
                self._next[each] = index
            if index == len(self._arrivals) or self._arrivals[index] >= end:
                return
            yield self._arrivals[index]
            index += 1


def _client_id_and_host(member: RecordedMember) -> Hashable:
    is_known = member.client_id is not None and member.client_host is not None
    return (member.client_id, member.client_host) if is_known else None


_MATCHERS: tuple[tuple[Callable[[RecordedMember], Hashable], Callable[[_MissingMember], bool], str], ...] = (
    (attrgetter("group_instance_id"), lambda missing: True, SURE),
    (_client_id_and_host, lambda missing: True, LIKELY),
    (attrgetter("client_id"), attrgetter("has_unique_client_id"), LIKELY),
    (attrgetter("client_id"), lambda missing: True, GUESS),
)
"""The identity that both members must share (None matches nothing), a condition of the member that is missing, and the
confidence; the most certain first."""
