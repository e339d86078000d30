"""What a group is set to (`Timing`), under Kafka's own names: configs of consumers and of the broker."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

KAFKA_DEFAULT = ("range", "cooperative-sticky")
"""`partition.assignment.strategy` of a consumer that is not told otherwise."""

COOPERATIVE = frozenset({"cooperative-sticky"})
"""Assignors that support the cooperative protocol (`ConsumerPartitionAssignor.supportedProtocols`)."""


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """What the broker is set to, and what differs between its releases.

    Attributes:
        session_timeout_ms: a member that was not heard of for so long is fenced
            (`group.consumer.session.timeout.ms`).
        heartbeat_interval_ms: what members are told to do (`group.consumer.heartbeat.interval.ms`).
        assignment_interval_ms: so long a target is in use at least (`group.consumer.assignment.interval.ms`); 0: a new
            one whenever it is due.
        regex_refresh_interval_ms: so often regular expressions are resolved anew
            (`group.consumer.regex.refresh.interval.ms`).
        max_size: of members (`group.consumer.max.size`).
        assignors: the first one is taken if no member prefers any (`group.consumer.assignors`).
        first_epoch: of a group without members.
        before_4_4: a change of the preferred assignor alone is no reason for a new target; a static member that is back
            counts as one more for `max_size`; whoever takes another instance id keeps the old one as well; a group that
            has lost its last member still has its last target, and the assignment interval of it to wait for.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    regex_refresh_interval_ms: int = 600_000
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    first_epoch: int = 1
    before_4_4: bool = False


RELEASES = {
    "4.1": GroupConfig(assignment_interval_ms=0, first_epoch=0, before_4_4=True),
    "4.2": GroupConfig(assignment_interval_ms=0, first_epoch=0, before_4_4=True),
    "4.3": GroupConfig(before_4_4=True),
    "4.4": GroupConfig(),
}
"""Defaults of each release of the broker."""


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
        broker_release: of Kafka; only KIP-848's groups differ between releases.
        group_consumer_session_timeout_ms, group_consumer_heartbeat_interval_ms: of KIP-848's groups, in place of
            session_timeout_ms and heartbeat_interval_ms; the broker sets them (`group.consumer.session.timeout.ms`).
        group_consumer_assignment_interval_ms: such a group keeps a target so long at least; null: as in the release.
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
    broker_release: str = "4.4"
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_assignment_interval_ms: int | None = None

    def fault(self) -> str | None:
        """What is wrong with it, if anything."""
        if self.broker_release not in RELEASES:
            return f"broker_release is {self.broker_release!r}, expected one of {', '.join(RELEASES)}"
        for each in fields(self):
            value, least = getattr(self, each.name), 0 if each.name in _MAY_BE_NOTHING else 1
            if isinstance(value, int) and value < least:
                return f"{each.name} is {value}, expected {least} or more milliseconds"
        for whose in ("", "group_consumer_"):
            beats, timeout = f"{whose}heartbeat_interval_ms", f"{whose}session_timeout_ms"
            if getattr(self, beats) >= getattr(self, timeout):
                return f"{beats} is {getattr(self, beats)}, expected less than {timeout}, {getattr(self, timeout)}"
        return None

    def group_config(self) -> GroupConfig:
        """What the broker is set to for a KIP-848 group."""
        config = RELEASES[self.broker_release]
        interval = self.group_consumer_assignment_interval_ms
        return replace(
            config,
            session_timeout_ms=self.group_consumer_session_timeout_ms,
            heartbeat_interval_ms=self.group_consumer_heartbeat_interval_ms,
            assignment_interval_ms=config.assignment_interval_ms if interval is None else interval,
        )


_MAY_BE_NOTHING = (
    "group_initial_rebalance_delay_ms",
    "poll_interval_ms",
    "revoke_ms",
    "restore_ms",
    "group_consumer_assignment_interval_ms",
)


def is_cooperative(strategies: tuple[str, ...]) -> bool:
    """Whether a consumer with these assignors follows the cooperative protocol: all of them must support it.

    Kafka: the constructor of `ConsumerCoordinator`.
    """
    return COOPERATIVE.issuperset(strategies)
