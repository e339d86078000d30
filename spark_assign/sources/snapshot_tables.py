"""Rows of a snapshot, gathered one by one, as the tables of `schemas.SNAPSHOT_TABLES`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from spark_assign.kernels.runs import compress_sorted
from spark_assign.schemas import SNAPSHOT_TABLES


@dataclass
class SnapshotRows:
    """Rows of every table of a snapshot of one cluster, in the order in which they were added."""

    cluster: str
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {table: [] for table in SNAPSHOT_TABLES})

    def add(self, table: str, **values: Any) -> None:
        """One row; `cluster` is filled in, columns not given are null."""
        self.rows[table].append({"cluster": self.cluster, **values})

    def add_owned(self, group_id: str, member_id: str, partitions: Iterable[tuple[str, int]]) -> None:
        """What a member owns, as `owned_runs`."""
        by_topic: dict[str, list[int]] = defaultdict(list)
        for topic, partition in partitions:
            by_topic[topic].append(partition)
        for topic in sorted(by_topic):
            for first, step, count in runs(by_topic[topic]):
                self.add(
                    "owned_runs",
                    group_id=group_id,
                    member_id=member_id,
                    topic=topic,
                    first=first,
                    step=step,
                    count=count,
                )

    def tables(self) -> dict[str, pa.Table]:
        """Every table, with the schema that `schemas.py` gives it."""
        return {
            name: pa.Table.from_pylist(rows, schema=to_arrow_schema(SNAPSHOT_TABLES[name]))
            for name, rows in self.rows.items()
        }


def runs(partitions: Iterable[int]) -> list[tuple[int, int, int]]:
    """Partitions of one topic as (first, step, count), losslessly."""
    ascending = np.unique(np.fromiter(partitions, dtype=np.int64))
    _, first, step, count = compress_sorted(np.zeros_like(ascending), ascending)
    return list(zip(first.tolist(), step.tolist(), count.tolist(), strict=True))
