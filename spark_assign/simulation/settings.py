"""Settings of the groups of a simulation."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from pyspark.sql import DataFrame

from spark_assign.simulation.kernel.settings import RELEASES, Timing
from spark_assign.tables.errors import Fault, FleetError
from spark_assign.tables.schema_check import check_schema
from spark_assign.tables.simulation import SETTINGS_OF_GROUPS, SETTINGS_OF_MEMBERS, SETTINGS_OF_PARTITIONS

BROKER_RELEASES = tuple(RELEASES)
"""Releases of the broker that `Settings.broker_release` accepts."""


@dataclass(frozen=True)
class Settings:
    """Times in milliseconds, with Kafka's names and defaults.

    Attributes:
        session_timeout_ms: time without a heartbeat after which a member is removed.
        heartbeat_interval_ms: time between heartbeats. A member learns of a rebalance with its next heartbeat.
        max_poll_interval_ms: time without a poll after which a member leaves.
        rebalance_timeout_ms: maximum time that a rebalance waits for its members. None uses max_poll_interval_ms, as
            consumers do.
        group_initial_rebalance_delay_ms: time that an empty group waits for more members (a broker config).
        metadata_max_age_ms: interval at which a consumer refreshes its topics.
        poll_interval_ms: time between polls. A member reacts to messages when it polls.
        revoke_ms: time to revoke a partition. A member revokes its partitions one after the other.
        restore_ms: time before a new owner consumes a partition. A member restores its partitions in parallel. The
            last consumer of a partition needs no time; a static member stays the same after a restart.
        broker_release: the release of Kafka, `4.1` to `4.4`. Only KIP-848 groups differ between releases.
        group_consumer_session_timeout_ms: session timeout of KIP-848 groups, instead of session_timeout_ms (a broker
            config, like the next two).
        group_consumer_heartbeat_interval_ms: heartbeat interval of KIP-848 groups, instead of heartbeat_interval_ms.
        group_consumer_assignment_interval_ms: minimum time between targets of a KIP-848 group. None uses the default
            of broker_release: 1,000 since 4.3, and 0 before.
        groups: settings of single groups: `tables.simulation.SETTINGS_OF_GROUPS`.
        members: strategies and instance IDs of members: `SETTINGS_OF_MEMBERS`. Null columns change nothing.
        partitions: revoke_ms and restore_ms of single partitions: `SETTINGS_OF_PARTITIONS`.

    Raises:
        FleetError: a column is missing or has a wrong type.
        ValueError: a time is negative, the heartbeat interval isn't less than the session timeout, or the release is
            unknown.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    rebalance_timeout_ms: int | None = None
    group_initial_rebalance_delay_ms: int = 3_000
    metadata_max_age_ms: int = 300_000
    poll_interval_ms: int = 500
    revoke_ms: int = 0
    restore_ms: int = 0
    broker_release: str = "4.4"
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_assignment_interval_ms: int | None = None
    groups: DataFrame | None = None
    members: DataFrame | None = None
    partitions: DataFrame | None = None

    def __post_init__(self) -> None:
        if fault := self.timing.fault():
            raise ValueError(f"settings: {fault}")
        faults: list[Fault] = []
        for name, schema in _TABLES.items():
            table = getattr(self, name)
            if table is not None:
                checked, table_faults = check_schema(f"settings.{name}", table, schema)
                faults += table_faults
                object.__setattr__(self, name, checked)
        if faults:
            raise FleetError(faults)

    @property
    def timing(self) -> Timing:
        """Returns the times that apply unless a table overrides them."""
        times = {field.name: getattr(self, field.name) for field in fields(Timing)}
        if times["rebalance_timeout_ms"] is None:
            times["rebalance_timeout_ms"] = self.max_poll_interval_ms
        return replace(Timing(), **times)


_TABLES = {"groups": SETTINGS_OF_GROUPS, "members": SETTINGS_OF_MEMBERS, "partitions": SETTINGS_OF_PARTITIONS}
