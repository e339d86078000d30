"""The rows of the passes of this room as Spark schemas; `kind` says which table a row belongs to."""

from __future__ import annotations

from pyspark.sql.pandas.types import from_arrow_schema

from spark_assign.history.kernel import history_rows
from spark_assign.history.kernel.replay import replay

HISTORY_ROWS = from_arrow_schema(history_rows.HISTORY_ROWS)
"""Rows of all tables of a history (`history.kernel.history_rows`)."""

REPLAY_ROWS = from_arrow_schema(replay.REPLAY_ROWS)
"""Rows of all tables of a replay (`history.kernel.replay.replay`)."""
