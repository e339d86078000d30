"""Which plays a group needs for all of its options, and what each option costs by them.

Every option (a way to run, a session timeout, a restart time) has a rolling restart and a crash. To play each of them
would be many plays of the same thing; what depends on what is this:

    rolling restart, dynamic   Members close and say so: no session is waited for. One play per restart time.
    rolling restart, static    Who is back before its session is over comes back to what it had, and nobody else
                               notices: what it owns waits for as long as it is away. One play serves all restart times
                               and sessions (KIP-848: one per class, as for a crash); the pause grows by the restart
                               time for each partition.
                               Who is away longer is missed: a play for each session and restart time.
    crash                      What the member owned waits until its session is over, counted from its last heartbeat;
                               then come the others' heartbeats and polls. Two sessions that differ by a multiple of
                               both intervals find them at the same places: one play per class of such sessions, the
                               pause grows by the difference for each partition that waits. Restart times do not matter.

Nobody is missed for sure if the session is longer than the restart time, closing, and one heartbeat interval, by which
the last heartbeat may precede the closing. A session in between is played as it is. Where a partition that waits for
the crashed member pauses twice, the longest pause does not simply grow: such a group is played with every session.

The member that crashes owns as many partitions as the mean member, or the nearest to it, and does so half a heartbeat
interval after the play begins.

What a group is advised to do.

What counts is the pause to expect of a deploy: that of one rolling restart, and that of a crash as often as members
crash between two deploys. The least of all options that are allowed wins.

    not allowed  static: for a library that cannot, for names that change with each restart, and with a session that the
                 restart time comes near to (`margin`); cooperative: for a library without such an assignor; a session
                 below `least_session_ms` that the group does not have today
    worth it     It has to save `least_gain` partition-seconds per deploy, and `least_share` of today's.
    little       Of all options that are within that of the best one, the one with the fewest changes.

Example: a rolling restart pauses 900 partition-seconds as it is, 200 as static with 90 s, 195 as static and cooperative
with 90 s. A crash pauses 450, and 900 with 90 s, 0.1 of them a deploy: 945 against 290 and 285. Static alone saves 655
and is worth it, cooperative beside it is not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from math import lcm

from spark_assign.advice.kernel.membership_modes import (
    DYNAMIC,
    MOST_RESTARTS,
    PAUSE_MS,
    STATIC,
    GroupSimulationInput,
    MembershipMode,
    MembershipParams,
    StableGroup,
)
from spark_assign.simulation.kernel.events import Event
from spark_assign.simulation.kernel.group_simulation import GroupSimulation
from spark_assign.simulation.kernel.ownership_log import Partition

RESTART, CRASH = "restart", "crash"


@dataclass(frozen=True)
class SimulationKey:
    """One play: `what` happens, the way the group runs, the session timeout, and how long a member is away."""

    what: str
    way: MembershipMode
    session_ms: int
    restart_ms: int = 0


@dataclass(frozen=True)
class Pause:
    """What a play cost.

    Attributes:
        partition_ms: not consumed, added up over partitions.
        longest_ms: the longest pause of a partition.
        rebalances: how many.
        waiting_once: of a crash, whether none of the partitions that waited for the session paused another time.
        longest_of_waiting_ms, others_ms: of a crash, the longest pause of those, and of the others.
    """

    partition_ms: int
    longest_ms: int
    rebalances: int
    waiting_once: bool = True
    longest_of_waiting_ms: int = 0
    others_ms: int = 0

    def longer(self, by_ms: int, partitions: int) -> Pause:
        """The same where so many partitions wait so much longer, in one pause each."""
        longest = max(self.others_ms, self.longest_of_waiting_ms + by_ms) if partitions else self.longest_ms
        return replace(self, partition_ms=self.partition_ms + by_ms * partitions, longest_ms=longest)


class OptionGrid:
    """The options of one group, and the plays that they need.

    Args:
        opening: the group.
        params: the grid.
    """

    def __init__(self, opening: StableGroup, params: MembershipParams) -> None:
        self.opening = opening
        self.sessions = params.sessions_of(opening.timing, served=opening.served)
        self.restarts = params.all_restarts_ms
        self.ways = opening.ways()
        members = opening.members()
        self.restarted = members[:MOST_RESTARTS]
        self.scale = len(members) / len(self.restarted)
        self.owned = {code for each in members for code in each.owned}
        mean = len(self.owned) / len(members)
        self.crashed = min(members, key=lambda each: (abs(len(each.owned) - mean), -len(each.owned)))
        self.has_others = len(members) > 1
        self.away = sum(len(each.owned) for each in self.restarted)
        stage = opening.stage
        self.closing = [
            sum(stage.revoke_ms.get(code, stage.timing.revoke_ms) for code in each.owned) for each in self.restarted
        ]
        self.period = lcm(opening.heartbeat_ms, opening.timing.poll_interval_ms or 1)
        self.pauses: dict[SimulationKey, Pause] = {}

    # --- what to play -----------------------------------------------------------------------------------------

    def keys(self) -> list[SimulationKey]:
        """The plays that all options need."""
        found = [self.restart_key(way, s, r) for way in self.ways for s in self.sessions for r in self.restarts]
        if self.has_others:
            found += [self.crash_key(way, session) for way in self.ways for session in self.sessions]
        return list(dict.fromkeys(found))

    def missing(self) -> Iterator[SimulationKey]:
        """The plays that turn out to be needed beside them: crashes with each session, where something pauses twice."""
        for key, pause in list(self.pauses.items()):
            if key.what == CRASH and not pause.waiting_once:
                of_class = [each for each in self.sessions if self.crash_key(key.way, each) == key]
                yield from (SimulationKey(CRASH, key.way, each) for each in of_class if each != key.session_ms)

    def restart_key(self, way: MembershipMode, session_ms: int, restart_ms: int) -> SimulationKey:
        """The play of a rolling restart."""
        if way.membership == DYNAMIC:
            return SimulationKey(RESTART, way, self.opening.session_ms, restart_ms)
        if session_ms > self._surely(restart_ms):
            same = self._same_restart(restart_ms) if way.membership == STATIC else restart_ms
            return SimulationKey(RESTART, way, self._surely(same) + 1, same)
        return SimulationKey(RESTART, way, session_ms, restart_ms)

    def _same_restart(self, restart_ms: int) -> int:
        """The restart time that is played for this one. KIP-848's members take what they had when they poll next."""
        if not self.opening.served:
            return self.restarts[0]
        return min(each for each in self.restarts if each % self.period == restart_ms % self.period)

    def crash_key(self, way: MembershipMode, session_ms: int) -> SimulationKey:
        """The play of a crash."""
        same = (each for each in self.sessions if each % self.period == session_ms % self.period)
        return SimulationKey(CRASH, way, min(same))

    def _surely(self, restart_ms: int) -> int:
        """A member that is away so long is not missed with any longer session."""
        return restart_ms + max(self.closing) + self.opening.heartbeat_ms

    def take(self, key: SimulationKey) -> GroupSimulationInput:
        """The play itself."""
        stage = self.opening.on(key.way, key.session_ms)
        if key.what == CRASH:
            return GroupSimulationInput(
                stage, [Event(self.opening.heartbeat_ms // 2, "member-crashes", self.crashed.name)]
            )
        return GroupSimulationInput(stage, self.rolling(key.restart_ms))

    def rolling(self, restart_ms: int) -> list[Event]:
        """One member after the other closes, the next one `PAUSE_MS` after the one before it is up."""
        at, events = 0, []
        for member, closing in zip(self.restarted, self.closing, strict=True):
            events.append(Event(at, "member-restarts", member.name, down_ms=restart_ms))
            at += closing + restart_ms + PAUSE_MS
        return events

    # --- what it costs ----------------------------------------------------------------------------------------

    def played(self, key: SimulationKey, play: GroupSimulation) -> None:
        """Take note of a play."""
        gone = [each for each, _ in play.group.ownership_log.closed if each.code in self.owned]
        waits = set(self.crashed.owned) if key.what == CRASH else set[int]()
        waiting = [each for each in gone if each.code in waits]
        self.pauses[key] = Pause(
            sum(each.paused_ms for each in gone),
            _longest(gone),
            len(play.group.rebalances),
            all(each.pauses == 1 for each in waiting),
            _longest(waiting),
            _longest([each for each in gone if each.code not in waits]),
        )

    def restart(self, way: MembershipMode, session_ms: int, restart_ms: int) -> Pause:
        """What a rolling restart costs; of a large group scaled to all members."""
        key = self.restart_key(way, session_ms, restart_ms)
        by_ms = restart_ms - key.restart_ms if self.away else 0
        found = self.pauses[key]
        found = replace(found, partition_ms=found.partition_ms + by_ms * self.away, longest_ms=found.longest_ms + by_ms)
        if self.scale == 1:
            return found
        scaled = round(found.partition_ms * self.scale), round(found.rebalances * self.scale)
        return replace(found, partition_ms=scaled[0], rebalances=scaled[1])

    def crash(self, way: MembershipMode, session_ms: int) -> Pause | None:
        """What a crash costs; null for a group of one member, which has nobody to take over whatever its session is."""
        if not self.has_others:
            return None
        exact = self.pauses.get(SimulationKey(CRASH, way, session_ms))
        if exact is not None:
            return exact
        key = self.crash_key(way, session_ms)
        return self.pauses[key].longer(session_ms - key.session_ms, len(self.crashed.owned))


def _longest(partitions: list[Partition]) -> int:
    return max((each.longest_pause_ms for each in partitions), default=0)


KEEP, SESSION = "keep", "session"


@dataclass(frozen=True)
class MembershipOption:
    """One way to run with one session timeout, and what a rolling restart and a crash cost then.

    Attributes:
        now: whether the group runs so.
        crash: null where nobody could take over.
        expected_ms: partition-milliseconds per deploy.
    """

    way: MembershipMode
    session_ms: int
    restart_ms: int
    now: bool
    restart: Pause
    crash: Pause | None
    expected_ms: float


@dataclass(frozen=True)
class MembershipChoice:
    """What is advised; `forgone`: what would be if nothing were forbidden, null: the same."""

    code: str
    now: MembershipOption
    then: MembershipOption
    forgone: MembershipOption | None = None


def options(grid: OptionGrid, params: MembershipParams) -> list[MembershipOption]:
    """All options of a group."""
    opening, found = grid.opening, []
    for way in grid.ways:
        for session in grid.sessions:
            crash = grid.crash(way, session)
            waits = params.crashes_per_deploy * crash.partition_ms if crash else 0.0
            now = way == opening.now and session == opening.session_ms
            for restart_ms in grid.restarts:
                restart = grid.restart(way, session, restart_ms)
                found.append(
                    MembershipOption(way, session, restart_ms, now, restart, crash, restart.partition_ms + waits)
                )
    return found


def advise(
    found: Sequence[MembershipOption], params: MembershipParams, heartbeat_ms: int, forbidden: Collection[str]
) -> MembershipChoice:
    """What a group is advised to do.

    Args:
        found: its options.
        params: what a change has to be worth.
        heartbeat_ms: its heartbeat interval.
        forbidden: `static`, `cooperative`, or both.
    """
    for_it = [each for each in found if each.restart_ms == params.restart_ms]
    now = next(each for each in for_it if each.now)
    sound = [each for each in for_it if each.now or _sound(each, now, params, heartbeat_ms)]
    allowed = [each for each in sound if each.now or not _forbidden(each, now, forbidden)]
    then, wished = (_best(each, now, params) for each in (allowed, sound))
    return MembershipChoice(_code(now, then), now, then, None if wished == then else wished)


def _sound(option: MembershipOption, now: MembershipOption, params: MembershipParams, heartbeat_ms: int) -> bool:
    if option.way.membership == now.way.membership not in (STATIC, DYNAMIC):
        return False  # of a group that is mixed only what it is today
    if option.session_ms < min(now.session_ms, params.least_session_ms):
        return False
    long_enough = max(params.margin * option.restart_ms, option.restart_ms + heartbeat_ms)
    return option.way.membership == DYNAMIC or option.session_ms >= long_enough


def _forbidden(option: MembershipOption, now: MembershipOption, forbidden: Collection[str]) -> bool:
    """Whether it is one that is not allowed; what the group has already is, but for names that change."""
    static = option.way.membership == STATIC and "static" in forbidden
    return static or (not option.way.own and "cooperative" in forbidden)


def _best(allowed: Sequence[MembershipOption], now: MembershipOption, params: MembershipParams) -> MembershipOption:
    """The least pause to expect, or what is as good with fewer changes."""
    worth = max(params.least_gain * 1000, params.least_share * now.expected_ms)
    worthy = [each for each in allowed if not each.now and now.expected_ms - each.expected_ms >= worth] or [now]
    least = min(each.expected_ms for each in worthy)
    near = [each for each in worthy if each.expected_ms == least or each.expected_ms < least + worth]
    return min(near, key=lambda each: (_changes(now, each), each.expected_ms, each.session_ms))


def _changes(now: MembershipOption, then: MembershipOption) -> int:
    if then.now:
        return 0
    return (then.way.membership != now.way.membership) + (not then.way.own) + (then.session_ms != now.session_ms)


def _code(now: MembershipOption, then: MembershipOption) -> str:
    if then.now:
        return KEEP
    changed = [then.way.membership] if then.way.membership != now.way.membership else []
    changed += [then.way.protocol] if not then.way.own else []
    return "-".join(changed) or SESSION
