"""The rows of the passes of this room, as Spark's types: `kind` says of which table a row is."""

from __future__ import annotations

from pyspark.sql.pandas.types import from_arrow_schema

from spark_assign.history.kernel import history_rows
from spark_assign.history.kernel.replay import replay

TOLD = from_arrow_schema(history_rows.TOLD)
"""All of it as one table; `kind` says of which table a row is (`history.kernel.history_rows`)."""

REPLAY = from_arrow_schema(replay.REPLAYED)
"""All of it as one table; `kind` says of which table a row is (`history.kernel.replay.replay`)."""
