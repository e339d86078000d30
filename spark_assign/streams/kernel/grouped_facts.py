"""What is known of streams groups, a row per fact; its `kind` says which of the columns it uses.

    GROUP         text (group_type), number (standby replicas)
    SUBTOPOLOGY   name, number (of its tasks), stateful
    MEMBER        member_id, name (of its process; null: it is one of its own), number (position)
    TASK          member_id, name (of the subtopology), number, text (role; null: only an offset is reported), offset
    LEFT          the same of a member that has left

Groups of other protocols are passed over. Rows are sorted first, so that their order says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa

GROUP, SUBTOPOLOGY, MEMBER, TASK, LEFT = range(5)
FACTS = pa.schema(
    {
        "cluster": pa.string(),
        "group_id": pa.string(),
        "kind": pa.int8(),
        "member_id": pa.string(),
        "name": pa.string(),
        "number": pa.int32(),
        "stateful": pa.bool_(),
        "text": pa.string(),
        "offset": pa.int64(),
    }
)

Row = dict[str, Any]


@dataclass(frozen=True)
class StreamsFacts:
    """The facts of one group, by kind, each in the order of its columns."""

    cluster: str
    group_id: str
    rows: dict[int, list[Row]] = field(default_factory=lambda: {kind: [] for kind in range(LEFT + 1)})

    @property
    def of_streams(self) -> bool:
        """Whether it is a streams group: it says so, or has a topology or tasks."""
        kinds = {row["text"] for row in self.rows[GROUP]}
        return "streams" in kinds or any(self.rows[kind] for kind in (SUBTOPOLOGY, TASK, LEFT))


def read_groups(facts: pa.Table) -> Iterator[StreamsFacts]:
    """The streams groups of these facts, one after the other."""
    names = [name for name in FACTS.names if name != "offset"]
    ordered = facts.sort_by([(name, "ascending") for name in [*names, "offset"]])
    for (cluster, group_id), rows in groupby(ordered.to_pylist(), itemgetter("cluster", "group_id")):
        told = StreamsFacts(cluster, group_id)
        for row in rows:
            told.rows[row["kind"]].append(row)
        if told.of_streams:
            yield told
