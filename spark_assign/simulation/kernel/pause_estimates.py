"""What a rebalance costs in partition-seconds not consumed, as one formula per group.

`protocol.simulate` plays every message; here the same rules of time are taken at their expected values, so that a
fleet costs a few additions per group. The clock starts when the coordinator begins the rebalance; what comes before it
(a session that has to time out, a topic's new partitions that nobody has seen yet) is the same for every assignor and
not in it. With heartbeat.interval.ms H, poll interval P, n members:

    hears       a member hears of the rebalance with its heartbeat, on average H / 2 after it began
    last poll   all hear together, and the last of n polls P * n / (n + 1) after that; a member itself after P / 2
    gives up    revoke_ms for each of a member's partitions, one after the other; counted with an equal share for all

Eager: what a living member owns stops when that member polls and goes on when the last one has joined. Cooperative:
what stays does not stop; what moves stops from the end of the first round until the end of the next one, of which the
others hear with their next heartbeat, H later. What nobody living owns waits from the beginning until the end of the
first round. A new owner needs restore_ms more.

Example: three members own one partition each, one of them moves, H = 3 s, P = 0.5 s, no restoring.
    eager: 3 * (0.375 s - 0.25 s) = 0.4 partition-seconds; cooperative: 1 * (3 s + 0.375 s) = 3.4

Server side (KIP-848): nobody waits for the group. What stays does not stop. What moves stops when its owner has heard
of the new target and gives it up, until its next owner's heartbeat and poll, half an H and half a P later on average;
so long waits from the beginning what nobody living owns.

The real figure of one rebalance differs, as its heartbeats and polls do; over many they meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spark_assign.simulation.kernel.settings import Timing


@dataclass(frozen=True)
class PauseCounts:
    """Counts of one group; numbers or columns, none of them null, members at least 1.

    Attributes:
        members: after the change.
        partitions: that somebody has in the end.
        living: of those, owned by a member that is still there.
        kept: of those, that stay with it all the time.
        back: of those, that their owner gives up and gets back (cooperative: contested ones).
        later: given up in rounds after the first two (cooperative).
    """

    members: Any
    partitions: Any
    living: Any
    kept: Any
    back: Any
    later: Any


def eager_seconds(counts: PauseCounts, timing: Timing) -> Any:
    """Partition-seconds of the one round of the eager protocol."""
    n = counts.members
    gives_up = timing.revoke_ms * counts.living / n
    last_poll = timing.poll_interval_ms * n / (n + 1)
    stopped = counts.living * (last_poll - timing.poll_interval_ms / 2 + gives_up)
    unowned = (counts.partitions - counts.living) * (timing.heartbeat_interval_ms / 2 + last_poll + gives_up)
    restored = (counts.partitions - counts.kept - counts.back) * timing.restore_ms
    return (stopped + unowned + restored) / 1000


def cooperative_seconds(counts: PauseCounts, timing: Timing) -> Any:
    """Partition-seconds of all rounds of the cooperative protocol."""
    n = counts.members
    last_poll = timing.poll_interval_ms * n / (n + 1)
    given_up = counts.living - counts.kept + counts.later
    next_round = timing.heartbeat_interval_ms + last_poll + timing.revoke_ms * given_up / n
    stopped = given_up * next_round
    unowned = (counts.partitions - counts.living) * (timing.heartbeat_interval_ms / 2 + last_poll)
    restored = (counts.partitions - counts.kept - counts.back + counts.later) * timing.restore_ms
    return (stopped + unowned + restored) / 1000


def server_seconds(counts: PauseCounts, timing: Timing) -> Any:
    """Partition-seconds until everybody has its target."""
    n = counts.members
    hears = timing.heartbeat_interval_ms / 2 + timing.poll_interval_ms / 2
    given_up = counts.living - counts.kept
    stopped = given_up * (hears + timing.revoke_ms * given_up / n)
    unowned = (counts.partitions - counts.living) * hears
    restored = (counts.partitions - counts.kept) * timing.restore_ms
    return (stopped + unowned + restored) / 1000
