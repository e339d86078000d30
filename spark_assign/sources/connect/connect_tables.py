"""The tables of a snapshot of Connect clusters: a ConnectFleet's with more columns, and what could not be read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from spark_assign.tables.connect import INPUT_TABLES

_MORE: dict[str, list[tuple[str, pa.DataType]]] = {
    "clusters": [
        ("group_id", pa.string()),
        ("group_state", pa.string()),
        ("delay_ms", pa.int64()),
        ("kafka_cluster_id", pa.string()),
        ("version", pa.string()),
    ],
    "connectors": [("type", pa.string()), ("state", pa.string())],
    "tasks": [("state", pa.string())],
    "workers": [("rest_worker_id", pa.string()), ("url", pa.string()), ("config_offset", pa.int64())],
    "reported": [("state", pa.string())],
}
"""What a snapshot knows beyond the ConnectFleet; docs/connect-snapshot.md says what each column means."""

TABLES: dict[str, pa.Schema] = {
    **{
        name: pa.schema([*to_arrow_schema(schema), *(pa.field(*more) for more in _MORE.get(name, []))])
        for name, schema in INPUT_TABLES.items()
    },
    "unreadable": pa.schema([("connect_cluster", pa.string()), ("error", pa.string())]),
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
