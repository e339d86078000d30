"""Rows of what is told, of many groups, until there are enough of them for a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from spark_assign.kernels.history.told import TOLD

Row = Mapping[str, Any]
"""Columns of TOLD; times in milliseconds. All rows of a kind have the same columns."""

_MANY = 50_000


class Rows:
    """Rows by kind."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[str, str, Row]]] = defaultdict(list)

    def add(self, cluster: str, group_id: str, kind: str, rows: Iterable[Row]) -> None:
        """Rows of one group."""
        self._rows[kind] += ((cluster, group_id, row) for row in rows)

    def enough(self) -> Iterator[pa.Table]:
        """TOLD of the kinds that have enough rows."""
        for kind in [kind for kind, rows in self._rows.items() if len(rows) > _MANY]:
            yield _table(kind, self._rows.pop(kind))

    def rest(self) -> Iterator[pa.Table]:
        """TOLD of all others."""
        for kind, rows in self._rows.items():
            if rows:
                yield _table(kind, rows)
        self._rows.clear()


def _table(kind: str, rows: list[tuple[str, str, Row]]) -> pa.Table:
    given = rows[0][2].keys()
    known = {
        "cluster": pa.array([row[0] for row in rows], pa.string()),
        "group_id": pa.array([row[1] for row in rows], pa.string()),
        "kind": pa.array([kind] * len(rows), pa.string()),
    }
    return pa.table([known.get(field.name, _column(field, given, rows)) for field in TOLD], schema=TOLD)


def _column(field: pa.Field, given: Iterable[str], rows: list[tuple[str, str, Row]]) -> pa.Array:
    if field.name not in given:
        return pa.nulls(len(rows), field.type)
    values = [row[2][field.name] for row in rows]
    if pa.types.is_timestamp(field.type):
        values = [None if value is None else value * 1000 for value in values]
    return pa.array(values, field.type)
