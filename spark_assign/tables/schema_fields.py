"""Fields of schemas, a few at a time."""

from __future__ import annotations

from pyspark.sql.types import DataType, StructField


def required(**fields: DataType) -> list[StructField]:
    """Fields that hold no null, by name."""
    return [StructField(name, kind, nullable=False) for name, kind in fields.items()]


def nullable(**fields: DataType) -> list[StructField]:
    """Fields that may hold null, by name."""
    return [StructField(name, kind, nullable=True) for name, kind in fields.items()]
