"""Answers of several kinds in one table, a row's `kind` saying which of its columns it uses."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa


def tagged(kind: str, columns: Mapping[str, pa.Array | pa.ChunkedArray], rows: int, schema: pa.Schema) -> pa.Table:
    """Rows of one kind with all columns of the table; those that are not given are null."""
    given = {**columns, "kind": pa.repeat(pa.scalar(kind, pa.string()), rows)}
    return pa.table([_cast(given.get(field.name), field, rows) for field in schema], schema=schema)


def _cast(values: pa.Array | pa.ChunkedArray | None, wanted: pa.Field, rows: int) -> pa.Array:
    return pa.nulls(rows, wanted.type) if values is None else values.cast(wanted.type)
