"""The tables of a snapshot of Connect clusters: a ConnectFleet's with more columns, and what could not be read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

_ITEMS = pa.list_(pa.struct([("kind", pa.string()), ("connector", pa.string()), ("task", pa.int32())]))

TABLES: dict[str, pa.Schema] = {
    name: pa.schema([("connect_cluster", pa.string()), *columns])
    for name, columns in {
        "clusters": [
            ("protocol", pa.string()),
            ("now_ms", pa.int64()),
            ("generation_id", pa.int32()),
            ("last_completed_generation_id", pa.int32()),
            ("max_delay_ms", pa.int64()),
            ("leader", pa.string()),
            ("group_id", pa.string()),
            ("group_state", pa.string()),
            ("delay_ms", pa.int64()),
            ("kafka_cluster_id", pa.string()),
            ("version", pa.string()),
        ],
        "connectors": [("connector", pa.string()), ("type", pa.string()), ("state", pa.string())],
        "tasks": [("connector", pa.string()), ("task", pa.int32()), ("state", pa.string())],
        "workers": [
            ("worker_id", pa.string()),
            ("position", pa.int32()),
            ("rest_worker_id", pa.string()),
            ("url", pa.string()),
            ("config_offset", pa.int64()),
        ],
        "reported": [
            ("worker_id", pa.string()),
            ("kind", pa.string()),
            ("connector", pa.string()),
            ("task", pa.int32()),
            ("position", pa.int32()),
            ("state", pa.string()),
        ],
        "state": [
            ("assignment", _ITEMS),
            ("revocation", _ITEMS),
            ("revoked_in_previous", pa.bool_()),
            ("can_revoke", pa.bool_()),
            ("candidates", pa.list_(pa.string())),
            ("scheduled_rebalance_ms", pa.int64()),
            ("delay_ms", pa.int64()),
            ("generation_id", pa.int32()),
            ("members", pa.list_(pa.string())),
            ("successive_revoking_rebalances", pa.int32()),
        ],
        "unreadable": [("error", pa.string())],
    }.items()
}


@dataclass
class ConnectRows:
    """Rows of every table, of one cluster or of several."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {table: [] for table in TABLES})

    def add(self, table: str, connect_cluster: str, **values: Any) -> None:
        """One row; columns not given are null."""
        self.rows[table].append({"connect_cluster": connect_cluster, **values})

    def extend(self, other: ConnectRows) -> None:
        """All rows of another one, after these."""
        for table, rows in other.rows.items():
            self.rows[table] += rows

    def tables(self) -> dict[str, pa.Table]:
        """Every table, with its schema, empty ones too."""
        return {name: pa.Table.from_pylist(self.rows[name], schema=schema) for name, schema in TABLES.items()}
