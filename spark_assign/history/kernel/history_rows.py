"""One table of tagged rows, of which every table of the history is a projection, and a buffer that fills it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.history.kernel.commit_intervals import LISTS

KINDS = (
    "group",
    "rebalance",
    "membership",
    "subscribed",
    "owned",
    "commits",
    "pause",
    "deploy",
    "unreadable",
    "rejected",
)
GROUP, REBALANCE, MEMBERSHIP, SUBSCRIBED, OWNED, COMMITS, PAUSE, DEPLOY, UNREADABLE, REJECTED = KINDS

_TEXT, _LONG, _INT, _TIME = pa.string(), pa.int64(), pa.int32(), pa.timestamp("us", tz="UTC")
_MILLIS = pa.timestamp("ms", tz="UTC")
_REPEATED_COMMITS = {
    "partition": _INT,
    **dict.fromkeys(("since_ms", "first_offset", "commits", "until_ms", "last_offset"), _LONG),
    "rate": pa.float64(),
    **dict.fromkeys(("gaps", "longest_gap_ms", "deleted"), _LONG),
}
COMMIT_LISTS = {"once": LISTS["once"], "again": pa.list_(pa.struct(_REPEATED_COMMITS))}
"""Commits of partitions: `once` has those with a single commit and no tombstone, `again` all others. Most of a history
is commits, so they are lists, one row per topic and column, with as few values as possible."""

HISTORY_ROWS = pa.schema(
    {
        **dict.fromkeys(("cluster", "group_id", "kind"), _TEXT),
        **dict.fromkeys(("group_type", "protocol_type", "assignor", "state", "leader", "why", "what"), _TEXT),
        **dict.fromkeys(("member_id", "group_instance_id", "client_id", "client_host", "rack_id"), _TEXT),
        **dict.fromkeys(("came", "went", "certainty", "topic", "role", "code", "detail"), _TEXT),
        **dict.fromkeys(("since", "until", "at", "settled", "timestamp"), _TIME),
        **dict.fromkeys(("generation", "first_generation", "last_generation"), _INT),
        **dict.fromkeys(("session_timeout_ms", "rebalance_timeout_ms"), _INT),
        **dict.fromkeys(("members", "members_before", "members_after"), _LONG),
        **dict.fromkeys(("joined", "left", "crashed", "restarted", "missing"), _LONG),
        **dict.fromkeys(("records", "rebalances", "most_in_a_day", "deploys", "crashes"), _LONG),
        **dict.fromkeys(("partitions", "moved", "stopped_ms", "longest_ms"), _LONG),
        **dict.fromkeys(("partition", "first", "step", "count"), _INT),
        "offset": _LONG,
        **COMMIT_LISTS,
        "flapping": pa.bool_(),
        **dict.fromkeys(("key", "value"), pa.binary()),
    }
)

Row = Mapping[str, Any]
"""Columns of HISTORY_ROWS, with times in milliseconds. All rows of a kind have the same columns."""

_MAX_BUFFERED_ROWS = 50_000


def to_history_rows(columns: Mapping[str, pa.Array], num_rows: int) -> pa.Table:
    """Returns a table with the columns of HISTORY_ROWS. Other columns are ignored, and absent ones are null.

    Args:
        columns: columns by name; times in milliseconds.
        num_rows: number of rows.
    """
    return pa.table([_column(field, columns.get(field.name), num_rows) for field in HISTORY_ROWS], schema=HISTORY_ROWS)


def _column(field: pa.Field, values: pa.Array | None, num_rows: int) -> pa.Array:
    if values is None:
        return pa.nulls(num_rows, field.type)
    if pa.types.is_timestamp(field.type):
        return values.cast(_MILLIS).cast(field.type)
    return values.cast(field.type)


class RowBuffer:
    """Rows of many groups by kind, until there are enough for a table."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Row]] = {}
        self._group_counts: dict[str, list[tuple[str, str, int]]] = {}

    def add(self, cluster: str, group_id: str, kind: str, rows: Iterable[Row]) -> None:
        """Adds rows of one group."""
        buffered = self._rows.setdefault(kind, [])
        num_before = len(buffered)
        buffered.extend(rows)
        if len(buffered) > num_before:
            self._group_counts.setdefault(kind, []).append((cluster, group_id, len(buffered) - num_before))

    def pop_large(self) -> Iterator[pa.Table]:
        """Yields and removes HISTORY_ROWS of the kinds that have enough rows."""
        yield from (self._pop(kind) for kind, rows in list(self._rows.items()) if len(rows) > _MAX_BUFFERED_ROWS)

    def pop_all(self) -> Iterator[pa.Table]:
        """Yields and removes HISTORY_ROWS of all kinds."""
        yield from (self._pop(kind) for kind, rows in list(self._rows.items()) if rows)

    def _pop(self, kind: str) -> pa.Table:
        rows = self._rows.pop(kind)
        clusters, groups, counts = zip(*self._group_counts.pop(kind), strict=True)
        row_group = pa.array(np.repeat(np.arange(len(counts)), counts))
        columns = {
            "cluster": pa.array(clusters).take(row_group),
            "group_id": pa.array(groups).take(row_group),
            "kind": pa.array([kind]).take(pa.array(np.zeros(len(rows), int))),
            **{name: pa.array([row[name] for row in rows], _TYPES[name]) for name in rows[0] if name in _TYPES},
        }
        return to_history_rows(columns, len(rows))


_TYPES = {field.name: pa.int64() if pa.types.is_timestamp(field.type) else field.type for field in HISTORY_ROWS}
"""Arrow type of each column in a `Row`: times are integers."""
