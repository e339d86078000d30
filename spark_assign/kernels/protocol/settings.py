"""What a group is set to (`Timing`), under Kafka's own names: consumer configs and one of the broker's."""

from __future__ import annotations

from dataclasses import dataclass, fields

KAFKA_DEFAULT = ("range", "cooperative-sticky")
"""`partition.assignment.strategy` of a consumer that is not told otherwise."""

COOPERATIVE = frozenset({"cooperative-sticky"})
"""Assignors that support the cooperative protocol (`ConsumerPartitionAssignor.supportedProtocols`)."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of one group, in milliseconds.

    Attributes:
        session_timeout_ms: a member that was not heard of for so long is out (`session.timeout.ms`).
        heartbeat_interval_ms: `heartbeat.interval.ms`.
        max_poll_interval_ms: a member that does not poll for so long leaves (`max.poll.interval.ms`).
        rebalance_timeout_ms: how long a rebalance waits for members to join; a consumer's is its max.poll.interval.ms.
        group_initial_rebalance_delay_ms: how long an empty group waits for more members.
        metadata_max_age_ms: how often a consumer looks at its topics again (`metadata.max.age.ms`).
        poll_interval_ms: how long it is from one poll to the next; what a member has heard it acts upon when it polls.
        revoke_ms: what a member needs to give up a partition; its partitions come one after the other.
        restore_ms: what a new owner needs before it consumes a partition; its partitions come side by side.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    rebalance_timeout_ms: int = 300_000
    group_initial_rebalance_delay_ms: int = 3_000
    metadata_max_age_ms: int = 300_000
    poll_interval_ms: int = 0
    revoke_ms: int = 0
    restore_ms: int = 0

    def fault(self) -> str | None:
        """What is wrong with it, if anything."""
        for each in fields(self):
            value, least = getattr(self, each.name), 0 if each.name in _MAY_BE_NOTHING else 1
            if value < least:
                return f"{each.name} is {value}, expected {least} or more milliseconds"
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            return (
                f"heartbeat_interval_ms is {self.heartbeat_interval_ms}, expected less than session_timeout_ms, "
                f"{self.session_timeout_ms}"
            )
        return None


_MAY_BE_NOTHING = ("group_initial_rebalance_delay_ms", "poll_interval_ms", "revoke_ms", "restore_ms")


def is_cooperative(strategies: tuple[str, ...]) -> bool:
    """Whether a consumer with these assignors follows the cooperative protocol: all of them must support it.

    Kafka: the constructor of `ConsumerCoordinator`.
    """
    return COOPERATIVE.issuperset(strategies)
