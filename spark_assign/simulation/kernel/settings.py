"""Settings of a simulated group, with Kafka's names: configs of consumers and of the broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any

from spark_assign.assignors.release_rules import broker_releases, release_bounds
from spark_assign.simulation.kernel.events import MAX_MS
from spark_assign.tables.parameters import Param

KAFKA_DEFAULT = ("range", "cooperative-sticky")
"""The default of `partition.assignment.strategy`."""

COOPERATIVE = frozenset({"cooperative-sticky"})
"""Assignors that support the cooperative protocol (`ConsumerPartitionAssignor.supportedProtocols`)."""


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """The configs of the broker, and the differences between its releases.

    Attributes:
        session_timeout_ms: time without a heartbeat after which a member is fenced
            (`group.consumer.session.timeout.ms`).
        heartbeat_interval_ms: the interval that members get (`group.consumer.heartbeat.interval.ms`).
        assignment_interval_ms: minimum time between targets (`group.consumer.assignment.interval.ms`). 0 means no
            minimum.
        regex_refresh_interval_ms: interval at which regular expressions are resolved again
            (`group.consumer.regex.refresh.interval.ms`).
        max_size: maximum number of members (`group.consumer.max.size`).
        assignors: the first one is the default if no member prefers any (`group.consumer.assignors`).
        first_epoch: the epoch of a group without members.
        before_4_4: a change of only the preferred assignor doesn't cause a new target; a static member that returns
            counts as an additional member for `max_size`; a member with a new instance ID also keeps the old one; a
            group that has lost its last member keeps its last target, and waits for its assignment interval.
        trims: whether partitions of topics that a member no longer subscribes to leave its assignment at once (4.2).
        returns_revoked: whether a member gets back at once what it was about to give up (KAFKA-19449, 4.1.2).
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    regex_refresh_interval_ms: int = 600_000
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    first_epoch: int = 1
    before_4_4: bool = False
    trims: bool = True
    returns_revoked: bool = True


RELEASES = {
    "4.1": GroupConfig(assignment_interval_ms=0, first_epoch=0, before_4_4=True, trims=False),
    "4.2": GroupConfig(assignment_interval_ms=0, first_epoch=0, before_4_4=True),
    "4.3": GroupConfig(before_4_4=True),
    "4.4": GroupConfig(),
}
"""Defaults of each release of the broker; those of 4.1 are for 4.1.2."""


BROKER_RELEASES = broker_releases(min(RELEASES))
"""Values of `broker_release`."""


BROKER_LIMITS = {
    "session_timeout_ms": ("group", "session.timeout.ms", 6_000, 1_800_000),
    "group_consumer_session_timeout_ms": ("group.consumer", "session.timeout.ms", 45_000, 60_000),
    "group_consumer_heartbeat_interval_ms": ("group.consumer", "heartbeat.interval.ms", 5_000, 15_000),
}
"""Times that brokers limit: what surrounds `min` or `max` in the name of the limit, and the defaults of both limits, in
milliseconds."""


@dataclass(frozen=True, slots=True)
class TimingConfig:
    """Times of one group, in milliseconds, with Kafka's names and defaults.

    Attributes:
        session_timeout_ms: time without a heartbeat after which a member is removed (`session.timeout.ms`).
        heartbeat_interval_ms: time between heartbeats (`heartbeat.interval.ms`). A member learns of a rebalance from
            the response to its next heartbeat.
        max_poll_interval_ms: time without a poll after which a member leaves (`max.poll.interval.ms`).
        rebalance_timeout_ms: maximum time that a rebalance waits for members to join (default: max.poll.interval.ms, as
            for consumers).
        group_initial_rebalance_delay_ms: time that an empty group waits for more members
            (`group.initial.rebalance.delay.ms` of the broker).
        metadata_max_age_ms: interval at which a consumer refreshes its topics (`metadata.max.age.ms`).
        poll_interval_ms: time between polls. A member reacts to messages when it polls.
        revoke_ms: time to revoke a partition. A member revokes its partitions one after the other.
        restore_ms: time before a new owner consumes a partition. A member restores its partitions in parallel. The
            last consumer of a partition needs no time; a static member stays the same after a restart.
        broker_release: release of the brokers, 4.1 to 4.4, or with a patch, such as 4.1.1. Only KIP-848 groups differ
            between releases.
        group_consumer_heartbeat_interval_ms: time between heartbeats of KIP-848 groups
            (`group.consumer.heartbeat.interval.ms` of the broker).
        group_consumer_session_timeout_ms: session timeout of KIP-848 groups
            (`group.consumer.session.timeout.ms` of the broker).
        group_consumer_assignment_interval_ms: minimum time between targets of a KIP-848 group
            (`group.consumer.assignment.interval.ms` of the broker; default: 1s, or 0 before Kafka 4.3).
    """

    session_timeout_ms: Annotated[int, Param()] = 45_000
    heartbeat_interval_ms: Annotated[int, Param()] = 3_000
    max_poll_interval_ms: Annotated[int, Param()] = 300_000
    rebalance_timeout_ms: Annotated[int, Param()] = 300_000
    group_initial_rebalance_delay_ms: Annotated[int, Param()] = 3_000
    metadata_max_age_ms: Annotated[int, Param()] = 300_000
    poll_interval_ms: Annotated[int, Param()] = 0
    revoke_ms: Annotated[int, Param(flag="revoke_time")] = 0
    restore_ms: Annotated[int, Param(flag="restore_time")] = 0
    broker_release: Annotated[str, Param(choices=BROKER_RELEASES, metavar="RELEASE")] = "4.4"
    group_consumer_heartbeat_interval_ms: Annotated[int, Param()] = 5_000
    group_consumer_session_timeout_ms: Annotated[int, Param()] = 45_000
    group_consumer_assignment_interval_ms: Annotated[int | None, Param()] = None

    def fault(self) -> str | None:
        """Returns the fault of the settings, or None."""
        if self.broker_release not in BROKER_RELEASES:
            return f"broker_release is {self.broker_release!r}, expected one of {', '.join(RELEASES)}, or their patches"
        for field in fields(self):
            value, minimum = getattr(self, field.name), 0 if field.name in _CAN_BE_ZERO else 1
            if isinstance(value, int) and value < minimum:
                return f"{field.name} is {value}, expected {minimum} or more milliseconds"
            if isinstance(value, int) and value > MAX_MS:
                return f"{field.name} is {value:,}, expected at most {MAX_MS:,} milliseconds"
        for prefix in ("", "group_consumer_"):
            beat, timeout = f"{prefix}heartbeat_interval_ms", f"{prefix}session_timeout_ms"
            if getattr(self, beat) >= getattr(self, timeout):
                return f"{beat} is {getattr(self, beat)}, expected less than {timeout}, {getattr(self, timeout)}"
        return None

    def refusals(self) -> list[str]:
        """Returns a sentence for each time that brokers refuse by default (`BROKER_LIMITS`)."""
        found = []
        for name, (prefix, setting, lowest, highest) in BROKER_LIMITS.items():
            value = getattr(self, name)
            if not lowest <= value <= highest:
                end, limit = ("min", lowest) if value < lowest else ("max", highest)
                found.append(f"Brokers refuse {name} {value} unless {prefix}.{end}.{setting} is changed from {limit}.")
        return found

    def with_exceptions(self, times: Mapping[str, int | None]) -> TimingConfig:
        """Returns the times of a group, some of which can differ. A rebalance waits for max_poll_interval_ms."""
        known: dict[str, Any] = {name: value for name, value in times.items() if value is not None}
        if "max_poll_interval_ms" in known:
            known.setdefault("rebalance_timeout_ms", known["max_poll_interval_ms"])
        return replace(self, **known)

    def group_config(self) -> GroupConfig:
        """Returns the broker's configs for a KIP-848 group."""
        config = RELEASES[self.broker_release[:3]]
        if release_bounds(self.broker_release)[1] < (4, 1, 2):
            config = replace(config, returns_revoked=False)
        interval = self.group_consumer_assignment_interval_ms
        return replace(
            config,
            session_timeout_ms=self.group_consumer_session_timeout_ms,
            heartbeat_interval_ms=self.group_consumer_heartbeat_interval_ms,
            assignment_interval_ms=config.assignment_interval_ms if interval is None else interval,
        )


GROUP_TIMES = tuple(field.name for field in fields(TimingConfig) if field.name != "broker_release")
"""Times that can differ from group to group (`tables.simulation.GROUP_SETTINGS`)."""

_CAN_BE_ZERO = (
    "group_initial_rebalance_delay_ms",
    "poll_interval_ms",
    "revoke_ms",
    "restore_ms",
    "group_consumer_assignment_interval_ms",
)


def is_cooperative(strategies: tuple[str, ...]) -> bool:
    """Checks whether a consumer with these assignors uses the cooperative protocol. All of them must support it.

    See the constructor of Kafka's `ConsumerCoordinator`.
    """
    return COOPERATIVE.issuperset(strategies)
