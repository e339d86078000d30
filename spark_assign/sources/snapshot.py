"""What was read of one cluster, whichever way: from the cluster itself, or from its tools' text."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Snapshot:
    """The tables of `schemas.SNAPSHOT_TABLES` of one cluster, and where and when they were read."""

    cluster: str
    source: dict[str, Any]
    taken_at: datetime
    tables: dict[str, pa.Table]

    def rows(self) -> dict[str, int]:
        """Rows of each table."""
        return {name: table.num_rows for name, table in self.tables.items()}

    def summary(self) -> dict[str, Any]:
        """What `snapshot.json` says: cluster, when, from where and with what, row counts. No secrets."""
        return {
            "cluster": self.cluster,
            "taken_at": self.taken_at.isoformat(timespec="seconds"),
            "source": self.source,
            "rows": self.rows(),
        }
