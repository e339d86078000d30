"""Estimated pauses by hand, term by term: who waits for whom, and how long."""

from __future__ import annotations

import pytest

from spark_assign.simulation.kernel.pause_estimates import (
    PauseCounts,
    cooperative_seconds,
    eager_seconds,
    server_seconds,
)
from spark_assign.simulation.kernel.settings import TimingConfig

TIMING = TimingConfig(heartbeat_interval_ms=3_000, poll_interval_ms=500, revoke_ms=600, restore_ms=2_000)


def test_the_example() -> None:
    """Three members own one partition each, one of them moves, and nothing is revoked or restored."""
    timing = TimingConfig(heartbeat_interval_ms=3_000, poll_interval_ms=500)
    counts = PauseCounts(members=3, partitions=3, living=3, kept=2, back=0, later=0)
    assert eager_seconds(counts, timing) == 3 * (0.375 - 0.25)
    assert cooperative_seconds(counts, timing) == 3 + 0.375
    assert server_seconds(counts, timing) == 1.5 + 0.25


@pytest.mark.parametrize(
    ("changes", "eager", "cooperative", "server"),
    [
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
    ],
)
def test_each_term(changes: dict[str, int], eager: float, cooperative: float, server: float) -> None:
    """In partition-seconds."""
    given = {"members": 3, "partitions": 6, "living": 5, "kept": 3, "back": 0, "later": 0}
    counts = PauseCounts(**(given | changes))
    assert eager_seconds(counts, TIMING) == pytest.approx(eager)
    assert cooperative_seconds(counts, TIMING) == pytest.approx(cooperative)
    assert server_seconds(counts, TIMING) == pytest.approx(server)
