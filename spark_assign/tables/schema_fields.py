"""Builds the fields of schemas."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "int": IntegerType(),
    "long": LongType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "binary": BinaryType(),
    "timestamp": TimestampType(),
    "array<int>": ArrayType(IntegerType()),
    "array<long>": ArrayType(LongType()),
    "array<string>": ArrayType(StringType()),
}


ONLY_IF_GIVEN = {"only_if_given": True}
"""Metadata of a nullable column that is not added to a table without it."""


def columns(*texts: str) -> list[StructField]:
    """Returns the fields of lists of columns: `name type, …`, with `type?` for a nullable column, and `type??` for one
    that is `ONLY_IF_GIVEN`, too.

    Examples:
        >>> [(field.name, field.nullable) for field in columns("topic string, lag long?")]
        [('topic', False), ('lag', True)]
        >>> [field.metadata for field in columns("lag long?, rate double??")]
        [{}, {'only_if_given': True}]
    """
    pairs = (column.split() for text in texts for column in text.split(","))
    return [
        StructField(
            name,
            _TYPES[kind.rstrip("?")],
            nullable=kind.endswith("?"),
            metadata=ONLY_IF_GIVEN if kind.endswith("??") else None,
        )
        for name, kind in pairs
    ]


def schema(*texts: str) -> StructType:
    """Returns the schema with these columns (see `columns`)."""
    return StructType(columns(*texts))


def nullable(**fields: DataType) -> list[StructField]:
    """Returns nullable fields, by name."""
    return [StructField(name, kind, nullable=True) for name, kind in fields.items()]


def tagged_schema(tables: Mapping[str, StructType], **columns: DataType) -> StructType:
    """Returns the schema of the tagged rows of these tables: `kind`, and the columns of any table; all nullable.

    Args:
        tables: The public tables, which are projections of the tagged rows.
        columns: Columns that are in no table, or that have another type in the tagged rows.
    """
    types = {"kind": StringType()} | {field.name: field.dataType for table in tables.values() for field in table}
    return StructType([StructField(name, type_) for name, type_ in (types | columns).items()])
