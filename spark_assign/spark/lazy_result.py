"""What one pass over a fleet says: one table of tagged rows, of which everything that is asked for is a projection."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType


@dataclass(frozen=True)
class LazyResult:
    """Base of the answers of advisers and of the ways to another protocol or release.

    Attributes:
        rows: what the pass over the fleet says, or, read back, what one has said; `kind` says what a row is.
    """

    rows: DataFrame

    def tagged_rows(self, tables: Iterable[str] = ()) -> DataFrame:
        """All that the tables are projections of, as one table."""
        return self.rows

    def with_tagged_rows(self, decided: DataFrame) -> Self:
        """The same answer reading its rows from where `decided` was written, in place of computing them."""
        return replace(self, rows=decided)

    def _rows(self, kind: str, table: StructType | None = None) -> DataFrame:
        """The rows of a kind, with the columns of a table."""
        rows = self.rows.where(F.col("kind") == kind)
        return rows if table is None else rows.select(*table.names)
