"""Groups of a fleet that have a fault, for what needs to know them before it begins (a simulation)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame

from spark_assign.groups.facts import facts_by_group
from spark_assign.groups.kernel.facts import index_facts
from spark_assign.groups.kernel.faults import find_faults, rejected_table
from spark_assign.spark.arrow_batches import map_arrow_batches
from spark_assign.tables.groups import GROUP_KEY, REJECTED

if TYPE_CHECKING:
    from spark_assign.fleet import Fleet

LOCAL_ROWS = 10_000
"""Up to so many rejected groups are held on the driver, where they cost later queries nothing."""


def faulty_groups(fleet: Fleet) -> DataFrame:
    """cluster, group_id, code, detail of the groups that no plan can be made for; computed now.

    Raises:
        FleetError: rows that belong to no group are faulty.
    """
    found = facts_by_group(fleet).mapInArrow(map_arrow_batches(_faults), REJECTED)
    rows = found.limit(LOCAL_ROWS + 1).collect()
    if len(rows) > LOCAL_ROWS:
        return found
    table = pa.Table.from_pylist([row.asDict() for row in rows], schema=_ARROW)
    return found.sparkSession.createDataFrame(table, REJECTED)


_ARROW = pa.schema([(name, pa.string()) for name in REJECTED.names])


def _faults(facts: pa.Table) -> Iterator[pa.Table]:
    told = index_facts(facts)
    yield rejected_table(told, find_faults(told))


def without_faulty_groups(rows: DataFrame, fleet: Fleet) -> DataFrame:
    """Those rows (with cluster, group_id) that belong to groups without a fault."""
    return rows.join(fleet.rejected.select(*GROUP_KEY), GROUP_KEY, "left_anti")
