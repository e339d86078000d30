"""The rows of the passes of this room, as Spark's types: `kind` says of which table a row is."""

from __future__ import annotations

from pyspark.sql.pandas.types import from_arrow_schema

from spark_assign.streams.kernel import plan_groups

DECIDED = from_arrow_schema(plan_groups.DECIDED)
"""Everything that a plan holds, a row per task, move, group or refusal; `kind` says which columns a row uses
(`streams.kernel.plan_groups`). The tables of a plan are projections of it."""
