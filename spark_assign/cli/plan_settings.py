"""Settings of the plan job: a TOML file, and flags that take precedence over it.

Names and types of all keys are checked before Spark starts, and all faults are reported at once (`settings_errors`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from click.core import ParameterSource
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from spark_assign.cli.locations import require_format, require_input
from spark_assign.cli.owners import check_owners
from spark_assign.cli.settings_file import from_file, validated
from spark_assign.cli.settings_model import TABLES
from spark_assign.tables.connect import INPUT_TABLES as CONNECT_TABLES
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import INPUT_TABLES
from spark_assign.tables.stored_plan import CONNECT, STORED_PLAN_TABLES
from spark_assign.tables.streams import TASK_ASSIGNORS

_INPUT_TABLES = (*INPUT_TABLES, *(f"{CONNECT}{name}" for name in CONNECT_TABLES))

COMMAND = ("plan",)
OUTPUT = "output/plan"
"""Default location of a plan, relative to the working folder."""

if TYPE_CHECKING:
    from spark_assign.comparison.what_if import WhatIf

    InputTable = str
    PlanTable = str
    StreamsAssignor = str
else:
    InputTable, PlanTable = Literal[_INPUT_TABLES], Literal[tuple(STORED_PLAN_TABLES)]
    StreamsAssignor = Literal[TASK_ASSIGNORS]
Options = dict[str, str]

AsTuple = BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)
"""Converts TOML's lists to tuples: settings are immutable."""


class Table(BaseModel):
    """Base class of the tables of the file: other keys and other types are faults."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class FleetSettings(Table):
    """Input tables; the arguments of `cli.plan_kinds.read_fleets`."""

    location: str | None = Field(default=None, description="Folder, URI, or catalog prefix of the fleet's tables.")
    format: str | None = Field(default=None, description="Format of the files (default: by file name).")
    options: Options = Field(default={}, description="Reader options of Spark.")
    tables: dict[InputTable, str] = Field(default={}, description="Locations of single tables.")


class OutputSettings(Table):
    """Output tables; the arguments of `stores.run_store.write_run`."""

    location: str = Field(default=OUTPUT, description="Folder, URI, or catalog prefix for the plan.")
    format: str | None = Field(default=None, description="Format: parquet (default), csv, json, or any other of Spark.")
    options: Options = Field(default={}, description="Writer options of Spark.")
    tables: Annotated[tuple[PlanTable, ...], AsTuple] = Field(
        tuple(STORED_PLAN_TABLES), description="Tables to write in addition to metrics and rejected (default: all)."
    )


class GroupAssignorSettings(Table):
    """An entry of `[[group_assignor]]`."""

    groups: str = Field(description="Shell pattern of group IDs.")
    assignor: str = Field(description="Name of an assignor, or configured.")


class LeaderClientSettings(Table):
    """An entry of `[[leader_client]]`."""

    groups: str = Field(description="Shell pattern of group IDs.")
    library: str = Field(description="Client library of the leader: Java, librdkafka, franz-go, …")
    version: str | None = Field(default=None, description="Version of the library; for Java 2.4 to 4.4.")


class PlanSettings(Table):
    """Settings of the job plan (conf/plan.toml)."""

    assignor: str = Field(
        default="configured",
        description="Assignor for all groups that no [[group_assignor]] matches; configured: the current one of each.",
    )
    group_assignor: Annotated[tuple[GroupAssignorSettings, ...], AsTuple] = Field(
        default=(), description="Assignors by pattern. The first matching pattern wins."
    )
    leader_client: Annotated[tuple[LeaderClientSettings, ...], AsTuple] = Field(
        default=(),
        description="Client library of the leader, by pattern. The first match wins, also over the snapshot.",
    )
    streams_assignor: StreamsAssignor = Field(default=TASK_ASSIGNORS[0], description="Assignor of Streams groups.")
    standby_replicas: int | None = Field(
        default=None, ge=0, description="Standby replicas per task with state (default: as each group is configured)."
    )
    restore_bytes_per_second: float | None = Field(
        default=None,
        gt=0,
        description="What a process restores from changelogs. With it, classic Streams applications are followed until "
        "every task is at its final owner (default: only the next rebalance).",
    )
    what_if: Annotated[tuple[str, ...], AsTuple] = Field(
        default=(), description="Changes of the groups to apply before planning, in order."
    )
    run_id: str | None = Field(
        default=None, description="Name of the run; replaces an existing run of that name (default: the current time)."
    )
    fail_on: Annotated[tuple[Literal["rejected"], ...], AsTuple] = Field(
        default=(), description="Conditions for exit code 1."
    )
    group: Annotated[tuple[str, ...], AsTuple] = Field(
        default=(), description="Plan only groups with an ID that matches one of these patterns."
    )
    owners: str | None = Field(default=None, description="Owners of groups: a TOML file with [[owners]], or a table.")
    owner: Annotated[tuple[str, ...], AsTuple] = Field(
        default=(), description="Plan only groups of teams that match one of these patterns."
    )
    top: int = Field(default=10, ge=0, description="Maximum number of groups in the printed summary.")
    fleet: FleetSettings = FleetSettings()
    output: OutputSettings = OutputSettings(tables=tuple(STORED_PLAN_TABLES))

    @property
    def changes(self) -> list[WhatIf]:
        """The changes to apply before planning.

        Raises:
            ConfigError: a change is invalid.
        """
        if not self.what_if:
            return []
        from spark_assign.comparison.what_if import parse_what_if

        return [parse_what_if(text) for text in self.what_if]

    def check(self) -> None:
        """Checks what can be known before Spark starts: names, changes, owners, and the locations of the input.

        Raises:
            ConfigError, FleetError: a setting is wrong.
        """
        _ = self.changes
        if self.choice != "configured" or self.leader_client:  # other names take longer to import than to check
            from spark_assign.cli.job_names import check_assignors
            from spark_assign.comparison.what_if import require_client

            check_assignors([self.assignor, *(entry.assignor for entry in self.group_assignor)], or_configured=True)
            for client in self.leader_client:
                require_client(client.library, client.version)
        for location in filter(None, (self.fleet.location, *self.fleet.tables.values(), self.owners)):
            require_input(location)
        for name in (self.fleet.format, self.output.format):
            require_format(name)
        check_owners(self.owners, self.owner)

    @property
    def choice(self) -> str | dict[str, str]:
        """The argument `assignor` of `spark_assign.plan`."""
        patterns: dict[str, str] = {}
        for entry in self.group_assignor:
            patterns.setdefault(entry.groups, entry.assignor)
        return {**patterns, "*": self.assignor} if patterns else self.assignor


def is_given(options: SimpleNamespace) -> bool:
    """Checks whether an option is on the command line, or a fleet or settings come from elsewhere."""
    given = options.given
    is_fleet = bool({"fleet", "table", "sample", "config"} & set(given))
    by_flag = any(source is ParameterSource.COMMANDLINE for source in given.values())
    return is_fleet or by_flag or bool(options.config and from_file(options.config, COMMAND))


def as_flags(path: Path, *_: Any) -> dict[str, Any]:
    """Returns the settings of a file by the name of their flags.

    Raises:
        ConfigError: the file can't be read, or has faults.
    """
    settings = from_file(path, COMMAND)
    given = validated(PlanSettings, settings, str(path)).model_dump(exclude_unset=True)
    flags = {**TABLES, "output": {**TABLES["output"], "tables": "output_tables"}}
    tables = {name: given.pop(name, {}) for name in flags}
    return given | {flags[name][key]: value for name, table in tables.items() for key, value in table.items()}


def load(path: Path | None, flags: Mapping[str, Any] | None = None) -> PlanSettings:
    """Returns the settings from a TOML file, from flags, or from both.

    Args:
        path: the file, from whose folder its relative paths start; None: no file.
        flags: overrides in the shape of the file; None values aren't given. A `location` replaces its complete table,
            because format and options belong to it. Patterns of flags precede those of the file.

    Raises:
        ConfigError: the file can't be read, or has faults. The message lists every fault.
    """
    settings = {} if path is None else from_file(path, COMMAND)
    validated(PlanSettings, settings, str(path))
    flags = {key: value for key, value in (flags or {}).items() if value is not None}
    for name in ("fleet", "output"):
        overrides = {key: value for key, value in flags.pop(name, {}).items() if value is not None}
        settings[name] = overrides if "location" in overrides else {**settings.get(name, {}), **overrides}
    for name in ("group_assignor", "leader_client"):
        flags[name] = [*flags.get(name, []), *settings.get(name, [])]
    merged = validated(PlanSettings, {**settings, **flags}, "the command line")
    if merged.fleet.location is None and not merged.fleet.tables:
        raise ConfigError(
            "No fleet given. Use --fleet LOCATION (or location in [fleet]), or --sample for the bundled sample fleet."
        )
    return merged
