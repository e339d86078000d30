"""The rows of the passes of this room, as Spark's types: `kind` says of which table a row is."""

from __future__ import annotations

from pyspark.sql.pandas.types import from_arrow_schema

from spark_assign.comparison.kernel import drift

DRIFTED = from_arrow_schema(drift.DRIFTED)
"""All of it but the topics, a row per group, member or run; `kind` says which columns a row uses
(`comparison.kernel.drift`). The tables of a drift are projections of it."""
