"""Public settings of a simulation."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

from pyspark.sql import DataFrame

from spark_assign.simulation.kernel.settings import GROUP_TIMES as GROUP_TIMES
from spark_assign.simulation.kernel.settings import TimingConfig
from spark_assign.tables.errors import ConfigError, Fault, FleetError
from spark_assign.tables.parameters import Param, find_fault
from spark_assign.tables.schema_check import check_schema
from spark_assign.tables.simulation import GROUP_SETTINGS, MEMBER_SETTINGS, PARTITION_SETTINGS

SETTINGS_TABLES = {"groups": GROUP_SETTINGS, "members": MEMBER_SETTINGS, "partitions": PARTITION_SETTINGS}


@dataclass(frozen=True)
class Settings(TimingConfig):
    """Times of all groups, in milliseconds, and tables of exceptions.

    The times are the fields of `TimingConfig`: `session_timeout_ms`, `heartbeat_interval_ms`, and so on. If
    `rebalance_timeout_ms` is None, it is `max_poll_interval_ms`.

    Attributes:
        groups: times of single groups (`tables.simulation.GROUP_SETTINGS`).
        members: assignors and instance IDs of single members (`MEMBER_SETTINGS`).
        partitions: revoke_ms and restore_ms of single partitions (`PARTITION_SETTINGS`). In all tables, null means the
            default.

    Raises:
        FleetError: a column is missing or has a wrong type.
        ConfigError: a time is negative or not finite, a heartbeat interval isn't less than its session timeout, or the
            release is unknown.
    """

    rebalance_timeout_ms: Annotated[int | None, Param()] = None  # type: ignore[assignment]
    poll_interval_ms: Annotated[int, Param()] = 500
    groups: DataFrame | None = None
    members: DataFrame | None = None
    partitions: DataFrame | None = None

    def __post_init__(self) -> None:
        if fault := find_fault(self) or self.timing.fault():
            raise ConfigError(f"settings: {fault}")
        faults: list[Fault] = []
        for name, schema in SETTINGS_TABLES.items():
            table = getattr(self, name)
            if table is not None:
                checked, table_faults = check_schema(f"settings.{name}", table, schema)
                faults += table_faults
                object.__setattr__(self, name, checked)
        if faults:
            raise FleetError(faults)

    @property
    def timing(self) -> TimingConfig:
        """Returns the times of groups without exceptions."""
        times = {field.name: getattr(self, field.name) for field in fields(TimingConfig)}
        if self.rebalance_timeout_ms is None:
            times["rebalance_timeout_ms"] = self.max_poll_interval_ms
        return TimingConfig(**times)

    def require_no_tables(self, function: str) -> None:
        """Raises a ConfigError if there are settings of single groups, members, or partitions."""
        if tables := [name for name in SETTINGS_TABLES if getattr(self, name) is not None]:
            names = ", ".join(tables)
            raise ConfigError(f"{function} uses the same times for all groups. Remove {names} from the settings.")
