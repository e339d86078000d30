"""Reads and plans groups of every kind: consumer groups, share groups, Streams groups, and Connect clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_assign.api import Fleet
from spark_assign.connect import ConnectFleet, plan_connect
from spark_assign.fleet import FleetTables
from spark_assign.groups.planning import Plan
from spark_assign.share import plan_share
from spark_assign.sources.files.tables import FLEET, Shape, find_tables, read_tables
from spark_assign.spark.dataframes import dataframe_of_rows, union
from spark_assign.stores.locations import time_as_run_id
from spark_assign.stores.result import LazyResult
from spark_assign.stores.run_store import Manifest, write_run
from spark_assign.streams import plan_streams
from spark_assign.tables import connect, groups
from spark_assign.tables.stored_plan import CONNECT, KINDS

_CONNECT_FLEET = Shape("A ConnectFleet", connect.INPUT_TABLES, connect.REQUIRED_TABLES)


def read_fleets(
    spark: SparkSession,
    location: str | None,
    *,
    format: str | None = None,
    options: Mapping[str, str] | None = None,
    tables: Mapping[str, str] | None = None,
) -> tuple[Fleet | None, ConnectFleet | None]:
    """Reads the groups and the Connect clusters of a location; None for what it doesn't have.

    A location has Connect clusters if it has the table `clusters`, and groups if it has `topics` or `members`. `tasks`
    is a table of both: beside `clusters` in the same folder or catalog, it has the tasks of Connect clusters, unless
    there is a table `subtopologies`.

    Args:
        spark, location, format, options: see `sources.files.tables.read_tables`.
        tables: locations of single tables; those of Connect clusters have the prefix `connect_`.

    Raises:
        SourceError, FleetError: as `Fleet.read` does; if there is neither, the message lists the tables of a fleet.
    """
    given: dict[str, Any] = {"format": format, "options": options}
    tables = dict(tables or {})
    connect_tables = {name.removeprefix(CONNECT): each for name, each in tables.items() if name.startswith(CONNECT)}
    tables = {name: each for name, each in tables.items() if not name.startswith(CONNECT)}

    def has_any(shape: Shape, *names: str) -> bool:
        part = Shape(shape.name, {name: shape.schemas[name] for name in names}, ())
        return bool(find_tables(spark, part, location, **given))

    if not connect_tables and not has_any(_CONNECT_FLEET, "clusters"):
        return Fleet(**read_tables(spark, FLEET, location, tables=tables, **given)), None
    clusters = ConnectFleet(**read_tables(spark, _CONNECT_FLEET, location, tables=connect_tables, **given))
    if not tables and not has_any(FLEET, "topics", "members"):
        return None, clusters
    shape = FLEET
    if "tasks" not in tables and not has_any(FLEET, "subtopologies"):
        shape = replace(FLEET, schemas={name: each for name, each in FLEET.schemas.items() if name != "tasks"})
    return Fleet(**read_tables(spark, shape, location, tables=tables, **given)), clusters


def union_fleets(*fleets: Fleet | None) -> Fleet:
    """Returns one fleet with the rows of all of them, which have no topic and no group in common."""
    tables = {name: [getattr(fleet, name) for fleet in fleets if fleet is not None] for name in groups.INPUT_TABLES}
    present = {name: [table for table in parts if table is not None] for name, parts in tables.items()}
    return Fleet(**{name: union(parts) for name, parts in present.items() if parts})


def plan_other_kinds(
    fleet: Fleet | None, clusters: ConnectFleet | None, *, streams_assignor: str, **streams_options: Any
) -> list[LazyResult]:
    """Returns the plans of share groups, Streams groups, and Connect clusters, of the kinds that exist.

    Whether they exist is in `Fleet.sizes`, so that a fleet without them costs no further query. `streams_options` are
    other arguments of `plan_streams`.

    Raises:
        FleetError: the fleet has invalid rows that belong to no group.
    """
    plans: list[LazyResult] = []
    if fleet is not None and fleet.sizes.share_groups:
        plans.append(plan_share(fleet))
    if fleet is not None and has_streams_groups(fleet):
        plans.append(plan_streams(fleet, streams_assignor, **streams_options))
    if clusters is not None:
        plans.append(plan_connect(clusters))
    return plans


def has_streams_groups(fleet: FleetTables) -> bool:
    """Checks whether a fleet has Streams groups, and the table that their plan needs."""
    sizes = fleet.sizes
    return fleet.subtopologies is not None and bool(sizes.streams_groups or sizes.subtopologies or sizes.tasks)


def without_other_kinds(planned: Plan, prefixes: Sequence[str]) -> Plan:
    """Returns the plan of consumer groups without the rejections of groups that have a plan of their own kind."""
    codes = [f"{prefix.removesuffix('_')}-group" for prefix in prefixes]

    def compute_rows(required_kinds: frozenset[str]) -> DataFrame:
        rows = planned.compute_rows(required_kinds)
        return rows.where(F.col("code").isNull() | ~F.col("code").isin(codes)) if "code" in rows.columns else rows

    return replace(planned, compute_rows=compute_rows) if codes else planned


def rejected_of_all_kinds(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Returns the rows of `rejected` of every kind in a stored plan: cluster, group_id, code, detail.

    A Connect cluster has its name in both cluster and group_id.
    """

    def with_group(rows: DataFrame) -> DataFrame:
        cluster, *group = (name for name in rows.columns if name not in ("code", "detail"))
        group_id = F.col(*group or [cluster]).alias("group_id")
        return rows.select(F.col(cluster).alias("cluster"), group_id, "code", "detail")

    frames = (with_group(tables[name]) for prefix in KINDS if (name := f"{prefix}rejected") in tables)
    return reduce(DataFrame.unionByName, frames)


EMPTY_PLAN_TABLES = {name: KINDS[""][name] for name in ("metrics", "rejected")}
"""The tables of consumer groups in the plan of an input without such groups, so that every stored plan has them."""


def write_plans(
    spark: SparkSession,
    consumer_plan: Plan | None,
    other_plans: Sequence[LazyResult],
    location: str,
    *,
    run_id: str | None = None,
    tables: Sequence[str] | None = None,
    **more: Any,
) -> Manifest:
    """Writes the plans of all kinds of groups as one run.

    Args:
        spark: the session.
        consumer_plan: the plan of consumer groups; None if the input has none.
        other_plans: the plans of the other kinds (`plan_other_kinds`).
        location: location of the stored plans.
        run_id: name of the run; None for the current time.
        tables: names of tables; those of kinds that the input doesn't have are ignored. None for all.
        **more: the other arguments of `stores.run_store.write_run`.
    """
    schemas = dict(EMPTY_PLAN_TABLES if consumer_plan is None else groups.PLAN_TABLES)
    frames: dict[str, DataFrame] = {}
    for each in other_plans:
        schemas |= each.with_prefix(each.schemas)
        frames |= each.with_prefix(each.tables)
    if consumer_plan is None:
        frames |= {name: dataframe_of_rows(spark, [], schema) for name, schema in EMPTY_PLAN_TABLES.items()}
    else:
        consumer_plan = without_other_kinds(consumer_plan, [each.prefix for each in other_plans])
    return write_run(
        frames,
        location,
        run_id=run_id or time_as_run_id(),
        tables=None if tables is None else [name for name in tables if name in schemas],
        schemas=schemas,
        computed=consumer_plan,
        unknown=() if consumer_plan is None else consumer_plan.unknown,
        **more,
    )
