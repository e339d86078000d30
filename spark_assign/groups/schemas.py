"""The rows of the passes of this room, as Spark's types: `kind` says of which table a row is."""

from __future__ import annotations

from pyspark.sql.pandas.types import from_arrow_schema

from spark_assign.groups.kernel import plan_groups

PLAN_ROWS = from_arrow_schema(plan_groups.PLAN_ROWS)
"""Everything that a plan holds, a row per run, group or refusal; `kind` says which columns a row uses
(`groups.kernel.plan_groups`). The tables of a plan are projections of it."""
