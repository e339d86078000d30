"""Estimates the pause of a rebalance in partition-seconds without consumption, with one formula per group.

The simulation sends every message. These formulas use the expected values of the same times, so that a group costs a
few additions. The time starts when the coordinator starts the rebalance. Earlier delays (a session timeout, new
partitions that no member has seen) are the same for every assignor and aren't included. With heartbeat.interval.ms H,
poll interval P, and n members:

    notification  a member learns of the rebalance with its heartbeat, on average H / 2 after the start
    last poll     all members learn of it together; the last of n polls P * n / (n + 1) later, each one P / 2 later
    revocation    revoke_ms for each partition of a member, one after the other, with equal shares for all members

Eager: the partitions of a live member stop when it polls, and continue when the last member has joined. Cooperative:
kept partitions don't stop. Moved partitions stop from the end of the first round to the end of the next one, of which
the other members learn with their next heartbeat, H later. Partitions without a live owner wait from the start to the
end of the first round. A new owner needs restore_ms more.

Example: three members own one partition each, one of them moves, H = 3 s, P = 0.5 s, no restoring.
    eager: 3 * (0.375 s - 0.25 s) = 0.4 partition-seconds; cooperative: 1 * (3 s + 0.375 s) = 3.4

Server side (KIP-848): no member waits for the group, and kept partitions don't stop. A moved partition stops when its
owner learns of the new target and revokes it, until the heartbeat and the poll of its next owner, on average H / 2 and
P / 2 later. Partitions without a live owner wait for the same time from the start.

A single rebalance differs with its heartbeats and polls. The mean of many rebalances converges to the estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spark_assign.simulation.kernel.settings import TimingConfig


@dataclass(frozen=True)
class PauseCounts:
    """Counts of a group, as numbers or columns without nulls. `members` is at least 1.

    Attributes:
        members: members after the change.
        partitions: partitions with an owner at the end.
        living: partitions of those that a live member owns.
        kept: partitions of those that their owner keeps throughout.
        back: partitions of those that their owner revokes and gets again (cooperative: contested ones).
        later: partitions that are revoked after the first two rounds (cooperative).
        blocked: partitions that their owner keeps while it revokes others, summed over the rounds; 0 to ignore that a
            member in its revocation callback doesn't poll.
    """

    members: Any
    partitions: Any
    living: Any
    kept: Any
    back: Any
    later: Any
    blocked: Any = 0


def eager_seconds(counts: PauseCounts, timing: TimingConfig) -> Any:
    """Returns the partition-seconds of the single round of the eager protocol."""
    n = counts.members
    revocation = timing.revoke_ms * counts.living / n
    last_poll = timing.poll_interval_ms * n / (n + 1)
    stopped = counts.living * (last_poll - timing.poll_interval_ms / 2 + revocation)
    unowned = (counts.partitions - counts.living) * (timing.heartbeat_interval_ms / 2 + last_poll + revocation)
    restored = (counts.partitions - counts.kept - counts.back) * timing.restore_ms
    return (stopped + unowned + restored) / 1000


def cooperative_seconds(counts: PauseCounts, timing: TimingConfig) -> Any:
    """Returns the partition-seconds of all rounds of the cooperative protocol."""
    n = counts.members
    last_poll = timing.poll_interval_ms * n / (n + 1)
    revoked = counts.living - counts.kept + counts.later
    revocation = timing.revoke_ms * revoked / n
    next_round = timing.heartbeat_interval_ms + last_poll + revocation
    stopped = revoked * next_round + counts.blocked * revocation
    unowned = (counts.partitions - counts.living) * (timing.heartbeat_interval_ms / 2 + last_poll)
    restored = (counts.partitions - counts.kept - counts.back + counts.later) * timing.restore_ms
    return (stopped + unowned + restored) / 1000


def server_seconds(counts: PauseCounts, timing: TimingConfig) -> Any:
    """Returns the partition-seconds until every member has its target (KIP-848)."""
    n = counts.members
    notified = timing.heartbeat_interval_ms / 2 + timing.poll_interval_ms / 2
    revoked = counts.living - counts.kept
    revocation = timing.revoke_ms * revoked / n
    stopped = revoked * (notified + revocation) + counts.blocked * revocation
    unowned = (counts.partitions - counts.living) * notified
    restored = (counts.partitions - counts.kept) * timing.restore_ms
    return (stopped + unowned + restored) / 1000
