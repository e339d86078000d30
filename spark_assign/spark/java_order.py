"""Sort orders of the Java runtime that Kafka's assignors inherit.

`String.compareTo` compares UTF-16 code units; Spark compares UTF-8 bytes. They differ if characters above U+FFFF
(surrogate pairs in UTF-16) are compared with characters from U+E000 to U+FFFF.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def string_order(column: str | Column) -> Column:
    """Returns a binary sort key that sorts a string column as `String.compareTo` does. Null stays null."""
    return F.encode(F.col(column) if isinstance(column, str) else column, "UTF-16BE")
