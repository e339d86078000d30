"""Estimated pauses by hand, term by term: who waits for whom, and how long."""

from __future__ import annotations

from statistics import mean
from uuid import NAMESPACE_OID, uuid5

import pytest

from spark_assign.simulation.kernel import pause_estimates
from spark_assign.simulation.kernel.settings import TimingConfig
from tests.cases import cases
from tests.unit.protocol_plays import COOPERATIVE, STICKY, at, owners, pauses, play, stage

TIMING = TimingConfig(heartbeat_interval_ms=3_000, poll_interval_ms=500, revoke_ms=600, restore_ms=2_000)


def test_the_example() -> None:
    """Three members own one partition each, one of them moves, and nothing is revoked or restored."""
    timing = TimingConfig(heartbeat_interval_ms=3_000, poll_interval_ms=500)
    counts = pause_estimates.PauseCounts(members=3, partitions=3, living=3, kept=2, back=0, later=0)
    assert pause_estimates.eager_seconds(counts, timing) == 3 * (0.375 - 0.25)
    assert pause_estimates.cooperative_seconds(counts, timing) == 3 + 0.375
    assert pause_estimates.server_seconds(counts, timing) == 1.5 + 0.25


@cases(
    "changes eager cooperative server",
    # Six partitions, one of them without a live owner. Of the others, three are kept and two are moved.
    (
        {},
        # Five stop from their polls to the last one (375 ms) and while members revoke five thirds each (1 s); one
        # stops from the start. Three need restoring.
        5 * (0.375 - 0.25 + 1.0) + (1.5 + 0.375 + 1.0) + 3 * 2.0,
        # Two stop for a heartbeat and the last poll while members revoke two thirds each.
        2 * (3.0 + 0.375 + 0.4) + (1.5 + 0.375) + 3 * 2.0,
        2 * (1.5 + 0.25 + 0.4) + (1.5 + 0.25) + 3 * 2.0,
    ),
    # One of the two returns to its owner, which needs no restoring; the broker moves nothing to and fro.
    ({"back": 1}, 5 * 1.125 + 2.875 + 2 * 2.0, 2 * 3.775 + 1.875 + 2 * 2.0, 2 * 2.15 + 1.75 + 3 * 2.0),
    # The three that are kept stop while the members revoke two thirds each.
    ({"blocked": 3}, 5 * 1.125 + 2.875 + 3 * 2.0, 2 * 3.775 + 1.875 + 3 * 2.4, 2 * 2.15 + 1.75 + 3 * 2.4),
    # One more is revoked in a later round: three stop while members revoke one each, and it is restored again.
    ({"later": 1}, 5 * 1.125 + 2.875 + 3 * 2.0, 3 * 3.975 + 1.875 + 4 * 2.0, 2 * 2.15 + 1.75 + 3 * 2.0),
)
def test_each_term(changes: dict[str, int], eager: float, cooperative: float, server: float) -> None:
    """In partition-seconds."""
    counts = pause_estimates.PauseCounts(
        **({"members": 3, "partitions": 6, "living": 5, "kept": 3, "back": 0, "later": 0} | changes)
    )
    assert pause_estimates.eager_seconds(counts, TIMING) == pytest.approx(eager)
    assert pause_estimates.cooperative_seconds(counts, TIMING) == pytest.approx(cooperative)
    assert pause_estimates.server_seconds(counts, TIMING) == pytest.approx(server)


@cases(
    "strategies event seconds num_restored",
    # Of 24 partitions of four members, each waits from its member's poll to the last of five (417 ms - 250 ms).
    (STICKY, "member-starts", 4.0, 4),
    # 18 partitions of three members wait for 375 ms - 250 ms, six for half a heartbeat and the last poll.
    (STICKY, "member-leaves", 2.25 + 6 * 1.875, 6),
    # Four partitions stop until the next heartbeat and the last of five polls.
    (COOPERATIVE, "member-starts", 4 * 3.4167, 4),
    # Only those without an owner wait.
    (COOPERATIVE, "member-leaves", 6 * 1.875, 6),
)
@pytest.mark.parametrize("restore_ms", [0, 2_000])
def test_the_mean_pause_of_many_rebalances(
    strategies: tuple[str, ...], event: str, seconds: float, num_restored: int, restore_ms: int
) -> None:
    """Simulated groups of four members with six partitions each, and the estimate, against a calculation by hand.

    The groups differ in their members' IDs, and so in their polls, and in the moment between two heartbeats.
    """
    timing = TimingConfig(heartbeat_interval_ms=3_000, poll_interval_ms=500, restore_ms=restore_ms)
    expected = seconds + num_restored * restore_ms / 1000
    leaves = event == "member-leaves"
    simulated = []
    for number in range(60):
        names = [str(uuid5(NAMESPACE_OID, f"{number} {each}")) for each in range(4)]
        owned = {name: list(range(6 * each, 6 * each + 6)) for each, name in enumerate(names)}
        happens = at(9_000 + 50 * number, event, names[0] if leaves else f"joiner-{number}")
        played = play(stage(owned, strategies, timing=timing), happens)
        assert len({*owners(played).values()}) == (3 if leaves else 5)
        simulated.append(sum(pauses(played).values()) / 1000)
    assert mean(simulated) == pytest.approx(expected, rel=0.1)
    counts = (
        pause_estimates.PauseCounts(members=3, partitions=24, living=18, kept=18, back=0, later=0)
        if leaves
        else pause_estimates.PauseCounts(members=5, partitions=24, living=24, kept=20, back=0, later=0)
    )
    estimate = pause_estimates.eager_seconds if strategies == STICKY else pause_estimates.cooperative_seconds
    assert estimate(counts, timing) == pytest.approx(expected, rel=1e-4)
