"""What few plays tell of a grid of options is what each option, played, tells."""

from __future__ import annotations

import random

import pytest

from spark_assign.advice.kernel.membership_modes import (
    GroupSimulationInput,
    MembershipMode,
    MembershipParams,
    StableGroup,
    opened,
)
from spark_assign.advice.kernel.membership_options import CRASH, RESTART, OptionGrid, Pause
from spark_assign.simulation.kernel.events import Event
from spark_assign.simulation.kernel.settings import Timing
from tests.sizes import drawn
from tests.unit.protocol_plays import COOPERATIVE, EAGER, STICKY, modern, play, stage

ASKED = MembershipParams(Timing(), restarts_ms=(5_000, 17_300, 120_000))


def full(
    opening: StableGroup, grid: OptionGrid, what: str, way: MembershipMode, session_ms: int, restart_ms: int
) -> tuple[int, int, int]:
    """One option by itself, with the events that `simulate` has for it."""
    begun = opening.on(way, session_ms)
    if what == CRASH:
        at_ms = opening.heartbeat_ms // 2
        found = play(begun, Event(at_ms, "member-crashes", grid.crashed.name))
    elif max(grid.closing) == 0:
        found = play(begun, Event(0, "rolling-restart", down_ms=restart_ms))
    else:
        found = play(begun, *grid.rolling(restart_ms))
    gone = [each for each, _ in found.group.ownership_log.closed]
    longest = max(each.longest_pause_ms for each in gone)
    return sum(each.paused_ms for each in gone), longest, len(found.group.rebalances)


def random_opening(rng: random.Random) -> StableGroup:
    """A group of one to six members, of any kind."""
    names = [f"m{rng.randrange(10**6)}-{number}" for number in range(rng.randint(1, 6))]
    owned: dict[str, list[int]] = {name: [] for name in names}
    for partition in range(rng.randint(1, 14)):
        owned[rng.choice(names)].append(partition)
    timing = Timing(
        heartbeat_interval_ms=rng.choice((1_000, 3_000)),
        poll_interval_ms=rng.choice((0, 100, 500)),
        revoke_ms=rng.choice((0, 0, 300)),
        restore_ms=rng.choice((0, 2_000, 25_000)),
        session_timeout_ms=rng.choice((45_000, 30_000)),
    )
    if rng.random() < 0.3:
        made = modern(owned, timing=timing)
    else:
        made = stage(owned, rng.choice((EAGER, COOPERATIVE, STICKY, ("range", "cooperative-sticky"))), timing=timing)
    static = rng.choice((0, 0, len(names), len(names) // 2))
    for member in list(made.members)[:static]:
        member.group_instance_id = f"i-{member.name}"
    return opened(made)


def grid_of(opening: StableGroup, asked: MembershipParams = ASKED) -> OptionGrid:
    """With all plays that it asks for."""
    grid = OptionGrid(opening, asked)
    for keys in (grid.keys, grid.missing):
        for key in list(keys()):
            take: GroupSimulationInput = grid.take(key)
            grid.played(key, play(take.opened, *take.events))
    return grid


@pytest.mark.parametrize("number", range(drawn(2, 6)))
def test_the_short_way_is_the_long_way(number: int, seed: int) -> None:
    """Every figure of every option of random groups."""
    opening = random_opening(random.Random(f"{seed}-{number}"))
    grid = grid_of(opening)
    for way in grid.ways:
        for session in grid.sessions:
            for restart in grid.restarts:
                found = grid.restart(way, session, restart)
                assert figures(found) == full(opening, grid, RESTART, way, session, restart), (way, session, restart)
            crash = grid.crash(way, session)
            if crash is not None:
                assert figures(crash) == full(opening, grid, CRASH, way, session, 0), (way, session)


def figures(pause: Pause) -> tuple[int, int, int]:
    """Those that are told."""
    return pause.partition_ms, pause.longest_ms, pause.rebalances
