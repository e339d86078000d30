"""Filters by group and by owner: which team a group belongs to, by shell patterns of its cluster and its ID.

    [[owners]]
    cluster = "shop-*"
    group = "payments-*"
    team = "payments"
    contact = "#payments-oncall"

The first matching entry wins; a pattern that is left out matches everything. `--owners` names a TOML file with such
entries (`clusters.toml`), or a table with the columns `OWNERS`. Every row with a cluster and a group gets the columns
`team` and `contact`, and texts and pages name the team after the group (`report.formatting.group_name`).

`--group` and `--owner` keep the rows of matching groups. A Connect cluster is filtered by its name, both as a cluster
and as a group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from spark_assign.cli.options import Decorator, compose_options, location_option, patterns
from spark_assign.cli.settings_file import from_file
from spark_assign.tables.errors import ConfigError, FleetError
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.schema_fields import schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from spark_assign.api import Fleet
    from spark_assign.connect import ConnectFleet
    from spark_assign.stores.run_store import StoredRun

AnyFleet = TypeVar("AnyFleet", "Fleet", "ConnectFleet")

OWNERS = schema("position int?, cluster string?, group string?, team string, contact string?")
"""One row per entry. `position`: the entry with the smallest position wins; without positions, the first by `cluster`,
`group`, and `team`. `cluster`, `group`: shell patterns; null matches everything. `contact`: where to reach the team."""

_MAX_ENTRIES = 1_000
"""Maximum number of entries: each is a condition of the query."""


@dataclass(frozen=True)
class Owner:
    """An entry: shell patterns of clusters and groups, and the team with its contact."""

    team: str
    cluster: str | None = None
    group: str | None = None
    contact: str | None = None

    def matches(self, cluster: str = "cluster", group: str = "group_id") -> Column:
        """Returns the condition that a row with these columns belongs to the entry."""
        from spark_assign.spark.shell_patterns import matches  # needs Spark

        return matches(**{cluster: self.cluster or "*"}) & matches(**{group: self.group or "*"})


def group_filter_options() -> Decorator:
    """Returns `--group`, `--owners`, and `--owner`. An error names them if they leave nothing."""
    owners = "Owners of groups: a TOML file with [[owners]], such as clusters.toml, or a table."
    return compose_options(
        patterns("--group", "Include only groups with a matching ID."),
        location_option("--owners", owners),
        patterns("--owner", "With --owners: include only groups of matching teams."),
        _with_named_filters,
    )


def _with_named_filters(run: Callable[[Any], int]) -> Callable[[Any], int]:
    @wraps(run)
    def run_it(options: Any) -> int:
        try:
            return run(options)
        except FleetError as error:
            filters = [f"--{name} {', '.join(each)}" for name in ("group", "owner") if (each := getattr(options, name))]
            if not filters or "the fleet is empty" not in str(error):
                raise
            text = f"The fleet has no group with members that matches {' and '.join(filters)}."
            raise ConfigError(text) from error

    return run_it


def entries(origin: str, values: Any) -> list[Owner]:
    """Returns the entries of `[[owners]]`.

    Raises:
        ConfigError: an entry has another key, a value that isn't a string, or no team; or there are too many.
    """
    names = [field.name for field in fields(Owner)]
    if not isinstance(values, list) or not all(isinstance(entry, dict) for entry in values):
        raise ConfigError(f"{origin}: owners isn't a list of tables. Start each entry with [[owners]].")
    if len(values) > _MAX_ENTRIES:
        raise ConfigError(f"{origin}: owners has more than {_MAX_ENTRIES:,} entries. Use patterns.")
    for position, entry in enumerate(values, start=1):
        if unknown := sorted(set(entry) - set(names)):
            raise ConfigError(f"{origin}: owners, entry {position}: {unknown[0]} isn't one of {', '.join(names)}.")
        if not entry.get("team") or not all(isinstance(value, str) for value in entry.values()):
            raise ConfigError(f"{origin}: owners, entry {position}: team is required, and every value is a string.")
    return [Owner(**entry) for entry in values]


def check_owners(location: str | None, teams: Sequence[str] = ()) -> None:
    """Checks `--owners` and `--owner` as `read_owners` does, as far as possible without Spark. Raises ConfigError."""
    if location is None and teams:
        raise ConfigError("--owner needs --owners, for example --owners clusters.toml.")
    if location is not None and location.endswith(".toml"):
        entries(location, from_file(Path(location)).get("owners", []))


def read_owners(spark: SparkSession, location: str | None, teams: Sequence[str] = ()) -> list[Owner] | None:
    """Returns the entries at the location (`--owners`), or None if there is no location.

    Raises:
        ConfigError: `teams` (`--owner`) without a location, or an entry is invalid.
        FleetError: a column is missing or has a wrong type.
        SourceError: the table can't be read.
    """
    check_owners(location, teams)
    if location is None:
        return None
    if location.endswith(".toml"):
        return entries(location, from_file(Path(location)).get("owners", []))
    from pyspark.sql import functions as F

    from spark_assign.sources.files.tables import Shape, read_checked_tables

    shape = Shape("Owners", {"owners": OWNERS}, ("owners",))
    table = read_checked_tables(spark, shape, None, tables={"owners": location})["owners"]
    ordered = table.orderBy(*(F.asc_nulls_last(name) for name in OWNERS.names))
    rows = ordered.limit(_MAX_ENTRIES + 1).collect()  # one more than the maximum
    if len(rows) > _MAX_ENTRIES:
        raise ConfigError(f"--owners {location}: more than {_MAX_ENTRIES:,} entries. Use patterns.")
    return [Owner(**{name: row[name] for name in OWNERS.names if name != "position"}) for row in rows]


def with_owners(
    table: DataFrame, owners: Sequence[Owner] | None, teams: Sequence[str] = (), groups: Sequence[str] = ()
) -> DataFrame:
    """Returns a table with the columns `team` and `contact`, null for groups without an owner.

    Args:
        table: a table with `cluster` and `group_id`. A table with `connect_cluster` is only filtered; any other table
            is returned unchanged.
        owners: entries; the first that matches wins. None: no columns are added.
        teams: shell patterns (`--owner`). Only rows of matching teams remain; empty: all rows.
        groups: shell patterns (`--group`). Only rows of matching groups remain; empty: all rows.
    """
    from pyspark.sql import functions as F

    from spark_assign.spark.shell_patterns import any_true, matches

    is_connect = "connect_cluster" in table.columns
    if not is_connect and not set(GROUP_KEY) <= set(table.columns):
        return table
    cluster, group = ("connect_cluster", "connect_cluster") if is_connect else GROUP_KEY
    if groups:
        table = table.where(any_true(matches(**{group: each}) for each in groups))
    if owners is None or (is_connect and not teams):
        return table
    columns: dict[str, Column] = {}
    for name in ("team", "contact"):
        value = F.when(F.lit(False), F.lit(None).cast("string"))
        for owner in owners:
            value = value.when(owner.matches(cluster, group), F.lit(getattr(owner, name)).cast("string"))
        columns[name] = value
    owned = table.select("*", *(column.alias(name) for name, column in columns.items()))
    owned = owned.where(any_true(matches(team=team) for team in teams)) if teams else owned
    return owned.drop("team", "contact") if is_connect else owned


def tables_with_owners(
    tables: Mapping[str, DataFrame],
    owners: Sequence[Owner] | None,
    teams: Sequence[str] = (),
    groups: Sequence[str] = (),
) -> Mapping[str, DataFrame]:
    """Returns tables by name, each `with_owners`."""
    return {name: with_owners(table, owners, teams, groups) for name, table in tables.items()}


def run_with_owners(
    run: StoredRun, owners: Sequence[Owner] | None, teams: Sequence[str] = (), groups: Sequence[str] = ()
) -> StoredRun:
    """Returns a stored run with every table `with_owners`."""
    if owners is None and not groups:
        return run
    return replace(run, tables=tables_with_owners(run.tables, owners, teams, groups), folders={})


def select_tables(spark: SparkSession, tables: Mapping[str, DataFrame], options: Any) -> dict[str, DataFrame]:
    """Returns tables without the groups that `--group` and `--owner` exclude.

    Names that the job prints have no cluster if the tables have only one.

    Args:
        spark: the session.
        tables: tables by name; `loads` is returned unchanged.
        options: an object with `group`, `owners`, and `owner`.

    Raises:
        ConfigError: see `read_owners`.
    """
    from spark_assign.report.formatting import name_clusters_of

    name_clusters_of(*tables.values())
    owners = read_owners(spark, options.owners, options.owner)
    if not (options.group or options.owner):
        return dict(tables)
    kept = {"loads": tables["loads"]} if "loads" in tables else {}
    selected = tables_with_owners(tables, owners if options.owner else None, options.owner, options.group)
    unchanged = {name: table for name, table in selected.items() if table is tables[name]} | kept
    return {name: table.drop("team", "contact") for name, table in selected.items()} | unchanged


def select_groups(spark: SparkSession, fleet: AnyFleet, options: Any) -> AnyFleet:
    """Returns a fleet, or Connect clusters, without the groups that the options exclude (`select_tables`)."""
    given = {field.name: getattr(fleet, field.name) for field in fields(fleet)}
    tables = {name: table for name, table in given.items() if table is not None}
    selected = select_tables(spark, tables, options)
    changed = {name: table for name, table in selected.items() if table is not tables[name]}
    return replace(fleet, **changed) if changed else fleet
