"""Base class of results that are lazy projections of one tagged table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_assign.spark.caching import uncached


@dataclass(frozen=True)
class LazyResult:
    """The result of one pass: a table of tagged rows, of which each public table is a projection.

    Attributes:
        rows: the tagged rows of the pass, computed or read from storage; `kind` says what a row is.
    """

    rows: DataFrame

    def tagged_rows(self, tables: Iterable[str] = ()) -> DataFrame:
        """Returns the tagged rows that the tables are projections of."""
        return self.rows

    def with_tagged_rows(self, rows: DataFrame) -> Self:
        """Returns the same result, reading its tagged rows from a table instead of computing them."""
        return replace(self, rows=rows)

    def unpersist(self) -> None:
        """Removes the tagged rows from the cache, if they are cached; Spark computes them again if needed."""
        uncached(self.rows)

    def _rows(self, kind: str, table: StructType | None = None) -> DataFrame:
        """Returns the rows of a kind, with the columns of a table."""
        rows = self.rows.where(F.col("kind") == kind)
        return rows if table is None else rows.select(*table.names)
