"""What was read of one cluster, whichever way: from the cluster itself, or from its tools' text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.stores.cluster_folders import KEYS


@dataclass(frozen=True)
class Snapshot:
    """The tables of `tables.groups.SNAPSHOT_TABLES` of one cluster, `loads` where it was read, and where and when that
    was.

    Of Connect it has the tables of `connect_tables.TABLES`, and there may be several clusters in them; `cluster` is
    then their names.
    """

    cluster: str
    source: dict[str, Any]
    taken_at: datetime
    tables: dict[str, pa.Table]

    @property
    def key(self) -> str:
        """The column that says of which cluster a row is."""
        return KEYS[1] if "unreadable" in self.tables else KEYS[0]

    def rows(self) -> dict[str, int]:
        """Rows of each table."""
        return {name: table.num_rows for name, table in self.tables.items()}

    def summary(self) -> dict[str, Any]:
        """What `snapshot.json` says: cluster, when, from where and with what, row counts. No secrets."""
        return {
            "cluster": self.cluster,
            "taken_at": self.taken_at.isoformat(timespec="milliseconds"),
            "source": self.source,
            "rows": self.rows(),
        }

    def read(self) -> list[Snapshot]:
        """A snapshot for each cluster that could be read."""
        if self.key == KEYS[0]:
            return [self]
        return [self._only(name) for name in _distinct(self.tables["clusters"], self.key)]

    def unread(self) -> list[Snapshot]:
        """A snapshot for each Connect cluster that could not be read: why not, and no other row."""
        return (
            [self._only(name) for name in _distinct(self.tables["unreadable"], self.key)] if self.key != KEYS[0] else []
        )

    def _only(self, name: str) -> Snapshot:
        tables = {table: rows.filter(pc.equal(rows[self.key], name)) for table, rows in self.tables.items()}
        urls = self.source.get("urls", {})
        source = {**self.source, "urls": {name: urls[name]}} if name in urls else self.source
        return replace(self, cluster=name, source=source, tables=tables)


def _distinct(table: pa.Table, column: str) -> list[str]:
    names: list[str] = pc.unique(table[column]).to_pylist()
    return names
