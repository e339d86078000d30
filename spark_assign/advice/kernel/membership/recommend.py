"""What a group is advised to do.

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

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from spark_assign.advice.kernel.membership.membership_modes import DYNAMIC, STATIC, MembershipMode
from spark_assign.advice.kernel.membership.option_grid import OptionGrid, Pause
from spark_assign.advice.kernel.membership.params import MembershipParams

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


def options(grid: OptionGrid, asked: MembershipParams) -> list[MembershipOption]:
    """All options of a group."""
    opening, found = grid.opening, []
    for way in grid.ways:
        for session in grid.sessions:
            crash = grid.crash(way, session)
            waits = asked.crashes_per_deploy * crash.partition_ms if crash else 0.0
            now = way == opening.now and session == opening.session_ms
            for restart_ms in grid.restarts:
                restart = grid.restart(way, session, restart_ms)
                found.append(
                    MembershipOption(way, session, restart_ms, now, restart, crash, restart.partition_ms + waits)
                )
    return found


def advise(
    found: Sequence[MembershipOption], asked: MembershipParams, heartbeat_ms: int, forbidden: Collection[str]
) -> MembershipChoice:
    """What a group is advised to do.

    Args:
        found: its options.
        asked: what a change has to be worth.
        heartbeat_ms: its heartbeat interval.
        forbidden: `static`, `cooperative`, or both.
    """
    for_it = [each for each in found if each.restart_ms == asked.restart_ms]
    now = next(each for each in for_it if each.now)
    sound = [each for each in for_it if each.now or _sound(each, now, asked, heartbeat_ms)]
    allowed = [each for each in sound if each.now or not _forbidden(each, now, forbidden)]
    then, wished = (_best(each, now, asked) for each in (allowed, sound))
    return MembershipChoice(_code(now, then), now, then, None if wished == then else wished)


def _sound(option: MembershipOption, now: MembershipOption, asked: MembershipParams, heartbeat_ms: int) -> bool:
    if option.way.membership == now.way.membership not in (STATIC, DYNAMIC):
        return False  # of a group that is mixed only what it is today
    if option.session_ms < min(now.session_ms, asked.least_session_ms):
        return False
    long_enough = max(asked.margin * option.restart_ms, option.restart_ms + heartbeat_ms)
    return option.way.membership == DYNAMIC or option.session_ms >= long_enough


def _forbidden(option: MembershipOption, now: MembershipOption, forbidden: Collection[str]) -> bool:
    """Whether it is one that is not allowed; what the group has already is, but for names that change."""
    static = option.way.membership == STATIC and "static" in forbidden
    return static or (not option.way.own and "cooperative" in forbidden)


def _best(allowed: Sequence[MembershipOption], now: MembershipOption, asked: MembershipParams) -> MembershipOption:
    """The least pause to expect, or what is as good with fewer changes."""
    worth = max(asked.least_gain * 1000, asked.least_share * now.expected_ms)
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
