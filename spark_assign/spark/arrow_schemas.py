"""Schemas of Spark as schemas of Arrow, for every supported release of Spark."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas import types
from pyspark.sql.types import DataType, StructType

_ZONE: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(types.to_arrow_schema).parameters else {}
"""From Spark 4.3, the time zone of timestamps is an argument that has no default; before, it is UTC."""


def to_arrow_schema(schema: StructType) -> pa.Schema:
    """Returns the Arrow schema of a Spark schema, with timestamps in UTC."""
    return types.to_arrow_schema(schema, **_ZONE)


def to_arrow_type(kind: DataType) -> pa.DataType:
    """Returns the Arrow type of a type of Spark, with timestamps in UTC."""
    return types.to_arrow_type(kind, **_ZONE)


def spark_type(kind: pa.DataType) -> DataType | None:
    """Returns the type of Spark, or None if it has none."""
    try:
        return types.from_arrow_type(kind.value_type if pa.types.is_dictionary(kind) else kind)
    except Exception:  # an unsupported type, whose exception differs between versions of PySpark
        return None
