"""Rows from tables that their caller has bounded, and which groups a table is bounded to."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.report.html.report_data import Row, Rows
from spark_assign.tables.groups import GROUP_KEY


def collected(table: DataFrame) -> list[Row]:
    """Rows of a table that its caller has bounded."""
    return [row.asDict() for row in table.collect()]  # at most a few hundred, of groups ten thousand


def any_of(groups: Rows) -> Column:
    """Whether a row is of one of these groups, which are few."""
    each = [(F.col("cluster") == row["cluster"]) & (F.col("group_id") == row["group_id"]) for row in groups]
    found: Column = reduce(or_, each)
    return found


def only(table: DataFrame, groups: Rows) -> DataFrame:
    """The rows of these groups, of which there may be thousands."""
    keys: dict[str, list[Any]] = {name: [row[name] for row in groups] for name in GROUP_KEY}
    listed = table.sparkSession.createDataFrame(pa.table({name: pa.array(keys[name], pa.string()) for name in keys}))
    return table.join(F.broadcast(listed), GROUP_KEY, "left_semi")
