"""Schemas of the tables of a stored plan: those of consumer groups, and with a prefix those of every other kind."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from spark_assign.tables import comparison, connect, groups, share, simulation, streams

SHARE, STREAMS, CONNECT = "share_", "streams_", "connect_"
"""Prefixes of the tables of share groups (`share_changes`), Streams groups, and Connect clusters."""

KINDS: dict[str, dict[str, StructType]] = {
    "": groups.PLAN_TABLES,
    SHARE: share.PLAN_TABLES,
    STREAMS: streams.PLAN_TABLES,
    CONNECT: connect.PLAN_TABLES,
}
"""Schemas of the tables by the prefix of their kind; empty: consumer groups."""

STORED_PLAN_TABLES = {f"{prefix}{name}": schema for prefix, tables in KINDS.items() for name, schema in tables.items()}

REQUIRED_TABLES = ("metrics", "rejected")
"""Names, without prefix, of the tables that every stored plan has."""


def has_only_connect(rows: Mapping[str, int]) -> bool:
    """Checks whether a stored plan, with these numbers of rows, is of Connect clusters and of no group."""
    of_groups = {name: count for name, count in rows.items() if not name.startswith(CONNECT)}
    return len(of_groups) < len(rows) and of_groups.keys() <= {*REQUIRED_TABLES} and not any(of_groups.values())


def _with_streams(tables: dict[str, StructType], of_streams: dict[str, StructType]) -> dict[str, StructType]:
    """Returns tables of consumer groups, and those of Streams groups with the prefix of their names."""
    return tables | {f"{STREAMS}{name}": schema for name, schema in of_streams.items()}


REPORTED_PLAN_TABLES = _with_streams(groups.PLAN_TABLES, streams.PLAN_TABLES)
"""Schemas of the tables that the sections of consumer and Streams groups in a report read."""

STORED_COMPARE_TABLES = _with_streams(comparison.COMPARE_TABLES, streams.COMPARE_TABLES)
STORED_DRIFT_TABLES = _with_streams(comparison.DRIFT_TABLES, streams.DRIFT_TABLES)
"""Schemas of the tables of a stored comparison and drift; those of Streams groups exist only if such groups do."""

STORED_SIMULATION_TABLES = _with_streams(simulation.SIMULATION_TABLES, streams.SIMULATION_TABLES)
"""Schemas of the tables of a stored simulation; those of Streams applications exist only if they are simulated."""

TABLES_OF_OTHER_KINDS = STORED_PLAN_TABLES.keys() - groups.PLAN_TABLES.keys()
"""Names of the tables that a run has only if the fleet has such groups or Connect clusters."""


def tables_of_kind(prefix: str, tables: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Returns the tables of a kind of groups, without the prefix of their names."""
    return {name.removeprefix(prefix): table for name, table in tables.items() if name.startswith(prefix)}
