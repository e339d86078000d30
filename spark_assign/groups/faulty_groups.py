"""Finds the groups of a fleet that have faults, before a simulation starts."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from spark_assign.fleet import FleetTables
from spark_assign.groups.facts import facts_by_group
from spark_assign.groups.kernel.facts import index_facts
from spark_assign.groups.kernel.faults import find_faults, rejected_table
from spark_assign.spark.arrow_batches import map_arrow_batches
from spark_assign.spark.engine import dataframe_of
from spark_assign.tables.groups import GROUP_KEY, REJECTED

LOCAL_ROWS = 10_000
"""Maximum number of rejected groups that are kept on the driver, where later queries get them for free."""


def faulty_groups(fleet: FleetTables) -> DataFrame:
    """Returns cluster, group_id, code, and detail of the groups that can't be planned; one query per fleet.

    Raises:
        FleetError: rows that don't belong to a group are faulty.
    """
    if "rejected" not in fleet.found:
        rejected = facts_by_group(fleet).mapInArrow(map_arrow_batches(_faults), REJECTED)
        rows = rejected.limit(LOCAL_ROWS + 1).collect()
        if len(rows) <= LOCAL_ROWS:
            table = pa.Table.from_pylist([row.asDict() for row in rows], schema=_ARROW)
            rejected = dataframe_of(rejected.sparkSession, table, REJECTED)
        fleet.found["rejected"] = rejected
    return fleet.found["rejected"]


_ARROW = pa.schema([(name, pa.string()) for name in REJECTED.names])


def _faults(table: pa.Table) -> Iterator[pa.Table]:
    facts = index_facts(table)
    yield rejected_table(facts, find_faults(facts))


def without_faulty_groups(rows: DataFrame, fleet: FleetTables) -> DataFrame:
    """Returns the rows (with cluster, group_id) of groups without faults."""
    return rows.join(faulty_groups(fleet).select(*GROUP_KEY), GROUP_KEY, "left_anti")
