"""The figures derived from a few simulations equal those of one simulation per option."""

from __future__ import annotations

import random

import pytest

from spark_assign.advice.kernel.membership_modes import MembershipMode, MembershipParams, StableGroup, find_stable_group
from spark_assign.advice.kernel.membership_options import CRASH, RESTART, OptionGrid, Pause
from spark_assign.simulation.kernel.events import Event
from spark_assign.simulation.kernel.settings import TimingConfig
from tests.sizes import drawn
from tests.unit.protocol_plays import COOPERATIVE, EAGER, STICKY, modern, play, stage

PARAMS = MembershipParams(restart_times_ms=(5_000, 17_300, 120_000))


def full(
    group: StableGroup, grid: OptionGrid, event: str, mode: MembershipMode, session_ms: int, restart_time_ms: int
) -> tuple[int, int, int]:
    """One option by itself, with the events that `simulate` has for it."""
    begun = group.with_mode(mode, session_ms)
    if event == CRASH:
        found = play(begun, Event(group.heartbeat_ms // 2, "member-crashes", grid.crashed.name))
    elif max(grid.closing) == 0:
        found = play(begun, Event(0, "rolling-restart", down_ms=restart_time_ms))
    else:
        found = play(begun, *grid.rolling_restart(restart_time_ms))
    partitions = [partition for partition, _ in found.group.ownership_log.closed]
    longest = max(partition.longest_pause_ms for partition in partitions)
    return sum(partition.paused_ms for partition in partitions), longest, len(found.group.rebalances)


def random_opening(rng: random.Random) -> StableGroup:
    """A group of one to six members, of any kind."""
    names = [f"m{rng.randrange(10**6)}-{number}" for number in range(rng.randint(1, 6))]
    owned: dict[str, list[int]] = {name: [] for name in names}
    for partition in range(rng.randint(1, 14)):
        owned[rng.choice(names)].append(partition)
    timing = TimingConfig(
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
    return find_stable_group(made)


def grid_of(group: StableGroup, params: MembershipParams = PARAMS) -> OptionGrid:
    """Returns the grid after all simulations that it needs."""
    grid = OptionGrid(group, params)
    for keys in (grid.keys, grid.missing):
        for key in list(keys()):
            state, events = grid.simulation_input(key)
            grid.record(key, play(state, *events))
    return grid


@pytest.mark.parametrize("number", range(drawn(2, 6)))
def test_the_short_way_is_the_long_way(number: int, seed: int) -> None:
    """Every figure of every option of random groups."""
    group = random_opening(random.Random(f"{seed}-{number}"))
    grid = grid_of(group)
    for mode in grid.modes:
        for session in grid.sessions:
            for restart in grid.restarts:
                found = grid.restart(mode, session, restart)
                assert figures(found) == full(group, grid, RESTART, mode, session, restart), (mode, session, restart)
            crash = grid.crash(mode, session)
            if crash is not None:
                assert figures(crash) == full(group, grid, CRASH, mode, session, 0), (mode, session)


def figures(pause: Pause) -> tuple[int, int, int]:
    """Returns the compared figures."""
    return pause.partition_ms, pause.longest_ms, pause.rebalances
