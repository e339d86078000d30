"""Tables of tagged rows: rows of several kinds in one table, where `kind` says which columns a row uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa


def row_schema(*texts: str) -> pa.Schema:
    """Returns a schema of tagged rows, with the column `kind` first.

    Args:
        texts: lists of columns, `name type, …`, with the type names of Arrow.

    Examples:
        >>> row_schema("topic string, lag int64").names
        ['kind', 'topic', 'lag']
    """
    pairs = (column.split() for text in ("kind string", *texts) for column in text.split(","))
    return pa.schema([(name, pa.type_for_alias(alias)) for name, alias in pairs])


def tagged(kind: str, columns: Mapping[str, pa.Array | pa.ChunkedArray], rows: int, schema: pa.Schema) -> pa.Table:
    """Returns rows of one kind with all columns of the schema; missing columns are null."""
    values = {**columns, "kind": pa.repeat(pa.scalar(kind, pa.string()), rows)}
    return pa.table([_cast(values.get(field.name), field, rows) for field in schema], schema=schema)


def tagged_rows(kind: str, rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Returns tagged rows from dictionaries; missing values are null."""
    used = {name for row in rows for name in row}
    columns = {
        field.name: pa.array([row.get(field.name) for row in rows], field.type)
        for field in schema
        if field.name in used
    }
    return tagged(kind, columns, len(rows), schema)


def tagged_table(kind: str, table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Returns tagged rows from a table with a subset of the columns."""
    return tagged(kind, {name: table[name] for name in table.column_names}, len(table), schema)


def _cast(values: pa.Array | pa.ChunkedArray | None, field: pa.Field, rows: int) -> pa.Array:
    return pa.nulls(rows, field.type) if values is None else values.cast(field.type)
