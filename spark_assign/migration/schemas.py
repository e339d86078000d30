"""The rows of the passes of this room, as Spark's types: `kind` says of which table a row is."""

from __future__ import annotations

from pyspark.sql.pandas.types import from_arrow_schema

from spark_assign.migration.kernel import migrate
from spark_assign.migration.kernel.upgrade import upgrade

MIGRATED = from_arrow_schema(migrate.MIGRATED)
"""All of it, a row per group, step or refusal; `kind` says which columns a row uses (`migration.kernel.migrate`)."""

UPGRADED = from_arrow_schema(upgrade.UPGRADED)
"""All of it, a row per group, step or refusal; `kind` says which columns a row uses
(`migration.kernel.upgrade.upgrade`)."""
