"""Rows of what is told, of many groups, until there are enough of them for a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from spark_assign.kernels.history.told import TOLD

Row = Mapping[str, Any]
"""Columns of TOLD; times in milliseconds. All rows of a kind have the same columns."""

_MANY = 50_000


class Rows:
    """Rows by kind, as columns: millions of rows as objects would keep Python looking after them."""

    def __init__(self) -> None:
        self._columns: dict[str, dict[str, list[Any]]] = {}

    def add(self, cluster: str, group_id: str, kind: str, rows: Iterable[Row]) -> None:
        """Rows of one group."""
        for row in rows:
            named = {"cluster": cluster, "group_id": group_id, "kind": kind, **row}
            if kind not in self._columns:
                self._columns[kind] = {name: [] for name in named}
            columns = self._columns[kind]
            for name, value in named.items():
                columns[name].append(value)

    def enough(self) -> Iterator[pa.Table]:
        """TOLD of the kinds that have enough rows."""
        for kind in [kind for kind, columns in self._columns.items() if len(columns["kind"]) > _MANY]:
            yield _table(self._columns.pop(kind))

    def rest(self) -> Iterator[pa.Table]:
        """TOLD of all others."""
        for columns in self._columns.values():
            yield _table(columns)
        self._columns.clear()


def _table(columns: dict[str, list[Any]]) -> pa.Table:
    return pa.table([_column(field, columns) for field in TOLD], schema=TOLD)


def _column(field: pa.Field, columns: dict[str, list[Any]]) -> pa.Array:
    values = columns.get(field.name)
    if values is None:
        return pa.nulls(len(columns["kind"]), field.type)
    if pa.types.is_timestamp(field.type):
        values = [None if value is None else value * 1000 for value in values]
    return pa.array(values, field.type)
