"""Rows of what is told, of many groups, until there are enough of them for a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.history.kernel.history_rows import TOLD, table_of

Row = Mapping[str, Any]
"""Columns of TOLD; times in milliseconds. All rows of a kind have the same columns."""

_MANY = 50_000


class Rows:
    """Rows by kind."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Row]] = {}
        self._of: dict[str, list[tuple[str, str, int]]] = {}

    def add(self, cluster: str, group_id: str, kind: str, rows: Iterable[Row]) -> None:
        """Rows of one group."""
        known = self._rows.setdefault(kind, [])
        before = len(known)
        known.extend(rows)
        if len(known) > before:
            self._of.setdefault(kind, []).append((cluster, group_id, len(known) - before))

    def enough(self) -> Iterator[pa.Table]:
        """TOLD of the kinds that have enough rows."""
        yield from (self._taken(kind) for kind, rows in list(self._rows.items()) if len(rows) > _MANY)

    def rest(self) -> Iterator[pa.Table]:
        """TOLD of all others."""
        yield from (self._taken(kind) for kind, rows in list(self._rows.items()) if rows)

    def _taken(self, kind: str) -> pa.Table:
        rows = self._rows.pop(kind)
        clusters, groups, counts = zip(*self._of.pop(kind), strict=True)
        group = pa.array(np.repeat(np.arange(len(counts)), counts))
        names = {"cluster": pa.array(clusters).take(group), "group_id": pa.array(groups).take(group)}
        columns = {name: pa.array([row[name] for row in rows], _GIVEN[name]) for name in rows[0] if name in _GIVEN}
        return table_of(
            {**names, "kind": pa.array([kind]).take(pa.array(np.zeros(len(rows), int))), **columns}, len(rows)
        )


_GIVEN = {field.name: pa.int64() if pa.types.is_timestamp(field.type) else field.type for field in TOLD}
