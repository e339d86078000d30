"""Schemas of the rows of a pass: the columns of all tables of its result, all nullable, and `kind`, the table."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from spark_assign.history.kernel.build_history import COMMIT_LISTS
from spark_assign.tables.history import HISTORY_TABLES, REPLAY_TABLES
from spark_assign.tables.schema_fields import tagged_schema

_TABLES = {name: table for name, table in HISTORY_TABLES.items() if name != "commits"}
HISTORY_ROWS = tagged_schema({**_TABLES, "lists": from_arrow_schema(pa.schema(COMMIT_LISTS))})
"""Rows of all tables of a history. Commits are lists (`kernel.build_history.COMMIT_LISTS`)."""

REPLAY_ROWS = tagged_schema(REPLAY_TABLES)
"""Rows of all tables of a replay."""
