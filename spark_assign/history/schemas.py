"""Schemas of the rows of a pass: the columns of all tables of its result, all nullable, and `kind`, the table."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from spark_assign.history.kernel.build_history import COMMIT_LISTS
from spark_assign.tables.history import HISTORY_TABLES, REPLAY_TABLES


def _pass_rows(tables: Iterable[StructType]) -> StructType:
    types = {"kind": StringType(), **{field.name: field.dataType for table in tables for field in table}}
    return StructType([StructField(name, data_type) for name, data_type in types.items()])


_COMMITS = from_arrow_schema(pa.schema(COMMIT_LISTS))

HISTORY_ROWS = _pass_rows([*(table for name, table in HISTORY_TABLES.items() if name != "commits"), _COMMITS])
"""Rows of all tables of a history. Commits are lists (`kernel.build_history.COMMIT_LISTS`)."""

REPLAY_ROWS = _pass_rows(REPLAY_TABLES.values())
"""Rows of all tables of a replay."""
