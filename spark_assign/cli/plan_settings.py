"""The settings of the plan job: a TOML file, and flags that win over it.

Every key is checked by name and type before Spark is started, so that a typing error costs a second and not
a run; all that is wrong is said at once (`settings_errors`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from spark_assign.cli.settings_file import from_file, validated
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import INPUT_TABLES, PLAN_TABLES

OUTPUT = "output/plan"
"""Where a plan is written if nothing is said: under the folder in which the job is called."""

if TYPE_CHECKING:
    InputTable = str
    PlanTable = str
else:
    InputTable, PlanTable = Literal[tuple(INPUT_TABLES)], Literal[tuple(PLAN_TABLES)]
Options = dict[str, str]

AsTuple = BeforeValidator(lambda given: tuple(given) if isinstance(given, list) else given)
"""TOML has lists; settings are not changed any more."""


class Table(BaseModel):
    """A table of the file: no keys but its own, no value of another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class FleetSettings(Table):
    """Where the fleet is read from; the arguments of `sources.files.tables.read_fleet`."""

    location: str | None = Field(default=None, description="folder, URI or catalog prefix of the fleet's tables")
    format: str | None = Field(default=None, description="of the files, where their names do not tell it")
    options: Options = Field(default={}, description="reader options of Spark")
    tables: dict[InputTable, str] = Field(default={}, description="single tables from elsewhere")


class OutputSettings(Table):
    """Where the plan is written; the arguments of `stores.run_store.write_run`."""

    location: str = Field(default=OUTPUT, description="folder, URI or catalog prefix for the plan")
    format: str | None = Field(default=None, description="parquet, csv, json, or any that Spark writes")
    options: Options = Field(default={}, description="writer options of Spark")
    tables: Annotated[tuple[PlanTable, ...], AsTuple] = Field(
        tuple(PLAN_TABLES), description="what to write besides metrics and rejected"
    )


class Assign(Table):
    """An entry of `[[assign]]`."""

    groups: str = Field(description="shell pattern over group ids")
    assignor: str = Field(description="by Kafka's name, or configured")


class Clients(Table):
    """An entry of `[[clients]]`."""

    groups: str = Field(description="shell pattern over group ids")
    library: str = Field(description="that leads these groups: Java, librdkafka, franz-go, …")
    version: str | None = Field(default=None, description="its release; of Java's clients 2.4 to 4.4")


class PlanSettings(Table):
    """Settings of the job plan (conf/plan.toml).

    `assign` holds the patterns in order, the first match wins; `assignor` is for the other groups. `top` is the number
    of groups in the printed summary.
    """

    assignor: str = Field(
        default="configured", description="for groups that no [[assign]] names; configured: each its own"
    )
    assign: Annotated[tuple[Assign, ...], AsTuple] = Field(
        default=(), description="assignors by pattern; first match wins"
    )
    clients: Annotated[tuple[Clients, ...], AsTuple] = Field(
        default=(), description="who leads groups, by pattern; first match wins, and wins over the snapshot"
    )
    run_id: str | None = Field(
        default=None, description="the run's name; the same again replaces it (default: the time)"
    )
    fail_on: Annotated[tuple[Literal["rejected"], ...], AsTuple] = Field(
        default=(), description="what ends with exit code 1"
    )
    top: int = Field(default=10, ge=0, description="groups in the printed summary")
    fleet: FleetSettings = FleetSettings()
    output: OutputSettings = OutputSettings(tables=tuple(PLAN_TABLES))

    @property
    def choice(self) -> str | dict[str, str]:
        """The assignor argument of `spark_assign.plan`."""
        patterns: dict[str, str] = {}
        for entry in self.assign:
            patterns.setdefault(entry.groups, entry.assignor)
        return {**patterns, "*": self.assignor} if patterns else self.assignor


def load(path: Path | None, flags: Mapping[str, Any] | None = None) -> PlanSettings:
    """Settings from a TOML file, from flags, or from both.

    Args:
        path: the file; None for none. Its relative paths start from its own folder.
        flags: overrides of the same shape as the file; None values count as not given. A `location` replaces
            the whole table that it stands in, as format and options belong to it. Patterns of
            `assign` and `clients` come before the file's.

    Raises:
        ConfigError: the file cannot be read, or a key is unknown, missing or of the wrong kind; names every fault.
    """
    settings = {} if path is None else from_file(path)
    validated(PlanSettings, settings, str(path))
    flags = {key: value for key, value in (flags or {}).items() if value is not None}
    for name in ("fleet", "output"):
        over = {key: value for key, value in flags.pop(name, {}).items() if value is not None}
        settings[name] = over if "location" in over else {**settings.get(name, {}), **over}
    for patterns in ("assign", "clients"):
        flags[patterns] = [*flags.get(patterns, []), *settings.get(patterns, [])]
    found = validated(PlanSettings, {**settings, **flags}, "the command line")
    if found.fleet.location is None and not found.fleet.tables:
        raise ConfigError(
            "there is no fleet: give --fleet PLACE (or location under [fleet]), or --sample for the sample fleet"
        )
    return found
