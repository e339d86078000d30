"""What groups are set to."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from pyspark.sql import DataFrame

from spark_assign.simulation.kernel.settings import RELEASES, Timing
from spark_assign.tables.errors import Fault, FleetError
from spark_assign.tables.schema_check import conform
from spark_assign.tables.simulation import SETTINGS_OF_GROUPS, SETTINGS_OF_MEMBERS, SETTINGS_OF_PARTITIONS

BROKER_RELEASES = tuple(RELEASES)
"""Releases of the broker that `Settings.broker_release` knows."""


@dataclass(frozen=True)
class Settings:
    """Times in milliseconds, under Kafka's own names; the defaults are Kafka's.

    Attributes:
        session_timeout_ms: a member that was not heard of for so long is out.
        heartbeat_interval_ms: a member hears of a rebalance with its next heartbeat.
        max_poll_interval_ms: a member that does not poll for so long leaves.
        rebalance_timeout_ms: so long a rebalance waits for its members; null: max_poll_interval_ms, as of consumers.
        group_initial_rebalance_delay_ms: so long an empty group waits for more members (a setting of the broker).
        metadata_max_age_ms: a consumer looks at its topics again after so long.
        poll_interval_ms: so long it is from one poll to the next: a member acts upon what it has heard when it polls.
        revoke_ms: a member needs so long to give up a partition; its partitions come one after the other.
        restore_ms: a new owner needs so long before it consumes a partition; its partitions come side by side. The one
            that consumed it last needs nothing; a static member is the same after a restart.
        broker_release: of Kafka, `4.1` to `4.4`; only KIP-848's groups differ between releases.
        group_consumer_session_timeout_ms: of KIP-848's groups, in place of session_timeout_ms (a setting of the broker,
            as the next two).
        group_consumer_heartbeat_interval_ms: the same, in place of heartbeat_interval_ms.
        group_consumer_assignment_interval_ms: so long such a group keeps a target at least; null: as broker_release has
            it, which is 1,000 since 4.3, and 0 before.
        groups: where groups differ: `tables.simulation.SETTINGS_OF_GROUPS`.
        members: strategies and instance ids of members: `SETTINGS_OF_MEMBERS`. Null columns change nothing.
        partitions: where partitions differ in revoke_ms and restore_ms: `SETTINGS_OF_PARTITIONS`.

    Raises:
        FleetError: a missing column, a wrong type.
        ValueError: a negative time, a heartbeat interval that is no less than the session timeout, an unknown release.
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
                shaped, found = conform(f"settings.{name}", table, schema)
                faults += found
                object.__setattr__(self, name, shaped)
        if faults:
            raise FleetError(faults)

    @property
    def timing(self) -> Timing:
        """The times that hold where no table says otherwise."""
        told = {each.name: getattr(self, each.name) for each in fields(Timing)}
        if told["rebalance_timeout_ms"] is None:
            told["rebalance_timeout_ms"] = self.max_poll_interval_ms
        return replace(Timing(), **told)


_TABLES = {"groups": SETTINGS_OF_GROUPS, "members": SETTINGS_OF_MEMBERS, "partitions": SETTINGS_OF_PARTITIONS}
