"""Builds several fields of a schema at once."""

from __future__ import annotations

from pyspark.sql.types import DataType, StructField


def required(**fields: DataType) -> list[StructField]:
    """Returns required fields, by name."""
    return [StructField(name, kind, nullable=False) for name, kind in fields.items()]


def nullable(**fields: DataType) -> list[StructField]:
    """Returns nullable fields, by name."""
    return [StructField(name, kind, nullable=True) for name, kind in fields.items()]
